"""Cross-validation of the pooled data with the federation's folds, by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import mean_poisson_deviance

import fedsolve as fs
from fedsolve.losses import LinearLoss
from fedsolve.selection import fold_of_samples


def judged(parties: list[fs.Client], loss: LinearLoss, folds: int, seed: int) -> list[tuple[float, float | None]]:
    """The error on each fold of the fit to the others, and the accuracy of a classifier."""
    where = np.concatenate([fold_of_samples(client, folds, seed) for client in parties])
    X = np.vstack([client.X.toarray() if sp.issparse(client.X) else client.X for client in parties])
    X = X if loss.features is None else loss.features.block(X)
    y = np.concatenate([client.y for client in parties])
    s = np.concatenate([np.ones(c.n_samples) if c.sample_weight is None else c.sample_weight for c in parties])
    offset = np.concatenate([np.zeros(c.n_samples) if c.offset is None else c.offset for c in parties])
    judge = {fs.Squared: _squared, fs.Logistic: _classes, fs.Softmax: _classes, fs.Poisson: _poisson}[type(loss)]
    return [judge(loss, X, y, s, offset, where != fold) for fold in range(folds)]


def _squared(loss: LinearLoss, X: Any, y: Any, s: Any, offset: Any, train: Any) -> tuple[float, None]:
    """alpha = l2 · Σ weights of the training part."""
    fit = Ridge(alpha=loss.l2 * s[train].sum(), fit_intercept=loss.intercept == "free", solver="cholesky")
    fit.fit(X[train], (y - offset)[train], s[train])
    squares = (fit.predict(X[~train]) - (y - offset)[~train]) ** 2
    return float(np.average(squares, weights=s[~train])), None


def _classes(loss: LinearLoss, X: Any, y: Any, s: Any, offset: Any, train: Any) -> tuple[float, float]:
    fit = LogisticRegression(
        C=1 / (loss.l2 * s[train].sum()),
        solver="newton-cholesky",
        tol=1e-13,
        fit_intercept=loss.intercept == "free",
        max_iter=1000,
    ).fit(X[train], y[train], s[train])
    # From the decision function: scikit-learn's log_loss cuts probabilities off at 1e-16, which is η = 37.
    eta, labels = fit.decision_function(X[~train]), y[~train].astype(int)
    eta = eta if eta.ndim == 2 else np.stack([np.zeros(len(eta)), eta], axis=1)
    errors = logsumexp(eta, axis=1) - eta[np.arange(len(eta)), labels]
    return float(np.average(errors, weights=s[~train])), float(fit.score(X[~train], y[~train], s[~train]))


def _poisson(loss: LinearLoss, X: Any, y: Any, s: Any, offset: Any, train: Any) -> tuple[float, None]:
    """An offset log e is a weight e on the rate y / e; scikit-learn divides by Σ s e where we divide by Σ s."""
    e = np.exp(offset)
    fit = PoissonRegressor(
        alpha=loss.l2 * s[train].sum() / (s * e)[train].sum(),
        solver="newton-cholesky",
        tol=1e-13,
        fit_intercept=loss.intercept == "free",
        max_iter=1000,
    ).fit(X[train], (y / e)[train], (s * e)[train])
    means = fit.predict(X[~train]) * e[~train]
    return float(mean_poisson_deviance(y[~train], means, sample_weight=s[~train])), None
