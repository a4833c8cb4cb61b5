"""Rows within a category, and digits of predictions, beside definitions that are written out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import PolicyRefusal
from fedsolve.sites.beside import alike_in_a_region, region_alike
from fedsolve.sites.digits import check_direction, check_line, check_reply, product
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.numbers_sent import floats_in
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.policy import Policy
from fedsolve.sites.regions import LEFT, Regions

LOSS = fs.Logistic(intercept="free")


def client(rows: int, seed: int = 0) -> fs.Client:
    """A number, a category with two columns, one that few have, and a number that is mostly zero."""
    rng = np.random.default_rng(seed)
    sex, mostly = rng.integers(0, 2, rows), np.where(rng.uniform(size=rows) < 0.3, rng.normal(size=rows), 0.0)
    rare = (np.arange(rows) < 9).astype(float)
    X = np.column_stack([rng.normal(size=rows), sex, 1 - sex, rare, mostly])
    return fs.Client("one", X, rng.integers(0, 2, rows).astype(float))


def wanted(one: fs.Client) -> list[np.ndarray]:
    """Its regions: both sexes, all but the rare ones, those with a number and those without."""
    sex, rare, mostly = (np.asarray(one.X[:, place]) for place in (1, 3, 4))
    return [sex == 1, sex == 0, rare == 0, mostly != 0, mostly == 0]


def test_regions_are_categories_of_enough_rows_and_their_complements() -> None:
    one = client(120)
    found = Regions.of(LOSS, one, Policy())
    assert {mask.tobytes() for mask in found.masks.T} == {mask.tobytes() for mask in wanted(one)}
    assert len(Regions.of(LOSS, client(9), Policy())) == 0


def test_regions_are_what_categories_leave_over() -> None:
    """Wards whose first has no column, products of a ward with a sex, and other columns between."""
    rng = np.random.default_rng(2)
    ward, sex = rng.permutation(300) % 5, rng.integers(0, 2, 300)
    wards = [ward == k for k in range(1, 5)]
    missing = (ward == 0) & (rng.uniform(size=300) < 0.5)  # it fits beside the wards, and into what they leave over
    products = [one & (sex == 1) for one in wards]
    X = np.column_stack([missing, sex, *wards, rng.normal(size=300), *products]).astype(float)
    found = Regions.of(LOSS, fs.Client("one", X, sex.astype(float)), Policy())
    masks = {mask.tobytes() for mask in found.masks.T}
    first = ward == 0
    for left in (first, first & ~missing, first & (sex == 1), first | (sex == 0), wards[0] & (sex == 0)):
        assert left.tobytes() in masks


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_of_a_region_by_definition(seed: int) -> None:
    one, rng = client(150, seed), np.random.default_rng(seed)
    regions, answers = Regions.of(LOSS, one, Policy()), set()
    for _ in range(60):
        parts = rng.uniform(size=(2, 150)) * 10.0 ** -rng.integers(0, 6)
        parts[:, rng.permutation(150)[: rng.integers(1, 7)]] *= 10.0 ** rng.integers(0, 6)
        few = [FewRows.of(Policy(), int(mask.sum())) for mask in wanted(one)]
        by_definition = any(this.exceeded(parts[:, mask]).any() for this, mask in zip(few, wanted(one), strict=True))
        assert regions.exceeded(parts) == by_definition
        answers.add(by_definition)
    assert answers == {True, False}


@pytest.mark.parametrize("rows", [60, 700])
def test_changes_within_a_region_by_definition(rows: int) -> None:
    one, rng = client(rows), np.random.default_rng(1)
    regions, answers = Regions.of(LOSS, one, Policy()), set()
    for _ in range(25):
        log, ones = PointLog(rows), np.ones(rows)
        new, known = rng.uniform(0.05, 0.95, rows), []
        for mask in wanted(one):
            near = new + rng.normal(0, 10.0 ** -rng.integers(2, 9), rows)
            near[~mask] = rng.uniform(size=int((~mask).sum()))
            near[np.flatnonzero(mask)[: rng.integers(0, 7)]] = rng.uniform()
            known.append(near if rng.uniform() < 0.5 else 1 - near)
        log.add(np.stack(known))
        alike = [_alike_in(new, other, mask) for other in known for mask in wanted(one)]
        assert alike_in_a_region(new, ones, True, log, regions) == any(alike)
        assert any(region_alike(new, ones, True, other, regions) for other in known) == any(alike)
        answers.add(any(alike))
    assert answers == {True, False}


def _alike_in(new: np.ndarray, other: np.ndarray, mask: np.ndarray) -> bool:
    few = FewRows.of(Policy(), int(mask.sum()))
    changed = replace(few, most=1 - LEFT * (1 - few.most))
    return any(bool(changed.exceeded(np.abs(face - other)[mask][None])[0]) for face in (new, 1 - new))


# ── digits ──


def judged(
    one: fs.Client, w: list[float], loss: fs.losses.LinearLoss = LOSS, direction: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What is made of the predictions, and as they were found."""
    found = loss.design(one).matvec(np.array(w))
    return product(loss, one, one, np.array(w), found, None, direction), found


