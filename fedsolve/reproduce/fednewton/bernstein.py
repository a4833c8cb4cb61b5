"""FedNewton, Proposition 3: its chance in closed form, for numbers that are 0 or 1."""

from __future__ import annotations

import math

DELTAS = (0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-16)
CHANCES = (0.5, 0.1, 0.01, 1e-3, 1e-4)  # of a 1: σ² = q (1 − q), M = 1
SIZES = (10, 100, 10_000, 1_000_000)
SMALL = (1e-6, 1e-12, 1e-25, 1e-50, 1e-100, 1e-200)  # δ for the exponent
EXPONENT = 1.2  # log of the chance over log(δ/2)


def bound(q: float, n: int, log: float, most: float = 2.0, variance: float = 2.0) -> float:
    """(9) with M = 1; `most` and `variance` are its constants."""
    return most * log / n + math.sqrt(variance * q * (1 - q) * log / n)


def miss(q: float, n: int, limit: float) -> float:
    """The chance that a mean of n is further than the limit from q."""
    from scipy import stats  # slow to import, and the command line imports this module

    found = stats.binom.sf(math.floor(n * (q + limit)), n, q)
    below = math.ceil(n * (q - limit)) - 1
    return float(found) + (float(stats.binom.cdf(below, n, q)) if below >= 0 else 0.0)


def worst(most: float = 2.0, variance: float = 2.0) -> float:
    """The largest chance of a miss over δ."""
    return max(
        miss(q, n, bound(q, n, math.log(2 / delta), most, variance)) / delta
        for q in CHANCES
        for n in SIZES
        for delta in DELTAS
    )


def exponents() -> list[float]:
    """log of the chance of a miss over log(δ/2), fair coins, for smaller and smaller δ."""
    return [math.log(miss(0.5, 10**7, bound(0.5, 10**7, math.log(2 / d)))) / math.log(d / 2) for d in SMALL]
