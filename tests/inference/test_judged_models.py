"""Which model is judged, and on which columns: its own preprocessing is never replaced by another one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ClientInputError, ConfigError
from fedsolve.inference.sent_model import send
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.problem import prepare
from tests.extras import optional

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")
LOSS = fs.Logistic(l2=1e-2, intercept="free")


def sites(stretch: float = 1.0, move: float = 0.0, seed: int = 0, kind: Any = np.asarray) -> list[fs.Client]:
    rng = np.random.default_rng(seed)
    made = []
    for index in range(3):
        X = rng.standard_normal((60, 3))
        y = (X @ [1.0, -1.0, 0.5] + rng.standard_normal(60) > 0).astype(float)
        made.append(fs.Client(f"c{index}", kind(stretch * X + move), y))
    return fs.data.hold_out(made, 0.4)


def held_loss(model: Any, clients: list[fs.Client]) -> float:
    """The log-loss of the whole model on the pooled raw columns."""
    eta = np.concatenate([model.decision_function(one.held.X) for one in clients])  # type: ignore[union-attr]
    y = np.concatenate([one.held.y for one in clients])  # type: ignore[union-attr]
    return float(np.mean(np.logaddexp(0.0, eta) - y * eta))


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_a_model_keeps_its_preprocessing_in_another_session(transport: str) -> None:
    """A's model scales by A's columns, also where B's clients agreed on a preprocessing of their own."""
    ours, theirs = sites(), sites(5.0, 10.0, seed=1)
    model = fs.run(fs.Newton(LOSS), ours, preprocess=fs.data.Preprocess()).model
    with fs.Session(theirs, transport, also={"evaluation": fs.Evaluation(LOSS)}) as session:
        own = fs.run(fs.Newton(LOSS), session, preprocess=fs.data.Preprocess()).model
        inside, usual = fs.evaluate(model, session, LOSS), fs.evaluate(own, session, LOSS)
    outside = fs.evaluate(model, theirs, LOSS)
    assert inside.plain() == outside.plain()
    assert inside.value == pytest.approx(held_loss(model, theirs), rel=1e-12)
    assert usual.value == pytest.approx(held_loss(own, theirs), rel=1e-12)
    assert inside.value > 2 * usual.value


def test_the_run_and_evaluate_say_the_same() -> None:
    """The run judges the weights of its State, `evaluate` the whole model."""
    clients = sites(3.0, -2.0)
    evaluation = fs.Evaluation(LOSS)
    run = fs.run(fs.Newton(LOSS), clients, preprocess=fs.data.Preprocess(), evaluation=evaluation)
    assert run.evaluation is not None
    again = fs.evaluate(run.model, clients, LOSS)
    assert run.evaluation.value == pytest.approx(again.value, rel=1e-12)
    assert run.evaluation.auc == pytest.approx(again.auc, abs=1e-4)


def test_test_rows_are_not_scaled_by_themselves() -> None:
    model = fs.run(fs.Newton(LOSS), sites(), preprocess=fs.data.Preprocess()).model
    site = sites(5.0, 10.0)
    with pytest.raises(ConfigError, match="a preprocessing of its own"):
        fs.evaluate(model, site, LOSS, preprocess=fs.data.Preprocess())
    assert fs.evaluate(model, site, LOSS).value == pytest.approx(held_loss(model, site), rel=1e-12)


@pytest.mark.parametrize("kind", ["sparse", "torch"])
def test_sparse_and_torch_clients_take_raw_columns(kind: str) -> None:
    made: Any = sp.csr_array if kind == "sparse" else optional("torch").asarray
    preprocess = fs.data.Preprocess(centre=False) if kind == "sparse" else fs.data.Preprocess()
    target = np.asarray if kind == "sparse" else made
    clients = []
    for one in sites():
        client = fs.Client(one.name, made(one.X), target(one.y))
        held = one.held
        assert held is not None
        clients.append(fs.data.with_test_rows(client, made(held.X), target(held.y)))
    with fs.Session(clients, also={"evaluation": fs.Evaluation(LOSS)}) as session:
        model = fs.run(fs.Newton(LOSS), session, preprocess=preprocess).model
        found = fs.evaluate(model, session, LOSS)
    assert found.value == pytest.approx(held_loss(model, sites()), rel=1e-9)


@needs_data
def test_rows_with_gaps_and_text_outside_the_session() -> None:
    """The clients' own rows have no design without a preprocessing; the model has one."""
    file = Path(__file__).parents[2] / "examples/heart.toml"
    problem = prepare(config.read(file), file)
    clients = fs.data.hold_out(problem.clients, 0.3, 0)
    assert any(one.raw for one in clients)
    with fs.Session(clients, also={"evaluation": fs.Evaluation(LOSS)}) as session:
        model = fs.run(fs.Newton(LOSS), session, preprocess=problem.preprocess).model
        inside = fs.evaluate(model, session, LOSS)
    outside = fs.evaluate(model, clients, LOSS)
    assert (outside.samples, outside.plain()) == (276, inside.plain())
    for client in clients:
        found = outside.clients[client.name].value
        assert found == pytest.approx(held_loss(model, [client]), rel=1e-9)


@pytest.mark.parametrize(
    ("link", "loss"),
    [
        ("identity", fs.Logistic()),
        ("exponential", fs.Squared()),
        ("logistic", fs.Poisson()),
        ("logistic", fs.Squared()),
    ],
)
def test_a_model_is_judged_by_a_loss_of_its_own_link(link: str, loss: Any) -> None:
    clients = sites()
    model = fs.LinearModel(np.ones(3), False, link)
    with pytest.raises(ConfigError, match=f"link '{link}'"):
        fs.evaluate(model, clients, loss)


def test_a_client_checks_the_link_too() -> None:
    clients, evaluation = sites(), fs.Evaluation(fs.Logistic())
    with fs.Session(clients, also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        with pytest.raises(ClientInputError, match="link 'identity'"):
            session.fed.gather(evaluation.own_recalibration, w=send(fs.LinearModel(np.ones(3), False, "identity")))


def test_errors_speak_of_the_model_to_judge() -> None:
    clients = sites()
    model = fs.LinearModel(np.ones(4), True, "logistic")
    with pytest.raises(ConfigError, match="the model to judge has an intercept and this loss has none") as found:
        fs.evaluate(model, clients, fs.Logistic())
    assert "warm start" not in str(found.value)
