"""SHED, Appendix B: whether unlike agents are what slows GIANT down on w8a, from the same rows dealt out at random."""

from __future__ import annotations

from dataclasses import replace

from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims, spread
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.comparison import DEGRADED, compare
from fedsolve.reproduce.shed.logistic import posed
from fedsolve.reproduce.shed.methods import GIANT_OWN
from fedsolve.reproduce.shed.problems import w8a
from fedsolve.reproduce.shed.saved_tables import W8A, Tables

CASE, MU, MOST = "w8a at random", 1e-5, 1600


@experiment(
    "shed-w8a-iid",
    paper="SHED",
    place="Appendix B",
    title="GIANT on w8a with its rows dealt out at random",
    takes="1 min",
)
def at_random(seeds: Seeds, quick: bool) -> Result:
    """GIANT's rounds, beside those with unlike agents in the saved results of Figure 14."""
    method = replace(GIANT_OWN, most=MOST)
    make = (lambda seed: posed(seed, "w8a", MU, True, True)) if quick else (lambda seed: w8a(MU, seed=seed, iid=True))
    found = compare(seeds, {CASE: make}, [method], MOST)
    alike = found.measured(CASE, method.name, "rounds")
    unlike = Tables(W8A).of(W8A[0], method.name, "rounds")
    ratio = unlike / alike.median
    claims = Claims(quick)
    said = f"{number(unlike, 4)} rounds with unlike agents, {spread(alike)} with these: {number(ratio, 3)} times"
    claims.add(
        f"GIANT degrades on w8a: at least {DEGRADED} times the rounds with unlike agents", ratio >= DEGRADED, said
    )
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=claims.found,
        notes=(*found.notes, "The rounds with unlike agents are the median in the saved results of shed-fig14."),
        draw=found.draw,
    )
