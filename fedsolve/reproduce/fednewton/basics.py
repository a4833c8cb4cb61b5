"""FedNewton, sections 2 and 3, 7.3: the objective, the lines of Algorithm 1, Mercer's theorem and Remark 8."""

from __future__ import annotations

import math
from itertools import islice, pairwise

import numpy as np
from numpy.polynomial import hermite

from fedsolve.algorithms import FedNewton
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.fednewton.bounded import KAPPA, world
from fedsolve.reproduce.fednewton.definition2 import ADJOINT, PRODUCTS, inclusion
from fedsolve.reproduce.fednewton.proofs_operators import EXACT, apart
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

FEATURES, SIZES, L2, ALPHA, BETA = 40, (150, 300, 450, 600), 1e-2, 0.1, 0.1
MANY, TERMS, POINTS = 20_000, 70, (25, 50, 100, 200)

MINIMUM = "(1), (2): the closed form minimises the objective"
LINE_2, LINE_3 = "line 2: w_j⁰ minimises the client's own objective", "line 3: w̄⁰ is their weighted mean"
LINE_5 = "line 5: H_j w̄ − Φ_jᵀ y_j is the gradient from the rows"
LINE_6, LINE_7 = "line 6: the global gradient is that of the pooled objective", "line 7: the local update is H_j⁻¹ g"
LINE_8 = "lines 5 to 8: a round of the library is (5)"
MERCER = "Mercer: a Gaussian kernel is ⟨φ(x), φ(x')⟩ of its eigenfunctions"
MEAN, COVARIANCE = "C = E C_D of all clients together, to 2 %", "C_D β = mean of ⟨β, φ(x_i)⟩ φ(x_i), and Φᵀ Φ β"
POSITIVE, TRACE = "C, C_j, C_D, C_Dj have no eigenvalue below 0", "the traces of C, C_j, C_D and C_Dj are at most κ²"
VECTORS = "eigenvectors v of C_D give those of the kernel matrix, Φv/√σ"
FINITE, FINITE_DRAWN = "C of a bounded kernel has finite rank", "C_D has a rank of at most |D|"

CHECKS = (
    Check("(1), (2)", MINIMUM, "off", EXACT),
    Check("Algorithm 1", LINE_2, "off", EXACT),
    Check("Algorithm 1", LINE_3, "off", EXACT),
    Check("Algorithm 1", LINE_5, "off", EXACT),
    Check("Algorithm 1", LINE_6, "off", EXACT),
    Check("Algorithm 1", LINE_7, "off", EXACT),
    Check("(5)", LINE_8, "off", EXACT),
    Check("section 2", MERCER, "off", EXACT),
    Check("Definition 1", MEAN, "off", 0.02),
    Check("Definition 1", COVARIANCE, "off", EXACT),
    Check("Definition 2", ADJOINT, "off", EXACT),
    Check("Definition 2; Remark 8", PRODUCTS, "off", EXACT),
    Check("Remark 8", POSITIVE, "off", EXACT),
    Check("section 7.3", TRACE),
    Check("section 7.3", VECTORS, "off", EXACT),
    Check("Remark 8", FINITE, "times"),
    Check("Remark 8", FINITE_DRAWN),
)


def ridge_by_rows(X: Array, y: Array, l2: float) -> Array:
    """The minimiser of Σ (xᵀw − y)²/(2n) + λ‖w‖²/2 as a least squares problem, without normal equations."""
    n, p = X.shape
    rows = np.vstack([X / math.sqrt(n), math.sqrt(l2) * np.eye(p)])
    return np.asarray(np.linalg.lstsq(rows, np.concatenate([y / math.sqrt(n), np.zeros(p)]), rcond=None)[0])


def algorithm(parts: list[tuple[Array, Array]]) -> dict[str, float]:
    """What the library's clients answer, and a round of it, by the lines of Algorithm 1."""
    loss = Squared(l2=L2)
    method, clients = FedNewton(loss), [Client(f"client-{j}", *part) for j, part in enumerate(parts)]
    start, after = (one.state.w for one in islice(iterates(method, clients), 2))
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    p = np.array([len(one) for _, one in parts]) / len(y)
    own = [ridge_by_rows(*part, L2) for part in parts]
    H = [part.T @ part / len(part) + L2 * np.eye(FEATURES) for part, _ in parts]
    rows = [part.T @ (part @ start - targets) / len(part) + L2 * start for part, targets in parts]
    fresh = [Client(one.name, one.X, one.y) for one in clients]
    sent = [method.local_gradient(one, start) for one in fresh]
    g = p @ np.stack(rows)
    steps = [method.local_newton_step(one, g) for one in fresh]
    pooled = ridge_by_rows(X, y, L2)
    closed = np.linalg.solve(X.T @ X / len(y) + L2 * np.eye(FEATURES), X.T @ y / len(y))
    return {
        MINIMUM: apart(closed, pooled),
        LINE_2: max(apart(method.local_minimiser(one), best) for one, best in zip(fresh, own, strict=True)),
        LINE_3: apart(start, p @ np.stack(own)),
        LINE_5: max(map(apart, sent, rows)),
        LINE_6: apart(p @ np.stack(sent), X.T @ (X @ start - y) / len(y) + L2 * start),
        LINE_7: max(apart(step, np.linalg.solve(one, g)) for step, one in zip(steps, H, strict=True)),
        LINE_8: apart(after, start - p @ np.stack([np.linalg.solve(one, g) for one in H])),
    }


