"""scikit-learn's `random_state` as a seed that every site can be told."""

from __future__ import annotations

import numpy as np

from fedsolve.numerics.scalars import whole


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """A whole number as it is; None is 0, because nothing here is drawn from a global state; a generator draws one."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return whole("random_state", random_state, 0, 2**32)
