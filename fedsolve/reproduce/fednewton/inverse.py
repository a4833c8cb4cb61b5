"""FedNewton, Remark 1: the methods that are to make the inverse of the Hessian cheaper, each in its place.

BFGS and L-BFGS take some steps with exact line search for H_j d = g, with products from the rows; a Newton sketch
takes the Hessian of a count sketch of the rows. Gauss-Newton's matrix is that of the residuals' Jacobian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.numerics.design import DenseDesign
from fedsolve.numerics.linalg import cholesky, cholesky_solve, symmetric_product
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.inexact import path
from fedsolve.reproduce.fednewton.multiply_adds import Counted, counting
from fedsolve.reproduce.fednewton.synthetic import L2, problem
from fedsolve.reproduce.fednewton.work import drawn
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.typing import Array

RIDGE, LEFT, MOST = 1e-2, 1e-6, 60  # λ of the normal features; the federated error that is left; rounds
STEPS, MEMORY, TIMES = 5, 5, 8  # of BFGS and L-BFGS, of L-BFGS; rows of the sketch over M
FEW, ROWS, WIDTH = 1600, 16_000, 400  # |D_j| of BFGS, of the sketch; M
HARD_STEPS, EACH, CLIENTS = (5, 20, 80), 500, 20  # on the paper's synthetic data
SAME = 1e-6

Solver = Callable[[Client, Array], Array]


def bfgs_solution(client: Client, g: Array, loss: Squared, steps: int = STEPS) -> Array:
    """H_j⁻¹ g by BFGS from zero and the identity, with a matrix of M² numbers."""
    d, r, B = np.zeros_like(g), g.copy(), np.eye(len(g))
    for _ in range(steps):
        p = symmetric_product(B, r)
        Hp = loss.row_product(client, d, p)
        step = float(r @ p) / float(p @ Hp)
        d, r = d + step * p, r - step * Hp
        s, y = step * p, step * Hp
        By, curvature = symmetric_product(B, y), float(s @ y)
        both = outer(s, By)
        B = B - (both + both.T) / curvature + outer(s, s) * (1 + float(y @ By) / curvature) / curvature
    return d


def outer(a: Array, b: Array) -> Array:
    """a bᵀ, counted as M²."""
    return DenseDesign(a[:, None]).matvec(b[None, :])


def lbfgs_solution(client: Client, g: Array, loss: Squared, steps: int = STEPS) -> Array:
    """H_j⁻¹ g by L-BFGS from zero, the last `MEMORY` pairs; a pair costs four passes over M numbers a step, which the
    two products with its column count."""
    d, r = np.zeros_like(g), g.copy()
    pairs: list[tuple[Array, Array]] = []
    for _ in range(steps):
        p, kept = r.copy(), []
        for s, y in reversed(pairs):
            a = float(DenseDesign(s[None, :]).matvec(p)[0]) / float(s @ y)
            p = p - DenseDesign(y[:, None]).matvec(np.array([a]))
            kept.append(a)
        for (s, y), a in zip(pairs, reversed(kept), strict=True):
            b = float(DenseDesign(y[None, :]).matvec(p)[0]) / float(s @ y)
            p = p + DenseDesign(s[:, None]).matvec(np.array([a - b]))
        Hp = loss.row_product(client, d, p)
        step = float(r @ p) / float(p @ Hp)
        d, r = d + step * p, r - step * Hp
        pairs = [*pairs, (step * p, step * Hp)][-MEMORY:]
    return d


class Sketched:
    """Solutions with the Hessian of a count sketch of each client's rows, made once; it costs |D_j| M additions."""

    def __init__(self, rows: int, l2: float, counted: Counted, seed: int = 0) -> None:
        self.rows, self.l2, self.counted = rows, l2, counted
        self.rng, self.factors = np.random.default_rng((seed, 67)), dict[str, Array]()

    def __call__(self, client: Client, g: Array) -> Array:
        if client.name not in self.factors:
            n, M = client.X.shape
            S = np.zeros((self.rows, M))
            np.add.at(S, self.rng.integers(self.rows, size=n), self.rng.choice([-1.0, 1.0], n)[:, None] * client.X)
            self.counted.clients += n * M
            lower = cholesky(DenseDesign(S).gram().full() / n + self.l2 * np.eye(M))
            assert lower is not None
            self.factors[client.name] = lower
        return cholesky_solve(self.factors[client.name], g)


def jacobian(client: Client, w: Array, l2: float) -> Array:
    """Of the residuals (x_iᵀw − y_i)/√n and √λ w, by differences."""

    def residuals(at: Array) -> Array:
        return np.concatenate([(client.X @ at - client.y) / math.sqrt(len(client.y)), math.sqrt(l2) * at])

    return np.stack([residuals(w + e) - residuals(w - e) for e in np.eye(len(w))], axis=1) / 2


