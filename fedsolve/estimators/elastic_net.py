"""The elastic net: scikit-learn's `ElasticNet`, with the rows of several sites."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.linear_model import ElasticNet

from fedsolve.estimators.base import FederatedRegressor
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.linear import LinearEstimator
from fedsolve.estimators.penalties import share
from fedsolve.estimators.site_rows import Problem
from fedsolve.losses import Squared
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array


class FederatedElasticNet(FederatedRegressor, LinearEstimator):
    r"""Least squares with both penalties,
    $\frac{1}{2n} \sum_i s_i (y_i - x_i^\top w - b)^2 + \alpha (r \|w\|_1 + \frac{1 - r}{2} \|w\|^2)$, n = Σ s.

    The coefficients are those of scikit-learn's `ElasticNet` on the pooled rows, and the same ones are exactly zero.

    Args:
        alpha: The penalty α, as in scikit-learn. Default 1.
        l1_ratio: r, the share of ‖w‖₁, as in scikit-learn. Default 0.5; 1 is the lasso.
        fit_intercept: Whether there is an intercept b, which is not penalised. Default True.
        algorithm: "auto" (the default) is `Newton`, whose server takes proximal steps; no other algorithm has a step
            for ‖w‖₁. With l1_ratio = 0 any algorithm can be given.
        max_iter: The most rounds. Default 1,000.
        tol: How small the subgradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `coef_`, `intercept_`, `n_iter_` (rounds), `bytes_` (sent in all) and `run_` (the
    `fs.Run`).
    """

    _several_targets: ClassVar[bool] = True

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        algorithm: Chosen = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol

    def _loss(self, problem: Problem) -> Squared:
        alpha, ratio = at_least_zero("alpha", self.alpha), share("l1_ratio", self.l1_ratio)
        return Squared(alpha * (1.0 - ratio), self._intercept, alpha * ratio)

    def predict(self, X: Array) -> Array:
        """The expected target of each row."""
        return self._predictor(X)

    def _plain(self) -> tuple[ElasticNet, Array]:
        return ElasticNet(), np.zeros((2, *self.coef_.shape[:-1]))
