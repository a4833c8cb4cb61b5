"""FedNewton, Theorem 4 and Remark 7: Υ or Υ^t, what R_D and R_Dj do as samples grow, and learning rates with shifts."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fedsolve.diagnose import effective_dimension, upsilon
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.lemmas import spread_of
from fedsolve.reproduce.fednewton.theorem3 import FEATURES, FIXED, RATE, ROUNDS, SIZES, TOLERANCE, TOTALS, slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

LONG = 10 * ROUNDS
ROUNDING = 1e-12  # of the first federated error: below, ratios are rounding
FEW, ENOUGH = 0.4, 0.6  # n = |D|^share; the boundary is 0.5 for r = ½ and γ = 1
LARGE, SMALL, MODERATE = 1.0, 1e-4, (0.01, 0.1)  # α
FELT = 1.3  # times ρ without shifts: a shift that changes nothing would only repeat the claim on clients alike
ALPHAS, BETAS = (0.0, 0.01, 0.1, 1.0), (0.0, 0.01, 0.1, 1.0)
CLIENTS, EACH, L2 = 4, 1000, 1e-2  # of the rows that vary one factor
STAYS = -0.1  # an exponent of n above this one: it does not fall

Case = tuple[str, int, float, float]  # which part, |D| or n, share or α, α or β
NAMES = ("Υ", "ρ", "DKRR", "#8", "federated, DKRR", "federated, #8", "over Υ", "over Υ^t")


def aleph(total: int, each: float) -> float:
    """ℵ_j of Theorem 3 with r = ½, γ = 1: the first case is empty."""
    if each <= total**0.5:
        return float(each**-1.5 * total**0.75)
    return float(each**-1 * total**0.5) if each <= total**0.75 else float(total**RATE)


def pi(total: int, each: float, data: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Π_j of Theorem 4 with r = ½, γ = 1."""
    if each <= total**0.5:
        return np.asarray(total / each * data + total**0.5 / each * models)
    return np.asarray((1 + total**0.5 * data) * (models + total**0.5 * data))


def with_shift(total: int, share: float, alpha: float, seed: int) -> dict[str, float]:
    """Errors after 0, 8 and 80 rounds, over Theorem 4's right side with Υ and with Υ^t."""
    clients = round(total ** (1 - share))
    of, l2, each = world(clients, FEATURES, alpha), total**-0.5, total // clients
    drawn = Drawn.of(of.draw(each, np.random.default_rng((seed, total, clients, 4))), of.locals(), l2)
    ops, C, pooled = drawn.ops, drawn.ops.pooled, drawn.pooled_fit
    path = drawn.rounds(LONG)

    def size(v: np.ndarray) -> float:
        return math.sqrt(max(float(v @ C @ v), 0.0))

    data = ops.shifts()
    value = upsilon(ops.samples, ops.locals, C, l2)
    term = float(np.mean(np.sqrt(1 + data / l2) * (aleph(total, each) + pi(total, each, data, 0 * data))))
    gaps = [size(w - pooled) for w in path[: ROUNDS + 1]]
    errors = {t: size(path[t] - of.truth) for t in (0, ROUNDS, LONG)}
    return {
        "Υ": value,
        "ρ": ops.rho(),
        "DKRR": errors[0],
        "#8": errors[ROUNDS],
        "federated, DKRR": gaps[0],
        "federated, #8": gaps[ROUNDS],
        "over Υ": errors[ROUNDS] / (value * term + total**RATE),
        "over Υ, 80 rounds": errors[LONG] / (value * term + total**RATE),
        "over Υ^t": errors[ROUNDS] / (value**ROUNDS * term + total**RATE),
        "(38) printed": errors[0] / gaps[0],
        "slowest round": max(b / a for a, b in pairwise(gaps) if b > ROUNDING * gaps[0]),
    }


def alone(each: int, alpha: float, beta: float, seed: int, l2: float = L2) -> dict[str, float]:
    """R_D, R_Dj, Υ and DKRR's federated error of four clients."""
    of = world(CLIENTS, FEATURES, alpha, beta)
    drawn = Drawn.of(of.draw(each, np.random.default_rng((seed, each, 5))), of.locals(), l2)
    ops, C, gap = drawn.ops, drawn.ops.pooled, drawn.rounds(0)[0] - drawn.pooled_fit
    pairs = list(zip(ops.samples, ops.locals, strict=True))
    R_j, P_j = ([measure(*pair) for pair in pairs] for measure in (ops.R, ops.P))
    return {
        "R_D": ops.R(ops.drawn, C),
        "R_Dj": float(np.median(R_j)),
        "P_Dj": float(np.median(P_j)),
        "Δ_Dj": float(np.mean(ops.shifts())),
        "R_Dj / R_D": max(R_j) / ops.R(ops.drawn, C),
        "Υ": upsilon(ops.samples, ops.locals, C, l2),
        "federated, DKRR": math.sqrt(float(gap @ C @ gap)),
        "spread": spread_of(each, l2, effective_dimension(np.linalg.eigvalsh(C), l2)),
    }


