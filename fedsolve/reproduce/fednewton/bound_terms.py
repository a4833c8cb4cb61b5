"""FedNewton, (38), Theorems 2 and 4: how fast errors fall against their bounds, and which terms the bounds need."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from fedsolve.diagnose import effective_dimension, upsilon
from fedsolve.diagnose.theory import regime
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.lemmas import LOG, spread_of
from fedsolve.reproduce.fednewton.population import Operators, norm
from fedsolve.reproduce.fednewton.sharp import Sharp
from fedsolve.reproduce.fednewton.theorem3 import ROUNDS, slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

TOTALS, SHARES = (512, 1024, 2048, 4096, 8192), (0.75, 0.9)  # |D| and the exponent of |D_j|
FLAT, IDLE = 0.05, 0.1  # an exponent that does not grow; a share of a bound below which it tells little
ALIKE = Sharp(0.5, 0.5, size=120, scale=0.05, amplitude=3.0)  # so small an s that Υ < 1
MOVED = Sharp(0.5, 0.5, size=120, scale=0.05, amplitude=3.0, tilt=0.005, models=0.05)
RATES = {"(38), second line": ALIKE, "Theorem 4's proof, first display": MOVED}
# where the right side without a term is exceeded: the problem, |D|, clients, λ, rounds
NEEDED: dict[str, tuple[Sharp, int, int, float, int]] = {
    "A_D": (Sharp(0.5, 0.5, size=120, scale=0.05, amplitude=0.003), 2048, 2, 0.003, ROUNDS),
    "R λ^r": (ALIKE, 65_536, 2, 0.05, ROUNDS),
    "Υ^t": (Sharp(0.5, 0.5, size=120), 512, 64, 1e-4, ROUNDS),
}
CLIENTS, FEATURES, LIMIT = 4, 40, 1e-8  # of the shifts; λ with the samples replaced by their distributions
GROWN, FIXED = (1000, 64_000), 0.05  # samples of a client and λ for Theorem 2
KEEPS, LEAVES = 2.0, 4.0  # times: the error over its bound keeps its order, or does not
WITHOUT = {"Δ_fj": (0.0, 1.0), "Δ_Dj": (0.1, 0.1)}  # the term and the α and β with which Theorem 2 needs it
# Theorem 4 where γ = ½: the exponent of |D_j| for each case of ℵ, and the shifts of inputs and models
FOUR = tuple(product((0.25, 0.5, 0.75, 0.9), ((0.005, 0.0), (0.0, 0.05), (0.05, 0.3))))
LEAST = 512  # its |D|

Case = tuple[str, int, float]  # which bound, |D|, the exponent of |D_j|


def evenly(total: int, share: float) -> int:
    """An even number of clients of about |D|^share samples."""
    return 2 * max(1, round(float(total ** (1 - share)) / 2))


def covariances(of: Sharp, clients: int) -> list[Array]:
    """C_j in the features √σ_i e_i: 2 E cos(πix) cos(πkx) is 1 for i = k, and ± h/2 where they differ by 1."""
    root = np.sqrt(of.values())
    beside = np.eye(of.size, k=1) + np.eye(of.size, k=-1)
    signs = [1.0 if j % 2 else -1.0 for j in range(clients)]
    return [np.asarray((np.eye(of.size) + sign * of.tilt / 2 * beside) * np.outer(root, root)) for sign in signs]


def models_of(of: Sharp, clients: int) -> list[Array]:
    """w_j*, with f_j* = ⟨w_j*, φ⟩."""
    root, found = np.sqrt(of.values()), []
    for j in range(clients):
        truth = of.target()
        truth[:3] += (1.0 if j % 2 else -1.0) * of.models
        found.append(truth / root)
    return found


@dataclass(frozen=True, eq=False)
class Sides:
    """The error after each round, and what its bound is made of; R is that of f*, constants are 1."""

    errors: list[float]
    value: float
    federated: float
    spread: float
    bias: float
    data: Array
    models: Array
    total: int
    each: int

    def right(self, t: int, without: str = "") -> float:
        parts = {"Υ^t": self.value**t * self.federated, "A_D": self.spread, "R λ^r": self.bias}
        return sum(part for name, part in parts.items() if name != without)

    def worst(self) -> float:
        return max(error / self.right(t) for t, error in enumerate(self.errors))


def sides(of: Sharp, total: int, clients: int, l2: float, rng: np.random.Generator, rounds: int = ROUNDS) -> Sides:
    """Of the first display in the proof of Theorem 4, which without shifts has twice the federated part of (38)."""
    each, root = total // clients, np.sqrt(of.values())
    C_j, w_j = covariances(of, clients), models_of(of, clients)
    parts = [(E * root, y) for E, y in of.parts(each * clients, clients, rng)]
    drawn = Drawn.of(parts, C_j, l2)
    C = drawn.ops.pooled
    truth = np.linalg.solve(C, np.mean([own @ w for own, w in zip(C_j, w_j, strict=True)], axis=0))

    def size(v: Array) -> float:
        return math.sqrt(max(float(v @ C @ v), 0.0))

    R_j = np.array([drawn.ops.R(*pair) for pair in zip(drawn.ops.samples, C_j, strict=True)])
    data, models = drawn.ops.shifts(), np.array([size(truth - w) for w in w_j])
    shift, dimension = data / l2, effective_dimension(np.linalg.eigvalsh(C), l2)
    A_j, A_D = (spread_of(n, l2, dimension) for n in (each, each * clients))
    alike = not (of.tilt or of.models)
    part = (
        R_j * A_j * LOG if alike else np.sqrt(1 + shift) * (2 * R_j + (1 + R_j) * shift) * (A_j * LOG + shift + models)
    )
    value = upsilon(drawn.ops.samples, C_j, C, l2)
    errors = [size(w - truth) for w in drawn.rounds(rounds)]
    bias = norm(truth) * l2**of.r
    return Sides(errors, value, float(np.mean(part)), A_D * LOG, bias, data, models, each * clients, each)


def without_terms(seed: int) -> dict[str, tuple[float, float]]:
    """The error over the right side of (38), with all terms and without one."""
    found = {}
    for name, (of, total, clients, l2, rounds) in NEEDED.items():
        one = sides(of, total, clients, l2, np.random.default_rng((seed, 41)), rounds)
        error = one.errors[rounds]
        found[name] = (error / one.right(rounds), error / one.right(rounds, name))
    return found


def theorem_4(of: Sharp, total: int, share: float, rng: np.random.Generator) -> float:
    """The largest error of rounds 0 to 8 over Theorem 4's right side with Υ^t and the constant 1."""
    found = sides(of, total, evenly(total, share), of.l2(total), rng)
    case, scaled = regime(found.each, total, of.r, of.gamma), found.data / of.l2(total)
    if case.case < 3:
        pi = (scaled + found.models) / of.l2(total) / found.each
    else:
        pi = (1 + scaled) * (found.models + scaled)
    part = float(np.mean(np.sqrt(1 + scaled) * (case.aleph + pi))) * LOG**2
    return max(error / (found.value**t * part + case.rate * LOG) for t, error in enumerate(found.errors))


