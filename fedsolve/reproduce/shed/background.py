"""SHED, sections 1, 2, 5 and 6.7: what is said in passing of other methods, losses and renewals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from fedsolve.algorithms import AGD, FedAvg, FedNL, Newton
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.compressors import RandomKPairs, RankR, TopKPairs
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Logistic, Squared
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, TopK
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import Trace, follow, optimum
from fedsolve.reproduce.shed.heard_messages import MU, agents
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.small_logistic import ALPHA, BETA, Agents, estimate
from fedsolve.typing import Array

GAP, MOST = 1e-10, 2000  # f − f*, iterations
LOCAL, ROUNDS = 2, 30  # local steps and rounds of FedAvg
INEXACT = (1, 2, 4)  # conjugate gradient steps, and Richardson's
N, PERIODS = 8, (3, 4, 5, 6)  # unknowns; each agent's own period between renewals

DIVERGES, CONVERGES = "FedAvg diverges with unlike agents", "with the same step and alike agents it converges"
NEWTON = "Newton's method takes at most a tenth of the rounds of accelerated gradients"
SPLIT = "Newton's method takes the same steps whatever the split"
ROBUST = "μ = 1e-5 instead of 0.1 costs Newton's method at most twice the iterations"
SLOWED = "… and accelerated gradients at least ten times"
DECOMPOSED = "FedNL: every agent decomposes an n × n matrix in every iteration"
LOSSES, CONVEX = "section 2: the library's losses are the printed ones", "section 2: l is convex in xᵀθ"
FIXED = "section 2.2: local Hessians of least squares are the same at 50 random θ, also by differences of gradients"
MOVES = "… those of logistic regression are apart: the inverse of the least distance over ‖H‖"
GENERAL = "section 2: logistic regression is a generalised linear model"
AT_BEST = "GIANT needs fewest iterations with exact local solves"
LOAD, ITERATIONS = "FedNL: no other form sends fewer vectors than rank 1 with a search", "… nor takes fewer iterations"
OWN = "section 5: Theorem 9's bound with renewals of each agent's own"
OWN_ENDS = "section 5: it converges with renewals of each agent's own, to 1e-10"

CHECKS = (
    Check("section 1", DIVERGES, "times", 1e-3),
    Check("section 1", CONVERGES, "times", 1e-3),
    Check("section 1", NEWTON, "times", 0.1),
    Check("section 1", SPLIT, "off", 1e-9),
    Check("section 1", ROBUST, "times", 2.0),
    Check("section 1", SLOWED, "times", 0.1),
    *(Check("section 2", name, "off", 1e-9) for name in (LOSSES, GENERAL)),
    Check("section 2", CONVEX),
    Check("section 2.2", FIXED, "off", 1e-12),
    Check("section 2.2", MOVES, "times", 100.0),
    *(Check("section 6.7", name, "times", 1.0) for name in (AT_BEST, LOAD, ITERATIONS)),
    Check("section 6.7", DECOMPOSED, "failures", 0.0),
    Check("section 5", OWN),
    Check("section 5", OWN_ENDS, "times", GAP),
)


def fed_avg(alike: bool) -> float:
    """‖θ − θ*‖ after some rounds over the first: two agents with curvatures 1 and 100, or both with their mean.

    The step 0.03 is stable for the mean, 50.5; two local steps multiply the mean error by (0.97² + 2²)/2.
    """
    curvatures = (50.5, 50.5) if alike else (1.0, 100.0)
    clients = [Client(f"agent-{j}", np.array([[np.sqrt(h)]]), np.array([np.sqrt(h)])) for j, h in enumerate(curvatures)]
    algorithm = FedAvg(Squared(l2=0.0), GradientSteps(steps=LOCAL, step_size=0.03))
    path = [norm(one.state.w - 1.0) for one in islice(iterates(algorithm, clients), ROUNDS + 1)]
    return path[-1] / path[0]


def newton(seed: int, mu: float = 1e-3) -> tuple[float, float]:
    """Iterations of Newton's method and of Nesterov's, at most 2,000."""
    clients, loss = agents(seed), Logistic(l2=mu)
    best = optimum(clients, loss)
    methods: tuple[Algorithm, ...] = (Newton(loss), AGD(loss))
    first, second = (min(follow(one, best, gap=GAP, iterations=MOST).iterations(GAP), MOST) for one in methods)
    return first, second


def conditioned(seed: int, w: Worst) -> None:
    """What a small penalty costs both."""
    (hard, hard_agd), (easy, easy_agd) = (newton(seed, mu) for mu in (1e-5, 0.1))
    w.add(ROBUST, hard / easy)
    w.add(SLOWED, easy_agd / hard_agd)


def split(seed: int) -> float:
    """How far Newton's iterates are apart for two splits of the same rows: as they are, and sorted by label."""
    clients, loss = agents(seed), Logistic(l2=1e-3)
    X, y = (np.concatenate([getattr(one, name) for one in clients]) for name in ("X", "y"))
    parts = np.split(np.argsort(y, kind="stable"), np.cumsum([one.n_samples for one in clients])[:-1])
    sorted_ones = [Client(one.name, X[rows], y[rows]) for one, rows in zip(clients, parts, strict=True)]
    paths = [[one.state.w for one in islice(iterates(Newton(loss), some), 8)] for some in (clients, sorted_ones)]
    return max(norm(a - b) for a, b in zip(*paths, strict=True))


