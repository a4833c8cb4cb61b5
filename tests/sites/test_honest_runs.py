"""Runs that ask for nothing beyond a fit: the default policy answers them, whatever the loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientRefused
from fedsolve.sites import HeldOut, SiteTransport, Terms
from tests.sites.curious import Direct
from tests.sites.hospitals import COLUMNS, NAMES, site_text, terms
from tests.sites.tables import PREPROCESS, Table

LOGISTIC, POISSON = fs.Logistic(intercept="free"), fs.Poisson(intercept="free")
SQUARED, SOFTMAX = fs.Squared(intercept="free"), fs.Softmax(l2=1e-3, intercept="free", classes=5)
FIVE = Table("five classes", (300, 200, 250, 220))
SMALL = (24, 25, 22, 30)

RUNS: list[tuple[Table, Any]] = [
    (Table("counts", rate=0.2), fs.Newton(POISSON)),
    (Table("counts", rate=1.0), fs.SHED(POISSON)),
    (Table("counts", rate=3.0), fs.Newton(POISSON)),
    (Table("counts", rate=5.0), fs.Newton(POISSON)),
    (Table("counts", SMALL, rate=1.0), fs.Newton(POISSON)),
    (Table("counts", rate=3.0, weights=True, offsets=True), fs.Newton(POISSON)),
    (Table("counts", rate=1.0), fs.FedAvg(POISSON, fs.GradientSteps(5, step_size=0.05))),
    (Table("counts", rate=3.0, weights=True, offsets=True), fs.Scaffold(POISSON, fs.GradientSteps(5, step_size=0.02))),
    (FIVE, fs.Newton(SOFTMAX)),
    (replace(FIVE, distinct=0.5), fs.SHED(SOFTMAX)),
    (replace(FIVE, weights=True), fs.FedAvg(SOFTMAX, fs.GradientSteps(5))),
    (Table("numbers"), fs.Newton(SQUARED)),
    (Table("numbers", weights=True, offsets=True), fs.FedAvg(SQUARED, fs.GradientSteps(5))),
    (Table("numbers", SMALL), fs.Scaffold(SQUARED)),
    (Table("classes", weights=True), fs.Newton(LOGISTIC)),
    (Table("classes", offsets=True), fs.FedNewtonCG(LOGISTIC)),
    (Table("classes", SMALL, weights=True, offsets=True), fs.FedAvg(LOGISTIC, fs.GradientSteps(5))),
    (Table("classes", SMALL, distinct=2.5), fs.Newton(LOGISTIC)),
]


def named(one: object) -> str | None:
    if isinstance(one, Table):
        more = ["weights"] * one.weights + ["offsets"] * one.offsets
        return "-".join([one.outcome, str(one.rows[0]), f"{one.rate:g}", f"{one.distinct:g}", *more])
    return f"{type(one).__name__}-{type(one.loss).__name__}" if hasattr(one, "loss") else None


@pytest.mark.parametrize(("table", "algorithm"), RUNS, ids=named)
def test_no_question_of_an_honest_run_is_refused(table: Table, algorithm: Any, tmp_path: Path) -> None:
    files = table.write(tmp_path)
    run = fs.run(algorithm, SiteTransport(Direct(files), terms()), preprocess=PREPROCESS, rounds=15)
    assert run.status in ("converged", "settled", "rounds", "tolerance unattainable"), run.message
    assert all(not row.missing for row in run.history)


@pytest.mark.parametrize("algorithm", [fs.FedNewtonCG(SOFTMAX), fs.SHED(SOFTMAX)], ids=named)
def test_the_minimum_is_confirmed_by_products_where_a_hessian_does_not_leave(algorithm: Any, tmp_path: Path) -> None:
    """Of several classes a Hessian has more numbers than half of the cells, though rows suffice for all parameters."""
    files = replace(FIVE, rows=(150, 150, 150, 150)).write(tmp_path)
    run = fs.run(algorithm, SiteTransport(Direct(files), terms()), preprocess=PREPROCESS, rounds=100)
    assert run.status == "converged", run.message
    assert run.certificate is not None
    with pytest.raises(ClientRefused, match="'share_of_cells'") as refused:
        fs.run(fs.Newton(SOFTMAX), SiteTransport(Direct(files), terms()), preprocess=PREPROCESS)
    assert "FedNewtonCG" in str(refused.value)


AWKWARD = [fs.Newton(LOGISTIC), fs.FedNewtonCG(LOGISTIC), fs.GIANT(LOGISTIC), fs.Newton(SQUARED)]


@pytest.mark.parametrize("scaling", ["standardise", None])
@pytest.mark.parametrize("algorithm", AWKWARD, ids=named)
def test_columns_that_are_nearly_collinear_or_not_scaled(algorithm: Any, scaling: str | None, tmp_path: Path) -> None:
    """Weights are some thousand times as large as what they add up to. The fit is that of the pooled rows."""
    outcome: Any = "numbers" if algorithm.loss is SQUARED else "classes"
    files = Table(outcome, (260, 280, 250, 270), collinear=scaling is not None).write(tmp_path)
    scaled = [{**one, "scaling": scaling} for one in [*COLUMNS[:2], {"name": "bmi"}]]
    run = fs.run(
        algorithm,
        SiteTransport(Direct(files), terms()),
        preprocess=fs.data.Preprocess(fs.data.Schema.from_plain([*scaled, *COLUMNS[2:]])),
        rounds=100,
    )
    assert run.status == "converged", run.message
    assert all(not row.missing for row in run.history)


SUMMARISED = [
    (table, algorithm)
    for table, algorithm in RUNS
    if isinstance(algorithm, fs.Newton) and table.rows[0] in (50, 60) and not table.offsets
]


@pytest.mark.parametrize(("table", "algorithm"), SUMMARISED, ids=named)
def test_no_summary_of_an_honest_fit_is_refused(table: Table, algorithm: Any, tmp_path: Path) -> None:
    transport = SiteTransport(Direct(table.write(tmp_path)), terms())
    with fs.Session(transport, also={"summary": fs.StandardErrors(algorithm.loss)}) as session:
        run = fs.run(algorithm, session, preprocess=PREPROCESS, rounds=15)
        assert all(one.error > 0 for one in run.summary().coefficients())


JUDGED: list[tuple[Table, Any]] = [
    (Table("classes"), fs.Newton(LOGISTIC)),
    (Table("classes", distinct=2.5), fs.FedAvg(LOGISTIC, fs.GradientSteps(5))),
    (Table("counts"), fs.Newton(POISSON)),
    (Table("numbers"), fs.Newton(SQUARED)),
    (Table("classes"), fs.FFGB(fs.Logistic(), fs.Trees(depth=3))),
    (replace(FIVE, rows=(300, 280, 260, 270)), fs.Newton(SOFTMAX)),  # a Hessian has half as many numbers as 200 rows
]


@pytest.mark.parametrize(("table", "algorithm"), JUDGED, ids=named)
def test_models_are_judged_in_every_round(table: Table, algorithm: Any, tmp_path: Path) -> None:
    """Also by as few held-out rows as there can be: a fifth of some fifty. Cells of so few are another rule's."""
    files = table.write(tmp_path, "min_cell = 1")
    transport = SiteTransport(Direct(files), Terms(terms().run, held_out=HeldOut(0.2)))
    evaluation = fs.Evaluation(algorithm.loss, least=5)
    run = fs.run(algorithm, transport, preprocess=PREPROCESS, rounds=10, evaluation=evaluation)
    assert all(row.held_out for row in run.history if row.round)
    assert isinstance(algorithm, fs.FFGB) or run.evaluation is not None, run.message


