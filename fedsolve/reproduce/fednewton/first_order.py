"""FedNewton, Remark 3: in how many rounds a first-order method comes near the pooled solution."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedsolve.reproduce.claims import judged
from fedsolve.reproduce.fednewton.synthetic import FEATURES, L2, Problem, problem
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result

CLIENTS, EACH = 20, 500  # as in fednewton-table1
ACCURACIES = (1e-1, 1e-2, 1e-4, 1e-6, 1e-8)
LAST = (1e-6, 1e-8, 1e-10, 1e-12)  # by formula, below what rounding lets a run reach
LEAST = 0.95  # the exponent of 1/ε
EVEN = 1.25  # times, between the largest step and the least
MANY = 10.0  # times FedNewton's rounds
MOST = 2.0**60


def rounds_to(error: Callable[[float], float], accuracy: float) -> float:
    """The fewest rounds t with error(t) ≤ accuracy · error(0), by bisection; the error does not grow with t."""
    wanted, low, high = accuracy * error(0.0), 0.0, 1.0
    while error(high) > wanted and high < MOST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = math.floor((low + high) / 2)
        low, high = (low, middle) if error(middle) <= wanted else (middle, high)
    return high


class Errors:
    """The federated error ‖Φ(w_t − w)‖ by round from DKRR, of gradient descent and of FedNewton.

    FedAvg with one local step is gradient descent on the pooled loss: w_t − w = (I − ηH)^t (w_0 − w), η = 1/λ_max(H).
    """

    def __init__(self, posed: Problem) -> None:
        C = [one.X.T @ one.X / len(one.X) for one in posed.clients]
        hessians = [one + L2 * np.eye(FEATURES) for one in C]
        self.H = np.mean(hessians, axis=0)
        inverses = [np.linalg.inv(one) for one in hessians]
        pairs = zip(inverses, posed.clients, strict=True)
        self.start = np.mean([A @ (c.X.T @ c.y / len(c.X)) for A, c in pairs], axis=0) - posed.w  # DKRR
        self.step = np.eye(FEATURES) - np.mean(inverses, axis=0) @ self.H  # of FedNewton
        self.values, V = np.linalg.eigh(self.H)
        self.parts = (V.T @ self.start) ** 2 * np.maximum(self.values - L2, 0)

    def gradient_descent(self, t: float) -> float:
        return math.sqrt(float(self.parts @ (1 - self.values / self.values[-1]) ** (2 * t)))

    def fednewton(self, accuracy: float, most: int = 1000) -> float:
        """Rounds to this share of the first error."""
        C, e = self.H - L2 * np.eye(FEATURES), self.start
        first = float(e @ C @ e)
        for t in range(most):
            if float(e @ C @ e) <= accuracy**2 * first:
                return t
            e = self.step @ e
        return math.inf


@experiment(
    "fednewton-first-order",
    paper="FedNewton",
    place="Remark 3",
    title="Rounds of gradient descent and of FedNewton to the pooled solution",
    takes="10 s",
)
def first_order(seeds: Seeds, quick: bool) -> Result:
    """Whether a first-order method needs 1/ε rounds, or log(1/ε) of them and many."""
    found: dict[str, list[list[float]]] = {"first": [], "newton": [], "last": []}
    for seed in seeds:
        of = Errors(problem(CLIENTS, EACH, 0.0, seed))
        found["first"].append([rounds_to(of.gradient_descent, one) for one in ACCURACIES])
        found["last"].append([rounds_to(of.gradient_descent, one) for one in LAST])
        found["newton"].append([of.fednewton(one) for one in ACCURACIES])
    first, newton, last = (
        [Measured(tuple(row[k] for row in found[name])) for k in range(len(found[name][0]))]
        for name in ("first", "newton", "last")
    )
    exponent = slope([1 / one for one in ACCURACIES], [one.median for one in first])
    steps = np.diff([one.median for one in last])
    times = min(a.median / b.median for a, b in zip(first, newton, strict=True))
    medians = ", ".join(f"{one.median:.3g}" for one in first)
    number = len(seeds)
    even = f"steps of {', '.join(f'{one:.4g}' for one in steps)} rounds between {', '.join(f'{e:g}' for e in LAST)}"
    return Result(
        columns=(Column("ε"), Column("gradient descent", "{:,.0f}".format), Column("FedNewton", "{:.0f}".format)),
        rows=[(f"{e:g}", a, b) for e, a, b in zip(ACCURACIES, first, newton, strict=True)],
        claims=(
            (
                "gradient descent: rounds grow at least like 1/ε",
                judged(exponent >= LEAST, f"like (1/ε)^{exponent:.2f}: {medians} rounds", number),
            ),
            (
                "gradient descent: rounds grow like log(1/ε) in the end",
                judged(bool(steps.max() <= EVEN * steps.min()), even, number),
            ),
            (
                f"gradient descent takes at least {MANY:g} times FedNewton's rounds",
                judged(times >= MANY, f"{times:.3g} times or more, at every accuracy", number),
            ),
        ),
        notes=(
            f"The synthetic data of Figure 3, {CLIENTS} clients of {EACH} samples, from DKRR. Gradient descent is "
            "FedAvg with one local step, η = 1/λ_max(H): unlike with two steps, it ends at the pooled solution. Its "
            "rounds are by the eigenvalues of H, without rounding. ε is the federated error over DKRR's. The exponent "
            f"is of the medians, by least squares; at least like 1/ε is at least {LEAST:g}.",
        ),
    )
