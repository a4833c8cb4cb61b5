"""Run files that are no run files: too large, too deep, in another encoding. One sentence, exit status 2."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fedsolve.cli import predict
from fedsolve.data.file_formats import read_columns
from fedsolve.errors import ConfigError, DataError
from fedsolve.report.output_folder import RunFolder
from fedsolve.runfiles import run_file as config

from .conftest import RUN_FILE, Command

DEEP = {
    "brackets": "a = " + "[" * 10_000,
    "closed brackets": "a = " + "[" * 400 + "]" * 400,
    "braces": "a = " + "{a=" * 10_000,
    "a dotted key": "a" + ".a" * 20_000 + " = 1",
    "a dotted key with spaces": "a" + " . b-2" * 5_000 + " = 1",
    "a quoted dotted key": '"a b"' + ".'c'" * 5_000 + " = 1",
    "a header": "[" + "a." * 20_000 + "a]",
    "a header of a list": "[[" + "a." * 20_000 + "a]]",
    "a dotted key in braces": "x = { a" + ".a" * 5_000 + " = 1 }",
    "a little too deep": "a = " + "[" * (config.MOST_DEPTH + 1) + "]" * (config.MOST_DEPTH + 1),
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("verb", ["run", "compare", "select", "diagnose"])
def test_deep(command: Command, tmp_path: Path, text: str, verb: str) -> None:
    (tmp_path / "deep.toml").write_text(RUN_FILE + text if text.startswith("[") else text + RUN_FILE)
    began = time.perf_counter()
    outcome = command(verb, "deep.toml")
    assert outcome.status == 2
    assert "more than 32 deep" in outcome.sentence
    assert len(outcome.sentence) < 300
    assert time.perf_counter() - began < 20  # tomllib alone takes longer for the longest of these keys


def test_what_a_run_file_needs_is_not_too_deep(command: Command, tmp_path: Path) -> None:
    long = ".".join("abcdefgh")
    text = RUN_FILE.replace("[data]", f"# {long}\n[data] # {'.' * 500} {'x, ' * 500}")
    assert config.parse(text) == config.parse(RUN_FILE)


@pytest.mark.parametrize("verb", ["run", "compare", "select", "diagnose"])
def test_huge(command: Command, tmp_path: Path, verb: str) -> None:
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(3 * 2**30)  # sparse: it takes no room on the disk
    outcome = command(verb, "huge.toml")
    assert outcome.status == 2
    assert "more than 1,048,576 characters" in outcome.sentence
    assert "/dev/zero has more than" in command(verb, "/dev/zero").sentence


def test_a_number_of_many_digits(command: Command, tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(RUN_FILE + "seed = " + "1" * 5000)
    outcome = command("run", "long.toml")
    assert outcome.status == 2
    assert "is not TOML" in outcome.sentence


def test_encodings(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    for data in (RUN_FILE.encode("utf-8-sig"), RUN_FILE.replace("\n", "\r\n").encode()):
        path.write_bytes(data)
        assert command("run", path, "--output", "out", "--force", "--json").json["status"] == "converged"
    for data in (RUN_FILE.encode("utf-16"), "# café\n".encode("latin-1") + RUN_FILE.encode()):
        path.write_bytes(data)
        outcome = command("run", path)
        assert outcome.status == 2
        assert "save it as UTF-8" in outcome.sentence


def test_no_file(command: Command, tmp_path: Path) -> None:
    for given, said in ((tmp_path, "cannot be read"), (tmp_path / "none.toml", "there is no run file")):
        outcome = command("run", given)
        assert outcome.status == 2
        assert said in outcome.sentence
    with pytest.raises(ConfigError, match="deep"):
        config.parse(DEEP["brackets"])


def test_deep_json_beside_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = '{"feature_names": ' + "[" * 100_000 + "]" * 100_000 + "}"
    (tmp_path / "summary.json").write_text(deep)
    import numpy as np

    from fedsolve.models.linear import LinearModel

    model = LinearModel(np.ones(2), False, "identity")
    assert predict._feature_names(tmp_path / "model.npz", model) is None
    (tmp_path / "history.jsonl").write_text(deep + "\n")
    assert RunFolder(tmp_path)._lines() == []


def test_a_giant_cell(command: Command, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("a,y\n1,0\n" + "9" * 300_000 + ",1\n")
    text = RUN_FILE.replace('dataset = "breast_cancer"', 'file = "own.csv"\ntarget = "y"')
    (tmp_path / "own.toml").write_text(text)
    outcome = command("run", "own.toml")
    assert outcome.status == 2
    assert "own.csv" in outcome.sentence
    with pytest.raises(DataError, match=r"own\.csv"):
        read_columns(tmp_path / "own.csv")
