"""FedNewton, Figures 3 and 5 (right): MNIST, by the samples of a client and round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from fedsolve.data import IID, Dirichlet, QuantitySkew, load, one_hot, split_indices
from fedsolve.data.partition_schemes import Scheme
from fedsolve.diagnose import contraction
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.federation.transports import InProcess
from fedsolve.losses import Squared
from fedsolve.report.figures import Figure
from fedsolve.reproduce.fednewton.lines import LOOKS, ONE_SHOT, POOLED, draw_lines, legend_outside
from fedsolve.reproduce.fednewton.methods import SHOWN, Setting, scores, shown_scores
from fedsolve.reproduce.fednewton.table2 import CASES, FEATURES, Rows, rows_of
from fedsolve.reproduce.figures import draw_curves, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

CASE = next(case for case in CASES if case.data == "mnist")
GRID = (10, 13, 18, 24, 36)  # clients: 6,000, 4,615, 3,333, 2,500 and 1,666 samples each
TOO_FEW, ENOUGH = 3300, 4400  # the paper's thresholds
QUICK_ROWS, QUICK_FEATURES = 3000, 100
CLIENTS, LAST = 10, 20
STEPS = 12  # of Lanczos
LISTED = (0, 1, 2, 3, 4, 6, 8, 12, 16, 20)
ITERATIVE = ("FedAvg", "FedProx", "FedNewton", "FedNewtonCG")
NEAR = 0.2  # points: FedNewton has reached KRR


@cache
def _rows(quick: bool) -> Rows:
    rows = rows_of(load("mnist"), 0)
    return Rows(rows.X[:QUICK_ROWS], rows.y[:QUICK_ROWS], rows.X_test, rows.y_test) if quick else rows


class Posed:
    """MNIST through the random features of a seed, divided in any way."""

    def __init__(self, quick: bool, seed: int) -> None:
        self.rows, self.seed = _rows(quick), seed
        phi = RandomFourier.fednewton(CASE.std, QUICK_FEATURES if quick else FEATURES, seed)
        self.inputs, self.test = phi.block(self.rows.X), phi.block(self.rows.X_test)
        self.targets = one_hot(self.rows.y, self.rows.classes)

    def clients(self, scheme: Scheme, count: int) -> list[Client]:
        parts = split_indices(self.rows.y, scheme, clients=count, seed=self.seed)
        return [Client(f"client-{j}", self.inputs[part], self.targets[part]) for j, part in enumerate(parts)]

    def accuracy(self, w: Array) -> float:
        return 100 * float(np.mean((self.test @ w).argmax(axis=1) == self.rows.y_test))

    def rho(self, clients: Sequence[Client], l2: float) -> float:
        """Of clients whose Gram matrices are known already."""
        return contraction(Squared(l2=l2), InProcess(clients, keep_caches=True), STEPS, self.seed).rho


def _threshold_claims(tally: Tally[int], size: Mapping[int, int], quick: bool) -> list[tuple[str, Verdict]]:
    def means(m: int, name: str) -> float:
        return tally.measured(m, name).mean

    few, many = [m for m in size if size[m] < TOO_FEW], [m for m in size if size[m] > ENOUGH]
    between = [m for m in size if m not in few and m not in many]
    worse = [m for m in few if means(m, "#8") < means(m, "DKRR")]
    falls = [m for m in few if means(m, "#2") > means(m, "#4") > means(m, "#8")]
    better = [m for m in many if means(m, "#8") > means(m, "DKRR")]
    near = max(abs(means(m, "#8") - means(m, "KRR")) for m in many) if many else 0.0
    best = [m for m in many if means(m, "#8") > max(means(m, "FedAvg"), means(m, "FedProx"))]

    def told(of: Sequence[int]) -> str:
        return "; ".join(
            f"n = {size[m]}: DKRR {means(m, 'DKRR'):.2f}, #2 {means(m, '#2'):.2f}, #8 {means(m, '#8'):.2f}, ρ "
            f"{tally.measured(m, 'ρ').median:.2f}"
            for m in of
        )

    found = [
        (f"n < {TOO_FEW}: 8 rounds are worse than DKRR", Verdict(worse == few, told(few))),
        (f"n < {TOO_FEW}: more rounds are worse", Verdict(falls == few, told(few))),
        (f"n > {ENOUGH}: 8 rounds are better than DKRR", Verdict(better == many, told(many))),
        (f"n > {ENOUGH}: 8 rounds are close to KRR", Verdict(near <= 0.05, f"at most {near:.3f} points from KRR")),
        (f"n > {ENOUGH}: FedNewton is better than FedAvg and FedProx", Verdict(best == many, told(many))),
        (
            f"between {TOO_FEW} and {ENOUGH} samples 8 rounds are not yet better than DKRR",
            Verdict(all(means(m, "#8") <= means(m, "DKRR") for m in between), told(between)),
        ),
    ]
    return [(claim, Verdict(None, one.said) if quick else one) for claim, one in found]


@experiment(
    "fednewton-fig3-mnist",
    paper="FedNewton",
    place="Figure 3, right",
    title="FedNewton on MNIST with few or many samples per client",
    takes="10 min",
    seeds=3,
)
def fig3_mnist(seeds: Seeds, quick: bool) -> Result:
    """With few samples per client, eight rounds are worse than DKRR."""
    tally = Tally[int]()
    size = {m: len(_rows(quick).y) // m for m in (GRID[::2] if quick else GRID)}
    posed: Posed | None = None
    for seed, m in seeds.over(size):
        posed = posed if posed is not None and posed.seed == seed else Posed(quick, seed)
        clients = posed.clients(IID(), m)
        found = shown_scores(clients, CASE.setting, posed.accuracy)
        tally.add(m, {**found, "ρ": posed.rho(clients, CASE.setting.l2)})

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        medians = {name: [tally.measured(m, name).median for m in size] for name in SHOWN}
        draw_lines(axis, list(size.values()), medians, "samples of a client, |D_j|")
        axis.set_ylim(90, 96)
        axis.set_ylabel("accuracy, %, median")
        legend_outside(figure, axis)

    return Result(
        columns=(
            Column("m, n"),
            Column("ρ"),
            *(Column(name, "{:.2f}".format, average="mean") for name in SHOWN),
        ),
        rows=[
            (f"{m}, {n}", tally.measured(m, "ρ"), *(tally.measured(m, name) for name in SHOWN)) for m, n in size.items()
        ],
        claims=_threshold_claims(tally, size, quick),
        notes=(
            f"MNIST, iid over m clients, settings of Table 2 (M = {FEATURES}, std(Ω) = 0.1, λ = 1e-5). Test accuracy "
            f"in per cent; ρ from {STEPS} Lanczos steps. Claims compare means over the seeds.",
            f"The paper prints the thresholds {TOO_FEW} and {ENOUGH} only.",
        ),
        draw=draw,
    )


READINGS: dict[str, tuple[Scheme, Setting]] = {
    "Dirichlet(0.5) by label": (Dirichlet(0.5), CASE.setting),
    "sizes by Dirichlet(0.5)": (QuantitySkew(0.5), CASE.setting),
    "by label, λ = 1e-3": (Dirichlet(0.5), Setting(1e-3, CASE.setting.pull, CASE.setting.step_size)),
    "by label, Dirichlet(100)": (Dirichlet(100.0), CASE.setting),
}


def _reading_claims(traces: Mapping[str, Mapping[str, list[list[float]]]], quick: bool) -> list[tuple[str, Verdict]]:
    found = []
    for reading, each in traces.items():
        ends = [errors[LAST] for errors in each["FedNewton"]]
        pooled = [errors[0] for errors in each["KRR"]]
        near = all(abs(a - b) <= NEAR for a, b in zip(ends, pooled, strict=True))
        said = f"{min(ends):.1f} to {max(ends):.1f} after {LAST} rounds, KRR {np.mean(pooled):.1f}"
        found.append((f"FedNewton reaches KRR, {reading}", Verdict(near, said)))
    main = next(iter(traces.values()))
    both = zip(main["FedNewtonCG"], main["KRR"], strict=True)
    far = max(abs(errors[LAST] - pooled_errors[0]) for errors, pooled_errors in both)
    found.append(
        ("FedNewtonCG reaches KRR, Dirichlet(0.5) by label", Verdict(far <= NEAR, f"at most {far:.2f} points"))
    )
    means = {name: float(np.mean([errors[LAST] for errors in main[name]])) for name in ITERATIVE[:2]}
    means["DKRR"] = float(np.mean([errors[0] for errors in main["DKRR"]]))
    ordered = means["FedProx"] > means["FedAvg"] > means["DKRR"]
    said = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
    found.append(("FedProx > FedAvg > DKRR, Dirichlet(0.5) by label", Verdict(ordered, said)))
    return [(claim, Verdict(None, one.said) if quick else one) for claim, one in found]


@experiment(
    "fednewton-fig5-mnist",
    paper="FedNewton",
    place="Figure 5, right",
    title="FedNewton and first-order methods on MNIST, round by round",
    takes="10 min",
    seeds=3,
)
def fig5_mnist(seeds: Seeds, quick: bool) -> Result:
    """With labels divided by Dirichlet(0.5) plain FedNewton diverges; with sizes alone it does not."""
    traces: dict[str, dict[str, list[list[float]]]] = {
        reading: {name: [] for name in ("KRR", "DKRR", *ITERATIVE)} for reading in READINGS
    }
    rho: dict[str, list[float]] = {reading: [] for reading in READINGS}
    posed: Posed | None = None
    for seed, reading in seeds.over(READINGS):
        posed = posed if posed is not None and posed.seed == seed else Posed(quick, seed)
        scheme, setting = READINGS[reading]
        clients = posed.clients(scheme, CLIENTS)
        for name, values in scores(clients, setting, posed.accuracy, LAST).items():
            traces[reading][name].append(values)
        rho[reading].append(posed.rho(clients, setting.l2))

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        for axis, (reading, each) in zip(axes.flat, traces.items(), strict=True):
            axis.axhline(np.median([values[0] for values in each["DKRR"]]), label="DKRR", **ONE_SHOT)
            curves = {name: over_rounds(each[name]) for name in ITERATIVE}
            draw_curves(axis, curves, log=False, band=False, looks=LOOKS)
            axis.axhline(np.median([values[0] for values in each["KRR"]]), label="KRR", **POOLED)
            axis.set_title(f"{reading}: ρ = {np.median(rho[reading]):.2g}", fontsize=10)
            axis.set_ylim(85, 96.5)
        for axis in axes[:, 0]:
            axis.set_ylabel("accuracy, %, median")
        legend_outside(figure, axes[0, 0])

    def cells(reading: str, t: int) -> list[Measured]:
        return [Measured(tuple(values[t] for values in traces[reading][name])) for name in ITERATIVE]

    return Result(
        columns=(
            Column("clients"),
            Column("round"),
            Column("ρ"),
            *(Column(name, "{:.2f}".format, average="mean") for name in ITERATIVE),
        ),
        rows=[
            (reading, str(t), Measured(tuple(rho[reading])), *cells(reading, t)) for reading in READINGS for t in LISTED
        ],
        claims=_reading_claims(traces, quick),
        notes=(
            f"MNIST over {CLIENTS} clients, settings of Table 2 but where said. Test accuracy in per cent; round 0 is "
            f"DKRR for every method. FedNewton has reached KRR if it is within {NEAR} points of it after {LAST} rounds "
            f"in every seed. ρ from {STEPS} Lanczos steps.",
            "The paper says “partitioned by a Dirichlet distribution Dir_K(0.5)”. The first line divides each label by "
            "proportions from Dirichlet(0.5); the second only the number of samples; the others show what would make "
            "FedNewton converge on clients with different labels.",
        ),
        draw=draw,
    )
