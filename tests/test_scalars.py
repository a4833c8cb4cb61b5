"""NumPy's numbers are numbers: np.int64(3) is 3, wherever it is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.federation.protocol import describe, fingerprint
from fedsolve.numerics.scalars import python_numbers, whole

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 2, 60)
LOSS = fs.Logistic(l2=0.125, intercept="free")


def clients(count: Any = 3, seed: Any = 0) -> list[fs.Client]:
    return fs.data.partition(X, Y, clients=count, seed=seed)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_whole_numbers(kind: type[Any], tmp_path: Path) -> None:
    algorithm = fs.FedAvg(LOSS, fs.GradientSteps(steps=3, batch_size=5))
    expected = fs.run(algorithm, clients(3, 1), rounds=5, seed=3)
    given = fs.FedAvg(LOSS, fs.GradientSteps(steps=kind(3), batch_size=kind(5)))
    found = fs.run(
        given,
        clients(kind(3), kind(1)),
        rounds=kind(5),
        seed=kind(3),
        measure=kind(1),
        checkpoint=tmp_path / "saved",
        checkpoint_every=kind(2),
    )
    assert np.array_equal(found.model.w, expected.model.w)
    assert type(found.seed) is int
    # What was begun with NumPy's numbers goes on with Python's.
    fs.run(algorithm, clients(3, 1), rounds=8, seed=3, checkpoint=tmp_path / "saved", resume=True)


def test_numbers_of_all_sizes() -> None:
    losses = [replace(LOSS, l2=kind(0.125)) for kind in (float, np.float64, np.float32, np.float16)]
    prints = {fingerprint(fs.Newton(loss)) for loss in losses}
    assert len(prints) == 1
    models = [fs.run(fs.Newton(loss), clients(), tolerance=np.float32(1e-6)).model.w for loss in losses]
    assert all(np.array_equal(models[0], w) for w in models)


def test_one_number_has_one_fingerprint() -> None:
    assert (
        fingerprint(fs.Logistic(l2=1)) == fingerprint(fs.Logistic(l2=1.0)) == fingerprint(fs.Logistic(l2=np.int64(1)))
    )
    assert fingerprint(fs.Softmax(classes=np.int64(3))) == fingerprint(fs.Softmax(classes=3))
    assert fingerprint(fs.Logistic(l2=1)) != fingerprint(fs.Logistic(l2=2))
    assert fingerprint(fs.RandomFourier(np.int64(8), np.float32(0.5), seed=np.int64(1))) == fingerprint(
        fs.RandomFourier(8, 0.5, seed=1)
    )
    assert describe((np.int64(3), np.float64(0.5), np.bool_(True))) == describe((3, 0.5, True))
    assert describe(True) != describe(1)
    a, b = np.arange(3.0), np.arange(3.0) + 1
    assert describe(a) != describe(b)  # arrays are still told apart


@pytest.mark.parametrize(
    "algorithm",
    [
        fs.SHED(LOSS, lbfgs=np.int64(2)),
        fs.SHED(LOSS, increment=np.int64(2)),
        fs.Newton(fs.Softmax(l2=0.1, classes=np.int64(2))),
        fs.Newton(replace(LOSS, features=fs.RandomFourier(np.int64(8), np.float64(0.5), seed=np.int64(3)))),
        fs.FedNL(LOSS, fs.TopK(np.int64(2))) if hasattr(fs, "TopK") else fs.FedNL(LOSS),
        fs.FedProx(LOSS, pull=np.float32(0.5)),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_hyper_parameters(algorithm: Any, transport: str) -> None:
    plain = python_numbers(algorithm)
    found, expected = (fs.run(one, clients(), rounds=4, transport=transport).model.w for one in (algorithm, plain))
    assert np.array_equal(found, expected)
    assert fingerprint(algorithm) == fingerprint(plain)


def test_cross_validation_and_links() -> None:
    grid = [fs.Squared(l2=np.float32(0.5)), fs.Squared(l2=np.float64(1))]
    found = fs.cross_validate(grid, clients(), folds=np.int64(3), seed=np.int64(1), reply_bytes=np.int64(10**6))
    expected = fs.cross_validate([fs.Squared(l2=0.5), fs.Squared(l2=1.0)], clients(), folds=3, seed=1)
    assert [one.error for one in found.candidates] == [one.error for one in expected.candidates]
    assert (type(found.folds), type(found.seed)) == (int, int)
    linked = [fs.Client(one.name, one.X, one.y, link=fs.Link(bytes_per_round=np.int64(5000))) for one in clients()]
    assert fs.run(fs.SHED(LOSS), linked).status == "converged"


HUGE = 2**64


@pytest.mark.parametrize("seed", [True, np.bool_(True), 3.0, "3", -1, np.int64(-1), HUGE, None, np.array([1])])
def test_what_is_no_seed(seed: Any) -> None:
    with pytest.raises(ConfigError, match="whole number from 0 to 2"):
        fs.run(fs.Newton(LOSS), clients(), seed=seed)
    if seed is not HUGE:  # a scheme draws from any whole number
        with pytest.raises(ConfigError, match="seed is a whole number"):
            clients(seed=seed)


def test_whole() -> None:
    assert whole("n", np.uint64(7), 1) == 7
    for wrong in (0, 1.5, True, None, "4"):
        with pytest.raises(ConfigError, match="n is a whole number of at least 1, got"):
            whole("n", wrong, 1)
    for option in ({"checkpoint_every": 0}, {"measure": -1}, {"measure": 0.5}):
        with pytest.raises(ConfigError, match="whole number"):
            fs.run(fs.Newton(LOSS), clients(), **option)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="clients is a whole number"):
        clients(2.5)
