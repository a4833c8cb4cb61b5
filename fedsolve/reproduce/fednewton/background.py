"""FedNewton, introduction and section 5: facts about other methods that can be counted."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from fedsolve.algorithms import AGD, GIANT, SHED, FedAvg, FedNewton, FedNL, Newton, Scaffold
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.compressors import RankR
from fedsolve.data.synthetic import heterogeneous
from fedsolve.features import RandomFourier
from fedsolve.local import GradientSteps
from fedsolve.losses import Logistic, Squared
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.synthetic import FEATURES, L2, STD
from fedsolve.reproduce.fednewton.work import drawn, work
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

ROUNDS = 4
SHARES = ((10, 8), (100, 8))  # clients and rounds where the costs of one are compared with KRR's on all samples
SIZES, TEST = (500, 1000, 2000), 2500  # |D_j| of the synthetic data
STEP_SIZES, NEAR, TIMES, CHECKS = (0.2, 0.6, 2.0), 1.05, 10, 20  # of ‖φ‖² near ½; times DKRR's error; much more time
LOSS = Logistic(l2=1e-2)
SECOND: dict[str, Algorithm] = {
    "Newton": Newton(LOSS),
    "FedNewton": FedNewton(LOSS),
    "FedNL": FedNL(LOSS, RankR(1), search=None),
    "SHED": SHED(LOSS),
    "GIANT": GIANT(LOSS),
}
FIRST: dict[str, Algorithm] = {
    "FedAvg": FedAvg(LOSS, GradientSteps(steps=2, step_size=0.1)),
    "Scaffold": Scaffold(LOSS, GradientSteps(steps=2, step_size=0.1)),
    "AGD": AGD(LOSS),
}


def hessians(method: Algorithm) -> int:
    """Hessians, and products with them, of all clients in `ROUNDS` rounds, by the ledger."""
    last = list(islice(iterates(method, drawn(3, 40, 6, labels=True)), ROUNDS + 1))[-1]
    return sum(value for name, value in last.sent.counts.items() if "hessian" in name)


def _on_orders(claims: Claims) -> None:
    found = {name: hessians(method) for name, method in SECOND.items()}
    said = ", ".join(f"{name} {count}" for name, count in found.items())
    claims.add("Newton-type methods use Hessians or products with them", min(found.values()) > 0, said)
    found = {name: hessians(method) for name, method in FIRST.items()}
    said = ", ".join(f"{name} {count}" for name, count in found.items())
    claims.add("first-order methods use none", max(found.values()) == 0, said)


def _on_shares(claims: Claims) -> None:
    """One client of FedNewton, rounds included, against KRR on all samples."""
    said, holds = [], True
    for m, rounds in SHARES:
        client, _ = work(FedNewton(Squared(l2=1e-3)), drawn(1, 4000 // m, 200), rounds)
        whole, _ = work(FedNewton(Squared(l2=1e-3)), drawn(1, 4000, 200), 0)
        holds = holds and sum(client) < whole[0]
        said.append(f"{sum(client) / whole[0]:.2g} of them with {m} clients and {rounds} rounds")
    claims.add("a client computes less than KRR on all samples", holds, "; ".join(said))


# ── DKRR in kernel space against stochastic gradients in feature space ──


def gaussian(A: Array, B: Array) -> Array:
    """½ exp(−std² ‖a − b‖²/2), which the products of the cosines have as their mean."""
    squares = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1) - 2 * A @ B.T
    return np.asarray(0.5 * np.exp(-(STD**2) * squares / 2))


def stochastic(phi: Array, y: Array, steps: int, step_size: float, rng: np.random.Generator) -> list[Array]:
    """The weights at `CHECKS` moments of stochastic gradient descent, one row a step, 2M multiply-adds each."""
    w, kept = np.zeros(phi.shape[1]), []
    every = max(1, steps // CHECKS)
    for t, i in enumerate(rng.integers(len(y), size=steps)):
        w -= step_size * (phi[i] @ w - y[i]) * phi[i]
        if (t + 1) % every == 0:
            kept.append(w.copy())
    return kept


def against(n: int, seed: int) -> dict[str, float]:
    """The least test error of stochastic gradients within a tenth of the multiply-adds of the solution in kernel
    space, over the error of that."""
    drawn_data = heterogeneous(1, n, test_samples=TEST, seed=seed)
    ((X, y),) = drawn_data.parts
    cubic = n**3 // 6
    alpha = np.linalg.solve(gaussian(X, X) + n * L2 * np.eye(n), y)
    kernel_error = float(np.mean((gaussian(drawn_data.X_test, X) @ alpha - drawn_data.y_test) ** 2))
    of = RandomFourier.fednewton(STD, FEATURES, seed)
    phi, test = of.block(X), of.block(drawn_data.X_test)
    steps = cubic // TIMES // (2 * FEATURES)
    least = math.inf
    for size in STEP_SIZES:
        for w in stochastic(phi, y, steps, size, np.random.default_rng((seed, n))):
            least = min(least, float(np.mean((test @ w - drawn_data.y_test) ** 2)))
    return {"kernel": kernel_error, "ratio": least / kernel_error, "passes": steps / n}


def _on_time(tally: Tally[int], sizes: tuple[int, ...], claims: Claims) -> None:
    ratios = {n: tally.measured(n, "ratio").median for n in sizes}
    said = "; ".join(f"|D_j| = {n}: {one:.3g} times its error" for n, one in ratios.items())
    claim = "a tenth of the time of DKRR in kernel space is enough for stochastic gradients"
    claims.add(claim, max(ratios.values()) <= NEAR, f"{said} (medians, the best step size and moment)")


@experiment(
    "fednewton-background",
    paper="FedNewton",
    place="introduction, section 5",
    title="Facts about other methods that can be counted",
    takes="1 min",
)
def background(seeds: Seeds, quick: bool) -> Result:
    """Hessians by the ledger, a client's share of the work, and stochastic gradients against the kernel's solution."""
    sizes = SIZES[:1] if quick else SIZES
    tally = Tally[int]()
    for seed, n in seeds.over(sizes):
        tally.add(n, against(n, seed))
    claims = Claims(quick)
    _on_orders(claims)
    _on_shares(claims)
    _on_time(tally, sizes, claims)
    return Result(
        columns=(Column("|D_j|"), Column("error in kernel space"), Column("ratio"), Column("passes")),
        rows=[(f"{n}", *(tally.measured(n, name) for name in ("kernel", "ratio", "passes"))) for n in sizes],
        claims=claims.found,
        notes=(
            "Table: one client of the paper's synthetic data without shifts; the test error of kernel ridge regression "
            f"with the Gaussian kernel of the cosines, λ = {L2:g}, |D_j|³/6 multiply-adds, and the least error of "
            f"stochastic gradients with M = {FEATURES} cosines, step sizes of {STEP_SIZES}, within a tenth of "
            "them, over it.",
        ),
    )
