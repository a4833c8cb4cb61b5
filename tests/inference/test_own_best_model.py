"""A client's own best model: the penalty is the one that a plain cross-validation chooses, the weights are its fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, LogisticRegression, PoissonRegressor

import fedsolve as fs
from fedsolve.inference import own_best_model as module
from fedsolve.inference.own_best_model import own_best_model
from fedsolve.inference.own_sparse_fit import sparse_fit
from fedsolve.losses import LinearLoss
from tests.extras import optional

P = 5


def client(kind: str, n: int = 60, seed: int = 0, **more: Any) -> fs.Client:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P))
    eta = X @ rng.standard_normal(P) / 2 + 0.4
    y = {
        "squared": eta + rng.standard_normal(n),
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "softmax": rng.integers(0, 3, n) * (eta > 0) * 1.0,
    }[kind]
    return fs.Client("a", X, y, **more)


def folds_of(one: fs.Client, folds: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, one.key, 5]).permutation(np.arange(one.n_samples) % folds)


def least_squares(X: np.ndarray, y: np.ndarray, s: np.ndarray, l2: float) -> np.ndarray:
    """Ridge with a free intercept, by an augmented least-squares problem."""
    Z = np.c_[X, np.ones(len(X))] * np.sqrt(s / s.sum())[:, None]
    penalty = np.sqrt(l2) * np.eye(X.shape[1], X.shape[1] + 1)
    solution: np.ndarray = np.linalg.lstsq(np.r_[Z, penalty], np.r_[y * np.sqrt(s / s.sum()), np.zeros(P)])[0]
    return solution


def by_scikit_learn(kind: str, X: np.ndarray, y: np.ndarray, s: np.ndarray, l2: float) -> np.ndarray:
    X, y, s = X[s > 0], y[s > 0], s[s > 0]
    if kind == "squared":
        return least_squares(X, y, s, l2)
    if kind == "poisson":
        fitted = PoissonRegressor(alpha=l2, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(X, y, s)
        return np.r_[fitted.coef_, fitted.intercept_]
    fitted = LogisticRegression(C=1 / (l2 * s.sum()), tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    fitted.fit(X, y, s)
    return np.r_[fitted.coef_[0], fitted.intercept_]


LOSSES: dict[str, LinearLoss] = {
    "squared": fs.Squared(intercept="free"),
    "logistic": fs.Logistic(intercept="free"),
    "poisson": fs.Poisson(intercept="free"),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", LOSSES)
def test_it_is_what_a_plain_cross_validation_chooses(kind: str, weighted: bool) -> None:
    """By other software, fold by fold, with the same penalties and folds."""
    s = np.random.default_rng(1).uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    one, loss = client(kind, sample_weight=s if weighted else None), LOSSES[kind]
    found = own_best_model(one, loss, folds=4, seed=3)
    curvature = {"squared": 1.0, "logistic": 0.25, "poisson": 1.0}[kind]  # at w = 0
    scale = curvature * np.mean(s @ one.X**2) / s.sum()
    fold_of, errors = folds_of(one, 4, 3), {}
    for l2 in [scale * multiple for multiple in module.MULTIPLES if multiple >= 1e-4]:  # below, others do not converge
        total = 0.0
        for fold in range(4):
            inside, held = s * (fold_of != fold), s * (fold_of == fold)
            w = by_scikit_learn(kind, one.X, one.y, inside, l2)
            total += held @ loss.error(np, np.c_[one.X, np.ones(60)] @ w, one.y)
        errors[l2] = total
    best = min(errors, key=lambda l2: errors[l2])
    assert found.penalty == pytest.approx(best, rel=1e-12)
    np.testing.assert_allclose(found.w, by_scikit_learn(kind, one.X, one.y, s, best), rtol=1e-6, atol=1e-8)
    assert found.how == module.BY_FOLDS


def test_softmax_and_features_by_single_fits() -> None:
    """The same choice from fits to the folds' rows as clients of their own."""
    one = client("softmax", 90)
    for loss in (
        fs.Softmax(classes=3, intercept="free"),
        fs.Softmax(classes=3, l2=0.05, intercept="penalised", features=fs.RandomFourier(12, gamma=0.3, seed=1)),
    ):
        found = own_best_model(one, loss, folds=3)
        fold_of, errors = folds_of(one, 3), {}
        for l2 in module._penalties(one, loss):
            judged = replace(loss, l2=l2)
            total = 0.0
            for fold in range(3):
                rest, held = one.subset(np.flatnonzero(fold_of != fold)), one.subset(np.flatnonzero(fold_of == fold))
                w = judged.minimise(rest)
                total += float(np.sum(loss.error(np, judged.predictor(held, w), loss.targets(held))))
            errors[l2] = total
        best = min(errors, key=lambda l2: errors[l2])
        assert found.penalty == best
        if loss.l2:
            assert loss.l2 in errors
        np.testing.assert_allclose(found.w, replace(loss, l2=best).minimise(one), rtol=1e-7, atol=1e-9)