def mercer(x: Array) -> float:
    """exp(−(x − x')²/2) from its eigenfunctions for x ~ N(0, 1), Hermite polynomials times a Gaussian."""
    a, b = 0.25, 0.5
    c = math.sqrt(a * a + 2 * a * b)
    total = a + b + c
    found = np.zeros((len(x), len(x)))
    for k in range(TERMS):
        value = math.sqrt(2 * a / total) * (b / total) ** k
        size = math.sqrt(math.sqrt(a / c) * 2.0**k * math.factorial(k))
        function = np.exp(-(c - a) * x**2) * hermite.hermval(math.sqrt(2 * c) * x, [0.0] * k + [1.0]) / size
        found += value * np.outer(function, function)
    return float(np.abs(found - np.exp(-((x[:, None] - x) ** 2) / 2)).max())


def operators(rng: np.random.Generator) -> dict[str, float]:
    of = world(len(SIZES), FEATURES, ALPHA, BETA)
    locals_, few = of.locals(), [X for X, _ in of.draw(FEATURES // 2, rng)]
    C, many = np.mean(locals_, axis=0), np.concatenate([X for X, _ in of.draw(MANY, rng)])
    X, v = np.concatenate(few), rng.standard_normal(FEATURES)
    C_D = X.T @ X / len(X)
    by_rows = np.mean([float(v @ row) * row for row in X], axis=0)
    values, vectors = np.linalg.eigh(C_D)
    images = X @ vectors / np.sqrt(len(X) * values)
    every = [C, *locals_, C_D, *(one.T @ one / len(one) for one in few)]
    x = rng.uniform(0, 10, POINTS[-1])
    ranks = [int(np.linalg.matrix_rank(np.exp(-np.abs(x[:n, None] - x[:n])))) for n in POINTS]
    return {
        MEAN: apart(many.T @ many / len(many), C),
        COVARIANCE: apart(by_rows, C_D @ v),
        POSITIVE: max(-float(np.linalg.eigvalsh(one)[0]) / float(np.linalg.eigvalsh(one)[-1]) for one in every),
        TRACE: max(float(np.trace(one)) for one in every) / KAPPA**2,
        VECTORS: apart(X @ X.T / len(X) @ images, images * values),
        FINITE: max(b / a for a, b in pairwise(ranks)),
        FINITE_DRAWN: max(int(np.linalg.matrix_rank(one.T @ one)) / len(one) for one in few),
    }


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng((seed, 12))
    of = world(len(SIZES), FEATURES, ALPHA, BETA)
    parts = []
    for n, mean, target in zip(SIZES, of.means, of.targets, strict=True):
        X = of.phi.block(mean + rng.standard_normal((n, len(mean))))
        parts.append((X, X @ target + rng.uniform(-0.5, 0.5, n)))
    return {**algorithm(parts), MERCER: mercer(rng.uniform(-2, 2, 40)), **operators(rng), **inclusion(rng, FEATURES)}


@experiment(
    "fednewton-basics",
    paper="FedNewton",
    place="sections 2, 3 and 7.3",
    title="Algorithm 1 line by line, and what section 7.3 says of its operators",
    takes="5 s",
)
def basics(seeds: Seeds, quick: bool) -> Result:
    """Equalities to 1e-8, inequalities as left side over right side."""
    notes = (
        f"Four clients of {SIZES} samples with shifts of inputs and models, M = {FEATURES}, λ = {L2:g}; minimisers by "
        f"least squares on the rows. The Gaussian kernel is summed over {TERMS} eigenfunctions at 40 points. Finite "
        f"rank: the rank of the kernel matrix of exp(−|x − x'|) from one of {POINTS} points to the next, as a ratio; "
        "with a finite rank of C it would stay.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