def cost(clients: list[Client], l2: float, make: Callable[[Counted], tuple[Solver, bool]]) -> tuple[float, float]:
    """Multiply-adds of a client and rounds from zero until the distance from the pooled solution is `LEFT` of the
    first; infinite where it is not in `MOST` rounds. The solver, and whether gradients are from the rows."""
    loss, M = Squared(l2=l2), clients[0].X.shape[1]
    H = np.mean([one.X.T @ one.X / one.n_samples for one in clients], axis=0) + l2 * np.eye(M)
    pooled = np.linalg.solve(H, np.mean([one.X.T @ one.y / one.n_samples for one in clients], axis=0))
    own = [Client(one.name, one.X, one.y) for one in clients]  # nothing is kept from before
    with counting() as counted:
        solve, from_rows = make(counted)
        steps: Iterator[Array] = path(own, solve, loss.gradient if from_rows else loss.newton_gradient)
        for t, w in enumerate(islice(steps, MOST + 1)):
            if np.linalg.norm(w - pooled) <= LEFT * np.linalg.norm(pooled):
                return counted.clients / len(own), t
    return math.inf, math.inf


def exact(l2: float) -> Callable[[Counted], tuple[Solver, bool]]:
    loss = Squared(l2=l2)
    return lambda _: ((lambda client, g: loss.hessian_factor(client, g).solve(g)), False)


def stepped(solution: Callable[..., Array], l2: float, steps: int) -> Callable[[Counted], tuple[Solver, bool]]:
    loss = Squared(l2=l2)
    return lambda _: ((lambda client, g: solution(client, g, loss, steps)), True)


def sketched(rows: int, l2: float) -> Callable[[Counted], tuple[Solver, bool]]:
    return lambda counted: (Sketched(rows, l2, counted), True)


def _cheaper(claim: str, found: list[tuple[float, float]], base: tuple[float, float], claims: Claims) -> None:
    best = min(found)
    said = f"{best[1]:g} rounds and {best[0]:.3g} multiply-adds a client to {LEFT:g}, with the inverse {base[1]:g} and "
    claims.add(claim, math.isfinite(best[0]) and best[0] < base[0], f"{said}{base[0]:.3g}")


def _on_gauss_newton(claims: Claims) -> None:
    (client,) = drawn(1, 90, 12)
    J = jacobian(client, np.ones(12), RIDGE)
    H = Squared(l2=RIDGE).hessian(client, np.ones(12)).full()
    gap = float(np.linalg.norm(J.T @ J - H) / np.linalg.norm(H))
    said = f"its matrix differs from the Hessian by {gap:.1g}, relative: it is formed and solved at the same cost"
    claims.add("Gauss-Newton: fewer multiply-adds than the inverse", gap > SAME, said)


@experiment(
    "fednewton-inverse",
    paper="FedNewton",
    place="Remark 1",
    title="BFGS, L-BFGS, Gauss-Newton and a Newton sketch in place of the inverse",
    takes="1 min",
    seeds=1,
)
def inverse(seeds: Seeds, quick: bool) -> Result:
    """Inexact solutions save work on well-conditioned problems, and not on the paper's synthetic data."""
    claims = Claims(quick)
    width = WIDTH // 4 if quick else WIDTH
    found: dict[str, tuple[float, float]] = {}
    for _, name in seeds.over(("BFGS", "L-BFGS", "a Newton sketch")):
        rows = (ROWS if name == "a Newton sketch" else FEW) * width // WIDTH
        clients = drawn(4, rows, width)
        base = found[f"the inverse, |D_j| = {rows}"] = cost(clients, RIDGE, exact(RIDGE))
        if name == "a Newton sketch":
            tried = cost(clients, RIDGE, sketched(TIMES * width, RIDGE))
        else:
            tried = cost(clients, RIDGE, stepped(bfgs_solution if name == "BFGS" else lbfgs_solution, RIDGE, STEPS))
        found[f"{name}, |D_j| = {rows}"] = tried
        _cheaper(f"{name}: fewer multiply-adds than the inverse", [tried], base, claims)
    hard = problem(CLIENTS, EACH, 0.0, 0).clients
    base = found["the inverse, synthetic"] = cost(hard, L2, exact(L2))
    for name, solution in (("BFGS", bfgs_solution), ("L-BFGS", lbfgs_solution)):
        every = [cost(hard, L2, stepped(solution, L2, steps)) for steps in HARD_STEPS[: 1 if quick else None]]
        found[f"{name}, synthetic"] = min(every)
        _cheaper(f"synthetic data, {name}: fewer multiply-adds than the inverse", every, base, claims)
    _on_gauss_newton(claims)
    return Result(
        columns=(Column("in place of the inverse"), Column("multiply-adds", "{:.3g}".format), Column("rounds")),
        rows=[(name, *one) for name, one in found.items()],
        claims=claims.found,
        notes=(
            f"Four clients of standard normal features, M = {width}, λ = {RIDGE:g}; {STEPS} steps of BFGS and L-BFGS "
            f"({MEMORY} pairs) a solution, a count sketch of {TIMES} M rows. Synthetic: {CLIENTS} clients of {EACH} "
            f"samples alike, M = 200, λ = {L2:g}, the best of {HARD_STEPS} steps. To {LEFT:g} of the first distance "
            f"from the pooled solution, in at most {MOST} rounds; multiply-adds as in fednewton-work.",
        ),
    )
