"""Held-out rows: whose draw they are, that nobody learns from them, and what an evaluation says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from tests.extras import optional
from tests.problems import PROBLEMS

LOGISTIC = PROBLEMS["logistic, free intercept | label-skewed"]


def rows(client: fs.Client) -> set[bytes]:
    return {row.tobytes() for row in np.asarray(client.X.todense() if sp.issparse(client.X) else client.X)}


def test_rows_are_divided_and_none_is_lost() -> None:
    for before, after in zip(LOGISTIC.clients(), fs.data.hold_out(LOGISTIC.clients(), 0.25, 7), strict=True):
        assert before.held is None
        assert after.held is not None
        assert after.held.n_samples == round(0.25 * before.n_samples)
        assert after.n_samples + after.held.n_samples == before.n_samples
        assert rows(after) | rows(after.held) == rows(before)
        assert not rows(after) & rows(after.held)
        assert after.weight == after.n_samples
        assert (after.name, after.classes, after.link) == (before.name, before.classes, before.link)


def test_the_draw_is_the_clients_own() -> None:
    """The same whoever else takes part, another with another seed or name."""
    one, *_ = LOGISTIC.clients()
    (alone,) = fs.data.hold_out([one], 0.3, 1)
    assert rows(alone.held) == rows(fs.data.hold_out(LOGISTIC.clients(), 0.3, 1)[0].held)
    assert rows(alone.held) != rows(fs.data.hold_out([one], 0.3, 2)[0].held)
    other = fs.Client("another", one.X, one.y)
    assert rows(alone.held) != rows(fs.data.hold_out([other], 0.3, 1)[0].held)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_something_is_left_to_learn_from(n: int) -> None:
    (client,) = fs.data.hold_out([fs.Client("a", np.eye(n), np.zeros(n))], 0.9)
    assert client.n_samples == 1
    assert (client.held is None) == (n == 1)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 2.0, float("nan"), "half", None, True])
def test_wrong_fractions_are_rejected(fraction: Any) -> None:
    with pytest.raises(fs.errors.ConfigError, match="fraction"):
        fs.data.hold_out(LOGISTIC.clients(), fraction)


def test_rows_are_held_out_once() -> None:
    with pytest.raises(fs.errors.DataError, match="already"):
        fs.data.hold_out(fs.data.hold_out(LOGISTIC.clients()))


@pytest.mark.parametrize("transport", ["in_process", "processes"])
@pytest.mark.parametrize("preprocess", [None, fs.data.Preprocess()], ids=["raw", "preprocessed"])
def test_nobody_learns_from_them(transport: str, preprocess: Any) -> None:
    """The model is that of clients who never had these rows, to the bit; so is the preprocessing."""
    held = fs.data.hold_out(LOGISTIC.clients(), 0.3, 5)
    without = [fs.Client(one.name, one.X, one.y) for one in held]
    algorithm = fs.Newton(LOGISTIC.loss)
    a, b = (fs.run(algorithm, each, preprocess=preprocess, transport=transport) for each in (held, without))
    assert a.model.w.tobytes() == b.model.w.tobytes()
    assert a.ledger.total(None).counts == b.ledger.total(None).counts


def test_they_are_preprocessed_alike() -> None:
    """By the centres and scales of the rows that were learned from: the model on raw held-out rows says the same."""
    names = ("a", "b", "c", "d", "e", "f")
    clients = [fs.Client(one.name, 100 * one.X + 7, one.y, feature_names=names) for one in LOGISTIC.clients()]
    # One client has its columns in another order.
    turned = [5, 4, 3, 2, 1, 0]
    clients[1] = fs.Client(
        clients[1].name, clients[1].X[:, turned], clients[1].y, feature_names=tuple(names[place] for place in turned)
    )
    held = fs.data.hold_out(clients, 0.3, 5)
    loss = LOGISTIC.loss
    with fs.Session(held, also={"evaluation": fs.Evaluation(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        found = fs.evaluate(run.model, session, loss)
    X = np.concatenate([one.held.ordered(names) for one in held])
    y = np.concatenate([one.held.y for one in held])
    p = run.model.predict_proba(X)[:, 1]
    assert found.value == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))), rel=1e-12)
    assert found.accuracy == np.mean((p > 0.5) == y)
    assert found.samples == len(y)


# ── evaluation ──


def test_pooled_figures_are_the_weighted_mean_of_the_clients() -> None:
    problem = PROBLEMS["squared, free intercept | weighted"]
    held = fs.data.hold_out(problem.clients(), 0.3, 5)
    run = fs.run(fs.Newton(problem.loss), held)
    found = fs.evaluate(run.model, held, problem.loss)
    assert found.error_name == "mean squared error"
    assert found.accuracy is None
    s, r = [], []
    for client in held:
        residual = run.model.predict(client.held.X) - client.held.y
        assert found.clients[client.name].error == pytest.approx(
            np.average(residual**2, weights=client.held.sample_weight)
        )
        assert found.clients[client.name].weight == client.held.weight
        s.append(client.held.sample_weight)
        r.append(residual)
    s, r = np.concatenate(s), np.concatenate(r)
    assert found.error == pytest.approx(np.average(r**2, weights=s), rel=1e-12)
    assert found.value == pytest.approx(0.5 * np.average(r**2, weights=s), rel=1e-12)  # no penalty in it
    sums = fs.evaluate(run.model, held, problem.loss, by_client=False)
    assert sums.clients == {}
    assert (sums.samples, sums.weight) == (found.samples, found.weight)
    assert sums.value == pytest.approx(found.value, rel=1e-14)


@pytest.mark.parametrize(
    "name", ["softmax | balanced", "poisson | unbalanced", "squared, two outputs | unbalanced", "sparse"]
)
def test_every_loss_evaluates(name: str) -> None:
    if name == "sparse":
        base = PROBLEMS["logistic | label-skewed"]
        clients, loss = [fs.Client(c.name, sp.csr_array(c.X), c.y) for c in base.clients()], base.loss
    else:
        problem = next(one for key, one in PROBLEMS.items() if key.startswith(name.split(" |")[0]))
        clients, loss = problem.clients(), problem.loss
    held = fs.data.hold_out(clients, 0.3)
    run = fs.run(fs.Newton(loss), held)
    found = fs.evaluate(run.model.w, held, loss)
    expected = sum(one.held.weight * (loss.value(one.held, run.model.w) - loss.penalty(run.model.w)) for one in held)
    assert found.value == pytest.approx(expected / sum(one.held.weight for one in held), rel=1e-12)
    assert (found.accuracy is None) != loss.classifies


def test_a_client_without_rows_counts_for_nothing() -> None:
    clients = LOGISTIC.clients()
    held = [clients[0], *fs.data.hold_out(clients[1:], 0.3)]
    found = fs.evaluate(np.zeros(7), held, LOGISTIC.loss)
    assert found.clients[clients[0].name].samples == 0
    assert found.clients[clients[0].name].value is None
    assert found.value == pytest.approx(np.log(2))
    with pytest.raises(fs.errors.DataError, match="no client has held-out rows"):
        fs.evaluate(np.zeros(7), clients, LOGISTIC.loss)


def test_wrong_weights_and_models_are_rejected() -> None:
    held = fs.data.hold_out(LOGISTIC.clients(), 0.3)
    with pytest.raises(fs.errors.ConfigError, match=r"shape \(3,\), this loss needs \(7,\)"):
        fs.evaluate(np.zeros(3), held, LOGISTIC.loss)
    with pytest.raises(fs.errors.ConfigError, match="intercept"):
        fs.evaluate(fs.LinearModel(np.zeros(6), False, "logistic"), held, LOGISTIC.loss)


def test_held_out_labels_are_checked_too() -> None:
    client = fs.Client("a", np.eye(4), np.array([0.0, 1.0, 0.0, 1.0])).holding_out(np.array([3]))
    client._held.y[0] = 5.0
    with pytest.raises(fs.errors.FedsolveError, match="labels of the logistic loss"):
        fs.evaluate(np.zeros(4), [client], fs.Logistic())


def test_the_ledger_counts_the_evaluation_as_setting_up() -> None:
    held = fs.data.hold_out(LOGISTIC.clients(), 0.3)
    with fs.Session(held, also={"evaluation": fs.Evaluation(LOGISTIC.loss)}) as session:
        run = fs.run(fs.Newton(LOGISTIC.loss), session)
        before = run.ledger.total("algorithm")
        fs.evaluate(run.model, session, LOGISTIC.loss)
        assert session.fed.ledger.total("algorithm") == before
        assert "evaluation.held_figures" in {call for record in session.fed.ledger.records for call in record.calls}


def test_another_draw_is_other_data_for_a_resumed_run(tmp_path: Any) -> None:
    algorithm = fs.FedAvg(LOGISTIC.loss)
    fs.run(algorithm, fs.data.hold_out(LOGISTIC.clients(), 0.3, 1), rounds=2, checkpoint=tmp_path / "run")
    other = fs.data.hold_out(LOGISTIC.clients(), 0.3, 2)
    with pytest.raises(fs.errors.FedsolveError, match="not what the run began with"):
        fs.run(algorithm, other, rounds=4, checkpoint=tmp_path / "run", resume=True)


def test_torch_clients_hold_rows_out() -> None:
    torch = optional("torch")
    clients = [fs.Client(c.name, torch.asarray(c.X), torch.asarray(c.y)) for c in LOGISTIC.clients()]
    held, plain = fs.data.hold_out(clients, 0.3, 5), fs.data.hold_out(LOGISTIC.clients(), 0.3, 5)
    w = np.random.default_rng(0).standard_normal(7)
    ours, theirs = (fs.evaluate(w, each, LOGISTIC.loss) for each in (held, plain))
    assert ours.value == pytest.approx(theirs.value, rel=1e-12)
    assert ours.accuracy == theirs.accuracy


def test_test_rows_with_names_need_a_client_with_names() -> None:
    """Taken by place, columns in another order would be mistaken for each other."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.eye(3), columns=["b", "a", "c"])
    with pytest.raises(fs.errors.DataError, match="nobody can say which is which"):
        fs.data.with_test_rows(fs.Client("a", np.eye(3), np.zeros(3)), frame, np.zeros(3))
