"""A checkpoint appends to tuples that only grow: a save costs what is new, and what is read back is the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import WireError
from fedsolve.loop.checkpoint import Checkpoint
from fedsolve.loop.growing import Growing
from fedsolve.typing import Array
from tests.loop.kinds import Centres
from tests.loop.kinds import clients as clouds

SIZE = 2000  # numbers in each part: 16 kB


@dataclass(frozen=True)
class Inner:
    parts: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Careful:
    parts: tuple[Array, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("there is always a part")


@dataclass(frozen=True)
class Ensemble:
    """Two tuples that grow, one of them inside; a window of the latest; two whose parts are replaced; a part that
    insists on what it has."""

    parts: tuple[Array, ...] = ()
    inner: Inner = Inner()
    window: tuple[Array, ...] = ()
    replaced: tuple[float, ...] = (0.0, 0.0)
    two: tuple[float, float] = (0.0, 1.0)
    careful: Careful | None = None


@dataclass(frozen=True)
class Boosting:
    """Adds a large part in every round."""

    @fs.client_step
    def part(self, client: fs.Client, number: int) -> Array:
        return client.rng.standard_normal(SIZE) + number

    def start(self, fed: fs.Federation) -> Ensemble:
        return Ensemble()

    def round(self, fed: fs.Federation, state: Ensemble) -> Ensemble:
        new = fed.mean(self.part, number=len(state.parts))
        return Ensemble(
            (*state.parts, new),
            Inner((*state.inner.parts, 2.0 * new)),
            (*state.window, new)[-2:],
            (state.replaced[1], float(fed.round)),
            (float(fed.round), 0.0),
            Careful((new[:3],)),
        )

    def model(self, state: Ensemble) -> Centres:
        return Centres(np.array([[float(len(state.parts)), 0.0]]))


def contents(state: Ensemble) -> tuple[Any, ...]:
    careful = () if state.careful is None else state.careful.parts
    arrays = (*state.parts, *state.inner.parts, *state.window, *careful)
    return tuple(one.tobytes() for one in arrays), state.replaced, state.two


def run(file: Path | None, rounds: int, **more: Any) -> fs.Run:
    return fs.run(Boosting(), clouds(), rounds=rounds, seed=5, checkpoint=file, **more)


def test_what_is_read_back_is_what_was_saved(tmp_path: Path) -> None:
    whole = run(None, 9)
    for stop in (0, 1, 4):
        file = tmp_path / f"run-{stop}"
        run(file, stop)
        assert contents(run(file, stop, resume=True).state) == contents(run(None, stop).state)
        assert contents(run(file, 6, resume=True).state) == contents(run(None, 6).state)  # twice resumed
        again = run(file, 9, resume=True)
        assert contents(again.state) == contents(whole.state)
        assert again.ledger.total("algorithm") == whole.ledger.total("algorithm")


def test_a_save_costs_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, written = tmp_path / "run", []
    save = Checkpoint.save

    def watched(self: Checkpoint, *given: Any) -> None:
        before = self.ledger_path.stat().st_size if self.ledger_path.exists() else 0
        save(self, *given)
        written.append((self.place.stat().st_size, self.ledger_path.stat().st_size - before))

    monkeypatch.setattr(Checkpoint, "save", watched)
    run(file, 20)
    part = 8 * SIZE
    for progress, appended in written[5:]:
        assert progress < 2 * part + 8000  # the window, and the memories of four clients; not twenty parts
        assert 2 * part <= appended < 2 * part + 8000  # one part of each tuple that grows
    # The window was taken for one that grows until it began to slide, and is not appended to since.
    assert file.with_name("run.ledger").stat().st_size < (2 * 20 + 2) * part + 20 * 8000


def test_only_what_may_be_empty_is_taken_out() -> None:
    """A tuple of declared length, and one in a class that checks itself, could not be read back without its items."""
    state = Ensemble((np.ones(2),), Inner((np.ones(2),)), careful=Careful((np.ones(2),)))
    split = Growing().split({"state": state})
    assert split.lengths == {"state.parts": 1, "state.inner.parts": 1, "state.replaced": 2}
    assert split.rest["state"].parts == split.rest["state"].inner.parts == ()
    assert split.rest["state"].two == (0.0, 1.0)
    assert split.rest["state"].careful is state.careful
    again = Growing().joined(split.rest, split.lengths, split.fresh)["state"]
    assert contents(again) == contents(state)
    with pytest.raises(WireError, match=r"state\.parts is not the"):
        Growing().joined(split.rest, {"state.parts": 1}, [("state.parts", ("text",))])


def test_a_tuple_that_changed_is_written_whole_from_then_on() -> None:
    one, two, three = (np.full(2, float(value)) for value in (1, 2, 3))
    growing = Growing()
    growing.saved(growing.split({"state": Inner((one, two))}))
    again = growing.split({"state": Inner((one, two, three))})
    assert [(path, len(items)) for path, items in again.fresh] == [("state.parts", 1)]
    growing.saved(again)
    equal = growing.split({"state": Inner((one.copy(), two, three))})  # equal, but another object: it may change
    assert equal.fresh == []
    assert equal.lengths == {}
    assert len(equal.rest["state"].parts) == 3
    growing.saved(equal)
    assert growing.split({"state": Inner((one, two, three))}).lengths == {}
    shorter = Growing()
    shorter.saved(shorter.split({"state": Inner((one, two))}))
    assert len(shorter.split({"state": Inner((one,))}).rest["state"].parts) == 1


def test_a_save_that_failed_is_not_counted() -> None:
    growing = Growing()
    growing.split({"state": Inner((np.ones(2),))})  # and never `saved`
    assert len(growing.split({"state": Inner((np.ones(2),))}).fresh) == 1


def test_a_part_that_is_missing_is_noticed() -> None:
    state = Inner((np.ones(2), np.ones(2)))
    split = Growing().split({"state": state})
    with pytest.raises(WireError, match=r"1 of 2 parts of state\.parts"):
        Growing().joined(split.rest, split.lengths, [("state.parts", state.parts[:1])])
    with pytest.raises(WireError, match="0 of 2"):
        Growing().joined(split.rest, split.lengths, [])


def test_states_that_are_no_dataclasses_are_left_alone() -> None:
    for state in (None, 3.0, (1, 2), {"parts": (1, 2)}):
        split = Growing().split({"state": state})
        assert split.rest == {"state": state}
        assert split.fresh == []
