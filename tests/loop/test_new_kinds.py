"""What the library has none of runs, is checkpointed, resumed, saved, loaded, predicts and is reported."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.report import run_page as pages
from fedsolve.report.figures import convergence
from fedsolve.report.json_values import to_json
from fedsolve.report.output_folder import RunFolder
from fedsolve.report.summary import summarise
from fedsolve.typing import Array
from tests.loop.kinds import Centres, Clusters, KMeans, clients
from tests.report.test_html import check

TRANSPORTS = ("in_process", "processes")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_it_runs_to_its_end_and_says_what_is_known(transport: str) -> None:
    run = fs.run(KMeans(), clients(), rounds=8, transport=transport)
    assert run.status == "rounds"
    assert run.certificate is None
    assert [row.round for row in run.history] == list(range(9))
    values = [row.value for row in run.history]
    assert all(value is not None for value in values)
    assert values[-1] < 0.5 * values[0]
    assert all(row.gradient_norm is None and row.change is None and row.gap is None for row in run.history)
    assert run.ledger.total("measure").scalars_up == 9 * 4  # a number from each client for each row
    assert "value" in repr(run)
    assert "gradient" not in repr(run)
    pooled = fs.run(KMeans(), [fs.Client("all", np.concatenate([one.X for one in clients()]), np.zeros(90))], rounds=8)
    np.testing.assert_allclose(run.model.centres, pooled.model.centres, rtol=1e-12)


def test_measuring_changes_no_iterate() -> None:
    often, seldom = (fs.run(KMeans(), clients(), rounds=6, measure=every) for every in (1, 0))
    assert often.model.centres.tobytes() == seldom.model.centres.tobytes()
    assert [row.value is None for row in seldom.history] == [True] * 6 + [False]
    assert seldom.history[-1].value == often.history[-1].value


def test_it_stands_still_when_nothing_moves_any_more() -> None:
    """A round that returns the same State to the bit says so, though there is no gradient to judge by."""
    run = fs.run(KMeans(finish_after=20), clients(), rounds=30)
    assert run.status == "finished"
    assert run.history[-1].value is not None


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stop", [0, 2, 4])
def test_it_is_resumed_to_the_bit(tmp_path: Path, transport: str, stop: int) -> None:
    whole = fs.run(KMeans(), clients(), rounds=6, seed=3, transport=transport)
    file = tmp_path / "run"
    fs.run(KMeans(), clients(), rounds=stop, seed=3, transport=transport, checkpoint=file)
    again = fs.run(KMeans(), clients(), rounds=6, seed=3, transport=transport, checkpoint=file, resume=True)
    assert again.model.centres.tobytes() == whole.model.centres.tobytes()
    assert [a.tobytes() for a in again.state.path] == [b.tobytes() for b in whole.state.path]
    assert [row.value for row in again.history] == [row.value for row in whole.history]


@pytest.mark.parametrize("preprocess", [None, fs.data.Preprocess()])
def test_its_model_predicts_is_saved_and_loaded(tmp_path: Path, preprocess: object) -> None:
    run = fs.run(KMeans(), clients(named=True), rounds=6, preprocess=preprocess)
    X = np.concatenate([one.X for one in clients()])
    labels = run.model.predict(X)
    assert sorted(np.bincount(labels)) == [30, 30, 30]
    run.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    assert isinstance(again, Centres)
    assert again.centres.tobytes() == run.model.centres.tobytes()
    assert again.feature_names == ("height", "width")
    assert again.columns == 2
    assert again.predict(X).tolist() == labels.tolist()
    with pytest.raises(fs.errors.DataError):
        again.predict(X[:, :1] if preprocess is not None else X[0])


def test_it_is_reported(tmp_path: Path) -> None:
    run = fs.run(KMeans(), clients(), rounds=4)
    summary = summarise(run, "KMeans", clients())
    assert summary["value"] == run.history[-1].value
    assert summary["gradient_norm"] is None
    assert json.loads(to_json(summary))["rounds"] == 4
    about = pages.About("clouds", "three clouds", "command", convergence({"KMeans": run.history}))
    text = "".join(check(pages.run_page(about, run, summary)).text)
    assert "A Centres." in text
    assert "No gradient was measured" in text
    comparison = pages.comparison_page(about, [summary], {"KMeans": run}, ("algorithm", "status", "gradient_norm"))
    check(comparison)
    folder = RunFolder.open(tmp_path / "out")
    folder.write_run(run, summary)
    rows = [json.loads(line) for line in (tmp_path / "out" / "history.jsonl").read_text().splitlines()]
    assert [row["value"] for row in rows] == [row.value for row in run.history]
    assert isinstance(fs.load_model(tmp_path / "out" / "model.npz"), Centres)


def test_without_a_measurement_nothing_is_claimed() -> None:
    @dataclass(frozen=True)
    class Blind(KMeans):
        def measuring(self, fed: fs.Federation, state: Clusters) -> None:
            return None

    run = fs.run(Blind(), clients(), rounds=3)
    assert all(row.value is None for row in run.history)
    assert run.ledger.total("measure").exchanges == 0
    text = pages.certificate_sentence(run)
    assert "Nothing was measured" in text
    summarise(run, "Blind")


def test_a_measurement_that_is_none_is_rejected() -> None:
    @dataclass(frozen=True)
    class Wrong(KMeans):
        def measuring(self, fed: fs.Federation, state: Clusters) -> fs.Mean:
            return fs.Mean(self.sums, centres=state.centres)

    with pytest.raises(fs.errors.WrongType, match="answers with a number"):
        fs.run(Wrong(), clients(), rounds=3)


def test_a_value_that_runs_away_ends_the_run() -> None:
    @dataclass(frozen=True)
    class Away(KMeans):
        def round(self, fed: fs.Federation, state: Clusters) -> Clusters:
            fed.sum(self.sums, centres=state.centres)
            return Clusters(10.0 * state.centres + 10.0)

    run = fs.run(Away(), clients(), rounds=30)
    assert run.status == "diverged"
    assert run.rounds < 30


# ── files of models ──


def test_a_kind_that_nobody_defines_is_said(tmp_path: Path) -> None:
    from fedsolve.models import base

    run = fs.run(KMeans(), clients(), rounds=1)
    run.model.save(tmp_path / "model.npz")
    kept = base._KINDS.pop("centres")
    try:
        with pytest.raises(fs.errors.DataError, match=r"of kind 'centres', and known are .*linear"):
            fs.load_model(tmp_path / "model.npz")
    finally:
        base._KINDS["centres"] = kept


def test_two_kinds_of_one_name_are_rejected() -> None:
    with pytest.raises(fs.errors.ConfigError, match="kind of model 'linear' already"):

        class Impostor(fs.Model):
            kind: ClassVar[str] = "linear"


def test_fields_that_cannot_be_saved_are_said(tmp_path: Path) -> None:
    @dataclass(frozen=True, eq=False)
    class Odd(fs.Model):
        thing: object
        kind: ClassVar[str] = "odd"

        def predict(self, X: Array) -> Array:
            return X

    with pytest.raises(fs.errors.ConfigError, match="neither arrays nor plain"):
        Odd(object()).save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()

    @dataclass(frozen=True, eq=False)
    class Taken(fs.Model):
        model: Array
        kind: ClassVar[str] = "taken"

        def predict(self, X: Array) -> Array:
            return X

    with pytest.raises(fs.errors.ConfigError, match="cannot be named 'model'"):
        Taken(np.zeros(2)).save(tmp_path / "model.npz")
    with pytest.raises(fs.errors.ConfigError, match="no field `transform`"):
        Taken(np.zeros(2)).with_transform(object())


def test_a_model_without_weights_is_no_warm_start() -> None:
    model = Centres(np.zeros((3, 2)))
    with pytest.raises(fs.errors.ConfigError, match="Centres has no weights"):
        fs.run(fs.FedAvg(fs.Squared(l2=0.1)), clients(), warm_start=model)


def test_an_algorithm_on_a_pointwise_loss_needs_no_gradient() -> None:
    """ℓ alone, as boosting asks for it: checked when the clients join, and not measured at weights it has not."""

    @dataclass(frozen=True)
    class Residuals(KMeans):
        loss: fs.Pointwise = field(default_factory=fs.Logistic)

        @dataclass(frozen=True)
        class Kept:
            residual: float

        @fs.client_step
        def residual(self, client: fs.Client) -> float:
            return float(self.loss.derivative(client.xp, 0.0 * client.y, client.y).mean())

        def start(self, fed: fs.Federation) -> Kept:
            return self.Kept(fed.mean(self.residual))

        def round(self, fed: fs.Federation, state: Kept) -> fs.Finished[Kept]:
            return fs.Finished(state)

        def measuring(self, fed: fs.Federation, state: Kept) -> None:
            return None

        def model(self, state: Kept) -> Centres:
            return Centres(np.full((1, 2), state.residual))

    assert fs.run(Residuals(), clients()).state.residual == 0.5
    wrong = clients()[0]
    wrong.y[0] = 7.0
    with pytest.raises(fs.errors.FedsolveError, match="labels of the logistic loss"):
        fs.run(Residuals(), [wrong])
