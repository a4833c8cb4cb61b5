"""FedNewton, Lemmas 1, 3 and 4, Proposition 3 and the proof of Theorem 3, where no parameter is fixed."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton import bernstein
from fedsolve.reproduce.fednewton.spiky import (
    CLIENTS,
    Spiky,
    enough,
    first_bound,
    misses,
    misses_corrected,
    reaches_one,
    spread,
)
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

DRAWS = 20  # a seed
PENALTIES = (0.05, 0.01, 1e-3, 1e-4)
LIKELY = (0.1, 1 / 3)  # δ: Theorem 3 has δ ≤ 1/3
UNLIKELY = 0.9
KAPPAS = {1.0: PENALTIES, 10.0: (0.05, 0.01, 1e-3)}
MEANS = (1, 10, 100, 1000)  # λ n
ALL = (0.05, 1 / 3, 0.9)  # δ of the lemmas
DIRECTIONS = (2, 20, 1000, 10_000)
GROWN, LIMIT = (1e-2, 1e-4), 1.1  # λ; times: it does not grow
ORDER = (0.25, 1.5)  # of √(N(λ)/|D|): what is between has its order in every parameter
FAR = {0.9: 1e-6, 0.5: 1e-8, 1 / 3: 1e-10, 0.1: 1e-14}  # δ and λ for the chances in closed form
VAST = 1e6  # λ n there

BELOW = "κ = 1: Υ < 1 in a share of 1 − δ if n > 29 (κ² + 1) log(1/δ) / λ, four λ, two δ"
BELOW_WIDE = "κ = 10: Υ < 1 in a share of 1 − δ if n > 29 (κ² + 1) log(1/δ) / λ, three λ, two δ"
BELOW_FAR = "λ of 1e-10 to 1e-14: P R < ½ with probability 1 − δ if n > 29 (κ² + 1) log(1/δ) / λ, in closed form"
LESS = "δ = 0.9 in the condition: Υ ≥ 1 in more than a share of δ of the draws"
ROOT = "√λ for λ in the condition: Υ ≥ 1 in more than a share of δ of the draws"
FALLS = "P_Dj and R_Dj fall with |D_j|, spiky, λ from 0.05 to 1e-4"
FIRST = "Lemma 1, right: the bound on R_D, spiky, λ from 0.05 to 1e-4"
FIRST_FAR = "Lemma 1, right: the bound on R_D with probability 1 − δ, λ of 1e-6 to 1e-14, in closed form"
FIRST_MENDED = "Lemma 1, right, with log(2/(λδ)): λ of 1e-6 to 1e-14, in closed form"
GROWS = "(42): Υ √(λ n) does not grow as λ falls"
THIRD, FOURTH = "Lemma 3, spiky", "Lemma 4, spiky, Hilbert and Schmidt's norm"
THIRD_ORDER, FOURTH_ORDER = f"{THIRD}: of the order of √(N(λ)/|D|)", f"{FOURTH}: of the order of √(N(λ)/|D|)"
BERNSTEIN, EXPONENT = "Proposition 3, in closed form", "Proposition 3: the exponent in δ, in closed form"
VARIANCE, MOST = "Proposition 3 needs 2 before σ²", "Proposition 3 needs M"

Case = tuple[str, float, float, float]  # what, λ, κ or directions, δ or λ n


def _upsilons(l2: float, kappa: float, samples: int, rng: np.random.Generator) -> list[float]:
    of = Spiky(l2, kappa)
    return [of.upsilon([of.counts(samples, rng) for _ in range(CLIENTS)]) for _ in range(DRAWS)]


def measured(case: Case, rng: np.random.Generator) -> dict[str, list[float]]:
    what, l2, other, last = case
    if what == "Υ":
        return {"Υ": _upsilons(l2, other, enough(l2, last, other), rng)}
    if what == "√λ":
        return {"Υ": _upsilons(l2, other, enough(math.sqrt(l2), last, other), rng)}
    if what == "Υ, λ n":
        return {"Υ": _upsilons(l2, other, round(last / l2), rng)}
    if what == "R":
        of, n = Spiky(l2), round(last / l2)
        drawn = [of.counts(n, rng) for _ in range(DRAWS)]
        return {"R": [of.R(one) for one in drawn], "P": [of.P(one) for one in drawn]}
    of, n = Spiky(l2, 1.0, int(other)), int(last)
    drawn = [of.counts(n, rng) for _ in range(DRAWS)]
    A = spread(of, n)
    return {"third": [of.noise(one, rng) / A for one in drawn], "fourth": [of.distance(one) / A for one in drawn]}


def cases() -> list[Case]:
    found: list[Case] = [
        ("Υ", l2, kappa, delta) for kappa, some in KAPPAS.items() for l2 in some for delta in (*LIKELY, UNLIKELY)
    ]
    found += [("√λ", l2, 1.0, delta) for l2 in PENALTIES[1:] for delta in LIKELY]
    found += [("Υ, λ n", l2, 1.0, 1000.0) for l2 in GROWN]
    found += [("R", l2, 1.0, float(mean)) for l2 in PENALTIES for mean in MEANS]
    return found + [("A", l2, float(d), float(n)) for l2 in PENALTIES for d in DIRECTIONS for n in (20, 400, 8000)]


def allowed(delta: float, count: int) -> float:
    """A share of δ, give or take three standard errors."""
    return delta + 3 * math.sqrt(delta * (1 - delta) / count)


def _often(found: list[tuple[float, Array]]) -> tuple[bool, str]:
    """Whether Υ ≥ 1 in more than a share of δ of the draws of every setting."""
    shares = [float((one >= 1).mean()) for _, one in found]
    least = min(float(one.min()) for _, one in found)
    said = f"in {100 * min(shares):.3g} % of the draws of a setting or more; the least Υ is {least:.2g}"
    return all(share > delta for share, (delta, _) in zip(shares, found, strict=True)), said


def on_upsilon(tally: Tally[Case], claims: Claims) -> None:
    def values(*case: float, what: str = "Υ") -> tuple[float, ...]:
        return tally.measured((what, *case), "Υ").values  # type: ignore[arg-type]

    for claim, kappa in ((BELOW, 1.0), (BELOW_WIDE, 10.0)):
        found = {(l2, delta): np.array(values(l2, kappa, delta)) for l2 in KAPPAS[kappa] for delta in LIKELY}
        wrong = {key: float((one >= 1).mean()) for key, one in found.items()}
        said = ", ".join(
            f"{np.median(one):.2g} ({100 * wrong[key]:.0f} %) at λ = {key[0]:g}, δ = {key[1]:.2g}"
            for key, one in found.items()
        )
        holds = all(share <= delta for (_, delta), share in wrong.items())
        claims.add(claim, holds, f"median Υ (share of draws with Υ ≥ 1): {said}")
    chances = {delta: reaches_one(l2, delta) for delta, l2 in FAR.items() if delta <= 1 / 3}
    said = ", ".join(f"{100 * one:.2g} % at λ = {FAR[d]:g}, δ = {d:.2g}" for d, one in chances.items())
    claims.add(BELOW_FAR, all(one <= d for d, one in chances.items()), f"P R ≥ ½ with a chance of at least {said}")
    less = [(UNLIKELY, np.array(values(l2, 1.0, UNLIKELY))) for l2 in PENALTIES]
    claims.add(LESS, *_often(less))
    less = [(delta, np.array(values(l2, 1.0, delta, what="√λ"))) for l2 in PENALTIES[1:] for delta in LIKELY]
    claims.add(ROOT, *_often(less))
    large, small = (float(np.median(values(l2, 1.0, 1000.0, what="Υ, λ n"))) for l2 in GROWN)
    said = f"λ n = 1,000: Υ √(λ n) is {small / large:.2f} times as large at λ = {GROWN[1]:g} as at {GROWN[0]:g}"
    claims.add(GROWS, small <= LIMIT * large, said)


def variance_share(case: Case) -> float:
    """A_D over its second term, √(N(λ)/|D|)."""
    _, l2, directions, samples = case
    of = Spiky(l2, 1.0, int(directions))
    return spread(of, samples) / math.sqrt(of.dimension / samples)


def on_lemmas(tally: Tally[Case], claims: Claims) -> None:
    shares, most = [], 0.0
    for l2, mean, delta in product(PENALTIES, MEANS, ALL):
        found = np.array(tally.measured(("R", l2, 1.0, float(mean)), "R").values)
        ratio = found / first_bound(round(mean / l2), l2, math.log(2 / delta))
        shares.append(float((ratio > 1).mean()) <= allowed(delta, len(found)))
        most = max(most, float(np.median(ratio)))
    claims.add(FIRST, all(shares), f"{sum(shares)} of {len(shares)} settings; up to {most:.2g} of it in the median")
    falls = [
        np.median(tally.measured(("R", l2, 1.0, float(mean)), name).values)
        for name in ("P", "R")
        for l2 in PENALTIES
        for mean in MEANS
    ]
    steps = np.array(falls).reshape(2, len(PENALTIES), len(MEANS))
    said = "; ".join(f"{name} from {one.max():.3g} to {one.min():.2g}" for name, one in zip("PR", steps, strict=True))
    claims.add(FALLS, bool((np.diff(steps, axis=2) < 0).all()), said)
    chances = {delta: misses(l2, delta, VAST) for delta, l2 in FAR.items()}
    said = ", ".join(f"{100 * low:.3g} % at λ = {FAR[d]:g}, δ = {d:.2g}" for d, (low, _) in chances.items())
    claims.add(FIRST_FAR, all(low <= d for d, (low, _) in chances.items()), f"wrong with a chance of at least {said}")
    mended = {d: max(misses_corrected(l2, d, mean) for mean in (*MEANS, VAST)) for d, l2 in FAR.items()}
    said = ", ".join(f"{one:.2g} at δ = {d:.2g}" for d, one in mended.items())
    claims.add(FIRST_MENDED, all(one <= d for d, one in mended.items()), f"wrong with a chance of at most {said}")
    rows = [case for case in cases() if case[0] == "A"]
    for name, constant, claim, order in (("third", 2, THIRD, THIRD_ORDER), ("fourth", 4, FOURTH, FOURTH_ORDER)):
        every = np.array([tally.measured(case, name).values for case in rows])
        holds = all(
            float((one > constant * math.log(2 / delta)).mean()) <= allowed(delta, len(one))
            for one in every
            for delta in ALL
        )
        top = every.max() / (constant * math.log(2 / max(ALL)))
        claims.add(claim, holds, f"{len(rows)} settings; up to {top:.2g} of the bound at δ = {max(ALL):g}")
        medians = np.median(every, axis=1) * [variance_share(case) for case in rows]
        said = f"{medians.min():.2g} to {medians.max():.2g} of it in the median, {len(rows)} settings"
        claims.add(order, ORDER[0] <= medians.min() and medians.max() <= ORDER[1], said)


def on_bernstein(claims: Claims) -> None:
    worst = bernstein.worst()
    claims.add(BERNSTEIN, worst <= 1, f"wrong with a chance of at most {worst:.2g} δ")
    found = bernstein.exponents()
    said = f"log of the chance is {found[0]:.3g} to {found[-1]:.3g} log(δ/2), δ of 1e-6 to 1e-200"
    claims.add(EXPONENT, all(1 <= one <= bernstein.EXPONENT for one in found), said)
    worst = bernstein.worst(variance=1.0)
    claims.add(VARIANCE, worst > 1, f"with 1 in its place wrong with a chance of up to {worst:.2g} δ")
    worst = bernstein.worst(most=0.0)
    claims.add(MOST, worst > 1, f"without it wrong with a chance of up to {worst:.2g} δ")


@experiment(
    "fednewton-spiky",
    paper="FedNewton",
    place="Lemmas 1, 3 and 4, Proposition 3, proof of Theorem 3",
    title="Bounds of FedNewton's proofs on orthogonal directions, for every parameter",
    takes="30 s",
    seeds=10,
)
def spiky(seeds: Seeds, quick: bool) -> Result:
    """With 1/λ directions of probability λ the dependence on λ, δ, κ and |D| can be seen."""
    tally = Tally[Case]()
    rows = cases()
    for seed, case in seeds.over(rows):
        found = measured(case, np.random.default_rng((seed, 97, rows.index(case))))
        for values in zip(*found.values(), strict=True):
            tally.add(case, dict(zip(found, values, strict=True)))
    claims = Claims(quick)
    on_upsilon(tally, claims)
    on_lemmas(tally, claims)
    on_bernstein(claims)

    def line(case: Case) -> list[Measured]:
        return [
            tally.measured(case, name) for name in ("Υ", "R", "third", "fourth") if tally.measured(case, name).values
        ]

    return Result(
        columns=(
            Column("part"),
            Column("λ; κ or directions; δ, λ n or n"),
            Column("Υ, R or Lemma 3"),
            Column("Lemma 4"),
        ),
        rows=[(case[0], ", ".join(f"{one:.3g}" for one in case[1:]), *(*line(case), None)[:2]) for case in rows],
        claims=claims.found,
        notes=(
            "Features are κ e_i on κ²/λ orthogonal directions of equal probability (part “A”: 2 to 10,000 of them), "
            f"{CLIENTS} clients alike, {DRAWS} draws a seed. Part “A” has the left sides of Lemmas 3 (f* = 0, y = ±1) "
            "and 4 over A_D.",
            "Closed form: counts are binomial, here Poisson, and negatively associated, so that the chance that none "
            "is too large is at most that of independent ones.",
        ),
    )
