"""SHED, Theorem 9 beside Lemma 3.1 of Erdogdu and Montanari (2015), which it generalises; and what steps below one do
to its bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2
from fedsolve.reproduce.shed.small_logistic import Agents, Step, run
from fedsolve.typing import Array

WIDTHS, PENALTIES, SAMPLES, AGENTS = (4, 8, 12), (1e-3, 0.01, 1.0), 30, 4
SHORTER = (0.9, 0.5, 0.25)  # η
FIXED = (0.5, 0.9, 0.99)  # η that a method would keep to
EXAMPLE = (10.0, 5.0, 3.0, 1.0)  # eigenvalues
ITERATIONS, PERIOD, FAR, SEEN = 60, 4, 5.0, 1e-6

FULL = "Lemma 3.1: with M = 1, θ^k = θ^t and η = 1 c_1 of (32) is ξ_1"
SECOND = "Lemma 3.1: with M = 1 c_2 of (32) is ξ_2, for every η"
SHORT = "Lemma 3.1: with M = 1, θ^k = θ^t and η = 0.9, 0.5 and 0.25 c_1 of (32) is ξ_1"
LARGER = "… c_1 is at least ξ_1"
OWN = "1 − ηλ_n/ρ instead of c_1 is ξ_1, for every η"
OWN_BOUND = "(31) with 1 − ηλ̄_n/ρ̄ + ηL/ρ̄ ‖θ^t − θ^k‖ instead of c_1"
SOME = "some steps of these runs have η < 1"
REQUIRED = "section 4.1: one agent, a* at θ* is above ā_T of (36) with η = ½, 0.9 and 0.99"
CHECKS = (
    Check("after Theorem 9", FULL, "off", 1e-9),
    Check("after Theorem 9", SECOND, "off", 1e-9),
    Check("after Theorem 9", SHORT, "off", 1e-9),
    Check("after Theorem 9", LARGER),
    Check("after Theorem 9", OWN, "off", 1e-9),
    Check("after Theorem 9", OWN_BOUND),
    Check("after Theorem 9", SOME, "failures", 0.0),
    Check("section 4.1", REQUIRED, most=1 - 1e-6),
)


def constants(H: Array, q: int, eta: float) -> dict[str, float]:
    """With one agent and a current Hessian: ξ_1 and ξ_2/L of Lemma 3.1, with the norms of the matrices themselves;
    c_1 and c_2/L of (32); and 1 − ηλ_n/ρ."""
    values, V = np.linalg.eigh(H)
    values, V = values[::-1], V[:, ::-1]
    rho, least = float(values[q]), float(values[-1])
    Q = np.linalg.inv((V * np.where(np.arange(len(values)) < q, values, rho)) @ V.T)
    return {
        "xi_1": norm_2(np.eye(len(values)) - eta * Q @ H),
        "xi_2": eta * norm_2(Q) / 2,
        "c_1": 1 - least / rho + (1 - eta) * norm_2(H) / rho,
        "c_2": eta / (2 * rho),
        "own": 1 - eta * least / rho,
    }


def compared(H: Array, worst: Worst) -> None:
    """Every q and η."""
    for q in range(len(H)):
        for eta in (1.0, *SHORTER):
            found = constants(H, q, eta)
            worst.add(FULL if eta == 1 else SHORT, abs(found["c_1"] - found["xi_1"]))
            worst.add(SECOND, abs(found["c_2"] / found["xi_2"] - 1))
            worst.add(OWN, abs(found["own"] - found["xi_1"]))
            if eta < 1:
                worst.add(LARGER, found["xi_1"] / found["c_1"])


def bounded(of: Agents, steps: Sequence[Step], worst: Worst) -> int:
    """(31) with the other c_1 along a run, distributed and outdated; how many steps have η < 1."""
    seen = [one for one in steps if norm(one.w - of.best) > SEEN]
    for one in seen:
        e, since = norm(one.w - of.best), norm(one.w - one.renewed)
        factor = 1 - one.eta * one.least / one.rho + one.eta * of.L / one.rho * since
        worst.add(OWN_BOUND, norm(one.after - of.best) / (factor * e + one.eta * of.L / (2 * one.rho) * e**2))
    return sum(one.eta < 1 for one in seen)


def shorter(H: Array, period: int, eta: float) -> tuple[float, float]:
    """a* of one agent that keeps to η, from the steps of a period at θ*, and ā_T of (36)."""
    n = len(H)
    values, V = np.linalg.eigh(H)
    values, V = values[::-1], V[:, ::-1]
    product, bound = np.eye(n), 1.0
    for q in range(1, period + 1):
        known = np.where(np.arange(n) < q, values, values[q])
        product = product - eta * (V / known) @ V.T @ H @ product
        bound *= 1 - values[-1] / values[q]
    own = float(np.abs(np.linalg.eigvals(product)).max())
    return own ** (1 / period), float(bound) ** (1 / period)


def measured(seed: int) -> dict[str, float]:
    worst, rng, short = Worst(), np.random.default_rng((seed, 101)), 0
    compared(np.diag(EXAMPLE), worst)
    for n in WIDTHS:
        for mu in PENALTIES:
            alone = Agents(seed, n, 1, SAMPLES, mu)
            compared(alone.hessian(rng.standard_normal(n)), worst)
            at_best = alone.hessian(alone.best)
            for period in range(1, n - 1):
                for eta in FIXED:
                    own, bound = shorter(at_best, period, eta)
                    worst.add(REQUIRED, bound / own)
            of = Agents(seed, n, AGENTS, SAMPLES, mu)
            each, start = np.ones(AGENTS, dtype=int), of.best + FAR * rng.standard_normal(n)
            short += bounded(of, run(of, lambda t: t % PERIOD == 1, ITERATIONS, each, start), worst)
    worst.add(SOME, float(short == 0))
    return worst.found


@experiment(
    "shed-lemma31",
    paper="SHED",
    place="Theorem 9 and section 4.1",
    title="SHED's Theorem 9 beside the lemma that it generalises, and steps below one",
    takes="5 s",
)
def lemma(seeds: Seeds, quick: bool) -> Result:
    """Two formulas for the same factor, with one agent and a current Hessian."""
    notes = (
        "Lemma 3.1 as the proof of Theorem 9 has it: ξ_1 = ‖I − ηQH‖ and ξ_2 = ηL‖Q‖/2, Q = Ĥ⁻¹. Eigenvalues "
        f"{', '.join(f'{one:g}' for one in EXAMPLE)}, and the Hessian of one agent of {SAMPLES} samples at a random "
        f"point, n = {', '.join(map(str, WIDTHS))}, μ = {', '.join(f'{one:g}' for one in PENALTIES)}, every q from 0. "
        f"(31) along runs of {AGENTS} such agents from θ* + {FAR:g} z, T = {PERIOD}, while the error is above "
        f"{SEEN:g}. a* is that of the steps of a period at θ*, one more eigenpair in each, for every T up to n − 2.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
