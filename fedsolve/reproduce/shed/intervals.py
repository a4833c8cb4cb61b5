"""SHED, section 6.6, Figure 6 (b): what a longer interval between renewals does, on Fashion-MNIST."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from fedsolve.curvature.renewals import Fibonacci
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.shed.comparison import GAP, Make, compare
from fedsolve.reproduce.shed.gaps import Trace
from fedsolve.reproduce.shed.logistic import FEATURES, MOST, MOST_QUICK, posed
from fedsolve.reproduce.shed.methods import FIB
from fedsolve.reproduce.shed.renewal_sets import sets

SHORTEST = 13  # iterations of an interval that is looked at
MARKED = 3  # renewals that Figure 6 (b) points out
FASTER = 1.25  # times the progress of an iteration
IID = "iid"


def progress(gaps: Sequence[float], renewals: Sequence[int]) -> dict[tuple[int, int], tuple[float, float]]:
    """By complete interval [a, b) of at least 13 iterations: what an iteration lowers log₁₀(f − f*) by, in its first
    third and in its last. gaps[t] is the gap after iteration t, and iteration a renews."""
    found = {}
    for a, b in pairwise(renewals):
        third = (b - a) // 3
        if b - a >= SHORTEST and b - 1 < len(gaps):
            logs = [math.log10(gaps[t]) for t in (a - 1, a - 1 + third, b - 1 - third, b - 1)]
            found[a, b] = (logs[0] - logs[1]) / third, (logs[2] - logs[3]) / third
    return found


def renewed(trace: Trace) -> list[int]:
    """The iterations after the first in which the agents computed Hessians, by the ledger, until f − f* ≤ 1e-10."""
    return [t for t, (a, b) in enumerate(pairwise(trace.hessians), 1) if b > a and t > 1 and trace.gaps[t - 1] > GAP]


def marked(traces: Sequence[Trace], size: int) -> tuple[bool, str]:
    """Whether agents computed Hessians at the sums of Fibonacci numbers and at no other time, three times or more."""
    found = [renewed(one) for one in traces]
    due = [[t for t in sets(Fibonacci(), size, len(one.gaps) - 1) if t > 1] for one in traces]
    fewest = min(found, key=len)
    said = f"in iterations {', '.join(map(str, fewest))}, or in more" if fewest else "none after the first iteration"
    return found == due and len(fewest) >= MARKED, said


@experiment(
    "shed-intervals",
    paper="SHED",
    place="section 6.6, Figure 6 (b)",
    title="Fib-SHED: progress of an iteration, early and late in short and long intervals between renewals",
    takes="1 min",
)
def intervals(seeds: Seeds, quick: bool) -> Result:
    """The longer an interval, the more of the Hessian is known at its end."""
    problems: dict[str, Make] = {IID: partial(posed, dataset="fashion_mnist", mu=1e-5, iid=True, quick=quick)}
    found = compare(seeds, problems, [FIB], MOST_QUICK if quick else MOST)
    traces = found.traces[IID, FIB.name]
    size = 20 if quick else FEATURES
    paths = [progress(one.gaps, sets(Fibonacci(), size, len(one.gaps))) for one in traces]
    common = [one for one in paths[0] if all(one in path for path in paths)]
    early, late = ({one: Measured(tuple(path[one][k] for path in paths)) for one in common} for k in (0, 1))
    claims = Claims(quick)
    claims.add(f"renewals take place at Fibonacci times, {MARKED} or more of them in each run", *marked(traces, size))
    ratios = [float(np.median([path[one][1] / path[one][0] for path in paths])) for one in common]
    lengths = [b - a for a, b in common]
    said = ", ".join(
        f"{number(one, 3)} times in {length} iterations" for one, length in zip(ratios, lengths, strict=True)
    )
    claim = f"in each interval the last third makes at least {FASTER} times the progress of the first"
    claims.add(claim, bool(ratios) and all(ratio >= FASTER for ratio in ratios), said or "no interval was completed")
    growing = len(ratios) >= 2 and all(one < two for one, two in pairwise(ratios))
    claims.add("the longer the interval, the more its last third gains over its first", growing, said or "none")
    ends = [late[one].median for one in common]
    said = ", ".join(f"{number(end, 3)} in {b - a} iterations" for (a, b), end in zip(common, ends, strict=True))
    rising = len(ends) >= 2 and all(one < two for one, two in pairwise(ends))
    claims.add("the longer the interval, the faster its last third", rising, f"log₁₀ an iteration: {said or 'none'}")
    return Result(
        columns=(Column("interval"), Column("first third"), Column("last third")),
        rows=[(f"{a} to {b - 1}", early[a, b], late[a, b]) for a, b in common],
        claims=claims.found,
        notes=(
            *found.notes,
            "An interval begins with the iteration that renews. Progress is what an iteration lowers log₁₀(f − f*) by, "
            f"mean over a third of the interval; complete intervals of at least {SHORTEST} iterations, d = 1.",
        ),
    )
