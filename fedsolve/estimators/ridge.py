"""Ridge regression: scikit-learn's `Ridge`, with the rows of several sites."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.linear_model import Ridge

from fedsolve.estimators.base import FederatedRegressor
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.linear import LinearEstimator
from fedsolve.estimators.site_rows import Problem
from fedsolve.losses import Squared
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array


class FederatedRidge(FederatedRegressor, LinearEstimator):
    r"""Least squares with an l2 penalty, $\sum_i s_i (y_i - x_i^\top w - b)^2 + \alpha \|w\|^2$.

    The coefficients are those of scikit-learn's `Ridge` on the pooled rows.

    Args:
        alpha: The penalty α, as in scikit-learn. Default 1.
        fit_intercept: Whether there is an intercept b, which is not penalised. Default True.
        algorithm: "auto" (the default): `Newton` up to 1,000 coefficients, `FedNewtonCG` for more. Or the name of an
            algorithm, its class, or an object, whose loss is replaced.
        max_iter: The most rounds. Default 1,000.
        tol: How small the gradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `coef_`, `intercept_`, `n_iter_` (rounds), `bytes_` (sent in all) and `run_` (the
    `fs.Run`).
    """

    _several_targets: ClassVar[bool] = True

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        algorithm: Chosen = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol

    def _loss(self, problem: Problem) -> Squared:
        return Squared(at_least_zero("alpha", self.alpha) / problem.weight, self._intercept)

    def predict(self, X: Array) -> Array:
        """The expected target of each row."""
        return self._predictor(X)

    def _plain(self) -> tuple[Ridge, Array]:
        return Ridge(), np.zeros((2, *self.coef_.shape[:-1]))
