"""Section 1 of Shen et al. (2022): boosting on one machine, (4), over three base classes and on two made data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.federation.client import Client
from fedsolve.learners import NetworkLearner, RidgeLearner, Stumps, WeakLearner
from fedsolve.loop.run import run
from fedsolve.losses import Squared
from fedsolve.networks import MLP
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.typing import Array

S1 = "Section 1"
LEARNERS: Mapping[str, WeakLearner] = {
    "stumps": Stumps(min_rows=5),
    "networks": NetworkLearner(MLP((2,)), epochs=100, step_size=0.02),
    "ridge": RidgeLearner(),
}
STAGES: Mapping[str, int] = {"stumps": 100, "networks": 15, "ridge": 100}
FITS: Mapping[str, int] = {"stumps": 1, "networks": 5, "ridge": 1}  # among which the best single member is
BETTER = {
    (name, data): Check(
        S1, f"the ensemble's loss on new rows over the best single member's: {name}, {data}", "times", 0.95
    )
    for name in LEARNERS
    for data in ("linear data", "data with steps")
}
SAME = Check(S1, "… of ridge fits |1 − that|, both", "off", 0.05)
LINEAR = Check(S1, "linear data: the loss of the ensemble of ridge fits over that of stumps, new rows", "times", 0.95)
STEPS = Check(
    S1, "data with steps: the loss of the ensemble of stumps over that of ridge fits, new rows", "times", 0.95
)
CHECKS = (*BETTER.values(), SAME, LINEAR, STEPS)
ROWS, NEW, INPUTS, NOISE, ETA = 200, 2000, 3, 0.3, 0.3


@dataclass(frozen=True, eq=False)
class Made:
    """Rows to fit, and new ones."""

    X: Array
    y: Array
    new: Array
    truth: Array


def made(rng: np.random.Generator, steps: bool) -> Made:
    """Σ_j a_j x_j, or Σ_j a_j sign(x_j − c_j), with |a_j| from 0.5 to 1.5, and noise."""
    a, c = rng.uniform(0.5, 1.5, INPUTS) * rng.choice([-1.0, 1.0], INPUTS), rng.uniform(-0.5, 0.5, INPUTS)
    X = rng.standard_normal((ROWS + NEW, INPUTS))
    y = (np.sign(X - c) if steps else X) @ a + NOISE * rng.standard_normal(len(X))
    return Made(X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:])


def measure(seed: int, found: Found) -> None:
    """All checks."""
    for steps in (False, True):
        data = made(np.random.default_rng([seed, 229, steps]), steps)
        losses = {name: ensemble(name, data) for name in LEARNERS}
        for name, loss in losses.items():
            quotient = loss / single(name, data)
            found.note(BETTER[name, "data with steps" if steps else "linear data"], quotient)
            if name == "ridge":
                found.note(SAME, abs(1 - quotient))
        ratio = losses["stumps"] / losses["ridge"]
        found.note(STEPS if steps else LINEAR, ratio if steps else 1 / ratio)


def ensemble(name: str, data: Made) -> float:
    """The mean squared error on new rows after all stages of (4)."""
    return boosted(LEARNERS[name], data, STAGES[name], ETA)


def single(name: str, data: Made) -> float:
    """That of the best of some fits to the labels, one stage of η = 1; stumps and ridge are fits of least squares."""
    return min(boosted(LEARNERS[name], data, 1, 1.0, seed) for seed in range(FITS[name]))


def boosted(learner: WeakLearner, data: Made, stages: int, step_size: float, seed: int = 0) -> float:
    """(4) is FFGB with one client and K = 1; new rows."""
    algorithm, one = FFGB(Squared(), learner, step_size=step_size), Client("one", data.X, data.y)
    model = run(algorithm, [one], rounds=stages, tolerance=0, min_rows=0, seed=seed, measure=0).model
    return mse(np.asarray(model.predict(data.new)), data)


def mse(values: Array, data: Made) -> float:
    """The mean squared error on new rows."""
    return float(np.mean((values - data.truth) ** 2))
