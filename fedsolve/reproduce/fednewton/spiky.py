"""A distribution on orthogonal directions of equal probability, whose operators are known from how often each is drawn.

Features are κ e_i with probability p, i = 1 … 1/p, so that C = κ² p I and N(λ) = κ²/(κ² p + λ). With p = λ/κ² the
directions are as many as they can be while each still counts. Chances in closed form need no draws: the counts of a
multinomial distribution are negatively associated (Joag-Dev and Proschan, 1983), so that the chance that none of them
is too large is at most the product of the chances of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fedsolve.typing import Array

CLIENTS = 4


@dataclass(frozen=True)
class Spiky:
    """One such distribution. `l2` is λ, `kappa` κ, `directions` how many there are (None: κ²/λ)."""

    l2: float
    kappa: float = 1.0
    directions: int | None = None

    @property
    def many(self) -> int:
        return self.directions or round(self.kappa**2 / self.l2)

    @property
    def value(self) -> float:
        """Each eigenvalue of C."""
        return self.kappa**2 / self.many

    @property
    def dimension(self) -> float:
        """N(λ)."""
        return self.many * self.value / (self.value + self.l2)

    def counts(self, samples: int, rng: np.random.Generator) -> Array:
        return rng.multinomial(samples, np.full(self.many, 1 / self.many)).astype(float)

    def seen(self, counts: Array) -> Array:
        """The eigenvalues of C_D."""
        return self.kappa**2 * counts / counts.sum()

    def P(self, counts: Array) -> float:
        return float(((self.value + self.l2) / (self.seen(counts) + self.l2)).max())

    def R(self, counts: Array) -> float:
        return float(np.abs(self.seen(counts) - self.value).max() / (self.value + self.l2))

    def upsilon(self, clients: list[Array]) -> float:
        """2 Σ p_j P_Dj R_Dj, clients alike and of equal size."""
        return 2 * float(np.mean([self.P(one) * self.R(one) for one in clients]))

    def distance(self, counts: Array) -> float:
        """‖(C + λI)^-½ (C − C_D)‖ of Lemma 4, in the norm of Hilbert and Schmidt, in which its source has it."""
        return float(np.linalg.norm(self.seen(counts) - self.value)) / math.sqrt(self.value + self.l2)

    def noise(self, counts: Array, rng: np.random.Generator) -> float:
        """‖(C + λI)^-½ S_D* y‖ of Lemma 3 with f* = 0 and y = ±1, so that B = 1."""
        sums = 2.0 * rng.binomial(counts.astype(int), 0.5) - counts
        return self.kappa * float(np.linalg.norm(sums)) / float(counts.sum()) / math.sqrt(self.value + self.l2)


def enough(l2: float, delta: float, kappa: float = 1.0) -> int:
    """The least |D_j| above 29 (κ² + 1) log(1/δ)/λ."""
    return math.floor(29 * (kappa**2 + 1) * math.log(1 / delta) / l2) + 1


def first_bound(samples: float, l2: float, log: float, kappa: float = 1.0) -> float:
    """The bound on R of Lemma 1, (10); `log` is its log(2/δ)."""
    return 2 * kappa**2 * log / (l2 * samples) + math.sqrt(2 * (kappa**2 + 1) * log / (l2 * samples))


def spread(of: Spiky, samples: float) -> float:
    """A of (22)."""
    return 1 / (samples * math.sqrt(of.l2)) + math.sqrt(of.dimension / samples)


# ── chances in closed form, p = λ, κ = 1; counts are Poisson with the mean λ n up to a share of λ ──


def at_least_once(chance: float, many: float) -> float:
    """The chance that one of many events happens, if they were independent."""
    return -math.expm1(many * math.log1p(-chance))


def beyond(mean: float, log: float) -> tuple[float, float]:
    """The chances that a count is further above, and below, its mean than (10) allows: |N − μ| > 2μ bound."""
    most = 2 * mean * first_bound(mean, 1.0, log)
    above = float(special.pdtrc(math.floor(mean + most), mean))
    below = float(special.pdtr(math.ceil(mean - most) - 1, mean)) if mean > most else 0.0
    return above, below


def misses(l2: float, delta: float, mean: float) -> tuple[float, float]:
    """Of (10): at least, and at most, the chance that it is wrong with λ n = mean."""
    above, below = beyond(mean, math.log(2 / delta))
    return at_least_once(above, 1 / l2), min((above + below) / l2, 1.0)


def misses_corrected(l2: float, delta: float, mean: float) -> float:
    """At most the chance that (10) is wrong with log(2/(λδ)) in place of log(2/δ)."""
    return min(sum(beyond(mean, math.log(2 / (l2 * delta)))) / l2, 1.0)


def reaches_one(l2: float, delta: float) -> float:
    """At least the chance that P R of a client is ½ or more with `enough` samples: a count is μ/3 or less.

    P R ≥ (μ − N)/(2μ) · 2μ/(N + μ) of the least count N.
    """
    mean = enough(l2, delta) * l2
    return at_least_once(float(special.pdtr(math.floor(mean / 3), mean)), 1 / l2)
