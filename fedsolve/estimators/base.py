"""What all estimators share: rows to clients, a run, and what it leaves behind."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsolve.algorithms.base import Algorithm
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import DataError
from fedsolve.estimators.choosing import Chosen, named, usual
from fedsolve.estimators.site_rows import Problem, agreed_classes, class_weights, clients_of, held_clients
from fedsolve.features import FeatureMap
from fedsolve.federation.client import Client
from fedsolve.federation.transports import Transport
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.loop.stopping import FINISHED
from fedsolve.losses import LinearLoss, Logistic, Pointwise, Softmax
from fedsolve.losses.penalised import Intercept
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array


class FederatedEstimator(BaseEstimator):
    """A scikit-learn estimator whose rows lie with several sites.

    Attributes that `fit` sets:
        run_: The finished `fs.Run`: model, history, ledger, certificate.
        n_iter_: How many rounds were run.
        bytes_: How many bytes all sites and the server sent in all, set-up and measuring included.
        n_features_in_, feature_names_in_: As everywhere in scikit-learn.
    """

    algorithm: Chosen
    max_iter: int
    tol: float

    run_: Run
    n_iter_: int
    bytes_: int
    n_features_in_: int
    feature_names_in_: Array

    _checks: ClassVar[dict[str, object]] = {"accept_sparse": "csr", "dtype": np.float64}  # of X

    def fit(self, X: Array, y: Array, sites: Array | None = None, sample_weight: Array | None = None) -> Self:
        """Fit one model to the rows of all sites.

        Args:
            X: The rows of all sites: an array, a data frame or a sparse matrix.
            y: The targets.
            sites: Whose each row is, one name or number for each row; None: all rows are of a single site. The fit is
                that of the pooled rows, however they are divided.
            sample_weight: How much each row counts; None: all alike.

        Returns:
            The estimator itself.
        """
        X, y = self._targets(*self._validated(X, y))
        names = getattr(self, "feature_names_in_", None)
        classes = getattr(self, "classes_", None)
        clients = clients_of(
            X,
            y,
            sites,
            sample_weight,
            feature_names=None if names is None else list(names),
            classes=None if classes is None else classes.tolist(),
        )
        return self._fit(clients, clients)

    def fit_federation(self, clients: Sequence[Client] | Transport) -> Self:
        """Fit one model to the rows of these clients, which are not pooled.

        Args:
            clients: A list of `fs.Client`, or a transport that holds them, such as `fs.transports.Processes(clients)`.
                A client's own sample weights and offset count; columns with names are matched by them. A classifier's
                clients declare their `classes`, or have labels 0, 1, ….

        Returns:
            The estimator itself.
        """
        held = held_clients(clients)
        raw = [client.name for client in held if client.raw]
        if raw and "ensure_all_finite" not in self._checks:
            raise DataError(
                f"client {raw[0]!r} has text columns or missing values, and {type(self).__name__} takes numbers only: "
                "encode and impute them first, or use fs.run(…, preprocess=…)"
            )
        self._take_classes(held)
        self.n_features_in_ = int(held[0].X.shape[1])
        if held[0].feature_names is not None:
            self.feature_names_in_ = np.array(held[0].feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self._fit(clients, held)

    # ── what each estimator says of itself ──

    @abstractmethod
    def _loss(self, problem: Problem) -> Pointwise:
        """The objective, with the estimator's penalties in the library's units."""

    @abstractmethod
    def _learn(self, problem: Problem) -> None:
        """Set the attributes that come from the model of `run_`."""

    def _auto(self, loss: Pointwise, problem: Problem) -> Algorithm:
        """The algorithm that "auto" stands for."""
        assert isinstance(loss, LinearLoss)
        return usual(loss, loss.order(problem.features, problem.outputs))

    def _run(self, algorithm: Algorithm, clients: Sequence[Client] | Transport, problem: Problem) -> Run:
        rounds = whole("max_iter", self.max_iter, 1)
        # A table of one's own may have few rows, and a site one: that is no secret from whoever holds the table.
        preprocess = self._preprocess(problem)
        return run(algorithm, clients, rounds=rounds, tolerance=self.tol, preprocess=preprocess, min_rows=0)

    def _preprocess(self, problem: Problem) -> Preprocess | None:
        """What all sites do to their columns first."""
        return None

    def _reached(self, run: Run) -> bool:
        """Whether a run came where it should; otherwise `fit` warns."""
        small = run.model_row.relative_gradient
        return run.converged or (run.status == FINISHED and small is not None and small <= self.tol)

    # ── the same for all ──

    def _validated(self, X: Array, y: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = validate_data(self, X, y, **self._checks)
        return found

    def _targets(self, X: Array, y: Array) -> tuple[Array, Array]:
        return X, y

    def _take_classes(self, clients: Sequence[Client]) -> None:
        """A classifier learns from clients which classes there are."""

    def _check_rows(self, clients: Sequence[Client]) -> None:
        """A classifier needs rows of every class."""

    def _rows(self, X: Array) -> Array:
        """Rows to predict for, checked: columns with other names, or in another order, are rejected."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **self._checks)

    def _fit(self, clients: Sequence[Client] | Transport, held: Sequence[Client]) -> Self:
        self._check_rows(held)
        problem = Problem.of(held)
        loss = self._loss(problem)
        auto = isinstance(self.algorithm, str) and self.algorithm == "auto"
        algorithm = self._auto(loss, problem) if auto else named(self.algorithm, loss)
        self.run_ = found = self._run(algorithm, clients, problem)
        total = found.ledger.total(None)
        self.n_iter_, self.bytes_ = found.rounds, total.bytes_up + total.bytes_down
        self._learn(problem)
        if not self._reached(found):
            warnings.warn(
                f"{type(self).__name__} ended with status {found.status!r} after {found.rounds} rounds: "
                f"{found.message}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = "accept_sparse" in self._checks
        tags.input_tags.allow_nan = "ensure_all_finite" in self._checks
        tags.target_tags.required = True
        return tags


class FederatedRegressor(RegressorMixin, FederatedEstimator):
    """Predicts numbers."""

    _several_targets: ClassVar[bool] = False

    def _validated(self, X: Array, y: Array) -> tuple[Array, Array]:
        several = {"multi_output": True} if self._several_targets else {}
        X, y = validate_data(self, X, y, y_numeric=True, **several, **self._checks)
        return X, y.astype(np.float64, copy=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_targets
        return tags


class FederatedClassifier(ClassifierMixin, FederatedEstimator):
    """Predicts classes, of two kinds or more.

    Attributes that `fit` sets:
        classes_: The classes, in the order of the columns of `predict_proba`.
    """

    classes_: Array

    def _targets(self, X: Array, y: Array) -> tuple[Array, Array]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._check_classes()
        return X, y

    def _take_classes(self, clients: Sequence[Client]) -> None:
        self.classes_ = agreed_classes(clients)
        self._check_classes()

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, and y has only one class: {self.classes_.tolist()}"
            )

    def _check_rows(self, clients: Sequence[Client]) -> None:
        absent = self.classes_[class_weights(clients, len(self.classes_)) == 0].tolist()
        if absent:
            raise ValueError(
                f"{type(self).__name__}: no site has a row of class {absent[0]!r} with a weight above 0, so that no "
                "finite fit exists; leave this class out"
            )

    def _class_loss(
        self, l2: float, intercept: Intercept, l1: float = 0.0, features: FeatureMap | None = None
    ) -> LinearLoss:
        """`Logistic` for two classes, `Softmax` for more: scikit-learn's binary and multinomial models."""
        k = len(self.classes_)
        if k == 2:
            return Logistic(l2, intercept, l1, features=features)
        return Softmax(l2, intercept, l1, classes=k, features=features)

    @abstractmethod
    def decision_function(self, X: Array) -> Array:
        """The predictor of each row: of the second of two classes, else one for each class."""

    def predict(self, X: Array) -> Array:
        """The most probable class of each row."""
        eta = self.decision_function(X)
        return self.classes_[(eta > 0).astype(int) if eta.ndim == 1 else eta.argmax(axis=1)]

    def predict_log_proba(self, X: Array) -> Array:
        """The logarithm of the probability of each class, a column for each."""
        eta = self.decision_function(X)
        if eta.ndim == 1:  # log(1 / (1 + e^∓η))
            return -np.logaddexp(0.0, np.stack([eta, -eta], axis=1))
        eta = eta - eta.max(axis=1, keepdims=True)
        return eta - np.log(np.exp(eta).sum(axis=1, keepdims=True))

    def predict_proba(self, X: Array) -> Array:
        """The probability of each class, a column for each, in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))
