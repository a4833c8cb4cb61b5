"""Up to what model heterogeneity joining pays.

Theorem 16 of Su, Xu and Yang, "A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points" (2021): for least
squares with Gaussian noise of deviation σ, d features whose second moments lie between α and β, client j with n_j of
all N rows, true weights in a ball of radius B, and model heterogeneity Γ = max ‖θ_i* − θ_j*‖, the federation gain (the
client's minimax risk alone over the risk of the federated weights, both of them squared distances to θ_j*) is

    FG_j ≥ (c₁ min{σ²d/n_j, B²} + max{1 − n_j/d, 0} B²) / (σ²d/N + Γ²)        (34)

with a constant c₁ of which the theorem says only that it depends on α and β. The proof bounds the federated risk up to
a constant, too, and up to the factor κ, which (34) leaves out. So a number needs constants. `bound_threshold` sets them
to 1, as the paper does in its section 7.2, and gives an order of magnitude. `proved_threshold` writes out those of the
proofs, and is smaller.
"""

from __future__ import annotations

import math
from typing import Literal

from fedsolve.errors import ConfigError

# Why there is no threshold above zero: the client has all rows; there is no noise, and it has rows enough; or the true
# weights are so small against the noise that all rows together do not tell them from zero.
NoGain = Literal["all rows", "no noise", "small weights"]

# δ² = 1/64 min{σ²d/(βn), B²} in the proof of Theorem 16 makes Fano's factor at least 1 − 1/(2 log 2) − 1/d.
_PACKING, _FANO = 1.0 / 64.0, 1.0 - 1.0 / (2.0 * math.log(2.0))


def bound_threshold(samples: int, total: int, features: int, noise: float, radius: float) -> float:
    """The Γ at which the bound (34) equals one, with c₁ = 1; 0 if it is below one even without heterogeneity, for which
    `why_no_gain` has the reason. The paper prints it without σ²d/N and the smaller of the other two terms.

    The numerator of (34) is a lower bound on the client's minimax risk alone, which is at most B², the risk of the
    weights zero. With c₁ = 1 it can be up to twice that, so it is cut off there.

    Args:
        samples: n_j, the client's rows.
        total: N, the rows of all clients.
        features: d.
        noise: σ, the standard deviation of the noise.
        radius: B, a bound on the norm of the client's true weights.
    """
    _check(samples, total, features, noise, radius)
    alone = min(noise**2 * features / samples, radius**2) + max(1.0 - samples / features, 0.0) * radius**2
    return math.sqrt(max(min(alone, radius**2) - noise**2 * features / total, 0.0))


def why_no_gain(samples: int, total: int, features: int, noise: float, radius: float) -> NoGain | None:
    """Why `bound_threshold` is 0; None if it is not."""
    if bound_threshold(samples, total, features, noise, radius) > 0:
        return None
    if samples == total:
        return "all rows"
    return "no noise" if noise == 0 and radius > 0 else "small weights"


def proved_threshold(
    samples: int,
    total: int,
    features: int,
    noise: float,
    radius: float,
    *,
    least: float,
    most: float,
    kappa: float = 1.0,
) -> float:
    """A Γ below which the gain is proved to exceed one, with all constants of the proofs; 0 where they prove nothing.

    Alone, no estimator has a minimax risk below (0.278 − 1/d)/64 · min{σ²d/(β n_j), B²} (Fano's inequality in the proof
    of Theorem 16), nor below (1 − n_j/d) B². In the limit of many rounds the federated risk is at most
    κ (σ²d/N + β Γ²) / ρ_N: the weights are an unbiased estimate of θ̄, so variance (25) and squared bias (26) add up.

    Args:
        samples, total, features, noise, radius: As for `bound_threshold`.
        least: ρ_N, the smallest eigenvalue of ΣᵢXᵢᵀXᵢ/N. Must be positive.
        most: β, the largest eigenvalue of any E[XᵢᵀXᵢ]/nᵢ and of any XᵢᵀXᵢ/nᵢ.
        kappa: κ of equation (14): 1 at the pooled fit, γs / (1 − (1 − γ)^s) for FedAvg, 1 + γ for FedProx.
    """
    _check(samples, total, features, noise, radius)
    if not (0 < least <= most and math.isfinite(most) and kappa >= 1):
        raise ConfigError(
            "the smallest eigenvalue is positive and at most the largest, and κ is at least 1; got "
            f"least={least}, most={most}, kappa={kappa}"
        )
    fano = _PACKING * max(_FANO - 1.0 / features, 0.0) * min(noise**2 * features / (most * samples), radius**2)
    alone = max(fano, max(1.0 - samples / features, 0.0) * radius**2)
    return math.sqrt(max(least * alone / kappa - noise**2 * features / total, 0.0) / most)


def _check(samples: int, total: int, features: int, noise: float, radius: float) -> None:
    if not (1 <= samples <= total and features >= 1):
        raise ConfigError(
            "a client has at least one row and at most all, of at least one feature; got "
            f"{samples} of {total} rows and {features} features"
        )
    for name, value in (("noise", noise), ("radius", radius)):
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"{name} is a finite number of at least 0, got {value}")