def without_samples() -> tuple[float, float]:
    """DKRR's error and the right side without Δ_Dj, both with n = ∞: R_Dj = A_Dj = A_D = 0 leaves R λ^½."""
    of = world(CLIENTS, FEATURES, 1.0, 1.0)
    locals_ = of.locals()
    moments = [own @ w for own, w in zip(locals_, of.targets, strict=True)]
    drawn = Drawn(Operators(locals_, locals_, LIMIT), moments)
    C = drawn.ops.pooled
    truth = np.linalg.solve(C, np.mean(moments, axis=0))
    gap = drawn.rounds(0)[0] - truth
    return math.sqrt(float(gap @ C @ gap)), norm(truth) * math.sqrt(LIMIT)


def theorem_2(each: int, alpha: float, beta: float, term: str, seed: int) -> tuple[float, float]:
    """DKRR's federated error over the right side of Theorem 2 with the constant 1, with all terms and without one."""
    of = world(CLIENTS, FEATURES, alpha, beta)
    locals_ = of.locals()
    drawn = Drawn.of(of.draw(each, np.random.default_rng((seed, each, 37))), locals_, FIXED)
    ops, C, gap = drawn.ops, drawn.ops.pooled, drawn.rounds(0)[0] - drawn.pooled_fit
    truth = np.linalg.solve(C, np.mean([own @ w for own, w in zip(locals_, of.targets, strict=True)], axis=0))
    models = np.array([math.sqrt(max(float((w - truth) @ C @ (w - truth)), 0.0)) for w in of.targets])
    R_j = np.array([ops.R(*pair) for pair in zip(ops.samples, locals_, strict=True)])
    A_j = spread_of(each, FIXED, effective_dimension(np.linalg.eigvalsh(C), FIXED))
    shift, error = ops.shifts() / FIXED, math.sqrt(float(gap @ C @ gap))

    def bound(x: Array, f: Array) -> float:
        return float(np.mean(np.sqrt(1 + x) * (2 * R_j + (1 + R_j) * x) * (A_j * LOG + x + f)))

    less = bound(0 * shift, models) if term == "Δ_Dj" else bound(shift, 0 * models)
    return error / bound(shift, models), error / less


# ── claims ──


def on_rates(tally: Tally[Case], totals: tuple[int, ...], claims: Claims) -> None:
    for what in RATES:
        values = [v for total in totals for share in SHARES for v in tally.measured((what, total, share), "Υ").values]
        said = f"Υ = {min(values):.2g} to {max(values):.2g} in {len(values)} draws"
        claims.add(f"{what}: Υ < 1 in every draw", max(values) < 1, said)
        found, ends, worst = [], [], 0.0
        for share in SHARES:
            over = [tally.measured((what, total, share), "over").median for total in totals]
            found.append(slope(list(totals), over))
            ends.append(min(over))
            worst = max(worst, *(v for n in totals for v in tally.measured((what, n, share), "over").values))
        said = ", ".join(f"|D|^{one:.3f} with |D|^{share:g}" for one, share in zip(found, SHARES, strict=True))
        said = f"error over bound goes like {said} samples a client; from {min(ends):.2g} to {worst:.2g}"
        claims.add(f"{what}, constant 1: within it", worst <= 1, said)
        claims.add(f"{what}, constant 1: the error over it does not grow", max(found) <= FLAT, said)
        claims.add(f"{what}, constant 1: a tenth of it or more", min(ends) >= IDLE, said)


