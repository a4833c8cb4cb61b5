"""FedNewton: what is assumed or taken from others, where it can be computed.

The minimax rate as a lower bound for every method; the assumptions on the paper's own synthetic data; ‖L − L_j‖ where
both operators act on one space; whether FedAvg and FedProx come to an accuracy ε at all, as O(1/ε) rounds say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.data.synthetic import heterogeneous
from fedsolve.features import RandomFourier
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.printed import PARTS
from fedsolve.reproduce.fednewton.synthetic import FEATURES, L2, SETTING, STD, problem
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

TOTALS = tuple(2**k for k in range(10, 41, 3))  # |D|, by formula
DIRECTIONS = np.unique(np.round(np.geomspace(1, 1e9, 4000)))  # k: where the hypotheses differ
NOISE, NEAR = 0.2, 0.01  # variance; how far an exponent may be from the theorem's
SAMPLES, SPAN = 20_000, 1e-6  # inputs; what a function in the span leaves, of its norm
FEW, MANY, LEVEL = 10_000, 1_000_000, 1.01  # targets drawn, and by how much the largest may grow if it is bounded
POINTS, EQUAL = 60, 1e-8
CLIENTS, EACH = 20, 500  # as in fednewton-table1
ACCURACY, ALL, LAST = 1e-8, 500, 40  # ε; rounds that are all looked at, then those at powers of two, to 2^40


# ── the minimax rate ──


def below(r: float, gamma: float, total: int) -> float:
    """No method has a smaller worst error than this over ‖L^-r f*‖ ≤ 1, eigenvalues i^(−1/γ), Gaussian noise.

    Hypotheses ± δ on the directions k to 2k − 1. Of each sign a method that knew all others is wrong with probability
    at least E Φ(−δ √(Σ φ_i(x)²)/s) ≥ Φ(−δ √|D|/s), by convexity, and then errs by δ² or more. δ is as large as
    ‖L^-r f*‖ ≤ 1 allows, or what noise hides.
    """
    k = DIRECTIONS
    allowed = (2 * k) ** (-2 * r / gamma) / k
    squares = np.minimum(allowed, NOISE / total)
    wrong = np.array([0.5 * math.erfc(math.sqrt(one * total / NOISE / 2)) for one in squares])
    return math.sqrt(float(np.max(k * squares * wrong)))


def on_minimax(claims: Claims) -> None:
    off = {}
    for r, gamma in PARTS:
        if gamma > 0 and 2 * r + gamma >= 1:
            found = slope(list(map(float, TOTALS)), [below(r, gamma, total) for total in TOTALS])
            off[r, gamma] = abs(found + r / (2 * r + gamma))
    said = f"|D| of 2^10 to 2^40: within {max(off.values()):.2g} of it at {len(off)} pairs of r and γ"
    claims.add("no method learns faster than |D|^(−r/(2r+γ))", max(off.values()) <= NEAR, said)


# ── the synthetic data ──


def assumptions(seed: int) -> dict[str, float]:
    """What the best combination of the 200 cosines leaves of f*; how much larger the largest of more targets is; the
    largest norm of features."""
    rng = np.random.default_rng((seed, 59))
    X = rng.standard_normal((SAMPLES, 10))
    phi, truth = RandomFourier.fednewton(STD, FEATURES, seed).block(X), -np.abs(X.sum(axis=1))
    fit = np.linalg.lstsq(phi, truth, rcond=None)[0]
    ((_, y),) = heterogeneous(1, MANY, test_samples=1, seed=seed).parts
    return {
        "left of f*": float(np.linalg.norm(phi @ fit - truth) / np.linalg.norm(truth)),
        "largest |y|": float(np.abs(y).max() / np.abs(y[:FEW]).max()),
        "largest ‖φ‖": float(np.linalg.norm(phi, axis=1).max()),
    }


# ── L and L_j ──


def integral_operators(seed: int) -> float:
    """‖L − L_j‖ over ‖C − C_j‖ where ρ and ρ_j are on the same 60 points and both L act on L²(ρ)."""
    rng = np.random.default_rng((seed, 61))
    phi = rng.standard_normal((POINTS, 5))
    own = rng.dirichlet(np.ones(POINTS))
    whole = (own + rng.dirichlet(np.ones(POINTS))) / 2
    C, C_j = (phi.T @ (p[:, None] * phi) for p in (whole, own))
    root = np.sqrt(whole)
    L, L_j = (root[:, None] * (phi @ phi.T * p) / root for p in (whole, own))  # in an orthonormal basis of L²(ρ)
    return float(np.linalg.norm(L - L_j, 2) / np.linalg.norm(C - C_j, 2))


# ── FedAvg and FedProx ──


@dataclass(frozen=True, eq=False)
class Affine:
    """A round of a method as e ↦ T e + c of the distance e from the pooled solution."""

    T: Array
    c: Array

    def after(self, e: Array) -> Array:
        return np.asarray(self.T @ e + self.c)

    def twice(self) -> Affine:
        return Affine(self.T @ self.T, self.T @ self.c + self.c)


def rounds_as_maps(hessians: list[Array], moments: list[Array], w: Array) -> dict[str, Affine]:
    """FedAvg, two steps of 1/λ_max or of the paper's size; FedProx with the paper's pull. Clients of equal size."""
    unit = np.eye(len(w))
    off = [b - H @ w for H, b in zip(hessians, moments, strict=True)]  # minus the gradients at the pooled solution
    found = {}
    largest = 1 / float(np.linalg.eigvalsh(np.mean(hessians, axis=0))[-1])
    for name, eta in (("FedAvg, η = 1/λ_max", largest), ("FedAvg", SETTING.step_size)):
        steps = [unit - eta * H for H in hessians]
        c = np.mean([eta * (g + S @ g) for S, g in zip(steps, off, strict=True)], axis=0)
        found[name] = Affine(np.mean([S @ S for S in steps], axis=0), c)
    inverses = [np.linalg.inv(H + SETTING.pull * unit) for H in hessians]
    c = np.mean([A @ g for A, g in zip(inverses, off, strict=True)], axis=0)
    return found | {"FedProx": Affine(SETTING.pull * np.mean(inverses, axis=0), c)}


def least(seed: int) -> dict[str, float]:
    """The least federated error of each method over DKRR's, where it starts."""
    posed = problem(CLIENTS, EACH, 0.0, seed)
    hessians = [C + L2 * np.eye(FEATURES) for C in posed.covariances]
    moments = [one.X.T @ one.y / len(one.y) for one in posed.clients]
    pairs = zip(hessians, moments, strict=True)
    start = np.mean([np.linalg.solve(H, b) for H, b in pairs], axis=0) - posed.w

    def size(e: Array) -> float:
        return float(np.linalg.norm(posed.features @ e))

    found = {}
    for name, method in rounds_as_maps(hessians, moments, posed.w).items():
        e, seen, power = start, [size(start)], method
        for _ in range(ALL):
            e = method.after(e)
            seen.append(size(e))
        for _ in range(LAST):
            power = power.twice()
            seen.append(size(power.after(start)))
        found[name] = min(seen) / seen[0]
    return found


