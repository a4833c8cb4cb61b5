"""One parameter of a summary: estimate, standard errors, interval, test and ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Coefficient:
    """A line of a summary's table, in the units of the raw columns.

    Attributes:
        name: The column, or "(intercept)".
        outcome: For several classes, the class that is compared with the first one; else empty.
        estimate: In raw units; NaN where the column is a combination of others.
        error: Its standard error, of the kind that the summary was asked for.
        low, high: The confidence interval.
        z, p: The estimate over its standard error, and the two-sided p value under the standard normal (or t)
            distribution; None with a penalty, where they would test nothing.
        ratio, ratio_low, ratio_high: Odds, rate or relative-risk ratio, exp(estimate), of one raw unit, with its
            interval; None of an intercept and of a Gaussian model.
        standardised, standardised_error: The same for one standard deviation of the column.
        errors: The standard error of each kind, "model", "robust" and, where there are enough sites, "clustered".
    """

    name: str
    outcome: str
    estimate: float
    error: float
    low: float
    high: float
    z: float | None
    p: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    standardised: float
    standardised_error: float
    errors: dict[str, float]

    @property
    def is_aliased(self) -> bool:
        """Whether it has no estimate of its own, because its column is a combination of others."""
        return math.isnan(self.estimate)

    def as_dict(self) -> dict[str, object]:
        """Plain values by name; numbers that are not finite are None."""
        kinds = {f"{kind}_error": value for kind, value in self.errors.items()}
        every = {**{name: getattr(self, name) for name in FIELDS}, **kinds}
        return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in every.items()}


FIELDS = (
    *("name", "outcome", "estimate", "error", "low", "high", "z", "p", "ratio", "ratio_low", "ratio_high"),
    *("standardised", "standardised_error"),
)