def exactly(one: fs.Client, w: list[float]) -> np.ndarray:
    """The predictions, rounded once."""
    rows = np.column_stack([one.X, np.ones(one.n_samples)])
    return np.array([float(sum(Fraction(x) * Fraction(v) for x, v in zip(row, w, strict=True))) for row in rows])


@pytest.mark.parametrize("direction", [False, True])
@pytest.mark.parametrize("large", [2.0**10, 2.0**20, 2.0**30])
def test_terms_that_cancel_leave_no_steps(large: float, direction: bool) -> None:
    """To the last digit, where what was found has steps as wide as the last digit of the largest term."""
    one, w = client(100), [0.1, large, large, 0.0, 0.0, -large]
    made, found = judged(one, w, direction=direction)
    np.testing.assert_array_max_ulp(made, exactly(one, w), maxulp=1)
    assert np.abs(found - made).max() > large * 2.0**-55


@pytest.mark.parametrize("direction", [False, True])
@pytest.mark.parametrize("large", [2.0**52, 1e200, 1e290])
def test_terms_that_twice_the_precision_would_round_are_refused(large: float, direction: bool) -> None:
    with pytest.raises(PolicyRefusal, match="rounding"):
        judged(client(100), [0.1, large, large, 0.0, 0.0, -large], direction=direction)


def test_terms_of_which_a_small_one_would_be_rounded_to_steps() -> None:
    one = client(100)
    made, found = judged(one, [0.1, 4.0, 4.0, 0.0, 0.0, -4.0])  # nothing is lost of a tenth
    assert made is found
    w = [2.0**-50, 4.0, 4.0, 0.0, 0.0, -4.0]
    np.testing.assert_array_max_ulp(judged(one, w)[0], exactly(one, w), maxulp=1)


def decoys() -> tuple[fs.Client, np.ndarray]:
    """Half of the rows have a category whose column takes the intercept away."""
    rng, half = np.random.default_rng(0), np.repeat([0.0, 1.0], 50)
    return fs.Client("a", np.column_stack([rng.normal(60, 12, 100), half]), np.arange(100) % 2.0), half == 1


def test_rows_that_lose_their_digits_beside_others_that_do_not() -> None:
    one, cancel = decoys()
    w = [2.0**-40, -1.0, 1.0]
    made, found = judged(one, w, direction=True)
    np.testing.assert_array_equal(made[~cancel], found[~cancel])
    np.testing.assert_array_max_ulp(made[cancel], exactly(one, w)[cancel], maxulp=1)
    assert np.abs(made - found)[cancel].max() > 2.0**-55
    offset = np.where(cancel, -1.0, 0.0)
    again = product(LOSS, one, one, np.array([2.0**-40, 0.0, 1.0]), np.array(found), offset, False)
    np.testing.assert_array_max_ulp(again[cancel], made[cancel], maxulp=1)


