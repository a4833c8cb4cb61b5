"""Sections 1 and 3 of Shen et al. (2022): what boosting builds, and what FFGB does and sends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.federation.client import Client
from fedsolve.federation.participation import Participation
from fedsolve.learners import RidgeLearner, WeakLearner
from fedsolve.learners.trees import Trees
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.losses import Logistic, Softmax
from fedsolve.models import Ensemble
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within
from fedsolve.reproduce.ffgb.oracles import ScaleOracle
from fedsolve.reproduce.ffgb.theory_problems import MU, POINTS, Problem, same_inputs
from fedsolve.typing import Array

S1, S3, A1 = "Section 1", "Section 3", "Algorithms 1 and 2"
ADDED = Within(S1, "boosting on one machine adds one function in each stage: functions over stages", most=1.0, give=0.0)
FALLS = Check(S1, "the training loss after a stage over that before it, depth-1 trees, ridge, 30 stages", "times")
FEDERATED = Check(S1, "FFGB, 4 clients: the training loss after 30 rounds over that at the start, both", "times", 0.9)
STRONG = AtLeast(S1, "accuracy of the ensemble less that of the best first tree, 4 clients, new rows", most=0.1)
STRONGER = AtLeast(S1, "… less that of the best client's own ensemble of 60 rounds", most=0.0)
CENTRAL = Check(
    "Section 6",
    "boosting 200 depth-1 trees on the pooled rows: the share of new rows that it misses, less what the nearest of "
    "their class means misses",
    "times",
    0.05,
)
ALGORITHM = Same(A1, "fs.run with FFGB is Algorithms 1 and 2 line by line, all clients, K = 3, 6 rounds")
SAMPLED = Same(A1, "… with half of the clients in each round, averaged over those")
SENT_UP = Within(S3, "functions that a client sends per round over K, K = 4", most=1.0, give=0.0)
SENT_DOWN = Within(S3, "functions that a client is sent per round over N·K, from the second round", most=1.0, give=0.1)
HIDDEN = AtLeast(S3, "(f^t − g_i)/η − μf^t is off ∇R_i by a tenth of it at least, K = 1, γ = 0.3 to 1", most=0.1)
CHECKS = (ADDED, FALLS, FEDERATED, STRONG, STRONGER, CENTRAL, ALGORITHM, SAMPLED, SENT_UP, SENT_DOWN, HIDDEN)
CLASSES, INPUTS, ROWS = 5, 8, 100


def measure(seed: int, rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    _boosting(rng, found)
    _written_out(seed, found)


def blobs(rng: np.random.Generator, clients: int) -> tuple[list[Client], Client]:
    """Classes about their centres, in shares of the client's own; and new rows of all of them."""
    centres = rng.standard_normal((CLASSES, INPUTS))

    def draw(name: str, rows: int, shares: Array) -> Client:
        y = rng.choice(CLASSES, rows, p=shares)
        return Client(name, centres[y] + 0.7 * rng.standard_normal((rows, INPUTS)), y.astype(float))

    own = [draw(f"c{i}", ROWS, rng.dirichlet(np.ones(CLASSES))) for i in range(clients)]
    return own, draw("new", 2000, np.full(CLASSES, 1 / CLASSES))


def _boosted(learner: WeakLearner, clients: Sequence[Client], rounds: int, step_size: float = 0.3) -> Run:
    return run(
        FFGB(Softmax(classes=CLASSES), learner, step_size=step_size), clients, rounds=rounds, tolerance=0, min_rows=0
    )


