"""What statsmodels says of the pooled rows, to compare summaries with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import fedsolve as fs
from fedsolve.inference.summarised import Summary

FAMILIES = {
    "Gaussian": sm.families.Gaussian,
    "binomial": sm.families.Binomial,
    "Poisson": sm.families.Poisson,
}
RELATIVE = 1e-6


def pooled(clients: Sequence[fs.Client]) -> dict[str, Any]:
    """The rows of all clients, raw."""

    def joined(name: str) -> Any:
        parts = [getattr(client, name) for client in clients]
        return None if parts[0] is None else np.concatenate(parts)

    return {name: joined(name) for name in ("X", "y", "offset", "sample_weight")}


def glm(family: str, X: Any, y: Any, *, intercept: bool = True, **more: Any) -> tuple[Any, Any]:
    """The fit with model-based and with HC0 standard errors; iterated to the end, so that its Hessian is that of the
    estimate."""
    design = sm.add_constant(X, has_constant="add") if intercept else X
    fits = []
    for kind in ("nonrobust", "HC0"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sm.GLM(y, design, family=FAMILIES[family](), **more)
            fits.append(model.fit(tol=1e-14, maxiter=100, cov_type=kind))
    return fits[0], fits[1]


def check(found: Summary, fits: tuple[Any, Any], *, standardised: bool = False, relative: float = RELATIVE) -> None:
    """Coefficients, both standard errors, log-likelihood, deviances, AIC, BIC."""
    plain, robust = fits
    estimates = found.standardised if standardised else found.estimates
    assert estimates[0] == pytest.approx(plain.params, rel=relative)
    for kind, fit in (("model", plain), ("robust", robust)):
        assert found.standard_errors(kind, standardised=standardised)[0] == pytest.approx(fit.bse, rel=relative)  # type: ignore[arg-type]
    fit = found.fit
    assert fit.deviance == pytest.approx(plain.deviance, rel=relative)
    assert fit.null_deviance == pytest.approx(plain.null_deviance, rel=relative)
    assert fit.log_likelihood == pytest.approx(plain.llf, rel=relative)
    assert fit.aic == pytest.approx(plain.aic, rel=relative)
    assert fit.bic == pytest.approx(plain.bic_llf, rel=relative)
    assert fit.scale == pytest.approx(plain.scale, rel=relative)
    assert fit.residual_df == plain.df_resid
    if not standardised:
        for row, z, p, interval in zip(
            found.coefficients(), plain.tvalues, plain.pvalues, plain.conf_int(1 - found.level), strict=True
        ):
            assert row.z == pytest.approx(z, rel=10 * relative)
            assert row.p == pytest.approx(p, rel=1e-3, abs=1e-12)  # a tail: d log p / d log z is about z²
            assert (row.low, row.high) == pytest.approx(
                tuple(interval), rel=10 * relative, abs=relative * abs(row.error)
            )
