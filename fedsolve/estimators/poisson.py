"""Poisson regression: scikit-learn's `PoissonRegressor`, with the rows of several sites."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags

from fedsolve.estimators.base import FederatedRegressor
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.linear import LinearEstimator
from fedsolve.estimators.site_rows import Problem
from fedsolve.losses import Poisson
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array


class FederatedPoissonRegressor(FederatedRegressor, LinearEstimator):
    r"""Counts with the logarithm as link, $\frac{1}{2n} \sum_i s_i d_i + \frac{\alpha}{2} \|w\|^2$, where $d_i$ is the
    deviance of a row and n = Σ s.

    The coefficients are those of scikit-learn's `PoissonRegressor` on the pooled rows. Clients with an `offset`, the
    logarithm of the exposure, are fitted with it by `fit_federation`; `predict` then gives rates.

    Args:
        alpha: The penalty α, as in scikit-learn. Default 1.
        fit_intercept: Whether there is an intercept, which is not penalised. Default True.
        algorithm: "auto" (the default): `Newton` up to 1,000 coefficients, `FedNewtonCG` for more. Or the name of an
            algorithm, its class, or an object, whose loss is replaced.
        max_iter: The most rounds. Default 1,000.
        tol: How small the gradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `coef_`, `intercept_`, `n_iter_` (rounds), `bytes_` (sent in all) and `run_` (the
    `fs.Run`).
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
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

    def _loss(self, problem: Problem) -> Poisson:
        return Poisson(at_least_zero("alpha", self.alpha), self._intercept)

    def predict(self, X: Array) -> Array:
        """The expected count of each row."""
        return np.exp(self._predictor(X))

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """D², the share of the deviance that the model explains, as scikit-learn's `PoissonRegressor` has it."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _plain(self) -> tuple[PoissonRegressor, Array]:
        return PoissonRegressor(), np.ones(2)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
