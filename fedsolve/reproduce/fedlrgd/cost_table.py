"""What was found on all problems: costs by seed, and their ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.complexity.oracle import Sending
from fedsolve.reproduce.fedlrgd.cost_paths import at_least, cheapest
from fedsolve.reproduce.fedlrgd.cost_runs import FEDAVE, LITERAL, OURS, Costs
from fedsolve.reproduce.result import Measured
from fedsolve.typing import Array


@dataclass(frozen=True)
class Found:
    """By kind of problem, one for each seed."""

    costs: Mapping[str, Sequence[Costs]]

    def curves(self, kind: str, name: str, sending: Sending, phi: float) -> Array:
        """Γ of a tuned method by seed and accuracy."""
        return np.array([cheapest(one.paths[name, sending], phi) for one in self.costs[kind]])

    def cost(self, kind: str, name: str, sending: Sending, phi: float, place: int) -> Measured:
        """Γ at one accuracy."""
        return Measured(tuple(self.curves(kind, name, sending, phi)[:, place].tolist()))

    def ours(self, kind: str, sending: Sending, phi: float, place: int) -> Measured:
        """The cheaper of Algorithm 1 and FedLRGD."""
        both = np.minimum(*(self.curves(kind, name, sending, phi)[:, place] for name in (LITERAL, OURS)))
        return Measured(tuple(both.tolist()))

    def fedave(self, kind: str, phi: float, place: int) -> Measured:
        """What FedAve costs at least. (It sends one vector per message.)"""
        each = self.costs[kind]
        return Measured(tuple(float(at_least(one.paths[FEDAVE, "epochs"], phi)[place]) for one in each))

    def ratio(self, kind: str, sending: Sending, phi: float, place: int) -> Measured:
        """Γ(FedAve)/Γ(FedLRGD), at least."""
        over, under = self.fedave(kind, phi, place), self.ours(kind, sending, phi, place)
        return Measured(tuple(a / b for a, b in zip(over.values, under.values, strict=True)))
