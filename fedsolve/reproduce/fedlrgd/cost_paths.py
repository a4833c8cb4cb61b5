"""What a run has computed and sent when it reaches an accuracy for the first time; and the cheapest of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.complexity.oracle import OracleComplexity
from fedsolve.typing import Array

FINEST = 4  # accuracies in a decade
ACCURACIES = 10.0 ** (-np.arange(6 * FINEST + 1) / FINEST)  # 1 to 1e-6, shares of F(0) − F*
SHOWN = tuple(range(FINEST, len(ACCURACIES), FINEST))  # 1e-1, 1e-2, …, the rows of the table


@dataclass(frozen=True, eq=False)
class Path:
    """A run: Γ = computed + φ sent when each of ACCURACIES is reached; infinite where it is not.

    words     its hyper-parameters, for each accuracy
    computed  gradients until then
    sent      Σ τm until then, or vectors
    ended     both when the run ended, which could have gone on; None if it could not
    """

    words: Sequence[str]
    computed: Array
    sent: Array
    ended: tuple[float, float] | None = None

    def cost(self, phi: float) -> Array:
        return self.computed + phi * self.sent

    def least(self, phi: float) -> Array:
        """What it costs at least: where an accuracy was not reached, as much as was spent in vain."""
        cost = self.cost(phi)
        if self.ended is None:
            return cost
        return np.where(np.isfinite(cost), cost, self.ended[0] + phi * self.ended[1])


def path(words: str, found: OracleComplexity, shares: Sequence[tuple[int, float]], endless: bool = False) -> Path:
    """Of a run with its (F − F*) / (F(0) − F*) by round; `endless` if more rounds would lead on."""
    computed, sent = np.full((2, len(ACCURACIES)), np.inf)
    for round, share in reversed(shares):
        here = share <= ACCURACIES
        computed[here], sent[here] = found.computed[round], found.sent[round]
    last = shares[-1][0]
    return Path(
        [words] * len(ACCURACIES), computed, sent, (found.computed[last], found.sent[last]) if endless else None
    )


def cheapest(paths: Sequence[Path], phi: float) -> Array:
    """Γ of a method that is tuned over these runs, for every accuracy anew."""
    if not paths:
        return np.full(len(ACCURACIES), np.inf)
    return np.asarray(np.min([one.cost(phi) for one in paths], axis=0))


def at_least(paths: Sequence[Path], phi: float) -> Array:
    """What the tuned method costs at least, whatever runs that were stopped would have come to."""
    return np.asarray(np.min([one.least(phi) for one in paths], axis=0))


def chosen(paths: Sequence[Path], phi: float, place: int) -> str:
    """The hyper-parameters of the cheapest run; "–" if none gets there."""
    costs = [one.cost(phi)[place] for one in paths]
    best = int(np.argmin(costs))
    return paths[best].words[place] if np.isfinite(costs[best]) else "–"


def winners(costs: dict[str, float]) -> str:
    """The names with the least finite cost, several if they are equal; "–" if nobody gets there."""
    least = min(costs.values())
    return " and ".join(name for name, cost in costs.items() if cost == least) if np.isfinite(least) else "–"
