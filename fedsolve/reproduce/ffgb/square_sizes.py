"""Appendix F of Shen et al. (2022), sizes and slopes: Lemmas F.2 to F.5 and their proofs, step by step."""

from __future__ import annotations

import itertools

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Below, Found, Same
from fedsolve.reproduce.ffgb.square_runs import Regression, Step
from fedsolve.typing import Array

RESIDUAL = Below("Appendix F, slopes", "F: ‖Δ^k‖_lip ≤ (1 − γ)(‖Δ^(k−1)‖_lip + L) ≤ (1 − γ)L/γ, both oracles")
QUERY = Check(
    "Appendix F, slopes", "F: the query and the answer are L/γ-Lipschitz, h = γφ and φ plus or minus a constant"
)
STEEP = Below(
    "Appendix F, slopes", "F: ‖g^(k+1)‖_lip ≤ (1 − η)‖g^k‖_lip + ηL/γ and g is L/γ-Lipschitz, η ≤ ½, the same two"
)
STEEP_LONG = Check("Appendix F, slopes", "F: g is L/γ-Lipschitz with the step sizes of Theorem 4.4")
LEFT = Below("Lemma F.2, (45) and (46)", "F: ‖Δ^k‖ ≤ (1 − γ)‖Δ^(k−1)‖ + (1 − γ)B ≤ (1 − γ)B/γ, both oracles")
FROM_15 = Check("Lemma F.2, (45)", "F: ‖Δ^1‖ ≤ (1 − γ)‖u‖ at the client's points from (15) alone, φ plus 10B")
ANSWER = Check("Lemma F.2", "F: ‖h_i‖ ≤ B/γ at the client's points, φ plus or minus a constant")
ANSWER_RIGHT = Check("Lemma F.2", "F: … ≤ (2 − γ)B/γ")
INDUCTION = Below("Lemma F.3, (47)", "F: ‖g^(k+1)‖ − B/γ ≤ (1 − η)(‖g^k‖ − B/γ), η ≤ ½, h = γφ")
MEAN = Check("Lemma F.4, proof", "F: ḡ is at most B/γ at every client's points, in every round, η ≤ ½, h = γφ")
EVERYWHERE = Check(
    "Lemma F.4", "F: g_i, ḡ and the answers are at most (LD + B)/γ everywhere, φ plus or minus a constant"
)
EVERYWHERE_RIGHT = Check("Lemma F.4", "F: … at most (LD + (2 − γ)B)/γ")
JENSEN = Below("Lemma F.5, (48)", "F: ‖ḡ‖²_αs ≤ Σ_i ‖g_i‖²_αs/N")
PLAN = Below("Lemma F.5, proof", "F: ‖g_i‖²_αs ≤ 2L²/γ² W_2²(α_s, α_i) + 2‖g_i‖²_αi, by the plan, in three steps")
NORM = Check("Lemma F.5", "F: ‖ḡ‖_αs ≤ G_s²/γ², as printed, labels of slope 0.1, h = γφ")
SQUARED = Check("Lemma F.5, (49) and (50)", "F: ‖ḡ‖²_αs and ‖h̄‖²_αs ≤ G_s²/γ², h = γφ, η ≤ ½")
SQUARED_MOVED = Check("Lemma F.5, (50)", "F: ‖h̄‖²_αs ≤ G_s²/γ², φ plus or minus a constant")
GLOBAL = Check("Lemma F.5", "F: ḡ and h̄ are G-bounded in L²(α), as printed, φ plus or minus a constant")
GLOBAL_GAMMA = Check("Lemma F.5", "F: … G/γ-bounded, h = γφ")
ORDER = Check("Appendix F, end", "F: B ≤ G/√2, so that B = O(G)")
CHECKS = (
    *(RESIDUAL, QUERY, STEEP, STEEP_LONG, LEFT, FROM_15, ANSWER, ANSWER_RIGHT, INDUCTION, MEAN, EVERYWHERE),
    *(EVERYWHERE_RIGHT, JENSEN, PLAN, NORM, SQUARED),
    *(SQUARED_MOVED, GLOBAL, GLOBAL_GAMMA, ORDER),
)  # fmt: skip

# ── (13), and ∇R_i = g − u_i ──
SUBGRADIENT = Same(
    "Section 4.3", "F: R_i[f] − R_i[g] − ⟨f − g, g − u_i⟩_αi = ‖f − g‖²_αi/2: g − u_i is a gradient of R_i"
)
LABELS = Check("Section 4.3", "F: |y_j − y_j'| ≤ L‖x_j − x_j'‖ for labels of an L-Lipschitz f* without noise")
TIGHTER = Check("Before Lemma F.5", "F: G², the bound of Lemma F.5, is at most (LD + B)², that of Lemma F.4")
TIGHTER_FAR = Check("Before Lemma F.5", "F: … where each client has 1 of 40 points 20 away from all others")
PROBLEM = (SUBGRADIENT, LABELS, TIGHTER, TIGHTER_FAR)


