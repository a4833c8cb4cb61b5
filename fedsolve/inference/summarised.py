"""What a fitted model says of its columns, as statisticians read it: `run.summary()`."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit  # scipy.stats takes long to import

from fedsolve.errors import ConfigError
from fedsolve.federation.ledger import Ledger
from fedsolve.inference import forest
from fedsolve.inference.likelihood import Likelihood
from fedsolve.inference.summary_rows import Coefficient
from fedsolve.inference.summary_text import as_latex, as_text
from fedsolve.text import spreadsheet_cell
from fedsolve.typing import Array
from fedsolve.wire.storage import write_atomically

Errors = Literal["model", "robust", "clustered"]
INTERCEPT = "(intercept)"
RATIOS = {"binomial": "odds ratio", "Poisson": "rate ratio", "multinomial": "relative risk ratio"}
ERRORS = {
    "model": "model-based, from the summed Hessian",
    "robust": "robust (HC0), from the summed outer products of scores",
    "clustered": "robust, clustered by site",
}


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Coefficients with standard errors, intervals and tests, and the figures of the fit. Print it for a table.

    Attributes:
        family: "Gaussian", "binomial", "Poisson" or "multinomial".
        names: The parameters: the intercept first, then the columns after encoding.
        outcomes: For several classes the labels that are compared with `reference`; else ("",).
        reference: The label of the first class, where there are several.
        estimates: In raw units, a row for each outcome; NaN for a column that is a combination of others.
        covariances: Of `estimates`, by kind ("model", "robust", "clustered"), in the order of the flattened array.
        standardised, standardised_covariances: The same for one standard deviation of each numeric column.
        errors: The kind that intervals and tests use.
        level: Of the intervals.
        use_t: Whether intervals and tests use the t distribution with the residual degrees of freedom.
        fit: Log-likelihood, deviance, AIC, BIC and the like.
        rows, missing_cells, sites: How many rows were used, how many of their cells were imputed (None: fewer than 5),
            and by which sites.
        l2: The penalty; with one, intervals are not of the usual kind, which `notes` says.
        aliased: Columns without an estimate of their own, and those they are combinations of.
        distance: The estimates are at most about this many standard errors from the maximum of the likelihood.
        notes: What a reader should know besides.
        ledger: What was sent for it.
        legend: What the outcome is, what categories are compared with, and what stands for missing cells.
        column_moments: Mean and mean square of each column in raw units, a row each; `likelihood_ratio_test` compares
            them.
    """

    family: str
    names: tuple[str, ...]
    outcomes: tuple[str, ...]
    reference: str
    estimates: Array
    covariances: dict[str, Array]
    standardised: Array
    standardised_covariances: dict[str, Array]
    errors: Errors
    level: float
    use_t: bool
    fit: Likelihood
    rows: int
    missing_cells: int | None
    sites: tuple[str, ...]
    weights: str
    l2: float
    aliased: dict[str, tuple[str, ...]]
    distance: float
    notes: tuple[str, ...]
    ledger: Ledger = field(default_factory=Ledger)
    column_moments: Array | None = None
    legend: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0 < self.level < 1:
            raise ConfigError(f"level is between 0 and 1, such as 0.95, got {self.level!r}")
        if self.errors not in self.covariances:
            if self.errors == "clustered":
                raise ConfigError(
                    "standard errors clustered by site need at least 20 sites, and more sites than parameters: there "
                    f"are {len(self.sites)} sites and {np.size(self.estimates)} parameters; with fewer they are far "
                    "too small. To have them all the same: fs.StandardErrors(loss, clusters='yes')"
                )
            raise ConfigError(f"errors is one of {', '.join(map(repr, ERRORS))}, got {self.errors!r}")

    # ── numbers ──

    def with_errors(self, errors: Errors, level: float | None = None, use_t: bool | None = None) -> Summary:
        """The same with intervals and tests from another kind of standard error, at another level."""
        level, use_t = self.level if level is None else level, self.use_t if use_t is None else use_t
        return replace(self, errors=errors, level=level, use_t=use_t)

    @property
    def ratio_name(self) -> str | None:
        """What exp(estimate) is; None for a Gaussian model."""
        return RATIOS.get(self.family)

    def standard_errors(self, errors: Errors | None = None, *, standardised: bool = False) -> Array:
        """In the shape of `estimates`."""
        found = (self.standardised_covariances if standardised else self.covariances)[errors or self.errors]
        return np.sqrt(np.maximum(np.diag(found), 0.0)).reshape(np.shape(self.estimates))

    def coefficients(self) -> list[Coefficient]:
        """A line for each outcome and parameter."""
        kinds = {kind: self.standard_errors(kind) for kind in ERRORS if kind in self.covariances}  # type: ignore[arg-type]
        standardised = self.standard_errors(standardised=True)
        return [
            self._line(a, j, {kind: float(each[a, j]) for kind, each in kinds.items()}, float(standardised[a, j]))
            for a in range(len(self.outcomes))
            for j in range(len(self.names))
        ]

    def _line(self, a: int, j: int, errors: dict[str, float], standardised: float) -> Coefficient:
        name, estimate, error = self.names[j], float(self.estimates[a, j]), errors[self.errors]
        gone = math.isnan(estimate)
        if gone:
            errors, error, standardised = dict.fromkeys(errors, math.nan), math.nan, math.nan
        reach = self._quantile() * error
        low, high = estimate - reach, estimate + reach
        z = None if self.l2 or gone or not error > 0 else estimate / error
        p = None if z is None else self._p(z)
        has_ratio = self.ratio_name is not None and name != INTERCEPT and not gone
        ratio, ratio_low, ratio_high = ((_exp(one) if has_ratio else None) for one in (estimate, low, high))
        return Coefficient(
            name, self.outcomes[a], estimate, error, low, high, z, p, ratio, ratio_low, ratio_high,
            float(self.standardised[a, j]), standardised, errors,
        )  # fmt: skip

    def _p(self, z: float) -> float:
        """The two-sided p value."""
        return float(2 * (stdtr(self.fit.residual_df, -abs(z)) if self.use_t else ndtr(-abs(z))))

    def _quantile(self) -> float:
        upper = (1 + self.level) / 2
        return float(stdtrit(self.fit.residual_df, upper) if self.use_t else ndtri(upper))

    # ── for people and files ──

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        lines = len(self.outcomes) * len(self.names)
        return f"<Summary of a {self.family} model: {lines} coefficients, {self.rows:,} rows, {len(self.sites)} sites>"

    def to_rows(self) -> list[dict[str, object]]:
        """The table as plain values."""
        return [one.as_dict() for one in self.coefficients()]

    def to_dict(self) -> dict[str, object]:
        """Everything but the covariances as plain values, for JSON."""
        return {
            "family": self.family,
            "rows": self.rows,
            "missing_cells": self.missing_cells,
            "sites": list(self.sites),
            "reference": self.reference or None,
            "errors": self.errors,
            "level": self.level,
            "distribution": "t" if self.use_t else "normal",
            "weights": self.weights,
            "l2": self.l2,
            **vars(self.fit),
            "distance_to_maximum": self.distance,
            "coefficients": self.to_rows(),
            "aliased": {name: list(parts) for name, parts in self.aliased.items()},
            "legend": list(self.legend),
            "notes": list(self.notes),
        }

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as csv, a line for each coefficient; also written to `path` if one is given."""
        rows, text = self.to_rows(), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([spreadsheet_cell("" if one is None else one) for one in row.values()] for row in rows)
        if path is not None:
            write_atomically(Path(path), text.getvalue().encode())
        return text.getvalue()

    def to_latex(self) -> str:
        """The table for LaTeX (`tabular`, with booktabs)."""
        return as_latex(self)

    def forest_plot(self, path: str | Path | None = None, *, standardised: bool | None = None) -> bytes:
        """Coefficients with their intervals, drawn; also written to `path` if one is given.

        Args:
            path: A file to write; its ending says the format: png, svg or pdf.
            standardised: Whether to draw effects of one standard deviation, which share one scale, or of one raw unit;
                by default the former if the intervals in raw units differ by more than a factor of 10.
        """
        kind = "png" if path is None else Path(path).suffix.lstrip(".").lower() or "png"
        drawn = forest.draw(self, standardised, kind)
        if path is not None:
            write_atomically(Path(path), drawn)
        return drawn


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
