"""Jadbabaie et al. (2023), the comparison that they leave as future work: what FedLRGD, FedAve and others cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from fedsolve.complexity.oracle import Sending
from fedsolve.report.figures import Figure, style
from fedsolve.reproduce.fedlrgd.cost_bounds import lemma_3, theorem_2
from fedsolve.reproduce.fedlrgd.cost_claims import claims
from fedsolve.reproduce.fedlrgd.cost_paths import ACCURACIES, SHOWN, chosen, winners
from fedsolve.reproduce.fedlrgd.cost_problem import CLIENTS, KINDS, L2, OWN, SAMPLES, CostProblem, P, posed
from fedsolve.reproduce.fedlrgd.cost_runs import FEDAVE, METHODS, PHIS, QUICK, SENDINGS, Costs, Grid, compared
from fedsolve.reproduce.fedlrgd.cost_table import Found
from fedsolve.reproduce.fedlrgd.fedave_lanes import REPETITIONS
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import QUARTILES, Cell, Column, Measured, Result

DRAWN = (1.0, 100.0)  # φ of the figure
WORDS: Mapping[Sending, str] = {"epochs": "message", "vectors": "vector"}
PANELS = {"alike": "clients alike", "different": "clients different"}

NOTES = (
    "Γ is that of Definition 1 when (F − F*)/(F(0) − F*) ≤ ε after a round for the first time; – is not reached. The "
    "cheapest by its median is named.",
    "φ for a message: whatever is in it. Definition 1 allows vectors of p numbers only; Newton sends Hessians, and "
    "FedLRGD by default all weights, in one message. φ for a vector: for every p numbers. Values and bounds that "
    "travel along count, each as half a vector at p = 2.",
    "All minimise the same F, of the clients' and the server's samples together. FedLRGD has the latter at the server. "
    f"For the others they are dealt out, one to each of the first {OWN} clients: no client more has to send.",
    "Newton and FedLRGD ask for value and gradient at a point before the round ends, which counts. Algorithm 1 does "
    "not.",
    "Algorithm 1 is tuned over r and S; FedAvg on all samples over local steps and step size; FedLRGD, AGD and Newton "
    "have their defaults. A tuned method is the best run for every φ and ε anew.",
    f"FedAve is tuned over b, τ and step size. It reaches ε when the mean of {REPETITIONS} repetitions does (equation "
    "12), looked at after every epoch, above 50 epochs every 2 % of them. It is computed for all step sizes at once, "
    "not by fs.FedAvg, whose ledger is compared with Γ = T (b + φτm).",
    "FedAve/FedLRGD is to the cheaper of both FedLRGD; where FedAve was stopped before it reached ε, it is the least "
    "that it can be.",
    "Theorem 2 and Lemma 3, from which Theorem 3 follows: the Γ that they say is enough for the same problem, with the "
    "best η and b. Assumed: α = 1, E‖θ^(T₀) − θ*‖² ≤ ‖θ*‖². Lemma 3 is for clients that are alike.",
)


@experiment(
    "fedlrgd-complexity",
    paper="FedLRGD",
    place="Theorems 2 and 3, Proposition 1",
    title="Federated oracle complexity of FedLRGD, FedAve, AGD and Newton",
    takes="4 min",
    seeds=5,
)
def complexity(seeds: Seeds, quick: bool) -> Result:
    """Γ until (F − F*) ≤ ε (F(0) − F*), by φ and ε, for clients that are alike and for such that are not."""
    grid = QUICK if quick else Grid()
    made: dict[str, list[Costs]] = {kind: [] for kind in KINDS}
    problems: dict[str, list[CostProblem]] = {kind: [] for kind in KINDS}
    for seed, kind in seeds.over(KINDS):
        problems[kind].append(posed(kind, seed))
        made[kind].append(compared(problems[kind][-1], grid, seed))
    found = Found(made)
    number = Column("", "{:,.0f}".format).text
    return Result(
        columns=(
            Column("clients"),
            Column("φ for a"),
            Column("φ", number),
            Column("ε", "{:.0e}".format),
            *(Column(name, number, infinite="–") for name in METHODS),
            Column("cheapest"),
            Column("FedAve/FedLRGD", "{:.2f}".format, infinite="–"),
            Column("Theorem 2", "{:.0e}".format),
            Column("Lemma 3", "{:.0e}".format),
        ),
        rows=[
            _row(found, problems[kind], kind, sending, phi, place)
            for kind in KINDS
            for sending in SENDINGS
            for phi in PHIS
            for place in SHOWN
        ],
        claims=claims(found, problems, quick),
        notes=_notes(found, problems, grid),
        draw=partial(_draw, found),
    )


def _row(
    found: Found, problems: Sequence[CostProblem], kind: str, sending: Sending, phi: float, place: int
) -> tuple[Cell, ...]:
    each = {name: found.cost(kind, name, sending, phi, place) for name in METHODS}
    share = float(ACCURACIES[place])
    bounds: tuple[Cell, Cell] = (None, None)
    if sending == "epochs":
        ours = Measured(tuple(theorem_2(one, share, phi).total for one in problems))
        theirs = Measured(tuple(lemma_3(one, share, phi) for one in problems)) if kind == "alike" else None
        bounds = (ours, theirs)
    return (
        kind,
        WORDS[sending],
        phi,
        share,
        *each.values(),
        winners({name: one.median for name, one in each.items()}),
        found.ratio(kind, sending, phi, place),
        *bounds,
    )


def _notes(found: Found, problems: Mapping[str, Sequence[CostProblem]], grid: Grid) -> tuple[str, ...]:
    every = [one for each in problems.values() for one in each]
    near = sum(one.samples**-0.5 >= one.minimum.first - one.minimum.least for one in every)
    singular = sum(one.singular for each in found.costs.values() for one in each)
    places = [(phi, place) for phi in PHIS for place in SHOWN]
    largest = max(b for _, bs in grid.batches for b in bs)
    best = [
        chosen(one.paths[FEDAVE, "epochs"], *where) for each in found.costs.values() for one in each for where in places
    ]
    at_end = sum(words.startswith(f"b = {largest},") for words in best)
    return (
        f"Logistic regression, p = {P}, l2 = {L2:g}, x in [0, 1]^{P}; {CLIENTS} clients of {SAMPLES} samples, {OWN} "
        "at the server. Alike: x uniform, labels by one rule. Different: each client draws x from a beta distribution "
        "of its own, and its labels are shifted.",
        f"In {near} of {len(every)} problems θ = 0 is already within n^(−1/2) of the minimum, below which the authors "
        f"see no gain. {singular} runs of Algorithm 1 ended because a matrix could not be inverted.",
        f"The largest b of FedAve, {largest}, is the best in {at_end} of {len(best)} places (seeds, φ, ε, clients).",
        *NOTES,
    )


def _draw(found: Found, figure: Figure) -> None:
    accuracies = ACCURACIES[1:]
    axes = figure.subplots(len(KINDS), len(DRAWN), sharey=True, sharex="col")
    for line, kind in zip(axes, KINDS, strict=True):
        for axis, phi in zip(line, DRAWN, strict=True):
            for place, name in enumerate(METHODS):
                curves = found.curves(kind, name, "vectors", phi)[:, 1:]  # without ε = 1
                middle = np.median(curves, axis=0)
                low, high = np.quantile(curves, QUARTILES, axis=0, method="inverted_cdf")
                kept = np.isfinite(middle) & np.isfinite(high)
                look = style(place)
                axis.plot(middle[kept], accuracies[kept], label=name, linewidth=1.6, markersize=4, markevery=4, **look)
                axis.fill_betweenx(
                    accuracies[kept], low[kept], high[kept], color=look["color"], alpha=0.15, linewidth=0
                )
            axis.set(xscale="log", yscale="log")
            axis.set_title(f"{PANELS[kind]}, φ = {phi:g} for a vector", fontsize=10)
            axis.grid(True, which="major", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    for line in axes:
        line[0].set_ylabel("(F − F*) / (F(0) − F*)")
    for axis in axes[-1]:
        axis.set_xlabel("Γ")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
