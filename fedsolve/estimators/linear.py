"""Estimators with coefficients of the columns: they can become plain scikit-learn models."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from fedsolve.data.centring import CENTRED, raw_intercept
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import ConfigError
from fedsolve.estimators.base import FederatedEstimator
from fedsolve.estimators.site_rows import Problem
from fedsolve.inference.summarised import Errors, Summary
from fedsolve.losses.penalised import Intercept
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


class LinearEstimator(FederatedEstimator):
    """Coefficients of the columns, in scikit-learn's shapes.

    Attributes that `fit` sets:
        coef_: A number for each column; with several targets or classes a row for each of these.
        intercept_: A number, or one for each target or class; 0 without an intercept.
    """

    fit_intercept: bool
    coef_: Array
    intercept_: Array | float

    @property
    def _intercept(self) -> Intercept:
        return "free" if self.fit_intercept else None

    def _preprocess(self, problem: Problem) -> Preprocess | None:
        return CENTRED if self.fit_intercept and problem.dense else None

    def _learn(self, problem: Problem) -> None:
        model = self.run_.model
        if not isinstance(model, LinearModel):
            raise ConfigError(f"{type(self.run_.algorithm).__name__} makes no linear model, but a {model!r}")
        coef = np.ascontiguousarray(model.coef.T)
        self.coef_ = coef[0] if coef.ndim == 2 and len(coef) == 1 else coef  # as scikit-learn has it for one target
        intercept = raw_intercept(model.intercept_, coef, model.transform)
        self.intercept_ = intercept if model.intercept and model.w.ndim == 2 else float(intercept)

    def _predictor(self, X: Array) -> Array:
        return safe_sparse_dot(self._rows(X), self.coef_.T, dense_output=True) + self.intercept_

    @abstractmethod
    def _plain(self) -> tuple[BaseEstimator, Array]:
        """An unfitted scikit-learn model with default parameters, and targets to give it the right shapes."""

    def _own_params(self) -> dict[str, object]:
        """The parameters that the scikit-learn model has too."""
        shared = self._plain()[0].get_params()
        return {name: value for name, value in self.get_params().items() if name in shared}

    def summary(self, *, errors: Errors = "model", level: float = 0.95, use_t: bool = False) -> Summary:
        """Coefficients with standard errors, intervals and p values (docs/summary.md). Only a fit without a penalty has
        those of the usual kind."""
        check_is_fitted(self)
        found: Summary = self.run_.summary(errors=errors, level=level, use_t=use_t)
        return found

    def to_sklearn(self) -> BaseEstimator:
        """A plain fitted scikit-learn model with these coefficients. It predicts the same, needs no fedsolve, and can
        be converted by tools that know scikit-learn's models, such as skl2onnx."""
        check_is_fitted(self)
        model, y = self._plain()
        # Fitted to rows of zeros, so that every attribute is there that this version of scikit-learn sets.
        model.fit(np.zeros((len(y), self.n_features_in_)), y)
        model.set_params(**self._own_params())
        model.coef_, model.intercept_ = self.coef_.copy(), np.copy(self.intercept_)[()]
        model.n_iter_ = self.n_iter_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_.copy()
        return model
