"""Commands called in this process, as the entry point calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedsolve.cli.main import app

DATA = """
[data]
dataset = "breast_cancer"

[partition]
scheme = "dirichlet"
alpha = 0.5
clients = 4
min_samples = 20

[preprocess]
"""
RUN_FILE = f"""{DATA}
[algorithm]
name = "Newton"

[algorithm.loss]
name = "Logistic"
l2 = 0.01
intercept = "free"

[run]
rounds = 20
tolerance = 1e-9
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit status and what it wrote where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as one strict JSON object."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        found = json.loads(self.out, parse_constant=refuse)
        assert isinstance(found, dict)
        assert self.out.count("\n") == 1
        return found

    @property
    def sentence(self) -> str:
        """Standard error as one sentence of one line."""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("fedsolve: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("fedsolve: ").strip()


Command = Callable[..., Outcome]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call `fedsolve` with these arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def run_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a run file: the standard one, with some of its text replaced, and some added."""

    def write(*replaced: tuple[str, str], add: str = "", name: str = "problem.toml") -> Path:
        text = RUN_FILE
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text + add, encoding="utf-8")
        return path

    return write
