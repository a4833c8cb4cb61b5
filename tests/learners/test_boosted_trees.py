"""Trees in FFGB, through `run`: what leaves the clients, what stays, and how good it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.learners.parts import built
from fedsolve.learners.tree import Tree
from tests.learners.test_trees import leaf_sizes

N = 1500
RULES = fs.Stopping(rounds=3, tolerance=None)


def problem(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    X[:, 3] = np.where(rng.random(n) < 0.9, 0.0, X[:, 3])
    X[:, 4] = rng.integers(0, 5, n)
    score = 2 * X[:, 0] * (X[:, 1] > 0) - X[:, 2] ** 2 + 3 * (X[:, 3] > 0.5) + (X[:, 4] == 2)
    return X, (score + rng.logistic(size=n) > 0).astype(float)


def clients_of(X, y, count: int = 4) -> list[fs.Client]:
    return fs.data.partition(X, y, fs.data.Dirichlet(0.5, min_samples=40), clients=count, seed=0)


def boosting(learner: fs.Trees | None = None, **options) -> fs.FFGB:
    given = {"steps": 2, "step_size": 0.5, "initial": "constant", "residual": None, **options}
    return fs.FFGB(fs.Logistic(), learner or fs.Trees(depth=4), **given)


def functions(run: fs.Run) -> list[list[Tree]]:
    """The trees of each round, client by client."""
    model = run.model
    return [built(model.learner, part, model.inputs, model.outputs) for part in model.parts]


def test_no_leaf_is_of_few_rows_and_no_threshold_a_value() -> None:
    X, y = problem()
    clients = clients_of(X, y)
    run = fs.run(boosting(fs.Trees(depth=8, leaves=None)), clients, stopping=RULES)
    for trees in functions(run):
        for place, tree in enumerate(trees):
            assert leaf_sizes(tree, clients[place // 2].X).min() >= 5
            for j, threshold in zip(tree.feature[tree.feature >= 0], tree.threshold, strict=True):
                assert threshold not in X[:, j]


def test_the_ledger_lists_all_that_leaves_the_clients() -> None:
    X, y = problem()
    clients = fs.data.hold_out(clients_of(X, y), 0.2)
    loss = fs.Logistic()
    patience = fs.Patience(5, fs.Evaluation(loss), metric="auc")
    run = fs.run(boosting(), clients, stopping=[RULES, patience])
    sent = {
        (call, purpose) for one in run.ledger.records for call, purpose in zip(one.calls, one.purposes, strict=True)
    }
    assert sent == {
        ("session.join", "setup"),
        ("algorithm.learner.column_sizes", "setup"),
        ("algorithm.learner.cell_counts", "setup"),
        ("algorithm.learner.values_at", "setup"),
        ("algorithm.targets", "algorithm"),
        ("algorithm.local_steps", "algorithm"),
        ("algorithm.learn_of", "measure"),  # an answer of one number
        ("algorithm.value", "measure"),
        ("stopping.1.evaluation.held_figures", "measure"),
        ("stopping.1.evaluation.held_bins", "measure"),
    }


def test_transports_give_the_same_trees() -> None:
    X, y = problem(n=600)
    one = fs.run(boosting(), clients_of(sp.csr_array(X), y, 3), stopping=RULES)
    other = fs.run(boosting(), clients_of(sp.csr_array(X), y, 3), stopping=RULES, transport="processes")
    np.testing.assert_array_equal(one.model.decision_function(X), other.model.decision_function(X))
    dense = fs.run(boosting(), clients_of(X, y, 3), stopping=RULES)
    np.testing.assert_allclose(dense.model.decision_function(X), one.model.decision_function(X), atol=1e-9)


def test_units_of_columns_change_no_prediction() -> None:
    X, y = problem(n=800)
    units = np.array([1e-9, 1e9, 1.0, 1e-3, 1e12, 7.0])
    one = fs.run(boosting(), clients_of(X, y), stopping=RULES)
    other = fs.run(boosting(), clients_of(X * units, y), stopping=RULES)
    np.testing.assert_allclose(
        other.model.decision_function(X * units), one.model.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_clients_of_one_row_and_a_run_that_is_resumed(tmp_path) -> None:
    X, y = problem(n=400)
    clients = [
        *clients_of(X[:390], y[:390], 3),
        *(fs.Client(f"one-{i}", X[i : i + 1], y[i : i + 1]) for i in (391, 395)),
    ]
    run = fs.run(boosting(weigh="samples"), clients, stopping=RULES)
    assert np.isfinite(run.model.decision_function(X)).all()
    path = tmp_path / "checkpoint"
    fs.run(boosting(weigh="samples"), clients, stopping=fs.Stopping(rounds=1, tolerance=None), checkpoint=path)
    resumed = fs.run(boosting(weigh="samples"), clients, stopping=RULES, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.model.decision_function(X), run.model.decision_function(X))


def test_torch_clients() -> None:
    torch = pytest.importorskip("torch")
    X, y = problem(n=600)
    parts = [slice(k, None, 3) for k in range(3)]
    mine = [fs.Client(f"c{k}", X[part], y[part]) for k, part in enumerate(parts)]
    theirs = [fs.Client(f"c{k}", torch.tensor(X[part]), torch.tensor(y[part])) for k, part in enumerate(parts)]
    one, other = (fs.run(boosting(), clients, stopping=RULES) for clients in (mine, theirs))
    np.testing.assert_allclose(other.model.decision_function(X), one.model.decision_function(X), atol=1e-9)


def test_several_classes_and_one_that_a_client_lacks() -> None:
    X, _ = problem(n=900)
    y = np.digitize(X[:, 0] + X[:, 4], [0.5, 2.5])
    clients = [fs.Client("a", X[:300], y[:300]), fs.Client("b", X[300:600], y[300:600])]
    low = np.flatnonzero(y[600:] < 2) + 600
    clients.append(fs.Client("c", X[low], y[low]))
    algorithm = fs.FFGB(fs.Softmax(classes=3), fs.Trees(depth=4), steps=3, step_size=2.0, residual=None)
    run = fs.run(algorithm, clients, stopping=fs.Stopping(rounds=15, tolerance=None))
    assert np.mean(run.model.predict(X) == y) > 0.9


def test_missing_cells_are_kept_and_sent_the_better_way() -> None:
    X, y = problem()
    rng = np.random.default_rng(1)
    X[(rng.random(N) < 0.7) & (y == 1), 5] = np.nan  # that a cell is missing says something
    keep = fs.data.Preprocess(standardise=False, impute="keep")
    run = fs.run(boosting(), clients_of(X, y), preprocess=keep, stopping=RULES)
    assert run.model.importances()["x5"] > 0.3
    assert roc_auc_score(y, run.model.decision_function(X)) > 0.9
    mean = fs.run(boosting(), clients_of(X, y), preprocess=fs.data.Preprocess(), stopping=RULES)
    assert run.history[-1].value < mean.history[-1].value
    with pytest.raises(ConfigError, match="cannot learn from missing cells"):
        fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients_of(X, y), preprocess=keep)


def test_sample_weights() -> None:
    X, y = problem(n=600)
    weight = np.random.default_rng(0).integers(1, 3, 600)
    halves = [slice(0, 300), slice(300, 600)]
    weighted = [fs.Client(f"c{k}", X[s], y[s], weight[s]) for k, s in enumerate(halves)]
    plain = [fs.Client(f"c{k}", X[s], y[s]) for k, s in enumerate(halves)]
    twice = [fs.Client(f"c{k}", X[s], y[s], np.full(300, 2.0)) for k, s in enumerate(halves)]
    runs = [fs.run(boosting(), clients, stopping=RULES) for clients in (weighted, plain, twice)]
    f = [run.model.decision_function(X) for run in runs]
    np.testing.assert_allclose(f[1], f[2], atol=1e-9)
    assert np.abs(f[0] - f[1]).max() > 0.01


def test_boosted_trees_are_nearer_to_pooled_ones_than_to_those_of_a_client_alone() -> None:
    X, y = problem(3, 3000)
    train, test = slice(0, 2000), slice(2000, 3000)
    clients = clients_of(X[train], y[train])
    patience = fs.Patience(4, fs.Evaluation(fs.Logistic()), metric="auc")
    algorithm = boosting(fs.Trees(depth=4, l2=100.0), steps=3, step_size=2.0)
    held = fs.data.hold_out(clients, 0.1, seed=0)
    run = fs.run(algorithm, held, stopping=[fs.Stopping(rounds=15, tolerance=None), patience])

    new, truth = X[test], y[test]

    def theirs(X, y) -> float:
        model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
        return roc_auc_score(truth, model.predict_proba(new)[:, 1])

    ours = roc_auc_score(y[test], run.model.decision_function(X[test]))
    pooled, alone = theirs(X[train], y[train]), np.mean([theirs(one.X, one.y) for one in clients])
    assert pooled - ours < (pooled - alone) / 2


def test_five_thousand_trees_predict_in_seconds() -> None:
    X, y = problem(n=1000)
    run = fs.run(boosting(fs.Trees(depth=5)), clients_of(X, y), stopping=RULES)
    trees = [tree for one in functions(run) for tree in one]
    many = (trees * (5000 // len(trees) + 1))[:5000]
    c = np.full(5000, 1e-3)
    whole = run.model.learner.weighted_sum(many, c, X)
    expected = sum(
        1e-3 * count * tree(X) for tree, count in zip(trees, np.bincount(np.arange(5000) % len(trees)), strict=True)
    )
    np.testing.assert_allclose(whole, expected, atol=1e-9)
