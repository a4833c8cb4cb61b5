"""What a reader of a summary should know besides its table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fedsolve.data.fitted_transform import Transform
from fedsolve.inference.aliased import NEARLY
from fedsolve.inference.design_columns import DesignColumn
from fedsolve.inference.estimates import Estimates
from fedsolve.inference.existence import FEW_ROWS, MOST_NAMED, Columns
from fedsolve.inference.reopened import FinishedRun
from fedsolve.inference.score_sums import TOTALS
from fedsolve.inference.standard_errors import LEAST_SITES, Answers, StandardErrors
from fedsolve.losses import LinearLoss, Squared

WORTH_SAYING = 0.01  # standard errors from the maximum


def notes(
    run: FinishedRun,
    protocol: StandardErrors,
    answers: Answers,
    found: Estimates,
    columns: Sequence[DesignColumn],
    told: Columns,
    aliased: Mapping[str, tuple[str, ...]],
    implied: bool,
) -> tuple[str, ...]:
    """One sentence or two each."""
    loss, said = protocol.loss, list[str]()
    said += _penalty(loss)
    said += _aliased(aliased)
    if found.aliases.least < NEARLY:
        said.append(
            "Some columns are nearly collinear, or far from zero for their spread: standard errors may have lost half "
            "of their digits. Standardise the columns (preprocess=fs.data.Preprocess()), or leave one out."
        )
    names = [columns[place].name for place in told.few if columns[place].name not in aliased]
    if names:
        said.append(f"Few rows speak for {listed(names)}: {FEW_ROWS} have the indicator, or lack it.")
    if found.distance > WORTH_SAYING:
        said.append(_distance(run, loss, found))
    if found.is_exact:
        said.append("The columns predict the target exactly, so that standard errors are nothing but rounding.")
    said += _weights(protocol, answers)
    if implied:
        said.append("The model has no intercept; the one in raw units is what the centring of the columns comes to.")
    if answers.site_scores is not None and len(answers.site_scores) < LEAST_SITES:
        said.append(
            f"Standard errors clustered by {len(answers.site_scores)} sites are too small: fewer than {LEAST_SITES} "
            "clusters do not show how much sites differ."
        )
    return tuple(said)


def lost_sites(names: Sequence[str], joined: Collection[str]) -> list[str]:
    """That some sites are not part of it: those that never joined, and those that were lost later."""
    never = [name for name in names if name not in joined]
    gone = [name for name in names if name in joined]
    said = [f"The model is not fitted to the rows of {listed(never)}: took no part."] if never else []
    return said + ([f"The model is not fitted to the rows of {listed(gone)}: lost during the run."] if gone else [])


def _distance(run: FinishedRun, loss: LinearLoss, found: Estimates) -> str:
    said = (
        f"The run ended as {run.status!r}, and coefficients may be {found.distance:.1g} standard errors away from the "
    )
    if run.status == "converged":
        return said + "maximum: give it a smaller tolerance."
    if loss.l2 or isinstance(loss, Squared):
        return said + "maximum: give it more rounds."
    return said + "maximum, if there is one: give it more rounds, so that it can tell whether a finite estimate exists."


def knots(transform: Transform | None) -> list[str]:
    """Where the splines of a formula have their knots, so that the same model can be fitted elsewhere."""
    return [] if transform is None or transform.design is None else [f"{one}." for one in transform.design.in_words()]


def _penalty(loss: LinearLoss) -> list[str]:
    if not loss.l2:
        return []
    return [
        f"The fit is penalised (l2 = {loss.l2:g}), so that these are no confidence intervals of the usual kind: "
        "estimates are pulled towards zero. Model-based intervals hold the coefficient with the stated probability "
        "under the prior that the penalty stands for; robust ones are about the penalised coefficient, and ignore the "
        "pull. There are no p values. Fit without a penalty to test."
    ]


def _aliased(aliased: Mapping[str, tuple[str, ...]]) -> list[str]:
    if not aliased:
        return []
    each = [f"{name} ({f'of {listed(parts)}' if parts else 'the same in all rows'})" for name, parts in aliased.items()]
    return [
        "These columns are linear combinations of others, so that they have no estimates of their own, and the rest is "
        f"as if they were left out: {'; '.join(each[:MOST_NAMED])}"
        + (f"; and {len(each) - MOST_NAMED} more." if len(each) > MOST_NAMED else ".")
    ]


def _weights(protocol: StandardErrors, answers: Answers) -> list[str]:
    totals = dict(zip(TOTALS, answers.sums.totals.tolist(), strict=True))
    if protocol.weights == "frequency" and totals["fractional"]:
        return [
            "Some sample weights are not whole numbers, and were taken as frequencies: a row of weight 2.5 stands for "
            "two and a half rows. For survey, inverse-probability or precision weights use "
            "fs.StandardErrors(loss, weights='reliability') and robust errors."
        ]
    return []


def listed(names: Sequence[str]) -> str:
    """The names as in a sentence, not too many of them."""
    shown, more = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + shown[-1]
