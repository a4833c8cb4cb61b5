"""Federated figures are those of scikit-learn on the pooled rows: sums to 1e-12, the AUC within its stated error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import metrics as sk
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.inference.client_sums import predicted
from fedsolve.inference.metrics import Kind, Rows, likeliest
from fedsolve.inference.score_bins import GRID
from fedsolve.inference.sent_model import SentModel
from fedsolve.models import KernelExpansion
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.problem import prepare
from fedsolve.typing import Array
from tests.extras import optional
from tests.faults.test_lost import Road
from tests.problems import PROBLEMS

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")
EXACT = 1e-12


def close(found: float | None, expected: float) -> None:
    assert found == pytest.approx(expected, rel=EXACT, abs=EXACT)


def calibration_error(p: np.ndarray, y: np.ndarray, s: np.ndarray) -> float:
    """Counted by hand, bin by bin."""
    total = 0.0
    for low in range(10):
        here = (p >= low / 10) & ((p < (low + 1) / 10) | (low == 9))
        total += abs((s[here] * (p[here] - y[here])).sum())
    return total / s.sum()


def check_binary(found: Any, eta: np.ndarray, y: np.ndarray, s: np.ndarray) -> None:
    p = 1 / (1 + np.exp(-eta))
    assert found.samples == len(y)
    close(found.weight, s.sum())
    close(found.accuracy, sk.accuracy_score(y, eta > 0, sample_weight=s))
    close(found.value, sk.log_loss(y, p, sample_weight=s, labels=[0, 1]))
    close(found.error, sk.log_loss(y, p, sample_weight=s, labels=[0, 1]))
    close(found.deviance, 2 * sk.log_loss(y, p, sample_weight=s, labels=[0, 1]))
    close(found.brier, sk.brier_score_loss(y, p, sample_weight=s))
    close(found.calibration_error, calibration_error(p, y, s))
    np.testing.assert_allclose(found.confusion, sk.confusion_matrix(y, eta > 0, sample_weight=s), rtol=EXACT)
    if len(np.unique(y)) == 1:
        assert (found.auc, found.auc_error, found.d2, found.calibration_slope) == (None, None, None, None)
        return
    close(found.d2, sk.d2_log_loss_score(y, p, sample_weight=s))
    assert abs(found.auc - sk.roc_auc_score(y, eta, sample_weight=s)) <= found.auc_error + EXACT


def same(found: Any, expected: Any, rel: float = 1e-9) -> None:
    """Equal in every entry, numbers to rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = tuple(found.values()), tuple(expected.values())
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, rel)
    else:
        assert found == (pytest.approx(expected, rel=rel, abs=1e-9) if isinstance(expected, float) else expected)


