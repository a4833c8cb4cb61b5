"""Preconditioned conjugate gradients on H p = −g, one iteration at a time.

Whoever drives it multiplies with H and applies the preconditioner M⁻¹ ≈ H⁻¹; here is only the recurrence, and when to
end it. All its tests are free of units: multiplying a column of the data by a factor changes none of them, as long as
the preconditioner follows (a diagonal or the local inverses do).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.typing import Array

# The relative error, in the norm of H, that a first Newton step is computed to; and the smallest worth asking for: what
# a more accurate step saves in outer iterations it costs in inner ones.
LOOSEST, TIGHTEST = 0.3, 1e-3
ROUNDING = 1e-13  # a residual fallen by this much is rounding
# Per unknown: a curvature this far below the largest is rounding.
FLAT = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Recurrence:
    """Where the iteration stands. Numbers are arrays of one entry per column where columns are problems of their own.

    p        the solution so far
    r        the residual −g − H p, by recursion
    d        the last direction
    rz       rᵀM⁻¹r before that direction was taken
    first    the first of these, gᵀM⁻¹g
    gain     by how much the last iteration brought pᵀHp/2 + gᵀp down, doubled: its squared length in the norm of H
    previous the gain of the iteration before it
    energy   the sum of all gains, ‖p‖² in the norm of H
    mass     dᵀMd of the last direction
    steepest the largest dᵀHd / dᵀMd of any direction
    done     iterations
    """

    p: Array
    r: Array
    d: Array
    rz: Array
    first: Array
    gain: Array
    previous: Array
    energy: Array
    mass: Array
    steepest: Array
    done: int = 0

    @staticmethod
    def begun(g: Array, separable: bool, steepest: Array | None = None) -> Recurrence:
        """Before the first iteration; `steepest` as far as it is known of an earlier system with the same H."""
        zero = np.zeros(g.shape)
        none = np.zeros(g.shape[1:] if separable else ())
        known = none if steepest is None else steepest
        return Recurrence(zero, -g, zero, none, none, none, none, none, none, known)

    def dot(self, a: Array, b: Array) -> Array:
        """The inner product: of each column where columns are problems of their own, else of the whole."""
        return np.asarray((a * b).sum(axis=0 if self.rz.ndim or a.ndim == 1 else None))

    def direction(self, z: Array) -> tuple[Array, Array]:
        """The next direction and rᵀz, for z = M⁻¹r."""
        rz = self.dot(self.r, z)
        return (z + _ratio(rz, self.rz) * self.d if self.done else z), rz

    def advanced(self, d: Array, rz: Array, q: Array) -> tuple[Recurrence, Array]:
        """After a step along d with q = H d, and that step."""
        curvature = self.dot(d, q)
        # M d is r + β M d_last, and r is orthogonal to d_last.
        mass = rz + _ratio(rz, self.rz) ** 2 * self.mass
        steepest = np.maximum(self.steepest, _ratio(curvature, mass))
        # Where H is singular, rounding alone leads into directions without curvature: there is nothing to gain.
        bent = curvature > FLAT * d.shape[0] * steepest * mass
        alpha = np.where(bent, _ratio(rz, curvature), 0.0)
        step, gain = alpha * d, alpha * rz
        return replace(
            self,
            p=self.p + step,
            r=self.r - alpha * q,
            d=d,
            rz=rz,
            first=self.first if self.done else rz,
            gain=np.asarray(gain),  # arithmetic makes numbers of 0-d arrays, and a checkpoint tells them apart
            previous=self.gain,
            energy=np.asarray(self.energy + gain),
            mass=np.asarray(mass),
            steepest=np.asarray(steepest),
            done=self.done + 1,
        ), step

    def within(self, accuracy: float) -> bool:
        """Whether p has this relative error in the norm of H, by estimate, or nothing is to be gained any more.

        The squared error before an iteration is the sum of its gain and all later ones (Hestenes and Stiefel 1952). If
        gains go on falling as they last did, what is left after it is about gain · (gain / previous).
        """
        fall = np.minimum(1.0, _ratio(self.gain, self.previous)) if self.done > 1 else 1.0
        return bool(np.all(self.gain * fall <= accuracy**2 * self.energy))

    @property
    def exhausted(self) -> bool:
        """Whether only rounding is left: after a fall this deep, or after three times the iterations that exact
        arithmetic would need, a recursive residual says nothing."""
        return bool(np.all(self.gain <= ROUNDING**2 * self.energy)) or self.done >= 3 * self.p.shape[0]


def forcing(first: float, before: float) -> float:
    """The accuracy that a Newton step deserves, given gᵀM⁻¹g here and at the iterate before it (0: there is none).

    The square of the ratio of the norms of the gradients (Eisenstat and Walker 1996, choice 2): quadratic convergence.
    """
    if not before > 0:
        return LOOSEST
    return max(TIGHTEST, min(LOOSEST, first / before))


def by_diagonal(r: Array, diagonal: Array) -> Array:
    """D⁻¹r, and 0 where D is 0: there, a column of zeros without penalty, is nothing to find."""
    D = diagonal if diagonal.ndim == r.ndim else diagonal[:, None]
    return np.divide(r, D, out=np.zeros(r.shape), where=D > 0)


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is 0: a column that is solved stays."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)
