"""How the radius of Theorem 4.1 of Shen et al. (2022) grows with ω_TV and 1/μ, in families where it is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within
from fedsolve.reproduce.ffgb.proof_runs import Oracle, Posed, boosted, sup_oracle
from fedsolve.typing import Array

PROPORTIONAL = Within(
    "Before Theorem 4.1",
    "‖f^T − f*‖² grows like ω_TV where a share of each client's inputs is its own",
    most=1.0,
    words="exponent {}",
)
SHARED = Within(
    "Before Theorem 4.1",
    "… and where all clients have all points, in shares of their own",
    most=1.0,
    words="exponent {}",
)
WEAK = Check(
    "Table 1, row 2", "γ = 0.3, K = 4, T = 1,024: ‖f^T − f*‖² over ω_TV does not grow with 1/ω_TV", "exponent", 0.1
)
SMOOTH = AtLeast(
    "Section 3, residual",
    "with the residual, γ = 0.3: ‖f^T − f*‖² goes to that of equal inputs with ω_TV, with an exponent of at least",
    most=0.5,
)
MAIN = Check("Theorem 4.1", "‖f^T − f*‖² over G²ω_TV/(μγ²), as printed there, does not grow with 1/μ", "exponent", 0.1)
RESTATED = Check("Theorem D.1", "… over G²ω_TV/(μ²γ²)", "exponent", 0.1)
EQUIVALENT = Same(
    "Figure 1, caption",
    "FedPD and FedDyn have the same iterates: quadratics, exact local solutions, 20 rounds",
    most=1e-9,
)
CHECKS = (PROPORTIONAL, SHARED, WEAK, SMOOTH, MAIN, RESTATED, EQUIVALENT)


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


def shares(seed: int, found: Found, points: int = 16, clients: int = 4) -> None:
    """All clients have all points, a share of each client's inputs is on a block of its own, and the others contradict
    its labels there; and what a weak oracle leaves as that share goes to 0."""
    rng = np.random.default_rng([seed, 97])
    own = np.arange(points) * clients // points == np.arange(clients)[:, None]
    coin = (rng.random(points) < 0.5).astype(float)
    labels = np.where(own, coin, 1 - coin)

    def blocks(share: float) -> Posed:
        return Posed((1 - share) / points + share * own * clients / points, labels, 0.5)

    def weak(query: Array) -> Array:
        return np.asarray(0.3 * query)

    exact = [blocks(share) for share in (0.05, 0.1, 0.2, 0.4, 0.8)]
    found.note(SHARED, _power([one.omega_tv for one in exact], [_level(one, one.best) for one in exact]))
    near = [blocks(share) for share in (0.1, 0.01, 0.001)]
    omegas = [one.omega_tv for one in near]
    left = [_level(one, one.best, 1024, weak) / one.omega_tv for one in near]
    found.note(WEAK, _power([1 / omega for omega in omegas], left))

    def noisy(one: Posed) -> float:  # the same errors for every share
        return _level(one, one.best, 256, sup_oracle(one, 0.3, np.random.default_rng([seed, 101])))

    found.note(SMOOTH, _power(omegas, [abs(noisy(one) - noisy(blocks(0.0))) for one in near]))


def _power(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _level(one: Posed, best: Array, rounds: int = 64, oracle: Oracle = np.asarray) -> float:
    """‖f^T − f*‖² with K = 4 and the step sizes of Theorem 4.1; the oracle is exact if none is named."""
    last = list(boosted(one, np.zeros(len(best)), oracle, 4.0, 4, rounds))[-1].after.mean(axis=0)
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