def _on_samples(tally: Tally[Case], sizes: tuple[int, ...], claims: Claims) -> None:
    def medians(name: str) -> list[float]:
        return [tally.measured(("R", n, 0.0, 0.0), name).median for n in sizes]

    totals, locals_ = slope([CLIENTS * n for n in sizes], medians("R_D")), slope(list(sizes), medians("R_Dj"))
    said = f"R_D falls like |D|^{totals:.2f} at λ = {FIXED}"
    claims.add("R_D falls like 1/|D|", -1.05 <= totals <= -0.95, said)
    claims.add("R_D falls like 1/√|D|, as (10) has it", -0.55 <= totals <= -0.45, said)
    said = f"R_Dj goes like |D_j|^{locals_:.2f}"
    claims.add("R_Dj grows like |D_j|, as Remark 7 prints", 0.95 <= locals_ <= 1.05, said)
    parts = medians("R_Dj"), medians("P_Dj"), medians("Υ")
    falls = all(b < a for one in parts for a, b in pairwise(one))
    said = "; ".join(
        f"{name} from {one[0]:.3g} to {one[-1]:.3g}" for name, one in zip(("R_Dj", "P_Dj", "Υ"), parts, strict=True)
    )
    claims.add("Υ, P_Dj and R_Dj become smaller with |D_j|", falls, f"{said}, n = {sizes[0]} to {sizes[-1]}")
    ratios = [value for n in sizes for value in tally.measured(("R", n, 0.0, 0.0), "R_Dj / R_D").values]
    said = f"the largest R_Dj is {min(ratios):.2f} to {max(ratios):.2f} times R_D, in {len(ratios)} draws"
    claims.add("R_Dj ≤ R_D, as printed", max(ratios) <= 1, said)
    spread = medians("spread")
    falls = all(b < a for a, b in pairwise(spread))
    claims.add("the distributed error falls with |D_j|", falls, ", ".join(f"{one:.2g}" for one in spread))


def _on_factors(tally: Tally[Case], sizes: tuple[int, ...], claims: Claims) -> None:
    by_n = [tally.measured(("R", n, 0.0, 0.0), "federated, DKRR").median for n in sizes]
    by_alpha = [tally.measured(("α", EACH, alpha, 0.0), "federated, DKRR").median for alpha in ALPHAS]
    by_beta = [tally.measured(("β", EACH, 0.0, beta), "federated, DKRR").median for beta in BETAS]
    rising = all(a < b for some in (by_n[::-1], by_alpha, by_beta) for a, b in pairwise(some))
    said = "; ".join(
        f"{what}: {', '.join(f'{one:.2g}' for one in some)}"
        for what, some in (
            (f"n = {sizes[0]} to {sizes[-1]}", by_n),
            (f"α of {ALPHAS}", by_alpha),
            ("β of the same", by_beta),
        )
    )
    claims.add("Theorem 2: the smaller n^-1, Δ_Dj and Δ_fj, the smaller the federated error", rising, said)
    said = f"with β = {BETAS[-1]:g} DKRR's federated error is {by_beta[-1] / by_beta[0]:.3g} times that with β = 0"
    claims.add("Theorem 2: a large Δ_fj dominates the federated error", by_beta[-1] >= 2 * by_beta[0], said)
    moved = [tally.measured(("α", EACH, alpha, 0.0), "Υ").values for alpha in ALPHAS]
    fixed = [tally.measured(("β", EACH, 0.0, beta), "Υ").values for beta in BETAS]
    by_size = [tally.measured(("R", n, 0.0, 0.0), "Υ").median for n in sizes]
    apart = max(abs(a / b - 1) for one in fixed for a, b in zip(one, fixed[0], strict=True))
    grows = all(b > a for one, two in pairwise(moved) for a, b in zip(one, two, strict=True))
    falls = all(b < a for a, b in pairwise(by_size))
    said = f"Υ from {by_size[0]:.2g} to {by_size[-1]:.2g} with n, from {np.median(moved[0]):.2g} to "
    said += f"{np.median(moved[-1]):.2g} with α; with β it differs by {apart:.1g}"
    claims.add(
        "Υ falls with |D_j|, grows with Δ_Dj and does not depend on Δ_fj", grows and falls and apart < 1e-9, said
    )


