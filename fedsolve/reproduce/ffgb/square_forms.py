"""Algorithm 3 of Shen et al. (2022) as printed and as meant, beside Algorithm 2; and how far clients drift apart."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Same
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.typing import Array

PRINTED = Same("Appendix F, Algorithm 3", "F: Algorithm 3, as printed, is Algorithm 2 with ∇R_i = g − u_i")
SIGN = Same("Appendix F, Algorithm 3", "F: … with h = −Q(Δ − u), and g^K returned as printed")
RIGHT = Same("Appendix F, Algorithm 3", "F: … with h = −Q(Δ − u), and g^(K+1) returned")
GRADIENT = Same("Appendix B, after (21)", "F: … with φ = u_i + Δ_i asked, as Appendix B prints, and g^(K+1) returned")
SQUARES = Check("Appendix F, drift", "F: Σ‖g_i − ḡ‖²/N = O(Σ_κ (η^κ)²), K = 5 to 200", "exponent", 0.1)
SQUARED = Check("Appendix F, drift", "F: … O((η^k)² K²), K = 5 to 200", "exponent", 0.1)
CHECKS = (PRINTED, SIGN, RIGHT, GRADIENT, SQUARES, SQUARED)
GAMMA, K, T = 0.3, 4, 5


def algorithms(one: Regression, found: Found) -> None:
    """f^T of each form, the oracle being h = γφ, against Algorithm 2.

    The oracle answers −φ + g with −γφ + g (Appendix B). Algorithm 2 with the gradient g − u_i, whose g is known,
    and no Tikhonov term: the strong convexity is that of the square loss, μ = 1.
    """

    def second(g: Array, residual: Array, eta: float) -> tuple[Array, Array]:
        query = residual + (g - one.u)  # line 4: −φ + g with φ = u − Δ
        h = -GAMMA * (one.u - residual) + g
        return g - eta * h, query - h  # lines 5 and 6

    def third(sign: float, ask: float) -> object:
        def step(g: Array, residual: Array, eta: float) -> tuple[Array, Array]:
            h = sign * GAMMA * (ask * residual - one.u)
            return g - eta * (g - h), residual - one.u + h

        return step

    right = _run(one, second, last=True)
    size = np.abs(one.u).max()
    found.same(PRINTED, _run(one, third(1.0, 1.0), last=False), right, size)
    found.same(SIGN, _run(one, third(-1.0, 1.0), last=False), right, size)
    found.same(RIGHT, _run(one, third(-1.0, 1.0), last=True), right, size)
    found.same(GRADIENT, _run(one, third(-1.0, -1.0), last=True), right, size)


def _run(one: Regression, step: object, last: bool) -> Array:
    """f^T; `last` says that clients return g^(K+1), and not g^K."""
    assert callable(step)
    f = np.zeros(len(one.y))
    for t in range(T):
        g, residual = np.tile(f, (len(one.u), 1)), np.zeros(one.u.shape)
        for k in range(1, K + 1 if last else K):
            g, residual = step(g, residual, 4 / (t * K + k + 1))
        f = g.mean(axis=0)
    return f


def drift(found: Found, t: int = 20) -> None:
    """Two clients with u = ±B at the same points, γ = 1: the spread after K steps, over both orders."""
    local, first, second = (5, 10, 50, 200), [], []
    for K_ in local:
        g, etas = np.array([0.0, 0.0]), []
        for k in range(1, K_ + 1):
            eta = 4 / (t * K_ + k + 1)
            g = g - eta * (g - np.array([1.0, -1.0]))
            etas.append(eta)
        first.append(g.var() / sum(e * e for e in etas))
        second.append(g.var() / (etas[-1] * K_) ** 2)
    found.note(SQUARES, float(np.polyfit(np.log(local), np.log(first), 1)[0]))
    found.note(SQUARED, float(np.polyfit(np.log(local), np.log(second), 1)[0]))