def _on_data(tally: Tally[str], claims: Claims) -> None:
    left, growth, norms = (tally.measured("data", name) for name in ("left of f*", "largest |y|", "largest ‖φ‖"))
    said = f"the best combination leaves {min(left.values):.2g} to {max(left.values):.2g} of ‖f*‖"
    claims.add("the synthetic f* is in the space of the 200 cosines", max(left.values) <= SPAN, said)
    said = f"the largest of {MANY:,} is {growth.median:.3g} times that of {FEW:,}, in the median"
    claims.add("|y| is bounded on the synthetic data", growth.median <= LEVEL, said)
    claims.add("‖φ(x)‖ ≤ 1 on the synthetic data", max(norms.values) <= 1, f"at most {max(norms.values):.3g}")
    ratios = tally.measured("operators", "ratio").values
    said = f"‖L − L_j‖ is {min(ratios):.3g} to {max(ratios):.3g} times ‖C − C_j‖"
    claims.add("‖C − C_j‖ = ‖L − L_j‖ in L²(ρ)", max(abs(one - 1) for one in ratios) <= EQUAL, said)
    for name in ("FedAvg, η = 1/λ_max", "FedAvg", "FedProx"):
        values = tally.measured("rounds", name).values
        said = f"it comes to {min(values):.2g} to {max(values):.2g} of DKRR's, in up to 2^{LAST} rounds"
        claims.add(f"{name}: the federated error comes to {ACCURACY:g} of DKRR's", max(values) <= ACCURACY, said)


@experiment(
    "fednewton-assumed",
    paper="FedNewton",
    place="abstract, sections 2 and 4.1, Table 1, Proposition 5",
    title="What is assumed or taken from others, where it can be computed",
    takes="1 min",
)
def assumed(seeds: Seeds, quick: bool) -> Result:
    """The rate is a lower bound for every method; the synthetic data meets neither assumption on f* nor on y."""
    tally = Tally[str]()
    for seed in seeds:
        tally.add("data", assumptions(seed))
        tally.add("operators", {"ratio": integral_operators(seed)})
        tally.add("rounds", least(seed))
    claims = Claims(quick)
    on_minimax(claims)
    _on_data(tally, claims)
    names = {"data": ("left of f*", "largest |y|", "largest ‖φ‖"), "operators": ("ratio",)}
    names["rounds"] = ("FedAvg, η = 1/λ_max", "FedAvg", "FedProx")
    return Result(
        columns=(Column("what"), Column("found", "{:.3g}".format)),
        rows=[(name, tally.measured(case, name)) for case, some in names.items() for name in some],
        claims=claims.found,
        notes=(
            f"f* = −|1ᵀx| and {FEATURES} cosines, std(Ω) = {STD}, least squares at {SAMPLES:,} inputs; “ratio” is "
            f"‖L − L_j‖ over ‖C − C_j‖ for distributions on {POINTS} points, five features. FedAvg (two steps, η of "
            f"Table 2 and 1/λ_max) and FedProx from DKRR on the synthetic data of Figure 3, {CLIENTS} clients of "
            f"{EACH}: rounds as affine maps, every round to {ALL} and then powers of two.",
        ),
    )