def problem(one: Regression, rng: np.random.Generator, found: Found) -> None:
    """What holds before any step."""
    f, g = rng.standard_normal((2, *one.u.shape))
    values = [one.own(a - one.y, a - one.y) / 2 for a in (f, g)]
    slope = one.own(f - g, g - one.u)
    found.same(SUBGRADIENT, values[0] - values[1] - slope, one.own(f - g, f - g) / 2, values[0], slope)
    found.note(LABELS, one.lip(one.y[None]) / one.L)
    found.note(TIGHTER, one.G2 / (one.L * one.D + one.B) ** 2)
    found.note(ORDER, np.sqrt(2) * one.B / np.sqrt(one.G2))
    h = one.u + 10 * one.B  # its slopes are those of φ = u, so that (15) holds with every γ; here 0.3
    found.note(FROM_15, one.sup(h - one.u) / (0.7 * one.sup(one.u)))


def slopes(one: Regression, step: Step, gamma: float, small: bool, found: Found) -> None:
    """Lipschitz constants; `small` says that step sizes are at most ½."""
    L = one.L
    found.below(RESIDUAL, one.lip(step.residual), (1 - gamma) * (one.lip(step.before) + L))
    found.below(RESIDUAL, one.lip(step.residual), (1 - gamma) * L / gamma, L)
    steep = max(one.lip(one.u - step.before).max(), one.lip(step.h).max())
    found.note(QUERY, steep / (L / gamma))
    if small:
        found.below(STEEP, one.lip(step.after), (1 - step.eta) * one.lip(step.g) + step.eta * L / gamma)
        found.below(STEEP, one.lip(step.after), L / gamma)
    else:
        found.note(STEEP_LONG, one.lip(step.after) / (L / gamma))


def values(one: Regression, step: Step, gamma: float, constant: bool, found: Found) -> None:
    """Lemmas F.2 to F.4 with step sizes of at most ½; `constant` says which oracle."""
    B = one.B
    found.below(LEFT, one.sup(step.residual), (1 - gamma) * (one.sup(step.before) + B), B)
    found.below(LEFT, one.sup(step.residual), (1 - gamma) * B / gamma, B)
    found.note(ANSWER_RIGHT, one.sup(step.h) / ((2 - gamma) * B / gamma))
    bar = np.tile(step.after.mean(axis=0), (len(step.g), 1))
    if constant:
        found.note(ANSWER, one.sup(step.h) / (B / gamma))
        most = max(np.abs(step.h).max(), np.abs(step.after).max())  # ḡ is at most the largest g_i
        found.note(EVERYWHERE, most / ((one.L * one.D + B) / gamma))
        found.note(EVERYWHERE_RIGHT, most / ((one.L * one.D + (2 - gamma) * B) / gamma))
    else:
        ahead, behind = one.sup(step.after) - B / gamma, one.sup(step.g) - B / gamma
        found.below(INDUCTION, ahead, (1 - step.eta) * behind, B)
        found.note(MEAN, one.sup(bar) / (B / gamma))


def local(one: Regression, step: Step, gamma: float, constant: bool, found: Found) -> None:
    """Lemma F.5."""
    g, bounds = step.after, 2 * one.L**2 * one.squares.mean(axis=1) + 2 * one.B**2  # G_s²
    means = [np.tile(a.mean(axis=0), (len(g), 1)) for a in (g, step.h)]
    sizes = [one.own(a, a) for a in means]  # ‖·‖²_αs
    crossed = np.square(g) @ one.mass.T  # ‖g_i‖²_αs, clients i in rows
    found.below(JENSEN, sizes[0], crossed.mean(axis=0))
    if not constant:
        found.note(SQUARED, np.maximum(*sizes) / (bounds / gamma**2))
        found.note(GLOBAL_GAMMA, max(one.all(a[0], a[0]) for a in means) / (one.G2 / gamma**2))
    else:
        found.note(SQUARED_MOVED, sizes[1] / (bounds / gamma**2))
        found.note(GLOBAL, max(np.sqrt(one.all(a[0], a[0])) for a in means) / np.sqrt(one.G2))
    if one.L < 1 and not constant:
        found.note(NORM, np.sqrt(sizes[0]) / (bounds / gamma**2))
    for s, here in enumerate(one.inside):
        for i, there in enumerate(one.inside):
            _plan(one, g[i], here, there, gamma, one.squares[s, i], found)


def _plan(one: Regression, g: Array, here: Array, there: Array, gamma: float, square: float, found: Found) -> None:
    """The transport plan of W_2 between two clients is a matching of their points."""
    from scipy.optimize import linear_sum_assignment

    costs = np.square(one.apart[np.ix_(here, there)])
    rows, columns = linear_sum_assignment(costs)
    a, b, cost = g[here][rows], g[there][columns], costs[rows, columns]
    steps = [
        np.square(a).mean(),
        (2 * np.square(a - b) + 2 * np.square(b)).mean(),
        (2 * (one.L / gamma) ** 2 * cost + 2 * np.square(b)).mean(),
        2 * (one.L / gamma) ** 2 * square + 2 * np.square(g[there]).mean(),
    ]
    for left, right in itertools.pairwise(steps):
        found.below(PLAN, left, right, one.B**2)
