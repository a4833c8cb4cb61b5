"""Collects values by case and name, one per seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from fedsolve.reproduce.figures import Curve
from fedsolve.reproduce.result import Measured

Case = TypeVar("Case")


class Tally(Generic[Case]):
    """Collected values; `measured` turns them into a cell of a table."""

    def __init__(self) -> None:
        self._values: dict[tuple[Case, str], list[float]] = defaultdict(list)

    def add(self, case: Case, values: Mapping[str, float]) -> None:
        """Add the values of one seed."""
        for name, value in values.items():
            self._values[case, name].append(value)

    def measured(self, case: Case, name: str, printed: float | str | None = None) -> Measured:
        return Measured(tuple(self._values[case, name]), printed)

    def relative(self, cases: Sequence[Case], xs: Sequence[float], names: Sequence[str], to: str) -> dict[str, Curve]:
        """A curve per name with a point per case; each value is divided by that of `to` in the same seed."""
        found = {}
        for name in names:
            ratios = [np.divide(self._values[case, name], self._values[case, to]) for case in cases]
            by_seed = np.transpose(ratios).tolist()
            found[name] = Curve([xs] * len(by_seed), by_seed)
        return found
