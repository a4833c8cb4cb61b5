"""Section 2 of Shen et al. (2022) and footnotes: spaces, the loss, subgradients, and what an interpolation holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from fedsolve.learners import Fitting, RidgeLearner, WeakLearner
from fedsolve.learners.lipschitz import LipschitzLearner
from fedsolve.losses import Softmax
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within
from fedsolve.typing import Array

S21, S22 = "Section 2.1", "Section 2.2"
LIMIT = Within(S21, "(∫‖f‖^p dα)^(1/p) over ‖f‖_α,∞ at p = 1,000, 200 f on 12 points", most=1.0, give=0.01)
EMBEDDED = Check(S21, "f(x_n) = 2^n, finite everywhere: ‖f‖_α,∞ on 40 points is that on 20, masses 2^(−n)", "times")
ENTROPY = Same(S22 + ", (1)", "(1), the i of its numerator read as the label, is the library's log-loss, 200 outputs")
ALL_G = Check(S22, "of 200 random g those with F[g] ≥ F[f] + ⟨g − f, h⟩, as printed: a share of", "times", 0.0)
ONLY_H = AtLeast(S22, "for each of 200 k ≠ h some g has F[g] < F[f] + ⟨g − f, k⟩: a share of", most=1.0)
EMPIRICAL = Check(
    S22 + ", (3)", "h(x_j) = ∇_1ℓ(f(x_j), y_j) + μf(x_j): against differences of F at 20 rows", "off", 1e-6
)
HOLDS = Within(S22, "the share of a client's rows that the interpolation (13) holds, bit for bit", most=1.0, give=0.0)
GROWS = Within(S22, "numbers of the interpolation of 200 rows over those of 50", most=4.0, give=0.1)
COMPACT = Check(S22, "numbers of a fitted weak learner (ridge) of 200 rows over those of 50", "times")
CLEAN = Check(S22, "the share of a client's rows that the arrays of the weak learner hold", "times", 0.0)
CHECKS = (LIMIT, EMBEDDED, ENTROPY, ALL_G, ONLY_H, EMPIRICAL, HOLDS, GROWS, COMPACT, CLEAN)
MU = 0.5
LEARNERS: Mapping[str, WeakLearner] = {"u": LipschitzLearner(), "ridge": RidgeLearner()}


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    _norms(rng, found)
    _subgradients(rng, found)
    _interpolation(rng, found)


def _norms(rng: np.random.Generator, found: Found) -> None:
    for _ in range(200):
        mass, f = rng.dirichlet(np.ones(12)), np.abs(rng.standard_normal(12))
        largest = f[mass > 0].max()
        found.note(LIMIT, largest_norm(f / largest, mass, 1000))
    sizes = [np.max(2.0 ** np.arange(1, n + 1)) for n in (20, 40)]
    found.note(EMBEDDED, sizes[1] / sizes[0])
    logits, y = 5 * rng.standard_normal((200, 5)), rng.integers(0, 5, 200)
    printed = -np.log(np.exp(logits[np.arange(200), y]) / np.exp(logits).sum(axis=1))
    found.same(ENTROPY, Softmax(classes=5).error(np, logits, np.eye(5)[y]), printed, 1.0)


def largest_norm(f: Array, mass: Array, p: float) -> float:
    """(Σ mass |f|^p)^(1/p)."""
    return float((mass @ np.abs(f) ** p) ** (1 / p))


def _subgradients(rng: np.random.Generator, found: Found) -> None:
    """Logistic loss at 20 distinct rows, each of mass 1/20."""
    y = (rng.random(20) < 0.5).astype(float)

    def value(f: Array) -> float:
        return float(np.mean(np.logaddexp(0, f) - y * f + MU / 2 * f**2))

    f = rng.standard_normal(20)
    h = 1 / (1 + np.exp(-f)) - y + MU * f
    steps = 1e-6 * np.eye(20)
    slopes = np.array([(value(f + e) - value(f - e)) / 2e-6 for e in steps])
    found.note(EMPIRICAL, np.abs(20 * slopes - h).max())
    others = rng.normal(0, 2, (200, 20))
    found.note(ALL_G, np.mean([value(g) >= value(f) + np.mean((g - f) * h) for g in others]))
    refuted = []
    for k in h + others:
        g = f + 0.1 * (k - h) / (1 + MU)  # a short way along k − h, where the curvature is at most ¼ + μ
        refuted.append(value(g) < value(f) + np.mean((g - f) * k))
    found.note(ONLY_H, np.mean(refuted))


def _interpolation(rng: np.random.Generator, found: Found) -> None:
    """What a function consists of that a client could send."""
    sizes = {}
    for rows, (name, learner) in product((50, 200), LEARNERS.items()):
        X = rng.standard_normal((rows, 3))
        h = learner.fit(Fitting(X, -np.sin(X[:, 0]), None, (), rng))
        arrays = [np.asarray(one) for one in h.arrays()]
        sizes[name, rows] = sum(one.size for one in arrays)
        found.note(HOLDS if name == "u" else CLEAN, held(arrays, X))
    found.note(GROWS, sizes["u", 200] / sizes["u", 50])
    found.note(COMPACT, sizes["ridge", 200] / sizes["ridge", 50])


def held(arrays: Sequence[Array], X: Array) -> float:
    """The share of rows all of whose numbers are in the arrays."""
    numbers = np.concatenate([one.ravel() for one in arrays])
    return float(np.isin(X, numbers).all(axis=1).mean())
