"""Logistic regression: scikit-learn's `LogisticRegression`, with the rows of several sites."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from fedsolve.estimators.base import FederatedClassifier
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.linear import LinearEstimator
from fedsolve.estimators.penalties import inverse_strength, share
from fedsolve.estimators.site_rows import Problem
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array


class FederatedLogisticRegression(FederatedClassifier, LinearEstimator):
    r"""Logistic regression with an l2 penalty, $C \sum_i s_i \ell_i(w, b) + \frac12 \|w\|^2$; multinomial for more than
    two classes.

    The coefficients are those of scikit-learn's `LogisticRegression` on the pooled rows.

    Args:
        C: The inverse of the strength of the penalty, as in scikit-learn. Default 1; np.inf: no penalty.
        l1_ratio: The share of the penalty that is ‖w‖₁ instead of ½‖w‖², as in scikit-learn. Default 0.
        fit_intercept: Whether there is an intercept, which is not penalised. Default True.
        algorithm: "auto" (the default): `Newton` up to 1,000 coefficients and with an l1 penalty, `FedNewtonCG`
            otherwise. Or the name of an algorithm, its class, or an object, whose loss is replaced.
        max_iter: The most rounds. Default 1,000.
        tol: How small the gradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `coef_`, `intercept_`, `classes_`, `n_iter_` (rounds), `bytes_` (sent in all) and
    `run_` (the `fs.Run`).
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        algorithm: Chosen = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol

    def _loss(self, problem: Problem) -> LinearLoss:
        strength, ratio = inverse_strength(self.C) / problem.weight, share("l1_ratio", self.l1_ratio)
        return self._class_loss(strength * (1.0 - ratio), self._intercept, strength * ratio)

    def _learn(self, problem: Problem) -> None:
        super()._learn(problem)
        self.coef_ = self.coef_.reshape(-1, problem.features)
        self.intercept_ = np.zeros(len(self.coef_)) + self.intercept_

    def decision_function(self, X: Array) -> Array:
        """The linear predictor of each row: of the second of two classes, else one for each class."""
        eta = self._predictor(X)
        return eta[:, 0] if eta.shape[1] == 1 else eta

    def _plain(self) -> tuple[LogisticRegression, Array]:
        return LogisticRegression(solver="saga" if self.l1_ratio else "lbfgs"), self.classes_
