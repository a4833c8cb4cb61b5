"""Columns about their means, as scikit-learn's `Ridge` and `ElasticNet` take them.

With a free intercept this changes no slope and no prediction. It keeps digits: columns such as years, far from 0 beside
their spread, are nearly collinear with an intercept, and coordinate descent crawls along the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.preprocessing import Preprocess
from fedsolve.federation.federation import Federation
from fedsolve.typing import Array


@dataclass(frozen=True)
class Centred(Preprocess):
    """Subtracts from each column its mean over all clients, from sums, and scales nothing."""

    def _agree(self, fed: Federation, transform: Transform) -> Transform:
        return super()._agree(fed, replace(transform, scale=np.ones(len(transform.columns))))


CENTRED = Centred(impute=None)


def raw_intercept(intercept: Array, coef: Array, transform: Transform | None) -> Array:
    """The intercept of the raw columns, where `intercept` is that of the centred ones and `coef` has a row for each
    output."""
    return intercept if transform is None else intercept - coef @ transform.centre
