"""The door is typed: mypy sees through `mean`, `sum`, `gather` and the call objects to the step they call."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HEAD = """
from dataclasses import dataclass
from typing import assert_type

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.typing import Array


@dataclass(frozen=True)
class Protocol:
    @fs.client_step
    def shrunk(self, client: fs.Client, w: Array, by: float) -> float:
        return by * float(w.sum())

    @fs.client_step
    def size(self, client: fs.Client) -> int:
        return client.n_samples

"""

RIGHT = """
    def use(self, fed: Federation) -> float:
        w = fed.warm_start
        assert_type(fed.mean(self.shrunk, w=w, by=0.5), float)
        assert_type(fed.gather(self.size), dict[str, int])
        apart = fs.PerClient({"a": 1.0, "b": 2.0})
        total, sizes = fed.exchange(fs.Sum(self.shrunk, w=fs.PerClient({"a": w}), by=apart), fs.Gather(self.size))
        assert_type(sizes, dict[str, int])
        (plain,) = fed.exchange(fs.Mean(self.shrunk, w=w, by=apart).uniform())
        return total + plain + fed.sum(self.size)
"""

WRONG = """
    def misspelt(self, fed: Federation) -> float:
        return fed.mean(self.shrunk, w=0, bye=0.5)

    def missing(self, fed: Federation) -> object:
        return fed.exchange(fs.Sum(self.shrunk, w=0))

    def wrong_type(self, fed: Federation) -> object:
        return fed.gather(self.shrunk, w=0, by="half")

    def wrong_use(self, fed: Federation) -> str:
        return fed.sum(self.size)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all, so that mypy reads the library once."""
    return tmp_path_factory.mktemp("door")


def verdict(folder: Path, text: str) -> list[str]:
    """The errors that mypy finds in a file with this text."""
    path = folder / "door.py"
    path.write_text(HEAD + text)
    root = Path(__file__).parent.parent
    options = ["--strict", "--config-file", str(root / "pyproject.toml"), "--cache-dir", str(folder / "cache")]
    said, trouble, _ = api.run([*options, str(path)])
    assert not trouble
    return [line.split("door.py:")[1] for line in said.splitlines() if ": error:" in line]


def test_four_mistakes_at_the_door_are_four_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parent.parent))
    assert verdict(folder, RIGHT) == []
    found = verdict(folder, WRONG)
    start = len(HEAD.splitlines())
    assert len(found) == 4, found
    assert [int(line.split(":")[0]) - start for line in found] == [3, 6, 9, 12]
    kinds = [line.rsplit("[", 1)[1].rstrip("]") for line in found]
    assert kinds == ["call-arg", "call-arg", "arg-type", "return-value"]


def test_per_client_with_the_wrong_values_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parent.parent))
    text = """
    def wrong(self, fed: Federation) -> float:
        return fed.mean(self.shrunk, w=0, by=fs.PerClient({"a": "half"}))
"""
    assert len(verdict(folder, text)) == 1
