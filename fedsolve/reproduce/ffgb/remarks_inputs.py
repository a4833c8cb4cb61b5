"""How the radius of Theorem 4.1 of Shen et al. (2022) grows with ω_TV and 1/μ, in families where it is largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Same, Within
from fedsolve.reproduce.ffgb.proof_runs import Posed, boosted
from fedsolve.typing import Array

PROPORTIONAL = Within(
    "Before Theorem 4.1",
    "‖f^T − f*‖² grows like ω_TV where a share of each client's inputs is its own",
    most=1.0,
    words="exponent {}",
)
MAIN = Check("Theorem 4.1", "‖f^T − f*‖² over G²ω_TV/(μγ²), as printed there, does not grow with 1/μ", "exponent", 0.1)
RESTATED = Check("Theorem D.1", "… over G²ω_TV/(μ²γ²)", "exponent", 0.1)
EQUIVALENT = Same(
    "Figure 1, caption",
    "FedPD and FedDyn have the same iterates: quadratics, exact local solutions, 20 rounds",
    most=1e-9,
)
CHECKS = (PROPORTIONAL, MAIN, RESTATED, EQUIVALENT)


@dataclass(frozen=True, eq=False)
class Linear(Posed):
    """ℓ(f, y) = (1 − 2y) f: its gradient is G = 1 in size everywhere."""

    def gradient(self, g: Array) -> Array:
        return np.where(self.mass > 0, 1 - 2 * self.labels, 0.0)

    @property
    def minimum(self) -> Array:
        return -(self.mass * (1 - 2 * self.labels)).sum(axis=0) / self.mass.sum(axis=0) / self.mu


def measure(rng: np.random.Generator, found: Found) -> None:
    """Exponents."""
    shares, clients = np.array([0.05, 0.1, 0.2, 0.4, 0.8]), 4
    levels, omegas = [], []
    for share in shares:  # the first points are everybody's, each other one is one client's
        mass = np.hstack([np.full((clients, 8), (1 - share) / 8), share * np.eye(clients)])
        one = Posed(mass, np.tile((rng.random(8 + clients) < 0.5).astype(float), (clients, 1)), 0.5)
        levels.append(_level(one, one.best))
        omegas.append(one.omega_tv)
    found.note(PROPORTIONAL, float(np.polyfit(np.log(omegas), np.log(levels), 1)[0]))
    mus, mass = (1.0, 0.1, 0.01), rng.dirichlet(np.full(12, 0.5), clients) + 0.01
    mass /= mass.sum(axis=1, keepdims=True)
    labels = (rng.random((clients, 12)) < 0.5).astype(float)
    ratios = []
    for mu in mus:
        one = Linear(mass, labels, mu)
        ratios.append(_level(one, one.minimum) / (one.omega_tv / mu))
    power = float(np.polyfit(np.log(1 / np.array(mus)), np.log(ratios), 1)[0])
    found.note(MAIN, power)
    found.note(RESTATED, power - 1)
    found.same(EQUIVALENT, *dynamics(rng), 1.0)


def _level(one: Posed, best: Array, rounds: int = 64) -> float:
    """‖f^T − f*‖² with an exact oracle, K = 4 and the step sizes of Theorem 4.1."""
    last = list(boosted(one, np.zeros(len(best)), lambda query: query, 4.0, 4, rounds))[-1].after.mean(axis=0)
    return float(one.all(last - best, last - best))


def dynamics(rng: np.random.Generator, clients: int = 4, d: int = 3, rounds: int = 20) -> tuple[Array, Array]:
    """The server's points of FedDyn (Acar et al., 2020) and of FedPD (Zhang et al., 2020), with all clients."""
    roots, goals, alpha = rng.standard_normal((clients, d, d)), rng.standard_normal((clients, d)), 0.5
    A = roots @ roots.transpose(0, 2, 1) / d + 0.1 * np.eye(d)
    solve = np.linalg.inv(A + alpha * np.eye(d))

    def prox(linear: Array, centre: Array) -> Array:
        """argmin ½(θ − goal)ᵀA(θ − goal) − ⟨linear, θ⟩ + α/2‖θ − centre‖², of every client."""
        right = np.einsum("ijk,ik->ij", A, goals) + linear + alpha * centre
        return np.einsum("ijk,ik->ij", solve, right)

    server, h, slopes = np.zeros(d), np.zeros(d), np.zeros((clients, d))
    dyn = []
    for _ in range(rounds):
        theta = prox(slopes, np.tile(server, (clients, 1)))
        slopes = slopes - alpha * (theta - server)  # ∇L_i(θ_i), by the optimality of θ_i
        h = h - alpha * (theta - server).mean(axis=0)
        server = theta.mean(axis=0) - h / alpha
        dyn.append(server)
    centre, dual, found = np.zeros((clients, d)), np.zeros((clients, d)), []
    for _ in range(rounds):
        x = prox(-dual, centre)
        dual = dual + alpha * (x - centre)
        centre = np.tile((x + dual / alpha).mean(axis=0), (clients, 1))
        found.append(centre[0])
    return np.array(dyn), np.array(found)
