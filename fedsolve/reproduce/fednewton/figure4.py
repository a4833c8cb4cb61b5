"""FedNewton, Figure 4: clients with different inputs (α, left) and different models (β, right)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import REFERENCE, RULE, among_seeds, judged
from fedsolve.reproduce.fednewton.methods import SHOWN, shown_scores
from fedsolve.reproduce.fednewton.synthetic import SETTING, VISIBLE, problem
from fedsolve.reproduce.figures import draw_curves
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

CLIENTS, EACH = 20, 500
ALPHAS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.0375, 0.04, 0.05, 0.07)
BETAS = (0.0, 0.0001, 0.001, 0.01, 0.03, 0.1, 0.3)
STABLE, UNSTABLE = 0.02, 0.03  # reference: ρ crosses 1 between these α
OVERTAKEN = 0.035  # reference: from here on DKRR's error is below that of eight rounds
PRINTED_SHIFT, PRINTED_MODEL_SHIFT = 0.466, 0.0135  # the paper's thresholds, in Δ_Dj and Δ_fj

Case = tuple[float, float]  # α, β


def crossing(alphas: Sequence[float], ratios: Sequence[float]) -> float:
    """Where a ratio rises above 1 for good, interpolated by its logarithm; infinite if it ends below 1."""
    below = [i for i, ratio in enumerate(ratios) if ratio <= 1]
    last = below[-1] if below else 0
    if last == len(ratios) - 1:
        return math.inf
    low, high = math.log(ratios[last]), math.log(ratios[last + 1])
    return alphas[last] + (alphas[last + 1] - alphas[last]) * max(-low, 0.0) / (high - min(low, 0.0))


def _crossings(tally: Tally[Case], left: Sequence[Case], upper: str, lower: str | None = None) -> Measured:
    """The α at which a score, or the ratio of two, rises above 1: one for each seed."""
    values = np.array([tally.measured(case, upper).values for case in left])
    ratios = values / (1.0 if lower is None else np.array([tally.measured(case, lower).values for case in left]))
    return Measured(tuple(crossing([case[0] for case in left], list(column)) for column in ratios.T))


def _draw(tally: Tally[Case], left: Sequence[Case], right: Sequence[Case], figure: Figure) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    for axis, some, shift, what in ((axes[0], left, 0, "α, of the inputs"), (axes[1], right, 1, "β, of the models")):
        xs = [case[shift] for case in some]
        draw_curves(axis, tally.relative(list(some), xs, list(SHOWN), to="KRR"), over=what, log=False)
    axes[0].set_ylim(*VISIBLE)
    axes[1].set_xscale("symlog", linthresh=BETAS[1])
    axes[1].set_xlim(left=0.0)
    axes[0].set_ylabel("mean squared error on test points, of KRR's")
    axes[0].legend(frameon=False)


@experiment(
    "fednewton-fig4",
    paper="FedNewton",
    place="Figure 4",
    title="FedNewton on clients with different inputs or different models",
    takes="30 s",
)
def fig4(seeds: Seeds, quick: bool) -> Result:
    """Slightly different inputs make FedNewton diverge; different models affect all methods alike."""
    alphas, betas = (ALPHAS[::2], BETAS[::3]) if quick else (ALPHAS, BETAS)
    left: list[Case] = [(alpha, 0.0) for alpha in alphas]
    right: list[Case] = [(0.0, beta) for beta in betas]
    cases = [*left, *right[1:]]
    tally = Tally[Case]()
    for seed, case in seeds.over(cases):
        posed = problem(CLIENTS, EACH, case[0], seed, beta=case[1])
        tally.add(case, {"ρ": posed.rho, "Δ_D": posed.data_shift, "Δ_f": posed.model_shift})
        tally.add(case, shown_scores(posed.clients, SETTING, posed.test_error))

    unstable, overtaken = _crossings(tally, left, "ρ"), _crossings(tally, left, "#8", "DKRR")
    rho = {alpha: tally.measured((alpha, 0.0), "ρ").median for alpha in (STABLE, UNSTABLE)}
    spoilt = [tally.measured(cases[-1], heading).median for heading in SHOWN]
    at = float(np.interp(overtaken.median, alphas, [tally.measured(case, "Δ_D").median for case in left]))
    model_shift = [tally.measured(case, "Δ_f").median for case in right]

    error = "{:.4g}".format
    return Result(
        columns=(
            Column("α, β"),
            Column("Δ_D"),
            Column("Δ_f"),
            Column("ρ"),
            *(Column(heading, error) for heading in SHOWN),
        ),
        rows=[
            (f"{case[0]:g}, {case[1]:g}", *(tally.measured(case, name) for name in ("Δ_D", "Δ_f", "ρ", *SHOWN)))
            for case in cases
        ],
        claims=(
            (
                f"ρ crosses 1 between α = {STABLE} and {UNSTABLE}",
                judged(
                    rho[STABLE] < 1 < rho[UNSTABLE],
                    f"medians {', '.join(f'{value:.3g} at {alpha}' for alpha, value in rho.items())}; "
                    f"the seeds cross between {min(unstable.values):.3g} and {max(unstable.values):.3g}",
                    len(seeds),
                ),
            ),
            (f"8 rounds are overtaken by DKRR near α ≈ {OVERTAKEN}", among_seeds(overtaken, OVERTAKEN, 0.001)),
        ),
        notes=(
            f"{CLIENTS} clients with {EACH} samples each, otherwise as fednewton-fig3; test points have neither shift. "
            "A seed crosses where the ratio rises above 1 for good, interpolated by its logarithm. Some seeds have a "
            f"KRR worse than DKRR at α = 0; that is not counted as a crossing. {REFERENCE} {RULE}",
            f"The median seed is overtaken at α = {overtaken.median:.3g} and the earliest at "
            f"{min(overtaken.values):.3g}, reference {OVERTAKEN}.",
            "Δ_D is the mean spectral norm of C_D − C_Dj, Δ_f the mean of |f* − f_j*| over a client's inputs. The "
            f"paper states neither norm and prints thresholds of {PRINTED_SHIFT} and {PRINTED_MODEL_SHIFT}: eight "
            f"rounds are overtaken here at Δ_D = {at:.3g}, and no Δ_f but 0 on this grid is below "
            f"{min(model_shift[1:]):.3g}. The two scales cannot be compared.",
            f"With β = {betas[-1]:g} the methods end between {min(spoilt):.3g} and {max(spoilt):.3g}; the paper says "
            "that all methods are similarly poor once the models differ enough.",
        ),
        draw=partial(_draw, tally, left, right),
        printed_by="reference",
    )
