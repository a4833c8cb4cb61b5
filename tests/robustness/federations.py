"""Random federations with a known minimum, and the same problems in other units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

import fedsolve as fs
from fedsolve.losses import LinearLoss

KINDS = ("squared", "logistic", "softmax", "poisson")


@dataclass(frozen=True)
class Problem:
    kind: str
    loss: LinearLoss
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    rows: tuple[np.ndarray, ...]  # of each client
    unit: float = 1.0  # of the targets

    def clients(self) -> list[fs.Client]:
        return [
            fs.Client(f"client-{i}", self.X[part], self.y[part], None if self.weights is None else self.weights[part])
            for i, part in enumerate(self.rows)
        ]

    def predictors(self, w: np.ndarray) -> np.ndarray:
        """η of every row, in the units of the first problem."""
        p = self.X.shape[1]
        return (self.X @ w[:p] + (w[-1] if self.loss.intercept else 0.0)) / self.unit

    def in_units(self, seed: int) -> Problem:
        """The same problem: columns, sample weights and, for the squared loss, targets times powers of ten."""
        rng = np.random.default_rng(seed)
        columns = 10.0 ** rng.integers(-8, 9, self.X.shape[1])
        unit = 10.0 ** rng.integers(-6, 7) if self.kind == "squared" else 1.0
        weights = None if self.weights is None else self.weights * 10.0 ** rng.integers(-6, 7)
        return replace(self, X=self.X * columns, y=self.y * unit, weights=weights, unit=unit)

    def has_no_minimum(self) -> bool:
        """Whether some direction lowers the loss for ever: by linear programming, for hard labels and counts.

        Such a direction d has no sample against it and at least one for it: with the label c of a sample, d_c · x is
        the largest of the scores (softmax, logistic), or d · x ≤ 0, and = 0 where the count is not zero (Poisson).
        """
        A = np.c_[self.X, np.ones(len(self.X))] if self.loss.intercept else self.X
        A = A / np.sqrt((A * A).mean(axis=0))
        if self.kind == "squared":
            return False
        if self.kind == "poisson":
            rows, equal = -A, A[self.y > 0]
        elif self.kind == "logistic":
            rows, equal = A * np.where(self.y > 0.5, 1.0, -1.0)[:, None], A[:0]
        else:
            k, labels = 3, self.y.astype(int)
            own, others = np.eye(k)[labels], [np.eye(k)[(labels + shift) % k] for shift in range(1, k)]
            rows = np.vstack([np.einsum("ic,ij->icj", own - other, A).reshape(len(A), -1) for other in others])
            equal = rows[:0]
        # The largest sum of the scores over a box: zero if and only if no direction has any.
        found = linprog(
            -rows.sum(axis=0),
            A_ub=-rows,
            b_ub=np.zeros(len(rows)),
            A_eq=equal if len(equal) else None,
            b_eq=np.zeros(len(equal)) if len(equal) else None,
            bounds=(-1.0, 1.0),
        )
        return bool(-found.fun > 1e-6)

    def minimum(self) -> tuple[float, float]:
        """f(0) and f*, found on columns of unit size by Newton's method with an SVD for every step."""
        A = np.c_[self.X, np.ones(len(self.X))] if self.loss.intercept else self.X
        A = A / np.sqrt((A * A).mean(axis=0))
        loss = replace(self.loss, intercept=None)
        pooled = fs.Client("pooled", A, self.y, self.weights)
        w = loss.zero(pooled)
        first = value = loss.value(pooled, w)
        for _ in range(200):
            g, H = loss.gradient(pooled, w), loss.hessian(pooled, w).full()
            step = np.linalg.lstsq(H, g.reshape(H.shape[0], -1), rcond=1e-13)[0].reshape(w.shape)
            eta = 1.0
            while eta > 1e-12 and not loss.value(pooled, w - eta * step) < value:
                eta /= 2
            if eta <= 1e-12:
                break
            w = w - eta * step
            value = loss.value(pooled, w)
        return first, value


def problem(seed: int) -> Problem:
    """Every second one has a collinear column; sizes, weights, intercept and split vary; clients may have few rows or
    one class."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 4]
    n, p, clients = int(rng.integers(40, 160)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, p))
    eta = X @ (0.7 * rng.standard_normal((p, 3) if kind == "softmax" else p))
    y = _targets(rng, kind, eta)
    if rng.random() < 0.5:
        again = X[:, :1] if rng.random() < 0.5 else X @ rng.standard_normal((p, 1))
        X = np.hstack([X, again])
    weights = None if rng.random() < 0.5 else 0.5 + rng.integers(0, 4, n)
    intercept = "free" if rng.random() < 0.6 else None
    order = rng.permutation(n) if rng.random() < 0.7 else np.argsort(y, kind="stable")
    cuts = np.sort(rng.choice(np.arange(1, n), clients - 1, replace=False))
    return Problem(kind, _loss(kind, intercept), X, y, weights, tuple(np.split(order, cuts)))


def _targets(rng: np.random.Generator, kind: str, eta: np.ndarray) -> np.ndarray:
    if kind == "squared":
        return eta + rng.standard_normal(eta.shape)
    if kind == "logistic":
        return (rng.random(eta.shape) < 1 / (1 + np.exp(-eta))).astype(float)
    if kind == "softmax":
        return np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(float)
    return rng.poisson(np.exp(np.clip(0.5 * eta, -3, 3))).astype(float)


def _loss(kind: str, intercept: str | None) -> LinearLoss:
    if kind == "softmax":
        return fs.Softmax(classes=3, intercept=intercept)
    return {"squared": fs.Squared, "logistic": fs.Logistic, "poisson": fs.Poisson}[kind](intercept=intercept)
