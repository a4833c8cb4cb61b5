"""What a table of coefficients leaves open: what the outcome is, what categories are compared with, and what stands for
missing cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_factors import Category
from fedsolve.data.schema import Categorical, Column
from fedsolve.inference.existence import MOST_NAMED
from fedsolve.inference.score_sums import FEW
from fedsolve.losses import LinearLoss, Logistic


def legend(loss: LinearLoss, classes: Sequence[object] | None, transform: Transform | None, weight: float) -> list[str]:
    """A sentence each. `weight` is that of all rows."""
    said = []
    if isinstance(loss, Logistic) and classes is not None and len(classes) == 2:
        said.append(f"{classes[1]} counts as 1, {classes[0]} as 0: the odds are those of {classes[1]}.")
    if transform is not None:
        said += _references(transform)
        said += _imputed(transform, weight)
    return said


def _references(transform: Transform) -> list[str]:
    found = dict[str, str]()
    if transform.design is None:
        dropped = [one for one in transform.columns if isinstance(one, Categorical) and one.drop_first]
        found = {one.name: _shown(one.categories[0]) for one in dropped}
    else:
        known = {one.name: one for one in transform.columns}
        for factor in transform.design.factors:
            column, zeros = known.get(getattr(factor, "source", "")), _zero_rows(factor)
            if isinstance(column, Categorical) and len(zeros) == 1 and zeros[0] < len(column.categories):
                found[column.name] = _shown(column.categories[zeros[0]])
    listed = [f"{name}: compared with {reference}" for name, reference in found.items()]
    return [f"{'; '.join(listed)}."] if listed else []


def _zero_rows(factor: object) -> list[int]:
    """The levels that have no column of their own, where the others have one each."""
    if not isinstance(factor, Category) or not factor.is_indicator:
        return []
    return [place for place, row in enumerate(factor.coding) if not any(row)]


def _imputed(transform: Transform, weight: float) -> list[str]:
    """How many cells of which columns were missing, by what stands for them."""
    if transform.missing is None:
        return []
    groups: dict[str, dict[str, int]] = {}
    for column, share in zip(transform.columns, np.asarray(transform.missing).tolist(), strict=True):
        count = round(share * weight)
        words = replaced_by(column)
        if count > 0 and words is not None and (transform.needed is None or column.name in transform.needed):
            groups.setdefault(words, {})[column.name] = count
    return [_sentence(words, counts) for words, counts in groups.items()]


def _sentence(words: str, counts: dict[str, int]) -> str:
    whole = sum(counts.values())
    listed = [f"{name} {count if count >= FEW else f'fewer than {FEW}'}" for name, count in counts.items()]
    more = f" and {len(listed) - MOST_NAMED} more columns" if len(listed) > MOST_NAMED else ""
    each = f"{', '.join(listed[:MOST_NAMED])}{more}"
    counted = all(count >= FEW for count in counts.values())
    return f"Missing cells replaced by {words}: {f'{whole:,} ({each})' if counted else each}."


def replaced_by(column: Column) -> str | None:
    """What stands for a missing cell of a column, in words; None: nothing does."""
    if column.is_complete:
        return None
    if column.impute == "mean":
        return "the mean of all sites"
    if column.needs_mode:
        return "the most frequent value"
    if isinstance(column, Categorical):
        if column.impute is not None:
            return f"{column.impute}"
        return "a category of their own" if column.indicator or column.unseen == "other" else "the reference"
    return None if column.impute is None or column.keeps_missing else f"{column.impute:g}"


def _shown(category: str | float) -> str:
    return category if isinstance(category, str) else f"{category:.15g}"
