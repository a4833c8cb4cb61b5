"""FedNewton, Theorem 3 for r below ½, where f* is outside the space, and KRR for r above 1."""

from __future__ import annotations

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.sharp import Sharp
from fedsolve.reproduce.fednewton.slopes import Case, Slopes
from fedsolve.reproduce.fednewton.theorem3 import ROUNDS

# 2r + γ = 1: λ = 1/|D|, and the theorem asks for |D_j| ≳ |D|, a fixed number of clients. More cosines and a smaller s,
# so that those with σ_i > λ are far fewer than there are.
EDGE, CLIENTS = Sharp(0.25, 0.5, size=600, scale=1.0, amplitude=0.5), 4
ROUGH, CONSTANT = Sharp(0.4, 0.5), 2  # |D_j| = 2 |D|^(1/(2r+γ)), as for r = ½
SMOOTH = Sharp(1.5, 0.5)


def sizes(of: Sharp) -> tuple[float, float]:
    """The exponent of |D_j| and its constant."""
    return (1.0, 1 / CLIENTS) if of == EDGE else (1 / (2 * of.r + of.gamma), CONSTANT)


def cases(totals: tuple[int, ...]) -> list[Case]:
    return [(of, total, *sizes(of)) for of in (EDGE, ROUGH) for total in totals]


def on_rough(slopes: Slopes, claims: Claims) -> None:
    for of, who in ((EDGE, f"of {CLIENTS} clients"), (ROUGH, f"with n = {CONSTANT} |D|^{sizes(ROUGH)[0]:.3g}")):
        at = f"r = {of.r:g}, γ = {of.gamma:g}"
        share, constant = sizes(of)
        slopes.on_krr(of, share, at, claims, constant)
        holds, said = slopes.learned(of, share, f"#{ROUNDS}", constant)
        claims.add(f"{at}: eight rounds {who} learn at the optimal rate", holds, said)
        left = slopes.over(of, share, (f"federated, #{ROUNDS}", "federated, DKRR"), constant)
        said = f"eight rounds leave {min(left.values()):.2g} to {max(left.values()):.2g} of DKRR's federated error"
        claims.add(f"{at}: eight rounds {who} help", max(left.values()) < 1, said)
    slopes.on_krr(SMOOTH, 1.0, f"r = {SMOOTH.r:g}, γ = {SMOOTH.gamma:g}", claims)
