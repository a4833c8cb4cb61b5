"""Several runs as one line with a band, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.report.bands import MOST_PLACES, band


def test_median_and_range_at_every_round() -> None:
    found = band([[(0, 8.0), (1, 4.0), (2, 2.0)], [(0, 8.0), (1, 6.0), (2, 1.0)], [(0, 8.0), (1, 5.0), (2, 3.0)]])
    assert found.places.tolist() == [0, 1, 2]
    assert found.middle.tolist() == [8, 5, 2]
    assert found.low.tolist() == [8, 4, 1]
    assert found.high.tolist() == [8, 6, 3]


def test_a_run_stands_still_between_its_points_and_after_its_end() -> None:
    found = band([[(0, 5.0), (10, 1.0)], [(0, 7.0), (4, 3.0), (30, 2.0)]])
    assert found.places.tolist() == [0, 4, 10, 30]
    assert found.low.tolist() == [5, 3, 1, 1]
    assert found.high.tolist() == [7, 5, 3, 2]
    assert found.middle.tolist() == [6, 4, 2, 1.5]


def test_it_begins_where_the_last_run_begins() -> None:
    found = band([[(2.0, 5.0), (3.0, 1.0)], [(2.5, 7.0), (4.0, 3.0)]])
    assert found.places.tolist() == [2.5, 3.0, 4.0]
    assert found.low.tolist() == [5, 1, 1]


def test_of_two_points_at_one_place_the_last_counts() -> None:
    assert band([[(1.0, 5.0), (1.0, 2.0)]]).middle.tolist() == [2.0]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_run_that_diverged_is_at_infinity(bad: float) -> None:
    found = band([[(0, 1.0), (1, bad)], [(0, 1.0), (1, 0.5)], [(0, 1.0), (1, 0.25)]])
    assert found.middle.tolist() == [1.0, 0.5]
    assert found.high.tolist() == [1.0, np.inf]
    assert not np.isnan(found.low).any()


@pytest.mark.parametrize(("count", "low", "high"), [(1, 0, 0), (2, 0, 1), (4, 0, 3), (5, 1, 3), (9, 2, 6)])
def test_quartiles_are_values_of_runs(count: int, low: int, high: int) -> None:
    found = band([[(0, float(value))] for value in reversed(range(count))], "quartiles")
    assert (found.low.tolist(), found.high.tolist()) == ([low], [high])


def test_nothing_to_draw_and_very_much() -> None:
    assert band([]).places.size == 0
    assert band([[], []]).places.size == 0
    long = band([[(float(place), 1.0 / (1 + place)) for place in range(5000)]])
    assert long.places.size <= MOST_PLACES
    assert (long.places[0], long.places[-1]) == (0, 4999)
    assert np.array_equal(long.middle, 1 / (1 + long.places))
