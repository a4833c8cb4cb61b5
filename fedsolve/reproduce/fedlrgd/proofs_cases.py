"""Functions in the (l + 1, L₂)-Hölder class of d variables, for the proof of Theorem 2 of Jadbabaie et al. (2023).

One ℓ¹-ball around (½, …, ½) covers [0, 1]^d, with q = 2/d, so that r = D = (l+d choose d): more pieces leave the
theorem's assumptions no room (`proofs_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.fedlrgd.proofs_pieces import powers, wave
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Polynomials:
    """g(x; θ), a polynomial of degree l plus (L₂/w^(l + 1)) sin(uᵀx + s), w = max|u_i|; a column for each θ."""

    l: int
    coefficients: Array
    u: Array
    s: Array
    L_2: float

    @property
    def sizes(self) -> Array:
        """Of the waves."""
        return self.L_2 / np.abs(self.u).max(axis=0) ** (self.l + 1)

    def at(self, x: Array) -> Array:
        """Rows are samples, columns are θ."""
        return monomials(x, self.l) @ self.coefficients + self.sizes * np.sin(x @ self.u + self.s)

    def taylor(self, x: Array) -> Array:
        """P(x; θ), around (½, …, ½) and of degree l (49)."""
        step, at = (x - 0.5) @ self.u, self.u.sum(axis=0) / 2 + self.s
        waves = sum(wave(k, at) * step**k / math.factorial(k) for k in range(self.l + 1))
        return monomials(x, self.l) @ self.coefficients + self.sizes * waves

    @property
    def bound(self) -> float:
        """B of (9)."""
        return float((np.abs(self.coefficients).sum(axis=0) + self.sizes).max())


@dataclass(frozen=True, eq=False)
class Case:
    """A server's r samples, and what one piece around them has.

    own      the samples, a row each
    scale    l! q^η
    basis    monomials of points, a row for each
    points   of [0, 1]^d, to look for the largest error at
    """

    own: Array
    scale: float
    basis: Callable[[Array], Array]
    points: Array


def monomials(x: Array, l: int) -> Array:
    """x^v with |v| ≤ l (56): a row for each point."""
    return np.array([np.prod(x**v, axis=1) for v in powers(x.shape[1], l)]).T


def drawn(rng: np.random.Generator, d: int, l: int) -> Case:
    """r samples drawn uniformly, those whose Φ is best conditioned of 20 draws."""
    r, q = math.comb(l + d, d), 2 / d
    tried = [rng.random((r, d)) for _ in range(20)]
    own = min(tried, key=lambda x: float(np.linalg.cond(monomials(x, l))))
    return Case(own, math.factorial(l) * q ** (l + 1), lambda x: monomials(x, l), rng.random((300, d)))


def polynomials(rng: np.random.Generator, count: int, d: int, l: int, L_2: float) -> Polynomials:
    """Coefficients of up to 30."""
    coefficients = rng.uniform(-30, 30, (math.comb(l + d, d), count))
    return Polynomials(l, coefficients, rng.uniform(-6, 6, (d, count)), rng.uniform(0, 2 * np.pi, count), L_2)
