"""Su, Xu and Yang (2023): sentences in words, in numbers. Single clients beside all, a gain that falls, and why it is
small at first."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.nonparametric.methods import PAPER
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity, quantities_result
from fedsolve.reproduce.nonparametric.subspaces import FEATURES, draw_groups, gains, limit_points, local_estimate
from fedsolve.reproduce.nonparametric.theory_coefficients import SIZES, D, Rounds, methods, scaled_rows
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

TOGETHER = identity("Section 2.1", "at f̄ all clients together do not: ‖Δ·Ψ‖ is at most 1e-10 of ‖θ̄‖")
SINGLE = Quantity(
    "Section 2.1",
    "at f̄ every single client deviates: the least ‖Δ_i·Ψ_i‖ is at least 10 times that of all together",
    "least of one client over all",
    least=10.0,
)
LARGE = Quantity(
    "Section 2.1",
    "… and its own truth is far from f̄: ‖Δ_i‖ is at least a quarter of ‖f̄(x_i)‖",
    "least of one client",
    least=0.25,
)
RISES = Quantity(
    "Section 7.3",
    "with 500 rows the gain first increases: at r = 1 it is below half of its largest value",
    "share of it",
    most=0.5,
)
FALLS = Quantity(
    "Section 7.3", "… and quickly decreases as r approaches 100: there it is below half, too", "share of it", most=0.5
)
AT_80 = Quantity("Section 7.3", "… while at r = 80 it is still above half", "share of it", least=0.5)
OBSTACLE = Quantity(
    "Section 7.3",
    "up to r = 27 at least half of the mean squared error of pooled least squares is in columns that no client has",
    "share of it",
    least=0.5,
)
TYPICAL = Quantity("Section 7.3", "… and so it is in the median trial", "share of its squared error", least=0.5)
FEW_RISES = Quantity(
    "Section 7.3",
    "with 50 rows, too, the gain first increases: at r = 1 it is below half of that at r = 60",
    "share of it",
    most=0.5,
)
LEVEL = Quantity(
    "Section 7.3",
    "… and for each of the four methods it is within 25 % of 107 at r = 60, 80 and 100",
    "gain over 107",
    0.75,
    1.25,
)
FAR_BELOW = Quantity(
    "After Theorem 17",
    "with r = 5, N = 0.22 νd log d, the gain of either client is at most a twentieth of that with 50 rows at r = 60, "
    "four methods",
    "share of it",
    most=0.05,
)
COVERED = Quantity(
    "Section 7.3",
    "with M r ≥ 460, r = 23 and 27, the median pooled error of the trials in which all columns are covered is at most "
    "a tenth of ‖θ*‖",
    "median error over ‖θ*‖",
    most=0.1,
)
DEFINED = Quantity(
    "Section 7.3",
    "by Definition 15, a ratio of squares, the gain with 50 rows is within 25 % of 107, r = 60, 80 and 100",
    "gain over 107",
    0.75,
    1.25,
)
ROOTED = Quantity("Section 7.3", "… and its root is", "root of the gain over 107", 0.75, 1.25)
QUANTITIES = (
    TOGETHER,
    SINGLE,
    LARGE,
    RISES,
    FALLS,
    AT_80,
    OBSTACLE,
    TYPICAL,
    FEW_RISES,
    LEVEL,
    FAR_BELOW,
    COVERED,
    DEFINED,
    ROOTED,
)
GRID, TRIALS = (1, 5, 20, 40, 60, 80, 100), 10
UP_TO_27, MANY = (5, 10, 14, 16, 18, 20, 23, 25, 27), 100  # r, and trials


def deviations(made: Rounds, truths: Array) -> Array:
    """Δ_i·Ψ_i at f̄: how far each client alone would move θ̄, a row each, without noise."""
    off = made.means(truths) - np.vstack(made.X) @ made.centre(truths)
    ends = np.cumsum([len(rows) for rows in made.X])[:-1]
    return np.array([C @ part for C, part in zip(np.split(made.C, ends, axis=1), np.split(off, ends), strict=True)])


def distances(made: Rounds, truths: Array) -> list[float]:
    """‖Δ_i‖ over ‖f̄(x_i)‖, of each client."""
    centre = made.centre(truths)
    return [
        float(np.linalg.norm(rows @ (truth - centre)) / np.linalg.norm(rows @ centre))
        for rows, truth in zip(made.X, truths, strict=True)
    ]


def uncovered(r: int, trials: int, seed: int) -> tuple[float, float, float]:
    """The share of the squared error of pooled least squares in columns that no client has: of its mean over the
    trials, and in the median trial; and the median error over ‖θ*‖ of the trials without such columns, NaN if there
    are none. FedAvg with one step has the pooled solution as its limit."""
    truth, groups = draw_groups(r, trials, seed)
    errors = np.square(limit_points(groups, r)["s = 1"] - truth)
    seen = np.zeros((trials, FEATURES), dtype=bool)
    for group in groups:
        np.put_along_axis(seen, group.support.reshape(trials, -1), True, axis=1)
    missed, every = np.where(seen, 0.0, errors).sum(axis=1), errors.sum(axis=1)
    whole = seen.all(axis=1)
    learned = np.sqrt(every / np.square(truth).sum(axis=1))[whole]
    found = float(np.median(learned)) if whole.any() else float("nan")
    return float(missed.mean() / every.mean()), float(np.median(missed / every)), found


def defined_gain(r: int, trials: int, seed: int) -> float:
    """Definition 15 for a client with 50 rows: the mean squared error of its own estimate over that of s = 1."""
    truth, groups = draw_groups(r, trials, seed)
    alone = np.square(local_estimate(groups[0]) - truth).sum(axis=1).mean()
    return float(alone / np.square(limit_points(groups, r)["s = 1"] - truth).sum(axis=1).mean())


def measured(seed: int, trials: int, many: int) -> Mapping[Quantity, tuple[float, float]]:
    rng, notes = np.random.default_rng([seed, 21]), Notes()
    X = scaled_rows(rng, SIZES, 0.3)
    truths = rng.standard_normal(D) + rng.standard_normal((len(SIZES), D))
    for method in methods(X):
        made = Rounds.of(X, method)
        single = deviations(made, truths)
        least, together = np.linalg.norm(single, axis=1).min(), np.linalg.norm(single.sum(axis=0))
        notes.add(TOGETHER, together / np.linalg.norm(made.centre(truths)))
        notes.add(SINGLE, least / together)
        notes.add(LARGE, *distances(made, truths))
    both = {r: gains(r, trials, seed) for r in GRID}
    for name in both[1]:
        few, rich = ({r: pairs[name][kind] for r, pairs in both.items()} for kind in (0, 1))
        notes.add(FEW_RISES, few[1] / few[60])
        notes.add(FAR_BELOW, few[5] / few[60], rich[5] / few[60])
        notes.add(LEVEL, *(few[r] / 107 for r in (60, 80, 100)))
        for quantity, r in ((RISES, 1), (FALLS, 100), (AT_80, 80)):
            notes.add(quantity, rich[r] / max(rich.values()))
    for r in (60, 80, 100):
        ratio = defined_gain(r, trials, seed)
        notes.add(DEFINED, ratio / 107)
        notes.add(ROOTED, math.sqrt(ratio) / 107)
    for r in UP_TO_27:
        of_mean, median, learned = uncovered(r, many, seed)
        notes.add(OBSTACLE, of_mean)
        notes.add(TYPICAL, median)
        if r in (23, 27):
            notes.add(COVERED, learned)
    return dict(notes.ends)


@experiment(
    "nonparametric-sentences",
    paper=PAPER,
    place="Sections 2.1 and 7.3",
    title="Single clients beside all of them; the gain of a client with many rows; columns that no client has",
    takes="20 s",
)
def sentences(seeds: Seeds, quick: bool) -> Result:
    """What each client does at the limit where all together do nothing; where the gain of Figure 5 rises and falls."""
    trials, many = (2, 5) if quick else (TRIALS, MANY)
    return quantities_result(
        QUANTITIES,
        [measured(seed, trials, many) for seed in seeds],
        (
            f"Section 2.1: clients with {SIZES} rows, d = {D}, truths and covariances that differ, FedAvg with 1, 5 "
            "and 10 steps and FedProx, without noise.",
            f"Section 7.3: the federation of Figure 5, r = {', '.join(map(str, GRID))}, the mean of {trials} trials "
            "in each seed.",
            f"Columns that no client has: the same federation, r = {', '.join(map(str, UP_TO_27))}, {many} trials in "
            "each seed.",
        ),
        quick,
    )
