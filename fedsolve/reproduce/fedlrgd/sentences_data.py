"""(33) of Jadbabaie et al. (2023) where servers, θ and losses are not the usual ones; sizes of errors and boxes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, gradient, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

UNLIKE = Check(
    "Section I-A; Section I-B, 2",
    "the server's samples from another distribution than the clients': (33) differs by at most 5 %, median of 20",
    "off",
    0.05,
)
ANYWHERE = Check("Section III-B, (33)", "θ of norm 10 and 100: (33) differs by at most 5 %, median of 20", "off", 0.05)
ROUGH = AtLeast(
    "Section VI",
    "gradients that are not of low rank, sin(40 θᵀx): (33) differs by so much, median of 20",
    "times",
    0.05,
    unit="of the largest |g|",
)
SPANNED = Check(
    "Section III-B, after (36)",
    "ridge regression, rank 3: each client's row is a combination of three rows of the server, at every θ",
    "off",
    1e-8,
)
TWINS = Check("Section III-B, after (36)", "… also if two of these samples have x_1 = 0", "off", 1e-8)
PROBABLE = Check(
    "After Proposition 1",
    "empirical risk less the true one, its 95 % quantile of 300 draws: exponent, n = 100 to 10,000",
    "exponent",
    -0.45,
)
DIAMETER = Check("Footnote 10", "corners of [0, 1]^p, p = 1 to 300: their squared distance over p")
SINCE = Check("Footnote 10", "of a diameter of p alone, the exponent in p of its square", "exponent", 1.0)
CHECKS = (UNLIKE, ANYWHERE, ROUGH, SPANNED, TWINS, PROBABLE, DIAMETER, SINCE)
RANK, SAMPLES = 5, 40
Kernel = Callable[[Array, Array, Array], Array]


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 73])
    far = [_apart(rng, logistic, size) for size in (10.0, 100.0)]
    spanned, twins = _rows(rng)
    return named(
        {
            UNLIKE: _apart(rng, logistic, own=(1.0, 4.0), others=(4.0, 1.0)),
            ANYWHERE: max(far),
            ROUGH: _apart(rng, lambda X, _, at: np.sin(40 * X @ at.T)),
            SPANNED: spanned,
            TWINS: twins,
            PROBABLE: _probable(rng),
            **_boxes(rng),
        }
    )


def logistic(X: Array, y: Array, theta: Array) -> Array:
    """g_1 of Appendix A, samples by θ."""
    return gradient(X[:, None], y[:, None], theta[None])[..., 0]


def _apart(
    rng: np.random.Generator,
    g: Kernel,
    size: float | None = None,
    own: tuple[float, float] = (1.0, 1.0),
    others: tuple[float, float] = (1.0, 1.0),
) -> float:
    """The largest error of (33) over the largest |g|; probes in [−1, 1]², θ there or of this norm; beta samples."""
    found = []
    for _ in range(20):
        rows = [(rng.beta(*shape, (n, 2)), rng.random(n)) for shape, n in ((own, RANK), (others, SAMPLES))]
        probes, theta = rng.uniform(-1, 1, (RANK, 2)), rng.uniform(-1, 1, (30, 2))
        if size is not None:
            theta *= size / np.linalg.norm(theta, axis=1, keepdims=True)
        (G, sums), (server, exact) = ([g(*one, at) for one in rows] for at in (probes, theta))
        v = np.linalg.lstsq(G.T, sums.sum(axis=0), rcond=1e-15)[0]
        off = np.abs(v @ server - exact.sum(axis=0)).max() / (RANK + SAMPLES)
        found.append(float(off / np.abs(exact).max()))
    return float(np.median(found))


def _rows(rng: np.random.Generator) -> tuple[float, float]:
    """½(θᵀx − y)² + μ/2 ‖θ‖², p = 2; i = 1; three samples of the server anywhere, and two with x_1 = 0."""
    off = []
    twins = rng.random((3, 3))
    twins[:2, 0] = 0
    for own in (rng.random((3, 3)), twins):
        x, probes, theta = rng.random((SAMPLES, 3)), rng.uniform(-1, 1, (3, 2)), rng.uniform(-9, 9, (30, 2))

        def g(rows: Array, at: Array) -> Array:
            return np.asarray((rows[:, :2] @ at.T - rows[:, 2:]) * rows[:, :1] + MU * at[:, 0])

        w = np.linalg.lstsq(g(own, probes).T, g(x, probes).T, rcond=1e-13)[0].T
        off.append(float(np.abs(w @ g(own, theta) - g(x, theta)).max() / np.abs(g(x, theta)).max()))
    return off[0], off[1]


def _probable(rng: np.random.Generator) -> float:
    """The logistic loss at one θ, as in `theory_descent`, whose mean difference this is a quantile of."""
    theta = np.array([2.0, -1.0])

    def losses(count: int) -> Array:
        t = rng.random((count, 2)) @ theta
        return np.asarray(np.logaddexp(0, t) - (rng.random(count) < sigmoid(t)) * t)

    risk = float(losses(1_000_000).mean())
    far = [float(np.quantile([abs(losses(n).mean() - risk) for _ in range(300)], 0.95)) for n in (100, 10_000)]
    return float(np.log10(far[1] / far[0])) / 2


def _boxes(rng: np.random.Generator) -> dict[Check, float]:
    worst = 0.0
    for p, _ in product((1, 7, 300), range(50)):
        corners = np.vstack([rng.integers(0, 2, (20, p)), np.zeros(p), np.ones(p)])
        worst = max(worst, float(((corners[:, None] - corners) ** 2).sum(axis=2).max()) / p)
    squares = [float(np.square(np.linalg.norm(p * np.eye(p)[0]))) for p in (10, 1000)]  # 0 and a point p away
    return {DIAMETER: worst, SINCE: float(np.log10(squares[1] / squares[0])) / 2}
