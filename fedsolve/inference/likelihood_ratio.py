"""The likelihood-ratio test of two nested models."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import chdtrc  # scipy.stats takes long to import

from fedsolve.errors import ConfigError
from fedsolve.inference.reopened import FinishedRun
from fedsolve.inference.summarised import Summary
from fedsolve.inference.summarising import summary

SAME = 1e-9  # relative: two sums over the same rows differ by rounding only
ALIKE = 1e-9  # of a column's size: means and mean squares of the same values
WORSE = 1e-6  # by how much the larger model may seem to fit worse: what the tolerances of two runs leave


@dataclass(frozen=True)
class LikelihoodRatio:
    """The test of a smaller model against a larger one that contains it.

    Attributes:
        statistic: Twice the difference of the log-likelihoods.
        df: How many parameters more the larger model has.
        p: The probability of a statistic at least this large if the smaller model is true, by the χ² distribution.
        added: The columns that only the larger model has.
    """

    statistic: float
    df: int
    p: float
    added: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Likelihood-ratio test of {', '.join(self.added)}: χ²({self.df}) = {self.statistic:.4g}, p = {self.p:.3g}"
        )


def likelihood_ratio_test(smaller: FinishedRun | Summary, larger: FinishedRun | Summary) -> LikelihoodRatio:
    """Whether the columns that only the larger model has say anything of the outcome.

        print(fs.likelihood_ratio_test(without_dose, with_dose))

    For a Gaussian model the statistic is n log(RSS₀/RSS₁), with the scale profiled out, as statsmodels' OLS has it.

    Args:
        smaller, larger: Two runs, or their summaries, on the same rows; the smaller's columns are among the larger's,
            with the same values: imputed alike, and in the same units.

    Raises:
        ConfigError: If the models are not nested: other losses, other rows, columns that only the smaller one has, or
            that have other values in it; or if one is penalised, where the statistic has another distribution.
    """
    one, other = (each if isinstance(each, Summary) else summary(each) for each in (smaller, larger))
    if one.family != other.family or one.outcomes != other.outcomes:
        raise ConfigError(f"the models are not nested: one is {one.family}, the other {other.family}")
    if one.l2 or other.l2:
        raise ConfigError(
            "a likelihood-ratio test is of fits without a penalty, because penalised ones do not maximise the "
            "likelihood: fit both with l2 = 0"
        )
    _check_rows(one, other)
    kept, every = (set(each.names) - set(each.aliased) for each in (one, other))
    if foreign := [name for name in one.names if name in kept - set(other.names)]:
        raise ConfigError(
            f"the models are not nested: only the smaller one has {', '.join(foreign)}; give the smaller model first"
        )
    _check_columns(one, other)
    df = round(other.fit.parameters - one.fit.parameters)
    added = tuple(name for name in other.names if name in every - kept)
    if df <= 0:
        raise ConfigError("both models have the same columns, so there is nothing to test")
    statistic = 2 * (other.fit.log_likelihood - one.fit.log_likelihood)
    if statistic < -WORSE * (1 + abs(one.fit.log_likelihood)):
        raise ConfigError(
            f"the larger model fits worse than the smaller one (by {-statistic / 2:.3g} in the log-likelihood), so "
            "they are not nested: are their columns preprocessed in the same way?"
        )
    statistic = max(statistic, 0.0)
    return LikelihoodRatio(statistic, df, float(chdtrc(df, statistic)), added)


def _check_columns(one: Summary, other: Summary) -> None:
    """Columns of one name have the same values, or else the larger model does not contain the smaller one. Where the
    larger has an indicator of missing cells, it does, whatever was imputed for them."""
    before, after = (_moments(each) for each in (one, other))
    absent = [
        name.removesuffix("=missing") for name in after if name.endswith("=missing") and name not in other.aliased
    ]
    for name in (each for each in before if each in after and each not in one.aliased):
        (mean, square), (again, squared) = before[name], after[name]
        size = max(square, squared) ** 0.5
        if max(abs(mean - again), abs(square**0.5 - squared**0.5)) <= ALIKE * size:
            continue
        if not any(name == each or name.startswith(f"{each}=") for each in absent):
            raise ConfigError(
                f"the models are not nested: {name} has a mean of {mean:.6g} in the smaller one and of {again:.6g} in "
                "the larger; impute it alike in both, and take the same units"
            )


def _moments(each: Summary) -> dict[str, tuple[float, float]]:
    if each.column_moments is None:
        return {}
    names = each.names[len(each.names) - each.column_moments.shape[1] :]
    return dict(zip(names, each.column_moments.T.tolist(), strict=True))


def _check_rows(one: Summary, other: Summary) -> None:
    """The null deviance is of outcomes, weights and offsets alone: where these are the same rows, it is the same."""
    counts = (one.rows, one.fit.observations, one.sites), (other.rows, other.fit.observations, other.sites)
    a, b = one.fit.null_deviance, other.fit.null_deviance
    if counts[0] != counts[1] or abs(a - b) > SAME * max(a, b) or one.weights != other.weights:
        raise ConfigError(
            f"the models are fitted to different rows: {one.rows:,} of {len(one.sites)} sites with a null deviance of "
            f"{a:.10g}, and {other.rows:,} of {len(other.sites)} sites with one of {b:.10g}; fit both to the same rows"
        )