def _boosting(rng: np.random.Generator, found: Found) -> None:
    """One machine, then several."""
    clients, new = blobs(rng, 4)
    for learner in (Trees(depth=1), RidgeLearner()):
        alone = _boosted(learner, clients[:1], 30)
        assert isinstance(alone.model, Ensemble)
        found.note(ADDED, len(alone.model.parts[0].coefficients))
        found.note(ADDED, sum(len(one.coefficients) for one in alone.model.parts) / 30)
        values = np.array([row.value for row in alone.history])
        found.note(FALLS, values[1:] / values[:-1])
        together = _boosted(learner, clients, 30)
        ends = np.array([row.value for row in together.history])
        found.note(FEDERATED, ends[-1] / ends[0])
        if isinstance(learner, Trees):
            truth = np.asarray(new.y)
            first = max(np.mean(_boosted(learner, [one], 1).model.predict(new.X) == truth) for one in clients)
            pooled = Client("all", np.vstack([c.X for c in clients]), np.concatenate([c.y for c in clients]))
            alone_60, ours, central = (
                max(float(np.mean(_boosted(learner, some, rounds, 1.0).model.predict(new.X) == truth)) for some in each)
                for each, rounds in (([[one] for one in clients], 60), ([clients], 60), ([[pooled]], 200))
            )
            found.note(STRONG, ours - first)
            found.note(STRONGER, ours - alone_60)
            found.note(CENTRAL, _nearest_mean(new) - central)


def _nearest_mean(new: Client) -> float:
    """The accuracy of the nearest class mean, with the means of these very rows."""
    X, y = np.asarray(new.X), np.asarray(new.y)
    means = np.array([X[y == c].mean(axis=0) for c in range(CLASSES)])
    return float(np.mean(np.linalg.norm(X[:, None] - means, axis=2).argmin(axis=1) == y))


def _written_out(seed: int, found: Found) -> None:
    """The library's rounds, and Algorithms 1 and 2 on the points, with the oracle h = γφ."""
    problem, labels = same_inputs(seed, clients=6)
    for fraction, check in ((1.0, ALGORITHM), (0.5, SAMPLED)):
        algorithm = FFGB(Logistic(), ScaleOracle(0.3, POINTS), steps=3, step_size="theorem 4.3", tikhonov=MU)
        some = Participation(fraction=fraction)
        done = run(algorithm, problem.clients, rounds=6, tolerance=0, min_rows=0, measure=0, participation=some)
        asked = done.ledger.cohorts()
        cohorts = [[int(name[1:]) for name in asked[t, 0]] for t in range(1, 7)]
        f = by_hand(labels, cohorts, 3, 0.3)
        found.same(check, _logit(done, problem), f, np.abs(f).max())
    algorithm = FFGB(Logistic(), ScaleOracle(0.3, POINTS), steps=4, step_size=0.5)
    done = run(algorithm, problem.clients, rounds=4, tolerance=0, min_rows=0, measure=0)
    for t in range(1, 5):
        total = done.ledger.total(rounds=[t])
        found.note(SENT_UP, total.scalars_up / (6 * 4 * POINTS))
        if t > 1:
            found.note(SENT_DOWN, total.scalars_down / (6 * 6 * 4 * POINTS))
    f = np.linspace(-1, 1, POINTS)
    for gamma in (0.3, 0.7, 1.0):
        slope = 1 / (1 + np.exp(-f)) - labels[0]
        g = f - 0.5 * (gamma * slope + MU * f)
        found.note(HIDDEN, np.linalg.norm((f - g) / 0.5 - MU * f - slope) / np.linalg.norm(slope))


def _logit(done: Run, problem: Problem) -> Array:
    assert isinstance(done.model, Ensemble)
    return np.asarray(done.model.decision_function(problem.support))


def by_hand(labels: Array, cohorts: Sequence[Sequence[int]], K: int, gamma: float) -> Array:
    """f^T by Algorithm 1 with these S^t, Algorithm 2 and the step sizes of Theorem 4.3."""
    f = np.zeros(labels.shape[1])
    for t, cohort in enumerate(cohorts):
        returned = []
        for i in cohort:
            delta, g = np.zeros_like(f), f
            for k in range(1, K + 1):
                slope = 1 / (1 + np.exp(-g)) - labels[i]
                h = gamma * (delta + slope)
                delta = delta + slope - h
                g = g - 2 / (MU * (t * K + k + 1)) * (h + MU * g)
            returned.append(g)
        f = np.mean(returned, axis=0)
    return f