def test_the_grid_follows_the_units() -> None:
    one = client("squared")
    large = fs.Client("a", 1e4 * one.X, 1e-3 * one.y)
    a, b = own_best_model(one, LOSSES["squared"]), own_best_model(large, LOSSES["squared"])
    np.testing.assert_allclose(b.w[:-1] * 1e4, a.w[:-1] * 1e-3, rtol=1e-7)
    assert b.penalty == pytest.approx(a.penalty * 1e8)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_columns_of_unlike_units_are_all_learned(kind: str) -> None:
    """A penalty that is next to nothing for metres is not so for micrometres."""
    one, units = client(kind, 400), np.array([1e6, 1.0, 1e-6, 1e3, 1.0])
    mixed = fs.Client("a", one.X * units, one.y)
    a, b = own_best_model(one, LOSSES[kind]), own_best_model(mixed, LOSSES[kind])
    # Both are near the fit without a penalty: 400 rows decide 6 weights to about 1/20.
    np.testing.assert_allclose(b.w[:-1] * units, a.w[:-1], atol=0.1)


def test_held_out_rows_are_not_looked_at() -> None:
    whole = client("squared", 90)
    before = whole.holding_out(np.arange(60, 90))
    spoiled = fs.Client("a", np.r_[whole.X[:60], 1e6 * whole.X[60:]], np.r_[whole.y[:60], -whole.y[60:]])
    after = spoiled.holding_out(np.arange(60, 90))
    a, b = (own_best_model(each, LOSSES["squared"]).w for each in (before, after))
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (fs.Logistic(), np.ones(40)),
        (fs.Logistic(), np.zeros(40)),
        (fs.Poisson(), np.zeros(40)),
        (fs.Softmax(classes=3), np.full(40, 2.0)),
        (fs.Softmax(classes=3), np.arange(40) % 2.0),
    ],
    ids=["ones", "zeros", "no counts", "one class of three", "two classes of three"],
)
def test_a_missing_class_is_no_crash(loss: LinearLoss, y: np.ndarray, intercept: Any) -> None:
    X = np.random.default_rng(0).standard_normal((40, P))
    found = own_best_model(fs.Client("a", X, y), replace(loss, intercept=intercept))
    assert np.isfinite(found.w).all()
    assert found.how == module.ONE_CLASS
    if intercept == "free" and isinstance(loss, fs.Logistic):
        # 40 rows against a pull of one: 40 p = b where p is the probability of the class that is missing, up to what
        # the columns add.
        p = loss.responses(np, np.c_[X, np.ones(40)] @ found.w)
        wrong = p if not y.any() else 1 - p
        assert 0.01 < wrong.mean() < 0.1


def test_a_class_with_one_row_is_no_crash() -> None:
    """Without its fold the client has one class only."""
    y = np.zeros(40)
    y[7] = 1.0
    one = fs.Client("a", np.random.default_rng(0).standard_normal((40, P)), y)
    found = own_best_model(one, fs.Logistic(intercept="free"))
    assert np.isfinite(found.w).all()
    assert found.how == module.BY_FOLDS


