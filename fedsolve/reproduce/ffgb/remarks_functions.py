"""Sections 2 to 4 of Shen et al. (2022): what is said of spaces, gradients, oracles and rounds, on a few points."""

from __future__ import annotations

from math import log

import numpy as np

from fedsolve.losses import Softmax
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same, Zero
from fedsolve.reproduce.ffgb.proof_runs import Posed, boosted, posed, square_oracle, sup_oracle

CLIENTS, POINTS, MU, GAMMA = 5, 12, 0.5, 0.3

CONVEX = AtLeast("Section 2.2, (1)", "the Hessian of the cross-entropy has no eigenvalue below −1e-12", most=-1e-12)
MIDDLE = Below("Section 2.2, (1)", "the log-loss at the middle of 200 segments is at most the mean of its ends")
SUBGRADIENT = Below("Section 2.2, (3)", "F[f] + ⟨g − f, h⟩_α ≤ F[g] with h of (3), 200 pairs")
POOLED = Same("Section 3, (9)", "the mean of the F_i is (2) for the mean of the clients' distributions, at 200 f")
INSIDE = Check("Section 3", "‖f‖²_αi is at most N‖f‖²_α, so that L²(α) ⊆ L²(α_i)")
ALONE = Check(
    "Section 2.2, (4)",
    "on one machine (4) ends within 1e-6 of ‖f⁰ − f*‖², γ = 0.2 to 1, μ = 0.1 to 4, both kinds of oracle",
    "times",
    1e-6,
)
ZERO = Zero("Section 3, residual", "on one machine the gradient of F is 0 at f*", most=1e-12)
ALONE_SPLIT = Check("Section 3, residual", "… and so does Algorithm 2 without the residual, h = γφ", "times", 1e-6)
TRACKS = Same("Section 3", "Δ^k is the sum of ∇R_i[g^κ] − h^κ over the steps of the round")
WEAKER = Check("Section 4.2", "‖∇R_i‖_αi ≤ ‖∇R_i‖_αi,∞, so that Assumption 4.1 implies 4.2")
STRONGER = Check("Section 4.1, (10)", "an oracle with (10) satisfies (5) with the same γ, 200 queries")
SPIKES = AtLeast(
    "After Theorem 4.1", "an oracle with (5) can be off by more than the query is large, somewhere", most=1.0
)
FEDAVG_RUN = Same("After Theorem 4.3", "… and the rounds are K gradient steps of every client, averaged")
FIXED = Check(
    "Table 1, row 1", "with K = 4 fixed, ‖f^T − f*‖² falls at least like T^(−½) from T = 256 to 4,096", "exponent", -0.5
)
CHECKS = (
    *(
        CONVEX,
        MIDDLE,
        SUBGRADIENT,
        POOLED,
        INSIDE,
        ALONE,
        ZERO,
        ALONE_SPLIT,
        TRACKS,
        WEAKER,
        STRONGER,
        SPIKES,
        FEDAVG_RUN,
        FIXED,
    ),
)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    _functions(rng, found)
    _alone(rng, found)
    _oracles(rng, found)
    _rounds(rng, found)


def _functions(rng: np.random.Generator, found: Found) -> None:
    """(1) to (3), (9), and the spaces."""
    for _ in range(200):
        p = rng.dirichlet(np.full(5, 0.3))
        found.note(CONVEX, np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).min())
    ends, labels = 5 * rng.spawn(1)[0].standard_normal((2, 200, 5)), np.eye(5)[np.arange(200) % 5]
    middle, *values = (Softmax(classes=5).error(np, eta, labels) for eta in (ends.mean(axis=0), *ends))
    found.below(MIDDLE, middle, np.mean(values, axis=0))
    one = posed(rng, CLIENTS, POINTS, MU, same=False)
    share = one.mass / one.mass.sum(axis=0)
    wanted = (share * one.labels).sum(axis=0)  # the mean label at each point, over all clients
    for f, g in rng.normal(0, 2, (200, 2, POINTS)):
        risks = [_value(one, wanted, a) for a in (f, g)]
        h = 1 / (1 + np.exp(-f)) - wanted + MU * f
        found.below(SUBGRADIENT, risks[0] + one.all(g - f, h), risks[1])
        found.same(POOLED, one.value(np.tile(f, (CLIENTS, 1))).mean(), risks[0])
        found.note(INSIDE, one.own(np.tile(f, (CLIENTS, 1)), f) / (CLIENTS * one.all(f, f)))
        slopes = one.gradient(np.tile(f, (CLIENTS, 1)))
        found.note(WEAKER, np.sqrt(one.own(slopes, slopes)) / np.abs(slopes).max(axis=1))


