"""Appendix E of Shen et al. (2022), equation by equation: a step of Algorithm 2 with equal inputs, oracle (5)."""

from __future__ import annotations

import itertools

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Below, Found, Same
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step

E = "Appendix E"
EXPANDED = Same(f"{E}, (36) to (38)", "E: the expansion (36), and both forms (37) and (38) of its last term")
CONVEX = Below(f"{E}, after (38)", "E: strong convexity of F_i")
OPTIMAL = Below(f"{E}, after (38)", "E: Σ F_i[g_i] − F_i[f*] ≤ Σ F_i[g_i] − F_i[ḡ], as printed")
OPTIMAL_TURNED = Below(f"{E}, after (38)", "E: … ≥, which the next step uses")
CAUCHY = Below(f"{E}, after (38)", "E: the mean of ‖f* − g_i‖² is at least ‖f* − ḡ‖²")
CHAIN = Below(f"{E}, before (39)", "E: the three inequalities for the second term of (38)")
RESIDUAL = Below(f"{E}, (39)", "E: ‖Δ^k‖ ≤ (1 − γ)(‖Δ^(k−1)‖ + G), and ‖Δ^k‖ ≤ (1 − γ)G/γ, in L²(α)")
ANSWER = Same(f"{E}, after (39)", "E: ‖h_i‖ = ‖∇R_i + Δ^(k−1)‖, as printed")
ANSWERS = Check(f"{E}, after (39)", "E: ‖Σ h_i/N‖ ≤ Σ ‖h_i‖/N ≤ (2 − γ)G/γ")
UPDATE = Same(f"{E}, before (40)", "E: g^(k+1) = (1 − μη)g + ηh, as printed")
UPDATE_MINUS = Same(f"{E}, before (40)", "E: … with a minus")
INDUCTION = Below(f"{E}, (40)", "E: ‖g^(k+1)‖ − 2G/(γμ) ≤ (1 − μη)(‖g^k‖ − 2G/(γμ)) at every step")
STAYS = Check(f"{E}, (40)", "E: ‖g_i‖ ≤ 2G/(γμ) in every round, and ‖ĥ_i‖ ≤ 4G/γ, in L²(α), ‖f⁰‖ = 0 and 2G/(γμ)")
FIRST = Below(
    f"{E}, before the recursion", "E: the first term of (38) is at most (64K² + 16)ηG²/γ², by Young's inequality"
)
PLUGGED = Below(f"{E}, recursion", "E: the recursion of ‖ḡ^k − f*‖², constant 1")
CHECKS = (
    *(EXPANDED, CONVEX, OPTIMAL, OPTIMAL_TURNED, CAUCHY, CHAIN, RESIDUAL, ANSWER, ANSWERS, UPDATE, UPDATE_MINUS),
    *(INDUCTION, STAYS, FIRST, PLUGGED),
)  # fmt: skip


def expansion(one: Posed, step: Step, gamma: float, K: int, found: Found) -> None:
    """(36) to (38), the first term of (38), and the recursion."""
    f, eta, g, hat = one.best, step.eta, step.g, step.h + one.mu * step.g
    bar, mean, new = g.mean(axis=0), hat.mean(axis=0), step.after.mean(axis=0)
    square, cross = one.all(bar - f, bar - f), one.all(bar - f, mean)
    ahead = one.all(new - f, new - f)
    found.same(
        EXPANDED, ahead, square + eta**2 * one.all(mean, mean) - 2 * eta * cross, square, eta**2 * one.own(hat, hat)
    )
    first, second = one.own(g - bar, hat), one.own(f - g, one.slope(g))
    third = one.own(f - g, hat - one.slope(g))
    for right in (-2 * one.own(bar - f, hat).mean(), 2 * (first + second + third).mean()):
        found.same(EXPANDED, -2 * cross, right, second, one.own(np.abs(g) + np.abs(f), np.abs(hat)))
    apart = one.own(g - bar, g - bar).mean()
    young = apart / eta + eta * one.own(hat, hat).mean()
    found.below(FIRST, 2 * first.mean(), young)
    found.below(FIRST, young, (64 * K**2 + 16) * eta * G**2 / gamma**2)
    right = (1 - one.mu * eta / 2) * square + K**2 * eta**2 * G**2 / gamma**2
    right += 2 * eta * third.mean() - eta * one.mu / 2 * one.own(f - g, f - g).mean()
    found.below(PLUGGED, ahead, right)


def convexity(one: Posed, step: Step, found: Found) -> None:
    """The second term of (38)."""
    f, g, eta, mu = np.tile(one.best, (len(step.g), 1)), step.g, step.eta, one.mu
    bar, far = np.tile(g.mean(axis=0), (len(g), 1)), one.own(f - g, f - g)
    apart, centre = one.own(g - bar, g - bar), one.all(bar[0] - f[0], bar[0] - f[0])
    term = 2 * one.own(f - g, one.slope(g)).mean()
    excess, shift = (one.value(g) - one.value(f)).sum(), (one.value(g) - one.value(bar)).sum()
    n = len(g)
    found.below(CONVEX, term, -2 / n * excess - mu * far.mean(), excess)
    found.below(OPTIMAL, excess, shift)
    found.below(OPTIMAL_TURNED, shift, excess)
    found.below(CAUCHY, centre, far.mean())
    rest, steep = -mu / 2 * centre - mu / 2 * far.mean(), one.slope(bar)
    tangent = -2 * one.own(steep, g - bar).mean()
    young = (eta * one.own(steep, steep) + apart / eta).mean()
    lines = [term, -2 / n * shift + rest, tangent + rest, young + rest]
    for left, right in itertools.pairwise(lines):
        found.below(CHAIN, left, right, shift, young, rest)


def sizes(one: Posed, step: Step, gamma: float, found: Found) -> None:
    """(39), (40) and what stands between them."""

    def norm(a: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(one.own(a, a)))

    most, rest = 2 * G / (gamma * one.mu), 1 - one.mu * step.eta
    found.below(RESIDUAL, norm(step.residual), (1 - gamma) * (norm(step.before) + G))
    found.below(RESIDUAL, norm(step.residual), (1 - gamma) * G / gamma, G)
    found.same(ANSWER, norm(step.h), norm(step.query))
    mean = step.h.mean(axis=0)
    found.note(ANSWERS, np.sqrt(one.all(mean, mean)) / norm(step.h).mean())
    found.note(ANSWERS, norm(step.h).mean() / ((2 - gamma) * G / gamma))
    found.same(UPDATE, step.after, rest * step.g + step.eta * step.h)
    found.same(UPDATE_MINUS, step.after, rest * step.g - step.eta * step.h, step.g, step.eta * step.h)
    found.below(INDUCTION, norm(step.after) - most, rest * (norm(step.g) - most), most)
    found.note(STAYS, max(norm(step.after).max() / most, norm(step.h + one.mu * step.g).max() / (4 * G / gamma)))
