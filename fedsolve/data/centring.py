"""Columns about their means, as scikit-learn's `Ridge` and `ElasticNet` take them.

With a free intercept this changes no slope and no prediction. It keeps digits: columns such as years, far from 0 beside
their spread, are nearly collinear with an intercept, and coordinate descent crawls along the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.preprocessing import Preprocess
from fedsolve.federation.federation import Federation
from fedsolve.typing import Array


@dataclass(frozen=True)
class Centred(Preprocess):
    """Subtracts from each column its mean over all clients, from sums, and scales nothing."""

    def _fit(self, fed: Federation) -> Transform:
        totals = self._totals(fed)
        names = fed.feature_names or tuple(f"x{j}" for j in range(len(totals.weight)))
        mean = np.divide(totals.total, totals.weight, out=np.zeros(len(names)), where=totals.weight > 0)
        columns = tuple(self._numeric(name) for name in names)
        return self._agree(fed, Transform(columns, np.full(len(names), np.nan), mean, np.ones(len(names))))


CENTRED = Centred(standardise=False, impute=None)


def raw_intercept(intercept: Array, coef: Array, transform: Transform | None) -> Array:
    """The intercept of the raw columns, where `intercept` is that of the centred ones and `coef` has a row for each
    output."""
    return intercept if transform is None else intercept - coef @ transform.centre
