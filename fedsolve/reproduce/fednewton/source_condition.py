"""FedNewton, Assumption 2 with any r > 0: what (30), (36) and (37) become where C is diagonal.

With eigenvalues σ_i of C and f* = L^r g, ‖g‖ = R, all norms are sums: w_λ has the coordinates
σ_i^(r + ½)/(σ_i + λ) g_i, and f_λ − f* has −λ σ_i^r/(σ_i + λ) g_i. The worst g has one coordinate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
BELOW, ALLOWED, ABOVE = (0.1, 0.25, 0.4), (0.5, 0.75, 1.0), (1.25, 1.5, 2.0)  # r
KAPPAS = (1.0, 2.0, 5.0)  # κ ≥ 1, as Lemmas 3 and 4 ask for
SIZE = 400

NORM_LOW, NORM = "(30): ‖w_λ‖ ≤ κ^2r R for r < ½", "(30): ‖w_λ‖ ≤ κ^2r R for ½ ≤ r ≤ 1"
BIAS, BIAS_HIGH = "(37): ‖f_λ − f*‖ ≤ R λ^r for r ≤ 1", "(37): ‖f_λ − f*‖ ≤ R λ^r for r > 1"
LINE, LINE_OWN = "(37): its last but one line is at most R λ^r, as printed", "(37): the same with the factor λ^(1−r)"
CONSTANT, CONSTANT_HIGH = "2κ(κ+1) κ^2r R ≤ 4κ^4 R for r ≤ 1", "2κ(κ+1) κ^2r R ≤ 4κ^4 R for r > 1"
INSIDE, IDENTITY = "r = ½: ‖L^-½ f*‖ is the norm of w*", "A(A + λI)^-1 = I − λ(A + λI)^-1"

CHECKS = (
    Check("(30), (36)", NORM),
    Check("(30), (36)", NORM_LOW),
    Check("(37)", BIAS),
    Check("(37)", BIAS_HIGH),
    Check("(37)", LINE),
    Check("(37)", LINE_OWN),
    Check("(31), (36)", CONSTANT),
    Check("(31), (36)", CONSTANT_HIGH),
    Check("after Theorem 3", INSIDE, "off", 1e-9),
    Check("Proposition 6", IDENTITY, "off", 1e-9),
)


def fit_norm(values: Array, r: float, l2: float) -> float:
    """The largest ‖w_λ‖/R."""
    return float(np.max(values ** (r + 0.5) / (values + l2)))


def bias(values: Array, r: float, l2: float) -> float:
    """The largest ‖f_λ − f*‖₂/R."""
    return float(np.max(l2 * values**r / (values + l2)))


def line(values: Array, r: float, l2: float) -> float:
    """‖(L + λI)^-(1−r)‖ ‖(L + λI)^-r L^r‖, before the last ≤ of (37)."""
    return float(np.max((values + l2) ** (r - 1)) * np.max((values / (values + l2)) ** r))


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    values = np.sort(np.exp(rng.uniform(np.log(1e-9), 0.0, SIZE)))  # eigenvalues in (0, κ²], κ = 1

    def worst(ratio: Callable[[float, float], float], rs: tuple[float, ...]) -> float:
        return max(ratio(r, l2) for r in rs for l2 in PENALTIES)

    def of_norm(r: float, l2: float) -> float:
        return fit_norm(values, r, l2)

    def of_bias(r: float, l2: float) -> float:
        return bias(values, r, l2) / float(l2**r)

    def of_line(r: float, l2: float) -> float:
        return line(values, r, l2)

    def with_factor(r: float, l2: float) -> float:
        return float(l2 ** (1 - r)) * line(values, r, l2)

    def constant(rs: tuple[float, ...]) -> float:
        return max(float(2 * k * (k + 1) * k ** (2 * r) / (4 * k**4)) for k in KAPPAS for r in rs)

    S, w = rng.standard_normal((20, 20)) / np.sqrt(20), rng.standard_normal(20)
    spectrum, vectors = np.linalg.eigh(S @ S.T)  # L
    pulled = (vectors.T @ S @ w) / np.sqrt(spectrum)  # L^-½ f*, f* = S w
    A = np.cov(rng.standard_normal((20, 50)))
    ridge = np.linalg.inv(A + 1e-3 * np.eye(20))
    return {
        NORM: worst(of_norm, ALLOWED),
        NORM_LOW: worst(of_norm, BELOW),
        BIAS: worst(of_bias, BELOW + ALLOWED),
        BIAS_HIGH: worst(of_bias, ABOVE),
        LINE: worst(of_line, BELOW + ALLOWED),
        LINE_OWN: worst(with_factor, BELOW + ALLOWED),
        CONSTANT: constant(BELOW + ALLOWED),
        CONSTANT_HIGH: constant(ABOVE),
        INSIDE: abs(float(np.linalg.norm(pulled) / np.linalg.norm(w)) - 1),
        IDENTITY: float(np.linalg.norm(A @ ridge - (np.eye(20) - 1e-3 * ridge))),
    }


@experiment(
    "fednewton-source",
    paper="FedNewton",
    place="Assumption 2, (30), (36), (37)",
    title="Which r the proofs of FedNewton allow",
    takes="1 s",
)
def source(seeds: Seeds, quick: bool) -> Result:
    """r from ½ to 1 is allowed; below, w_λ grows without bound as λ falls; above, the bias stops falling like λ^r."""
    notes = (
        f"{SIZE} eigenvalues between 1e-9 and κ² = 1, λ from {PENALTIES[-1]:g} to {PENALTIES[0]:g}; r of {BELOW}, "
        f"{ALLOWED} and {ABOVE}. The constants are compared for κ of {KAPPAS}.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