def _on_proportions(tally: Tally[Case], sizes: tuple[int, ...], claims: Claims) -> None:
    """Υ ∝ R_Dj, P_Dj and Δ_Dj, as printed after Theorem 1 and in Remark 7: powers of 1."""
    by_n: list[Case] = [("R", n, 0.0, 0.0) for n in sizes]
    by_alpha: list[Case] = [("α", EACH, alpha, 0.0) for alpha in ALPHAS if alpha]
    for name, cases in (("R_Dj", by_n), ("P_Dj", by_n), ("Δ_Dj", by_alpha)):
        pairs = [[tally.measured(case, each).median for case in cases] for each in (name, "Υ")]
        power = slope(*pairs)
        claims.add(f"Υ is proportional to {name}", 0.95 <= power <= 1.05, f"Υ goes like {name}^{power:.2f}")


def _on_concept_shift(tally: Tally[Case], sizes: tuple[int, ...], claims: Claims) -> None:
    """Whether Δ_fj, which is constant, is what remains of the federated error as samples grow."""
    none, large = (
        [tally.measured(("R", n, 0.0, beta), "federated, DKRR").median for n in sizes] for beta in (0.0, BETAS[-1])
    )
    over = [b / a for a, b in zip(none, large, strict=True)]
    exponent, own = slope(list(sizes), over), slope(list(sizes), large)
    said = f"{min(over):.3g} to {max(over):.3g} times that with β = 0, n = {sizes[0]} to {sizes[-1]}; it goes like "
    said += f"n^{exponent:.2f}"
    holds = min(over) >= 2 and exponent > STAYS
    claims.add("Theorem 2: a large Δ_fj dominates the federated error at every n, and no less with more", holds, said)
    said = f"with β = 1 from {large[0]:.2g} at n = {sizes[0]} to {large[-1]:.2g} at {sizes[-1]}, like n^{own:.2f}"
    claims.add("Theorem 2: with a large Δ_fj the federated error does not fall with n", own > STAYS, said)


def _on_moderate_shifts(tally: Tally[Case], totals: tuple[int, ...], claims: Claims) -> None:
    """Whether every round leaves at most half with shifts that are felt."""

    def by_total(alpha: float, name: str) -> list[Measured]:
        return [tally.measured(("rates", total, ENOUGH, alpha), name) for total in totals]

    none = by_total(0.0, "ρ")
    for alpha in MODERATE:
        rho = by_total(alpha, "ρ")
        slowest = max(max(one.values) for one in by_total(alpha, "slowest round"))
        said = f"a round leaves at most {slowest:.2g} of the federated error; ρ from {rho[0].median:.2g} at |D| = "
        said += f"{totals[0]} to {rho[-1].median:.2g} at {totals[-1]}"
        claims.add(f"enough samples, α = {alpha:g}: every round leaves at most half", slowest <= 0.5, said)
        times = [one.median / alike.median for one, alike in zip(rho, none, strict=True)]
        said = f"ρ is {min(times):.3g} to {max(times):.3g} times that with α = 0"
        claims.add(
            f"enough samples, α = {alpha:g}: ρ is at least {FELT:g} times that without", min(times) >= FELT, said
        )


