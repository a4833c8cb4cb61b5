"""FedNewton, Theorem 1 where Υ < 1, and the terms of (16) one by one in one dimension."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.diagnose import upsilon
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.bounded import Drawn, World, world
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

CLIENTS, FEATURES, ROUNDS = 4, 40, 8
ALPHAS, SIZES, PENALTIES = (0.0, 1e-4, 1e-3), (120, 250, 1000, 4000, 16_000), (0.05, 0.2)
FLOOR = 1e-10  # of the first federated error: below, what is left is rounding
SLACK = 1 + 1e-6
DRAWS, MEMBERS = 2000, (2, 3, 10)  # of clients in one dimension, and how many there are
SHARP = 0.5  # of the bound: one that is reached to this share somewhere has no other order

PRINTED, PROVED = "Υ < 1: the error is within Υ^t, as printed", "Υ < 1: the error is within Υ^t, as in the proof"
STEP = "Υ < 1: every round leaves at most Υ of ‖(C + λI)^½ (w̄ − w)‖"
BELOW = "Υ < 1 in every draw"
LINE, REACHED = "(16), one dimension: with all terms", "(16), one dimension: at least half of it is reached"
GROWS = "one dimension: Υ < 1 of the proof, and every round reduces the error"

Case = tuple[float, int, float]  # α, samples of a client, λ


def measured(of: World, drawn: Drawn) -> dict[str, float]:
    """The errors of every round over Υ^t, while they are more than rounding, and the largest step over Υ."""
    ops = drawn.ops
    C, whole, pooled = ops.pooled, ops.ridge(ops.pooled), drawn.pooled_fit
    gaps = [w - pooled for w in drawn.rounds(ROUNDS)]
    errors, sizes = ([math.sqrt(float(e @ A @ e)) for e in gaps] for A in (C, whole))
    kept = [t for t, error in enumerate(errors) if error > FLOOR * errors[0]]
    last = next((t for t in range(len(errors)) if t not in kept), len(errors))  # what comes after is rounding, too
    found = {form: upsilon(ops.samples, ops.locals, C, ops.l2, form=form) for form in ("printed", "proof")}
    bounds = {form: max(errors[t] / (value**t * sizes[0]) for t in range(1, last)) for form, value in found.items()}
    return {
        "Υ": found["printed"],
        "Υ, proof": found["proof"],
        "ρ": ops.rho(),
        "rounds": float(last - 1),
        "printed": bounds["printed"],
        "proof": bounds["proof"],
        "step": max(sizes[t] / sizes[t - 1] for t in range(1, last)) / found["printed"],
    }


# ── one dimension ──


def left(samples: Array, l2: float) -> float:
    """What a round leaves of the error: |1 − A H| of numbers."""
    return abs(float(np.mean((samples - samples.mean()) / (samples + l2))))


def right(samples: Array, locals_: Array, l2: float, without: str = "") -> float:
    """Σ p_j P_Dj (1 + Δ_Dj/λ)(R_D + R_Dj + Δ_Dj/λ) of (16), or the same without one of its terms or factors."""
    C = locals_.mean()
    P, shift = (locals_ + l2) / (samples + l2), np.abs(C - locals_) / l2
    R_j, R = np.abs(locals_ - samples) / (locals_ + l2), abs(C - samples.mean()) / (C + l2)
    terms = {"R_D": R + 0 * shift, "R_Dj": R_j, "Δ_Dj/λ": shift}
    factors = {"P_Dj": P, "1 + Δ_Dj/λ": 1 + shift}
    total = sum((value for name, value in terms.items() if name != without), np.zeros_like(shift))
    for name, value in factors.items():
        total = total if name == without else total * value
    return float(np.mean(total))


NEEDED: dict[str, tuple[Array, Array, float]] = {  # C_Dj, C_j and λ with which the bound fails without the term
    "R_D": (np.array([1.0] * 9 + [20.0]), np.ones(10), 1e-3),
    "R_Dj": (np.array([0.5, 1.5]), np.ones(2), 1e-3),
    "Δ_Dj/λ": (np.array([0.5, 1.5]), np.array([0.5, 1.5]), 1.0),
    "P_Dj": (np.array([0.1, 1.9]), np.ones(2), 1e-3),
    "1 + Δ_Dj/λ": (np.array([0.0, 4.0]), np.array([0.0, 2.0]), 0.1),
}


def clients(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """C_Dj, C_j and λ of some clients: expected second moments near 1 or apart, means of few or many squares."""
    m = int(rng.choice(MEMBERS))
    locals_ = np.exp(rng.choice((0.0, 0.01, 0.3)) * rng.standard_normal(m))
    degrees = rng.choice((4, 30, 300, 3000))
    return locals_ * rng.chisquare(degrees, m) / degrees, locals_, float(rng.choice((1e-3, 0.1, 1.0)))


def one_dimension(seed: int) -> dict[str, float]:
    """Left over right of (16): the largest, and where Υ < 1 the largest factor of a round."""
    drawn = [clients(np.random.default_rng((seed, k, 31))) for k in range(DRAWS)]
    sides = [(left(samples, l2), right(samples, own, l2)) for samples, own, l2 in drawn]
    below = [one for one, other in sides if other < 1]
    return {"largest": max(one / other for one, other in sides), "below": max(below), "count": float(len(below))}


def on_terms(claims: Claims) -> None:
    for name, (samples, own, l2) in NEEDED.items():
        error, whole, less = left(samples, l2), right(samples, own, l2), right(samples, own, l2, name)
        said = f"{len(own)} clients in one dimension: a round leaves {error:.2g}, the bound is {whole:.2g}, without it "
        claims.add(f"(16) needs {name}", less * SLACK < error <= whole * SLACK, f"{said}{less:.2g}")


def on_bounds(tally: Tally[Case], cases: list[Case], claims: Claims) -> None:
    def every(name: str) -> list[float]:
        return [value for case in cases for value in tally.measured(case, name).values]

    values, draws = every("Υ"), len(every("Υ"))
    claims.add(BELOW, max(values) < 1, f"Υ = {min(values):.2g} to {max(values):.2g} in {draws} draws")
    said = f"the first {min(every('rounds')):.0f} to {max(every('rounds')):.0f} rounds, {draws} draws"
    for claim, name in ((PRINTED, "printed"), (PROVED, "proof")):
        worst = max(every(name))
        claims.add(claim, worst <= SLACK, f"at most {worst:.2g} of the bound, {said}")
    claims.add(STEP, max(every("step")) <= SLACK, f"at most {max(every('step')):.2g} of Υ, {said}")


def on_one_dimension(found: list[dict[str, float]], claims: Claims) -> None:
    worst, below = (max(one[name] for one in found) for name in ("largest", "below"))
    said = f"a round leaves up to {worst:.2g} of the bound, {len(found) * DRAWS:,} draws"
    claims.add(LINE, worst <= SLACK, said)
    claims.add(REACHED, worst >= SHARP, said)
    count = sum(one["count"] for one in found)
    claims.add(GROWS, below < 1, f"a round leaves at most {below:.2g} of the error in {count:,.0f} draws with Υ < 1")


@experiment(
    "fednewton-below-one",
    paper="FedNewton",
    place="Theorem 1, (16)",
    title="Theorem 1 where Υ is below 1, and what each term of its proof is for",
    takes="10 s",
)
def below_one(seeds: Seeds, quick: bool) -> Result:
    """With Υ < 1 the bound can fail at every round; in one dimension it is nearly reached."""
    sizes = SIZES[:2] if quick else SIZES
    cases: list[Case] = [(alpha, n, l2) for alpha in ALPHAS for n in sizes for l2 in PENALTIES]
    locals_ = {alpha: world(CLIENTS, FEATURES, alpha).locals() for alpha in ALPHAS}
    tally = Tally[Case]()
    for seed, case in seeds.over(cases):
        alpha, n, l2 = case
        of = world(CLIENTS, FEATURES, alpha)
        parts = of.draw(n, np.random.default_rng((seed, n, 31)))
        tally.add(case, measured(of, Drawn.of(parts, locals_[alpha], l2)))
    claims = Claims(quick)
    on_bounds(tally, cases, claims)
    on_one_dimension([one_dimension(seed) for seed in seeds.seeds], claims)
    on_terms(claims)
    names = {"Υ": "Υ", "Υ, proof": "Υ, proof", "ρ": "ρ", "printed": "error / bound", "step": "round / Υ"}
    return Result(
        columns=(Column("α, n, λ"), *(Column(heading) for heading in names.values())),
        rows=[
            (", ".join(f"{one:g}" for one in case), *(tally.measured(case, name) for name in names)) for case in cases
        ],
        claims=claims.found,
        notes=(
            f"The problem of fednewton-lemmas with M = {FEATURES}, {CLIENTS} clients of n samples, inputs N(u_j, I), "
            f"u_j ~ N(0, αI). Rounds count as long as the error is above {FLOOR:g} of the first. “Error / bound” is "
            "the largest from the first round on, “round / Υ” the largest step in the norm of the theorem over Υ.",
            f"One dimension: {DRAWS:,} draws a seed of {MEMBERS[0]} to {MEMBERS[-1]} clients, whose C_Dj are C_j times "
            "means of 4 to 3,000 squares. Each term of (16) has clients of its own with which the bound fails "
            "without it.",
        ),
    )
