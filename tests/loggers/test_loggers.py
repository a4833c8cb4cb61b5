"""TensorBoard and MLflow, with stand-ins for their libraries that keep what they are told."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.loop.history import Row, Run
from tests.cli.conftest import RUN_FILE, Command, command  # noqa: F401

COSTS = {f"cost/{name}" for name in ("seconds", "exchanges", "bytes_up", "bytes_down", "cohort", "share")}


@dataclass
class Writer:
    """What a SummaryWriter is asked for."""

    folder: str
    told: list[tuple[str, float, int]] = field(default_factory=list)
    flushed: int = 0
    closed: bool = False

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        assert not self.closed
        self.told.append((tag, value, step))

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    made: list[Writer] = []

    def make(folder: str) -> Writer:
        made.append(Writer(folder))
        return made[-1]

    module = ModuleType("tensorboardX")
    module.SummaryWriter = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    return made


class Refused(Exception):
    """What MLflow raises."""


@dataclass
class Tracking:
    """What an MlflowClient is asked for."""

    tracking_uri: str | None
    experiments: dict[str, str] = field(default_factory=lambda: {"known": "17"})
    created: list[tuple[str, str | None]] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: list[tuple[str, str, float, int]] = field(default_factory=list)
    ended: str | None = None

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments[name] = "18"
        return "18"

    def create_run(self, experiment_id: str, run_name: str | None = None) -> SimpleNamespace:
        self.created.append((experiment_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def log_param(self, run_id: str, key: str, value: str) -> None:
        self.parameters[key] = value

    def log_metric(self, run_id: str, key: str, value: float, timestamp: int, step: int) -> None:
        assert timestamp > 1e12  # milliseconds
        self.metrics.append((run_id, key, value, step))

    def set_terminated(self, run_id: str, status: str) -> None:
        self.ended = status


@pytest.fixture
def trackings(monkeypatch: pytest.MonkeyPatch) -> list[Tracking]:
    made: list[Tracking] = []

    def make(tracking_uri: str | None = None) -> Tracking:
        if tracking_uri == "nowhere":
            raise Refused("no such place")
        made.append(Tracking(tracking_uri))
        return made[-1]

    module = ModuleType("mlflow")
    module.MlflowClient = make  # type: ignore[attr-defined]
    errors = ModuleType("mlflow.exceptions")
    errors.MlflowException = Refused  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", errors)
    return made


def fitted(on_round: object, **more: object) -> Run:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] + rng.standard_normal(60) > 0).astype(float)
    loss = fs.Logistic(l2=0.1)
    clients = fs.data.hold_out([fs.Client("a", X[:30], y[:30]), fs.Client("b", X[30:], y[30:])], 0.3)
    return fs.run(fs.Newton(loss), clients, evaluation=fs.Evaluation(loss, every=2), on_round=on_round, **more)  # type: ignore[arg-type]


# ── rows ──


def test_the_numbers_of_a_row() -> None:
    row = Row(3, value=0.5, seconds=1.5, bytes_up=7, held_out={"accuracy": 0.75})
    found = fs.loggers.scalars(row)
    assert found["value"] == 0.5
    assert found["held_out/accuracy"] == 0.75
    assert (found["cost/seconds"], found["cost/bytes_up"]) == (1.5, 7.0)
    assert set(found) == {"value", "held_out/accuracy"} | COSTS  # no gradient norm was measured
    assert all(type(value) is float for value in found.values())


def test_what_is_not_finite_is_logged() -> None:
    assert np.isnan(fs.loggers.scalars(Row(1, value=np.nan))["value"])
    assert fs.loggers.scalars(Row(1, value=np.inf))["value"] == np.inf


# ── TensorBoard ──


def test_tensorboard_is_told_every_round(writers: list[Writer], tmp_path: Path) -> None:
    with fs.loggers.TensorBoard(tmp_path / "board") as board:
        run = fitted(board)
    (writer,) = writers
    assert writer.folder == str(tmp_path / "board")
    assert writer.closed
    assert writer.flushed == len(run.history)
    told = {(tag, step): value for tag, value, step in writer.told}
    assert len(told) == len(writer.told)
    for row in run.history:
        assert told["value", row.round] == row.value
        assert told["gradient_norm", row.round] == row.gradient_norm
        assert (("held_out/accuracy", row.round) in told) == (row.round % 2 == 0)


def test_iterates_are_the_same_with_a_logger(writers: list[Writer], tmp_path: Path) -> None:
    with fs.loggers.TensorBoard(tmp_path) as board:
        assert np.array_equal(fitted(board).model.w, fitted(None).model.w)


def test_a_folder_that_is_a_file(writers: list[Writer], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file; choose another"):
        fs.loggers.TensorBoard(tmp_path / "file")
    assert writers == []


# ── MLflow ──


def test_mlflow_is_told_every_round(trackings: list[Tracking]) -> None:
    with fs.loggers.MLflow(
        "new", name="first", tracking_uri="file:///x", parameters={"l2": 0.1, "long": "x" * 900}
    ) as log:
        run = fitted(log)
    (one,) = trackings
    assert (one.tracking_uri, one.created, log.run_id) == ("file:///x", [("18", "first")], "r1")
    assert one.parameters["l2"] == "0.1"
    assert len(one.parameters["long"]) == 500
    values = {step: value for _, key, value, step in one.metrics if key == "value"}
    assert values == {row.round: row.value for row in run.history}
    assert one.ended == "FINISHED"


@pytest.mark.parametrize(("name", "number"), [("known", "17"), (None, "0")])
def test_mlflow_experiments_that_there_are(trackings: list[Tracking], name: str | None, number: str) -> None:
    fs.loggers.MLflow(name).close()
    assert trackings[0].created == [(number, None)]


def test_a_place_that_mlflow_cannot_log_to(trackings: list[Tracking]) -> None:
    with pytest.raises(ConfigError, match="MLflow cannot log to nowhere: no such place"):
        fs.loggers.MLflow(tracking_uri="nowhere")


@pytest.mark.parametrize(("error", "said"), [(ValueError("no"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_mlflow_hears_how_it_ended(trackings: list[Tracking], error: BaseException, said: str) -> None:
    with pytest.raises(type(error)), fs.loggers.MLflow():
        raise error
    assert trackings[0].ended == said


# ── without their libraries ──


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: fs.loggers.TensorBoard("board"),
            r"tensorboardX or torch.utils.tensorboard is not installed: pip install 'fedsolve\[tensorboard\]'",
        ),
        (lambda: fs.loggers.MLflow(), r"mlflow is not installed: pip install 'fedsolve\[mlflow\]'"),
    ],
)
def test_a_library_that_is_missing(make: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorboardX", "torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises ModuleNotFoundError
    with pytest.raises(ConfigError, match=said):
        make()  # type: ignore[operator]


def test_importing_fedsolve_imports_neither() -> None:
    names = ("tensorboardX", "tensorboard", "mlflow", "torch")
    code = f"import sys, fedsolve; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ── several, and run files ──


def test_several_are_called_in_order() -> None:
    told: list[str] = []
    on_round = fs.loggers.several(lambda row: told.append("a"), lambda row: told.append("b"))
    on_round(Row(0))
    assert told == ["a", "b"]


def test_an_error_of_on_round_ends_the_run() -> None:
    def fails(row: Row) -> None:
        raise RuntimeError("the server for logs is gone")

    with pytest.raises(RuntimeError, match="the server for logs is gone"):
        fitted(fails)


LOGGED = """
[loggers]
tensorboard = "board"
mlflow = "hospitals"
tracking_uri = "file:///x"