def _value(one: Posed, wanted: np.ndarray, f: np.ndarray) -> float:
    return float(one.alpha @ (np.logaddexp(0, f) - wanted * f + MU / 2 * np.square(f)))


def _alone(rng: np.random.Generator, found: Found) -> None:
    """One machine: (4) asks the oracle for ∇F, Algorithm 2 for ∇R only."""
    one = posed(rng, 1, POINTS, MU, same=True)
    best = one.best[None]
    start = float(one.all(one.best, one.best))
    found.note(ZERO, np.abs(one.slope(best)).max())
    for gamma, mu in ((GAMMA, MU), (0.2, MU), (0.7, MU), (1.0, MU), (GAMMA, 0.1), (GAMMA, 4.0)):
        other = Posed(one.mass, one.labels, mu)
        for make in (sup_oracle, square_oracle):
            g, oracle, eta = np.zeros((1, POINTS)), make(other, gamma, rng), 0.3 * gamma / (mu + 0.25)
            for _ in range(round(20 / (eta * gamma * mu))):
                g = g - eta * oracle(other.slope(g))
            left = g[0] - other.best
            found.note(ALONE, float(other.all(left, left) / other.all(other.best, other.best)))
    g = np.zeros((1, POINTS))
    for _ in range(4000):
        g = g - 0.1 * (GAMMA * one.gradient(g) + MU * g)
    found.note(ALONE_SPLIT, float(one.all(g[0] - one.best, g[0] - one.best)) / start)


def _oracles(rng: np.random.Generator, found: Found) -> None:
    """Whether (10) implies (5), and what (5) allows at single points."""
    one = posed(rng, CLIENTS, POINTS, MU, same=True)
    for _ in range(200):
        query = rng.standard_normal((CLIENTS, POINTS)) * (rng.random((CLIENTS, POINTS)) < 0.3) + 1e-3
        left = sup_oracle(one, GAMMA, rng)(query) - query
        found.note(STRONGER, np.sqrt(one.own(left, left) / one.own(query, query)) / (1 - GAMMA))
    left = square_oracle(one, GAMMA, rng)(query) - query
    found.note(SPIKES, (np.abs(left).max(axis=1) / np.abs(query).max(axis=1)).max())


def _rounds(rng: np.random.Generator, found: Found) -> None:
    """Runs of Algorithm 2 with equal inputs."""
    one = posed(rng, CLIENTS, POINTS, MU, same=True)
    f, sums = np.zeros(POINTS), np.zeros(one.mass.shape)
    for step in boosted(one, f, square_oracle(one, GAMMA, rng), 2.0, 4, 3):
        sums = one.gradient(step.g) - step.h + (0.0 if step.k == 1 else sums)
        found.same(TRACKS, step.residual, sums, step.h)
    ends = [s.after.mean(axis=0) for s in boosted(one, f, lambda query: query, 2.0, 4, 5) if s.k == 4]
    for t, end in enumerate(ends):  # FedAvg: each client takes K gradient steps of F_i
        g = np.tile(f, (CLIENTS, 1))
        for k in range(1, 5):
            g = g - 2 / (MU * (4 * t + k + 1)) * (1 / (1 + np.exp(-g)) - one.labels + MU * g)
        f = g.mean(axis=0)
        found.same(FEDAVG_RUN, end, f, np.abs(f).max())
    path = {
        s.t + 1: s.after.mean(axis=0) - one.best
        for s in boosted(one, np.zeros(POINTS), lambda query: GAMMA * query, 2.0, 4, 4096)
        if s.k == 4
    }
    ahead, behind = (float(one.all(path[T], path[T])) for T in (4096, 256))
    found.note(FIXED, log(ahead / behind) / log(16))
