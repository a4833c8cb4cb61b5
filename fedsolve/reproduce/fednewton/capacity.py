"""FedNewton, section 4.1: the bounds on the effective dimensions of all clients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedsolve.diagnose import effective_dimension
from fedsolve.reproduce.fednewton.bounded import KAPPA, world
from fedsolve.reproduce.fednewton.sharp import Sharp, cosines
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result, Verdict
from fedsolve.typing import Array

FEATURES, CLIENTS = 100, 4
SHIFTS = (0.0, 1.0, 10.0)  # α: the means of the clients' inputs are N(0, αI)
PENALTIES = (1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9)
LOW, HIGH = "½ ≤ max(N, N_1, …, N_m) for every λ in (0, 1)", "max(N, N_1, …, N_m) ≤ κ²/λ"
INSIDE = "½ ≤ max(N, N_1, …, N_m) for λ ≤ the largest of ‖C‖, ‖C_1‖, …, ‖C_m‖"
GAMMAS, SAMPLES, L2 = (0.25, 0.5, 0.75, 1.0), 2000, 1e-2
VARIANCE = "the variance of KRR is at most 2 s² N(λ)/|D| and at least a tenth of it, and rises with γ"


def largest(operators: list[Array], l2: float) -> float:
    """max(N(λ), N_1(λ), …): the first operator is C, the others are C_j."""
    return max(effective_dimension(np.linalg.eigvalsh(one), l2) for one in operators)


def variance(gamma: float, seed: int) -> tuple[float, float]:
    """Of the prediction of KRR for noise of variance 1, given inputs: (1/n) tr C (C_D + λI)⁻¹ C_D (C_D + λI)⁻¹; and
    N(λ)/n."""
    values = Sharp(0.5, gamma).values()
    features = cosines(np.random.default_rng(seed).uniform(size=SAMPLES), len(values)) * np.sqrt(values)
    drawn = features.T @ features / SAMPLES
    inverse = np.linalg.inv(drawn + L2 * np.eye(len(values)))
    found = float(np.sum(values * np.einsum("ij,ji->i", inverse @ drawn, inverse))) / SAMPLES
    return found, effective_dimension(values, L2) / SAMPLES


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
    pairs = [variance(gamma, 0) for gamma in GAMMAS]
    ratios = [found / of for found, of in pairs]
    rising = all(a[0] < b[0] for a, b in pairwise(pairs))
    varied = (
        f"{min(ratios):.2f} to {max(ratios):.2f} times s² N(λ)/|D|; from {pairs[0][0]:.2g} s² at γ = {GAMMAS[0]} to "
    )
    varied += f"{pairs[-1][0]:.2g} s² at {GAMMAS[-1]:g}"
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
            (VARIANCE, Verdict(rising and min(ratios) >= 0.1 and max(ratios) <= 2, varied)),
        ),
        notes=(
            f"{CLIENTS} clients, M = {FEATURES}, std(Ω) = 0.1, κ = 1; inputs N(u_j, I) in 10 dimensions, u_j of "
            "N(0, αI). Operators are exact, C is the mean of the C_j. With α = 0 all are equal, and the maximum is "
            "N(λ).",
            f"The variance is that of fednewton-rates' kernel, {SAMPLES:,} samples, λ = {L2:g}, given one draw of the "
            "inputs, γ of ¼, ½, ¾ and 1; s² is that of the noise.",
        ),
    )
