"""Functions in the (2, L₂)-Hölder class, for the proof of Theorem 2 of Jadbabaie et al. (2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Functions:
    """g(x; θ) = a + bx + (L₂/w²) sin(wx + s) for several θ, one entry of the arrays each."""

    a: Array
    b: Array
    w: Array
    s: Array
    L_2: float

    def at(self, x: Array) -> Array:
        """Rows are samples, columns are θ."""
        z = np.asarray(x)[:, None]
        return self.a + self.b * z + self.L_2 / self.w**2 * np.sin(self.w * z + self.s)

    def taylor(self, x: Array) -> Array:
        """P(x; θ), around ½ and of degree 1 (49)."""
        slope = self.b + self.L_2 / self.w * np.cos(self.w / 2 + self.s)
        return self.at(np.array([0.5])) + slope * (np.asarray(x)[:, None] - 0.5)

    @property
    def bound(self) -> float:
        """B of (9)."""
        return float((np.maximum(np.abs(self.a), np.abs(self.a + self.b)) + self.L_2 / self.w**2).max())


def functions(rng: np.random.Generator, count: int, scale: float, L_2: float) -> Functions:
    a, b = scale * rng.standard_normal((2, count))
    return Functions(a, b, rng.uniform(1, 12, count), rng.uniform(0, 2 * np.pi, count), L_2)


def norm(M: Array) -> float:
    return float(np.linalg.norm(M, 2))
