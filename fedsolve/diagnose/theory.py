"""Theorems 1 and 3 of FedNewton as functions. They need what only a simulation knows: population covariances, r and γ.

What the paper leaves open is decided in docs/decisions/013-the-verdict-on-rho.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


def effective_dimension(values: Array, l2: float) -> float:
    """N(λ) = tr(C (C + λI)⁻¹) from the eigenvalues of C (Assumption 1); the rank of C for λ = 0."""
    values = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    if l2 > 0:
        return float(np.sum(values / (values + l2)))
    return float(np.sum(values > values.max(initial=0.0) * values.size * _EPS))


def upsilon(
    samples: Sequence[Array],
    locals_: Sequence[Array],
    pooled: Array,
    l2: float,
    weights: Sequence[float] | None = None,
    *,
    form: Literal["printed", "proof"] = "printed",
) -> float:
    """Υ of Theorem 1, which is to bound the federated error by Υ^t.

        printed:  Σ p_j P_j (2 R_j + Δ_j/λ) (1 + Δ_j/λ)
        proof:    Σ p_j P_j (R + R_j + Δ_j/λ) (1 + Δ_j/λ),     R = ‖(C + λI)⁻¹ (C − C_D)‖,   C_D = Σ p_j C_Dj
        P_j = ‖(C_Dj + λI)⁻¹ (C_j + λI)‖,   R_j = ‖(C_j + λI)⁻¹ (C_j − C_Dj)‖,   Δ_j = ‖C − C_j‖

    samples   C_Dj, the covariance of each client's own samples
    locals_   C_j, that of the distribution they were drawn from
    pooled    C, that of the distribution of all
    weights   p_j (equal unless given)
    form      "printed": the theorem's; "proof": that of the last but one line of (16), from which the theorem follows
              only if R ≤ R_j
    ρ is at most the proof's form; the converse does not hold by far. The printed form is no bound: of ten clients in
    one dimension with C_j = C = 1 and λ = 1e-3, nine samples have the second moment 1 and one has 20. Then Υ = 0.19
    as printed, 1.81 by the proof, and ρ = 1.62.
    """
    if not l2 > 0:
        raise ConfigError(f"Υ is defined for λ > 0, got {l2}")
    if len(samples) != len(locals_) or not samples:
        raise ConfigError(f"{len(samples)} sample covariances for {len(locals_)} local ones; each client has both")
    if form not in ("printed", "proof"):
        raise ConfigError(f"Υ has the forms 'printed' and 'proof', got {form!r}")
    p = np.full(len(samples), 1.0) if weights is None else np.asarray(weights, dtype=np.float64)
    p = p / p.sum()
    ridge = l2 * np.eye(len(pooled))
    drawn = np.tensordot(p, np.stack(samples), 1)
    R = np.linalg.norm(np.linalg.solve(pooled + ridge, pooled - drawn), 2)
    terms = []
    for sample, local in zip(samples, locals_, strict=True):
        P = np.linalg.norm(np.linalg.solve(sample + ridge, local + ridge), 2)
        R_j = np.linalg.norm(np.linalg.solve(local + ridge, local - sample), 2)
        shift = np.linalg.norm(pooled - local, 2) / l2
        terms.append(P * ((R if form == "proof" else R_j) + R_j + shift) * (1 + shift))
    return float(p @ np.array(terms))


@dataclass(frozen=True)
class Regime:
    """Which case of Theorem 3 a client of so many samples is in, constants left out.

    case       1 to 4, in the order of ℵ_j in Theorem 3 (and (41))
    aleph      ℵ_j, its part of the federated error before the first round
    factor     the bound on Υ of (42), (|D|^(1/(2r+γ)) / |D_j|)^½; at least 1 in cases 1 and 2, where it says nothing
    rate       |D|^(−r/(2r+γ)), the optimal rate
    """

    case: int
    aleph: float
    factor: float
    rate: float
    sentence: str

    @property
    def iterations_help(self) -> bool:
        return self.case > 2


_SAID = {
    1: "far too few samples for the theory: iterations hurt, and one exchange is far from the optimal rate",
    2: "too few samples for the theory: iterations of plain FedNewton hurt, and the optimal rate is not reached",
    3: "enough samples for iterations to help: they reach the optimal rate, which one exchange does not",
    4: "so many samples that one exchange (DKRR) has the optimal rate already",
}


def regime(samples: int, total: int, r: float = 0.5, gamma: float = 1.0) -> Regime:
    """The case of Theorem 3 for a client with `samples` of `total`, with λ = |D|^(−1/(2r+γ)) as the theorem sets it.

    r and γ are those of Assumptions 2 and 1; the defaults are the paper's general case.
    """
    if not (1 <= samples <= total):
        raise ConfigError(f"a client has at least 1 and at most all {total} samples, got {samples}")
    if not (r > 0 and 0 <= gamma <= 1 and 2 * r + gamma >= 1):
        raise ConfigError(f"Theorem 3 needs r > 0, 0 ≤ γ ≤ 1 and 2r + γ ≥ 1, got r = {r} and γ = {gamma}")
    n, N, s = float(samples), float(total), 2 * r + gamma
    few, some, many = N ** ((1 - gamma) / s), N ** (1 / s), N ** ((s + 1) / (2 * s))
    rate = N ** (-r / s)
    if n < min(few, some):
        case, aleph = 1, n**-2 * N ** (1.5 / s)
    elif n < some:
        case, aleph = 2, n**-1.5 * N ** ((1 + 0.5 * gamma) / s)
    elif n < many:
        case, aleph = 3, N ** ((1 + gamma) / (2 * s)) / n
    else:
        case, aleph = 4, rate
    return Regime(case, aleph, (some / n) ** 0.5, rate, _SAID[case])
