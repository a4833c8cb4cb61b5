"""A curious server with batches, and with refusals that would measure the largest row. Numbers go on from
`test_start_attacks.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientRefused, FedsolveError, PolicyRefusal
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.misfit import is_far
from fedsolve.sites.policy import Policy
from fedsolve.sites.sizes import check_sizes
from tests.sites.curious import joined
from tests.sites.hospitals import LOSS, Hospitals, hospitals, terms

SQUARED = fs.Squared(intercept="free")
KNOWN = "own_draws = false"


def averaging(loss: Any = LOSS, **how: Any) -> fs.FedAvg:
    """One local step on a batch, whose change is the batch's gradient."""
    return fs.FedAvg(loss, fs.GradientSteps(1, step_size=0.1, **how))


def begins(found: Hospitals, algorithm: fs.FedAvg) -> None:
    with joined(found, algorithm):
        pass


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)  # the smallest of the four has 50 rows


@pytest.mark.parametrize("size", [49, 46, 59])
def test_127_a_batch_of_all_rows_but_a_few(size: int, found: Hospitals) -> None:
    """The sum over all rows less the sum over the batch is the row that it leaves out."""
    with pytest.raises(FedsolveError, match=r"whose sum is that of all rows less the batch's.*'min_rows'"):
        begins(found, averaging(batch_size=size))


def test_a_batch_that_leaves_enough_out(found: Hospitals) -> None:
    begins(found, averaging(batch_size=45))
    begins(found, averaging(batch_size=90))  # more than any site has: all rows, and no batch


def gradient(found: Hospitals, algorithm: fs.FedAvg, w: np.ndarray, asked: Any = None) -> np.ndarray:
    """The sum over a batch of arden's rows, at the first question of a run's second round."""
    with joined(found, algorithm, asked) as fed:
        fed.begin_round(2)
        reply: np.ndarray = fed.gather(algorithm.local_update, w=w, step_size=0.1)["arden"]
    assert algorithm.local.batch_size is not None
    return (w - reply) / 0.1 * algorithm.local.batch_size


def is_a_row(difference: np.ndarray, found: Hospitals) -> bool:
    """Whether a difference of logistic gradients at 0 is ±½ times a row of arden, by its age; the intercept has ±½."""
    ages = [to_numpy(client.X)[:, 0].astype(float) for client in found.clients]
    everybody = np.concatenate(ages)
    own = (ages[0] - everybody.mean()) / everybody.std()
    return bool(difference[3]) and bool(np.abs(own - difference[0] / difference[3]).min() < 1e-9)


def test_128_batches_of_two_runs_that_differ_in_one_row(tmp_path: Path) -> None:
    """With one seed, the batch of six is that of five and one more."""
    told = []
    for policy in (KNOWN, ""):
        folder = tmp_path / (policy or "default")
        folder.mkdir()
        found = hospitals(folder, policy=policy)
        five, six = (gradient(found, averaging(batch_size=size), np.zeros(4)) for size in (5, 6))
        told.append(is_a_row(six - five, found))
    assert told == [True, False]


def test_129_the_same_batches_again_and_again(found: Hospitals) -> None:
    with pytest.raises(FedsolveError, match=r"choose 'shuffled' \(rule 'own_draws'"):
        begins(found, averaging(batch_size=10, batches="fixed"))


@pytest.mark.parametrize(("policy", "same"), [(KNOWN, True), ("", False)])
def test_130_the_same_question_number_at_other_points(policy: str, same: bool, tmp_path: Path) -> None:
    """Chance is seeded by round and question, which the server says. Gradients of one batch of a squared loss are
    linear in the point."""
    found = hospitals(tmp_path, policy=policy, numbers=True)
    algorithm, asked = averaging(SQUARED, batch_size=10), terms()
    points = [scale * np.array([0.5, -0.2, 0.1, 0.3]) for scale in (0.0, 1.0, 2.0)]
    with joined(found, algorithm, asked) as fed:
        sums = []
        for w in points:
            fed.begin_round(2)
            sums.append((w - fed.gather(algorithm.local_update, w=w, step_size=0.1)["arden"]) / 0.1)
            # A question that comes again has its batch again: an answer that was lost leaves no trace.
            fed.begin_round(2)
            again = (w - fed.gather(algorithm.local_update, w=w, step_size=0.1)["arden"]) / 0.1
            np.testing.assert_array_equal(again, sums[-1])
    assert bool(np.abs(sums[0] - 2 * sums[1] + sums[2]).max() < 1e-9) is same


