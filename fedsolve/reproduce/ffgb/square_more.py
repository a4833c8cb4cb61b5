"""Section 4.3 and Appendix F of Shen et al. (2022): which functions are gradients, plans, sums over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same, Zero
from fedsolve.reproduce.ffgb.square_runs import Regression, Step
from fedsolve.typing import Array

# ── Section 4.3 ──
ANY = Below(
    "Section 4.3", "F: R_i[g] + ⟨f − g, h⟩_αi ≤ R_i[f] for h that is g − y at the client's points and random elsewhere"
)
ONLY = AtLeast("Section 4.3", "F: of 200 other h those for which some f has less: a share of", most=1.0)
# ── Lemma F.1 ──
OUTSIDE = Zero("Lemma F.1, proof", "F: the most mass that a plan can have outside supp(μ) × supp(ν)", most=1e-9)
SUPPORT = Zero("Lemma F.1, proof", "F: mass of the clients where α has none")
SADDLE = Same("Lemma F.1, proof", "F: with both marginals right the inner maximum over φ, ψ is the plan's cost")
SADDLE_OFF = AtLeast("Lemma F.1, proof", "F: … and with a wrong one it passes any bound: φ, ψ times 1e6", most=1e3)
# ── the rounds ──
APART = Below("Appendix F, drift", "F: the mean of ‖g_i − ḡ‖² is at most that of 2‖g_i − f^t‖² + 2‖f^t − ḡ‖²")
TOTAL = Check("Appendix F, end", "F: (KT + 1)‖f^T − f*‖² is at most the five terms, constants 1, the last with L²ω")
TOTAL_RIGHT = Check("Appendix F, end", "F: … the last with L(LD + B)ω")
CHECKS = (ANY, ONLY, OUTSIDE, SUPPORT, SADDLE, SADDLE_OFF, APART, TOTAL, TOTAL_RIGHT)


def gradients(one: Regression, rng: np.random.Generator, found: Found) -> None:
    """h(x_j) = g(x_j) − y_j at a client's points is all that a gradient of R_i needs, and it needs that."""

    def below(f: Array, g: Array, h: Array) -> tuple[Array, Array]:
        values = [one.own(a - one.y, a - one.y) / 2 for a in (f, g)]
        return values[1] + one.own(f - g, h), values[0]

    others = 0
    for _ in range(200):
        f, g, noise = rng.standard_normal((3, *one.u.shape))
        found.below(ANY, *below(f, g, np.where(one.inside, g - one.y, noise)))
        off = np.where(one.inside, noise, 0.0)  # h = g − y + noise fails at f = g + noise, where R_i has less
        left, right = below(g + off, g, g - one.y + off)
        others += bool((left > right).all())
    found.note(ONLY, others / 200)


def plans(rng: np.random.Generator, found: Found, n: int = 12) -> None:
    """Feasible plans of two distributions with gaps, and the Lagrangian of the transport problem."""
    from scipy.optimize import linprog

    X, mass = rng.random((n, 2)), rng.dirichlet(np.ones(n), 2)
    mass[0, : n // 3], mass[1, -n // 3 :] = 0.0, 0.0
    a, b = mass / mass.sum(axis=1, keepdims=True)
    found.note(SUPPORT, np.where((a + b) / 2 > 0, 0.0, a + b).max())
    rows = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    free = 1.0 - np.outer(a > 0, b > 0)
    made = linprog(-free.ravel(), A_eq=rows, b_eq=np.concatenate([a, b]), bounds=(0, None))
    found.note(OUTSIDE, -made.fun)
    costs = np.linalg.norm(X[:, None] - X[None], axis=2)

    def lagrangian(plan: Array, phi: Array, psi: Array) -> float:
        return float((costs * plan).sum() + phi @ (a - plan.sum(axis=1)) + psi @ (b - plan.sum(axis=0)))

    right, wrong = np.outer(a, b), rng.dirichlet(np.ones(n * n)).reshape(n, n)
    for phi, psi in rng.standard_normal((20, 2, n)):
        found.same(SADDLE, lagrangian(right, phi, psi), (costs * right).sum(), phi, psi)
    found.note(SADDLE_OFF, lagrangian(wrong, 1e6 * (a - wrong.sum(axis=1)), 1e6 * (b - wrong.sum(axis=0))))


def rounds(one: Regression, steps: Sequence[Step], gamma: float, K: int, found: Found) -> None:
    """The spread of the clients at every step, and the sum over t < T, for every T of a run; μ = 1, k_0 = 0."""
    start = float(one.all(steps[0].f - one.y, steps[0].f - one.y))
    for step in steps:
        bar = step.g.mean(axis=0)
        moved, back = step.g - step.f, np.tile(step.f - bar, (len(step.g), 1))
        apart, right = one.own(step.g - bar, step.g - bar), one.own(moved, moved) + one.own(back, back)
        found.below(APART, apart.mean(), 2 * right.mean(), one.own(step.g, step.g))
        if step.k < K:
            continue
        T, new = step.t + 1, step.after.mean(axis=0) - one.y
        left = (K * T + 1) * float(one.all(new, new))
        most = start + K**2 * (one.radius + one.G2 + one.B**2) * log(K * T + 1) / gamma**2
        most += ((1 - gamma) ** 2 * T * one.B**2 + (1 - gamma) * one.G2 * log(K * T)) / gamma**2
        inputs = T * K / gamma**2
        found.note(TOTAL, left / (most + inputs * one.L**2 * float(one.w1.mean())))
        found.note(TOTAL_RIGHT, left / (most + inputs * one.radius))
