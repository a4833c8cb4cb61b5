"""Log-likelihood, deviance and those of the intercept-only model, from sums; by the conventions of statsmodels' GLM.

Gaussian       scale φ = Σ s r² / (n − p); log-likelihood −n/2 (log(2π Σ s r² / n) + 1), with the scale profiled out
binomial, Poisson, multinomial   scale 1; log-likelihood with its constants, deviance 2 (that of a perfect fit − it)
AIC            −2 log-likelihood + 2 p; the Gaussian scale is not counted as a parameter (R's `AIC` counts it)
BIC            −2 log-likelihood + p log n
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from fedsolve.errors import DataError
from fedsolve.inference.score_sums import TOTALS
from fedsolve.inference.standard_errors import Answers, StandardErrors
from fedsolve.losses import Poisson, Squared


@dataclass(frozen=True)
class Likelihood:
    """Figures of the whole fit.

    observations   Σ s for frequencies, rows for reliabilities
    parameters     how many; with a penalty the effective number, tr (H + P)⁻¹ H
    r_squared      of a Gaussian model; None of others
    mcfadden       1 − log-likelihood / that of the intercept-only model; None of a Gaussian model
    """

    observations: float
    parameters: float
    residual_df: float
    scale: float
    log_likelihood: float
    null_log_likelihood: float
    deviance: float
    null_deviance: float
    aic: float
    bic: float
    r_squared: float | None
    adjusted_r_squared: float | None
    mcfadden: float | None


def likelihood(protocol: StandardErrors, answers: Answers, parameters: float) -> Likelihood:
    """The figures of a fit with so many parameters. Raises DataError if it has as many as there are rows."""
    totals = dict(zip(TOTALS, answers.sums.totals.tolist(), strict=True))
    reliability = protocol.weights == "reliability"
    n = float(answers.sums.samples) if reliability else totals["weight"]
    left = n - parameters
    if isinstance(protocol.loss, Squared):
        if left <= 1e-9 * n:
            raise DataError(
                f"the model has {parameters:g} parameters for {n:g} rows, so nothing is left to estimate the variance "
                "from: use fewer columns, or a penalty"
            )
        logs = totals["log_weight"] if reliability else 0.0
        return _gaussian(protocol, answers, n, parameters, left, logs)
    kernel = totals["kernel"]
    null_kernel = _null_kernel(protocol, answers, totals)
    found = kernel + totals["constant"]
    null = null_kernel + totals["constant"]
    deviance, null_deviance = (max(0.0, 2 * (totals["saturated"] - one)) for one in (kernel, null_kernel))
    aic, bic = _criteria(found, parameters, n)
    mcfadden = 1 - found / null if null else None
    return Likelihood(*(n, parameters, left, 1.0, found, null, deviance, null_deviance, aic, bic), None, None, mcfadden)


def _gaussian(
    protocol: StandardErrors, answers: Answers, n: float, parameters: float, left: float, logs: float
) -> Likelihood:
    deviance = -2.0 * float(answers.sums.totals[TOTALS.index("kernel")])
    first, second = answers.sums.null.tolist()
    null_deviance = max(0.0, second - first * first / float(answers.sums.totals[0]))

    def log_likelihood(squares: float) -> float:
        return math.inf if squares <= 0 else 0.5 * (logs - n * (math.log(2 * math.pi * squares / n) + 1))

    found, null = log_likelihood(deviance), log_likelihood(null_deviance)
    aic, bic = _criteria(found, parameters, n)
    about = second if protocol.loss.intercept is None else null_deviance  # without an intercept, about zero
    r_squared = 1 - deviance / about if about > 0 else None
    free = n if protocol.loss.intercept is None else n - 1
    adjusted = None if r_squared is None else 1 - (1 - r_squared) * free / left
    return Likelihood(
        *(n, parameters, left, deviance / left, found, null, deviance, null_deviance, aic, bic),
        *(r_squared, adjusted, None),
    )


def _criteria(log_likelihood: float, parameters: float, n: float) -> tuple[float, float]:
    return -2 * log_likelihood + 2 * parameters, -2 * log_likelihood + math.log(n) * parameters


def _null_kernel(protocol: StandardErrors, answers: Answers, totals: dict[str, float]) -> float:
    """Σ s (−ℓ) of the intercept-only model."""
    if answers.null_kernel is not None:
        return answers.null_kernel
    null, weight = answers.sums.null, totals["weight"]
    if isinstance(protocol.loss, Poisson):
        counts, exposure, offsets = null.tolist()
        return float(xlogy(counts, counts / exposure) + offsets - counts) if counts > 0 else 0.0
    # One share for each class; of a logistic model that of the other class is what is left.
    classes = null if len(null) > 1 else np.array([null[0], weight - null[0]])
    return float(xlogy(classes, np.maximum(classes, 0.0) / weight).sum())
