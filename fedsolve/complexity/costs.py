"""Γ to reach an accuracy: which of several algorithms is the cheapest, by what sending costs and how near it must be.

An algorithm may stand for several runs, with other hyper-parameters each. It then costs what the cheapest of them does,
for every φ and ε anew: it is tuned as well as the list of values allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from fedsolve.complexity.oracle import OracleComplexity

EPSILONS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True)
class Contestant:
    """One run that is compared.

    Attributes:
        algorithm: The name it is compared under; runs of the same name are one algorithm, tuned.
        run: The name of the run itself.
        values: The hyper-parameters that were tried with this run, where it is one of several.
        complexity: What the run cost.
        shares: (F − F*) / (F(0) − F*) by round (`Suboptimality`).
    """

    algorithm: str
    run: str
    values: Mapping[str, object]
    complexity: OracleComplexity
    shares: Mapping[int, float]

    def path(self, phi: float) -> Iterator[tuple[float, float, int]]:
        """Γ, the share and the round, for each round that is nearer than all before."""
        curve, least = self.complexity.at(phi).curve, math.inf
        for round, share in sorted(self.shares.items()):
            if share < least:
                least = share
                yield float(curve[round]), share, round


@dataclass(frozen=True)
class Cost:
    """What it takes an algorithm to reach an accuracy for the first time; without a cost where it never does.

    Attributes:
        phi: What sending a vector costs, in gradients.
        epsilon: The share of F(0) − F* that is left.
        algorithm: Whose cost it is.
        cost: Γ.
        run: Which of its runs is the cheapest.
        round: After how many rounds.
        values: The hyper-parameters of that run.
        is_least: Whether no other algorithm costs less.
    """

    phi: float
    epsilon: float
    algorithm: str
    cost: float | None = None
    run: str | None = None
    round: int | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    is_least: bool = False


def costs(contestants: Sequence[Contestant], phis: Sequence[float], epsilons: Sequence[float] = EPSILONS) -> list[Cost]:
    """What each algorithm costs, by φ and ε; the least in each place are marked."""
    groups = grouped(contestants)
    found: list[Cost] = []
    for phi in phis:
        for epsilon in epsilons:
            each = [_cost(name, runs, phi, epsilon) for name, runs in groups.items()]
            least = min((one.cost for one in each if one.cost is not None), default=None)
            found += [replace(one, is_least=least is not None and one.cost == least) for one in each]
    return found


def tuned_path(runs: Sequence[Contestant], phi: float) -> list[tuple[float, float]]:
    """Γ against the least share that any of these runs has reached with it."""
    points = sorted((gamma, share) for run in runs for gamma, share, _ in run.path(phi))
    made: list[tuple[float, float]] = []
    for _, same in groupby(points, key=lambda point: point[0]):
        gamma, share = next(same)
        if not made or share < made[-1][1]:
            made.append((gamma, share))
    return made


def in_words(values: Mapping[str, object]) -> str:
    """Hyper-parameters in a few words: `steps 10, schedule InverseTime(decay=0.3)`."""
    return ", ".join(f"{name} {one_in_words(value)}" for name, value in values.items())


def one_in_words(value: object) -> str:
    """A hyper-parameter as it is written in a run file, but shorter: a table as a call."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}={one_in_words(one)}" for key, one in value.items() if key != "name")
        return f"{value.get('name', '')}({inner})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def grouped(contestants: Sequence[Contestant]) -> dict[str, list[Contestant]]:
    """The runs of each algorithm, in their order."""
    found: dict[str, list[Contestant]] = {}
    for one in contestants:
        found.setdefault(one.algorithm, []).append(one)
    return found


def _cost(algorithm: str, runs: Sequence[Contestant], phi: float, epsilon: float) -> Cost:
    best = Cost(phi, epsilon, algorithm)
    for run in runs:
        for gamma, share, round in run.path(phi):
            if share <= epsilon:
                if best.cost is None or gamma < best.cost:
                    best = Cost(phi, epsilon, algorithm, gamma, run.run, round, run.values)
                break
    return best
