"""SHED, section 6.6: what more eigenvectors a round do to the overall amount of data, and how many of them are sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from fedsolve.algorithms import SHEDLeastSquares
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims, stated
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.reproduce.shed.comparison import GAP, Comparison
from fedsolve.reproduce.shed.gaps import optimum
from fedsolve.reproduce.shed.paired import ERRORS, mean_error
from fedsolve.reproduce.shed.problems import songs

INCREMENTS = (1, 3, 6, 30)


def no_more(more: Sequence[float], one: Sequence[float], quick: bool) -> Verdict:
    """Whether the mean of the paired differences is above 0 by at most two standard errors, and by at most 5 %."""
    mean, error = mean_error(np.subtract(more, one))
    share = mean / float(np.mean(one))
    said = f"a mean difference of {number(mean, 3)} ± {number(error, 2)} vectors, {number(100 * share, 2)} %"
    return stated(mean <= ERRORS * error and share <= 0.05, said, quick)


def on_load(
    found: Comparison, problem: str, one: str, others: dict[str, str], quick: bool
) -> list[tuple[str, Verdict]]:
    """Section 6.6: “the overall data transmitted does not increase”, for each of `others`, by what it is called."""
    base = found.measured(problem, one, "vectors").values
    return [
        (
            f"{problem}: {called} sends no more vectors than d = 1",
            no_more(found.measured(problem, name, "vectors").values, base, quick),
        )
        for called, name in others.items()
    ]


def sent(seed: int, increment: int) -> tuple[int, int]:
    """Iterations of SHED-LS on songs until f − f* ≤ 1e-10, and how many eigenpairs each agent has sent by then."""
    posed = songs(iid=True, seed=seed, distinct=True)
    best = optimum(posed.clients, posed.loss)
    algorithm, n = SHEDLeastSquares(posed.loss, increment=increment), best.w.size
    path = islice(iterates(algorithm, posed.clients), n + 2)
    t = next(t for t, one in enumerate(path) if best.gap(one.state.w) <= GAP)
    return t, min(t * increment, n - 1)


@experiment(
    "shed-pairs-sent",
    paper="SHED",
    place="section 6.6",
    title="Least squares: iterations until convergence beside the eigenpairs sent",
    takes="10 s",
)
def pairs_sent(seeds: Seeds, quick: bool) -> Result:
    """One pair an iteration: as many; more pairs: fewer iterations than pairs."""
    found: dict[int, list[tuple[int, int]]] = {d: [] for d in INCREMENTS}
    for seed, d in seeds.over(INCREMENTS):
        found[d].append(sent(seed, d))
    claims = Claims(quick)
    for d, pairs in found.items():
        said = ", ".join(f"{t} and {pairs_so_far}" for t, pairs_so_far in sorted(set(pairs)))
        claims.add(f"d = {d}: fewer iterations than eigenpairs sent", all(t < sent for t, sent in pairs), said)
    n = songs(iid=True, seed=0, distinct=True).clients[0].X.shape[1]
    most = max(t for pairs in found.values() for t, _ in pairs)
    claims.add("fewer iterations than there are eigenpairs, n", most < n, f"at most {most}, n = {n}")
    return Result(
        columns=(Column("d"), Column("iterations"), Column("eigenpairs sent by an agent")),
        rows=[
            (d, *(Measured(tuple(map(float, column))) for column in zip(*pairs, strict=True)))
            for d, pairs in found.items()
        ],
        claims=claims.found,
        notes=("SHED-LS on songs with 54 distinct columns, 20 agents at random, μ = 1e-5, until f − f* ≤ 1e-10.",),
    )