@pytest.mark.parametrize(("rows", "size"), [(40, 5), (40, 12)])
def test_131_draws_with_repetition_have_few_different_rows(rows: int, size: int) -> None:
    solver = averaging(SQUARED, batch_size=size, batches="independent")
    with pytest.raises(PolicyRefusal, match="drawn with repetition"):
        check_sizes(Policy(), {"algorithm": solver}, drawn_from(rows))


@pytest.mark.parametrize(("rows", "size"), [(40, 16), (1000, 9)])
def test_so_many_draws_have_enough_different_rows(rows: int, size: int) -> None:
    solver = averaging(SQUARED, batch_size=size, batches="independent")
    check_sizes(Policy(), {"algorithm": solver}, drawn_from(rows))


def test_of_five_draws_some_have_few_different_rows() -> None:
    draws = np.random.default_rng(0).integers(40, size=(20_000, 5))
    assert any(len(set(one)) < 3 for one in draws.tolist())


def drawn_from(rows: int) -> fs.Client:
    rng = np.random.default_rng(0)
    return fs.Client("a", rng.normal(size=(rows, 2)), rng.normal(size=rows))


def test_draws_by_weight_may_be_of_few_heavy_rows() -> None:
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(40) < 4, 50.0, 1.0)  # four rows have 85 % of the weight
    client = fs.Client("a", rng.normal(size=(40, 2)), rng.normal(size=40), sample_weight=weights)
    with pytest.raises(PolicyRefusal, match="drawn with repetition"):
        check_sizes(Policy(), {"algorithm": averaging(SQUARED, batch_size=16, batches="independent")}, client)


def refusal(found: Hospitals, algorithm: Any, w: np.ndarray) -> str:
    with joined(found, algorithm) as fed, pytest.raises(ClientRefused) as refused:
        fed.gather(algorithm.evaluate, w=w)
    return str(refused.value)


@pytest.mark.parametrize(
    ("loss", "end"),
    [(fs.Poisson(intercept="free"), 300.0), (SQUARED, np.finfo(float).max), (LOSS, np.finfo(float).max)],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers overflow, as they are meant to
def test_132_words_that_measure_the_largest_prediction(loss: Any, end: float, tmp_path: Path) -> None:
    """Where predictions are cut off or overflow is where the largest row is: what a site says must not tell."""
    found = hospitals(tmp_path, numbers=not loss.classifies)
    said = {refusal(found, fs.Newton(loss), np.array([end / largest, 0.0, 0.0, 0.0])) for largest in (1.5, 2.0, 3.0, 9)}
    assert len(said) == 1
    assert "'largest_loss'" in said.pop()


def test_133_a_level_at_which_the_largest_prediction_is_cut_off(tmp_path: Path) -> None:
    """Near 300 small differences decide who is cut off, and all other rules allow the point."""
    found = hospitals(tmp_path, numbers=True)
    newton = fs.Newton(fs.Poisson(intercept="free"))
    said = {refusal(found, newton, np.array([0.01, 0.0, 0.0, level])) for level in (299.0, 299.97, 300.5, 160.0)}
    assert len(said) == 1


def test_whether_predictions_are_far_is_decided_by_all_of_them() -> None:
    loss = fs.Poisson()
    ordinary = np.random.default_rng(0).normal(2.0, 1.5, size=200)
    assert not is_far(loss, ordinary)
    assert is_far(loss, ordinary + 150.0)
    # One row moves the verdict as little as it moves a mean of squares: by a two-hundredth.
    limits = []
    for factor in (1.0, 2.0):
        eta = ordinary.copy()
        eta[0] = factor * np.abs(ordinary).max()
        limits.append(next(scale for scale in np.arange(1.0, 20.0, 0.01) if is_far(loss, scale * eta)))
    assert 0.9 < limits[1] / limits[0] <= 1.0
    assert not is_far(SQUARED, 1e99 * ordinary)
    assert is_far(SQUARED, 1e101 * ordinary)
    assert is_far(LOSS, np.array([1.0, np.inf]))
