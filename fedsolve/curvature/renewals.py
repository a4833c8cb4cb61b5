"""When clients recompute their Hessians and start again with the first eigenvectors (SHED, section 5.1).

Iterations count from 1; the first is always a renewal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import is_whole


@dataclass(frozen=True)
class Renewals(ABC):
    """A rule, for problems of n unknowns."""

    def due(self, t: int, last: int, n: int, norms: Sequence[float]) -> bool:
        """Whether iteration t renews.

        last   the iteration of the last renewal; 0 if there was none
        norms  the gradient norms since then
        """
        return last == 0 or t == self.next_after(t - 1, n)

    @abstractmethod
    def next_after(self, t: int, n: int) -> int | None:
        """The first renewal after iteration t; None if there is none, or it depends on the run."""


@dataclass(frozen=True)
class Once(Renewals):
    """Only the first (Algorithm 1), for constant Hessians."""

    def next_after(self, t: int, n: int) -> int | None:
        return 1 if t < 1 else None


@dataclass(frozen=True)
class Always(Renewals):
    """Every iteration (Mont-Dec)."""

    def next_after(self, t: int, n: int) -> int | None:
        return t + 1


@dataclass(frozen=True)
class Periodic(Renewals):
    """1, T, 2T, … (Algorithm 3).

    period  T (default 25)
    """

    period: int = 25

    def __post_init__(self) -> None:
        if not is_whole(self.period) or self.period < 1:
            raise ConfigError(f"a period is a whole number of iterations, at least 1; got {self.period!r}")

    def next_after(self, t: int, n: int) -> int | None:
        return 1 if t < 1 else self.period * (t // self.period + 1)


@dataclass(frozen=True)
class Fibonacci(Renewals):
    """1, 2, 4, 7, 12, 20, …: the gaps are Fibonacci numbers, until n − 1 is reached; then every n − 1 iterations."""

    def next_after(self, t: int, n: int) -> int | None:
        return next(one for one in self._sequence(n) if one > t)

    def _sequence(self, n: int) -> Iterator[int]:
        at, gap, following = 1, 1, 2
        while True:
            yield at
            at += gap if at < n - 1 else max(n - 1, 1)
            gap, following = following, gap + following


@dataclass(frozen=True)
class GradientNorm(Renewals):
    """When ‖g‖ falls by less than b times what it fell by before, and after n iterations without a renewal (GN-SHED).

    The paper's inequality, taken as printed, renews while progress is good, and stalls; this one renews when progress
    slows, as the paper intends. Only norms since the last renewal are compared, because the first steps after one are
    always smaller than the last before it. L-BFGS makes the norms uneven: use the rule with `lbfgs=0`.

    b  the factor (default 0.5); larger values renew more often
    """

    b: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.b < float("inf"):
            raise ConfigError(f"b is a positive factor, got {self.b}")

    def due(self, t: int, last: int, n: int, norms: Sequence[float]) -> bool:
        if last == 0 or t - last >= n:
            return True
        if len(norms) < 3:
            return False
        before, between, now = norms[-3:]
        return between - now < self.b * (before - between)

    def next_after(self, t: int, n: int) -> int | None:
        return None
