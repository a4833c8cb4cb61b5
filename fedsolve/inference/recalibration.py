"""How a model's log-odds would have to be moved and stretched to fit: the calibration intercept and slope."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedsolve.inference.metrics import Floats, Rows

STEPS = 30
HALVINGS = tuple(0.5**k for k in range(1, 9))  # of a step that is too long, asked for in one exchange
Line = tuple[float, float]


def sums(rows: Rows, intercept: float, slope: float) -> Floats:
    """Of the log-loss of σ(a + b·η): its value, its slopes in a and b, and its curvature (aa, ab, bb), all summed."""
    eta = intercept + slope * rows.eta
    p = 0.5 + 0.5 * np.tanh(0.5 * eta)
    value = np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - rows.y * eta
    r, h = rows.s * (p - rows.y), rows.s * p * (1 - p)
    return np.array([rows.s @ value, r.sum(), r @ rows.eta, h.sum(), h @ rows.eta, h @ rows.eta**2])


def fitted(ask: Callable[[Sequence[Line]], Sequence[Floats]], weight: float) -> Line | None:
    """The intercept and the slope that minimise it, by Newton steps, each from sums over all rows.

    They begin at the line 0, where every row counts the same. At the model's own line, the slope 1, an over-confident
    model gives the rows hardly any curvature, and a step could lead anywhere. Steps are computed for scores that are
    centred and scaled, so that curvatures of very different sizes do not look like one that is missing.

    Args:
        ask: The sums at several lines, (intercept, slope), in one exchange.
        weight: The sum of the sample weights.

    Returns:
        None where there is no finite minimum (the scores separate the classes, one class is missing) or more than one
        (all scores are equal).
    """
    a, b = 0.0, 0.0
    found = ask([(a, b)])[0] / weight
    _, _, _, haa, hab, hbb = found.tolist()
    mean = hab / haa
    variance = hbb / haa - mean * mean
    if not variance > 1e-12 * hbb / haa:
        return None
    deviation, last = float(np.sqrt(variance)), math.inf
    for _ in range(STEPS):
        step = _newton(found, mean, deviation)
        if step is None:
            return None
        da, db, decrement = step
        if decrement <= 1e-24 or (decrement <= 1e-14 and decrement > 0.25 * last):  # or as small as rounding lets it be
            return a - da, b - db
        last = decrement
        value = float(found[0])
        for parts in ((1.0,), HALVINGS):
            lines = [(a - part * da, b - part * db) for part in parts]
            trials = [one / weight for one in ask(lines)]
            best = min(range(len(lines)), key=lambda place: float(trials[place][0]))
            if trials[best][0] <= value + 1e-15 * abs(value):
                break
        else:
            return (a, b) if decrement <= 1e-20 else None  # as low as rounding lets it be
        (a, b), found = lines[best], trials[best]
    return None


def _newton(found: Floats, mean: float, deviation: float) -> tuple[float, float, float] | None:
    """The Newton step in intercept and slope, and how far the value is above its minimum by it, times two. None where
    the curvature vanishes in some direction."""
    _, ga, gb, haa, hab, hbb = found.tolist()
    gz = (gb - mean * ga) / deviation
    haz = (hab - mean * haa) / deviation
    hzz = (hbb - 2 * mean * hab + mean * mean * haa) / deviation**2
    determinant = haa * hzz - haz * haz
    if not determinant > 1e-12 * haa * hzz:
        return None
    da, dz = (hzz * ga - haz * gz) / determinant, (haa * gz - haz * ga) / determinant
    return da - dz * mean / deviation, dz / deviation, ga * da + gz * dz