@dataclass(frozen=True)
class Counting(RankR):
    """Notes the order of each matrix that is decomposed."""

    orders: list[int] = field(default_factory=list)

    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        self.orders.append(A.n)
        return super().compress(A, client)


def decomposed(seed: int, iterations: int = 5) -> float:
    """0 if FedNL's agents decompose one n × n matrix each in every iteration after the first point."""
    clients, counting = agents(seed), Counting(1)
    for _ in islice(iterates(FedNL(Logistic(l2=MU), counting, option=1), clients), iterations + 1):
        pass
    return float(counting.orders != [clients[0].X.shape[1]] * (iterations * len(clients)))


def losses(seed: int, w: Worst) -> None:
    """Printed losses, labels of ±1, beside the library's; and the second derivative along random pairs of points."""
    (client, *_), rng = agents(seed), np.random.default_rng((seed, 61))
    theta = rng.standard_normal(client.X.shape[1])
    z, signs = client.X @ theta, 2 * client.y - 1
    printed = {Logistic(l2=0.0): np.log(1 + np.exp(-signs * z)), Squared(l2=0.0): (z - client.y) ** 2 / 2}
    for loss, values in printed.items():
        w.add(LOSSES, abs(loss.value(client, theta) - float(values.mean())))
    expected = 1 / (1 + np.exp(-z))  # the inverse of the canonical link
    gradient = client.X.T @ (expected - client.y) / len(z)
    w.add(GENERAL, norm(Logistic(l2=0.0).gradient(client, theta) - gradient))
    a, b, share = 5 * rng.standard_normal(1000), 5 * rng.standard_normal(1000), rng.random(1000)

    def printed_loss(at: Array) -> Array:
        return np.asarray(np.log(1 + np.exp(-at)))

    for one in (printed_loss, lambda at: (at - 1) ** 2 / 2):
        between = one(share * a + (1 - share) * b)
        w.add(CONVEX, float(np.max(between / (share * one(a) + (1 - share) * one(b)))))


def local_direction(H: Array, g: Array, steps: int, richardson: bool) -> Array:
    """H⁻¹g by so many steps of conjugate gradients, or of Richardson's iteration (DONE)."""
    p, r = np.zeros_like(g), g.copy()
    if richardson:
        for _ in range(steps):
            p = p + (g - H @ p) / float(np.linalg.eigvalsh(H)[-1])
        return p
    d = r
    for _ in range(steps):
        eta = float(r @ r) / float(d @ H @ d)
        p, after = p + eta * d, r - eta * (H @ d)
        d, r = after + float(after @ after) / float(r @ r) * d, after
    return p


def giant(of: Agents, solve: Callable[[Array, Array], Array]) -> int:
    """Iterations of GIANT until f − f* ≤ 1e-10, with local solves and backtracking."""
    w, least = np.zeros(of.n), of.value(of.best)
    for t in range(MOST):
        if of.value(w) - least <= GAP:
            return t
        g = of.gradient(w)
        p, eta = of.mean([solve(H, g) for H in of.hessians(w)]), 1.0
        while of.value(w - eta * p) > of.value(w) - ALPHA * eta * float(p @ g):
            eta *= BETA
        w = w - eta * p
    return MOST


def hessians(seed: int, w: Worst, points: int = 50) -> None:
    """Of every agent at random θ beside that at the first: the library's, computed anew at each θ, and by differences
    of gradients two apart, which are exact where f is quadratic."""
    rng = np.random.default_rng((seed, 67))
    for client in agents(seed):
        n = client.X.shape[1]
        thetas = rng.standard_normal((points, n))
        for loss, check in ((Squared(l2=MU), FIXED), (Logistic(l2=MU), MOVES)):
            first, apart = loss.hessian(client, thetas[0]).full(), []
            for theta in thetas[1:]:
                anew = loss.hessian(Client(client.name, client.X, client.y), theta).full()
                slopes = [loss.gradient(client, theta + e) - loss.gradient(client, theta - e) for e in np.eye(n)]
                apart += [norm(one - first) / norm(first) for one in (anew, np.array(slopes) / 2)]
            w.add(check, max(apart) if check is FIXED else 1 / min(apart))