def pooled(clients: list[fs.Client], model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [one.held for one in clients if one.held is not None]
    eta = np.concatenate([model.decision_function(one.X) for one in rows])
    s = [np.ones(one.n_samples) if one.sample_weight is None else one.sample_weight for one in rows]
    return eta, np.concatenate([one.y for one in rows]), np.concatenate(s)


def recalibrated(eta: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    fit = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=1000).fit(eta[:, None], y)
    return float(fit.intercept_[0]), float(fit.coef_[0, 0])


def test_breast_cancer() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    clients = fs.data.hold_out(fs.data.partition(X, y, fs.data.Dirichlet(0.8), clients=5, seed=1), 0.3, 2)
    loss = fs.Logistic(l2=1e-3, intercept="free")
    with fs.Session(clients, also={"evaluation": fs.Evaluation(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        found = fs.evaluate(run.model, session, loss)
    eta, y, s = pooled(clients, run.model)
    check_binary(found, eta, y, s)
    assert found.auc_error <= 1e-4
    line = recalibrated(eta, y)
    assert (found.calibration_intercept, found.calibration_slope) == pytest.approx(line, rel=1e-6)
    for client in clients:
        check_binary(found.clients[client.name], *pooled([client], run.model))
    # The model's file is enough: it takes raw columns, and clients that were never preprocessed can judge it.
    whole = fs.evaluate(run.model, clients, loss)
    same(whole.plain(), found.plain())
    check_binary(whole, eta, y, s)


@needs_data
def test_heart_in_four_hospitals() -> None:
    """With its gaps: imputed and scaled by federated sums of the rows that are learned from."""
    file = Path(__file__).parents[2] / "examples/heart.toml"
    problem = prepare(config.read(file), file)
    clients = fs.data.hold_out(problem.clients, 0.3, 0)
    loss = fs.Logistic(l2=1e-2, intercept="free")
    with fs.Session(clients, also={"evaluation": fs.Evaluation(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, preprocess=problem.preprocess)
        found = fs.evaluate(run.model, session, loss)
    eta, y, s = pooled(clients, run.model)
    assert (len(found.clients), len(y)) == (4, 276)
    check_binary(found, eta, y, s)
    assert found.auc_error <= 1e-4
    line = recalibrated(eta, y)
    assert (found.calibration_intercept, found.calibration_slope) == pytest.approx(line, rel=1e-6)
    for client in clients:
        check_binary(found.clients[client.name], *pooled([client], run.model))


def weighted(name: str) -> tuple[Any, list[fs.Client], Any]:
    problem = PROBLEMS[name]
    held = fs.data.hold_out(problem.clients(), 0.4, 3)
    return problem.loss, held, fs.run(fs.Newton(problem.loss), held).model


def test_numbers() -> None:
    loss, held, model = weighted("squared, free intercept | weighted")
    found = fs.evaluate(model, held, loss)
    eta, y, s = pooled(held, model)
    close(found.deviance, sk.mean_squared_error(y, eta, sample_weight=s))
    close(found.r2, sk.r2_score(y, eta, sample_weight=s))
    assert (found.auc, found.accuracy, found.brier, found.confusion) == (None, None, None, ())
    for client in held:
        eta, y, s = pooled([client], model)
        if len(y) > 1 and (s > 0).sum() > 1:
            close(found.clients[client.name].r2, sk.r2_score(y, eta, sample_weight=s))
        else:
            assert found.clients[client.name].r2 is None  # one row has no spread to explain


def test_r2_in_any_units() -> None:
    """A mean a million times the spread: a sum of squares minus the square of a sum would be rounding."""
    loss, held, model = weighted("squared, free intercept | unbalanced")
    shifted = [fs.data.with_test_rows(fs.Client(c.name, c.X, c.y), c.held.X, c.held.y + 1e6) for c in held]
    moved = fs.LinearModel(np.r_[model.w[:-1], model.w[-1] + 1e6], True, "identity")
    assert fs.evaluate(moved, shifted, loss).r2 == pytest.approx(fs.evaluate(model, held, loss).r2, rel=1e-8)


def test_several_outputs() -> None:
    loss, held, model = weighted("squared, two outputs | unbalanced")
    found = fs.evaluate(model, held, loss)
    eta, y, s = pooled(held, model)
    close(found.deviance, sk.mean_squared_error(y, eta, sample_weight=s))
    close(found.r2, sk.r2_score(y, eta, sample_weight=s))


@pytest.mark.parametrize("name", ["poisson, free intercept | weighted", "poisson | offsets"])
def test_counts(name: str) -> None:
    loss, held, model = weighted(name)
    found = fs.evaluate(model, held, loss)
    eta, y, s = pooled(held, model)
    if PROBLEMS[name].offset is not None:
        eta = eta + np.concatenate([one.held.offset for one in held])
    close(found.deviance, sk.mean_poisson_deviance(y, np.exp(eta), sample_weight=s))
    close(found.d2, sk.d2_tweedie_score(y, np.exp(eta), sample_weight=s, power=1))


def test_two_classes_with_weights() -> None:
    loss, held, model = weighted("logistic, free intercept | weighted")
    found = fs.evaluate(model, held, loss)
    check_binary(found, *pooled(held, model))
    sums = fs.evaluate(model, held, loss, by_client=False)
    assert sums.clients == {}
    assert {key: value for key, value in sums.plain().items() if key != "clients"}.keys() < found.plain().keys()
    check_binary(sums, *pooled(held, model))
    same(sums.auc, found.auc)
    same(sums.calibration_slope, found.calibration_slope)


def test_soft_labels() -> None:
    loss, held, model = weighted("logistic | soft labels")
    found = fs.evaluate(model, held, loss)
    eta, y, _ = pooled(held, model)
    p = 1 / (1 + np.exp(-eta))
    doubled, labels, shares = np.r_[eta, eta], np.r_[np.ones(len(y)), np.zeros(len(y))], np.r_[y, 1 - y]
    entropy = -np.where((y > 0) & (y < 1), y * np.log(np.where(y > 0, y, 1)), 0)
    entropy = entropy - np.where((y > 0) & (y < 1), (1 - y) * np.log(np.where(y < 1, 1 - y, 1)), 0)
    close(found.value, sk.log_loss(labels, np.r_[p, p], sample_weight=shares, normalize=False) / len(y))
    close(found.deviance, 2 * (found.value - entropy.mean()))
    assert abs(found.auc - sk.roc_auc_score(labels, doubled, sample_weight=shares)) <= found.auc_error + EXACT


@pytest.mark.parametrize("kind", ["weights", "sent whole"])
def test_several_classes(kind: str) -> None:
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]
    clients = fs.data.hold_out(fs.data.partition(X, y, fs.data.IID(), clients=3, seed=0), 0.5, 0)
    loss = fs.Softmax(l2=1e-2, classes=3, intercept="free")
    model = fs.run(fs.Newton(loss), clients).model
    evaluation = fs.Evaluation(loss, auc_error=0)
    given = model if kind == "weights" else Probabilities(model.w)
    found = fs.evaluate(given, clients, evaluation)
    eta, y, s = pooled(clients, model)
    p = np.exp(eta - eta.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    close(found.accuracy, sk.accuracy_score(y, p.argmax(axis=1)))
    close(found.deviance, 2 * sk.log_loss(y, p))
    close(found.d2, sk.d2_log_loss_score(y, p))
    close(found.brier, ((p - np.eye(3)[y.astype(int)]) ** 2).sum(axis=1).mean())
    np.testing.assert_array_equal(found.confusion, sk.confusion_matrix(y, p.argmax(axis=1)))
    close(found.calibration_error, calibration_error(p.max(axis=1), (p.argmax(axis=1) == y).astype(float), s))
    for c in range(3):
        # Two decimals of petals make ties, which stay open: the estimate is right, the bound is not zero.
        assert abs(found.aucs[c] - sk.roc_auc_score(y == c, p[:, c])) <= found.auc_error * 3 + EXACT
    assert abs(found.auc - sk.roc_auc_score(y, p, multi_class="ovr")) <= found.auc_error + EXACT


@dataclass(frozen=True, eq=False)
class Probabilities(fs.Model):
    """A classifier of another kind, which the clients of these tests know."""

    w: Array

    kind: ClassVar[str] = "probabilities, for this test"

    def predict(self, X: Array) -> Array:
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Array) -> Array:
        eta = np.c_[self.prepared(X), np.ones(len(X))] @ self.w
        e = np.exp(eta - eta.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Threshold(fs.Model):
    """Two classes, by a probability that is 0 or 1 for some."""

    at: float = 0.0

    kind: ClassVar[str] = "threshold, for this test"

    def predict(self, X: Array) -> Array:
        return (self.prepared(X)[:, 0] > self.at).astype(int)

    def positive_probability(self, X: Array) -> Array:
        return np.clip(0.5 + self.prepared(X)[:, 0] - self.at, 0, 1)


@dataclass(frozen=True, eq=False)
class Constant(fs.Model):
    """A regression of another kind."""

    value: float

    kind: ClassVar[str] = "constant, for this test"

    def predict(self, X: Array) -> Array:
        return np.full(len(self.prepared(X)), self.value)


def test_a_fresh_process_that_does_not_know_a_kind_says_so() -> None:
    loss, held, _ = weighted("squared | weighted")
    with pytest.raises(fs.errors.FedsolveError, match="import the module that defines that kind"):
        fs.evaluate(Constant(0.7), fs.transports.Processes(held, workers=1, start="spawn"), loss)


def test_models_of_other_kinds() -> None:
    loss, held, _ = weighted("squared | weighted")
    found = fs.evaluate(Constant(0.7), held, loss)
    _, y, s = pooled(held, fs.LinearModel(np.zeros(6), False, "identity"))
    close(found.deviance, np.average((y - 0.7) ** 2, weights=s))
    close(found.r2, sk.r2_score(y, np.full(len(y), 0.7), sample_weight=s))
    counts = weighted("poisson | balanced")
    close(
        fs.evaluate(Constant(0.7), counts[1], counts[0]).deviance,
        sk.mean_poisson_deviance(pooled(counts[1], counts[2])[1], np.full(64, 0.7)),
    )
    binary = weighted("logistic | label-skewed")
    found = fs.evaluate(Threshold(0.1), binary[1], binary[0])
    X = np.concatenate([one.held.X for one in binary[1]])
    y = np.concatenate([one.held.y for one in binary[1]])
    p = Threshold(0.1).positive_probability(X)
    close(found.brier, sk.brier_score_loss(y, p))
    assert abs(found.auc - sk.roc_auc_score(y, p)) <= found.auc_error + EXACT
    assert np.isfinite(found.deviance)


def test_models_that_do_not_fit_are_rejected() -> None:
    loss, held, _ = weighted("logistic | label-skewed")
    with pytest.raises(fs.errors.FedsolveError, match="gives no probabilities"):
        fs.evaluate(Constant(0.5), held, loss)
    offsets = weighted("poisson | offsets")
    with pytest.raises(fs.errors.FedsolveError, match="has an offset"):
        fs.evaluate(Constant(0.5), offsets[1], offsets[0])
    with pytest.raises(fs.errors.ConfigError, match="neither arrays nor plain"):
        fs.evaluate(Constant({1, 2}), held, loss)  # type: ignore[arg-type]
    named = [fs.Client(c.name, c.X, c.y, classes=("no", "yes")) for c in held]
    model = fs.LinearModel(np.zeros(6), False, "logistic", classes=("yes", "no"))
    with pytest.raises(fs.errors.ConfigError, match="classes"):
        fs.evaluate(model, named, fs.Evaluation(loss, rows="own"))


def test_given_rows() -> None:
    """Test rows of a client's own, in another order of columns; or clients that are made of test rows."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    loss, clients, tests = fs.Logistic(l2=0.1, intercept="free"), [], []
    for index in range(3):
        X, T = rng.standard_normal((40, 3)), rng.standard_normal((20, 3))
        y, t = (X[:, 0] > 0).astype(float), (T[:, 0] + 0.5 * rng.standard_normal(20) > 0).astype(float)
        client = fs.Client(f"c{index}", pd.DataFrame(X, columns=names), y)
        frame = pd.DataFrame(T, columns=names)[["c", "a", "b"]]
        clients.append(fs.data.with_test_rows(client, frame, t))
        assert client.held is None
        tests.append(fs.Client(f"c{index}", frame, t))
    with fs.Session(clients, also={"evaluation": fs.Evaluation(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        found = fs.evaluate(run.model, session, loss)
    frames = [one.ordered(names) for one in tests]
    eta = run.model.decision_function(np.concatenate(frames))
    check_binary(found, eta, np.concatenate([one.y for one in tests]), np.ones(60))
    again = fs.evaluate(run.model, tests, fs.Evaluation(loss, rows="own"))
    check_binary(again, eta, np.concatenate([one.y for one in tests]), np.ones(60))
    with pytest.raises(DataError, match="already"):
        fs.data.with_test_rows(clients[0], frames[0], tests[0].y)
    with pytest.raises(DataError, match="give both alike"):
        fs.data.with_test_rows(fs.Client("a", np.eye(3), np.zeros(3)), np.eye(4), np.zeros(4))


def mixed() -> tuple[Any, list[fs.Client], np.ndarray]:
    """A client without held-out rows, one with one class only, one with a single row."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((120, 4))
    y = (X[:, 0] + rng.standard_normal(120) > 0).astype(float)
    positive = np.flatnonzero(y == 1)[:20]
    rest = np.setdiff1d(np.arange(120), positive)
    parts = [positive, rest[:40], rest[40:60], rest[60:]]
    clients = [fs.Client(f"c{i}", X[p], y[p]) for i, p in enumerate(parts)]
    held = [*fs.data.hold_out(clients[:2], 0.5), clients[2], *fs.data.hold_out(clients[3:], 1 / 40)]
    return fs.Logistic(l2=1e-2), held, rng.standard_normal(4)


def test_clients_with_little_to_say() -> None:
    loss, held, w = mixed()
    found = fs.evaluate(w, held, loss)
    check_binary(found, *pooled(held, loss.model(w)))
    assert found.clients["c2"].samples == 0
    assert (found.clients["c2"].value, found.clients["c2"].auc, found.clients["c0"].auc) == (None, None, None)
    assert found.clients["c0"].accuracy is not None
    assert found.clients["c3"].samples in (1, 2)


def test_torch_sparse_and_worker_processes_say_the_same() -> None:
    loss, held, w = mixed()
    plain = fs.evaluate(w, held, loss).plain()
    assert fs.evaluate(w, held, loss, transport="processes").plain() == plain

    def rebuilt(kind: Any, target: Any) -> list[fs.Client]:
        made = []
        for one in held:
            client = fs.Client(one.name, kind(one.X), target(one.y))
            rows = one.held
            made.append(client if rows is None else fs.data.with_test_rows(client, kind(rows.X), target(rows.y)))
        return made

    same(fs.evaluate(w, rebuilt(sp.csr_array, np.asarray), loss).plain(), plain)
    torch = optional("torch")
    same(fs.evaluate(w, rebuilt(torch.asarray, torch.asarray), loss).plain(), plain)


def test_a_lost_client_is_named() -> None:
    """Who is lost is not asked; the figures are those of the others, and say so."""
    loss, held, _ = weighted("logistic | unbalanced")
    road = Road(held, {held[1].name: range(2, 99)})
    with fs.Session(road, also={"evaluation": fs.Evaluation(loss)}) as session:
        run = fs.run(fs.FedAvg(loss), session, rounds=12, participation=fs.Participation(deadline=1.0, quorum=0.3))
        found = fs.evaluate(run.model, session, loss)
    assert found.missing == (held[1].name,)
    others = [one for one in held if one is not held[1]]
    assert list(found.clients) == [one.name for one in others]
    check_binary(found, *pooled(others, run.model))


@pytest.mark.parametrize("least", [3, 8])
def test_bins_with_few_rows_are_joined(least: int) -> None:
    loss, held, w = mixed()
    evaluation = fs.Evaluation(loss, least=least)
    found = fs.evaluate(w, held, evaluation)
    eta, y, _ = pooled([one for one in held if one.held is not None and one.held.n_samples >= least], loss.model(w))
    assert found.samples == len(y)  # who has fewer rows says nothing
    assert found.clients["c3"].samples == 0
    hits = [
        hit
        for one in held
        if one.held is not None and one.held.n_samples >= least
        for hit in hits_of_runs(loss.model(w).decision_function(one.held.X), one.held.y, least)
    ]
    close(found.accuracy, np.mean(hits))
    assert abs(found.auc - sk.roc_auc_score(y, eta)) <= found.auc_error + EXACT
    assert found.auc_error > 0


def hits_of_runs(eta: np.ndarray, y: np.ndarray, least: int) -> list[bool]:
    """Which rows are predicted right if each run of rows, from the lowest score on, is predicted by its mean."""
    order = np.argsort(eta)
    places = np.searchsorted(GRID, eta[order], side="right")  # of the bin that each row is in
    runs: list[list[int]] = [[]]
    for k, row in enumerate(order):
        if len(runs[-1]) >= least and places[k] != places[k - 1]:
            runs.append([])
        runs[-1].append(int(row))
    if len(runs) > 1 and len(runs[-1]) < least:
        last = runs.pop()
        runs[-1] += last
    means = [np.mean(1 / (1 + np.exp(-eta[run]))) for run in runs]
    return [(mean > 0.5) == (y[row] == 1) for run, mean in zip(runs, means, strict=True) for row in run]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_class_is_predicted_for_fewer_rows(classes: int, weighted: bool) -> None:
    """Wherever the threshold lies; unless there are so few rows that no class has as many."""
    rng, kind = np.random.default_rng(classes), Kind.BINARY if classes == 2 else Kind.CLASSES
    few = 0
    for least in (2, 5, 9):
        for _ in range(50):
            n = int(rng.integers(least, 60))
            shape, labels = (n, *[classes][: classes != 2]), rng.integers(classes, size=n)
            y = labels.astype(float) if classes == 2 else np.eye(classes)[labels]
            rows = Rows(rng.normal(rng.normal(), 1, shape), y, rng.uniform(0.1, 3, n) if weighted else np.ones(n))
            exact = np.bincount(likeliest(kind, rows.eta), minlength=classes)
            counts = np.bincount(predicted(kind, rows, least), minlength=classes)
            few += int(((exact > 0) & (exact < least)).any())
            assert counts.sum() == n
            assert not ((counts > 0) & (counts < min(least, exact.max()))).any()
    assert few > 10  # where every row is predicted by itself there are such classes


def test_no_reply_tells_of_fewer_rows() -> None:
    loss, held, w = mixed()
    evaluation = fs.Evaluation(loss, least=5)
    with fs.Session(held, also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        cuts = np.linspace(-5, 5, 400)[None]
        for reply in session.fed.gather(evaluation.held_bins, w=w, edges=cuts).values():
            runs = reply[0, :, 0] + reply[0, :, 2]  # every weight is 1, so these are rows
            assert not ((runs > 0) & (runs < 5)).any()
        for reply in session.fed.gather(evaluation.held_figures, w=w, edges=cuts).values():
            assert not ((reply.table[:, 0] > 0) & (reply.table[:, 0] < 5)).any()


@pytest.mark.parametrize("given", [{"every": 0}, {"least": 0}, {"rows": "all"}, {"auc_error": -1}, {"bins": 1.5}])
def test_wrong_options_are_rejected(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        fs.Evaluation(fs.Logistic(), **given)


def test_separated_classes_have_no_slope() -> None:
    X = np.linspace(-1, 1, 40)[:, None]
    clients = fs.data.hold_out([fs.Client(f"c{i}", X[i::2], (X[i::2, 0] > 0).astype(float)) for i in range(2)], 0.5)
    found = fs.evaluate(np.array([3.0]), clients, fs.Logistic())
    assert (found.auc, found.auc_error) == (1.0, 0.0)
    assert (found.calibration_slope, found.calibration_intercept) == (None, None)
    flat = fs.evaluate(np.array([0.0]), clients, fs.Logistic())
    assert (flat.auc, flat.auc_error, flat.calibration_slope) == (0.5, 0.0, None)  # all scores are 0, a bin of its own


def test_the_evaluation_of_a_session_is_found() -> None:
    """With its own options, by its loss; and one that the clients were not started with is an error that says so."""
    loss, held, _ = weighted("logistic | unbalanced")
    with fs.Session(held) as session:
        run = fs.run(fs.Newton(loss), session, evaluation=fs.Evaluation(loss, least=2, every=5))
        assert fs.evaluate(run.model, session, loss).plain() == run.evaluation.plain()
        with pytest.raises(ConfigError, match="not one of this run's protocols"):
            fs.evaluate(run.model, session, fs.Logistic(l2=3.0))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("held_bins", {"edges": np.zeros((2, 3))}),
        ("held_bins", {"edges": np.array([[1.0, 0.0]])}),
        ("held_bins", {"edges": np.array([[np.nan]])}),
        ("held_bins", {"edges": np.zeros(3)}),
        ("held_figures", {"edges": np.zeros((1, 3), dtype=np.float32)}),
        ("held_spread", {"edges": np.zeros((1, 3)), "mean": np.zeros(2)}),
        ("held_recalibration", {"line": np.zeros(3)}),
        ("held_recalibration", {"line": np.array([0.0, np.inf])}),
        ("held_recalibration", {"line": np.zeros(2), "w": np.zeros(9)}),
        ("own_recalibration", {"w": SentModel("{}", {})}),
        ("own_recalibration", {"w": SentModel('{"format": 1, "kind": "os.system"}', {})}),
        ("own_recalibration", {"w": SentModel("[" * 100_000, {})}),
        ("own_recalibration", {"w": SentModel('{"format": 1, "kind": "linear"}', {"w": np.zeros(4)})}),
    ],
)
def test_a_client_rejects_what_it_cannot_be_asked(name: str, wrong: dict[str, Any]) -> None:
    loss, held, w = mixed()
    evaluation = fs.Evaluation(loss)
    with fs.Session(held, also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        with pytest.raises(fs.errors.FedsolveError) as caught:
            session.fed.gather(getattr(evaluation, name), **{"w": w, **wrong})
        assert "Traceback" not in str(caught.value)


def test_counts_that_cannot_be() -> None:
    loss, held, _ = weighted("poisson | balanced")
    assert np.isfinite(fs.evaluate(Constant(0.0), held, loss).deviance)
    with pytest.raises(fs.errors.FedsolveError, match="negative"):
        fs.evaluate(Constant(-1.0), held, loss)


def test_rows_without_weight_are_no_rows() -> None:
    loss, held, w = mixed()
    weightless = [
        fs.data.with_test_rows(
            fs.Client(c.name, c.X, c.y), c.held.X, c.held.y, (np.arange(c.held.n_samples) < 2).astype(float)
        )
        for c in held
        if c.held is not None and c.held.n_samples > 2
    ]
    assert fs.evaluate(w, weightless, fs.Evaluation(loss, least=2)).weight == 4.0
    with pytest.raises(DataError, match="no client has 3 rows to judge by"):
        fs.evaluate(w, weightless, fs.Evaluation(loss, least=3))


def test_a_message_names_no_transformer_of_its_own() -> None:
    """A transformer of scikit-learn is used only if the client's own protocol has it too."""
    from_loss = fs.features.Transformer("PolynomialFeatures", {"degree": 2})
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{i}", rng.standard_normal((30, 2)), rng.standard_normal(30)) for i in range(2)]
    loss = fs.Squared(l2=1e-2, features=from_loss)
    run = fs.run(fs.Newton(loss), clients, preprocess=fs.data.Preprocess())
    found = fs.evaluate(run.model, clients, fs.Evaluation(loss, rows="own"))  # raw columns, so it is sent whole
    residual = np.concatenate([run.model.predict(one.X) - one.y for one in clients])
    close(found.deviance, np.mean(residual**2))
    with pytest.raises(fs.errors.FedsolveError, match="only by a loss with the same features"):
        fs.evaluate(run.model, clients, fs.Evaluation(fs.Squared(), rows="own"))


def test_a_kernel_expansion() -> None:
    """A model of the library that has no weights for the clients' columns."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(60, 1)), rng.standard_normal(60)
    model = KernelExpansion(X[:20], rng.standard_normal(20), fs.features.Sobolev())
    clients = fs.data.hold_out([fs.Client(f"c{i}", X[i::3], y[i::3]) for i in range(3)], 0.5)
    found = fs.evaluate(model, clients, fs.Squared(), transport="processes")
    held = [one.held for one in clients]
    X, y = np.concatenate([one.X for one in held]), np.concatenate([one.y for one in held])
    close(found.deviance, np.mean((model.predict(X) - y) ** 2))
    close(found.r2, sk.r2_score(y, model.predict(X)))


@pytest.mark.parametrize("transport", [fs.transports.InProcess, fs.transports.Processes])
def test_a_link_is_not_charged_for_an_evaluation(transport):
    """It measures, as the ledger says: a client that fills its link with eigenvectors is still evaluated."""
    X, y = load_breast_cancer(return_X_y=True)
    clients = fs.data.partition((X - X.mean(0)) / X.std(0), y, fs.data.IID(), clients=3)
    linked = [fs.Client(one.name, one.X, one.y, link=fs.Link(1300)) for one in clients]
    loss = fs.Logistic(l2=0.01, intercept="free")
    run = fs.run(
        fs.SHED(loss, increment="link"),
        transport(fs.data.hold_out(linked, 0.25)),
        evaluation=fs.Evaluation(loss, auc_error=0, exchanges=15),
    )
    assert run.converged
    assert run.evaluation.auc_error is not None
    by_round = {}
    for row in run.ledger.to_rows():
        if row["direction"] == "up" and row["purpose"] == "algorithm":
            key = row["client"], row["round"]
            by_round[key] = by_round.get(key, 0) + row["bytes"]
    assert max(by_round.values()) <= 1300
