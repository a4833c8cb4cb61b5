"""SHED, sections 5 and 5.1: what a renewal gains over going on with the outdated Hessian, early and late."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.shed.paired import ERRORS, mean_error
from fedsolve.reproduce.shed.small_logistic import ALPHA, BETA, Agents, estimate
from fedsolve.typing import Array

N, AGENTS, SAMPLES, MUS = 8, 4, 30, (0.01, 1e-3)
SHORT, LONG = 4, 6  # iterations between renewals; a Hessian has n − 1 = 7 pairs to send
FOLLOWED = {SHORT: 4, LONG: 1}  # renewals that are looked at
FRESH = 1000  # the problems of a trial had lower seeds
AWAY = 3.0  # standard deviations of the starting point around θ*
FLOOR = 1e-13  # errors below are rounding
Known = tuple[Array, Array, Array]  # eigenvalues and eigenvectors at the last renewal, pairs sent


def _renewed(of: Agents, w: Array) -> Known:
    return *of.spectra(w), np.zeros(len(of.rows), dtype=int)


def advanced(of: Agents, w: Array, known: Known, iterations: int) -> tuple[Array, Known]:
    """So many iterations of Algorithm 4 without a renewal, one more eigenpair of every agent in each."""
    values, vectors, counts = known
    for _ in range(iterations):
        counts = np.minimum(counts + 1, of.n - 1)
        parts, _ = estimate(values, vectors, counts)
        g, eta = of.gradient(w), 1.0
        p = np.linalg.solve(of.mean(parts), g)
        while norm(g) > 1e-7 and of.value(w - eta * p) > of.value(w) - ALPHA * eta * float(p @ g):
            eta *= BETA
        w = w - eta * p
    return w, (values, vectors, counts)


def gains(seed: int, mu: float, period: int) -> list[float]:
    """Decimal digits of the error after `period` more iterations that each renewal gains over going on; below 0 where
    it loses some. The run itself renews."""
    of = Agents(FRESH + seed, N, AGENTS, SAMPLES, mu)
    w = of.best + AWAY * np.random.default_rng((FRESH + seed, 73)).standard_normal(N)
    w, known = advanced(of, w, _renewed(of, w), period)
    found = []
    for _ in range(FOLLOWED[period]):
        after, fresh = advanced(of, w, _renewed(of, w), period)
        other, _ = advanced(of, w, known, period)
        with_it, without = (max(norm(one - of.best), FLOOR) for one in (after, other))
        found.append(float(np.log10(without / with_it)))
        w, known = after, fresh
    return found


def _told(values: Sequence[float]) -> str:
    mean, error = mean_error(values)
    return f"{number(mean, 3)} ± {number(error, 2)}"


def falling(paths: Sequence[Sequence[float]]) -> tuple[bool, str]:
    """Whether every renewal gains less than the one before, by paired differences of more than two standard errors."""
    steps = [[b - a for a, b in pairwise(path)] for path in paths]
    columns = [list(column) for column in zip(*steps, strict=True)]
    holds = all(mean < -ERRORS * error for mean, error in map(mean_error, columns))
    return holds, "digits from a renewal to the next: " + ", ".join(map(_told, columns))


def gaining(first: Sequence[float]) -> tuple[bool, str]:
    """Whether the first renewal gains anything, by more than two standard errors."""
    mean, error = mean_error(first)
    return mean > ERRORS * error, f"{_told(first)} digits in {len(first)} problems"


@experiment(
    "shed-renewing",
    paper="SHED",
    place="sections 5 and 5.1",
    title="What a renewal gains over going on with the outdated Hessian",
    takes="30 s",
    seeds=100,
    quick_seeds=2,
)
def renewing(seeds: Seeds, quick: bool) -> Result:
    """From the same point, with the same eigenpairs to send: with a renewal, and without one."""
    paths: dict[tuple[float, int], list[list[float]]] = {(mu, T): [] for mu in MUS for T in FOLLOWED}
    for seed, (mu, T) in seeds.over(paths):
        paths[mu, T].append(gains(seed, mu, T))
    claims = Claims(quick)
    for mu in MUS:
        claims.add(f"μ = {mu:g}: every renewal gains less than the one before", *falling(paths[mu, SHORT]))
        later = [-path[-1] for path in paths[mu, SHORT]]
        claims.add(f"μ = {mu:g}: the fourth renewal loses", gaining(later)[0], f"it loses {_told(later)} digits")
    for T in FOLLOWED:
        first = [path[0] for path in paths[MUS[0], T]]
        claims.add(f"μ = {MUS[0]:g}: a first renewal after {T} iterations gains", *gaining(first))
    rows = [
        (f"{mu:g}", T, k + 1, Measured(tuple(path[k] for path in found)))
        for (mu, T), found in paths.items()
        for k in range(FOLLOWED[T])
    ]
    gained = Column("digits gained", lambda value: number(value, 3), average="mean")
    return Result(
        columns=(Column("μ"), Column("T"), Column("renewal"), gained),
        rows=rows,
        claims=claims.found,
        notes=(
            f"Random logistic regression, n = {N}, {AGENTS} agents of {SAMPLES} samples, from θ* + {AWAY:g} z; a run "
            "that renews every T iterations. At each renewal the same point is followed for T more iterations without "
            "it; “gains” are the digits of the error between both. Holds by more than two standard errors.",
        ),
    )
