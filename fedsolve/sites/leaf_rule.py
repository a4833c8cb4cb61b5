"""When a leaf of a tree, a mean over a few rows or many, is nearly that of fewer than a site allows."""

from __future__ import annotations

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array

# In a leaf other rows must have this part of what `largest_row` leaves them in a sum over all rows: a leaf has few
# rows, of which one is larger than the others together in many an honest tree.
PART = 0.1
# What a row of counts has at least. Where next to nothing is expected, all that a leaf says is how many were counted.
ONE = 1.0
ROUNDING = 1e-12  # of the largest part of all rows: what is smaller is nothing


def check_leaves(
    policy: Policy, cells: Array, target: Array, weight: Array | None, classes: bool, counts: bool = False
) -> None:
    """Raise PolicyRefusal where a few rows have nearly all of a leaf: its mean would be theirs.

    Args:
        policy: The site's own.
        cells: The leaf of each row.
        target: What the leaf is the mean of, outputs × rows.
        weight: What each row counts; None: all the same.
        classes: Whether the target is of classes. Then only weights are judged: a leaf says how many of its rows are of
            a class, and no more, however sure the others are.
        counts: Whether it is of counts. Then every row has the size of one count or more: that somebody counted one,
            where others with small means counted none, is no more than a class.
    """
    s = np.ones(len(cells)) if weight is None else weight
    targets = np.maximum(np.abs(target), ONE if counts else 0.0)
    sizes = s[None] if classes else np.concatenate([s[None], targets * s])
    floor = ROUNDING * sizes.max(axis=1, initial=0.0)
    most = 1 - PART * (1 - policy.largest_row)
    counted = np.flatnonzero(s > 0)
    order = counted[np.argsort(cells[counted], kind="stable")]
    ends = np.cumsum(np.bincount(cells[counted]))
    for rows in np.split(order, ends[:-1]):
        few = FewRows(most, FewRows.of(policy, len(rows)).count)
        if len(rows) >= policy.min_rows and few.exceeded(sizes[:, rows], floor).any():  # a leaf of fewer is zero
            raise PolicyRefusal(
                "largest_row",
                f"a leaf of a tree would be nearly that of fewer than {max(2, policy.min_rows)} rows, beside which all "
                "others in it are nothing: give the learner a larger min_rows",
            )
