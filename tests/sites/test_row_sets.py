"""Sums and differences of sets of rows: all of them, at a cost that a site can bear."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fedsolve.errors import ConfigError
from fedsolve.sites.policy import Policy
from fedsolve.sites.row_sets import _fewest, check_row_sets, keep_sets, known_sets, with_used

RNG = np.random.default_rng(0)


def drawn(sets: int, rows: int) -> list[np.ndarray]:
    return [RNG.uniform(size=rows) < 0.5 for _ in range(sets)]


@pytest.mark.parametrize("sets", [1, 2, 4, 6])
def test_the_fewest_rows_of_any_combination(sets: int) -> None:
    for rows in (3, 12, 300):
        used = drawn(sets, rows)
        used[0][:3] = True
        left = [
            int(np.count_nonzero(sum(factor * one.astype(int) for factor, one in zip(factors, used, strict=True))))
            for factors in itertools.product((-2, -1, 0, 1, 2), repeat=sets)
        ]
        assert _fewest(np.stack(used)) == min(count for count in left if count)


def test_as_many_sets_as_may_be_cost_little_memory(tmp_path: Path) -> None:
    policy, used = Policy(min_rows=1, row_sets=8), drawn(8, 300)
    tracemalloc.start()
    check_row_sets(tmp_path, "a", used, policy)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(known_sets(tmp_path, "a")) == 8
    assert most < 30e6


def test_sets_that_others_have_added_are_not_lost(tmp_path: Path) -> None:
    policy = Policy(min_rows=1)
    mine, other = (with_used([], drawn(1, 50), policy) for _ in range(2))
    assert keep_sets(tmp_path, "a", [], other)
    assert not keep_sets(tmp_path, "a", [], mine)
    assert len(known_sets(tmp_path, "a")) == 1
    assert keep_sets(tmp_path, "a", other, with_used(other, mine, policy))
    assert len(known_sets(tmp_path, "a")) == 2


@pytest.mark.parametrize("many", [9, 10, 1000])
def test_there_is_a_limit_to_what_a_policy_may_set(many: int) -> None:
    with pytest.raises(ConfigError, match=r"policy\.row_sets is at most 8"):
        Policy(row_sets=many)
    assert Policy(row_sets=8).row_sets == 8
