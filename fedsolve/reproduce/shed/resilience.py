"""SHED, Figure 10: is SHED *much* more resilient to ill-conditioning than FedNL and GIANT?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedsolve.report.tables import number
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result, Verdict
from fedsolve.reproduce.shed import conditioning
from fedsolve.reproduce.shed.comparison import Make, compare
from fedsolve.reproduce.shed.logistic import ENOUGH, HARD, HURRIED, MILD, MOST, posed
from fedsolve.reproduce.shed.methods import FEDNL, FIB, GIANT_OWN
from fedsolve.reproduce.shed.paired import ERRORS, mean_error
from fedsolve.reproduce.shed.saved_tables import quartiles, read

MUS = {MILD: 1e-5, HARD: 1e-8}
MUCH = 1.5  # times what a small μ costs SHED
CONDITIONING = "shed-conditioning"


def much(rival: Sequence[float], shed: Sequence[float], quick: bool) -> Verdict:
    """Whether the logarithm of what μ costs a rival over 1.5 times what it costs SHED is above 0, in the mean over
    splits and by more than two standard errors. NO if it is not; infinite costs count as above."""
    logs = np.log(np.divide(rival, np.multiply(shed, MUCH)))
    if np.isposinf(logs).all():
        return stated(True, f"it does not arrive, {len(logs)} splits", quick)
    if not np.isfinite(logs).all():
        return Verdict(None, "it arrives in some splits only")
    mean, error = mean_error(logs)
    told = f"{number(MUCH * float(np.exp(mean)), 3)} times what it costs Fib-SHED; {number(mean, 2)} ± "
    return stated(mean > ERRORS * error, f"{told}{number(error, 2)} in the logarithm, {len(logs)} splits", quick)


def giant(lines: Sequence[Sequence[str]], limit: int, quick: bool) -> Verdict:
    """GIANT, which does not arrive at μ = 1e-6, from the table of shed-conditioning: its limit of rounds over its upper
    quartile at 1e-5, beside the upper quartile of Fib-SHED over its lower one."""
    rounds = {(line[0], line[1]): line[3] for line in lines}
    if rounds[conditioning.HARD, GIANT_OWN.name] != "not reached":
        return Verdict(None, "it arrives at μ = 1e-6")
    least = limit / quartiles(rounds[conditioning.MILD, GIANT_OWN.name])[1]
    most = quartiles(rounds[conditioning.HARD, FIB.name])[1] / quartiles(rounds[conditioning.MILD, FIB.name])[0]
    said = f"more than {number(least, 3)} times the rounds, Fib-SHED at most {number(most, 3)}"
    return stated(least >= MUCH * most, said, quick)


@experiment(
    "shed-resilience",
    paper="SHED",
    place="section 6.7.2, Figure 10",
    title="What a small μ costs FedNL and GIANT beside Fib-SHED, split by split",
    takes="8 min, or none after shed-fig10",
)
def resilience(seeds: Seeds, quick: bool) -> Result:
    """The runs of Figure 10 again, as paired ratios; GIANT from the saved table of shed-conditioning."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset="fashion_mnist", mu=mu, iid=False, quick=quick) for name, mu in MUS.items()
    }
    found = compare(seeds, problems, [FIB, replace(FEDNL, most=ENOUGH)], MOST)
    shed, learned = (found.between(HARD, MILD, one.name, "iterations").values for one in (FIB, FEDNL))
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[
            (f"μ = 1e-8 costs FedNL at least {MUCH} times what it costs Fib-SHED", much(learned, shed, quick)),
            (
                f"iid, μ = 1e-6 costs GIANT at least {MUCH} times what it costs Fib-SHED",
                giant(read(CONDITIONING).lines, HURRIED.most or 0, quick),
            ),
        ],
        notes=(
            *found.notes,
            "What μ costs is the ratio of iterations at a small μ and at 1e-5. “Much more resilient” is read as: the "
            f"rival's ratio is {MUCH} times Fib-SHED's, for FedNL in the mean of the logarithms over splits, by more "
            f"than {ERRORS:g} standard errors; for GIANT, which does not arrive, by its limit of rounds and the "
            f"quartiles that {CONDITIONING} has saved.",
        ),
        draw=found.draw,
    )
