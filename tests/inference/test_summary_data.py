"""Summaries of real data sets against statsmodels: the four hospitals, California housing, phishing, diabetes, iris."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from tests.inference.summary_reference import check, glm, pooled
from tests.inference.test_summary import check_multinomial

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")
FEW_COLUMNS = ("age", "sex", "trestbps", "thalach")


def heart(target: str, columns: tuple[str, ...] = FEW_COLUMNS) -> list[fs.Client]:
    data = fs.data.load("heart")
    assert data.feature_names is not None
    assert data.columns is not None
    places = [data.feature_names.index(name) for name in columns]
    y = data.y if target == "ill" else data.columns[target]
    return fs.data.partition(
        data.X[:, places], y, fs.data.ByGroup(), groups=data.groups, feature_names=data.feature_names and columns
    )


def imputed(clients: list[fs.Client]) -> tuple[Any, Any]:
    """The pooled rows, with the pooled mean of the observed cells in the missing ones."""
    rows = pooled(clients)
    X = rows["X"].astype(float)
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X), rows["y"]


def fit(loss: Any, clients: list[fs.Client], preprocess: fs.data.Preprocess | None = None) -> fs.Run:
    return fs.run(fs.Newton(loss), clients, preprocess=preprocess or fs.data.Preprocess(), tolerance=1e-11)


@needs_data
def test_heart_by_hospital() -> None:
    columns = (*FEW_COLUMNS, "exang", "oldpeak")
    clients = heart("ill", columns)
    found = fit(fs.Logistic(intercept="free"), clients).summary()
    X, y = imputed(clients)
    check(found, glm("binomial", X, y))
    cells = np.isnan(np.asarray(pooled(clients)["X"], dtype=float)).sum()
    assert (found.rows, found.missing_cells, len(found.sites)) == (920, cells, 4)


@needs_data
def test_heart_with_site_intercepts() -> None:
    clients = heart("ill")
    X, y = imputed(clients)
    sites = np.repeat([client.name for client in clients], [client.n_samples for client in clients])
    names = [client.name for client in clients]
    for reference in (None, "va"):
        made, preprocess = fs.data.site_intercepts(clients, fs.data.Preprocess(), reference=reference)
        found = fit(fs.Logistic(intercept="free"), made, preprocess).summary()
        others = [name for name in names if name != (reference or names[0])]
        dummies = (sites[:, None] == np.array(others)).astype(float)
        check(found, glm("binomial", np.column_stack([X, dummies]), y))
        assert found.names[-3:] == tuple(f"site={name}" for name in others)
    made, preprocess = fs.data.site_intercepts(clients, fs.data.Preprocess(), full=True)
    found = fit(fs.Logistic(), made, preprocess).summary()
    every = (sites[:, None] == np.array(names)).astype(float)
    Z = (X - np.nanmean(np.asarray(pooled(clients)["X"], dtype=float), axis=0)) @ np.eye(4)
    plain, robust = glm("binomial", np.column_stack([Z, every]), y, intercept=False)
    # In raw units the centres of the other columns would be an intercept beside the sites' own.
    assert found.estimates[0, 1:] == pytest.approx(plain.params, rel=1e-6)
    assert found.standard_errors("robust")[0, 1:] == pytest.approx(robust.bse, rel=1e-6)


@needs_data
def test_the_diagnosis_of_heart() -> None:
    clients = heart("diagnosis")
    found = fit(fs.Softmax(classes=5, intercept="free"), clients).summary()
    X, y = imputed(clients)
    check_multinomial(found, y, X)


@needs_data
def test_a_category_that_no_estimate_exists_for_is_named() -> None:
    data = fs.data.load("heart")
    clients = fs.data.partition(
        data.X[:, [0, 6]], data.y, fs.data.ByGroup(), groups=data.groups, feature_names=("age", "restecg")
    )
    columns = (fs.data.Numeric("age"), fs.data.Categorical("restecg", (0, 1, 2), drop_first=True))
    run = fit(fs.Logistic(intercept="free"), clients, fs.data.Preprocess(fs.data.Schema(columns)))
    with pytest.raises(fs.errors.DataError, match=r"restecg=other: fewer than 5 rows, one outcome only\)"):
        run.summary()


@needs_data
def test_california_housing() -> None:
    data = fs.data.load("california_housing")
    assert data.feature_names is not None
    place = data.feature_names.index("ocean_proximity")
    levels = tuple(sorted(set(data.X[:, place].tolist())))
    schema = fs.data.Schema(
        tuple(
            fs.data.Categorical(name, levels, unseen="error", drop_first=True) if j == place else fs.data.Numeric(name)
            for j, name in enumerate(data.feature_names)
        )
    )
    clients = fs.data.partition(
        data.X, data.y, fs.data.QuantitySkew(0.5), clients=8, seed=0, feature_names=data.feature_names
    )
    found = fit(fs.Squared(intercept="free"), clients, fs.data.Preprocess(schema)).summary()
    rows = pooled(clients)
    numbers = np.delete(rows["X"], place, axis=1).astype(float)
    numbers = np.where(np.isnan(numbers), np.nanmean(numbers, axis=0), numbers)
    dummies = (rows["X"][:, [place]] == np.array(levels[1:], dtype=object)).astype(float)
    X = np.column_stack([numbers[:, :place], dummies, numbers[:, place:]])
    check(found, glm("Gaussian", X, rows["y"]))
    assert found.missing_cells == 207
    assert found.fit.r_squared is not None
    assert 0.6 < found.fit.r_squared < 0.7


def chosen(X: Any, y: Any) -> list[int]:
    """Columns in their order, each kept if every one of its values occurs at least ten times with either outcome, and
    what the kept ones before it and the intercept leave of it is more than 1e-3 of its variance."""
    kept: list[int] = []
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        if min(((X[:, j] == v) & (y == outcome)).sum() for v in values for outcome in (0, 1)) < 10:
            continue
        A = np.column_stack([np.ones(len(y)), X[:, kept]])
        left = X[:, j] - A @ np.linalg.lstsq(A, X[:, j], rcond=None)[0]
        if left.var() > 1e-3 * X[:, j].var() > 0:
            kept.append(j)
    return kept


@needs_data
def test_phishing() -> None:
    data = fs.data.load("phishing")
    X = data.X.toarray()
    kept = chosen(X, data.y)
    assert len(kept) >= 20
    clients = fs.data.partition(X[:, kept], data.y, fs.data.IID(), clients=6, seed=0)
    found = fit(fs.Logistic(intercept="free"), clients).summary()
    rows = pooled(clients)
    check(found, glm("binomial", rows["X"], rows["y"]))


@needs_data
def test_where_no_estimate_exists_the_columns_are_named() -> None:
    data = fs.data.load("a9a")
    clients = fs.data.partition(data.X, data.y, fs.data.IID(), clients=5, seed=0)
    run = fs.run(fs.Newton(fs.Logistic(intercept="free")), clients)
    assert run.status == "diverged"
    with pytest.raises(fs.errors.DataError, match="no finite maximum-likelihood estimate") as said:
        run.summary()
    X = data.X.tocsc()
    alone = [j for j in range(X.shape[1]) if len(set(data.y[X[:, [j]].nonzero()[0]].tolist())) == 1]
    for j in alone:
        assert f"x{j}: " in str(said.value)
    few = [j for j in alone if 0 < X[:, [j]].nnz < 5]
    assert few
    for j in few:
        assert f"x{j}: fewer than 5 rows, one outcome only" in str(said.value)


# ── with nothing downloaded ──


def test_diabetes() -> None:
    data = fs.data.load("diabetes")
    clients = fs.data.partition(
        data.X, data.y, fs.data.Dirichlet(1.0, min_samples=30), clients=4, seed=0, feature_names=data.feature_names
    )
    found = fit(fs.Squared(intercept="free"), clients).summary()
    rows = pooled(clients)
    check(found, glm("Gaussian", rows["X"], rows["y"]))


def test_iris() -> None:
    data = fs.data.load("iris")
    clients = fs.data.partition(data.X[:, [1]], data.y, fs.data.IID(), clients=3, seed=0, feature_names=["width"])
    found = fit(fs.Softmax(classes=3, intercept="free"), clients).summary()
    rows = pooled(clients)
    check_multinomial(found, rows["y"], rows["X"])
