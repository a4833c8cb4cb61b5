"""When a sum over rows is nearly a sum over a few of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array


@dataclass(frozen=True)
class FewRows:
    """How much of a sum a few rows may make up: one row the share `most`, and m rows 1 − (1 − most)/m, so that the part
    that is not theirs is no less than for a single row, for each of them.

    most   the share of one row
    count  up to how many rows are few: fewer than `min_rows`, and at most a quarter of all, because of eight rows four
           are most of anything
    """

    most: float
    count: int

    @classmethod
    def of(cls, policy: Policy, rows: int) -> FewRows:
        """As a policy has it, for so many rows."""
        return cls(policy.largest_row, max(1, min(policy.min_rows - 1, rows // 4)))

    @property
    def limits(self) -> Array:
        """The share that 1, 2, … rows may have."""
        return 1 - (1 - self.most) / np.arange(1, self.count + 1)

    @property
    def slack(self) -> float:
        """What other rows have less than, in units of the largest part, where a few make up too much. From
        top_m > limit_m · total follows total − top_m < (1 − limit_m)/limit_m · m · max ≤ (1 − most)/most · max."""
        return (1 - self.most) / self.most

    def exceeded(self, parts: Array, floor: float | Array = 0.0) -> NDArray[np.bool_]:
        """Whether a few rows make up too much, for each row of `parts`: sizes, one for every row of the data. Parts of
        at most `floor` are nothing but rounding. What is not finite is too much."""
        total, top = parts.sum(axis=1), parts.max(axis=1, initial=0.0)
        found = ~np.isfinite(total)
        if self.most >= 1:
            return np.asarray(found)
        # m rows have at most m times what one has.
        least = (self.limits / np.arange(1, self.count + 1)).min()
        for k in np.flatnonzero(~found & (top > floor) & (top >= least * total)):
            largest = np.sort(np.partition(parts[k], -self.count)[-self.count :])[::-1]
            found[k] = not (np.cumsum(largest) <= self.limits * total[k]).all()
        return np.asarray(found)

    def check_weights(self, weights: Array) -> None:
        """Raise PolicyRefusal where a few rows have nearly all of the weight: means and second moments, which are asked
        for at no point, would be theirs."""
        if self.exceeded(weights[None])[0]:
            raise PolicyRefusal("largest_row", "a few rows have nearly all of the weight here, so sums would be theirs")