def _on_theorem(tally: Tally[Case], totals: tuple[int, ...], claims: Claims) -> None:
    def medians(share: float, alpha: float, name: str) -> list[float]:
        return [tally.measured(("rates", total, share, alpha), name).median for total in totals]

    def every(share: float, alpha: float, name: str) -> list[float]:
        return [v for total in totals for v in tally.measured(("rates", total, share, alpha), name).values]

    for share in (FEW, ENOUGH):
        over, rho = medians(share, LARGE, "over Υ"), medians(share, LARGE, "ρ")
        said = f"#8 over its bound from {over[0]:.2g} at |D| = {totals[0]} to {over[-1]:.2g} at {totals[-1]}; ρ from "
        said += f"{rho[0]:.2g} to {rho[-1]:.2g}"
        claims.add(
            f"Theorem 4 with Υ, n = |D|^{share}: over the bound it does not grow with |D|", over[-1] <= over[0], said
        )
    long, short = (medians(FEW, LARGE, name)[-1] for name in ("over Υ, 80 rounds", "over Υ"))
    said = f"over its bound {short:.2g} after 8 rounds and {long:.2g} after 80, |D| = {totals[-1]}"
    claims.add("Theorem 4 with Υ: over the bound it does not grow with t, at most 10 times", long <= 10 * short, said)
    proved = max(*every(FEW, LARGE, "over Υ^t"), *every(ENOUGH, LARGE, "over Υ^t"), *every(ENOUGH, SMALL, "over Υ^t"))
    claims.add("Theorem 4 with Υ^t: below the bound with the constant 1", proved <= 1, f"at most {proved:.2g} of it")
    missed = slope(list(totals), medians(FEW, LARGE, "#8"))
    least = min(every(FEW, LARGE, "Υ"))
    said = f"Υ = {least:.2g} or more; #8 goes like |D|^{missed:.2f}, the optimal exponent is {RATE:g}"
    holds = least >= 1 and missed > RATE + TOLERANCE
    claims.add("few samples, large shifts: Υ ≥ 1, and the rate is missed", holds, said)
    missed, least = slope(list(totals), medians(ENOUGH, LARGE, "#8")), min(every(ENOUGH, LARGE, "Υ"))
    said = f"Υ = {least:.2g} or more; #8 goes like |D|^{missed:.2f}, the optimal exponent is {RATE:g}"
    holds = least >= 1 and missed > RATE + TOLERANCE
    claims.add("enough samples, large shifts: Υ ≥ 1, and the rate is missed", holds, said)
    good, slowest = slope(list(totals), medians(ENOUGH, SMALL, "#8")), max(every(ENOUGH, SMALL, "slowest round"))
    said = f"#8 goes like |D|^{good:.2f}; a round leaves at most {slowest:.2g} of the federated error"
    holds = good <= RATE + TOLERANCE and slowest <= 0.5
    claims.add("enough samples, small shifts: it converges exponentially, and the rate is optimal", holds, said)
    below = every(ENOUGH, SMALL, "Υ")
    claims.add("enough samples, small shifts: Υ < 1", max(below) < 1, f"Υ = {min(below):.2g} to {max(below):.2g}")
    printed = every(ENOUGH, SMALL, "(38) printed")
    said = f"DKRR's error is {min(printed):.3g} to {max(printed):.3g} times its federated error"
    claims.add("(38) as printed: the error is at most the federated error + ‖f_D − f_D‖", max(printed) <= 1, said)


@experiment(
    "fednewton-remark7",
    paper="FedNewton",
    place="Theorem 4, Remark 7",
    title="FedNewton on clients with shifts: Υ or Υ^t, and learning rates",
    takes="2 min",
    seeds=10,
)
def remark7(seeds: Seeds, quick: bool) -> Result:
    """Where FedNewton diverges only Υ^t bounds it."""
    totals, sizes = (TOTALS[:2], SIZES[:2]) if quick else (TOTALS, SIZES)
    shifted = [
        ("rates", total, share, alpha)
        for total in totals
        for share, alpha in ((FEW, LARGE), *((ENOUGH, alpha) for alpha in (LARGE, SMALL, 0.0, *MODERATE)))
    ]
    factors: list[Case] = [("R", n, 0.0, beta) for n in sizes for beta in (0.0, BETAS[-1])]
    factors += [("α", EACH, alpha, 0.0) for alpha in ALPHAS] + [("β", EACH, 0.0, beta) for beta in BETAS]
    tally = Tally[Case]()
    for seed, case in seeds.over([*shifted, *factors]):
        part, size, one, two = case
        if part == "rates":
            tally.add(case, with_shift(size, one, two, seed))
        else:
            tally.add(case, alone(size, one, two, seed, FIXED if part == "R" else L2))
    claims = Claims(quick)
    _on_samples(tally, sizes, claims)
    _on_factors(tally, sizes, claims)
    _on_proportions(tally, sizes, claims)
    _on_concept_shift(tally, sizes, claims)
    _on_theorem(tally, totals, claims)
    _on_moderate_shifts(tally, totals, claims)
    return Result(
        columns=(Column("|D|, n = |D|^, α"), *(Column(name) for name in NAMES)),
        rows=[
            (", ".join(f"{one:g}" for one in case[1:]), *(tally.measured(case, name) for name in NAMES))
            for case in shifted
        ],
        claims=claims.found,
        notes=(
            f"The problem of fednewton-lemmas with M = {FEATURES}, inputs N(u_j, I), u_j ~ N(0, αI), r = ½ and γ = 1, "
            "λ = |D|^-½. “Over Υ” is the error after 8 rounds over Theorem 4's right side with its constants taken as "
            "1, “over Υ^t” over that of its proof.",
            f"R_D, R_Dj and one factor at a time: {CLIENTS} clients, λ = {FIXED} for the sizes {SIZES}, otherwise n = "
            f"{EACH} and λ = {L2:g}.",
        ),
    )
