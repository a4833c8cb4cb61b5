"""FedNewton, section 7: what α, β and v_j of the synthetic data are, and what is left of Δ_Dj without a shift."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.data.synthetic import heterogeneous
from fedsolve.features import RandomFourier
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.population import norm, sample_covariance
from fedsolve.reproduce.fednewton.synthetic import FEATURES, STD
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.typing import Array

CLIENTS, SIZES, LEAST, BETA = 20, (500, 2000, 8000), 0.005, 0.01  # LEAST: the smallest α of Figure 4
SHUFFLES, DRAWS, INPUTS = 5, 10_000, 10

ROOT = "α = 0: the mean of Δ_D √n is constant from n = 500 to 8,000, to 10 %"
SHUFFLED = "α = 0: Δ_D is that of the same rows shuffled among the clients, to 5 % in the mean"
ABOVE = "α = 0.005: Δ_D is at least 5 % above that of shuffled rows in every seed"
NEGATIVE = "v_j ~ N(0, β) is a variance: never negative"
LINEAR = "f* is not linear: the best linear function explains less than 1 % of it"
APART, SHUFFLES_APART, EXPLAINED = 1.1, 0.05, 0.01


def shift(parts: list[Array]) -> float:
    """The mean over the clients of ‖C_D − C_Dj‖, for clients of one size."""
    own = [sample_covariance(part) for part in parts]
    pooled = np.mean(own, axis=0)
    return float(np.mean([norm(pooled - each) for each in own]))


def features_of(samples: int, alpha: float, seed: int) -> list[Array]:
    drawn = heterogeneous(CLIENTS, samples, alpha=alpha, seed=seed)
    phi = RandomFourier.fednewton(STD, FEATURES, seed)
    return [phi.block(X) for X, _ in drawn.parts]


def over_shuffled(parts: list[Array], rng: np.random.Generator) -> float:
    """Δ_D over its mean for the same rows, shuffled among the clients."""
    rows = np.concatenate(parts)
    mixed = [shift(np.split(rows[rng.permutation(len(rows))], len(parts))) for _ in range(SHUFFLES)]
    return shift(parts) / float(np.mean(mixed))


def explained(rng: np.random.Generator) -> float:
    """The share of f*(x) = −|1ᵀx| that the best linear function with a constant explains."""
    x = rng.standard_normal((DRAWS, INPUTS))
    y, columns = -np.abs(x.sum(axis=1)), np.column_stack([np.ones(DRAWS), x])
    left = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
    return 1 - float(np.var(left) / np.var(y))


def claims_on(found: list[dict[str, float]], sizes: tuple[int, ...], claims: Claims) -> None:
    """The sentences of section 7, over the seeds."""

    def values(name: str) -> list[float]:
        return [one[name] for one in found]

    scaled = {n: float(np.mean(values(f"{n}"))) for n in sizes}
    said = ", ".join(f"{value:.4f} at n = {n}" for n, value in scaled.items())
    claims.add(ROOT, max(scaled.values()) <= APART * min(scaled.values()), said)
    ratio = values("α = 0")
    said = f"{np.mean(ratio):.3f} times ({min(ratio):.3f} to {max(ratio):.3f})"
    claims.add(SHUFFLED, abs(float(np.mean(ratio)) - 1) <= SHUFFLES_APART, said)
    ratio = values(f"α = {LEAST}")
    claims.add(ABOVE, min(ratio) >= 1 + SHUFFLES_APART, f"{np.mean(ratio):.2f} times ({min(ratio):.2f} or more)")
    share = values("negative")
    claims.add(NEGATIVE, max(share) == 0, f"{100 * np.mean(share):.1f} % of {DRAWS:,} draws are")
    claims.add(LINEAR, max(values("linear")) <= EXPLAINED, f"{100 * max(values('linear')):.2f} % at most")


def measured(seed: int, sizes: tuple[int, ...]) -> dict[str, float]:
    rng = np.random.default_rng((seed, 23))
    alike = features_of(SIZES[0], 0.0, seed)
    scaled = {f"{n}": math.sqrt(n) * shift(alike if n == SIZES[0] else features_of(n, 0.0, seed)) for n in sizes}
    return {
        **scaled,
        "α = 0": over_shuffled(alike, rng),
        f"α = {LEAST}": over_shuffled(features_of(SIZES[0], LEAST, seed), rng),
        "negative": float(np.mean(rng.normal(0.0, math.sqrt(BETA), DRAWS) < 0)),
        "linear": explained(rng),
    }


@experiment(
    "fednewton-shifts",
    paper="FedNewton",
    place="section 7, Figure 4",
    title="The shifts of the synthetic data, and what sampling shows of them",
    takes="1 min",
    seeds=10,
)
def shifts(seeds: Seeds, quick: bool) -> Result:
    """Without a shift of the inputs ‖C_D − C_Dj‖ is sampling alone."""
    sizes = SIZES[:2] if quick else SIZES
    found = [measured(seed, sizes) for seed in seeds]
    claims = Claims(quick)
    claims_on(found, sizes, claims)
    headings = {f"{n}": f"Δ_D √n, α = 0, n = {n}" for n in sizes}
    headings |= {name: f"Δ_D over shuffled rows, {name}" for name in ("α = 0", f"α = {LEAST}")}
    headings |= {"negative": "share of negative v_j", "linear": "share of f* that is linear"}
    rows = [(told, Measured(tuple(one[name] for one in found))) for name, told in headings.items()]
    return Result(
        columns=(Column("what"), Column("found")),
        rows=rows,
        claims=claims.found,
        notes=(
            f"{CLIENTS} clients of n samples, M = {FEATURES}, std(Ω) = {STD}; Δ_D is the mean over the clients of the "
            f"spectral norm, beside its mean over {SHUFFLES} shuffles. {DRAWS:,} draws of v_j with β = {BETA}, and of "
            f"x ~ N(0, I) in {INPUTS} dimensions for f*(x) = −|1ᵀx|.",
        ),
    )
