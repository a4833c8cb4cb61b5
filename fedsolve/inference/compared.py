"""What a client says of two models on its held-out rows, and whether what came can be true."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedsolve.inference.own_best_model import BY_FOLDS, NO_FIT, ONE_CLASS, ONE_ROW

LEAST_ROWS = 30  # held-out rows, below which nothing is said
LEAST_CASES = 5  # held-out rows of another class than most (or with a count), below which no verdict is given
MOST_ROWS = 2**53

# What `Compared.how` may be. A client sends the key; the sentence is everyone's.
OWN_MODELS = {
    BY_FOLDS: "penalty chosen by cross-validation",
    ONE_ROW: "one row to learn from: the largest penalty, nothing could be chosen",
    ONE_CLASS: "a class is missing in its rows (or every count is zero): kept finite by a pull to zero, worth one row",
    NO_FIT: "no fit of its own came to an end: predictions of the weights zero",
}
FEW_ROWS, UNEQUAL_WEIGHTS = "few rows", "unequal weights"
NOTHING = {
    FEW_ROWS: "too few held-out rows",
    UNEQUAL_WEIGHTS: "the weights of its held-out rows are so unequal that they say less than 30 rows do",
    "too large": "an error is not finite: give the columns a smaller scale",
    "too small": "the targets are too small to square their errors: give them a larger scale",
}


@dataclass(frozen=True)
class Compared:
    """What leaves a client: how many held-out rows it has, how its own model was found or why nothing is said, the two
    errors, the interval of their ratio, and whether cases are too few for a verdict.

    With fewer than 30 rows (or weights so unequal that they say no more than that) only the first two leave.
    """

    rows: int
    how: str
    local_error: float | None = None
    federated_error: float | None = None
    low: float | None = None
    high: float | None = None
    few_cases: bool = False


def gain_of(local: float, federated: float) -> float:
    """The ratio; 1 where neither model makes an error."""
    if local == federated:
        return 1.0
    return local / federated if federated else math.inf


def fault(reply: Compared) -> str | None:
    """Why a reply cannot be true; None if it can. Each client answers for itself, so that no other suffers by it."""
    if not 0 <= reply.rows <= MOST_ROWS:
        return f"answered with {reply.rows:.3g} held-out rows"
    numbers = (reply.local_error, reply.federated_error, reply.low, reply.high)
    if reply.how in NOTHING:
        told = any(number is not None for number in numbers) or reply.few_cases
        return "answered with numbers where it has none to tell" if told else None
    if reply.how not in OWN_MODELS:
        return "answered with words that are none of the fixed ones"
    local, federated, low, high = numbers
    if local is None or federated is None or low is None:
        return "answered with some of the numbers only"
    if reply.rows < LEAST_ROWS:
        return f"answered with errors of {reply.rows} held-out rows, where it takes {LEAST_ROWS}"
    if not all(math.isfinite(number) and number >= 0 for number in numbers if number is not None):
        return "answered with a number that is negative or not finite"
    gain = gain_of(local, federated)
    if not (math.isfinite(gain) and low <= gain * (1 + 1e-9) and (high is None or gain <= high * (1 + 1e-9))):
        return "answered with an interval that does not hold its own ratio"
    return None
