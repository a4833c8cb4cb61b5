"""Images changed by chance: what can come of one, by whose chance, and that it is the same together."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, InputError
from fedsolve.federation.transports import InProcess
from fedsolve.networks.augmentation import hashed
from fedsolve.typing import Array
from tests.networks.problems import torch

SHAPE = (2, 5, 6)
SMALL = fs.CNN(SHAPE, ((3, 2),), hidden=(4,))


def possible(image: Array, padding: int) -> list[Array]:
    """Every image that can come of one, by cutting from a padded one."""
    found = []
    for one in (image, image[:, :, ::-1]):
        wide = np.pad(one, ((0, 0), (padding, padding), (padding, padding)))
        _, height, width = SHAPE
        found += [
            wide[:, row : row + height, column : column + width]
            for row in range(2 * padding + 1)
            for column in range(2 * padding + 1)
        ]
    return found


@pytest.mark.parametrize(("padding", "flip"), [(0, True), (1, True), (1, False), (2, True)])
def test_every_change_occurs_and_no_other(padding: int, flip: bool) -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal(SHAPE)
    rows = torch.tensor(np.tile(image.reshape(1, -1), (3000, 1)))
    changed = fs.FlipAndCrop(padding, flip).changed(rows, torch.tensor(12345), 0, SMALL).numpy()
    seen = {one.tobytes(): n for one, n in zip(*np.unique(changed, axis=0, return_counts=True), strict=True)}
    expected = possible(image, padding)[: None if flip else (2 * padding + 1) ** 2]
    assert set(seen) == {np.ascontiguousarray(one).tobytes() for one in expected}
    counts = np.array([*seen.values()])
    # χ² of equally likely changes: its mean is their number less 1, its deviation √(2 · that).
    share = 3000 / len(expected)
    chi = ((counts - share) ** 2 / share).sum()
    assert chi < len(expected) - 1 + 5 * np.sqrt(2 * len(expected))


def test_numbers_that_look_drawn() -> None:
    place = torch.arange(100_000)
    one, other = (hashed(torch.tensor(salt), place, 1).numpy() for salt in (7, 8))
    assert one.min() >= 0
    assert one.max() < 2**32
    assert abs(one.mean() / 2**32 - 0.5) < 5 / np.sqrt(12 * len(one))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(one))
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / np.sqrt(len(one))


def clients(sizes: list[int]) -> list[fs.Client]:
    rng = np.random.default_rng(3)
    return [
        fs.Client(f"c{i}", rng.standard_normal((n, 60)), rng.integers(0, 3, n).astype(float))
        for i, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("local", [fs.Adam(epochs=2, step_size=0.01, batch_size=8), fs.GradientSteps(3, 0.1)])
def test_together_is_one_by_one(local: fs.LocalSolver) -> None:
    loss = fs.Network(SMALL, fs.Softmax(classes=3), dtype="float64", augmentation=fs.FlipAndCrop(1))
    given, algorithm = clients([7, 20, 31, 31]), fs.FedAvg(loss, local)
    transport = InProcess(given, together=True)
    alone, joint = fs.run(algorithm, given, rounds=2), fs.run(algorithm, transport, rounds=2)
    assert np.linalg.norm(joint.state.w - alone.state.w) <= 1e-11 * np.linalg.norm(alone.state.w)
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


def test_it_is_seeded_by_client_and_round() -> None:
    plain = fs.Network(SMALL, fs.Softmax(classes=3), dtype="float64")
    loss = fs.Network(SMALL, fs.Softmax(classes=3), dtype="float64", augmentation=fs.FlipAndCrop(1))
    given = clients([20, 31])
    state = torch.get_rng_state()
    first, again, other, without = (
        fs.run(fs.FedAvg(one, fs.GradientSteps(2, 0.1)), given, rounds=2, seed=0, warm_start=np.full(94, 0.1 * k))
        for one, k in ((loss, 1), (loss, 1), (loss, 2), (plain, 1))
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert first.model.w.tobytes() == again.model.w.tobytes()
    assert np.abs(first.model.w - without.model.w).max() > 1e-6
    assert other.model.w.tobytes() != first.model.w.tobytes()
    assert first.history[0].value == without.history[0].value  # measured on images as they are
    seeds = [
        fs.run(fs.FedAvg(loss, fs.GradientSteps(1, 0.1)), given, rounds=1, seed=s, warm_start=np.full(94, 0.1))
        for s in (0, 1)
    ]
    assert seeds[0].model.w.tobytes() != seeds[1].model.w.tobytes()


def test_blocks_of_rows_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = fs.Network(SMALL, fs.Softmax(classes=3), dtype="float64", augmentation=fs.FlipAndCrop(1))
    (client,) = clients([25])
    own = loss.computing(client)
    w = own.localise(loss.seeded_start_point(60, (), 0))
    whole = loss.changed_gradient(own, w, torch.tensor(99))
    monkeypatch.setattr("fedsolve.losses.network.ROWS", 10)
    torch.testing.assert_close(loss.changed_gradient(own, w, torch.tensor(99)), whole, rtol=0, atol=1e-14)


def test_what_is_rejected() -> None:
    with pytest.raises(ConfigError, match="padding"):
        fs.FlipAndCrop(-1)
    with pytest.raises(ConfigError, match="channels, height, width"):
        fs.FlipAndCrop(shape=(3, 4))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="augmentation"):
        fs.Network(SMALL, augmentation="flip")  # type: ignore[arg-type]
    for augmentation, words in (
        (fs.FlipAndCrop(), "does not have: give it"),
        (fs.FlipAndCrop(shape=(1, 2, 2)), r"shape \(1, 2, 2\), 4 numbers; rows have 60"),
    ):
        loss = fs.Network(fs.MLP((3,)), fs.Softmax(classes=3), augmentation=augmentation)
        with pytest.raises(InputError, match=words):
            fs.run(fs.FedAvg(loss, fs.GradientSteps(1, 0.1)), clients([20]), rounds=1)
