"""Algorithm 1 of Jadbabaie et al. (2023) where the paper says "arbitrary": some of the clients, any probes, any start.

Numbers of p = 2 weights and r = 5 samples of the server, i = 1, with the loss of Appendix A, as in `proofs_algorithm`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import L2, P, posed
from fedsolve.reproduce.fedlrgd.proofs_ledger import RANK
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, gradient, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

HALF = Check(
    "Section III-B",
    "τ = ½: with the weights of half of the clients (41) is the gradient of F, ridge, r = p + 1",
    "off",
    1e-6,
)
ACTIVE = Check("Section III-B", "… and that of the F of the active clients and the server", "off", 1e-6)
NEAR = Check(
    "Algorithm 1, line 1",
    "probes from a box of side 0.02 instead of 2: (33) in the large one differs by at most 5 %, median of 20",
    "off",
    0.05,
)
FAR = Check("Algorithm 1, line 1", "… and from a box of side 20", "off", 0.05)
COMPACT = AtLeast(
    "Section II-C",
    "the iterates of Algorithm 1 stay within ‖θ⁽⁰⁾ − θ*‖ + 10⁶ of θ*, 2,000 steps: share of 40 runs",
    "times",
    100.0,
    "% of the runs",
)
SIGNS = AtLeast(
    "Section II-C",
    "… all do for which μ/L_1 Σ_k (1 + Σ v_k)/n is in (0, 2) for each coordinate: share of those runs",
    "times",
    100.0,
    "% of the runs",
)
STARTS = AtLeast(
    "Section III-B",
    "starts of norm 1, 10 and 100 end within 1e-3 of each other: share of 40 runs",
    "times",
    100.0,
    "% of the runs",
)
CHECKS = (HALF, ACTIVE, NEAR, FAR, COMPACT, SIGNS, STARTS)
FARTHEST = 1e6


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 56])
    return named({**_half(rng), **_descents(rng, seed), NEAR: _boxed(rng, 0.01), FAR: _boxed(rng, 10.0)})


def _half(rng: np.random.Generator) -> dict[Check, float]:
    """Ten clients of four samples; the last column is y."""
    own, x, theta = rng.random((3, 3)), rng.random((10, 4, 3)), rng.uniform(-3, 3, (30, 2))
    probes = rng.uniform(-1, 1, (3, 2))

    def g(rows: Array, at: Array) -> Array:
        return np.asarray((rows[:, :2] @ at.T - rows[:, 2:]) * rows[:, :1] + MU * at[:, 0])

    v = g(x[:5].reshape(-1, 3), probes).sum(axis=0) @ np.linalg.inv(g(own, probes))
    off = []
    for clients in (10, 5):
        rows = np.vstack([own, x[:clients].reshape(-1, 3)])
        exact = g(rows, theta).mean(axis=0)
        off.append(float(np.abs((1 + v) @ g(own, theta) / len(rows) - exact).max() / np.abs(exact).max()))
    return {HALF: off[0], ACTIVE: off[1]}


def _boxed(rng: np.random.Generator, half: float) -> float:
    """The error of (33) for θ in [−1, 1]², with probes from a box of this half-width; infinite if G is singular."""
    apart = []
    for _ in range(20):
        own, x = (rng.random((RANK, 2)), rng.random(RANK)), (rng.random((40, 2)), rng.random(40))
        probes, theta = rng.uniform(-half, half, (RANK, 2)), rng.uniform(-1, 1, (30, 2))
        g = [gradient(rows[:, None], labels[:, None], theta[None])[..., 0] for rows, labels in (own, x)]
        G = [gradient(rows[:, None], labels[:, None], probes[None])[..., 0] for rows, labels in (own, x)]
        if np.linalg.cond(G[0]) > 1e16:
            apart.append(np.inf)
            continue
        v = np.linalg.solve(G[0].T, G[1].sum(axis=0))
        exact = g[0].sum(axis=0) + g[1].sum(axis=0)
        apart.append(float(np.abs((1 + v) @ g[0] - exact).max() / 45 / np.abs(g[1]).max()))
    return float(np.median(apart))


@dataclass(frozen=True)
class Surrogate:
    """(41): the server's samples, and what their gradients count in each coordinate (r × p, over n)."""

    X: Array
    y: Array
    weights: Array

    @classmethod
    def learned(cls, own: tuple[Array, Array], others: tuple[Array, Array], probes: Array) -> Surrogate:
        G, sums = (partials(*rows, probes) for rows in (own, others))  # samples, probes, p
        v = np.stack([np.linalg.solve(G[..., i].T, sums[..., i].sum(axis=0)) for i in range(probes.shape[1])], axis=1)
        return cls(*own, (1 + v) / (len(own[1]) + len(others[1])))

    def gradient(self, theta: Array) -> Array:
        """At each row of θ."""
        return np.asarray(np.einsum("sti,si->ti", partials(self.X, self.y, theta), self.weights))


def partials(X: Array, y: Array, theta: Array) -> Array:
    """∇f of each sample at each θ, with the penalty of the problems of `cost_problem`."""
    return np.asarray((sigmoid(np.clip(X @ theta.T, -500, 500)) - y[:, None])[..., None] * X[:, None] + L2 * theta)


def _descents(rng: np.random.Generator, seed: int) -> dict[Check, float]:
    """Both kinds of clients, 20 draws of probes each; three starts side by side."""
    inside, agreed, above = [], [], []
    for kind in ("alike", "different"):
        problem = posed(kind, seed)
        others = (np.vstack([one for one, _ in problem.rows]), np.concatenate([one for _, one in problem.rows]))
        best, L_1 = problem.solved[0], float(np.square(others[0]).sum(axis=1).max()) / 4 + L2
        for _ in range(20):
            own = (problem.own[0][:RANK], problem.own[1][:RANK])
            surrogate = Surrogate.learned(own, others, rng.uniform(-1, 1, (RANK, P)))
            theta = np.vstack([np.zeros(P), *(size * _direction(rng) for size in (1, 10, 100))])
            start, far = np.linalg.norm(theta - best, axis=1), 0.0
            for _ in range(2000):
                theta = theta - surrogate.gradient(theta) / L_1
                far = max(far, float((np.linalg.norm(theta - best, axis=1) - start).max()))
                if not far < FARTHEST:
                    break
            inside.append(far < FARTHEST)
            shrink = L2 / L_1 * surrogate.weights.sum(axis=0)  # far away the rest of (42) is small beside this
            above.append(bool(((shrink > 0) & (shrink < 2)).all()))
            agreed.append(bool(np.abs(theta - theta[0]).max() <= 1e-3))
    same = [one for one, other in zip(inside, above, strict=True) if other]
    shares = zip((COMPACT, SIGNS, STARTS), (inside, same, agreed), strict=True)
    return {check: 100 * float(np.mean(each)) for check, each in shares}


def _direction(rng: np.random.Generator) -> Array:
    found = rng.standard_normal(P)
    return np.asarray(found / np.linalg.norm(found))