@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_few_rows_are_no_crash(kind: str, n: int) -> None:
    found = own_best_model(client(kind, n), LOSSES[kind])
    assert np.isfinite(found.w).all()
    assert found.how in (module.ONE_ROW, module.BY_FOLDS, module.ONE_CLASS)


def test_rows_without_weight_do_not_count() -> None:
    one = client("logistic", 60, sample_weight=np.repeat([1.0, 0.0], 30))
    other = fs.Client("a", np.r_[one.X[:30], 50 * one.X[30:]], np.r_[one.y[:30], 1 - one.y[30:]], one.sample_weight)
    a, b = (own_best_model(each, LOSSES["logistic"]) for each in (one, other))
    np.testing.assert_allclose(a.w, b.w, rtol=1e-9)
    lonely = client("squared", 60, sample_weight=np.r_[1.0, np.zeros(59)])
    assert own_best_model(lonely, LOSSES["squared"]).how == module.ONE_ROW
    # Which class weighs nothing is not there.
    y = np.r_[np.ones(30), np.zeros(30)]
    weightless = fs.Client("a", one.X, y, np.repeat([1.0, 0.0], 30))
    assert own_best_model(weightless, LOSSES["logistic"]).how == module.ONE_CLASS


def test_collinear_columns_and_no_columns() -> None:
    one = client("squared")
    doubled = fs.Client("a", np.c_[one.X, one.X, np.zeros((60, 2))], one.y)
    a, b = own_best_model(one, LOSSES["squared"]), own_best_model(doubled, LOSSES["squared"])
    assert np.isfinite(b.w).all()
    fits = [np.c_[each.X, np.ones(60)] @ found.w for each, found in ((one, a), (doubled, b))]
    np.testing.assert_allclose(fits[0], fits[1], atol=0.2)  # the grids differ: twelve columns, four of them of zeros
    constant = own_best_model(fs.Client("a", np.zeros((60, 1)), one.y), LOSSES["squared"])
    np.testing.assert_allclose(constant.w, [0.0, one.y.mean()], atol=1e-10)


@pytest.mark.parametrize("kind", ["sparse", "torch"])
@pytest.mark.parametrize("target", ["squared", "logistic"])
def test_other_arrays(kind: str, target: str) -> None:
    one = client(target)
    if kind == "torch":
        torch = optional("torch")
        other = fs.Client("a", torch.asarray(one.X), torch.asarray(one.y))
    else:
        other = fs.Client("a", sp.csr_array(one.X), one.y)
    a, b = (own_best_model(each, LOSSES[target]) for each in (one, other))
    assert a.penalty == pytest.approx(b.penalty, rel=1e-12)
    np.testing.assert_allclose(np.asarray(b.w), a.w, rtol=1e-7, atol=1e-9)


def test_it_leaves_no_trace_at_the_client() -> None:
    one = client("squared")
    own_best_model(one, LOSSES["squared"])
    assert not [key for key in one._cache if not isinstance(key, tuple) or not isinstance(key[0], str)]


def test_several_outputs_and_offsets() -> None:
    one = client("squared")
    both = own_best_model(fs.Client("a", one.X, np.c_[one.y, -one.y]), LOSSES["squared"]).w
    alone = own_best_model(one, LOSSES["squared"]).w
    np.testing.assert_allclose(both, np.c_[alone, -alone], atol=1e-10)
    offset = one.X @ np.arange(5.0)
    moved = own_best_model(fs.Client("a", one.X, one.y + offset, offset=offset), LOSSES["squared"]).w
    np.testing.assert_allclose(moved, alone, atol=1e-9)


# ── an l1 penalty ──


