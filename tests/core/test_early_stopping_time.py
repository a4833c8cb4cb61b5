"""Equation (23) of Su, Xu and Yang against its own words: the largest t for which the inequality holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.errors import ConfigError
from fedsolve.numerics.early_stopping_time import local_complexity, stopping_horizon, stopping_time

RNG = np.random.default_rng(5)
SPECTRA = {
    "polynomial": np.arange(1, 201.0) ** -2,
    "finite rank": np.r_[np.ones(7), np.zeros(193)],
    "one": np.r_[2.5, np.zeros(99)],
    "random": RNG.exponential(size=150) * 10.0 ** RNG.integers(-6, 2, 150),
}


def by_counting(spectrum: np.ndarray, sigma: float, step: float, steps: int) -> int:
    """The definition, one t after another."""
    t = 0
    while True:
        x = step * (t + 1) * steps
        if math.sqrt(np.minimum(spectrum, 1 / x).sum() / len(spectrum)) > 1 / (math.sqrt(2 * math.e) * sigma * x):
            return t
        t += 1


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize(("sigma", "step", "steps"), [(0.5, 0.1, 1), (0.5, 0.037, 5), (2.0, 0.5, 1), (0.05, 0.9, 10)])
def test_the_largest_t_that_holds(spectrum: np.ndarray, sigma: float, step: float, steps: int) -> None:
    found = stopping_time(spectrum, sigma, step, steps)
    assert found == by_counting(spectrum, sigma, step, steps)
    # Zeros add nothing, if it is said how many rows there are.
    assert stopping_time(spectrum[spectrum > 0], sigma, step, steps, samples=len(spectrum)) == found


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
def test_the_horizon_solves_the_equation(spectrum: np.ndarray) -> None:
    x = stopping_horizon(spectrum, 0.5)
    assert local_complexity(spectrum, 1 / math.sqrt(x)) == pytest.approx(
        1 / (math.sqrt(2 * math.e) * 0.5 * x), rel=1e-12
    )


@pytest.mark.parametrize("steps", [1, 2, 5, 10])
def test_how_far_to_go_does_not_depend_on_the_number_of_local_steps(steps: int) -> None:
    x = stopping_horizon(SPECTRA["polynomial"], 0.5)
    reached = 0.02 * steps * stopping_time(SPECTRA["polynomial"], 0.5, 0.02, steps)
    assert x - 0.02 * steps <= reached <= x * (1 + 1e-12)


def test_a_multiple_of_the_step_is_reached_in_spite_of_rounding() -> None:
    x = stopping_horizon(SPECTRA["polynomial"], 0.5)
    for count in range(1, 200):
        assert stopping_time(SPECTRA["polynomial"], 0.5, x / count) == count


def test_what_cannot_be_is_rejected() -> None:
    for sigma in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="sigma"):
            stopping_time(SPECTRA["one"], sigma, 0.1)
    with pytest.raises(ConfigError, match="step_size"):
        stopping_time(SPECTRA["one"], 1.0, 0.0)
    with pytest.raises(ConfigError, match="finite"):
        stopping_time(np.array([1.0, math.nan]), 1.0, 0.1)
    with pytest.raises(ConfigError, match="no eigenvalue is positive"):
        stopping_time(np.zeros(3), 1.0, 0.1)
    with pytest.raises(ConfigError, match="samples"):
        stopping_time(np.ones(3), 1.0, 0.1, samples=0)
