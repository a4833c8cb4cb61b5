"""Schedules: how the step size of local steps changes from round to round.

The server knows the round and sends the step size that the schedule gives for it, so that no client has to remember how
far a run has come, and a run that is resumed goes on where it was.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import whole


@dataclass(frozen=True)
class Schedule(ABC):
    """What the step size is multiplied by in each round. Without a schedule it stays as it is."""

    @abstractmethod
    def factor(self, round: int) -> float:
        """The factor in this round; rounds are counted from 1, where it is 1."""


@dataclass(frozen=True)
class InverseTime(Schedule):
    """1 / (1 + decay · (round − 1)): short enough in the end for the noise of minibatches to vanish.

    Args:
        decay: How fast. Default 1, the 1/t of stochastic approximation. With b local steps per round, decay = b and a
            step size of 4/μ are those of FedPAQ's Theorem 1, 4 / (μ (k b + 1)); decay = b μ / (4 L) and 1/L have the
            same limit, and no steps above 1/L before it.
    """

    decay: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.decay < math.inf:
            raise ConfigError(f"decay is a positive number, got {self.decay}")

    def factor(self, round: int) -> float:
        return 1.0 / (1.0 + self.decay * (round - 1))


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine wave from 1 down to `last`, where it stays.

    Args:
        rounds: How many rounds it takes to come down.
        last: The factor from then on. Default 0.01.
    """

    rounds: int
    last: float = 0.01

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, least=1)
        if not 0 < self.last <= 1:
            raise ConfigError(f"last is a factor above 0 and at most 1, got {self.last}")

    def factor(self, round: int) -> float:
        done = min((round - 1) / self.rounds, 1.0)
        return self.last + (1.0 - self.last) * 0.5 * (1.0 + math.cos(math.pi * done))


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Multiplied by `by` every so many rounds.

    Args:
        every: How many rounds a step size serves.
        by: What it is multiplied by. Default 0.5.
    """

    every: int
    by: float = 0.5

    def __post_init__(self) -> None:
        whole("every", self.every, least=1)
        if not 0 < self.by <= 1:
            raise ConfigError(f"by is a factor above 0 and at most 1, got {self.by}")

    def factor(self, round: int) -> float:
        # Not 0 after thousands of rounds: a step size is positive.
        return max(float(self.by ** ((round - 1) // self.every)), 1e-100)
