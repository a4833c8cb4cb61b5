"""FedNewton, Table 1, DKRR of Zhang et al.: the local size Ω(r²κ⁴ log |D|) for kernels of rank r.

The kernel is K(x, x') = Σ_{i ≤ r} ψ_i(x) ψ_i(x') with ψ_i(x) = √2 cos(2πix), x uniform on [0, 1]: κ² = K(0, 0) = 2r.
The errors are expectations over the noise, exact for the inputs drawn.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

RANKS, TOTALS = (1, 2, 3), (4096, 16384, 65536, 262144)
CONSTANT = 0.25  # c, stated before the run: log |D| samples for r = 1
NOISE, TOLERANCE, WORSE = 1.0, 0.06, 2.0  # variance; above the exponent −1; times KRR's error
SIZES = {
    "c r²κ⁴ log |D|": "DKRR with n = 0.25 r²κ⁴ log |D|: a squared error of O(1/|D|)",
    "r": "DKRR with n = r, a constant: the same rule holds for no r",  # so that the rule can fail
}

Case = tuple[int, int]  # r, |D|


def local_size(rank: int, total: int) -> int:
    """The least whole number not below c r²κ⁴ log |D|, κ² = 2r."""
    return math.ceil(CONSTANT * rank**2 * (2 * rank) ** 2 * math.log(total))


def features(x: Array, rank: int) -> Array:
    """√2 cos(2πix), i = 1 … r, a row for each input."""
    return np.asarray(math.sqrt(2) * np.cos(2 * np.pi * np.outer(x, np.arange(1, rank + 1))))


def squared_error(Phi: Array, clients: int, l2: float) -> float:
    """E ‖f − f*‖² over the noise: the mean of the clients' ridge fits of f* = Σ ψ_i, clients of equal size.

    A client's coefficients are A_j⁻¹(G_j w* + Φ_jᵀε/n), G_j = Φ_jᵀΦ_j/n, A_j = G_j + λI: the bias is the mean of
    −λ A_j⁻¹ w*, and the noise of variance σ² adds σ²/(n m²) Σ_j tr(A_j⁻¹ G_j A_j⁻¹).
    """
    rank = Phi.shape[1]
    parts = Phi.reshape(clients, -1, rank)
    n = parts.shape[1]
    G = np.einsum("jni,jnk->jik", parts, parts) / n
    inverse = np.linalg.inv(G + l2 * np.eye(rank))
    bias = l2 * inverse.sum(axis=2).mean(axis=0)
    variance = NOISE * np.einsum("jik,jkl,jli->", inverse, G, inverse) / (n * clients**2)
    return float(bias @ bias + variance)


def errors(rank: int, total: int, rng: np.random.Generator) -> dict[str, float]:
    """Of KRR, and of DKRR with either local size (what is left over by equal clients is not used)."""
    Phi, l2 = features(rng.uniform(size=total), rank), rank / total
    found = {"KRR": squared_error(Phi, 1, l2)}
    for name, n in zip(SIZES, (local_size(rank, total), rank), strict=True):
        clients = total // n
        found[name] = squared_error(Phi[: clients * (total // clients)], clients, l2)
    return found


@experiment(
    "fednewton-finite-rank",
    paper="FedNewton",
    place="Table 1, DKRR of Zhang et al., local size",
    title="DKRR with a kernel of finite rank and the local size that Table 1 prints",
    takes="10 s",
    seeds=20,
)
def finite_rank(seeds: Seeds, quick: bool) -> Result:
    """Ω(r²κ⁴ log |D|) samples of a client."""
    totals = TOTALS[:2] if quick else TOTALS
    cases: list[Case] = [(rank, total) for rank in RANKS for total in totals]
    tally = Tally[Case]()
    for seed, (rank, total) in seeds.over(cases):
        tally.add((rank, total), errors(rank, total, np.random.default_rng((seed, total, rank, 59))))
    claims = Claims(quick)
    for name, claim in SIZES.items():
        holds, said = True, []
        for rank in RANKS:
            means, own = ([tally.measured((rank, t), one).mean for t in totals] for one in (name, "KRR"))
            found, worst = slope(list(totals), means), max(a / b for a, b in zip(means, own, strict=True))
            good = found <= TOLERANCE - 1 and worst <= WORSE
            holds = holds and good == (name != "r")
            said.append(f"r = {rank}: |D|^{found:.3f}, up to {worst:.3g} times KRR's error")
        claims.add(claim, holds, "; ".join(said))
    return Result(
        columns=(Column("r, |D|, |D_j|"), Column("KRR"), *(Column(f"DKRR, {name}") for name in SIZES)),
        rows=[
            (f"{rank}, {t}, {local_size(rank, t)}", *(tally.measured((rank, t), name) for name in ("KRR", *SIZES)))
            for rank, t in cases
        ],
        claims=claims.found,
        notes=(
            f"ψ_i(x) = √2 cos(2πix), x uniform, κ² = 2r, f* = Σ ψ_i, noise of variance {NOISE:g}, λ = r/|D|, "
            f"c = {CONSTANT:g}. Errors are squared, expectations over the noise; exponents are of the means of the "
            f"seeds. O(1/|D|): an exponent of at most −1 + {TOLERANCE:g}, and at most {WORSE:g} times KRR's error.",
        ),
    )
