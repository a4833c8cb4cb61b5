"""FedNewton, Theorem 3, second case: whether rounds converge linearly with the local size that it asks for."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.sharp import Sharp, solver
from fedsolve.reproduce.fednewton.slopes import Case, clients_of
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

HALF, FULL = Sharp(0.5, 0.5), Sharp(0.5, 1.0, size=1000, scale=1.0, amplitude=1.0)  # those of fednewton-rates
CONSTANTS = {HALF: 2, FULL: 8}
SIZES = (512, 1024, 2048, 4096)
ACCURACIES = (1e-2, 1e-4, 1e-6, 1e-8)
EVEN, MOST = 1.25, 400  # times, between the largest step and the least, and a round: counts are whole; rounds


def federated(of: Sharp, parts: list[tuple[Array, Array]], l2: float, rounds: int) -> list[float]:
    """‖f̄^t − f_D,λ‖ in L² for t from 0 on."""
    root = np.sqrt(of.values())
    pairs = [(E * root, y) for E, y in parts]
    total = sum(len(y) for _, y in pairs)
    solves = [(len(y) / total, solver(X, l2), X.T @ y / len(y)) for X, y in pairs]
    H = sum(X.T @ X for X, _ in pairs) / total + l2 * np.eye(of.size)
    moment = sum(share * b for share, _, b in solves)
    pooled = np.linalg.solve(H, moment)
    e = sum(share * solve(b) for share, solve, b in solves) - pooled
    found = [float(np.linalg.norm(root * e))]
    for _ in range(rounds):
        g = H @ e
        e = e - sum(share * solve(g) for share, solve, _ in solves)
        found.append(float(np.linalg.norm(root * e)))
        if found[-1] <= ACCURACIES[-1] * found[0] or found[-1] > 1e3 * found[0]:
            break
    return found


def rounds_to(errors: list[float]) -> list[float]:
    """Rounds to each of `ACCURACIES` of the first error; infinite where it is not reached."""
    return [
        next((float(t) for t, one in enumerate(errors) if one <= accuracy * errors[0]), math.inf)
        for accuracy in ACCURACIES
    ]


def even(medians: list[float]) -> bool:
    """Whether steps between accuracies a hundred times apart are alike."""
    if not math.isfinite(medians[-1]):
        return False
    steps = np.diff(medians)
    return bool(steps.max() <= EVEN * steps.min() + 1)


def _claim(tally: Tally[Case], of: Sharp, constant: float, cases: list[Case], claims: Claims) -> None:
    held, said = True, []
    for case in cases:
        if case[0] == of and case[3] == constant:
            medians = [tally.measured(case, f"{one:g}").median for one in ACCURACIES]
            held = held and even(medians)
            said.append(f"|D| = {case[1]}: {', '.join(f'{one:g}' for one in medians)}")
    size = f"{constant:g} " if constant > 1 else ""
    claim = f"r = ½, γ = {of.gamma:g}, n = {size}|D|^{1 / (2 * of.r + of.gamma):.3g}: rounds grow like log(1/ε)"
    claims.add(claim, held, f"rounds to {', '.join(f'{one:g}' for one in ACCURACIES)}, {'; '.join(said)}")


@experiment(
    "fednewton-linear",
    paper="FedNewton",
    place="Theorem 3, second case",
    title="Whether rounds converge linearly with the local size of Theorem 3",
    takes="1 min",
)
def linear(seeds: Seeds, quick: bool) -> Result:
    """Rounds to accuracies a hundred times apart, at every |D|."""
    cases: list[Case] = [
        (of, total, 1 / (2 * of.r + of.gamma), constant)
        for of, more in CONSTANTS.items()
        for total in (SIZES[:1] if quick else SIZES)
        for constant in (1, more)
    ]
    tally = Tally[Case]()
    for seed, case in seeds.over(cases):
        of, total, share, constant = case
        rng = np.random.default_rng((seed, total, round(constant), 71))
        parts = of.parts(total, clients_of(total, share, constant=constant), rng)
        errors = federated(of, parts, of.l2(total), MOST)
        tally.add(case, dict(zip((f"{one:g}" for one in ACCURACIES), rounds_to(errors), strict=True)))
    claims = Claims(quick)
    for of, more in CONSTANTS.items():
        for constant in (1, more):
            _claim(tally, of, constant, cases, claims)
    return Result(
        columns=(Column("γ, |D|, constant"), *(Column(f"{one:g}", "{:.0f}".format) for one in ACCURACIES)),
        rows=[
            (f"{of.gamma:g}, {total}, {constant:g}", *(tally.measured(case, f"{one:g}") for one in ACCURACIES))
            for case in cases
            for of, total, _, constant in (case,)
        ],
        claims=claims.found,
        notes=(
            "The problems of fednewton-rates, λ = |D|^(−1/(2r+γ)), |D_j| = constant · |D|^(1/(2r+γ)): rounds until the "
            f"federated error is a share of DKRR's, at most {MOST}. Linear: medians step alike between shares a "
            f"hundred times apart, the largest step at most {EVEN} times the least and a round.",
        ),
    )
