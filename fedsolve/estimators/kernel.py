"""Kernel methods as linear ones on features, so that no site needs another site's rows.

By default the features are random Fourier features. They are drawn from a seed, and not from anybody's rows: what
leaves a site are sums over its rows, as for a linear model. Rows that are public can be given as `landmarks` of a
Nyström map instead; with all rows as landmarks it is the exact kernel method.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.estimators.base import FederatedClassifier, FederatedEstimator, FederatedRegressor
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.penalties import inverse_strength
from fedsolve.estimators.seeds import seed_of
from fedsolve.estimators.site_rows import Problem
from fedsolve.features import ExactKernel, FeatureMap, Nystroem, RandomFourier
from fedsolve.features.kernels import Kernel
from fedsolve.losses import LinearLoss, Squared
from fedsolve.losses.penalised import Intercept
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array

# scikit-learn's names and those of the library.
KERNELS: dict[str, Kernel] = {"rbf": "gaussian", "laplacian": "laplace", "cauchy": "cauchy"}


class KernelEstimator(FederatedEstimator):
    """What the two kernel methods share: their feature map, and predictions by it.

    Attributes that `fit` sets:
        features_: The feature map.
        coef_: The coefficients of its features; with several targets or classes a row for each of these.
    """

    kernel: str | ExactKernel
    gamma: float | None
    n_components: int
    landmarks: Array | None
    random_state: int | np.random.RandomState | None

    features_: FeatureMap
    coef_: Array

    def _map(self, problem: Problem) -> FeatureMap:
        if isinstance(self.kernel, ExactKernel):
            if self.landmarks is None:
                raise ConfigError(
                    f"{self.kernel!r} has no random features: give rows that are public as landmarks, or one of the "
                    f"kernels {', '.join(map(repr, KERNELS))}"
                )
            return Nystroem(self.landmarks, self.gamma, self.kernel)
        if self.kernel not in KERNELS:
            raise ConfigError(
                f"kernel is one of {', '.join(map(repr, KERNELS))}, or a kernel object such as fs.features.Matern(1.5) "
                f"with landmarks, got {self.kernel!r}; a linear kernel is FederatedRidge or FederatedLogisticRegression"
            )
        gamma = 1.0 / problem.features if self.gamma is None else self.gamma
        if self.landmarks is None:
            return RandomFourier(self.n_components, gamma, KERNELS[self.kernel], seed=seed_of(self.random_state))
        return Nystroem(self.landmarks, gamma, KERNELS[self.kernel])

    def _learn(self, problem: Problem) -> None:
        model = self.run_.model
        assert isinstance(model, LinearModel)
        assert model.features is not None
        self.features_, self.coef_ = model.features, np.ascontiguousarray(model.coef.T)

    def _predictor(self, X: Array) -> Array:
        rows = self._rows(X)
        return self.run_.model.decision_function(rows)


class FederatedKernelRidge(FederatedRegressor, KernelEstimator):
    r"""Kernel ridge regression, $\sum_i s_i (y_i - f(x_i))^2 + \alpha \|f\|^2$, on features of the kernel.

    With random features it approximates scikit-learn's `KernelRidge` on the pooled rows; with all rows as landmarks
    it is the same.

    Args:
        alpha: The penalty α, as in scikit-learn. Default 1.
        kernel: "rbf" (the default), "laplacian" or "cauchy"; or a kernel object such as `fs.features.Matern(1.5)`,
            with landmarks.
        gamma: How narrow the kernel is: exp(−gamma ‖x − z‖²) for "rbf". Default None: one over the number of columns,
            as in scikit-learn.
        n_components: How many random Fourier features there are, without landmarks. Default 300. The error of the
            kernel falls with their square root.
        landmarks: Rows that every site may know. Default None: random features, which need none.
        random_state: Seeds the random features. Default 0; None is 0 too, so that all sites draw the same.
        algorithm: "auto" (the default): `Newton` up to 1,000 features, `FedNewtonCG` for more. Or the name of an
            algorithm, its class, or an object, whose loss is replaced.
        max_iter: The most rounds. Default 1,000.
        tol: How small the gradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `features_` (the map), `coef_` (of its features), `n_iter_` (rounds), `bytes_` (sent in
    all) and `run_` (the `fs.Run`).
    """

    _several_targets: ClassVar[bool] = True

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: str | ExactKernel = "rbf",
        gamma: float | None = None,
        n_components: int = 300,
        landmarks: Array | None = None,
        random_state: int | np.random.RandomState | None = 0,
        algorithm: Chosen = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol

    def _loss(self, problem: Problem) -> Squared:
        return Squared(at_least_zero("alpha", self.alpha) / problem.weight, features=self._map(problem))

    def predict(self, X: Array) -> Array:
        """The expected target of each row."""
        return self._predictor(X)


class FederatedKernelClassifier(FederatedClassifier, KernelEstimator):
    r"""Logistic regression on features of a kernel, $C \sum_i s_i \ell_i(f, b) + \frac12 \|f\|^2$; multinomial for more
    than two classes.

    Args:
        C: The inverse of the strength of the penalty, as in scikit-learn's `LogisticRegression`. Default 1.
        kernel: "rbf" (the default), "laplacian" or "cauchy"; or a kernel object such as `fs.features.Matern(1.5)`,
            with landmarks.
        gamma: How narrow the kernel is: exp(−gamma ‖x − z‖²) for "rbf". Default None: one over the number of columns.
        n_components: How many random Fourier features there are, without landmarks. Default 300.
        landmarks: Rows that every site may know. Default None: random features, which need none.
        fit_intercept: Whether there is an intercept, which is not penalised. Default True.
        random_state: Seeds the random features. Default 0; None is 0 too, so that all sites draw the same.
        algorithm: "auto" (the default): `Newton` up to 1,000 coefficients, `FedNewtonCG` for more. Or the name of an
            algorithm, its class, or an object, whose loss is replaced.
        max_iter: The most rounds. Default 1,000.
        tol: How small the gradient must be, in the problem's own units. Default 1e-8.

    Attributes that `fit` sets: `classes_`, `features_` (the map), `coef_` (of its features), `n_iter_` (rounds),
    `bytes_` (sent in all) and `run_` (the `fs.Run`).
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | ExactKernel = "rbf",
        gamma: float | None = None,
        n_components: int = 300,
        landmarks: Array | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        algorithm: Chosen = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.landmarks = landmarks
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol

    def _loss(self, problem: Problem) -> LinearLoss:
        intercept: Intercept = "free" if self.fit_intercept else None
        return self._class_loss(inverse_strength(self.C) / problem.weight, intercept, features=self._map(problem))

    def decision_function(self, X: Array) -> Array:
        """The predictor of each row: of the second of two classes, else one for each class."""
        return self._predictor(X)
