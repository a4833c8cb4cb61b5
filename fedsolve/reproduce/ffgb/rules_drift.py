"""Section 1.1 of Shen et al. (2022): FedProx and Mime on unequal quadratics, next to FedAvg.

With Hessians H_i and minima H_i⁻¹b_i a round of FedAvg and of FedProx is w ← mean of w + P_i(b_i − H_i w).
K steps of η have P_i = η Σ_(k<K) (I − ηH_i)^k, with a pull η Σ_(k<K) (I − η(H_i + pull))^k, and FedProx with exact
local solutions has (H_i + pull)⁻¹. Rounds end where the mean of P_i(b_i − H_i w) is 0. Where H_i is small it moves
by ηK(b_i − H_i w) in K steps, and by (b_i − H_i w)/pull in FedProx: local progress is equal at a pull of 1/(ηK). What
depends on the curvature, and moves the end away from w*, is then η²K²H_i in FedProx and η²K(K − 1)/2 H_i in FedAvg, up
to higher powers of ηK.

Mime with momentum (Karimireddy et al., 2020a): every local step is along (1 − β)g + βm, the server's momentum m staying
fixed in a round. In MimeLite g is ∇f_i(v); in Mime it is ∇f_i(v) − ∇f_i(w) + c, where c is the mean of all ∇f_i(w).
After the round m ← (1 − β)c + βm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsolve.algorithms import FedAvg, FedDyn, FedProx, Scaffold
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.loop.run import run
from fedsolve.losses import Squared
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Within
from fedsolve.typing import Array

S11 = "Section 1.1"
SMALL = (5, 20)  # local steps of 0.01/K
SETTINGS = ((5, 0.1), (20, 0.1), (20, 0.02))  # local steps and their size
PULLS, LARGER, FEDDYN = (0.1, 0.5, 2.0), (0.1, 1.0, 2.0, 10.0, 100.0), (0.1, 1.0, 10.0)
ROUNDS, BETA = 500, 0.9
EQUAL = Check(
    S11, "FedProx, exact local solutions, a pull of 1/(ηK), equal local progress: its distance over FedAvg's", "times"
)
PULLED = Check(S11, "FedProx, the same K local steps of η with a pull of 0.1, 0.5 and 2: … over FedAvg's", "times")
FARTHER = Check(
    S11, "FedProx, exact, pulls of 0.1 to 100: its distance with a larger pull over that before it", "times"
)
RUNS = Check(S11, "the library's FedAvg and FedProx, 500 rounds, against the closed forms: of ‖w*‖", "off", 1e-6)
MIME = Check(S11, "Mime with momentum: its distance over FedAvg's", "times", 1e-3)
LITE = Check(S11, "MimeLite with momentum: its distance over FedAvg's", "times")
CORRECTED = Check(
    S11,
    "SCAFFOLD, 20 steps of 0.1 and of 0.02, and FedDyn, pulls of 0.1 to 10: their distance over FedAvg's",
    "times",
    1e-3,
)
LITE_SMALL = Check(S11, "… over that of FedAvg with local steps of (1 − β)η, the weight of its own gradient", "times")
TWICE = Within(
    S11,
    "FedProx, exact, a pull of 1/(ηK), ηK = 0.01, K = 5 and 20: its distance over FedAvg's is 2K/(K − 1) times",
    most=1.0,
    give=0.05,
)
CHECKS = (EQUAL, TWICE, PULLED, FARTHER, RUNS, MIME, LITE, LITE_SMALL, CORRECTED)


@dataclass(frozen=True, eq=False)
class Quadratics:
    """The least squares of `ffgb-sentences`: 4 clients, 90 rows, 30 weights, curvatures and solutions of their own.

    H, b  each client's Hessian and its gradient at 0, negative
    """

    clients: list[Client]
    H: Array
    b: Array

    def best(self) -> Array:
        return np.linalg.solve(self.H.mean(axis=0), self.b.mean(axis=0))

    def distance(self, w: Array) -> float:
        """‖w − w*‖/‖w*‖."""
        best = self.best()
        return float(np.linalg.norm(w - best) / np.linalg.norm(best))

    def end(self, P: Array) -> Array:
        """Where rounds of w ← mean of w + P_i(b_i − H_i w) end."""
        return np.linalg.solve((P @ self.H).mean(axis=0), np.einsum("ijk,ik->j", P, self.b) / len(P))

    def steps(self, K: int, eta: float, pull: float = 0.0) -> Array:
        """P_i of K local gradient steps."""
        A, power = np.eye(self.H.shape[1]) - eta * (self.H + pull * np.eye(self.H.shape[1])), np.eye(self.H.shape[1])
        total = np.zeros(self.H.shape)
        for _ in range(K):
            total, power = total + power, power @ A
        return eta * total

    def exact(self, pull: float) -> Array:
        """P_i of exact local solutions."""
        return np.linalg.inv(self.H + pull * np.eye(self.H.shape[1]))


def posed(rng: np.random.Generator) -> Quadratics:
    X, w = rng.standard_normal((4, 90, 30)) * rng.uniform(0.3, 1.5, (4, 1, 30)), rng.standard_normal((4, 30))
    y = np.einsum("inj,ij->in", X, w)
    clients = [Client(f"c{i}", X[i], y[i]) for i in range(4)]
    return Quadratics(clients, np.einsum("inj,ink->ijk", X, X) / 90, np.einsum("inj,in->ij", X, y) / 90)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    one = posed(rng)
    for K, eta in SETTINGS:
        plain = one.distance(one.end(one.steps(K, eta)))
        found.note(EQUAL, one.distance(one.end(one.exact(1 / (eta * K)))) / plain)
        for pull in PULLS:
            found.note(PULLED, one.distance(one.end(one.steps(K, eta, pull))) / plain)
        found.note(MIME, one.distance(mime(one, K, eta, True)) / plain)
        lite = one.distance(mime(one, K, eta, False))
        found.note(LITE, lite / plain)
        found.note(LITE_SMALL, lite / one.distance(one.end(one.steps(K, (1 - BETA) * eta))))
    for K in SMALL:
        plain, exact = one.distance(one.end(one.steps(K, 0.01 / K))), one.distance(one.end(one.exact(100.0)))
        found.note(TWICE, exact / plain / (2 * K / (K - 1)))
    away = [one.distance(one.end(one.exact(pull))) for pull in LARGER]
    found.note(FARTHER, max(b / a for a, b in pairwise(away)))
    by_library(one, found)


def by_library(one: Quadratics, found: Found) -> None:
    """The library's algorithms: those of closed forms in the first setting, SCAFFOLD in the others, and FedDyn."""
    K, eta = SETTINGS[0]
    loss, local, pull = Squared(intercept=None), GradientSteps(steps=K, step_size=eta), 1 / (eta * K)

    def ended(algorithm: FedAvg | FedProx | FedDyn | Scaffold, rounds: int = ROUNDS) -> Array:
        return np.asarray(run(algorithm, one.clients, rounds=rounds, tolerance=0, min_rows=0, measure=0).model.w)

    for algorithm, P in (
        (FedAvg(loss, local), one.steps(K, eta)),
        (FedProx(loss, pull), one.exact(pull)),
        (FedProx(loss, pull, local), one.steps(K, eta, pull)),
    ):
        found.note(RUNS, float(np.linalg.norm(ended(algorithm) - one.end(P)) / np.linalg.norm(one.best())))
    plain = one.distance(one.end(one.steps(K, eta)))
    for pull in FEDDYN:
        found.note(CORRECTED, one.distance(ended(FedDyn(loss, pull), 2 * ROUNDS)) / plain)
    for K, eta in SETTINGS[1:]:
        plain = one.distance(one.end(one.steps(K, eta)))
        found.note(CORRECTED, one.distance(ended(Scaffold(loss, GradientSteps(steps=K, step_size=eta)))) / plain)


def mime(one: Quadratics, K: int, eta: float, corrected: bool, rounds: int = ROUNDS, beta: float = BETA) -> Array:
    """Where Mime, or MimeLite, is after so many rounds from 0."""
    slopes: Callable[[Array], Array] = lambda points: np.einsum("ijk,ik->ij", one.H, points) - one.b  # noqa: E731
    w, m = np.zeros(one.b.shape[1]), np.zeros(one.b.shape[1])
    for _ in range(rounds):
        local = np.tile(w, (len(one.b), 1))
        first = slopes(local)
        mean = first.mean(axis=0)
        for _ in range(K):
            g = slopes(local) - first + mean if corrected else slopes(local)
            local = local - eta * ((1 - beta) * g + beta * m)
        w, m = local.mean(axis=0), (1 - beta) * mean + beta * m
    return w
