"""Kernel expansions as models: they predict, are saved and loaded, describe themselves, and serve the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.closed_forms.kernel_ridge import kernel_ridge
from fedsolve.data import Preprocess
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import CallableKernel, ExactKernel, Gaussian, Matern, PolynomialKernel, Sobolev
from fedsolve.models import KernelExpansion, kernel_expansion
from fedsolve.report import run_page
from fedsolve.report.figures import convergence
from fedsolve.report.output_folder import RunFolder
from fedsolve.report.summary import summarise
from fedsolve.typing import Array
from tests.report.test_html import check

rng = np.random.default_rng(0)
POINTS, NEW = rng.random((12, 3)), rng.random((40, 3))
ALPHA = rng.standard_normal(12)
NAMES = ("age", "dose", "weight")
KERNELS = [Gaussian(0.7), Matern(0.8, 2.0), Sobolev(), PolynomialKernel(3)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("alpha", [ALPHA, np.stack([ALPHA, 2 - ALPHA], axis=1)], ids=["one", "two"])
def test_it_predicts_and_is_saved_and_loaded(kernel: Any, alpha: np.ndarray, tmp_path: Path) -> None:
    model = KernelExpansion(POINTS, alpha, kernel).with_names(NAMES)
    expected = kernel(NEW, POINTS) @ alpha
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(model.predict(sp.csr_array(NEW)), expected, rtol=0, atol=1e-14)
    model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    assert isinstance(again, KernelExpansion)
    assert again.kernel == kernel
    assert again.feature_names == NAMES
    assert again.columns == 3
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    turned = pd.DataFrame(NEW, columns=NAMES)[["weight", "age", "dose"]]
    np.testing.assert_array_equal(again.predict(turned), model.predict(NEW))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = KernelExpansion(POINTS, ALPHA, KERNELS[1])
    whole = model.predict(NEW)
    monkeypatch.setattr(kernel_expansion, "BLOCK", 8 * 12 * 7)
    np.testing.assert_allclose(model.predict(NEW), whole, rtol=1e-14)
    assert model.predict(NEW[:0]).shape == (0,)


def test_behind_a_preprocessing(tmp_path: Path) -> None:
    """A transform of a run: raw columns go in."""
    frame = pd.DataFrame(100 * NEW, columns=NAMES)
    clients = [fs.Client("a", frame[:25], rng.random(25)), fs.Client("b", frame[25:], rng.random(15))]
    transform = fs.run(fs.Newton(fs.Squared()), clients, preprocess=Preprocess()).model.transform
    model = KernelExpansion(transform.apply(frame)[:12], ALPHA, KERNELS[0]).with_transform(transform)
    model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    expected = KERNELS[0](transform.apply(frame), transform.apply(frame)[:12]) @ ALPHA
    np.testing.assert_allclose(again.predict(frame[["dose", "weight", "age"]]), expected, rtol=0, atol=1e-13)
    assert again.input_names == NAMES
    assert "takes raw columns" in repr(again)


def test_classes_of_one_hot_targets(tmp_path: Path) -> None:
    model = KernelExpansion(POINTS, np.stack([ALPHA, -ALPHA], axis=1), KERNELS[0]).with_classes(("ill", "well"))
    model.save(tmp_path / "model.npz")
    found = fs.load_model(tmp_path / "model.npz").classify(NEW)
    assert found.tolist() == np.where(KERNELS[0](NEW, POINTS) @ ALPHA >= 0, "ill", "well").tolist()
    assert not model.is_classifier  # `predict` gives values
    for alpha in (ALPHA, ALPHA[:, None]):
        with pytest.raises(ConfigError, match="one output has no classes"):
            KernelExpansion(POINTS, alpha, KERNELS[0]).classify(NEW)
    with pytest.raises(DataError, match="each of 3 classes needs an output, got 2 outputs"):
        model.with_classes(("ill", "well", "neither"))


def test_as_a_function() -> None:
    one, other = (KernelExpansion(points, ALPHA[: len(points)], KERNELS[0]) for points in (POINTS, NEW[:5]))
    np.testing.assert_allclose(one.plus(other).predict(NEW), one.predict(NEW) + other.predict(NEW), atol=1e-14)
    K = KERNELS[0](POINTS)
    assert one.norm == pytest.approx(np.sqrt(ALPHA @ K @ ALPHA), rel=1e-12)
    with pytest.raises(ConfigError, match="expansions of one kernel"):
        one.plus(KernelExpansion(POINTS, ALPHA, KERNELS[1]))
    with pytest.raises(ConfigError, match="expansions of one kernel"):
        one.plus(KernelExpansion(POINTS[:, :2], ALPHA, KERNELS[0]))


def test_it_describes_itself() -> None:
    said = " ".join(KernelExpansion(POINTS, ALPHA, KERNELS[1]).described().sentences)
    assert "12 points of 3 columns" in said
    assert "Matern(nu=0.8, length_scale=2.0)" in said
    assert "share it only with those who may see these rows" in said
    assert repr(KernelExpansion(POINTS, ALPHA, KERNELS[2])) == "<KernelExpansion: 12 coefficients, Sobolev()>"


def test_a_function_of_one_s_own_predicts_and_is_not_saved(tmp_path: Path) -> None:
    model = KernelExpansion(POINTS, ALPHA, CallableKernel(lambda A, B: A @ B.T))
    np.testing.assert_allclose(model.predict(NEW), NEW @ POINTS.T @ ALPHA, atol=1e-13)
    with pytest.raises(ConfigError, match="cannot be saved or sent by name"):
        model.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


def test_what_does_not_fit_is_said() -> None:
    for points, alpha in ((POINTS, ALPHA[:-1]), (POINTS[0], ALPHA), (POINTS, ALPHA[:, None, None])):
        with pytest.raises(DataError, match="a matrix of points and a coefficient for each"):
            KernelExpansion(points, alpha, KERNELS[0])
    with pytest.raises(DataError, match="coefficients are finite"):
        KernelExpansion(POINTS, np.full(12, np.nan), KERNELS[0])
    with pytest.raises(DataError, match="points are numbers"):
        KernelExpansion([["a"]] * 12, ALPHA, KERNELS[0])
    wrong: Any = "gaussian"
    with pytest.raises(ConfigError, match="exact kernel such as"):
        KernelExpansion(POINTS, ALPHA, wrong)
    model = KernelExpansion(POINTS, ALPHA, KERNELS[0]).with_names(NAMES)
    with pytest.raises(DataError, match="takes 3 columns"):
        model.predict(NEW[:, :2])
    holes = NEW.copy()
    holes[3, 1] = np.nan
    with pytest.raises(DataError, match=r"column 'dose', row 3 \(from 0\): missing"):
        model.predict(holes)
    for infinite in (np.inf, -np.inf):
        holes[3, 1] = infinite
        with pytest.raises(DataError, match=r"column 'dose', row 3 \(from 0\): -?inf, expected a finite number"):
            model.predict(holes)
    with pytest.raises(ConfigError, match="no weights that a run could start from"):
        fs.run(fs.Newton(fs.Squared()), [fs.Client("a", NEW, NEW[:, 0])], warm_start=model)
    with pytest.raises(ValueError, match="read-only"):
        model.points[0, 0] = 1.0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kernel", {"name": "Wavelet"}, "unknown kernel 'Wavelet'"),
        ("kernel", {"name": "Matern", "nu": 0}, "not a Matern"),
    ],
)
def test_files_of_other_kernels_are_rejected(name: str, value: Any, said: str, tmp_path: Path) -> None:
    class Odd(KernelExpansion):
        def settings(self) -> dict[str, Any]:
            return super().settings() | {name: value}

    Odd(POINTS, ALPHA, KERNELS[0]).save(tmp_path / "model.npz")
    with pytest.raises(DataError, match=said):
        fs.load_model(tmp_path / "model.npz")


# ── left by a run ──


@dataclass(frozen=True)
class Rows:
    points: Array
    targets: Array


@dataclass(frozen=True)
class OneShot:
    """Pools all rows at the server, which simulation may, and fits them."""

    kernel: ExactKernel

    @fs.client_step
    def rows(self, client: fs.Client) -> tuple[Array, Array]:
        return client.design.take(slice(0, client.n_samples)), client.y

    def start(self, fed: fs.Federation) -> Rows:
        found = fed.gather(self.rows).values()  # gathers, because the fit is of the rows themselves
        return Rows(np.concatenate([X for X, _ in found]), np.concatenate([y for _, y in found]))

    def round(self, fed: fs.Federation, state: Rows) -> fs.Finished[Rows]:
        return fs.Finished(state)

    def measuring(self, fed: fs.Federation, state: Rows) -> None:
        return None

    def model(self, state: Rows) -> KernelExpansion:
        return kernel_ridge(self.kernel, None, state.points, state.targets, 1e-3)


@pytest.mark.parametrize("preprocess", [None, Preprocess()])
def test_a_run_leaves_one(preprocess: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(100 * NEW, columns=NAMES)
    y = rng.standard_normal(40)
    clients = [fs.Client("a", frame[:25], y[:25]), fs.Client("b", frame[25:], y[25:])]
    run = fs.run(OneShot(Matern(1.5, 0.5 if preprocess else 50.0)), clients, preprocess=preprocess)
    assert run.model.feature_names == NAMES
    assert (run.model.transform is None) == (preprocess is None)
    folder = RunFolder.open(tmp_path / "out")
    summary = summarise(run, "OneShot", clients)
    folder.write_run(run, summary)
    about = run_page.About("rows", "pooled", "command", convergence({"OneShot": run.history}))
    assert "Its kernel is Matern" in "".join(check(run_page.run_page(about, run, summary)).text)
    again = fs.load_model(tmp_path / "out" / "model.npz")
    assert again.score(frame[["weight", "age", "dose"]], y) > 0.9


def test_the_command_line_predicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = KernelExpansion(POINTS, ALPHA, KERNELS[1]).with_names(NAMES)
    model.save(tmp_path / "model.npz")
    frame = pd.DataFrame(NEW, columns=NAMES)
    frame.assign(y=model.predict(NEW))[["weight", "y", "dose", "age"]].to_csv(tmp_path / "rows.csv", index=False)
    command = ["predict", str(tmp_path / "model.npz"), str(tmp_path / "rows.csv"), "--target", "y", "--json"]
    with pytest.raises(SystemExit) as ended:
        app(command)
    assert not ended.value.code
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(found["predictions"], model.predict(NEW), rtol=1e-12)
    assert found["score"] == pytest.approx(1.0)
