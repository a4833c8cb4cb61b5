"""Problems with known answers: what every exact algorithm must reach, whoever holds which samples.

The pooled answer is found by other means than the library's: SciPy's linear solver for the squared loss, scikit-learn's
Newton-Cholesky solvers for the logistic, softmax and Poisson losses, statsmodels for Poisson with offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import fedsolve as fs
from fedsolve.losses import LinearLoss


@dataclass(frozen=True)
class Problem:
    name: str
    loss: LinearLoss
    X: np.ndarray | sp.csr_array
    y: np.ndarray
    sample_weight: np.ndarray | None
    sizes: tuple[np.ndarray, ...]  # each client's rows
    offset: np.ndarray | None = None

    def clients(self) -> list[fs.Client]:
        return fs.data.partition(
            self.X,
            self.y,
            fs.data.Given(self.sizes),
            sample_weight=self.sample_weight,
            offset=self.offset,
        )

    def pooled(self) -> np.ndarray:
        return _pooled(self.name)

    def distance(self, w: np.ndarray) -> float:
        answer = self.pooled()
        return float(np.linalg.norm(w - answer) / np.linalg.norm(answer))


def _data(seed: int, n: int, p: int, outputs: int | None, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ np.diag(np.linspace(1.0, 0.4, p))
    truth = rng.standard_normal((p, outputs) if outputs else p)
    eta = X @ truth + 0.3
    if kind == "squared":
        return X, eta + 0.5 * rng.standard_normal(eta.shape)
    if kind == "softmax":
        return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(float)
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.4 * eta)).astype(float)
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)


def _cut(n: int, sizes: list[int]) -> tuple[np.ndarray, ...]:
    assert sum(sizes) == n
    return tuple(np.split(np.arange(n), np.cumsum(sizes)[:-1]))


SPLITS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, ...]]] = {
    "balanced": lambda y: _cut(len(y), [40, 40, 40, 40]),
    "unbalanced": lambda y: _cut(len(y), [90, 45, 20, 5]),
    # Sorted by label: the first client has one class only, and so has the last.
    "label-skewed": lambda y: tuple(np.sort(part) for part in np.array_split(np.argsort(_label(y), kind="stable"), 4)),
    "fewer samples than features": lambda y: _cut(len(y), [80, 76, 4]),
    "one class at a client": lambda y: _one_class(y),
    "one sample at a client": lambda y: _cut(len(y), [100, 59, 1]),
}


def _label(y: np.ndarray) -> np.ndarray:
    return y if y.ndim == 1 else y[:, 0]


def _one_class(y: np.ndarray) -> tuple[np.ndarray, ...]:
    positive = np.flatnonzero(_label(y) > np.median(_label(y)) if len(np.unique(y)) > 2 else _label(y) == 1)[:30]
    rest = np.setdiff1d(np.arange(len(y)), positive)
    return (positive, rest[:70], rest[70:])


LOSSES: dict[str, tuple[LinearLoss, str, int | None]] = {
    "squared": (fs.Squared(l2=1e-2), "squared", None),
    "squared, free intercept": (fs.Squared(l2=1e-1, intercept="free"), "squared", None),
    "squared, two outputs": (fs.Squared(l2=1e-2, intercept="penalised"), "squared", 2),
    "logistic": (fs.Logistic(l2=1e-2), "logistic", None),
    "logistic, free intercept": (fs.Logistic(l2=1e-2, intercept="free"), "logistic", None),
    "logistic, penalised intercept": (fs.Logistic(l2=1e-2, intercept="penalised"), "logistic", None),
    "softmax": (fs.Softmax(l2=1e-2, classes=3), "softmax", 3),
    "softmax, free intercept": (fs.Softmax(l2=1e-2, classes=3, intercept="free"), "softmax", 3),
    "poisson": (fs.Poisson(l2=1e-2), "poisson", None),
    "poisson, free intercept": (fs.Poisson(l2=1e-2, intercept="free"), "poisson", None),
}


def _make() -> dict[str, Problem]:
    problems: dict[str, Problem] = {}
    for loss_name, (loss, kind, outputs) in LOSSES.items():
        X, y = _data(7, 160, 6, outputs, kind)
        for split_name, split in SPLITS.items():
            name = f"{loss_name} | {split_name}"
            problems[name] = Problem(name, loss, X, y, None, split(y))
        rng = np.random.default_rng(11)
        weights = rng.integers(0, 4, 160).astype(float) + 0.5 * (np.arange(160) % 3 == 0)
        name = f"{loss_name} | weighted"
        problems[name] = Problem(name, loss, X, y, weights, SPLITS["unbalanced"](y))
        sparse = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
        name = f"{loss_name} | sparse"
        problems[name] = Problem(name, loss, sparse, y, None, SPLITS["label-skewed"](y))
    soft = np.clip(0.5 + 0.2 * _data(3, 160, 6, None, "squared")[1], 0, 1)
    X = _data(7, 160, 6, None, "logistic")[0]
    problems["logistic | soft labels"] = Problem(
        "logistic | soft labels", fs.Logistic(l2=1e-2), X, soft, None, SPLITS["unbalanced"](soft)
    )
    X, counts = _data(7, 160, 6, None, "poisson")
    exposure = np.random.default_rng(5).uniform(0.2, 3.0, 160)
    problems["poisson | offsets"] = Problem(
        "poisson | offsets",
        fs.Poisson(intercept="free"),
        X,
        np.round(counts * exposure),
        None,
        SPLITS["label-skewed"](counts),
        np.log(exposure),
    )
    return problems


PROBLEMS = _make()


@cache
def _pooled(name: str) -> np.ndarray:
    problem = PROBLEMS[name]
    answers: dict[type, Callable[[Problem], np.ndarray]] = {
        fs.Squared: pooled_squared,
        fs.Logistic: pooled_logistic,
        fs.Softmax: pooled_softmax,
        fs.Poisson: pooled_poisson,
    }
    return answers[type(problem.loss)](problem)


def _dense(problem: Problem) -> np.ndarray:
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    return X if problem.loss.intercept is None else np.hstack([X, np.ones((X.shape[0], 1))])


def _penalty(problem: Problem, p: int) -> np.ndarray:
    diagonal = np.full(p, problem.loss.l2)
    if problem.loss.intercept == "free":
        diagonal[-1] = 0.0
    return np.diag(diagonal)


def pooled_squared(problem: Problem) -> np.ndarray:
    """(Xᵀ S X / Σs + Λ)⁻¹ Xᵀ S y / Σs."""
    X = _dense(problem)
    s = np.ones(len(problem.y)) if problem.sample_weight is None else problem.sample_weight
    H = X.T @ (s[:, None] * X) / s.sum() + _penalty(problem, X.shape[1])
    right = X.T @ (s[:, None] * problem.y if problem.y.ndim == 2 else s * problem.y) / s.sum()
    return scipy.linalg.solve(H, right, assume_a="pos")


def pooled_logistic(problem: Problem) -> np.ndarray:
    """scikit-learn's fit. Soft labels become two weighted copies of a sample, which is the same objective."""
    free = problem.loss.intercept == "free"
    X = _dense(problem)[:, :-1] if free else _dense(problem)
    y = problem.y
    s = np.ones(len(y)) if problem.sample_weight is None else problem.sample_weight
    doubled = np.vstack([X, X])
    labels = np.repeat([1, 0], len(y))
    weights = np.concatenate([s * y, s * (1 - y)])
    kept = weights > 0
    model = LogisticRegression(
        C=1 / (problem.loss.l2 * s.sum()), solver="newton-cholesky", tol=1e-13, fit_intercept=free, max_iter=1000
    ).fit(doubled[kept], labels[kept], weights[kept])
    coef = model.coef_[0]
    return np.append(coef, model.intercept_) if free else coef


