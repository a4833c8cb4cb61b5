"""SHED, section 6: do agents with *different* resources have a larger advantage than agents with the same ones?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsolve.report.tables import number
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result, Verdict
from fedsolve.reproduce.shed.comparison import Counted, Make, compare
from fedsolve.reproduce.shed.logistic import IID, MOST, MOST_QUICK, SKEWED, posed
from fedsolve.reproduce.shed.methods import FIB_PLUS, increments
from fedsolve.reproduce.shed.paired import ERRORS, mean_error

EQUAL = increments(4)  # as many eigenvectors a round as the random link carries on average, by the paper
COUNTED: tuple[Counted, ...] = ("rounds", "vectors")


def fewer(random: Sequence[float], equal: Sequence[float], quick: bool) -> Verdict:
    """Whether the mean of the paired differences is below 0 by more than two standard errors; NO if it is not."""
    mean, error = mean_error(np.subtract(random, equal))
    said = f"{number(float(np.mean(random)), 4)} against {number(float(np.mean(equal)), 4)}, a mean difference of "
    return stated(mean < -ERRORS * error, f"{said}{number(mean, 3)} ± {number(error, 2)}", quick)


@experiment(
    "shed-random-four",
    paper="SHED",
    place="section 6",
    title="Fib-SHED with four eigenvectors a round, and with a random number that is four on average",
    takes="4 min",
    quick_seeds=2,
)
def random_four(seeds: Seeds, quick: bool) -> Result:
    """The counts of the other methods are the same for both, so that the advantage over them is larger where SHED's own
    counts are smaller."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset="fashion_mnist", mu=1e-5, iid=name == IID, quick=quick) for name in (IID, SKEWED)
    }
    found = compare(seeds, problems, [EQUAL, FIB_PLUS], MOST_QUICK if quick else MOST)
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[
            (
                f"{problem}: fewer {counted} with random increments than with four each",
                fewer(
                    found.measured(problem, FIB_PLUS.name, counted).values,
                    found.measured(problem, EQUAL.name, counted).values,
                    quick,
                ),
            )
            for problem in problems
            for counted in COUNTED
        ],
        notes=(
            *found.notes,
            "The random link carries ⌊2 log₂(1 + 5γ)⌋ vectors, 3.8 on average (shed-links). Fewer means that the mean "
            f"of the paired differences over splits is below 0 by more than {ERRORS:g} standard errors.",
        ),
        draw=found.draw,
    )
