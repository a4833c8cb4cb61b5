"""What is few, and what is nearly alike, beside definitions that are written out; and the file of earlier points."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsolve.errors import StorageError
from fedsolve.sites import point_log
from fedsolve.sites.beside import alike_but_few, nearly_one_of, two_alike
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.numbers_sent import numbers_in
from fedsolve.sites.point_log import GLANCE, PointLog
from fedsolve.sites.policy import Policy

DEFAULT = Policy()


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (7, 1), (8, 2), (12, 3), (16, 4), (5000, 4)])
def test_how_many_are_few(rows: int, count: int) -> None:
    few = FewRows.of(DEFAULT, rows)
    assert few.count == count
    assert few.limits.tolist() == pytest.approx([1 - 0.1 / m for m in range(1, count + 1)])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.integers(1, 6), st.floats(0.3, 0.99))
def test_a_few_have_too_much_by_definition(parts: list[float], count: int, most: float) -> None:
    sizes, total = sorted(parts, reverse=True), sum(parts)
    shares = [(sum(sizes[:m]), (1 - (1 - most) / m) * total) for m in range(1, min(count, len(parts)) + 1)]
    if len(parts) < count or any(abs(top - limit) < 1e-9 * total for top, limit in shares):
        return  # no policy makes more rows few than there are; and what is equal up to rounding may be either
    wanted = total > 0 and any(top > limit for top, limit in shares)
    assert FewRows(most, count).exceeded(np.array([parts]))[0] == wanted


def test_what_is_not_finite_is_too_much() -> None:
    odd = np.array([[1.0, np.nan, 1.0], [1.0, np.inf, 1.0], [1.0, 1.0, 1.0]])
    assert FewRows(0.9, 1).exceeded(odd).tolist() == [True, True, False]


def vectors(rng: np.random.Generator, rows: int) -> list[np.ndarray]:
    """Probabilities at twenty points, some of them near to others but for few rows or for a scale."""
    first = [rng.uniform(0.05, 0.95, rows) for _ in range(8)]
    near = []
    for k, one in enumerate(first):
        other = one + rng.normal(0, 10.0 ** -rng.integers(3, 9), rows)
        other[rng.permutation(rows)[: 1 + k % 6]] = rng.uniform(0, 1, 1 + k % 6)
        near.append([other, 1 - other, 0.5 * other][k % 3])
    return [*first, *near]


@pytest.mark.parametrize("rows", [40, 700])
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("on_disk", [True, False])
def test_a_glance_misses_nothing(rows: int, classes: bool, on_disk: bool, tmp_path: Path) -> None:
    """Of a large site some rows of each vector are in memory; those that may be near are read whole."""
    rng, few = np.random.default_rng(rows), FewRows.of(DEFAULT, rows)
    weights, answers = np.ones(rows), set()
    for k in range(6):
        log, known = PointLog(rows, tmp_path / f"{k}.f64" if on_disk else None), []
        for one in rng.permutation(np.stack(vectors(rng, rows))):
            wanted = any(alike_but_few(one, weights, classes, other, few) for other in known)
            assert nearly_one_of(one, weights, classes, log, few) == wanted
            answers.add(wanted)
            log.add(one[None])
            known.append(one)
    assert answers == {True, False}
    assert log.whole == (rows <= GLANCE)


@pytest.mark.parametrize("rows", [40, 700])
@pytest.mark.parametrize("classes", [True, False])
def test_a_glance_misses_no_pair_of_new_vectors(rows: int, classes: bool) -> None:
    """The probabilities of the classes of one point, of which any two are compared."""
    rng, few, weights, answers = np.random.default_rng(rows), FewRows.of(DEFAULT, rows), np.ones(rows), set()
    log = PointLog(rows)
    for _ in range(40):
        new = rng.permutation(np.stack(vectors(rng, rows)))[: rng.integers(1, 6)]
        wanted = any(alike_but_few(one, weights, classes, other, few) for one, other in combinations(new, 2))
        assert two_alike(new, weights, classes, log, few) == wanted
        answers.add(wanted)
    assert answers == {True, False}


def test_alike_but_few_by_hand() -> None:
    one, few, ones = np.linspace(0.1, 0.9, 100), FewRows(0.9, 4), np.ones(100)
    for moved in (1, 4, 5, 30):
        other = one.copy()
        other[:moved] += 0.05
        for face in (other, 1 - other):
            assert alike_but_few(one, ones, True, face, few) == (moved <= 4)
        assert alike_but_few(one, ones, False, 3.0 * other, few) == (moved <= 4)
    assert not alike_but_few(one, ones, True, one.copy(), few)  # the same question tells nothing new
    assert not alike_but_few(one, ones, True, one + 1e-17, few)


# ── the file ──


def test_runs_beside_each_other_see_what_the_others_add(tmp_path: Path) -> None:
    path, rng = tmp_path / "points.f64", np.random.default_rng(0)
    one, other = PointLog(100, path), PointLog(100, path)
    first, second = rng.uniform(size=(2, 100))
    with one.alone():
        one.add(first[None])
    with other.alone():
        assert first in other
        assert second not in other
        other.add(second[None])
    again = PointLog(100, path)
    with again.alone():
        assert len(again) == 2
        assert np.array_equal(again.vector(0), first)
        assert np.array_equal(again.vector(1), second)


def test_a_vector_that_is_there_in_part_is_taken_away(tmp_path: Path) -> None:
    path, first, second = tmp_path / "points.f64", *np.random.default_rng(0).uniform(size=(2, 100))
    path.write_bytes(first.tobytes() + b"cut off")
    log = PointLog(100, path)
    with log.alone():
        assert len(log) == 1
        log.add(second[None])
        assert np.array_equal(log.vector(1), second)
    assert path.stat().st_size == 1600


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_log, "MOST_VECTORS", 5)
    path, all_of_them = tmp_path / "points.f64", np.random.default_rng(0).uniform(size=(20, 80))
    log = PointLog(80, path)
    for one in all_of_them:
        with log.alone():
            log.add(one[None])
    for this in (log, PointLog(80, path)):
        with this.alone():
            assert len(this) == 5
            assert [one in this for one in all_of_them] == [False] * 15 + [True] * 5
            assert all(np.array_equal(this.vector(k), all_of_them[15 + k]) for k in range(5))
    assert path.stat().st_size == 5 * 80 * 8


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    log = PointLog(10, tmp_path / "points.f64")
    (tmp_path / "points.f64").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError), log.alone():
        log.add(np.ones((1, 10)))


def test_numbers_are_counted_in_whatever_form() -> None:
    assert numbers_in(None) == 0
    assert numbers_in([np.zeros((3, 4)), {"a": 1, "bcdefghij": True}, (2.0, None)]) == 12 + (1 + 1) + (2 + 1) + 1
