"""What sections I-A and III-D of Jadbabaie et al. (2023) say of learning: clients' data, local steps, and how far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import L2, CostProblem, posed
from fedsolve.reproduce.fedlrgd.theory_smoothness import sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

ALONE = AtLeast(
    "Section I-A, 1",
    "the true excess risk with the server's 8 samples alone over that with all 1,008, alike and different",
    "times",
    2.0,
    unit="times",
)
LOCAL = Check("Section I-A, 3", "rounds to 1e-2 with 10 local steps over those with one, clients alike", "times", 0.5)
APART = Check("Section I-A, 3", "… clients different", "times", 0.5)
MEAN = Check(
    "Section I-A",
    "the mean of the clients' own models: its F − F* over the mean of theirs, alike and different",
    "times",
    0.5,
)
UNBIASED = Check(
    "Section I-A, 5",
    "clients alike: the mean of a client's gradient less the full one, in standard errors, 2,000 draws",
    "times",
    4.0,
)
BIASED = AtLeast(
    "Section I-A, 5",
    "… clients different: in standard errors, the client with the largest difference",
    "times",
    10.0,
    unit="standard errors",
)
GAIN = Check(
    "After Proposition 1",
    "linear regression, n = 1,000: the true excess risk at F − F* = n^(−½) over that at the minimum of F",
    "times",
    2.0,
)
WITHIN = Check("After Proposition 1", "… and the true excess risk there is at most 2 n^(−½)")
CHECKS = (ALONE, MEAN, LOCAL, APART, UNBIASED, BIASED, GAIN, WITHIN)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 53])
    alone = min(_alone(rng, different) for different in (False, True))
    rounds = {check: _rounds(posed(kind, seed)) for check, kind in ((LOCAL, "alike"), (APART, "different"))}
    bias = {UNBIASED: _bias(rng, [(1.0, 1.0)] * 10), BIASED: _bias(rng, rng.uniform(0.5, 5, (10, 2)).tolist())}
    mean = max(_aggregated(posed(kind, seed)) for kind in ("alike", "different"))
    return named({ALONE: alone, MEAN: mean, **rounds, **bias, **_enough(rng)})


def _alone(rng: np.random.Generator, different: bool) -> float:
    """Ridge regression, p = 2, noise 0.3: means over 20 draws; 20 clients of 50 samples."""
    risks = np.zeros(2)
    for _ in range(20):
        truth, shapes = rng.standard_normal(2), rng.uniform(0.5, 5, (20, 2)) if different else np.ones((20, 2))
        clients = np.concatenate([rng.beta(a, b, (50, 2)) for a, b in shapes])
        fresh = np.concatenate([rng.beta(a, b, (500, 2)) for a, b in shapes])
        X = np.vstack([rng.random((8, 2)), clients])
        y = X @ truth + 0.3 * rng.standard_normal(len(X))
        for place, rows in enumerate((8, len(X))):
            A = X[:rows]
            theta = np.linalg.solve(A.T @ A + 1e-3 * rows * np.eye(2), A.T @ y[:rows])
            risks[place] += float(np.mean((fresh @ (theta - truth)) ** 2))
    return float(risks[0] / risks[1])


def _aggregated(problem: CostProblem) -> float:
    """Each client's own minimum, by 3,000 steps; then their mean."""
    X, y = np.vstack([rows for rows, _ in problem.dealt]), np.concatenate([labels for _, labels in problem.dealt])
    L_1 = float(np.square(X).sum(axis=1).max()) / 4 + L2
    models = np.array([_steps(*rows, np.zeros(X.shape[1]), 3000, L_1) for rows in problem.dealt])
    gaps = [_value(X, y, theta) - problem.minimum.least for theta in (*models, models.mean(axis=0))]
    return gaps[-1] / float(np.mean(gaps[:-1]))


def _value(X: Array, y: Array, theta: Array) -> float:
    return float(np.mean(np.logaddexp(0, X @ theta) - y * (X @ theta)) + L2 / 2 * theta @ theta)


def _rounds(problem: CostProblem) -> float:
    """FedAvg with gradients of all of a client's samples, step size 1/L_1, until (F − F*)/(F(0) − F*) ≤ 1e-2."""
    X, y = np.vstack([rows for rows, _ in problem.dealt]), np.concatenate([labels for _, labels in problem.dealt])
    L_1 = float(np.square(X).sum(axis=1).max()) / 4 + L2
    shares = [len(labels) / len(y) for _, labels in problem.dealt]
    least = problem.minimum

    def rounds(local: int) -> float:
        theta = np.zeros(X.shape[1])
        for count in range(1, 5000):
            ends = [_steps(*rows, theta, local, L_1) for rows in problem.dealt]
            theta = np.average(ends, axis=0, weights=shares)
            if _value(X, y, theta) - least.least <= 1e-2 * (least.first - least.least):
                return count
        return float("inf")

    return rounds(10) / rounds(1)


def _steps(X: Array, y: Array, theta: Array, count: int, L_1: float) -> Array:
    for _ in range(count):
        theta = theta - (X.T @ (sigmoid(X @ theta) - y) / len(y) + L2 * theta) / L_1
    return theta


def _bias(rng: np.random.Generator, shapes: Sequence[Sequence[float]]) -> float:
    """Of ten clients with samples of these beta distributions, at one θ: the largest entry in standard errors."""
    theta, draws = np.array([1.0, -2.0]), 2000
    X = np.stack([rng.beta(a, b, (draws, 20, 2)) for a, b in shapes], axis=1)  # draws, clients, samples, p
    y = (rng.random(X.shape[:-1]) < sigmoid(X @ np.array([2.0, 1.0]))).astype(float)
    each = ((sigmoid(X @ theta) - y)[..., None] * X).mean(axis=2)
    apart = each - each.mean(axis=1, keepdims=True)
    return float(np.abs(apart.mean(axis=0) / (apart.std(axis=0) / np.sqrt(draws))).max())


def _enough(rng: np.random.Generator) -> dict[Check, float]:
    """x uniform in [0, 1]^p, noise 0.3, p = 2 and 10: the true excess risk is ½(θ − w)ᵀ E[xxᵀ](θ − w)."""
    n, ratio, within = 1000, 0.0, 0.0
    for p in (2, 10):
        second = np.full((p, p), 0.25) + np.eye(p) / 12
        risks = np.zeros(2)
        for _ in range(20):
            X, truth = rng.random((n, p)), 2 * rng.standard_normal(p)
            y = X @ truth + 0.3 * rng.standard_normal(n)
            H, best = X.T @ X / n, np.linalg.lstsq(X, y, rcond=None)[0]
            theta, L_1 = np.zeros(p), float(np.linalg.eigvalsh(H)[-1])
            while (theta - best) @ H @ (theta - best) / 2 > n**-0.5:
                theta = theta - H @ (theta - best) / L_1
            risks += [float((one - truth) @ second @ (one - truth)) / 2 for one in (theta, best)]
        ratio, within = max(ratio, risks[0] / risks[1]), max(within, risks[0] / 20 / (2 * n**-0.5))
    return {GAIN: float(ratio), WITHIN: float(within)}
