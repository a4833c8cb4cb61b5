"""Section 4.3 of Shen et al. (2022), between the theorems: distances, labels, extensions, the gradient."""

from __future__ import annotations

import numpy as np
from numpy.linalg import norm

from fedsolve.diagnose import exact_input_distances, wasserstein
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same
from fedsolve.reproduce.ffgb.square_problems import CLIENTS, OWN, regression
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.reproduce.ffgb.theory_measures import Sizes
from fedsolve.reproduce.ffgb.theory_problems import L, shifted
from fedsolve.typing import Array

S, F2 = "Section 4.3", "Section 4.3, footnote 2"
MOVED = Same(S, "W_1 between 12 points and these moved by 0.001 to 1 is the distance, to 1e-8", most=1e-8)
SINGULAR = Same(S, "… while their total variation distance is 1")
TIGHTER = Check(S, "L(LD + B) ω_W1 over (LD + 2B)² ω_TV, shifts of 0.001 to 0.1", "times", 0.5)
TIGHTER_WIDE = Check(S, "… shifts of 0.3 and 1", "times", 0.5)
TIGHTER_FAR = Check(S, "… where a twentieth of a client's points is its own, 20 away", "times", 0.5)
ZERO_OFF = AtLeast(S, "‖ḡ − f*‖² with gradients that are 0 off the rows, over that with u_i, shift 0.001", most=100.0)
STEEP_OFF = AtLeast(S, "… and the largest slope of ḡ over L/γ", most=10.0)
NOISY = AtLeast(S, "labels with noise of 0.5: the largest miss of (13)", most=0.1)
NOISY_STEEP = AtLeast(S, "… the largest slope between labels over L", most=1.0)
PENALISED = Same(S, "f* of (9) with μ = 1 and the square loss is the labels")
FREE = Same(S, "… with μ = 0")
BY_OUTPUT = Check(F2, "(13) for each of two outputs: largest slope over L, jointly L-Lipschitz labels")
KIRSZBRAUN = Check(
    F2, "two outputs: the least slope to the labels of an extension to a further point, over L", most=1.0001
)  # the solver's accuracy
SLOPE = Check("Appendix B, (21)", "∇u_i = L (x − x_j)/‖x − x_j‖, j the nearest cone: against differences", "off", 1e-6)
KINK = Check(
    "Appendix B, (21)", "… and at the client's own points: slopes in opposite directions sum to 0", "off", 1e-3
)
CHECKS = (
    *(MOVED, SINGULAR, TIGHTER, TIGHTER_WIDE, TIGHTER_FAR, ZERO_OFF, STEEP_OFF, NOISY, NOISY_STEEP, PENALISED, FREE),
    *(BY_OUTPUT, KIRSZBRAUN, SLOPE, KINK),
)  # fmt: skip


def measure(seed: int, rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    _distances(seed, rng, found)
    _choice(seed, found)
    _labels(rng, found)
    _outputs(rng, found)
    _slopes(regression(rng), rng, found)


def _distances(seed: int, rng: np.random.Generator, found: Found) -> None:
    points, towards = rng.random((12, 2)), rng.standard_normal(2)
    for far in Sizes().shifts[1:]:
        moved = points + far * towards / norm(towards)
        found.same(MOVED, wasserstein(points, moved), far)
        same = (points[:, None] == moved[None]).all(axis=2).any(axis=1)
        found.same(SINGULAR, 1 - same.mean(), 1.0)
        posed = shifted(far, seed)
        omega = exact_input_distances(posed.problem.clients, standardise=False)
        radius = L * (L * posed.D + posed.B) * omega.omega_w1
        variation = (L * posed.D + 2 * posed.B) ** 2 * omega.omega_tv  # |g − y| is at most LD + 2B, by Lemma F.4
        found.note(TIGHTER if far <= 0.1 else TIGHTER_WIDE, radius / variation)
    found.note(TIGHTER_FAR, own_share(rng))


def own_share(rng: np.random.Generator, rows: int = 20) -> float:
    """W_1's radius over that of total variation: all but one of the rows are everybody's, one is far away."""
    common = rng.random((rows - 1, 2))
    angles = 2 * np.pi * np.arange(CLIENTS) / CLIENTS
    own = 20 * np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.vstack([common, own])
    mass = np.hstack([np.full((CLIENTS, rows - 1), 1 / rows), np.eye(CLIENTS) / rows])
    B = float(np.abs(0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1])).max())
    D = float(max(norm(common - one, axis=1).min() for one in own))
    alpha = mass.mean(axis=0)
    omega_w1 = float(np.mean([wasserstein(X, X, alpha, one) for one in mass]))
    omega_tv = float(np.abs(mass - alpha).sum(axis=1).mean() / 2)
    return (D + B) * omega_w1 / ((D + 2 * B) ** 2 * omega_tv)


