"""SHED, section 6.3: how many eigenvectors a Rayleigh link carries, d = ⌊2 log₂(1 + 5γ)⌋ with γ ~ Exp(1)."""

from __future__ import annotations

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.federation.links import Rayleigh
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.typing import Array

MOST, MEAN = 10, 4  # vectors at most, and on average, according to the paper
RARE = 0.001
POINT = 1.95  # Kolmogorov's 99.9 % point, times √draws


def at_least(k: int, d0: float = 2.0, gain: float = 5.0) -> float:
    """P(d ≥ k): γ ≥ (2^{k/d₀} − 1)/Γ."""
    return float(np.exp(-(2 ** (k / d0) - 1) / gain))


@experiment("shed-links", paper="SHED", place="section 6.3", title="Vectors that a Rayleigh link carries", takes="1 s")
def links(seeds: Seeds, quick: bool) -> Result:
    """The distribution of d in closed form, beside the library's draws."""
    draws = np.concatenate([_drawn(seed, 2000) for seed, _ in seeds.over(["draws"])])
    mean, beyond = sum(at_least(k) for k in range(1, 60)), at_least(MOST + 1)
    claims = Claims(quick)
    said = f"{mean:.3f}; {draws.mean():.3f} in {len(draws):,} draws"
    claims.add("on average 4 vectors: the mean rounds to 4", round(mean) == MEAN, said)
    said = f"more with probability {beyond:.1g}"
    claims.add("from 0 to 10 vectors, but for one draw in a thousand", beyond <= RARE, said)
    claims.add("never more than 10", beyond == 0, said)
    none = float((draws == 0).mean())
    said = f"with probability {1 - at_least(1):.3f}, in {none:.3f} of the draws"
    claims.add("sometimes none: 0 vectors", none > 0 and at_least(1) < 1, said)
    shares = [float((draws >= k).mean()) for k in range(1, 30)]
    apart = max(abs(one - at_least(k)) for k, one in enumerate(shares, 1))
    said = f"Kolmogorov's distance is {apart:.4f}, its 99.9 % point {POINT / np.sqrt(len(draws)):.4f}"
    claims.add("(38): the library's draws have its distribution", apart <= POINT / np.sqrt(len(draws)), said)
    return Result(
        columns=(Column("vectors"), Column("probability", "{:.4f}".format), Column("share of draws", "{:.4f}".format)),
        rows=[(k, at_least(k) - at_least(k + 1), float((draws == k).mean())) for k in range(MOST + 2)],
        claims=claims.found,
    )


def _drawn(seed: int, count: int) -> Array:
    client = Client("agent", np.zeros((1, 1)), np.zeros(1))
    client.moment = (seed, 0, 0, 0)  # by which it draws
    return np.array([Rayleigh().vectors(round, client) for round in range(count)])