[output]
figures = false
"""


def test_a_run_file_names_them(
    command: Command,  # noqa: F811
    writers: list[Writer],
    trackings: list[Tracking],
    tmp_path: Path,
) -> None:
    (tmp_path / "run.toml").write_text(RUN_FILE + LOGGED, encoding="utf-8")
    outcome = command("run", tmp_path / "run.toml", "--json", "-o", tmp_path / "runs" / "one")
    assert outcome.status == 0, outcome.err
    assert [one.folder for one in writers] == ["board/runs/one"]
    assert trackings[0].created == [("18", "runs/one")]
    assert trackings[0].parameters["hyper_parameters"].startswith("Newton(loss=Logistic(")
    assert {step for _, _, step in writers[0].told} == set(range(outcome.json["rounds"] + 1))
    assert (writers[0].closed, trackings[0].ended) == (True, "FINISHED")


def test_every_run_of_a_comparison_has_its_own(
    command: Command,  # noqa: F811
    writers: list[Writer],
    tmp_path: Path,
) -> None:
    text = RUN_FILE.replace("[algorithm]", "[[algorithms]]").replace("[algorithm.loss]", "[algorithms.loss]")
    (tmp_path / "run.toml").write_text(text + '[loggers]\ntensorboard = "board"\n', encoding="utf-8")
    outcome = command("compare", tmp_path / "run.toml", "--seeds", "2", "--json", "-o", "out")
    assert outcome.status == 0, outcome.err
    assert [one.folder for one in writers] == ["board/out/Newton-seed-0", "board/out/Newton-seed-1"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('tensorboard = "board"', "is not installed: pip install 'fedsolve[tensorboard]'"),
        ('tracking_uri = "x"', 'loggers: tracking_uri is where MLflow logs to: name an experiment too, mlflow = "…"'),
        ("tensorboard = true", "loggers.tensorboard must be text in quotes, got True"),
    ],
)
def test_wrong_tables(
    command: Command,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    said: str,
) -> None:
    for name in ("tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "run.toml").write_text(f"{RUN_FILE}[loggers]\n{table}\n", encoding="utf-8")
    outcome = command("run", tmp_path / "run.toml", "-o", "out")
    assert outcome.status == 2
    assert said in outcome.sentence
    assert not (tmp_path / "out").exists()
