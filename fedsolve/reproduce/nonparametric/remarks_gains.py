"""Su, Xu and Yang (2023), sections 6.2, 6.3 and 7.2, d = 100: where gains exceed one, and the local benchmark.

Expectations over the noise are exact; those over rows are means of draws.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.gain import heterogeneity_threshold
from fedsolve.closed_forms.methods import Method
from fedsolve.reproduce.nonparametric.methods import ETA, SIGMA, methods
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.subspaces import EACH, FEATURES, RICH, SCARCE
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

EXCEEDS = Quantity(
    "After Theorem 16",
    "the gain exceeds one up to the threshold: the best estimator's local over the federated risk, means over truths "
    "and 4 draws of the rows, at Γ = ¼, ½ and 1 times B√(1 − n_j/d) for n_j = 50 and min{σ√(d/n_j), B} for n_j = 500, "
    "four methods",
    "gain",
    least=1.0,
)
NOT_ALONE = Quantity(
    "Section 6.2, benefits",
    "a client with n_j = 5 ≪ d = 100 rows learns nothing alone: the best estimator's error is at least 0.9 ‖θ_j*‖",
    "local error over ‖θ_j*‖",
    least=0.9,
)
TOGETHER = Quantity(
    "Section 6.2, benefits",
    "… and by joining it has an error of at most 0.2 ‖θ_j*‖, with truths Γ = 0.1 ‖θ_j*‖ apart, four methods",
    "federated error over ‖θ_j*‖",
    most=0.2,
)
MINIMUM_NORM = Quantity(
    "Section 7.2",
    "minimum-norm least squares attains the minimax rate: its risk is at most 1.1 times the Bayes risk for truths of "
    "the same mean square, n_j = 50 and 500",
    "risk over Bayes risk",
    most=1.1,
)
INTERPOLATES = Quantity(
    "Section 7.2", "… and with n_j = d = 100 it is at most 1.1 times, too", "risk over Bayes risk", most=1.1
)
IN_PROPORTION = Quantity(
    "After Theorem 17",
    "n_j = 5 ≪ d: with one truth the gain grows in proportion to N/d, exponent in N 1 ± 0.1, N = 5,455 to 21,805, four "
    "methods",
    "exponent",
    0.9,
    1.1,
)
IN_INVERSE = Quantity(
    "After Theorem 17",
    "… and in inverse proportion to d, with the same B: exponent in d −1 ± 0.1, d = 50, 100 and 200, N = 5,455, four "
    "methods",
    "exponent",
    -1.1,
    -0.9,
)
QUANTITIES = (EXCEEDS, NOT_ALONE, TOGETHER, MINIMUM_NORM, INTERPOLATES, IN_PROPORTION, IN_INVERSE)
SIZES = (SCARCE,) * EACH + (RICH,) * EACH
DRAWS = 4


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 35])
    for own in (SCARCE, RICH):
        _thresholds(own, rng, notes)
    _few_rows(rng, notes)
    _local(rng, notes)
    _by_dimension(rng, notes)


def _federation(rng: np.random.Generator, own: int, times: int = 1, d: int = FEATURES) -> list[Array]:
    """The client with `own` rows, and the others of Figure 4, with so many times their rows."""
    others = list(SIZES)
    others.remove(own if own in others else SCARCE)
    return [rng.standard_normal((n, d)) for n in (own, *(times * n for n in others))]


def federated_risk(X: list[Array], gap: float, method: Method) -> float:
    """E‖θ_∞ − θ_0*‖² over the noise and the direction in which the others' common truth is `gap` away."""
    total, d = sum(map(len, X)), X[0].shape[1]
    A, others, noise = (np.zeros((d, d)) for _ in range(3))
    for place, rows in enumerate(X):
        H = rows.T @ rows / len(rows)
        values, vectors = np.linalg.eigh(H)
        p = (vectors * method.filter(np.maximum(values, 0.0))) @ vectors.T
        own = len(rows) / total * p @ H
        A, noise = A + own, noise + own @ p / total
        others = others + own if place else others
    inverse = np.linalg.inv(A)
    bias: float = gap**2 / d * float(np.square(inverse @ others).sum())
    return bias + SIGMA**2 * float(np.trace(inverse @ noise @ inverse.T))


def _thresholds(own: int, rng: np.random.Generator, notes: Notes) -> None:
    threshold = heterogeneity_threshold(own, FEATURES, SIGMA, math.sqrt(FEATURES))
    risks: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for _ in range(DRAWS):
        X = _federation(rng, own)
        local = local_risks(X[0], 1.0)[1]  # truths of mean square d
        for share in (0.25, 0.5, 1.0):
            for name, method in methods(ETA).items():
                risks.setdefault((name, share), []).append((local, federated_risk(X, share * threshold, method)))
    for some in risks.values():
        alone, together = np.mean(some, axis=0)
        notes.add(EXCEEDS, alone / together)


def _few_rows(rng: np.random.Generator, notes: Notes) -> None:
    X = _federation(rng, 5)
    norm = math.sqrt(FEATURES)
    eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)  # ‖K_x_i‖ of 5 rows is about 30
    notes.add(NOT_ALONE, math.sqrt(local_risks(X[0], 1.0)[1]) / norm)
    for method in methods(eta).values():
        notes.add(TOGETHER, math.sqrt(federated_risk(X, 0.1 * norm, method)) / norm)
    federations = [X, *([X[0], *_federation(rng, 5, times)[1:]] for times in (2, 4))]
    totals = [sum(map(len, one)) for one in federations]
    alone = local_risks(X[0], 1.0)[1]
    for method in methods(eta).values():  # the 5 rows, which are the steepest, stay
        gains = [alone / federated_risk(one, 0.0, method) for one in federations]
        notes.add(IN_PROPORTION, slope(totals, gains))


def _by_dimension(rng: np.random.Generator, notes: Notes) -> None:
    """The gain of 5 rows for truths of mean square 100, whatever d is."""
    dimensions, table = (50, 100, 200), []
    for d in dimensions:
        X = _federation(rng, 5, d=d)
        alone = local_risks(X[0], 100 / d)[1]
        eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
        table.append([alone / federated_risk(X, 0.0, method) for method in methods(eta).values()])
    notes.add(IN_INVERSE, *(slope(dimensions, one) for one in np.transpose(table).tolist()))


def local_risks(X: Array, variance: float) -> tuple[float, float]:
    """Of least squares of minimum norm and of the best estimator, in the mean over truths N(0, variance · I)."""
    scales = np.linalg.svd(X, compute_uv=False)
    unseen = (X.shape[1] - len(scales)) * variance
    best = float((SIGMA**2 * variance / (SIGMA**2 + variance * scales**2)).sum())
    return unseen + SIGMA**2 * float((scales**-2.0).sum()), unseen + best


def _local(rng: np.random.Generator, notes: Notes) -> None:
    for n in (SCARCE, FEATURES, RICH):
        ours, best = np.mean([local_risks(rng.standard_normal((n, FEATURES)), 1.0) for _ in range(DRAWS)], axis=0)
        notes.add(INTERPOLATES if n == FEATURES else MINIMUM_NORM, ours / best)
