"""FedNewton, after Remark 6: how many random features are enough for the rate of KRR (Rudi and Rosasco, 2017).

The kernel is K(x, x') = Σ σ_i 2cos(2πi(x − x')) on the circle, with σ_i = s i^(−1/γ) as in fednewton-rates; its
features are ψ(x, ω) = Σ √σ_i 2cos(2πi(x − ω)) with ω uniform, E ψ(x, ω)ψ(x', ω) = K(x, x').
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.sharp import NOISE, Sharp
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

TOTALS = (512, 1024, 2048, 4096, 8192)
RS, GAMMA, WAVES = (0.5, 0.75, 1.0), 0.5, 150
TOLERANCE, WORSE = 0.03, 2.0  # as in fednewton-rates
FEW, MORE = 0.5, 4  # times the exponent: too few features; times as many: the theorem leaves its constant out

Case = tuple[float, int]  # r, |D|


def waves(x: Array) -> Array:
    """√2 cos(2πix) and √2 sin(2πix), side by side."""
    angles = 2 * np.pi * np.outer(x, np.arange(1, WAVES + 1))
    return np.asarray(math.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(x), -1))


def exponent(r: float) -> float:
    """(1 + γ(2r−1))/(2r + γ)."""
    return (1 + GAMMA * (2 * r - 1)) / (2 * r + GAMMA)


def ridge(B: Array, X: Array, y: Array, l2: float) -> Array:
    """The coefficients of the fit with the features X B, B w."""
    Phi = X @ B
    w = np.linalg.solve(Phi.T @ Phi / len(y) + l2 * np.eye(B.shape[1]), Phi.T @ y / len(y))
    return np.asarray(B @ w)


def errors(r: float, total: int, rng: np.random.Generator) -> dict[str, float]:
    """‖f − f*‖ of KRR, and with |D|^e features, e the exponent or half of it."""
    of = Sharp(r, GAMMA, size=WAVES)
    values, truth = np.repeat(of.values(), 2), np.repeat(of.target(), 2) / math.sqrt(2)
    X = waves(rng.uniform(size=total))
    y = X @ truth + rng.uniform(-NOISE, NOISE, total)
    found = {"KRR": np.diag(np.sqrt(values))}
    for name, e, times in (("enough", exponent(r), 1), ("more", exponent(r), MORE), ("few", FEW * exponent(r), 1)):
        M = math.ceil(times * total**e)
        found[name] = np.sqrt(values)[:, None] * waves(rng.uniform(size=M)).T / math.sqrt(M)
    return {name: float(np.linalg.norm(ridge(B, X, y, of.l2(total)) - truth)) for name, B in found.items()}


@experiment(
    "fednewton-random-features",
    paper="FedNewton",
    place="after Remark 6",
    title="How many random features are enough for the rate of KRR",
    takes="30 s",
    seeds=10,
)
def enough_features(seeds: Seeds, quick: bool) -> Result:
    """|D|^((1+γ(2r−1))/(2r+γ)) of them."""
    totals = TOTALS[:2] if quick else TOTALS
    cases: list[Case] = [(r, total) for r in RS for total in totals]
    tally = Tally[Case]()
    for seed, (r, total) in seeds.over(cases):
        tally.add((r, total), errors(r, total, np.random.default_rng((seed, total, round(100 * r)))))
    claims = Claims(quick)
    for claim, name in (
        ("|D|^((1+γ(2r−1))/(2r+γ)) random features learn at the rate of KRR", "enough"),
        (f"{MORE} times as many learn at the rate of KRR", "more"),
        ("half of that exponent is too few", "few"),
    ):
        holds, said = True, []
        for r in RS:
            medians, own = ([tally.measured((r, t), one).median for t in totals] for one in (name, "KRR"))
            found, rate = slope(list(totals), medians), Sharp(r, GAMMA).exponent
            worst = max(a / b for a, b in zip(medians, own, strict=True))
            good = found <= rate + TOLERANCE and worst <= WORSE
            holds = holds and good == (name != "few")
            said.append(f"r = {r:g}: |D|^{found:.3f}, the rate is {rate:.3f}, up to {worst:.3g} times KRR's error")
        claims.add(claim, holds, "; ".join(said))
    names = ("KRR", "enough", "more", "few")
    return Result(
        columns=(Column("r, |D|, M"), *(Column(name) for name in names)),
        rows=[
            (f"{r:g}, {t}, {math.ceil(t ** exponent(r))}", *(tally.measured((r, t), name) for name in names))
            for r, t in cases
        ],
        claims=claims.found,
        notes=(
            f"γ = {GAMMA:g}, {WAVES} waves on the circle, f* and noise as in fednewton-rates, λ = |D|^(−1/(2r+γ)). "
            f"“More” are {MORE} times as many, “few” |D| to half of the exponent. At the rate: an exponent of at most "
            f"−r/(2r+γ) + {TOLERANCE:g}, and an error of at most {WORSE:g} times KRR's. Errors are exact norms; "
            "exponents are of the medians.",
        ),
    )
