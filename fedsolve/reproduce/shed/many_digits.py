"""Algorithm 4 in decimal numbers of any length, for a tiny logistic regression.

Superlinear convergence is a matter of what happens after the sixteen digits of a float: here there are hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import TypeAlias

import numpy as np

Vector: TypeAlias = list[Decimal]
Matrix: TypeAlias = list[list[Decimal]]
ZERO, ONE = Decimal(0), Decimal(1)


def dot(a: Vector, b: Vector) -> Decimal:
    return sum((x * y for x, y in zip(a, b, strict=True)), ZERO)


def minus(a: Vector, b: Vector, scale: Decimal = ONE) -> Vector:
    """a − scale · b."""
    return [x - scale * y for x, y in zip(a, b, strict=True)]


def length(a: Vector) -> Decimal:
    return dot(a, a).sqrt()


def solve(A: Matrix, b: Vector) -> Vector:
    """A⁻¹b by elimination, for a positive definite A."""
    n, rows = len(b), [[*row, value] for row, value in zip(A, b, strict=True)]
    for i in range(n):
        for j in range(i + 1, n):
            rows[j] = minus(rows[j], rows[i], rows[j][i] / rows[i][i])
    x = [ZERO] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - dot(rows[i][i + 1 : n], x[i + 1 :])) / rows[i][i]
    return x


def eigenpairs(A: Matrix) -> list[tuple[Decimal, Vector]]:
    """Eigenvalues in falling order with their vectors, by Jacobi's rotations."""
    n, A = len(A), [list(row) for row in A]
    V = [[ONE if i == j else ZERO for j in range(n)] for i in range(n)]
    scale = max(abs(x) for row in A for x in row)
    with localcontext() as digits:
        tiny = scale * Decimal(10) ** -(digits.prec - 5)
    while max(abs(A[i][j]) for i in range(n) for j in range(i)) > tiny:
        for p in range(n):
            for q in range(p + 1, n):
                if abs(A[p][q]) > tiny:
                    _rotate(A, V, p, q)
    return sorted(((A[j][j], [V[i][j] for i in range(n)]) for j in range(n)), key=lambda pair: -pair[0])


def _rotate(A: Matrix, V: Matrix, p: int, q: int) -> None:
    theta = (A[q][q] - A[p][p]) / (2 * A[p][q])
    t = (ONE if theta >= 0 else -ONE) / (abs(theta) + (theta * theta + 1).sqrt())
    c = ONE / (t * t + 1).sqrt()
    s = t * c
    for M in (A, V):
        for row in M:
            row[p], row[q] = c * row[p] - s * row[q], s * row[p] + c * row[q]
    A[p], A[q] = minus([c * x for x in A[p]], A[q], s), minus([c * x for x in A[q]], A[p], -s)


class Agent:
    """Samples with signs y x, and a ridge penalty."""

    def __init__(self, rows: Sequence[Sequence[float]], mu: Decimal) -> None:
        self.rows, self.mu = [[Decimal(value) for value in row] for row in rows], mu

    def value(self, w: Vector) -> Decimal:
        losses = sum(((1 + (-dot(x, w)).exp()).ln() for x in self.rows), ZERO)
        return losses / len(self.rows) + self.mu / 2 * dot(w, w)

    def gradient(self, w: Vector) -> Vector:
        g = [self.mu * one for one in w]
        for x in self.rows:
            g = minus(g, x, 1 / (1 + dot(x, w).exp()) / len(self.rows))
        return g

    def hessian(self, w: Vector) -> Matrix:
        n = len(w)
        H = [[self.mu if i == j else ZERO for j in range(n)] for i in range(n)]
        for x in self.rows:
            e = dot(x, w).exp()
            c = e / (1 + e) ** 2 / len(self.rows)
            H = [minus(row, x, -c * x[i]) for i, row in enumerate(H)]
        return H


def mean_matrix(matrices: Sequence[Matrix]) -> Matrix:
    n, M = len(matrices[0]), len(matrices)
    return [[sum((one[i][j] for one in matrices), ZERO) / M for j in range(n)] for i in range(n)]


def mean_vector(vectors: Sequence[Vector]) -> Vector:
    return [sum(column, ZERO) / len(vectors) for column in zip(*vectors, strict=True)]


def problem(seed: int, n: int, agents: int, samples: int, mu: float) -> list[Agent]:
    rng = np.random.default_rng(seed)
    return [Agent(rng.standard_normal((samples, n)).round(3).tolist(), Decimal(mu)) for _ in range(agents)]


def optimum(agents: Sequence[Agent], n: int, steps: int) -> Vector:
    """Newton's method; near the solution each step doubles the digits."""
    w = [ZERO] * n
    for _ in range(steps):
        g, H = mean_vector([one.gradient(w) for one in agents]), mean_matrix([one.hessian(w) for one in agents])
        w = minus(w, solve(H, g))
    return w


def shed(
    agents: Sequence[Agent], w: Vector, best: Vector, renews: Callable[[int], bool], until: Decimal, most: int
) -> list[Decimal]:
    """‖θ − θ*‖ of Algorithm 4 with one eigenpair a round, by iteration, until it is below `until`."""
    n, errors, q = len(w), [length(minus(w, best))], 0
    spectra: list[list[tuple[Decimal, Vector]]] = []
    for t in range(1, most + 1):
        if renews(t):
            spectra, q = [eigenpairs(one.hessian(w)) for one in agents], 0
        q = min(q + 1, n - 1)
        g = mean_vector([one.gradient(w) for one in agents])
        p = solve(mean_matrix([_estimate(one, q) for one in spectra]), g)
        w = minus(w, p, _backtrack(agents, w, p, g))
        errors.append(length(minus(w, best)))
        if errors[-1] < until:
            break
    return errors


def _estimate(pairs: list[tuple[Decimal, Vector]], q: int) -> Matrix:
    """Ĥ_i of (30)."""
    n, rho = len(pairs), pairs[q][0]
    H = [[rho if i == j else ZERO for j in range(n)] for i in range(n)]
    for value, v in pairs[:q]:
        H = [minus(row, v, -(value - rho) * v[i]) for i, row in enumerate(H)]
    return H


def _backtrack(agents: Sequence[Agent], w: Vector, p: Vector, g: Vector) -> Decimal:
    """Algorithm 2 with α = 1e-4 and β = 1/2."""

    def value(at: Vector) -> Decimal:
        return sum((one.value(at) for one in agents), ZERO) / len(agents)

    eta, here, slope = ONE, value(w), dot(g, p)
    while value(minus(w, p, eta)) > here - Decimal("1e-4") * eta * slope:
        eta /= 2
    return eta
