"""How a model's log-odds would have to be moved and stretched to fit: the calibration intercept and slope."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsolve.inference.metrics import Floats, Rows

STEPS = 40
HALVINGS = 30


def sums(rows: Rows, intercept: float, slope: float) -> Floats:
    """Of the log-loss of σ(a + b·η): its value, its slopes in a and b, and its curvature (aa, ab, bb), all summed."""
    eta = intercept + slope * rows.eta
    p = 0.5 + 0.5 * np.tanh(0.5 * eta)
    value = np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - rows.y * eta
    r, h = rows.s * (p - rows.y), rows.s * p * (1 - p)
    return np.array([rows.s @ value, r.sum(), r @ rows.eta, h.sum(), h @ rows.eta, h @ rows.eta**2])


def fitted(ask: Callable[[float, float], Floats], weight: float) -> tuple[float, float] | None:
    """The intercept and the slope that minimise it, by Newton steps, each from one sum over all rows.

    Returns None where there is no finite minimum (the scores separate the classes, one class is missing) or more than
    one (all scores are equal).
    """
    a, b = 0.0, 1.0
    found = ask(a, b)
    for _ in range(STEPS):
        value, ga, gb, haa, hab, hbb = found.tolist()
        determinant = haa * hbb - hab * hab
        if not determinant > 1e-12 * haa * hbb:
            return None
        da, db = (hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant
        decrement = ga * da + gb * db
        if decrement <= 1e-24 * weight:
            return a - da, b - db
        for _ in range(HALVINGS):
            trial = ask(a - da, b - db)
            if trial[0] <= value + 1e-15 * abs(value):
                break
            da, db = da / 2, db / 2
        else:
            return None
        a, b, found = a - da, b - db, trial
        if abs(b) > 1e8:
            return None
    return None
