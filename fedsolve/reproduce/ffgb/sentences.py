"""Shen et al. (2022), sections 1 to 5: sentences that no theorem and no table is about."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.learners import RidgeLearner
from fedsolve.learners.trees import Trees
from fedsolve.loop.run import run
from fedsolve.losses import Softmax
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import sentences_fedavg as fedavg
from fedsolve.reproduce.ffgb import sentences_outputs as outputs
from fedsolve.reproduce.ffgb import sentences_runs as runs
from fedsolve.reproduce.ffgb import sentences_spaces as spaces
from fedsolve.reproduce.ffgb import sentences_square as square
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Within, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.proof_runs import Posed, boosted, posed, sup_oracle
from fedsolve.reproduce.ffgb.sentences_runs import CLASSES, blobs
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

CLIENTS, POINTS, MU, GAMMA = 5, 12, 0.5, 0.3
LOCAL = (2, 4, 8, 16)  # K; T = K²
BUDGET = 16  # functions that a client sends

DIRECT = Check(
    "Section 4.2",
    "equal inputs, errors as large as (10) allows, step sizes of Theorem 4.1, K = √T: ‖f^T − f*‖² falls like",
    "exponent",
    -0.5,
)
WITHOUT = Within(
    "Section 3, residual",
    "without the residual, K = 1, 4, 16 and 64: ‖f^T − f*‖² over that of γ∇R + μf = 0, equal inputs, h = γφ",
    most=1.0,
    give=0.02,
    words="{} times",
)
OTHER_WITHOUT = Within(
    "Section 3, residual", "… γ = 0.7 and 0.9, μ = 0.1 and 4, N = 2 and 20", most=1.0, give=0.02, words="{} times"
)
SOON = Check("Section 5", "‖f^T − f*‖² after 5 rounds over that after 256, unequal inputs, γ = 1, K = 4", "times", 2.0)
NEARER = Check(
    "Section 5", "‖f − f^256‖² after 5 rounds over that at the start, unequal inputs, γ = 1, K = 4", "times", 0.02
)
TURNS = "γ = 0.3 to 1, K = 1 to 16, μ = 0.1 to 4, N = 2 to 20"
SOON_ALL = Check("Section 5", f"‖f^T − f*‖² after 5 rounds over that after 256, h = γφ, {TURNS}", "times", 2.0)
NEARER_ALL = Check("Section 5", f"‖f − f^256‖² after 5 rounds over that at the start, h = γφ, {TURNS}", "times", 0.02)
SOON_ERRORS = Check(
    "Section 5",
    f"‖f^T − f*‖² after 5 rounds over that after 256, errors as large as (10) allows, {TURNS}",
    "times",
    2.0,
)
ONE_STEP = AtLeast(
    "Section 6", f"accuracy with K = 1 less that with K = 4 and 16, {BUDGET} functions sent by each, trees", most=0.0
)
ONE_STEP_RIDGE = AtLeast("Section 6", "… ridge fits", most=0.0)
CHECKS = (
    *runs.CHECKS,
    *fedavg.CHECKS,
    *spaces.CHECKS,
    *square.CHECKS,
    *outputs.CHECKS,
    DIRECT,
    WITHOUT,
    OTHER_WITHOUT,
    SOON,
    NEARER,
    SOON_ALL,
    NEARER_ALL,
    SOON_ERRORS,
    ONE_STEP,
    ONE_STEP_RIDGE,
)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 61]), Found()
    runs.measure(seed, rng, found)
    fedavg.measure(rng, found)
    spaces.measure(rng, found)
    square.measure(seed, rng, found)
    equal = posed(rng, CLIENTS, POINTS, MU, same=True)
    ends = []
    for K in LOCAL:
        last = list(boosted(equal, np.zeros(POINTS), sup_oracle(equal, GAMMA, rng), 4.0, K, K * K))[-1]
        off = last.after.mean(axis=0) - equal.best
        ends.append(float(equal.all(off, off)))
    found.note(DIRECT, float(np.polyfit(np.log(np.square(LOCAL)), np.log(ends), 1)[0]))
    ratios = [without_residual(equal, K) / distance(equal, limit(equal)) for K in (1, 4, 16, 64)]
    found.note(WITHOUT, max(ratios, key=lambda ratio: abs(ratio - 1)))
    general = posed(rng, CLIENTS, POINTS, MU, same=False)
    rounds = [step for step in boosted(general, np.zeros(POINTS), lambda query: query, 4.0, 4, 256) if step.k == 4]
    paths = np.array([step.after.mean(axis=0) for step in rounds])
    levels = general.all(paths - general.best, paths - general.best)
    found.note(SOON, levels[4] / levels[-1])
    left, whole = (f - paths[-1] for f in (paths[4], np.zeros(POINTS)))
    found.note(NEARER, float(general.all(left, left) / general.all(whole, whole)))
    _budgets(rng, found)
    outputs.measure(np.random.default_rng([seed, 137]), found)
    _turns(np.random.default_rng([seed, 157]), found)
    return found.worst


def _turns(rng: np.random.Generator, found: Found) -> None:
    """How soon FFGB is near its end, and where it ends without the residual: one quantity after the other."""
    for clients, mu, gamma, K in (
        *((5, MU, gamma, K) for gamma in (1.0, 0.7, GAMMA) for K in (1, 4, 16)),
        *((N, mu, 1.0, 4) for N, mu in ((5, 0.1), (5, 4.0), (2, MU), (20, MU))),
    ):
        one = posed(rng, clients, POINTS, mu, same=False)

        def scaled(query: Array, gamma: float = gamma) -> Array:
            return np.asarray(gamma * query)

        for oracle, check in ((scaled, SOON_ALL), (sup_oracle(one, gamma, rng), SOON_ERRORS)):
            steps = boosted(one, np.zeros(POINTS), oracle, 4.0, K, 256)
            paths = np.array([step.after.mean(axis=0) for step in steps if step.k == K])
            levels = one.all(paths - one.best, paths - one.best)
            found.note(check, levels[4] / levels[-1])
            if check is SOON_ALL:
                left, whole = paths[4] - paths[-1], paths[-1]
                found.note(NEARER_ALL, float(one.all(left, left) / one.all(whole, whole)))
    for gamma, mu, clients in (
        (0.7, MU, 5),
        (0.9, MU, 5),
        (GAMMA, 0.1, 5),
        (GAMMA, 4.0, 5),
        (GAMMA, MU, 2),
        (GAMMA, MU, 20),
    ):
        one = posed(rng, clients, POINTS, mu, same=True)
        ratio = without_residual(one, 8, gamma=gamma) / distance(one, limit(one, gamma))
        found.note(OTHER_WITHOUT, max(ratio, found.worst.get(OTHER_WITHOUT.claim, ratio), key=lambda r: abs(r - 1)))


def without_residual(one: Posed, K: int, steps: int = 16_384, gamma: float = GAMMA) -> float:
    """‖f^T − f*‖² of Algorithm 2 without lines 4's and 6's Δ, after so many steps of Theorem 4.3."""
    f = np.zeros(POINTS)
    for t in range(steps // K):
        g = np.tile(f, (len(one.mass), 1))
        for k in range(1, K + 1):
            g = g - 2 / (one.mu * (t * K + k + 1)) * (gamma * one.gradient(g) + one.mu * g)
        f = g.mean(axis=0)
    return distance(one, f)


def limit(one: Posed, gamma: float = GAMMA) -> Array:
    """The solution of γ∇R + μf = 0: f* of μ/γ."""
    return Posed(one.mass, one.labels, one.mu / gamma).best


def distance(one: Posed, f: Array) -> float:
    return float(one.all(f - one.best, f - one.best))


def _budgets(rng: np.random.Generator, found: Found) -> None:
    """K functions per round in BUDGET/K rounds; each K with the best of four step sizes, by new rows."""
    clients, new = blobs(rng, 4)
    for learner, check in ((Trees(depth=3), ONE_STEP), (RidgeLearner(), ONE_STEP_RIDGE)):
        best = {}
        for K in (1, 4, BUDGET):
            accuracies = []
            for step_size in (0.3, 1.0, 3.0, 10.0):
                algorithm = FFGB(Softmax(classes=CLASSES), learner, steps=K, step_size=step_size)
                model = run(algorithm, clients, rounds=BUDGET // K, tolerance=0, min_rows=0, measure=0).model
                accuracies.append(float(np.mean(model.predict(new.X) == np.asarray(new.y))))
            best[K] = max(accuracies)
        found.note(check, min(best[1] - best[4], best[1] - best[BUDGET]))


@experiment(
    "ffgb-sentences",
    paper=PAPER,
    place="Sections 1 to 5",
    title="What is said of boosting, messages, spaces, distances and extensions",
    takes="60 s",
)
def sentences(seeds: Seeds, quick: bool) -> Result:
    """Counts from ledgers, algorithms written out beside the library's, and small exact problems."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"Boosting: {CLASSES} classes about their centres in {runs.INPUTS} columns, 4 clients of {runs.ROWS} rows "
            "with shares of their own, 2,000 new rows. FedAvg, SCAFFOLD, FedDyn and FedProx: least squares, 4 clients "
            "with curvatures and solutions of their own, 500 rounds.",
            f"Section 4.2: {CLIENTS} clients, {POINTS} points, logistic loss, μ = {MU:g}, γ = {GAMMA:g}. Section 4.3: "
            "the problems of ffgb-theory and ffgb-square-proof. A claim holds if it holds in every seed.",
            f"Budgets: {BUDGET} functions per client, K in each round; each K has the best of the step sizes 0.3, 1, 3 "
            "and 10.",
        ),
        quick,
    )
