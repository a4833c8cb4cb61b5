"""Confidence intervals of figures on held-out rows, from the sums that the clients have sent: of an accuracy, and of
the area under a ROC curve. For rows that count alike; with other sample weights neither holds, and there is none.

Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American Statistical
Association, 1927. DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver
operating characteristic curves: a nonparametric approach", Biometrics, 1988.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from fedsolve.inference.evaluated import Figures

Interval = tuple[float, float]


def accuracy_interval(found: Figures, level: float = 0.95) -> Interval | None:
    """Wilson's interval for the share of rows whose class is predicted."""
    if found.accuracy is None or not _count_alike(found):
        return None
    n, p, z = found.samples, found.accuracy, _quantile(level)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def auc_interval(found: Figures, level: float = 0.95) -> Interval | None:
    """DeLong's interval on the scale of the log-odds, so that it stays between 0 and 1, widened by what counting scores
    in bins may have cost. Of two classes, with two rows of each at least; None for an area of 0 or 1, whose estimated
    error is 0."""
    if found.auc is None or not found.curve or len(found.confusion) != 2 or not _count_alike(found):
        return None
    negatives, positives = (sum(row) for row in found.confusion)
    if min(negatives, positives) < 2 or not 0 < found.auc < 1:
        return None
    fpr, tpr = np.array(found.curve).T  # from the highest scores to the lowest, a step for each bin
    share_negative, share_positive = np.diff(fpr), np.diff(tpr)
    below = 1 - (fpr[1:] + fpr[:-1]) / 2  # of the negatives, below a positive of this bin; equal scores count half
    above = (tpr[1:] + tpr[:-1]) / 2
    area = float(share_positive @ below)
    spread_positive = float(share_positive @ (below - area) ** 2) / (positives - 1)
    spread_negative = float(share_negative @ (above - area) ** 2) / (negatives - 1)
    error = math.sqrt(spread_positive + spread_negative)
    if not error > 0:
        return None
    half = _quantile(level) * error / (found.auc * (1 - found.auc))
    centre, slack = math.log(found.auc / (1 - found.auc)), found.auc_error or 0.0
    low, high = (1 / (1 + math.exp(-(centre + sign * half))) for sign in (-1, 1))
    return max(0.0, low - slack), min(1.0, high + slack)


def _count_alike(found: Figures) -> bool:
    return found.samples > 0 and math.isclose(found.weight, found.samples, rel_tol=1e-9)


def _quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)