def test_classes_that_lose_their_digits_beside_others_that_do_not() -> None:
    one, cancel = decoys()
    loss, w = fs.Softmax(l2=0.1, intercept="free", classes=2), np.zeros((3, 2))
    w[2], w[0, 1], w[1, 1] = 3.0, 2.0**-40, 2.0  # common to both classes, the rows' own, and the decoy of the others
    one = fs.Client("a", np.column_stack([one.X[:, 0], 1 - one.X[:, 1]]), one.y)
    found = loss.design(one).matvec(w)
    made = product(loss, one, one, w, found, None, True)
    wanted = one.X[cancel, 0] * 2.0**-40
    np.testing.assert_allclose((made[:, 1] - made[:, 0])[cancel], wanted, rtol=1e-14)
    assert np.abs((found[:, 1] - found[:, 0])[cancel] / wanted - 1).max() > 1e-8


def test_each_target_has_its_own_digits() -> None:
    one, _ = decoys()
    one = fs.Client("a", one.X, np.column_stack([one.y, one.X[:, 0]]))
    loss, w = fs.Squared(intercept="free"), np.zeros((3, 2))
    w[0, 0], w[:, 1] = 1.0, [1e-3, 0.0, 1e6]
    found = loss.design(one).matvec(w)
    assert product(loss, one, one, w * [1.0, 0.0], found * [1.0, 0.0], None, True) is not None
    made = product(loss, one, one, w, found, None, True)
    np.testing.assert_array_equal(made, found)  # far, and nothing cancels
    w[2, 0], one.X[:, 1] = 0.0, 1.0
    w[1:, 1] = [-1e6, 1e6]
    found = loss.design(one).matvec(w)
    made = product(loss, one, one, w, found, None, True)
    np.testing.assert_allclose(made[:, 1], 1e-3 * one.X[:, 0], rtol=1e-15)
    assert np.abs(made[:, 1] / found[:, 1] - 1).max() > 1e-12


def test_the_level_of_predictions_is_no_size_of_theirs() -> None:
    """Counts follow the last digit of a prediction, however far all predictions are from zero."""
    one, w = client(100), [0.1, 500.0, 500.0, 0.0, 0.0, -1180.0]
    made, found = judged(one, w, loss=fs.Poisson(intercept="free"))
    assert made is not found
    np.testing.assert_array_max_ulp(made, exactly(one, w), maxulp=1)


def test_moderate_and_far_points_are_as_they_were_found() -> None:
    """To the bit, so that a run equals its simulation."""
    one = client(100)
    for w in ([0.0] * 6, [0.0, 0, 0, 0, 0, 3.0], [1e-17, 0, 0, 0, 0, 1.0], [2.0, -1.0, 1.0, 0.5, 3.0, -0.5]):
        for loss in (LOSS, fs.Squared(intercept="free")):
            made, found = judged(one, w, loss=loss)
            assert made is found
    made, found = judged(one, [1e-3, 0.0, 0.0, 0.0, 0.0, 1e6], loss=fs.Squared(intercept="free"))
    assert made is found  # what is far rounds its own sums


def test_lines_whose_parts_cancel() -> None:
    one, here = client(100), np.linspace(-1.0, 1.0, 100)
    check_line(LOSS, one, (here, here), here + here)
    with pytest.raises(PolicyRefusal, match="a line came"):
        check_line(LOSS, one, (1e3 * here, -1e3 * here), 0.0 * here)


def test_directions_and_replies_within_the_range_of_numbers() -> None:
    for fine in (np.zeros(3), np.array([1e-90, 1.0]), np.array([0.0, 5e-324, 1.0])):
        check_direction(fine)
        check_reply(fine)
    for odd in (np.array([1e200, 0.0]), np.array([1e-320, 0.0]), np.array([np.nan]), np.array([np.inf])):
        with pytest.raises(PolicyRefusal):
            check_direction(odd)
    for odd in (np.array([1.0, np.inf]), np.array([np.nan]), np.array([5e-324, 0.0])):
        with pytest.raises(PolicyRefusal):
            check_reply(odd)


def test_arrays_of_floats_are_found_in_whatever_form() -> None:
    found = list(floats_in([np.ones(2), {"a": (np.zeros(3), 1.0, "text")}, np.arange(4), None]))
    assert [one.size for one in found] == [2, 3]
