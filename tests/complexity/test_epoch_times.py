"""The expected times of an epoch: equations (20) and (23) are exact, (21) is an approximation of known quality."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from fedsolve.complexity import communication_time, computation_time, epoch_time
from fedsolve.errors import ConfigError

DRAWS = 40_000


def test_what_the_server_computes_takes_two_units_each() -> None:
    """b + Y with Y of Erlang's distribution (equation 20). The mean of 40,000 draws is within 4 standard errors."""
    for b in (1, 7, 50):
        times = b + np.random.default_rng(b).gamma(b, size=DRAWS)
        assert abs(times.mean() - computation_time(b, None)) < 4 * math.sqrt(b / DRAWS)


def test_what_clients_send_waits_in_one_queue() -> None:
    """The last of τm departures, which come at rate 1 (equation 23)."""
    last = np.random.default_rng(0).exponential(size=(DRAWS, 20)).sum(axis=1)
    assert abs(last.mean() - communication_time(20, 1.0)) < 4 * math.sqrt(20 / DRAWS)
    assert communication_time(20, 12.5) == 250


def test_one_gradient_at_each_of_many_clients() -> None:
    """The slowest of k exponentials takes 1 + 1/2 + … + 1/k, which is log k + 0.5772: (21) neglects this constant, and
    its 2b counts 1 more than the delay."""
    for k in (2, 20, 1000):
        exact = 1 + sum(1 / j for j in range(1, k + 1))
        assert computation_time(1, k) == pytest.approx(2 + math.log(k))
        assert -0.1 < computation_time(1, k) - exact < 1 - 0.5772


@pytest.mark.parametrize(("b", "k", "exact", "told"), [(10, 20, 26.77, 23.0), (100, 20, 219.6, 203.0)])
def test_with_many_gradients_the_slowest_client_is_underestimated(b: int, k: int, exact: float, told: float) -> None:
    """The figure in the module's text: b + ∫ 1 − F(x)^k dx for the largest of k Erlang times. Equation (18) estimates
    it by a quantile, log k + b, where that is nearer to b + √(2 b log k)."""
    x = np.linspace(0, 10 * b, 200_001)
    assert b + np.trapezoid(1 - scipy.special.gammainc(b, x) ** k, x) == pytest.approx(exact, abs=0.05)
    assert computation_time(b, k) == pytest.approx(told, abs=0.05)


def test_kinds_of_epochs() -> None:
    assert epoch_time("A", 5, 4, 10) == 10 + math.log(4) + 40
    assert epoch_time("B", 5, 4, 10) == 10
    assert epoch_time("C", 0, 4, 10) == 40
    assert epoch_time("A", 5, 1, 0) == 10  # without communication, a client is a server


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="of kind 'A', 'B' or 'C', got 'D'"):
        epoch_time("D", 1, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no gradient is computed in an epoch of kind 'C', got 3"):
        epoch_time("C", 3, 1, 1)
    with pytest.raises(ConfigError, match="active is a whole number of at least 1"):
        computation_time(1, 0)
    with pytest.raises(ConfigError, match="gradients is a finite number of at least 0"):
        computation_time(-1, 3)
    with pytest.raises(ConfigError, match="phi is a finite number"):
        communication_time(3, math.nan)