def wide(folder: Path, columns: int, binary: bool = False, policy: str = "") -> dict[str, Path]:
    """Sites whose columns are large numbers, as they were measured; binary ones are 0 or 100."""
    files = {}
    for site, name in enumerate(NAMES):
        rng = np.random.default_rng([5, site])
        X = 100.0 * rng.integers(0, 2, (400, columns)) if binary else rng.normal(60, 10, (400, columns)).round(1)
        eta = (X - X.mean(axis=0)).sum(axis=1) / (10 * np.sqrt(columns))
        ill = np.where(rng.uniform(size=400) < 1 / (1 + np.exp(-eta)), "yes", "no")
        lines = [",".join([*map(str, row), one]) for row, one in zip(X.tolist(), ill, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([",".join([*named_columns(columns), "ill"]), *lines]) + "\n")
        declared = "".join(f'[[schema]]\nname = "{one}"\n' for one in named_columns(columns))
        files[name] = folder / f"{name}.toml"
        files[name].write_text(site_text(name, policy, declared))
    return files


def named_columns(count: int) -> list[str]:
    return [f"x{place}" for place in range(count)]


BY_CHANCE: list[tuple[str, int, bool, Any]] = [
    ("an edge of each column that is binary", 4, True, fs.FFGB(fs.Logistic(), fs.Stumps())),
    ("an edge of each column that is binary", 12, True, fs.FFGB(fs.Logistic(), fs.Trees(depth=2))),
    ("a line of calibration", 1, False, fs.FedAvg(LOGISTIC, fs.GradientSteps(5))),
    ("a search of 32 steps", 31, False, fs.GIANT(LOGISTIC)),
]


@pytest.mark.parametrize(("what", "columns", "binary", "algorithm"), BY_CHANCE, ids=lambda one: named(one) or str(one))
def test_other_numbers_with_the_shape_of_a_model_are_no_points(
    what: str, columns: int, binary: bool, algorithm: Any, tmp_path: Path
) -> None:
    """There are as many of them as the model has coefficients. Taken for a model, they would be one far away."""
    files = wide(tmp_path, columns, binary)
    raw = fs.data.Schema.from_plain([{"name": name, "scaling": None} for name in named_columns(columns)])
    transport = SiteTransport(Direct(files), Terms(terms().run, held_out=HeldOut(0.25)))
    run = fs.run(
        algorithm,
        transport,
        preprocess=fs.data.Preprocess(raw),
        rounds=5 if isinstance(algorithm, fs.FFGB) else 40,
        evaluation=fs.Evaluation(algorithm.loss, least=5),
    )
    assert run.evaluation is not None, run.message
    assert all(not row.missing for row in run.history)


def test_means_that_have_the_shape_of_a_model_are_no_points(tmp_path: Path) -> None:
    """One column and an intercept are as many as the halves in which inputs are compared."""
    raw = fs.data.Schema.from_plain([{"name": "x0", "scaling": None}])
    allowed = 'also = ["InputDistance"]\nshare_of_cells = 100.0'
    transport = SiteTransport(Direct(wide(tmp_path, 1, policy=allowed)), terms())
    inputs = fs.diagnose.InputDistance(standardise=False)
    with fs.Session(transport, also={"inputs": inputs}) as session:
        fs.run(fs.Newton(LOGISTIC), session, preprocess=fs.data.Preprocess(raw), rounds=2)
        found = inputs.estimate(session.fed)
    assert set(found.tv) == set(NAMES)


EXACT = [
    fs.FedDyn(LOGISTIC),
    fs.FedSplit(LOGISTIC),
    fs.FedProx(LOGISTIC, local=fs.ProximalSteps()),
    fs.FedAvg(LOGISTIC, fs.Adam(steps=5, step_size=0.01)),
]


@pytest.mark.parametrize("algorithm", EXACT, ids=named)
def test_solvers_without_gradient_steps_have_no_step_to_be_judged(algorithm: Any, tmp_path: Path) -> None:
    """They are told a step of 1 that they do not use, which is long where columns are large. Adam's has a length of
    its own."""
    raw = fs.data.Schema.from_plain([{"name": name, "scaling": None} for name in named_columns(3)])
    transport = SiteTransport(Direct(wide(tmp_path, 3)), terms())
    run = fs.run(algorithm, transport, preprocess=fs.data.Preprocess(raw), rounds=5)
    assert run.status in ("rounds", "converged"), run.message


@pytest.mark.parametrize("step_size", [20.0, 1e6])
def test_a_long_gradient_step_of_counts_is_refused(step_size: float, tmp_path: Path) -> None:
    """Their curvature has no bound; a step is measured by what it is where all are predicted the mean count."""
    algorithm = fs.FedAvg(POISSON, fs.GradientSteps(5, step_size=step_size))
    with pytest.raises(ClientRefused, match="'largest_step'"):
        fs.run(algorithm, SiteTransport(Direct(Table("counts").write(tmp_path)), terms()), preprocess=PREPROCESS)


def test_a_long_newton_step_of_a_clients_own_is_judged(tmp_path: Path) -> None:
    protocol = fs.FedDyn(LOGISTIC, local=fs.CG())
    protocols = {"algorithm": protocol, "preprocess": PREPROCESS}
    with fs.Session(SiteTransport(Direct(Table("classes").write(tmp_path)), terms())) as session:
        session.open(protocols)
        session.join(PREPROCESS)
        session.fed.begin_round(1)
        w = np.zeros(5)
        with pytest.raises(ClientRefused, match="'largest_step'"):
            session.fed.gather(protocol.local_update, w=w, pull=1.0, step_size=11.0, epoch=0)
