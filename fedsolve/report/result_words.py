"""What came out, in plain sentences: the first lines of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedsolve.algorithms.base import includes_server
from fedsolve.data.fitted_transform import Transform
from fedsolve.data.schema import Categorical, Numeric
from fedsolve.inference import Summary
from fedsolve.inference.summarised import INTERCEPT
from fedsolve.inference.summary_rows import Coefficient
from fedsolve.loop.history import Run
from fedsolve.losses import LinearLoss
from fedsolve.report.fitted import lost_at_the_end, never_joined
from fedsolve.report.tables import listed
from fedsolve.text import printable

MOST_SAID = 3  # columns
MOST_NAMED = 6  # of the others
RATES = {"binomial": "odds", "Poisson": "rate"}


def result_sentences(run: Run, rows: int, inferred: Summary | str | None, outcome: object = None) -> list[str]:
    """Whether the fit is complete, and which columns matter. `rows` is how many the run learned from."""
    return [*_fit(run, rows), *(_effects(run, inferred, outcome) if isinstance(inferred, Summary) else ())]


def _fit(run: Run, rows: int) -> list[str]:
    """That the fit is the pooled one, where it is known to be."""
    loss = getattr(run.algorithm, "loss", None)
    if run.status != "converged" or not isinstance(loss, LinearLoss):
        return []
    never = never_joined(run)
    absent = f"{printable(listed(never))} took no part" if never else ""
    if run.model_row.objective_share < 1 - 1e-12:
        lost = [name for name in lost_at_the_end(run) if name not in never]
        which = f"{printable(listed(lost))} {'was' if len(lost) == 1 else 'were'}" if lost else "some were"
        said = f"The fit is complete, but not to the rows of all sites: {which} lost during the run"
        return [f"{said}, and {absent}." if absent else f"{said}."]
    if includes_server(run.algorithm) or not rows:
        return [f"The fit is complete; {absent}." if absent else "The fit is complete."]
    penalty = " with the same penalty" if loss.l2 or loss.l1 else ""
    if absent:
        whose = printable(listed(_joined(run)))
        return [f"The fit is complete, and equals a fit to all {rows:,} rows of {whose} together{penalty}; {absent}."]
    return [f"The fit is complete, and equals a fit to all {rows:,} rows together{penalty}."]


def _joined(run: Run) -> list[str]:
    """The sites that have answered anything."""
    return list(dict.fromkeys(name for record in run.ledger.records for name in record.answered))


def _effects(run: Run, found: Summary, outcome: object) -> list[str]:
    """The columns whose intervals leave out "no effect", the surest first; of one outcome with ratios or differences,
    and without a penalty, which pulls estimates to zero."""
    if found.l2 or len(found.outcomes) > 1:
        return []
    level = f"{100 * found.level:g} % interval"
    lines = [one for one in found.coefficients() if one.name != INTERCEPT and one.p is not None]
    sure = sorted((one for one in lines if one.p < 1 - found.level), key=lambda one: -abs(one.z or 0.0))  # type: ignore[operator]
    if not lines:
        return []
    if not sure:
        return [f"No column has an effect whose {level} leaves out zero."]
    transform = getattr(run.model, "transform", None)
    said = [_effect(found, one, transform) for one in sure[:MOST_SAID]]
    more = _further([printable(one.name) for one in sure[MOST_SAID:]])
    return [f"{_whose(run, found, outcome)} {'; '.join(said)} ({level} in brackets).{more}"]


def _further(names: Sequence[str]) -> str:
    """That more columns have an effect, by name."""
    if not names:
        return ""
    if len(names) == 1:
        return f" One more column has an effect: {names[0]}."
    shown, others = names[:MOST_NAMED], len(names) - MOST_NAMED
    named = f"{', '.join(shown)} and {others} more" if others > 0 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f" {len(names)} more columns have an effect: {named}."


def _whose(run: Run, found: Summary, outcome: object) -> str:
    name = printable(outcome) if isinstance(outcome, str) else "the outcome"
    classes = getattr(run.model, "classes", None)
    if found.family == "binomial":
        of = f"{name} being “{printable(str(classes[1]))}”" if classes and len(classes) == 2 else name
        return f"The odds of {of} are"
    return f"The rate of {name} is" if found.family == "Poisson" else f"{name[:1].upper()}{name[1:]} is"


def _effect(found: Summary, one: Coefficient, transform: Transform | None) -> str:
    estimate, error, whom = _unit(found, one, transform)
    reach = found._quantile() * error
    values: Sequence[float] = (estimate, estimate - reach, estimate + reach)
    if found.ratio_name is not None:
        value, low, high = (_ratio(math.exp(min(each, 700.0))) for each in values)
        return f"{value} times ({low} to {high}) as high {whom}"
    value, low, high = (f"{each:.3g}" for each in values)
    return f"{'higher' if estimate > 0 else 'lower'} by {value.lstrip('-')} ({low} to {high}) {whom}"


def _ratio(value: float) -> str:
    return f"{value:.1f}" if 1 <= value < 100 else f"{value:.2g}"


def _unit(found: Summary, one: Coefficient, transform: Transform | None) -> tuple[float, float, str]:
    """The effect of a category, or of one standard deviation of a number, with its standard error."""
    name = printable(one.name)
    for column in () if transform is None or transform.design is not None else transform.columns:
        if isinstance(column, Categorical) and one.name.startswith(f"{column.name}="):
            against = f", compared with {column.categories[0]}" if column.drop_first else ""
            level = one.name.removeprefix(f"{column.name}=")
            return one.estimate, one.error, printable(f"for {column.name} {level}{against}")
        if isinstance(column, Numeric) and one.name == column.name and math.isfinite(one.standardised_error):
            return one.standardised, one.standardised_error, f"for one standard deviation more of {name}"
    return one.estimate, one.error, f"for one more of {name}"
