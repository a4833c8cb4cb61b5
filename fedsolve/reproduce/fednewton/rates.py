"""FedNewton, section 4.1, Theorems 3 and 4: learning rates where f* is no smoother than r says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedsolve.diagnose import effective_dimension
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton import rates_rough, rates_shifts
from fedsolve.reproduce.fednewton.sharp import Sharp, errors, rho
from fedsolve.reproduce.fednewton.slopes import NEAR, TOLERANCE, WORSE, Case, Slopes, clients_of
from fedsolve.reproduce.fednewton.theorem3 import ROUNDS
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

TOTALS, FEWER = (512, 1024, 2048, 4096, 8192, 16384), (512, 1024, 2048, 4096, 8192)
EASY, EASIER = (0.5, 0.75, 1.0), 1.5  # r
GAMMAS, PENALTIES = (0.25, 0.5, 0.75, 1.0), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
MANY = 1_000_000  # eigenvalues for N(λ)

HALF = Sharp(0.5, 0.5)
FULL = Sharp(0.5, 1.0, size=1000, scale=1.0, amplitude=1.0)  # the general case
# |D_j| = |D|^share: one exchange is enough, several are, too few; by Theorem 3
SHARES = {HALF: (5 / 6, 2 / 3, 0.5), FULL: (0.75, 0.5, 0.4)}
CONSTANTS = {HALF: 2, FULL: 8}  # |D_j| = 2 |D|^share, too: the theorem leaves its constants out


def cases(quick: bool) -> list[Case]:
    of = [Sharp(r, 0.5) for r in (*EASY[1:], EASIER)]
    found: list[Case] = [(one, total, 1.0, 1) for one in of for total in TOTALS]
    for one, totals in ((HALF, TOTALS), (FULL, FEWER)):
        found += [(one, total, share, 1) for total in totals for share in SHARES[one]]
        found += [(one, total, SHARES[one][1], CONSTANTS[one]) for total in totals]
    found += rates_shifts.cases(TOTALS) + rates_rough.cases(TOTALS)
    return [case for case in found if not quick or (case[1] <= TOTALS[1] and case[0] != FULL)]


def _of_regularity(slopes: Slopes, claims: Claims) -> None:
    found = {
        r: slopes.of(HALF if r == 0.5 else Sharp(r, 0.5), 5 / 6 if r == 0.5 else 1.0, "KRR") for r in (*EASY, EASIER)
    }
    printed = {r: Sharp(r, 0.5).exponent for r in found}
    said = "; ".join(f"r = {r:g}: {one:.3f}, −r/(2r+γ) is {printed[r]:.3f}" for r, one in found.items() if r <= 1)
    near = all(abs(found[r] - printed[r]) <= NEAR for r in EASY)
    claims.add(f"KRR, r of ½, ¾ and 1: the exponent is −r/(2r+γ) within {NEAR:g}", near, said)
    claims.add("KRR learns faster from r = ½ to ¾ and to 1", all(found[b] < found[a] for a, b in pairwise(EASY)), said)
    said = f"{found[EASIER]:.3f} at r = {EASIER:g} and {found[1.0]:.3f} at r = 1; −r/(2r+γ) is {printed[EASIER]:.3f}"
    claims.add("KRR learns faster at r = 1.5 than at r = 1", found[EASIER] < found[1.0], said)


def _of_capacity(claims: Claims) -> None:
    i = np.arange(1.0, MANY + 1)
    sizes = {g: [effective_dimension(i ** (-1 / g), l2) for l2 in PENALTIES] for g in GAMMAS}
    grows = all(b > a for one, two in pairwise(sizes.values()) for a, b in zip(one, two, strict=True))
    ends = ", ".join(f"γ = {g:g}: {found[0]:.3g} to {found[-1]:.3g}" for g, found in sizes.items())
    claims.add("a larger γ has a larger N(λ) at every λ", grows, f"λ of {PENALTIES[0]:g} to {PENALTIES[-1]:g}: {ends}")


def _of_theorem_3(slopes: Slopes, claims: Claims) -> None:
    for of in (HALF, FULL):
        (once, often, few), more = SHARES[of], CONSTANTS[of]
        at = f"r = {of.r:g}, γ = {of.gamma:g}"
        found = slopes.on_krr(of, once, at, claims)
        said = f"its square falls like |D|^{2 * found:.3f}; −2r/(2r+γ) is {2 * of.exponent:.3f}"
        claims.add(f"{at}: the squared error of KRR", found <= of.exponent + TOLERANCE, said)
        for what, share, name, constant in (
            (f"DKRR with n = |D|^{once:.3g}", once, "DKRR", 1),
            (f"eight rounds with n = |D|^{often:.3g}", often, f"#{ROUNDS}", 1),
            (f"eight rounds with n = {more} |D|^{often:.3g}", often, f"#{ROUNDS}", more),
        ):
            claims.add(f"{at}: {what} learn at the optimal rate", *slopes.learned(of, share, name, constant))
        found = slopes.of(of, few, "DKRR")
        said = f"the median error falls like |D|^{found:.3f}; the theorem's exponent is {of.exponent:.3f}"
        claims.add(f"{at}: DKRR with n = |D|^{few:g} misses the optimal rate", found > of.exponent + TOLERANCE, said)
        slow = (of.gamma - 1) / (4 * of.r + 2 * of.gamma)
        said = f"the median error falls like |D|^{found:.3f}; (γ−1)/(4r+2γ) is {slow:.3f}"
        claim = f"{at}: DKRR with n = |D|^{few:g} learns more slowly than |D|^((γ−1)/(4r+2γ))"
        claims.add(claim, found > slow - TOLERANCE, said)
        gap, own = slopes.medians(of, few, "federated, DKRR"), slopes.medians(of, few, "KRR")
        ratios = [gap[total] / own[total] for total in gap]
        said = f"DKRR's federated error is {min(ratios):.2g} to {max(ratios):.2g} times KRR's error"
        claims.add(f"{at}: with n = |D|^{few:g} the federated error dominates", min(ratios) > 1, said)
        for share, constant, hurts in ((few, 1, True), (often, 1, False), (often, more, False)):
            names = ("federated, DKRR", f"federated, #{ROUNDS}")
            before, after = (slopes.medians(of, share, name, constant) for name in names)
            times = [after[total] / before[total] for total in before]
            said = f"eight rounds leave {min(times):.2g} to {max(times):.2g} of DKRR's federated error"
            holds = min(times) > 1 if hurts else max(times) < 1
            size = f"{constant} " if constant > 1 else ""
            claims.add(f"{at}: with n = {size}|D|^{share:.3g} rounds {'hurt' if hurts else 'help'}", holds, said)


def _problem(of: Sharp) -> str:
    return f"{of.r:g}, {of.gamma:g}, {of.tilt:g}, {of.models:g}"


def _size(share: float, constant: float) -> str:
    if share == 1:
        return "|D|" if constant == 1 else f"|D|/{1 / constant:g}"
    return f"{constant if constant > 1 else ''} |D|^{share:.3g}".strip()


def _as_seed(constant: float) -> tuple[int, ...]:
    return (round(constant),) if constant >= 1 else (0, round(1 / constant))


@experiment(
    "fednewton-rates",
    paper="FedNewton",
    place="section 4.1, Theorems 3 and 4",
    title="Learning rates of FedNewton where f* is no smoother than r says",
    takes="3 min",
    seeds=10,
)
def rates(seeds: Seeds, quick: bool) -> Result:
    """The rates of Theorem 3 are those of KRR here, up to r = 1."""
    tried, apart = cases(quick), set(rates_shifts.cases(TOTALS))
    tally = Tally[Case]()
    for seed, case in seeds.over(tried):
        of, total, share, constant = case
        rng = np.random.default_rng((seed, total, round(1000 * share), *_as_seed(constant)))
        parts = of.parts(total, clients_of(total, share, case in apart, constant), rng)
        tally.add(case, errors(of, parts, of.l2(total), ROUNDS))
        if case in apart:
            tally.add(case, {"ρ": rho(of, parts, of.l2(total))})
    claims, slopes = Claims(quick), Slopes(tally, tried)
    if not quick:
        _of_regularity(slopes, claims)
        _of_theorem_3(slopes, claims)
        rates_shifts.on_shifts(slopes, claims)
        rates_rough.on_rough(slopes, claims)
    _of_capacity(claims)
    names = ("KRR", "DKRR", f"#{ROUNDS}", "federated, DKRR", f"federated, #{ROUNDS}", "ρ")

    def cell(case: Case, name: str) -> Measured | None:
        found = tally.measured(case, name)
        return found if found.values else None

    return Result(
        columns=(Column("r, γ, h, b"), Column("|D|"), Column("|D_j|"), *(Column(name) for name in names)),
        rows=[
            (_problem(case[0]), f"{case[1]}", _size(*case[2:]), *(cell(case, name) for name in names)) for case in tried
        ],
        claims=claims.found,
        notes=(
            "Eigenvalues s i^(−1/γ) of C with the functions √2 cos(πix), x uniform on [0, 1]; f* has the coefficients "
            "± a σ_i^r i^-½, for which Assumption 2 holds with r and no larger exponent. λ = |D|^(−1/(2r+γ)), uniform "
            f"noise of variance 0.2. γ = ½: {HALF.size} cosines, s = {HALF.scale:g}, a = {HALF.amplitude:g}; γ = 1: "
            f"{FULL.size}, {FULL.scale:g} and {FULL.amplitude:g}; r = ¼: {rates_rough.EDGE.size}, "
            f"{rates_rough.EDGE.scale:g} and {rates_rough.EDGE.amplitude:g}. With shifts clients draw x with the "
            "density 1 ± h cos(πx), or have ± b on the first three coefficients. Errors are exact norms; exponents are "
            "of the medians. ρ = λ_max(AH) − 1.",
            f"At the optimal rate: an exponent of at most −r/(2r+γ) + {TOLERANCE:g}, and an error of at most {WORSE:g} "
            "times KRR's everywhere.",
        ),
    )