def on_terms(found: dict[str, list[tuple[float, float]]], claims: Claims) -> None:
    """Each term by the least ratio over the seeds, without it; with it the error is within the bound."""
    for name, pairs in found.items():
        whole, less = max(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        said = f"{whole:.2g} of the right side or less, {less:.2g} of it without the term or more"
        claims.add(f"(38) needs {name}", whole <= 1 < less, said)
    error, bound = without_samples()
    said = f"n = ∞, λ = {LIMIT:g}: DKRR's error is {error:.2g}, the right side without the term {bound:.2g}"
    claims.add("Theorem 4's proof, first display, needs Δ_Dj/λ", error > bound, said)


def on_theorem_2(found: dict[str, dict[int, list[tuple[float, float]]]], claims: Claims) -> None:
    for term, by_size in found.items():
        medians = [np.median(by_size[each], axis=0) for each in GROWN]
        whole, less = (float(medians[1][k] / medians[0][k]) for k in (0, 1))
        said = f"from n = {GROWN[0]:,} to {GROWN[1]:,} DKRR's federated error over the bound grows {whole:.2g} times, "
        said += f"and {less:.2g} times without {term}; it is at most {max(one[0] for one in medians):.2g} of it"
        claims.add(f"Theorem 2 needs {term}", whole <= KEEPS and less >= LEAVES, said)


@experiment(
    "fednewton-bound-terms",
    paper="FedNewton",
    place="(38), Theorems 2 and 4",
    title="How errors fall against the bounds of FedNewton, and which terms these need",
    takes="30 s",
)
def bound_terms(seeds: Seeds, quick: bool) -> Result:
    """With Υ < 1 errors keep their order to the bounds, and without a term some error exceeds them."""
    totals = TOTALS[:2] if quick else TOTALS
    cases: list[Case] = [(what, total, share) for what in RATES for total in totals for share in SHARES]
    tally = Tally[Case]()
    needed: dict[str, list[tuple[float, float]]] = {name: [] for name in NEEDED}
    second: dict[str, dict[int, list[tuple[float, float]]]] = {term: {n: [] for n in GROWN} for term in WITHOUT}
    fourth: list[float] = []
    for seed, case in seeds.over(cases):
        what, total, share = case
        rng, of = np.random.default_rng((seed, total, round(100 * share), 37)), RATES[what]
        one = sides(of, total, evenly(total, share), of.l2(total), rng)
        tally.add(case, {"Υ": one.value, "over": one.worst()})
    for seed in seeds.seeds:
        for name, pair in without_terms(seed).items():
            needed[name].append(pair)
        for term, (alpha, beta) in WITHOUT.items():
            for each in GROWN:
                second[term][each].append(theorem_2(each, alpha, beta, term, seed))
        for exponent, (tilt, models) in FOUR[-3:] if quick else FOUR:
            moved = replace(ALIKE, tilt=tilt, models=models)
            fourth.append(theorem_4(moved, LEAST, exponent, np.random.default_rng((seed, 43))))
    claims = Claims(quick)
    on_rates(tally, totals, claims)
    on_terms(needed, claims)
    on_theorem_2(second, claims)
    said = f"the error is at most {max(fourth):.2g} of it in {len(fourth)} draws"
    claims.add("Theorem 4 with Υ^t, constant 1, γ = ½, the four sizes of |D_j|, with shifts", max(fourth) <= 1, said)
    return Result(
        columns=(Column("bound"), Column("|D|, n = |D|^"), Column("Υ"), Column("error / bound, largest round")),
        rows=[
            (case[0], f"{case[1]}, {case[2]:g}", *(tally.measured(case, name) for name in ("Υ", "over")))
            for case in cases
        ],
        claims=claims.found,
        notes=(NOTE,),
    )


NOTE = (
    "Constants are 1 and δ = 0.05. Rates: the problem of fednewton-rates with r = γ = ½, s = 0.05, a = 3 and 120 "
    "cosines, λ = |D|^(−1/(2r+γ)), so that f* is no smoother than r says and Υ < 1; with shifts the inputs have the "
    "densities 1 ± 0.005 cos(πx) and the models ± 0.05, and f* is the projection of the regression of all clients on "
    "the space. Each term has a setting of its own in which the error is within the bound with it and above the bound "
    "without it. Theorem 4 with γ = ½: s = 0.05 and |D| = 512, h of 0.005 and 0.05, b of 0.05 and 0.3. Theorem 2: the "
    "problem of fednewton-lemmas with four clients, λ = 0.05, medians."
)
