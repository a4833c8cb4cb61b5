"""FFGB on the problems of the theory: its distance to f* after every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.federation.client import Client
from fedsolve.learners import WeakLearner
from fedsolve.learners.parts import added, built, constant_at
from fedsolve.local.functional_rates import Rule
from fedsolve.loop.run import run
from fedsolve.losses import Logistic, Pointwise, Softmax
from fedsolve.losses.linear_part import LinearPart
from fedsolve.models import Ensemble
from fedsolve.reproduce.ffgb.oracles import Adversary, ScaledLipschitz, ScaleOracle
from fedsolve.reproduce.ffgb.theory_problems import MU, POINTS, L, Problem, Shifted
from fedsolve.typing import Array

Residual = Literal["round", "carried"] | None


def functions(
    loss: Pointwise,
    learner: WeakLearner,
    clients: Sequence[Client],
    support: Array,
    rounds: int,
    *,
    K: int,
    mu: float,
    rule: Rule | float,
    residual: Residual = "round",
) -> Array:
    """f⁰, …, f^T at the points, a row each: one run, whose parts are added up again."""
    algorithm = FFGB(loss, learner, steps=K, step_size=rule, tikhonov=mu, residual=residual)
    model = run(algorithm, clients, rounds=rounds, tolerance=0, measure=0, min_rows=0).model
    assert isinstance(model, Ensemble)
    f = constant_at(model.constant, np.zeros(len(support)))
    found = [f]
    for part in model.parts:
        members = built(learner, part, model.inputs, model.outputs)
        f = added(learner, part.decay, part.coefficients.tolist(), members, f, support)
        found.append(f)
    return np.array(found)


def classes(
    problem: Problem, learner: WeakLearner, rounds: int, *, K: int, rule: Rule, residual: Residual = "round"
) -> Array:
    """‖f^t − f*‖²_α for t = 0, …, T, with the logistic loss."""
    found = functions(
        Logistic(), learner, problem.clients, problem.support, rounds, K=K, mu=MU, rule=rule, residual=residual
    )
    return problem.distance(found)


def scaled(problem: Problem, gamma: float, rounds: int, *, K: int, rule: Rule, residual: Residual = "round") -> Array:
    """The same with the oracle h = γφ."""
    return classes(problem, ScaleOracle(gamma, POINTS), rounds, K=K, rule=rule, residual=residual)


def squares(posed: Shifted, gamma: float, rounds: int, *, K: int) -> Array:
    """f⁰, …, f^T at the points by Algorithm 3: the square loss with the Lipschitz oracle."""
    problem = posed.problem
    learner = ScaledLipschitz(constant=L, gamma=gamma)
    return functions(LinearPart(), learner, problem.clients, problem.support, rounds, K=K, mu=1.0, rule="theorem 4.4")


def adversarial(clients: Sequence[Client], rounds: int, *, K: int, mu: float, rule: Rule | float) -> float:
    """The largest entry of any f^t at the two points."""
    loss, support = Softmax(classes=2), np.array([[0.0], [1.0]])
    found = functions(loss, Adversary(), clients, support, rounds, K=K, mu=mu, rule=rule)
    return float(np.abs(found).max())
