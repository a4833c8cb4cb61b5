"""What is measured for each theorem, for one seed: distances to f*, limits in closed form, bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsolve.diagnose import exact_input_distances
from fedsolve.reproduce.ffgb.oracles import Stump
from fedsolve.reproduce.ffgb.theory_bounds import Setting, effective_gamma, theorem_4_1, theorem_4_3, theorem_4_4
from fedsolve.reproduce.ffgb.theory_problems import MU, POINTS, L, own_blocks, same_inputs, shifted, solution
from fedsolve.reproduce.ffgb.theory_runs import Residual, classes, scaled, squares

GAMMA = 0.3  # of the weak oracles
G = 1.0  # |σ(f) − y| is at most 1
RESIDUALS: Mapping[str, Residual] = {"in the round": "round", "carried": "carried", "none": None}


@dataclass(frozen=True)
class Sizes:
    """How large the experiment is."""

    local: tuple[int, ...] = (1, 2, 4, 8, 16)  # K; K² rounds are the K = √T of Corollary 4.1
    rounds: int = 256
    middle: int = 8  # K where residuals are compared
    shares: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
    shifts: tuple[float, ...] = (0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
    stump_rounds: int = 20
    stump_steps: int = 30


QUICK = Sizes((1, 2, 4), 32, 4, (0.0, 0.5), (0.0, 0.1), 5, 10)


@dataclass(frozen=True)
class Found:
    """A distance ‖f − f*‖², what it is compared with, and the way there.

    limit  where the algorithm ends, in closed form
    bound  of the theorem, with constants 1
    at     what it is a function of: ω_TV or ω_W1
    """

    distance: float
    limit: float | None = None
    bound: float | None = None
    at: float | None = None
    curve: tuple[float, ...] = ()


def equal_inputs(seed: int, sizes: Sizes) -> dict[str, Found]:
    """Theorem 4.3, with h = γφ: fixed K and K = √T; residuals; stumps."""
    problem, labels = same_inputs(seed)
    ones, found = np.ones(labels.shape), {}

    def limit(factor: float) -> float:
        return float(problem.distance(solution(labels, ones, MU, factor)))

    def bound(K: int, T: int) -> float:
        return sum(theorem_4_3(Setting(float(problem.distance(0 * problem.best)), K, T, MU, GAMMA, G)).values())

    for K in sizes.local:
        curve = scaled(problem, GAMMA, sizes.rounds, K=K, rule="theorem 4.3")
        end = float(curve[-1])
        found[f"K = {K}"] = Found(
            end, limit(effective_gamma(GAMMA, K)), bound(K, sizes.rounds), curve=tuple(curve.tolist())
        )
        if 1 < K <= math.isqrt(sizes.rounds):
            found[f"T = {K * K}"] = Found(float(curve[K * K]), bound=bound(K, K * K))
    for name, residual in RESIDUALS.items():
        curve = scaled(problem, GAMMA, sizes.rounds, K=sizes.middle, rule="theorem 4.3", residual=residual)
        ends = {"in the round": limit(effective_gamma(GAMMA, sizes.middle)), "carried": 0.0, "none": limit(GAMMA)}
        found[f"residual {name}"] = Found(float(curve[-1]), ends[name], curve=tuple(curve.tolist()))
        curve = classes(
            problem,
            Stump(POINTS),
            sizes.stump_rounds,
            K=sizes.stump_steps,
            rule="theorem 4.3",
            residual=residual,
        )
        found[f"stumps, residual {name}"] = Found(float(curve[-1]), curve=tuple(curve.tolist()))
    return found


def unequal_inputs(seed: int, sizes: Sizes) -> dict[str, Found]:
    """Theorem 4.1, with an exact oracle (γ = 1) on each client's support, over ω_TV."""
    found, K, T = {}, 4, min(64, sizes.rounds)
    for share in sizes.shares:
        problem, labels = own_blocks(share, seed)
        omega = exact_input_distances(problem.clients).omega_tv
        curve = scaled(problem, 1.0, T, K=K, rule="theorem 4.1")
        # FFGB averages functions, so that all clients count the same at every point.
        limit = float(problem.distance(solution(labels, np.ones(labels.shape), MU)))
        bound = theorem_4_1(Setting(float(curve[0]), K, T, MU, 1.0, G), omega)["inputs"]
        found[f"share {share:g}"] = Found(float(curve[-1]), limit, bound, omega, tuple(curve.tolist()))
    return found


def square_loss(seed: int, sizes: Sizes) -> dict[str, Found]:
    """Theorem 4.4, with Lipschitz extensions, over ω_W1; and a weak oracle (γ = 0.3) at one shift."""
    found, K, T = {}, 2, 8
    for shift in sizes.shifts:
        posed = shifted(shift, seed)
        omega = exact_input_distances(posed.problem.clients, standardise=False)
        f = squares(posed, 1.0, T, K=K)
        setting = Setting(float(posed.problem.distance(f[0])), K, T, 1.0, 1.0, posed.G)
        bound = theorem_4_4(setting, omega.omega_w1, L, posed.D, posed.B)["inputs"]
        limit = float(posed.problem.distance(posed.extensions))
        off = float(np.abs(f[-1] - posed.extensions).max())
        found[f"shift {shift:g}"] = Found(float(posed.problem.distance(f[-1])), limit, bound, omega.omega_w1)
        found[f"shift {shift:g}, off ū"] = Found(off, at=omega.omega_tv)
    posed, K, T = shifted(0.1, seed), 4, min(64, sizes.rounds)
    end = posed.problem.distance(squares(posed, GAMMA, T, K=K)[-1])
    limit = float(posed.problem.distance(effective_gamma(GAMMA, K) * posed.extensions))
    found["weak oracle"] = Found(float(end), limit)
    return found
