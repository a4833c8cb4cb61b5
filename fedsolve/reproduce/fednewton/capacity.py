"""FedNewton, section 4.1: the bounds on the effective dimensions of all clients."""

from __future__ import annotations

import numpy as np

from fedsolve.diagnose import effective_dimension
from fedsolve.reproduce.fednewton.bounded import KAPPA, world
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result, Verdict
from fedsolve.typing import Array

FEATURES, CLIENTS = 100, 4
SHIFTS = (0.0, 1.0, 10.0)  # α: the means of the clients' inputs are N(0, αI)
PENALTIES = (1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9)
LOW, HIGH = "½ ≤ max(N, N_1, …, N_m) for every λ in (0, 1)", "max(N, N_1, …, N_m) ≤ κ²/λ"
INSIDE = "½ ≤ max(N, N_1, …, N_m) for λ ≤ the largest of ‖C‖, ‖C_1‖, …, ‖C_m‖"


def largest(operators: list[Array], l2: float) -> float:
    """max(N(λ), N_1(λ), …): the first operator is C, the others are C_j."""
    return max(effective_dimension(np.linalg.eigvalsh(one), l2) for one in operators)


@experiment(
    "fednewton-capacity",
    paper="FedNewton",
    place="section 4.1",
    title="The effective dimensions of all clients, between ½ and κ²/λ",
    takes="5 s",
    seeds=1,
)
def capacity(seeds: Seeds, quick: bool) -> Result:
    """With exact covariance operators, of clients alike and of clients with shifts."""
    found: dict[tuple[float, float], float] = {}
    norms: dict[float, float] = {}
    for _, alpha in seeds.over(SHIFTS):
        locals_ = world(CLIENTS, FEATURES, alpha).locals()
        operators = [np.asarray(np.mean(locals_, axis=0)), *locals_]
        norms[alpha] = max(float(np.linalg.eigvalsh(one)[-1]) for one in operators)
        found |= {(alpha, l2): largest(operators, l2) for l2 in PENALTIES}
    small = {case: size for case, size in found.items() if size < 0.5}
    said = f"{min(found.values()):.2g} to {max(found.values()):.3g} at {len(found)} pairs of α and λ"
    said += "".join(f"; {size:.2g} at α = {alpha:g}, λ = {l2:g}" for (alpha, l2), size in small.items())
    inside = {case: size for case, size in found.items() if case[1] <= norms[case[0]]}
    share = max(size * l2 / KAPPA**2 for (_, l2), size in found.items())
    tops = ", ".join(f"{norm:.2g}" for norm in norms.values())
    return Result(
        columns=(Column("α"), Column("largest norm"), *(Column(f"λ = {l2:g}", "{:.3g}".format) for l2 in PENALTIES)),
        rows=[(alpha, norms[alpha], *(found[alpha, l2] for l2 in PENALTIES)) for alpha in SHIFTS],
        claims=(
            (LOW, Verdict(not small, said)),
            (HIGH, Verdict(share <= 1, f"at most {share:.2g} of κ²/λ")),
            (
                INSIDE,
                Verdict(
                    min(inside.values()) >= 0.5,
                    f"at least {min(inside.values()):.2g} at {len(inside)} pairs; the largest norms are {tops}",
                ),
            ),
        ),
        notes=(
            f"{CLIENTS} clients, M = {FEATURES}, std(Ω) = 0.1, κ = 1; inputs N(u_j, I) in 10 dimensions, u_j of "
            "N(0, αI). Operators are exact, C is the mean of the C_j. With α = 0 all are equal, and the maximum is "
            "N(λ).",
        ),
    )
