"""The proof of Lemma F.1 of Shen et al. (2022): W_1 as two linear programmes, and the product of two functions."""

from __future__ import annotations

import numpy as np

from fedsolve.diagnose import wasserstein
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same
from fedsolve.typing import Array

EXACT = 1e-8  # of a linear programme
PLAN = AtLeast("Lemma F.1, proof", "F: optimal plans have all of their mass on supp(μ) × supp(ν)", most=1 - 1e-9)
TWO = Same("Lemma F.1, proof", "F: W_1 is the maximum over φ(x) + ψ(y) ≤ ‖x − y‖", most=EXACT)
ONE = Same("Lemma F.1, proof", "F: … and over one φ with |φ(x) − φ(y)| ≤ ‖x − y‖ on supp(μ) × supp(ν)", most=EXACT)
PRODUCT = Check("Lemma F.1, proof", "F: fg/ξ has slopes of at most 1")
INNER = Below("Lemma F.1, (43)", "F: |⟨f, g⟩_αi − ⟨f, g⟩_α| ≤ ξ W_1(α, α_i), α the mean of the clients")
VARIATION = Same("Appendix A, (18)", "TV, the largest |α(A) − β(A)| over all 4,096 sets, is half the sum of |α − β|")
TRANSPORT = Same(
    "Appendix A, (19)", "W_1 and W_2 by a linear programme over all plans are those that we use", most=EXACT
)
CHECKS = (VARIATION, TRANSPORT, PLAN, TWO, ONE, PRODUCT, INNER)
POINTS = 12


def lemma(rng: np.random.Generator, found: Found, times: int = 20) -> None:
    """Random clients on points of the plane."""
    for _ in range(times):
        X = rng.random((POINTS, 2))
        mass = rng.dirichlet(np.ones(POINTS), 3) * (rng.random((3, POINTS)) < 0.6) + 1e-300
        mass = np.where(mass > 1e-200, mass, 0.0)
        mass[:, 0] += 0.1
        mass /= mass.sum(axis=1, keepdims=True)
        alpha = mass.mean(axis=0)
        costs = np.linalg.norm(X[:, None] - X[None], axis=2)
        _distances(X, alpha, mass[0], costs, found)
        f, g = rng.uniform(-1, 1, (2, POINTS)) * rng.uniform(0.1, 3, (2, 1))
        apart = np.where(costs > 0, costs, np.inf)

        def slope(a: Array, apart: Array = apart) -> float:
            return float((np.abs(a[:, None] - a[None]) / apart).max())

        xi = slope(f) * np.abs(g).max() + slope(g) * np.abs(f).max()
        found.note(PRODUCT, slope(f * g / xi))
        for one in mass:
            found.below(INNER, abs(((one - alpha) * f * g).sum()), xi * wasserstein(X, X, alpha, one))


def _distances(X: Array, a: Array, b: Array, costs: Array, found: Found) -> None:
    from scipy.optimize import linprog

    n = len(a)
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    found.same(VARIATION, np.abs(sets @ (a - b)).max(), np.abs(a - b).sum() / 2)
    rows = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])  # both marginals
    for power in (1, 2):
        made = linprog((costs**power).ravel(), A_eq=rows, b_eq=np.concatenate([a, b]), bounds=(0, None))
        found.same(TRANSPORT, made.fun ** (1 / power), wasserstein(X, X, a, b, power=power))
        plan = made.x.reshape(n, n)
        found.note(PLAN, plan[np.ix_(a > 0, b > 0)].sum())
    here, there = np.flatnonzero(a > 0), np.flatnonzero(b > 0)
    pairs = [(i, j) for i in here for j in there]
    first, second = np.zeros((len(pairs), 2 * n)), np.zeros((len(pairs), n))
    for place, (i, j) in enumerate(pairs):
        first[place, [i, n + j]] = 1
        second[place, i] += 1
        second[place, j] -= 1
    limits = np.array([costs[i, j] for i, j in pairs])
    exact = wasserstein(X, X, a, b)
    both = linprog(-np.concatenate([a, b]), A_ub=first, b_ub=limits, bounds=(None, None))
    found.same(TWO, -both.fun, exact)
    lone = linprog(b - a, A_ub=np.vstack([second, -second]), b_ub=np.concatenate([limits, limits]), bounds=(None, None))
    found.same(ONE, -lone.fun, exact)