def pooled_softmax(problem: Problem) -> np.ndarray:
    """scikit-learn's fit, with its intercepts moved to sum to zero."""
    free = problem.loss.intercept == "free"
    X = _dense(problem)[:, :-1] if free else _dense(problem)
    s = np.ones(len(problem.y)) if problem.sample_weight is None else problem.sample_weight
    model = LogisticRegression(
        C=1 / (problem.loss.l2 * s.sum()), solver="newton-cholesky", tol=1e-13, fit_intercept=free, max_iter=1000
    ).fit(X, problem.y, s)
    coef = model.coef_.T
    return np.vstack([coef, model.intercept_ - model.intercept_.mean()]) if free else coef


def pooled_poisson(problem: Problem) -> np.ndarray:
    if problem.offset is not None:
        import statsmodels.api as sm

        family = sm.families.Poisson()
        return (
            sm.GLM(problem.y, _dense(problem), family, offset=problem.offset)
            .fit(tol=1e-14, tol_criterion="params")
            .params
        )
    free = problem.loss.intercept == "free"
    X = _dense(problem)[:, :-1] if free else _dense(problem)
    model = PoissonRegressor(
        alpha=problem.loss.l2, solver="newton-cholesky", tol=1e-13, fit_intercept=free, max_iter=1000
    ).fit(X, problem.y, problem.sample_weight)
    return np.append(model.coef_, model.intercept_) if free else model.coef_
