"""After Proposition 1 of Jadbabaie et al. (2023): how far empirical risk is from the true one, for nine θ at once."""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_smoothness import sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

MEAN = Check(
    "After Proposition 1",
    "√n times the mean of the largest difference of risks over nine θ, n = 100 to 10,000: largest over smallest",
    "times",
    1.15,
)
QUANTILES = Check("After Proposition 1", "… and its 50, 90 and 98 % quantiles: largest over smallest", "times", 1.35)
CHECKS = (MEAN, QUANTILES)
TRUE = np.array([2.0, -1.0])  # of the labels
PLACES = np.array(list(product((-3.0, 0.5, 3.0), repeat=2)))  # θ
SAMPLES, DRAWS = (100, 1000, 10_000), 400


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 92])
    risk = true_risk()
    found = [np.sqrt(n) * np.array([farthest(rng, n, risk) for _ in range(DRAWS)]) for n in SAMPLES]
    return named(spread(found))


def spread(found: list[Array]) -> dict[Check, float]:
    """From √n times the differences, for each n."""
    means = [float(one.mean()) for one in found]
    levels = np.array([np.quantile(one, (0.5, 0.9, 0.98)) for one in found])
    return {MEAN: max(means) / min(means), QUANTILES: float((levels.max(axis=0) / levels.min(axis=0)).max())}


def true_risk() -> Array:
    """At each place, by quadrature over inputs in [0, 1]²."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    x = np.array(list(product((nodes + 1) / 2, repeat=2)))
    each = np.outer(weights, weights).ravel() / 4
    t = x @ PLACES.T
    return np.asarray(each @ (np.logaddexp(0, t) - sigmoid(x @ TRUE)[:, None] * t))


def farthest(rng: np.random.Generator, n: int, risk: Array) -> float:
    x = rng.random((n, 2))
    t = x @ PLACES.T
    losses = np.log1p(np.exp(t)) - (rng.random(n) < sigmoid(x @ TRUE))[:, None] * t
    return float(np.abs(losses.mean(axis=0) - risk).max())
