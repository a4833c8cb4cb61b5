"""How well a smooth function of two variables is approximated by few products of functions of one.

Jadbabaie et al., section III-A, Lemma 1 and Theorem 1. A latent variable model is a matrix M with entries
g(y_i; ϑ_j), y_i in [0, 1]^d. If g(·; ϑ) is in the (η, L)-Hölder class, that is l = ⌈η⌉ − 1 times differentiable with

    |∇^s g(x; ϑ) − ∇^s g(y; ϑ)| ≤ L ‖x − y‖₁^(η − l)    for all s with |s| = l,

then M is close to a matrix of low rank (equation 6). For a whole η the condition holds if no derivative of order η is
larger than L.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import positive, whole
from fedsolve.typing import Array


def piecewise_polynomial_bound(q: float, eta: float, L: float) -> float:
    """How far g is at most from its Taylor polynomials of degree l around the centres of ℓ1-balls of radius 1/q that
    cover [0, 1]^d: L / (l! q^η) (Lemma 1).

    Args:
        q: One over the radius.
        eta: η.
        L: The Hölder constant (L₂ in the paper).
    """
    eta = positive("eta", eta)
    return math.exp(math.log(positive("L", L)) - math.lgamma(_degree(eta) + 1) - eta * math.log(positive("q", q)))


def least_rank(eta: float, d: int) -> float:
    """From which rank on Theorem 1 holds: e √d 2^d (l + d)^d."""
    d = whole("d", d, 1)
    return math.exp(1 + 0.5 * math.log(d) + d * math.log(2 * (_degree(positive("eta", eta)) + d)))


def low_rank_bound(r: int, eta: float, L: float, d: int, *, sharp: bool = False) -> float:
    """How large (1/nk) ‖M − M_r‖²_F is at most, M_r being the best approximation of M of rank r (Theorem 1).

    Args:
        r: The rank.
        eta: η, how smooth g is in x.
        L: The Hölder constant (L₂ in the paper).
        d: The dimension of x.
        sharp: False: the theorem's bound, a power of r. True: the bound in its proof before the last two estimates,
            which is smaller and holds for smaller r, from d! (l+d choose d) on.

    Raises:
        ConfigError: The rank is smaller than the theorem needs, or another argument makes no sense.
    """
    r, eta, L, d = whole("r", r, 1), positive("eta", eta), positive("L", L), whole("d", d, 1)
    degree = _degree(eta)
    if sharp:  # r = d! (l+d choose d) (q+1)^d monomials on balls of radius 1/q, equation (51)
        fewest = math.factorial(d) * math.comb(degree + d, d)
        if r <= fewest:
            raise ConfigError(f"for eta = {eta:g} and d = {d} the bound holds from r = {fewest + 1} on, got {r}")
        q = (r / fewest) ** (1 / d) - 1
        return piecewise_polynomial_bound(q, eta, L) ** 2
    least = least_rank(eta, d)
    if r < least:
        raise ConfigError(
            f"for eta = {eta:g} and d = {d} Theorem 1 holds from r = {math.ceil(least)} on, got {r}: take a larger "
            "rank, or sharp=True"
        )
    logarithm = 2 * math.log(L) - 2 * math.lgamma(degree + 1)
    logarithm += 2 * eta / d + eta / d * math.log(d) + eta * math.log(4) + 2 * eta * math.log(degree + d)
    return math.exp(logarithm - 2 * eta / d * math.log(r))


def low_rank_errors(M: Array) -> Array:
    """(1/nk) ‖M − M_r‖²_F for r = 0, 1, …, min(n, k): what the best approximation of each rank leaves, by SVD."""
    M = np.asarray(M, dtype=np.float64)
    if M.ndim != 2 or not M.size:
        raise DataError(f"M is a matrix with at least one entry, got an array of shape {M.shape}")
    if not np.isfinite(M).all():
        raise DataError("M has entries that are not finite")
    energies = np.linalg.svd(M, compute_uv=False) ** 2
    return np.append(np.cumsum(energies[::-1])[::-1], 0.0) / M.size


def _degree(eta: float) -> int:
    """l = ⌈η⌉ − 1."""
    return math.ceil(eta) - 1
