"""SHED, Figure 3 and section 5.1: when renewals take place, and the printed inequality of GN-SHED."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice, pairwise

import numpy as np

from fedsolve.curvature.renewals import Fibonacci, GradientNorm, Once, Periodic, Renewals
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import Claims, at_most
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.shed.best import skewed
from fedsolve.reproduce.shed.comparison import NOT_DEGRADED, compare
from fedsolve.reproduce.shed.methods import FIB, GN, Method, as_printed

N = 300  # unknowns, as in the figures of images
SHOWN = 40  # iterations in the figure
MOST = 600  # rounds
RULES: dict[str, Renewals] = {"(a) once": Once(), "(b) every 5": Periodic(5), "(c) Fibonacci": Fibonacci()}


def sets(rule: Renewals, n: int, last: int) -> list[int]:
    """The iterations up to `last` that renew."""
    found, t = list[int](), 0
    while (following := rule.next_after(t, n)) is not None and following <= last:
        found.append(following)
        t = following
    return found


def fibonacci_sums(n: int, last: int) -> list[int]:
    """C_j as section 5.1 defines it, until one reaches n − 1; then every n − 1."""

    def numbers() -> list[int]:
        a, b, found = 1, 1, list[int]()
        while len(found) < 40:
            found.append(a)
            a, b = b, a + b
        return found

    sums = list(accumulate(numbers()))
    reached = next(j for j, one in enumerate(sums) if one >= n - 1)
    found = sums[: reached + 1]
    while found[-1] + n - 1 <= last:
        found.append(found[-1] + n - 1)
    return [one for one in found if one <= last]


@experiment("shed-fig3", paper="SHED", place="Figure 3", title="Renewal sets", takes="1 s", seeds=1)
def fig3(seeds: Seeds, quick: bool) -> Result:
    """The sets of Figure 3 by the library's rules, and beside section 5.1's formula."""
    list(seeds.over(["sets"]))
    claims, last = Claims(quick), 10 * N
    found = {name: sets(rule, N, last) for name, rule in RULES.items()}
    a, b, c = found.values()
    claims.add("(a) only the first iteration", a == [1], f"{a}")
    claims.add("(b) T = 5: 1, 5, 10, …", b == [1, *range(5, last + 1, 5)], _listed(b))
    claims.add("(c) C_j = F_1 + … + F_j, then every n − 1", c == fibonacci_sums(N, last), _listed(c))
    widest = max(after - before for before, after in pairwise(c))
    claims.add("Assumption 3: the gaps of (c) are bounded", widest <= N - 1, f"at most {widest} for n = {N}")
    delays = [t - max(one for one in c if one <= t) for t in range(1, last + 1)]
    said = f"t − k_t is at most {max(delays)}, one less than the largest gap, {widest}"
    claims.add("Assumption 3: so is the delay", max(delays) == widest - 1, said)
    claims.add("Assumption 3: gaps and delays are bounded alike, in any set", *_alike(np.random.default_rng(0)))
    steady = [0.9**t for t in range(3 * N)]  # the norm falls by the same share: no renewal by progress
    first = next(t for t in range(2, 3 * N) if GradientNorm().due(t, 1, N, steady[:t]))
    said = f"with steady progress after {first - 1} iterations for n = {N}"
    claims.add("GN-SHED renews after n iterations at the latest", first - 1 == N, said)
    return Result(
        columns=(Column("rule"), Column("renewals")),
        rows=[(name, _listed(one, 12)) for name, one in found.items()],
        claims=claims.found,
        notes=(f"n = {N}. Iterations count from 1.",),
        draw=partial(_draw, found),
    )


def _alike(rng: np.random.Generator, count: int = 200) -> tuple[bool, str]:
    """Whether in random sets of renewals the largest delay is one less than the largest gap, and grows where it does.

    Half of the sets have bounded gaps; in the others the j-th gap is about 1.2^j.
    """
    differ = grown = 0
    for k in range(count):
        widths = rng.integers(1, 20, 40) if k % 2 else np.ceil(rng.random(40) + 1.2 ** np.arange(40)).astype(int)
        renewals = np.cumsum([1, *widths])
        last = renewals[np.searchsorted(renewals, np.arange(1, renewals[-1]), side="right") - 1]
        delays = np.arange(1, renewals[-1]) - last
        differ += int(delays.max() != widths.max() - 1)
        grown += int(k % 2 == 0 and delays[len(delays) // 2 :].max() > 10 * delays[:20].max())
    said = f"in {count - differ} of {count} sets one less than the largest gap; unbounded in {grown} of {count // 2}"
    return differ == 0 and grown == count // 2, said


def _listed(found: Sequence[int], most: int = 8) -> str:
    return ", ".join(map(str, islice(found, most))) + (", …" if len(found) > most else "")


def _draw(found: dict[str, list[int]], figure: Figure) -> None:
    axis = figure.subplots()
    for row, (name, one) in enumerate(found.items()):
        shown = [t for t in one if t <= SHOWN]
        axis.plot(shown, [-row] * len(shown), "o", color="black", markersize=5)
        axis.hlines(-row, 1, SHOWN, color="black", linewidth=0.5)
        axis.text(1, -row + 0.12, name)
    axis.set_yticks([])
    axis.set_ylim(-len(found) + 0.5, 0.5)
    axis.set_xlabel("iteration; a dot is a renewal")
    axis.spines[["top", "right", "left"]].set_visible(False)


@dataclass(frozen=True)
class PrintedNorm(GradientNorm):
    """Section 5.1's inequality as printed: ‖g_t‖ − ‖g_{t−1}‖ < b (‖g_{t−1}‖ − ‖g_{t−2}‖)."""

    def due(self, t: int, last: int, n: int, norms: Sequence[float]) -> bool:
        if last == 0 or t - last >= n:
            return True
        if len(norms) < 3:
            return False
        before, between, now = norms[-3:]
        return now - between < self.b * (between - before)


PRINTED = Method("GN-SHED, printed inequality", lambda loss: as_printed(loss, renewals=PrintedNorm()))


@experiment(
    "shed-gn",
    paper="SHED",
    place="section 5.1",
    title="GN-SHED: the printed inequality, and the one that says what is meant",
    takes="3 min",
)
def gn(seeds: Seeds, quick: bool) -> Result:
    """The sign of the inequality decides whether it renews when progress slows, or while it is good."""
    case = "n = 100, μ = 1e-5"
    found = compare(seeds, {case: skewed(100, 1e-5, quick)}, [FIB, GN, PRINTED], MOST)
    printed, meant = (found.ratio(case, one.name, FIB.name, "rounds") for one in (PRINTED, GN))
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=(
            (
                "the printed inequality takes at most 1.25 times Fib-SHED's rounds",
                at_most(printed, NOT_DEGRADED, quick),
            ),
            ("the other one takes at most 2 times Fib-SHED's rounds", at_most(meant, 2.0, quick)),
        ),
        notes=(*found.notes, "b = 1/2. The paper gives no value."),
        draw=found.draw,
    )
