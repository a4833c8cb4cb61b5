"""Appendix D of Shen et al. (2022), equation by equation: one step of Algorithm 2 with unequal inputs."""

from __future__ import annotations

import itertools

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step

D = "Appendix D"
SHRINKS = Below(f"{D}, (24)", "D: ‖Δ^k‖ ≤ (1 − γ)(‖Δ^(k−1)‖ + G), and the query is at most G/γ")
POINTWISE = Below(f"{D}, (24)", "D: |Δ^k(x)| ≤ (1 − γ)(|Δ^(k−1)(x)| + G) at every point x of the support, as said")
SIGN = Same(f"{D}, (26)", "D: ḡ^(k+1) = (1 − μη)ḡ + η Σ h_i/N, as printed")
MINUS = Same(f"{D}, (26)", "D: … with a minus, as in Algorithm 2")
HAT = Check(f"{D}, after (26)", "D: ‖ĥ_i‖∞ ≤ 2G/(γμ), as printed, μ = 0.5 and 4, f⁰ = 0")
PLAIN = Check(f"{D}, after (26)", "D: ‖h_i‖∞ ≤ 2G/γ, which is meant")
INDUCTION = Below(
    "Lemma D.1, proof", "D: ‖ḡ^(k+1)‖ − 2G/(γμ) ≤ (1 − μη)(‖ḡ^k‖ − 2G/(γμ)), at every step, ‖f⁰‖ = 2G/(γμ)"
)
LATER = Below("Lemma D.1, proof", "D: … where μη ≤ 1")
STAYS = Check("After Theorem 4.1", "D: every g_i stays within 4G/(γμ), f⁰ = 0, step sizes of Theorem 4.1")
FOUR = Check(f"{D}, before (27)", "D: ‖ĥ_i‖∞ and ‖∇F_i[g_i]‖∞ are at most 4G/γ, f⁰ = 0")
FOUR_FAR = Check(f"{D}, before (27)", "D: … ‖f⁰‖ = 2G/(γμ)")
EXPANDED = Same(f"{D}, (27)", "D: the expansion of ‖ḡ^(k+1) − f*‖²")
SIZE = Check(f"{D}, after (27)", "D: ‖h̄‖²_α ≤ ‖h̄‖²∞ ≤ 16G²/γ², f⁰ = 0")
SPLIT = Same(f"{D}, (28) and (29)", "D: both forms of −2⟨ḡ − f*, h̄⟩")
INPUTS = Check(
    f"{D}, (30) and (32)", "D: the difference of inner products is at most 24G²/(μγ²) TV, and δ 48G²ω_TV/(μγ²)"
)
YOUNG = Below(f"{D}, first term of (29)", "D: … ≤ η‖h_i‖² + ‖g_i − ḡ‖²/η, with h_i as printed, far f⁰ too")
YOUNG_HAT = Below(f"{D}, first term of (29)", "D: … with ĥ_i, and with 16G²/γ² (f⁰ = 0)")
CONVEX = Below(f"{D}, second term of (29)", "D: strong convexity of F_i")
OPTIMAL = Below(f"{D}, second term of (29)", "D: by the optimality of f*")
SPREAD = Below(f"{D}, second term of (29)", "D: ‖f* − g_i‖² ≤ 2‖f* − ḡ‖² + 2‖ḡ − g_i‖²")
CHAIN = Below(f"{D}, (33)", "D: the four inequalities of (33), the last from f⁰ = 0")
MOVED = Same(f"{D}, after (33)", "D: ‖ḡ^k − f^t‖² = ‖Σ_(κ<k) η h̄^κ‖²")
PLUGGED = Below(f"{D}, after (33)", "D: the recursion of ‖ḡ^k − f*‖², constants 1, the last term with η")
PER_STEP = (
    *(SHRINKS, POINTWISE, SIGN, MINUS, HAT, PLAIN, INDUCTION, LATER, STAYS, FOUR, FOUR_FAR, EXPANDED, SIZE, SPLIT),
    *(INPUTS, YOUNG, YOUNG_HAT, CONVEX, OPTIMAL, SPREAD, CHAIN, MOVED, PLUGGED),
)  # fmt: skip

# ── f* ──
STATIONARY = Same(f"{D}, (31)", "D: μf* + Σ ∇R_i[f*]/N = 0, as printed, unequal inputs")
WEIGHTED = Same(f"{D}, (31)", "D: … with dα_i/dα as weights")
BOUNDED = Check(f"{D}, (31)", "D: ‖f*‖ ≤ max ‖∇R_i[f*]‖/μ ≤ G/μ, unequal inputs")
DIFFER = AtLeast("Section 3, residual", "at f* every client's own gradient ∇F_i has a norm of at least 0.01", most=0.01)
AT_BEST = (STATIONARY, WEIGHTED, BOUNDED, DIFFER)


def at_best(one: Posed, found: Found) -> None:
    """What is said of f*."""
    f, slopes = one.best, one.gradient(np.tile(one.best, (len(one.mass), 1)))
    found.same(STATIONARY, one.mu * f, -slopes.mean(axis=0))
    found.same(WEIGHTED, one.mu * f, -(one.mass / one.alpha * slopes).mean(axis=0))
    found.note(BOUNDED, np.abs(f).max() / (np.abs(slopes).max() / one.mu))
    found.note(BOUNDED, np.abs(slopes).max() / G)
    own = slopes + np.where(one.mass > 0, one.mu * f, 0.0)
    found.note(DIFFER, np.sqrt(one.own(own, own)))


