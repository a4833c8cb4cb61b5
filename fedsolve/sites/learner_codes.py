"""Columns that a learner takes for categories, by codes 0, 1, …

Of every level of a category a fit says something. What a column is, is the site's to say: numbers that nobody declared
to be categories are not taken for such, or each person with a number of their own would be a level.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Discrete
from fedsolve.errors import PolicyRefusal
from fedsolve.learners.shared_bins import SharedBins
from fedsolve.sites.parts import parts_of


def check_codes(protocols: Mapping[str, object]) -> None:
    """Raise PolicyRefusal for a column that a learner takes for codes, and that is not declared as such: as numbers
    with the choices 0, 1, …, as they are. (That the site has declared the same choices is known then.)"""
    preprocess = protocols.get("preprocess")
    for part in parts_of(protocols):
        for which, count in part.declared_codes if isinstance(part, SharedBins) else ():
            if not _is_declared(preprocess, which, count):
                raise PolicyRefusal(
                    "terms",
                    f"the learner takes column {which!r} for codes of {count} categories, and it is not declared as "
                    f"such: declare it in [[schema]] at all sites, by its name, with choices = [0, 1, …, {count - 1}] "
                    "and without scaling, or as categories, which a learner need not list",
                )


def _is_declared(preprocess: object, which: str | int, count: int) -> bool:
    """Whether a run has declared that a column holds the codes of so many categories."""
    if type(preprocess) is not Preprocess or preprocess.schema is None or preprocess.formula is not None:
        return False
    column = next((one for one in preprocess.schema.columns if one.name == which), None)
    if not isinstance(column, Discrete) or column.scaling is not None:
        return False
    return sorted(column.choices) == list(range(count))