def sparse_client(kind: str, n: int = 70, p: int = 60) -> fs.Client:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p))
    eta = 2.0 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] + 0.5
    y = eta + rng.standard_normal(n) if kind == "squared" else (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return fs.Client("a", X, y)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_the_lasso_is_scikit_learns(weighted: bool) -> None:
    one = sparse_client("squared")
    s = np.random.default_rng(1).uniform(0.5, 2.0, 70) if weighted else np.ones(70)
    one = fs.Client("a", one.X, one.y, s if weighted else None)
    for l1, l2 in ((0.15, 0.0), (0.05, 0.1)):
        found = sparse_fit(one, fs.Squared(l1=l1, l2=l2, intercept="free"), 0.0, None)
        other = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-14, max_iter=1_000_000).fit(one.X, one.y, s)
        np.testing.assert_allclose(found, np.r_[other.coef_, other.intercept_], atol=1e-8)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("squared", fs.Squared(l1=0.15, intercept="free")),
        ("logistic", fs.Logistic(l1=0.03, intercept="free")),
        ("logistic", fs.Softmax(classes=2, l1=0.03, l2=0.001, intercept="free")),
        ("logistic", fs.Poisson(l1=0.03, intercept="penalised")),
    ],
)
def test_l1_is_fitted_as_a_run_fits_it(kind: str, loss: LinearLoss) -> None:
    one = sparse_client(kind, p=20)
    run = fs.run(fs.Newton(loss), [one], tolerance=1e-12)
    np.testing.assert_allclose(sparse_fit(one, loss, 0.0, None), run.model.w, atol=1e-7)


def test_l1_is_chosen_where_few_columns_count() -> None:
    one, loss = sparse_client("squared"), fs.Squared(l1=0.15, intercept="free")
    found = own_best_model(one, loss)
    assert found.l1 > 0
    assert np.count_nonzero(found.w[:-1]) < 30
    assert loss in module._candidates(one, loss)  # the run's own penalties can be chosen
    fresh = sparse_client("squared", 2000)  # of the same truth
    error = np.mean((fresh.X @ found.w[:-1] + found.w[-1] - fresh.y) ** 2)
    ridge = own_best_model(one, replace(loss, l1=0.0)).w
    assert error < 0.7 * np.mean((fresh.X @ ridge[:-1] + ridge[-1] - fresh.y) ** 2)


def test_l1_with_several_outputs_one_class_and_other_arrays() -> None:
    one, loss = sparse_client("squared", p=8), fs.Squared(l1=0.1, intercept="free")
    both = sparse_fit(fs.Client("a", one.X, np.c_[one.y, -one.y]), loss, 0.0, None)
    alone = sparse_fit(one, loss, 0.0, None)
    np.testing.assert_allclose(both, np.c_[alone, -alone], atol=1e-10)
    torch = optional("torch")
    other = own_best_model(fs.Client("a", torch.asarray(one.X), torch.asarray(one.y)), loss)
    np.testing.assert_allclose(np.asarray(other.w), own_best_model(one, loss).w, atol=1e-8)
    lacking = own_best_model(fs.Client("a", one.X, np.ones(70)), fs.Logistic(l1=0.01, intercept="free"))
    assert lacking.how == module.ONE_CLASS
    assert np.isfinite(lacking.w).all()


# ── a penalty of zero, and fewer rows than columns ──


@pytest.mark.parametrize("p", [4, 90], ids=["few columns", "many columns"])
def test_without_noise_the_fit_without_penalty_wins(p: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, p))
    one = fs.Client("a", X, X @ rng.standard_normal(p))
    found = own_best_model(one, fs.Squared())
    assert 0.0 in module._penalties(one, fs.Squared())
    if p < 60:
        assert found.penalty == 0
        assert np.max(np.abs(X @ found.w - one.y)) < 1e-12


@pytest.mark.parametrize("loss", [fs.Logistic(l2=0.01), fs.Poisson(l2=0.01), fs.Softmax(l2=0.01, classes=2)])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_fewer_rows_than_columns(loss: LinearLoss, intercept: Any) -> None:
    """In the span of the rows, or in all columns: the same weights."""
    loss = replace(loss, intercept=intercept)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 70))
    s, offset = rng.uniform(0.5, 2, 40), None if isinstance(loss, fs.Softmax) else rng.uniform(-1, 1, 40)
    one = fs.Client("a", X, (X[:, 0] > 0.3).astype(float), s, offset=offset)
    found = own_best_model(one, loss, folds=3)
    plain = module._best(one, loss, module._candidates(one, loss), 3, 0)
    assert found.penalty == plain.penalty
    np.testing.assert_allclose(found.w, plain.w, atol=1e-7)
    assert one.counts["hessians"] > 0