def bounds(one: Posed, step: Step, gamma: float, near: bool, found: Found) -> None:
    """Sizes: (24) to (26), Lemma D.1; `near` says that f⁰ = 0."""
    inside, most = one.mass > 0, 2 * G / (gamma * one.mu)
    size = np.abs(np.where(inside, step.before, 0.0)).max(axis=1)
    found.below(SHRINKS, np.abs(np.where(inside, step.residual, 0.0)).max(axis=1), (1 - gamma) * (size + G))
    found.below(SHRINKS, np.abs(np.where(inside, step.query, 0.0)).max(axis=1), G / gamma)
    left = np.abs(np.where(inside, step.residual, 0.0))
    found.below(POINTWISE, left, (1 - gamma) * (np.abs(step.before) + G))
    bar, new, rest = step.g.mean(axis=0), step.after.mean(axis=0), 1 - one.mu * step.eta
    found.same(SIGN, new, rest * bar + step.eta * step.h.mean(axis=0))
    found.same(MINUS, new, rest * bar - step.eta * step.h.mean(axis=0), bar)
    hat = step.h + one.mu * step.g
    found.note(PLAIN, np.abs(step.h).max() / (2 * G / gamma))
    steep = max(np.abs(hat).max(), np.abs(np.where(inside, one.slope(step.g), 0.0)).max())
    found.note(FOUR if near else FOUR_FAR, steep / (4 * G / gamma))
    ahead, right = np.abs(new).max() - most, rest * (np.abs(bar).max() - most)
    if near:
        found.note(STAYS, np.abs(step.after).max() / (2 * most))
        found.note(HAT, np.abs(hat).max() / most)
        found.note(SIZE, one.all(hat.mean(axis=0), hat.mean(axis=0)) / (16 * G**2 / gamma**2))
    else:
        found.below(INDUCTION, ahead, right, most)
    if rest >= 0:
        found.below(LATER, ahead, right, most)


def split(one: Posed, step: Step, gamma: float, near: bool, found: Found) -> None:
    """(27) to (32) and the first term of (29)."""
    f, eta, hat = one.best, step.eta, step.h + one.mu * step.g
    bar, mean, new = step.g.mean(axis=0), hat.mean(axis=0), step.after.mean(axis=0)
    square, cross = one.all(bar - f, bar - f), one.all(bar - f, mean)
    right = square + eta**2 * one.all(mean, mean) - 2 * eta * cross
    found.same(EXPANDED, one.all(new - f, new - f), right, square, 2 * eta * cross)
    here, there = one.own(bar - f, hat), one.all(bar - f, hat)
    found.same(SPLIT, cross, there.mean(), there)
    first, second = one.own(step.g - bar, hat), one.own(f - step.g, one.slope(step.g))
    third = one.own(f - step.g, hat - one.slope(step.g))
    found.same(SPLIT, -2 * cross, 2 * (first + second + third + here - there).mean(), here, first, second, third)
    apart = one.own(step.g - bar, step.g - bar)
    found.below(YOUNG, 2 * first.mean(), (eta * one.own(step.h, step.h) + apart / eta).mean())
    found.below(YOUNG_HAT, 2 * first.mean(), (eta * one.own(hat, hat) + apart / eta).mean())
    if near:
        tv, scale = np.abs(one.mass - one.alpha).sum(axis=1) / 2, G**2 / (one.mu * gamma**2)
        found.note(INPUTS, np.abs(here - there) / (24 * scale * tv))
        found.note(INPUTS, 2 * (here - there).mean() / (48 * scale * one.omega_tv))
        found.below(YOUNG_HAT, 2 * first.mean(), 16 * eta * G**2 / gamma**2 + apart.mean() / eta)


def convexity(one: Posed, step: Step, gamma: float, near: bool, found: Found) -> None:
    """The second term of (29), and (33)."""
    f, g, eta, mu = one.best, step.g, step.eta, one.mu
    bar, far = np.tile(step.g.mean(axis=0), (len(step.g), 1)), one.own(f - step.g, f - step.g)
    apart, centre = one.own(g - bar, g - bar), one.all(bar[0] - f, bar[0] - f)
    term = 2 * one.own(f - g, one.slope(g)).mean()
    drop = -2 * (one.value(g) - one.value(np.tile(f, (len(g), 1)))).mean()
    found.below(CONVEX, term, drop - mu * far.mean(), drop)
    shift = -2 * (one.value(g) - one.value(bar)).mean()
    found.below(OPTIMAL, drop, shift, one.value(g))
    found.below(SPREAD, far, 2 * one.own(f - bar, f - bar) + 2 * apart)
    rest = -mu / 4 * centre + mu / 2 * apart.mean() - mu / 2 * far.mean()
    tangent = -2 * one.own(one.slope(bar), g - bar).mean()
    steep = one.slope(bar)
    young = (eta * one.own(steep, steep) + apart / eta).mean()
    lines = [term, shift + rest, tangent + rest, young + rest]
    if near:
        lines.append(16 * eta * G**2 / gamma**2 + apart.mean() / eta + rest)
    for left, right in itertools.pairwise(lines):
        found.below(CHAIN, left, right, shift, young, rest)


def recursion(one: Posed, step: Step, gamma: float, K: int, found: Found) -> None:
    """What the parts give when they are plugged into (27)."""
    f, eta, g = one.best, step.eta, step.g
    bar, new = g.mean(axis=0), step.after.mean(axis=0)
    weak = 2 * one.own(f - g, step.h - one.gradient(g)).mean()
    delta = G**2 * one.omega_tv / (one.mu * gamma**2)
    right = (1 - one.mu * eta / 4) * one.all(bar - f, bar - f) + K**2 * eta**2 * G**2 / gamma**2
    right += eta * (weak + delta - one.mu / 2 * one.own(f - g, f - g).mean())
    found.below(PLUGGED, one.all(new - f, new - f), right)
