"""Shen et al. (2022): the residual on one machine (section 3), and rounds of which some clients count (appendix G)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.federation.participation import Participation
from fedsolve.loop.run import run
from fedsolve.losses import Logistic
from fedsolve.models import Ensemble
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same
from fedsolve.reproduce.ffgb.oracles import ScaleOracle
from fedsolve.reproduce.ffgb.proof_runs import Posed, boosted, posed, square_oracle, sup_oracle
from fedsolve.reproduce.ffgb.theory_problems import MU, same_inputs
from fedsolve.typing import Array

POINTS, GAMMA = 12, 0.3
STEPS = 256, 1024, 4096
ALONE = Check(
    "Section 3, residual",
    "one machine, Algorithm 2 with its residual, K = 256 to 4,096 steps at one go: ‖f − f*‖² falls like",
    "exponent",
    -0.8,
)
IMAGINED = Same("Appendix G", "fs.run with half of the clients, and all clients' rounds of which only theirs are used")
OTHERS = AtLeast("Appendix G", "… while the clients that are not used return another function, by at least", most=1e-3)
CHECKS = (ALONE, IMAGINED, OTHERS)


def measure(seed: int, rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    one = posed(rng, 1, POINTS, MU, same=True)
    for oracle in (sup_oracle(one, GAMMA, rng), square_oracle(one, GAMMA, rng), lambda query: GAMMA * query):
        ends = [level(one, list(boosted(one, np.zeros(POINTS), oracle, 2.0, K, 1))[-1].after[0]) for K in STEPS]
        found.note(ALONE, float(np.polyfit(np.log(STEPS), np.log(ends), 1)[0]))
    _imagined(seed, found)


def level(one: Posed, f: Array) -> float:
    return float(one.all(f - one.best, f - one.best))


def _imagined(seed: int, found: Found) -> None:
    """Six clients with the same inputs, K = 3, six rounds, h = γφ."""
    problem, labels = same_inputs(seed, clients=6)
    algorithm = FFGB(Logistic(), ScaleOracle(GAMMA, labels.shape[1]), steps=3, step_size="theorem 4.3", tikhonov=MU)
    some = Participation(fraction=0.5)
    done = run(algorithm, problem.clients, rounds=6, tolerance=0, min_rows=0, measure=0, participation=some)
    assert isinstance(done.model, Ensemble)
    asked = done.ledger.cohorts()
    cohorts = [[int(name[1:]) for name in asked[t, 0]] for t in range(1, 7)]
    f, left = everyone(labels, cohorts, 3)
    found.same(IMAGINED, np.asarray(done.model.decision_function(problem.support)), f, np.abs(f).max())
    found.note(OTHERS, left)


def everyone(labels: Array, cohorts: Sequence[Sequence[int]], K: int) -> tuple[Array, float]:
    """f^T where every client takes its K steps in each round and the mean is over the cohort's; and by how much the
    mean of the others differs from it at least."""
    f, apart = np.zeros(labels.shape[1]), np.inf
    for t, cohort in enumerate(cohorts):
        g, delta = np.tile(f, (len(labels), 1)), np.zeros(labels.shape)
        for k in range(1, K + 1):
            query = delta + 1 / (1 + np.exp(-g)) - labels
            h = GAMMA * query
            delta = query - h
            g = g - 2 / (MU * (t * K + k + 1)) * (h + MU * g)
        f, others = g[list(cohort)].mean(axis=0), np.delete(g, list(cohort), axis=0).mean(axis=0)
        apart = min(apart, float(np.abs(f - others).max()))
    return f, apart
