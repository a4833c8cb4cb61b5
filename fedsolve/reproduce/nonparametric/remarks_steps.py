"""Su, Xu and Yang (2023), sections 5 and 6.1: what many local steps cost and save. Is the factor κ real?"""

from __future__ import annotations

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, ProximalStep
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.step_costs import DIMENSION, Federation, drawn
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA
from fedsolve.typing import Array

PLACE = "After Theorem 8"
BY_KAPPA = Quantity(
    PLACE,
    "as s gets larger the prediction error increases by a factor of κ: E‖f_∞ − f̄‖²_N over that of s = 1 is within a "
    "factor of 2 of κ, s = 10, 100 and 1,000",
    "increase over κ",
    0.5,
    2.0,
)
BY_KAPPA_AT_T = Quantity(
    PLACE, "… and so it is at T of (23), E‖f_T − f̄‖²_N over that of s = 1", "increase over κ", 0.5, 2.0
)
KAPPA_RISES = Quantity(
    PLACE,
    "κ is an increasing function of s: s = 1, 2, 3, 5, 10, 100 and 1,000, γ = 0.1, 0.5 and 0.9",
    "κ over that of the next smaller s",
    least=1.0 + 1e-6,
)
AT_MOST_KAPPA = bound(PLACE, "… it increases by at most a factor of κ, at the limit and at T", "increase over κ")
RISES = Quantity(
    PLACE,
    "… it rises with s: E‖f_∞ − f̄‖²_N, s = 1, 10, 100 and 1,000",
    "next over last",
    least=1.0 + 1e-6,
)
BOUNDED = Quantity(
    PLACE,
    "… it stays bounded as s grows without end: that of s = 10⁸ is at most 1.1 times that of s = 10⁶",
    "last over next to last",
    most=1.1,
)
IN_PROPORTION = Quantity(
    PLACE,
    "up to s = 3 the convergence rate increases in proportion to s: s times the rounds until the bias is 1 % is at "
    "most 1.25 times that of s = 1",
    "s times the rounds over those of s = 1",
    most=1.25,
)
THRESHOLD = Quantity(
    PLACE,
    "… beyond a threshold it does not: with s = 1,000 it is at least twice that of s = 1",
    "s times the rounds over those of s = 1",
    least=2.0,
)
PROXIMAL_FASTER = Quantity(
    "After Lemma 5",
    "for FedProx, too, larger η: fewer rounds, γ = 0.1, 0.3, 0.9 and 3",
    "next over last",
    most=1.0 - 1e-6,
)
PROXIMAL_COST = Quantity(
    "After Lemma 5",
    "… at a larger statistical error of FedProx, E‖θ_∞ − θ̄‖², γ = 0.1, 0.3, 0.9 and 3",
    "next over last",
    least=1.0 + 1e-6,
)
QUANTITIES = (
    *(BY_KAPPA, BY_KAPPA_AT_T, AT_MOST_KAPPA, RISES, BOUNDED, IN_PROPORTION, THRESHOLD, KAPPA_RISES),
    *(PROXIMAL_FASTER, PROXIMAL_COST),
)  # fmt: skip
SHARE = 0.9  # of γ
MANY = (1, 10, 100, 1000)
SIZES = ((30,) * 8, (30, 5, 20, 60, 3, 12))  # clients alike, and clients of which some have fewer rows than dimensions


def measured(seed: int, notes: Notes) -> None:
    """γ = 0.9, so that κ is about 0.9 s; a truth of norm 1."""
    rng = np.random.default_rng([seed, 33])
    for share in (0.1, 0.5, 0.9):
        table = np.array([LocalSteps(1.0, s).kappa(share) for s in (1, 2, 3, 5, 10, 100, 1000)])
        notes.add(KAPPA_RISES, table[1:] / table[:-1])
    for sizes in SIZES:
        made, truth = drawn(rng, sizes), rng.standard_normal(DIMENSION)
        _many(made, truth / np.linalg.norm(truth), notes)
        eta = SHARE / made.steepest
        first = made.rounds(LocalSteps(eta))
        notes.add(IN_PROPORTION, *(s * made.rounds(LocalSteps(eta, s)) / first for s in (2, 3)))
        notes.add(THRESHOLD, 1000 * made.rounds(LocalSteps(eta, 1000)) / first)
        proximal = [ProximalStep(share / made.steepest) for share in (0.1, 0.3, 0.9, 3.0)]
        needed = np.array([made.rounds(one) for one in proximal])
        costs = np.array([made.coefficient_error(one) for one in proximal])
        notes.add(PROXIMAL_FASTER, needed[1:] / needed[:-1])
        notes.add(PROXIMAL_COST, costs[1:] / costs[:-1])


def _many(made: Federation, truth: Array, notes: Notes) -> None:
    eta, pooled = SHARE / made.steepest, np.vstack(made.X)
    spectrum = np.linalg.eigvalsh(pooled.T @ pooled / made.samples)
    ends = {s: made.prediction_error(LocalSteps(eta, s), None, truth) for s in (*MANY, 10**6, 10**8)}
    stopped = {}
    for s in MANY:
        T = stopping_round(spectrum, SIGMA, made.samples, eta, s) or 0
        if T:  # with many steps one round may be too many
            stopped[s] = made.prediction_error(LocalSteps(eta, s), T, truth)
    for s in MANY[1:]:
        kappa = LocalSteps(eta, s).kappa(SHARE)
        notes.add(BY_KAPPA, ends[s] / ends[1] / kappa)
        notes.add(AT_MOST_KAPPA, ends[s] / ends[1] / kappa)
        if s in stopped:
            notes.add(BY_KAPPA_AT_T, stopped[s] / stopped[1] / kappa)
            notes.add(AT_MOST_KAPPA, stopped[s] / stopped[1] / kappa)
    path = np.array([ends[s] for s in MANY])
    notes.add(RISES, path[1:] / path[:-1])
    notes.add(BOUNDED, ends[10**8] / ends[10**6])
