"""SHED, a remark of section 6.7.2: GIANT suffers more from a small μ than SHED, also where agents are alike."""

from __future__ import annotations

from functools import partial

from fedsolve.reproduce.claims import stated, times
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.comparison import Make, compare
from fedsolve.reproduce.shed.logistic import HURRIED, MOST, MOST_QUICK, PATIENT, posed
from fedsolve.reproduce.shed.methods import FIB

MILD, HARD = "iid, μ = 1e-5", "iid, μ = 1e-6"


@experiment(
    "shed-conditioning",
    paper="SHED",
    place="section 6.7.2",
    title="Logistic regression on Fashion-MNIST, iid: what μ = 1e-6 costs GIANT and Fib-SHED",
    takes="6 min",
)
def conditioning(seeds: Seeds, quick: bool) -> Result:
    """GIANT suffers more from ill-conditioning, also where agents are alike."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset="fashion_mnist", mu=mu, iid=True, quick=quick)
        for name, mu in ((MILD, 1e-5), (HARD, 1e-6))
    }
    methods = {MILD: [FIB, PATIENT], HARD: [FIB, HURRIED]}
    found = compare(seeds, problems, methods, MOST_QUICK if quick else MOST)
    shed, giant = (found.between(HARD, MILD, one.name, "rounds") for one in (FIB, PATIENT))
    said = f"GIANT: {times(giant)}; Fib-SHED: {times(shed)}"
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[("GIANT suffers more", stated(giant.median > shed.median, said, quick))],
        notes=found.notes,
        draw=found.draw,
    )