def at_best(seed: int) -> float:
    """Iterations of GIANT with exact local solves over the fewest with inexact ones."""
    of = Agents(seed, N, 4, 60, 1e-3)
    inexact = [
        giant(of, lambda H, g, k=k, kind=kind: local_direction(H, g, k, kind))  # type: ignore[misc]
        for k in INEXACT
        for kind in (True, False)
    ]
    return giant(of, lambda H, g: np.asarray(np.linalg.solve(H, g))) / min(inexact)


def rank_1(seed: int, w: Worst) -> None:
    """FedNL's vectors and iterations with rank 1 over the fewest of other forms."""
    clients, loss = agents(seed), Logistic(l2=MU)
    best = optimum(clients, loss)

    def trace(algorithm: FedNL) -> Trace:
        return follow(algorithm, best, gap=GAP, iterations=MOST)

    own = trace(FedNL(loss, RankR(1), option=1))
    others = [
        trace(FedNL(loss, RankR(1), option=1, search=None)),
        *(trace(FedNL(loss, one, option=option)) for one in (TopKPairs(1), RandomKPairs(1)) for option in (1, 2)),
        trace(FedNL(loss, RankR(1), option=2)),
    ]
    w.add(LOAD, own.until(GAP, own.vectors) / min(one.until(GAP, one.vectors) for one in others))
    w.add(ITERATIONS, own.iterations(GAP) / min(one.iterations(GAP) for one in others))


def own_renewals(seed: int, w: Worst) -> None:
    """Algorithm 4 with another period of renewals for each agent, against (31) with θ^{k_t} of each agent."""
    of, at = Agents(seed, N, len(PERIODS), 30, 0.1), np.zeros(N)
    known = [at] * len(PERIODS)
    counts = np.zeros(len(PERIODS), dtype=int)
    start = norm(at - of.best)
    for t in range(1, 200):
        for j, period in enumerate(PERIODS):
            if t % period == 1:
                known[j], counts[j] = at, 0
        counts = np.minimum(counts + 1, N - 1)
        spectra = [of.spectra(one) for one in known]
        values, vectors = (np.array([one[k][j] for j, one in enumerate(spectra)]) for k in (0, 1))
        parts, rho = estimate(values, vectors, counts)
        g, eta = of.gradient(at), 1.0
        p = np.linalg.solve(of.mean(parts), g)
        while norm(g) > 1e-7 and of.value(at - eta * p) > of.value(at) - ALPHA * eta * float(p @ g):
            eta *= BETA
        error, mean_rho, least = norm(at - of.best), float(of.mean(rho)), float(of.mean(values[:, -1]))
        since = float(of.mean(np.array([L * norm(at - one) for L, one in zip(of.L_i, known, strict=True)])))
        top = float(np.linalg.eigvalsh(of.hessian(at))[-1])
        factor = 1 - least / mean_rho + since / mean_rho + (1 - eta) * top / mean_rho
        at = at - eta * p
        if error > 1e-6:
            w.add(OWN, norm(at - of.best) / (factor * error + eta * of.L / (2 * mean_rho) * error**2))
    w.add(OWN_ENDS, norm(at - of.best) / start)


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    worst.add(DIVERGES, 1 / fed_avg(alike=False))
    worst.add(CONVERGES, fed_avg(alike=True))
    first, second = newton(seed)
    worst.add(NEWTON, first / second)
    conditioned(seed, worst)
    worst.add(SPLIT, split(seed))
    worst.add(DECOMPOSED, decomposed(seed))
    losses(seed, worst)
    hessians(seed, worst)
    worst.add(AT_BEST, at_best(seed))
    rank_1(seed, worst)
    own_renewals(seed, worst)
    return worst.found


@experiment(
    "shed-background",
    paper="SHED",
    place="sections 1, 2, 5 and 6.7",
    title="What SHED's paper says in passing of other methods, losses and renewals",
    takes="20 s",
)
def background(seeds: Seeds, quick: bool) -> Result:
    """Small problems, each made for one sentence."""
    notes = (
        "FedAvg: two agents with one unknown and curvatures 1 and 100, or both with their mean; two local steps of "
        f"0.03, {ROUNDS} rounds. “Diverges” is the inverse of what the error grows to. Newton, and FedNL: the logistic "
        "regression of shed-order (for Newton's method μ = 1e-3, or 1e-5 and 0.1); FedNL's others are rank 1 without a "
        "search, rank 1 with option 2, and as many entries as unknowns, the largest or random ones, with both options. "
        f"GIANT: {', '.join(map(str, INEXACT))} steps of conjugate gradients and of Richardson's iteration for each "
        f"local solve, n = {N}. Own renewals: periods of {', '.join(map(str, PERIODS))} iterations.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
