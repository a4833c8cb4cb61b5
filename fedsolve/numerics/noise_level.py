"""The standard deviation of the noise in a regression, from the sums ΦᵀΦ, Φᵀy and yᵀy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RESOLVED = 1e-13  # of the largest eigenvalue: what is below it is rounding
GRID = 400
SPAN = (1e-14, 1e4)  # of the largest eigenvalue: where the ridge is looked for


def noise_level(
    gram: NDArray[np.float64], products: NDArray[np.float64], squares: NDArray[np.float64], rows: int
) -> float | None:
    """An estimate of σ where y = Φθ + noise, from residuals.

    With at least twice as many rows as Φ has rank it is the usual one, the squares of the least-squares residuals over
    rows − rank, which is unbiased. With fewer (a kernel's features can fit anything, and leave no residuals) they are
    the residuals of the ridge fit that maximises the marginal likelihood of θ ~ N(0, τ² I), over the trace of
    I − A: then σ is found as far as y − noise is smooth, which a rough function or one that differs between clients
    is not. Both follow from the sums alone, in the eigenvectors of ΦᵀΦ.

    Args:
        gram: ΦᵀΦ, p × p. With weights, ΦᵀSΦ, and so on: σ is the noise of a row of weight 1.
        products: Φᵀy, p or p × k for k outputs.
        squares: yᵀy, one number or one for each output.
        rows: How many rows there are.

    Returns:
        σ, over all outputs; 0 if y is fitted to rounding; None if there are no rows to tell it from.
    """
    products = products.reshape(len(gram), -1)
    outputs, total = products.shape[1], float(np.sum(squares))
    if rows < 1 or total <= 0:
        return None if rows < 1 else 0.0
    # Least squares do not depend on the units of the columns, so they are taken in units in which rounding is least.
    units = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    values, fitted = _directions(gram / np.outer(units, units), products / units[:, None])
    rest = max(total - float(fitted.sum()), 0.0)
    free = rows - len(values)
    if free > 0 and rest <= 1e-14 * total:
        return 0.0
    if free >= len(values):
        return float(np.sqrt(rest / (free * outputs)))
    values, fitted = _directions(gram, products)
    rest, free = max(total - float(fitted.sum()), 0.0), rows - len(values)
    ridges = float(values[-1]) * np.geomspace(*SPAN, GRID)
    left = ridges[:, None] / (values + ridges[:, None])  # of each direction, what the ridge does not fit
    quadratic = left @ fitted + rest
    best = int(np.argmin(np.log(quadratic) - np.log(left).sum(axis=1) / rows))
    residual = float((left[best] ** 2) @ fitted + rest)
    return float(np.sqrt(residual / ((free + left[best].sum()) * outputs)))


def _directions(
    gram: NDArray[np.float64], products: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The positive eigenvalues of ΦᵀΦ, and the squares of y along the left singular vectors of Φ that belong to them,
    summed over the outputs. The rest of y is orthogonal to all columns."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > RESOLVED * max(float(values[-1]), 0.0)
    values, vectors = values[kept], vectors[:, kept]
    return values, ((vectors.T @ products) ** 2).sum(axis=1) / values
