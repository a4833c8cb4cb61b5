"""SHED, Figures 4 and 5: the choice of ρ, and the convergence rates that the theory promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from fedsolve.algorithms import SHEDLeastSquares
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.renewals import Periodic
from fedsolve.diagnose import periodic_bound
from fedsolve.report.figures import Figure
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import spread, stated
from fedsolve.reproduce.figures import Curve, distinct_looks, draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict
from fedsolve.reproduce.shed.gaps import Optimum, Trace, follow, optimum
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.problems import Problem, images, news, songs
from fedsolve.reproduce.tally import Tally

REACHED = (1e-2, 1e-4, 1e-8)  # ‖θ − θ*‖ / ‖θ*‖
SIMILAR = 0.25  # by which rounds differ that are “very similar”
LEAST = 1e-12  # relative errors below are rounding
SHIFTS = {"ρ*, η = 1": "middle", "λ_{q+1}, η*": "largest"}


@experiment(
    "shed-fig4", paper="SHED", place="Figure 4", title="SHED-LS: the choice of ρ, on songs and news", takes="10 s"
)
def fig4(seeds: Seeds, quick: bool) -> Result:
    """ρ* between the eigenvalues not yet sent is slightly better than the largest of them with its best step."""
    made: dict[str, Callable[[int], Problem]] = {"songs": lambda seed: songs(iid=True, seed=seed)}
    if not quick:
        made["songs, distinct columns"] = lambda seed: songs(iid=True, seed=seed, distinct=True)
        made["news"] = lambda seed: news(seed=seed)
    traces: dict[tuple[str, str], list[Trace]] = {(data, name): [] for data in made for name in SHIFTS}
    tally = Tally[tuple[str, str]]()
    abouts: dict[str, str] = {}
    scales: dict[str, float] = {}
    for seed, data in seeds.over(made):
        posed = made[data](seed)
        best = optimum(posed.clients, posed.loss)
        abouts.setdefault(data, posed.about)
        scales[data] = best.error(0 * best.w)
        for name, shift in SHIFTS.items():
            algorithm = SHEDLeastSquares(posed.loss, shift=shift)  # type: ignore[arg-type]
            trace = follow(algorithm, best, gap=0.0, iterations=best.w.size)
            traces[data, name].append(trace)
            tally.add((data, name), {f"{one:g}": _reached(trace, one) for one in REACHED})
    claims = []
    for data in made:
        middle, largest = (traces[data, name] for name in SHIFTS)
        worse = [_worst(one, two) for one, two in zip(middle, largest, strict=True)]
        said = f"at most {number(max(worse), 4)} times the other's error in {len(worse)} splits"
        claims.append((f"{data}: ρ* is nowhere worse", stated(max(worse) <= 1 + 1e-6, said, quick)))
        rounds = [tally.measured((data, name), f"{REACHED[1]:g}") for name in SHIFTS]
        near = abs(rounds[0].median - rounds[1].median) <= SIMILAR * rounds[1].median
        said = f"{spread(rounds[0])} and {spread(rounds[1])} rounds to {REACHED[1]:g}"
        claims.append((f"{data}: both are very similar", stated(near, said, quick)))

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(made), squeeze=False)[0]
        looks = distinct_looks(list(SHIFTS))
        looks[list(SHIFTS)[-1]]["linestyle"] = "--"  # where both are the same, both are seen
        for axis, data in zip(axes, made, strict=True):
            curves = {name: over_rounds([one.errors for one in traces[data, name]]) for name in SHIFTS}
            draw_curves(axis, curves, looks=looks)
            axis.set_title(data, fontsize=10)
            axis.set_ylabel("‖θ − θ*‖")
            least = LEAST * scales[data]
            axis.set_ylim(bottom=least)
            above = [sum(e > least for e in one.errors) for name in SHIFTS for one in traces[data, name]]
            axis.set_xlim(right=max(above) + 2)
        legend_below(figure, list(axes))

    whole = "{:.0f}".format
    return Result(
        columns=(Column("data"), Column("ρ, η"), *(Column(f"to {one:g}", whole) for one in REACHED)),
        rows=[(data, name, *(tally.measured((data, name), f"{one:g}") for one in REACHED)) for data, name in traces],
        claims=claims,
        notes=(
            "Rounds until ‖θ − θ*‖ / ‖θ*‖ falls to the value in the heading; SHED-LS with one eigenvector per round. "
            "“Nowhere worse” means an error of at most 1 + 1e-6 times the other's after every round, as long as both "
            f"are above {LEAST:g}; Corollary 2 covers one step of one agent. “Very similar” means within 25 %.",
            *(f"{data}: {about}." for data, about in abouts.items()),
        ),
        draw=draw,
    )


def _reached(trace: Trace, share: float) -> float:
    return next((float(t) for t, one in enumerate(trace.errors) if one <= share * trace.errors[0]), np.inf)


def _worst(ours: Trace, theirs: Trace) -> float:
    """The largest ratio of the two errors, as long as they are more than rounding."""
    least = LEAST * ours.errors[0]
    pairs = zip(ours.errors, theirs.errors, strict=True)
    return max(one / two for one, two in pairs if min(one, two) > least)


@dataclass(frozen=True)
class _Rates:
    """A run with periodic renewals: errors, gaps and c_t by iteration, and ā_T."""

    errors: list[float]
    gaps: list[float]
    contractions: list[float]
    bound: float

    def periods(self, period: int, of: Sequence[float] | None = None) -> list[float]:
        """The mean factor of the error, or of other values, in each whole period T, …, 2T − 1, and so on, as long as
        the error is above rounding."""
        values = self.errors if of is None else of
        starts = pairwise(range(period - 1, len(self.errors), period))
        return [(values[b] / values[a]) ** (1 / period) for a, b in starts if self.errors[b] > LEAST * self.errors[0]]

    def exactness(self, period: int, late: int) -> float:
        """The logarithm of the measured factor over that of ā_T: 1 where the bound is the rate. Over the last periods,
        0 for all."""
        return float(np.mean(np.log(self.periods(period)[-late:])) / np.log(self.bound))

    def worst_step(self) -> float:
        """The largest ‖θ^{t+1} − θ*‖ / (c_t ‖θ^t − θ*‖)."""
        steps = zip(pairwise(self.errors), self.contractions[1:], strict=True)
        return max(b / (c * a) for (a, b), c in steps if b > LEAST * self.errors[0])


def _rates(algorithm: Algorithm, best: Optimum, period: int, iterations: int) -> _Rates:
    errors, gaps, contractions = [], [], []
    for iterate in iterates(algorithm, best.clients):
        errors.append(best.error(iterate.state.w))
        gaps.append(best.gap(iterate.state.w))
        contractions.append(iterate.state.contraction)
        if iterate.round == iterations:
            break
    return _Rates(errors, gaps, contractions, periodic_bound(best.clients, best.loss, best.w, period))


CHARACTERISED = 2.0  # times the logarithm of the bound, at most: the rate that it characterises
LATE = 4  # the last periods, where the asymptotic bound must hold
LEAST_SQUARES, DISTINCT, LOGISTIC = "SHED-LS, songs", "SHED-LS, songs, distinct columns", "SHED, Fashion-MNIST"
PERIODS = {LEAST_SQUARES: 35, DISTINCT: 35, LOGISTIC: 25}
LAST = {LEAST_SQUARES: 0, DISTINCT: 0, LOGISTIC: LATE}  # periods that count, 0 for all


def _draw_periodic(runs: Mapping[str, list[_Rates]], figure: Figure) -> None:
    axes = figure.subplots(1, len(runs))
    for axis, (case, found) in zip(axes, runs.items(), strict=True):
        lines = [[one.errors[0] * one.bound**t for t in range(len(one.errors))] for one in found]
        errors = [[max(e, LEAST * one.errors[0]) for e in one.errors] for one in found]
        gaps: list[list[float]] = [[max(gap, 1e-16) for gap in one.gaps] for one in found]
        curves: dict[str, Curve] = {"‖θ − θ*‖": over_rounds(errors), "f − f*": over_rounds(gaps)}
        draw_curves(axis, {**curves, "slope of ā_T": over_rounds(lines)}, over="iterations")
        axis.set_title(f"{case}, T = {PERIODS[case]}", fontsize=10)
    legend_below(figure, list(axes))


def _bounded(found: list[tuple[list[float], float]], quick: bool) -> Verdict:
    counts = sum(len(factors) for factors, _ in found)
    factor, bound = max(((max(factors), bound) for factors, bound in found), key=lambda one: one[0] / one[1])
    return stated(factor <= bound, f"at most {factor:.5f} against {bound:.5f}, in {counts} periods", quick)


def _on_rates(runs: Mapping[str, list[_Rates]], quick: bool) -> list[tuple[str, Verdict]]:
    squares = [(case, one) for case in (LEAST_SQUARES, DISTINCT) for one in runs[case]]
    step = max(one.worst_step() for _, one in squares)
    whole = [(one.periods(PERIODS[case]), one.bound) for case, one in squares]
    late = [(one.periods(PERIODS[LOGISTIC])[-LATE:], one.bound) for one in runs[LOGISTIC]]
    costs = [
        (one.periods(PERIODS[case], one.gaps)[-last:], one.bound) for case, last in LAST.items() for one in runs[case]
    ]
    claims = [
        (
            "Theorem 3: ‖θ^{t+1} − θ*‖ ≤ c_t ‖θ^t − θ*‖ at every t",
            stated(step <= 1 + 1e-9, f"at most {number(step, 4)} of what is allowed", quick),
        ),
        ("least squares: (24) in every period", _bounded(whole, quick)),
        (f"logistic: (36) in the last {LATE} periods", _bounded(late, quick)),
        ("f − f* falls by a mean factor of at most ā_T in these periods", _bounded(costs, quick)),
    ]
    for case, last in LAST.items():
        exact = Measured(tuple(one.exactness(PERIODS[case], last) for one in runs[case]))
        said = f"log of the measured factor over log ā_T: {spread(exact, 3)}"
        claim = f"{case}: ā_T characterises the rate, log factor / log ā_T ≤ {CHARACTERISED:g}"
        claims.append((claim, stated(max(exact.values) <= CHARACTERISED, said, quick)))
    return claims


@experiment(
    "shed-fig5",
    paper="SHED",
    place="Figure 5",
    title="SHED with periodic renewals, and the bound on its Lyapunov exponent",
    takes="2 min",
)
def fig5(seeds: Seeds, quick: bool) -> Result:
    """ā_T bounds the mean factor per iteration: for least squares in every period, otherwise asymptotically."""
    runs: dict[str, list[_Rates]] = {case: [] for case in PERIODS}
    abouts: dict[str, str] = {}
    for seed, case in seeds.over(runs):
        posed, iterations = _periodic(case, seed, quick)
        best = optimum(posed.clients, posed.loss)
        abouts.setdefault(case, posed.about)
        renewals = Periodic(PERIODS[case])
        if posed.loss.quadratic:
            algorithm: Algorithm = SHEDLeastSquares(posed.loss, renewals)
        else:  # the pipeline saves time and changes no iterate
            algorithm = as_printed(posed.loss, renewals=renewals, pipelined=True)
        runs[case].append(_rates(algorithm, best, PERIODS[case], iterations))

    def row(case: str) -> tuple[Cell, ...]:
        found = runs[case]
        factors = [one.periods(PERIODS[case]) for one in found]
        return (
            case,
            PERIODS[case],
            Measured(tuple(one.bound for one in found)),
            Measured(tuple(max(one) for one in factors)),
            Measured(tuple(max(one[-LATE:]) for one in factors)),
        )

    factor = "{:.5f}".format
    return Result(
        columns=(
            Column("problem"),
            Column("T"),
            Column("ā_T", factor),
            Column("slowest period", factor),
            Column(f"of the last {LATE}", factor),
        ),
        rows=[row(case) for case in runs],
        claims=_on_rates(runs, quick),
        notes=(
            "Mean factors of ‖θ − θ*‖ per iteration over whole periods (the first, of T − 1 iterations, is left out), "
            f"as long as the error is above {LEAST:g} of the first. One eigenvector a round.",
            *(f"{case}: {about}." for case, about in abouts.items()),
        ),
        draw=partial(_draw_periodic, runs),
    )


def _periodic(case: str, seed: int, quick: bool) -> tuple[Problem, int]:
    """The problem, and how many iterations to follow it."""
    if case != LOGISTIC:
        return songs(iid=True, seed=seed, distinct=case == DISTINCT), 6 * PERIODS[case]
    if quick:
        return images("emnist_digits", 60, 1e-4, iid=False, seed=seed, agents=9), 6 * PERIODS[case]
    return images("fashion_mnist", 300, 1e-5, iid=False, seed=seed), 20 * PERIODS[case]
