"""Su, Xu and Yang (2023), section 1: with truths that differ f_t approaches a common f, at finite rank f̄ of (27).

Expectations over the noise are exact. θ̄ is computed from Δ·Ψ = 0 with Ψ(x) = ηK_x P, and f_t from the rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.closed_forms.methods import Method
from fedsolve.closed_forms.recursion import local_blocks
from fedsolve.reproduce.nonparametric.proof_designs import by_clients
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D, Rounds, methods
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

ENDS = identity(
    "Section 1, contributions",
    "clients with truths of their own, finite rank: without noise f_t ends at the f̄ with Δ·Ψ = 0, Ψ by the clients’ "
    "kernel matrices",
)
FALLS = Quantity(
    "Section 1, contributions",
    "… with noise E‖f_t − f̄‖²_N falls, t = 0, 1, 2, 4, …, until it is within 5 % of where it ends",
    "next over last",
    most=1.0 - 1e-6,
)
APPROACHED = Quantity(
    "Section 1, contributions",
    "… and ends at most at 2 % of ‖f_0 − f̄‖²_N, N = 480 to 3,840",
    "error over that of f_0",
    most=0.02,
)
RESIDUAL = Quantity(
    "Section 1, contributions",
    "… that residual falls like 1/N: exponent −1 ± 0.1, N = 480 to 3,840",
    "exponent in N",
    -1.1,
    -0.9,
)
STAYS = Quantity(
    "Section 1, contributions; after Theorem 8",
    "… towards an f that balances nothing, the truth of any one client, the error does not fall with N: exponent at "
    "least −0.2",
    "exponent in N",
    least=-0.2,
)
FLOOR = Quantity(
    "Section 1, contributions; after Theorem 8",
    "… and at N = 3,840 it is at least 10 times the residual",
    "error over the residual",
    least=10.0,
)
QUANTITIES = (ENDS, FALLS, APPROACHED, RESIDUAL, STAYS, FLOOR)
SIZES, TIMES, LAST = (30, 3, 15, 50, 22), (4, 8, 16, 32), 2**16
ROUNDS = (0, *(2**k for k in range(17)))


def measured(seed: int, notes: Notes) -> None:
    """The same truths for 480 to 3,840 rows."""
    rng = np.random.default_rng([seed, 131])
    truths = rng.standard_normal(D) + rng.standard_normal((len(SIZES), D))
    near: dict[str, list[float]] = defaultdict(list)
    far: dict[tuple[str, int], list[float]] = defaultdict(list)
    totals = [times * sum(SIZES) for times in TIMES]
    directions = [np.linalg.qr(rng.standard_normal((D, D)))[0] for _ in SIZES]
    scales = np.sqrt(np.linspace(0.3, 1, D))  # of the rows along them
    for times in TIMES:
        sizes = [times * n for n in SIZES]
        X = [rng.standard_normal((n, D)) * scales @ Q.T for n, Q in zip(sizes, directions, strict=True)]
        for method in methods(X):
            name, made = f"{type(method)}{method.steps}", by_clients(X, method)
            centre = made.centre(truths)
            if times == TIMES[0]:
                notes.same(ENDS, made.summed(LAST) @ made.C @ made.means(truths), balanced(X, truths, method))
                notes.same(ENDS, centre, balanced(X, truths, method))
            end = error(made, LAST, centre, centre)
            near[name].append(end)
            path = [error(made, t, centre, centre) for t in ROUNDS]
            notes.add(FALLS, *(after / before for before, after in pairwise(path) if before > 1.05 * end))
            notes.add(APPROACHED, end / float(centre @ made.G @ centre))
            for client, target in enumerate(truths):
                off = error(made, LAST, centre, target)
                far[name, client].append(off)
                if times == TIMES[-1]:
                    notes.add(FLOOR, off / end)
    notes.add(RESIDUAL, *(slope(totals, one) for one in near.values()))
    notes.add(STAYS, *(slope(totals, one) for one in far.values()))


def balanced(X: Sequence[Array], truths: Array, method: Method) -> Array:
    """θ̄ with Σ φ(x_i)ᵀP_ii(φ(x_i)θ̄ − f_i*(x_i)) = 0, which is Δ·Ψ = 0."""
    left, right = np.zeros((D, D)), np.zeros(D)
    for rows, own in zip(X, truths, strict=True):
        (P,) = local_blocks(rows @ rows.T, (len(rows),), method)
        left, right = left + rows.T @ P @ rows, right + rows.T @ P @ rows @ own
    return np.asarray(np.linalg.solve(left, right))


def error(made: Rounds, t: int, centre: Array, target: Array) -> float:
    """E‖f_t − f‖²_N from f_0 = 0; θ̄ is `centre` and the coefficients of f `target`."""
    bias = centre - np.linalg.matrix_power(made.A, t) @ centre - target
    moved = made.summed(t) @ made.C
    return float(bias @ made.G @ bias + SIGMA**2 * np.einsum("in,ij,jn->", moved, made.G, moved, optimize=True))
