"""The interval of a ratio of means: against the t-test it inverts, and how often it covers."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from fedsolve.inference.ratio_interval import effective_rows, ratio_of_means


def errors(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    noise, z = rng.standard_normal((2, n))
    return (noise + 0.5 * z) ** 2, noise**2


@pytest.mark.parametrize(("n", "level"), [(30, 0.95), (100, 0.9), (500, 0.99)])
def test_its_ends_are_where_the_t_test_turns(n: int, level: float) -> None:
    a, b = errors(n)
    found = ratio_of_means(a, b, level=level)
    assert found.high is not None
    for end in (found.low, found.high):
        assert stats.ttest_1samp(a - end * b, 0.0).pvalue == pytest.approx(1 - level, rel=1e-8)
    assert found.low < found.ratio == pytest.approx(a.mean() / b.mean(), rel=1e-12)
    assert found.ratio < found.high


def test_the_inverse_ratio_has_the_inverse_interval() -> None:
    a, b = errors(60)
    there, back = ratio_of_means(a, b), ratio_of_means(b, a)
    assert (1 / back.low, 1 / back.high) == pytest.approx((there.high, there.low))


@pytest.mark.parametrize("size", [1e-150, 1e130])
def test_units_do_not_matter(size: float) -> None:
    a, b = errors(60)
    plain, scaled = ratio_of_means(a, b), ratio_of_means(size * a, size * b)
    assert (scaled.low, scaled.high) == pytest.approx((plain.low, plain.high), rel=1e-9)


def test_equal_errors_have_a_ratio_of_one() -> None:
    a, _ = errors(60)
    found = ratio_of_means(a, a)
    assert (found.low, found.high) == pytest.approx((1.0, 1.0), abs=1e-7)


def test_weights_count() -> None:
    a, b = errors(60)
    plain, equal = ratio_of_means(a, b), ratio_of_means(a, b, np.full(60, 7.0))
    assert (equal.low, equal.high) == pytest.approx((plain.low, plain.high), rel=1e-12)
    s = np.repeat([1.0, 0.0], 30)  # rows without weight are as if they were not there
    half, zeros = ratio_of_means(a[:30], b[:30]), ratio_of_means(a, b, s)
    assert (zeros.low, zeros.high) == pytest.approx((half.low, half.high), rel=1e-12)
    assert effective_rows(s, 60) == pytest.approx(30)
    assert effective_rows(None, 60) == 60
    assert effective_rows(np.array([1e12, *np.ones(40)]), 41) == pytest.approx(1.0)
    assert effective_rows(np.zeros(5), 5) == 0


def test_one_row_that_dominates_leaves_no_upper_end() -> None:
    a, b = np.ones(30), np.zeros(30)
    b[0] = 1.0
    found = ratio_of_means(a, b)
    assert found.high is None
    assert 0 < found.low < found.ratio == pytest.approx(30)
    assert stats.ttest_1samp(a - found.low * b, 0.0).pvalue == pytest.approx(0.05)
    both = ratio_of_means(b, b[::-1])
    assert (both.low, both.high) == (0.0, None)


def test_models_without_error() -> None:
    """Alike on both sides: what has no error is better, unless one row says so alone."""
    a, _ = errors(30)
    nothing = np.zeros(30)
    pays, does_not = ratio_of_means(a, nothing), ratio_of_means(nothing, a)
    assert pays.low > 1e15
    assert does_not.high is not None
    assert does_not.high < 1e-15
    assert pays.ratio == pytest.approx(1 / does_not.ratio)
    assert (1 / does_not.low, 1 / does_not.high) == pytest.approx((pays.high, pays.low))
    both = ratio_of_means(nothing, nothing)
    assert (both.ratio, both.low, both.high) == (1.0, 1.0, 1.0)
    one = np.r_[1.0, np.zeros(29)]
    assert ratio_of_means(one, nothing).low == 0
    assert ratio_of_means(nothing, one).high is None


@pytest.mark.parametrize("rows", [30, 100])
def test_it_covers(rows: int) -> None:
    """Paired squared errors of two models with Gaussian noise: E = (1 + bias²), known."""
    rng = np.random.default_rng(rows)
    trials = 1500
    hits = 0
    for _ in range(trials):
        noise, u, v = rng.standard_normal((3, rows))
        found = ratio_of_means((noise + 0.6 * u) ** 2, (noise + 0.3 * v) ** 2)
        hits += found.low <= 1.36 / 1.09 <= (found.high or np.inf)
    # 95 % at the level; 0.93 is 3.5 standard deviations below it.
    assert hits / trials > 0.93


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-8, 1e-12])
def test_nearly_equal_errors_keep_their_digits(size: float, sign: float) -> None:
    """The interval holds its own ratio, and shrinks with the difference: by decimals of 60 digits."""
    a, b = errors(60)
    a = b * (1 + sign * size * (0.3 + a / a.mean()))
    found = ratio_of_means(a, b)
    assert found.high is not None
    assert found.low <= found.ratio <= found.high
    with localcontext() as context:
        context.prec = 60
        first, second = ([Decimal(float(one)) for one in each] for each in (a, b))
        n, t = Decimal(60), Decimal(float(stats.t.ppf(0.975, 59)))
        mean_a, mean_b = sum(first) / n, sum(second) / n
        over = t * t / (n * (n - 1))
        aa = over * sum((x - mean_a) ** 2 for x in first)
        ab = over * sum((x - mean_a) * (y - mean_b) for x, y in zip(first, second, strict=True))
        bb = over * sum((y - mean_b) ** 2 for y in second)
        p, q, c = mean_b**2 - bb, mean_a * mean_b - ab, mean_a**2 - aa
        root = (q * q - p * c).sqrt()
        exact = [float((q - root) / p - 1), float((q + root) / p - 1)]
    # 1 + e is rounded to 1e-16, and so is each error.
    assert [found.low - 1, found.high - 1] == pytest.approx(exact, rel=1e-9, abs=2e-15)