def _choice(seed: int, found: Found) -> None:
    """Exact answers at the client's rows, and 0 instead of g − u_i elsewhere: also a gradient. γ = 1, f⁰ = 0."""
    posed = shifted(0.001, seed)
    problem, rows = posed.problem, 12
    inside = np.repeat(np.eye(len(problem.clients), dtype=bool), rows, axis=1)
    f = np.zeros(len(problem.best))
    for t in range(8):
        g = np.tile(f, (len(inside), 1))
        for k in (1, 2):
            g = g - 1 / (2 * t + k + 1) * np.where(inside, g - problem.best, 0.0)
        f = g.mean(axis=0)
    found.note(ZERO_OFF, float(problem.distance(f)) / float(problem.distance(posed.extensions)))
    one = Regression(problem.support, problem.best, np.repeat(np.arange(len(inside)), rows), L)
    found.note(STEEP_OFF, float(one.lip(g).max()) / L)


def _labels(rng: np.random.Generator, found: Found) -> None:
    """What (13) needs of the labels, and the minimiser of (9)."""
    one = regression(rng)
    noise = np.tile([0.5, -0.5], len(one.y) // 2)
    noisy = Regression(one.X, one.y + noise, one.owner, one.L)
    found.note(NOISY, noisy.sup(noisy.u - noisy.y).max())
    found.note(NOISY_STEEP, noisy.lip(noisy.y[None]) / one.L)
    for mu, check in ((1.0, PENALISED), (0.0, FREE)):
        found.same(check, minimum(one, mu), one.y)


def minimum(one: Regression, mu: float) -> Array:
    """f* of (9) for the square loss, by gradient descent in L²(α)."""
    f = np.zeros(len(one.y))
    for _ in range(200):
        f = f - 0.5 * ((one.mass * (f - one.y)).mean(axis=0) / one.alpha + mu * f)
    return f


def _outputs(rng: np.random.Generator, found: Found) -> None:
    """Labels in the plane, of slope at most 1: the inputs, folded along both axes and rotated."""
    from scipy.optimize import minimize

    X, angle = rng.random((CLIENTS * OWN, 2)), rng.uniform(0, 2 * np.pi)
    y = np.abs(X - 0.5) @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    there = rng.random((200, 2))
    apart = norm(there[:, None] - X[None], axis=2)
    u = np.stack([(y[:, c] + apart).min(axis=1) for c in range(2)], axis=1)
    between = norm(there[:, None] - there[None], axis=2) + np.eye(200)
    found.note(BY_OUTPUT, (norm(u[:, None] - u[None], axis=2) / between).max())
    for row in apart[:20]:  # the least t with ‖z − y_j‖ ≤ t ‖x − x_j‖ for all j

        def room(v: Array, row: Array = row) -> Array:
            return np.asarray((v[2] * row) ** 2 - ((v[:2] - y) ** 2).sum(axis=1))

        begin = np.array([*y[row.argmin()], 3.0])
        end = minimize(lambda v: v[2], begin, constraints={"type": "ineq", "fun": room}, method="SLSQP").x
        found.note(KIRSZBRAUN, (norm(end[:2] - y, axis=1) / row).max())


def _slopes(one: Regression, rng: np.random.Generator, found: Found) -> None:
    """The gradient of u_i, almost everywhere and at the tips of its cones."""
    X, y = one.X[one.inside[0]], one.y[one.inside[0]]

    def u(x: Array) -> float:
        return float((y + one.L * norm(X - x, axis=1)).min())

    h, right = 1e-7, np.array([1e-7, 0.0])
    for x in rng.random((200, 2)):
        j = int((y + one.L * norm(X - x, axis=1)).argmin())
        slope = np.array([(u(x + h * e) - u(x - h * e)) / (2 * h) for e in np.eye(2)])
        found.note(SLOPE, norm(slope - one.L * (x - X[j]) / norm(x - X[j])))
    for x in X:
        found.note(KINK, abs((u(x + right) - u(x)) / h + (u(x - right) - u(x)) / h))
