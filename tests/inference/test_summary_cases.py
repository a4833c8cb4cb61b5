"""Summaries where something is unusual: collinear columns, penalties, lost clients, runs without a maximum."""

from __future__ import annotations

import copy
import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from scipy import stats

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.inference.aliased import find_aliases, inverse
from fedsolve.numerics.structured_arrays import Symmetric
from tests.faults.test_lost import Road
from tests.inference.summary_reference import check, glm, pooled
from tests.inference.test_summary import NAMES, clients, run

FREE = fs.Logistic(intercept="free")


def from_rows(X: Any, y: Any, names: tuple[str, ...], parts: int = 3, **more: Any) -> list[fs.Client]:
    return [
        fs.Client(f"site-{part}", X[part::parts], y[part::parts], feature_names=names, **more) for part in range(parts)
    ]


def binary(n: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ [0.8, -0.5, 0.2]))).astype(float)


# ── collinear columns ──


@pytest.mark.parametrize("preprocess", [None, fs.data.Preprocess()])
def test_collinear_columns_have_no_estimate_and_are_named(preprocess: Any) -> None:
    X, y = binary()
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 2], np.zeros(len(y)), np.full(len(y), 4.0)])
    names = ("a", "b", "c", "d", "nothing", "always")
    made = from_rows(wide, y, names)
    found = fs.run(fs.Newton(FREE), made, preprocess=preprocess, tolerance=1e-11).summary()
    assert set(found.aliased) == {"d", "nothing", "always"}
    assert set(found.aliased["d"]) - {"(intercept)"} == {"a", "c"}
    assert np.isnan(found.estimates[0, 4:]).all()
    plain, robust = glm("binomial", pooled(made)["X"][:, :3], pooled(made)["y"])
    assert found.estimates[0, :4] == pytest.approx(plain.params, rel=1e-6)
    assert found.standard_errors()[0, :4] == pytest.approx(plain.bse, rel=1e-6)
    assert found.standard_errors("robust")[0, :4] == pytest.approx(robust.bse, rel=1e-6)
    assert (found.fit.aic, found.fit.parameters) == (pytest.approx(plain.aic, rel=1e-9), 4)
    assert "d (of " in found.notes[0]
    line = found.coefficients()[4]
    assert line.is_aliased
    assert line.as_dict()["error"] is None
    assert found.to_csv().splitlines()[5].startswith("d,,,,")


@pytest.mark.parametrize("family", ["Gaussian", "binomial", "Poisson"])
def test_columns_that_are_only_nearly_collinear(family: str) -> None:
    """A fit that uses a difference of 1e-6 is neither that with the column nor that without it; one that does not is
    the fit without it."""
    made = clients(family)

    def nearly(size: float) -> fs.Run:
        rng = np.random.default_rng(1)
        wide = [
            np.column_stack([c.X, c.X[:, 0] + size * c.X[:, 0].std() * rng.standard_normal(len(c.y))]) for c in made
        ]
        return run(
            [fs.Client(c.name, X, c.y, feature_names=(*NAMES, "again")) for c, X in zip(made, wide, strict=True)],
            family,
        )

    with pytest.raises(fs.errors.DataError, match=rf"not exactly, combinations of others: again \(of .*{NAMES[0]}"):
        nearly(1e-6).summary()
    rows = pooled(made)
    found, (plain, _) = nearly(1e-9).summary(), glm(family, rows["X"], rows["y"])
    assert set(found.aliased) == {"again"}
    assert found.estimates[0, :4] == pytest.approx(plain.params, rel=1e-6)
    assert found.fit.deviance == pytest.approx(plain.deviance, rel=1e-6)


def test_a_constant_column_is_called_so() -> None:
    X, y = binary()
    made = from_rows(np.column_stack([X, np.full(len(y), 3.0)]), y, ("a", "b", "c", "always"))
    note = fs.run(fs.Newton(FREE), made, preprocess=fs.data.Preprocess()).summary().notes[0]
    assert "always (the same in all rows)" in note


def test_aliases_of_a_matrix_known_by_hand() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 4)) * [1e-6, 1.0, 1e6, 1.0]
    B = np.column_stack([A, A[:, 0] * 1e6 + A[:, 1]])
    found = find_aliases(B.T @ B, range(5))
    assert (found.kept.tolist(), found.combinations) == ([0, 1, 2, 3], {4: (0, 1)})
    R = np.linalg.inv(np.linalg.qr(A / [1e-6, 1.0, 1e6, 1.0])[1])
    units = np.outer([1e6, 1.0, 1e-6, 1.0], [1e6, 1.0, 1e-6, 1.0])
    assert inverse(A.T @ A) / units == pytest.approx(R @ R.T, rel=1e-9)


def test_a_column_in_units_of_1e9_without_preprocessing() -> None:
    X, y = binary()
    found = fs.run(fs.Newton(FREE), from_rows(X * [1e9, 1.0, 1e-9], y, NAMES), tolerance=1e-11).summary()
    other = fs.run(fs.Newton(FREE), from_rows(X, y, NAMES), tolerance=1e-11).summary()
    assert found.estimates[0, 1:] * [1e9, 1.0, 1e-9] == pytest.approx(other.estimates[0, 1:], rel=1e-6)
    for kind in ("model", "robust"):
        assert [one.errors[kind] / one.error for one in found.coefficients()] == pytest.approx(
            [one.errors[kind] / one.error for one in other.coefficients()], rel=1e-6
        )
    assert [one.z for one in found.coefficients()] == pytest.approx([one.z for one in other.coefficients()], rel=1e-6)
    assert found.standardised == pytest.approx(other.standardised, rel=1e-6)


def test_a_column_far_from_zero_is_remarked_on() -> None:
    X, y = binary()
    found = fs.run(fs.Newton(FREE), from_rows(X + np.array([3e4, 0, 0]), y, NAMES), tolerance=1e-11).summary()
    assert "Standardise the columns" in found.notes[0]


# ── where no estimate exists ──


def test_small_cells_are_not_given_away() -> None:
    X, y = binary()
    rare = np.zeros(len(y))
    rare[np.flatnonzero(y == 1)[:3]] = 1.0
    common = np.zeros(len(y))
    common[np.flatnonzero(y == 0)[:40]] = 1.0
    made = from_rows(np.column_stack([X, rare, common]), y, (*NAMES, "rare", "common"))
    done = fs.run(fs.Newton(FREE), made, preprocess=fs.data.Preprocess())
    with pytest.raises(fs.errors.DataError) as said:
        done.summary()
    assert "(rare: fewer than 5 rows, one outcome only; common: one outcome only)" in str(said.value)
    assert "3" not in str(said.value)


def test_few_rows_are_remarked_on() -> None:
    X, y = binary()
    rare = np.zeros(len(y))
    rare[[np.argmax(y == 0), np.argmax(y == 1)]] = 1.0
    made = from_rows(np.column_stack([X, rare]), y, (*NAMES, "rare"))
    found = fs.run(fs.Newton(FREE), made, tolerance=1e-10).summary()
    assert found.notes == ("Few rows speak for rare: fewer than 5 rows have the indicator, or lack it.",)


def test_classes_that_a_combination_separates() -> None:
    X, _ = binary()
    made = from_rows(X, (X[:, 0] + X[:, 1] > 0).astype(float), NAMES)
    done = fs.run(fs.Newton(FREE), made)
    assert done.status == "diverged"
    with pytest.raises(fs.errors.DataError, match=r"combination of these columns .*dose.*age"):
        done.summary()


def test_a_count_and_a_class_that_never_occur() -> None:
    rng = np.random.default_rng(0)
    group = (np.arange(300) % 3 == 0).astype(float)
    X = np.column_stack([rng.standard_normal(300), group])
    counts = np.where(group == 1, 0, rng.poisson(2.0, 300)).astype(float)
    done = fs.run(fs.Newton(fs.Poisson(intercept="free")), from_rows(X, counts, ("x", "group"), 2))
    with pytest.raises(fs.errors.DataError, match=r"\(group: one outcome only\)"):
        done.summary()
    labels = np.where(group == 1, 0, rng.integers(0, 3, 300)).astype(float)
    labels[group == 1] = rng.integers(0, 2, int(group.sum()))
    done = fs.run(fs.Newton(fs.Softmax(classes=3, intercept="free")), from_rows(X, labels, ("x", "group"), 2))
    with pytest.raises(fs.errors.DataError, match=r"\(group: one of the outcomes never occurs\)"):
        done.summary()


def test_an_outcome_that_never_occurs() -> None:
    X, _ = binary(60)
    for loss, y, said in (
        (fs.Logistic(intercept="free"), np.ones(60), "all rows have the same outcome"),
        (fs.Poisson(intercept="free"), np.zeros(60), "all counts are zero"),
        (fs.Softmax(classes=3, intercept="free"), np.arange(60) % 2 * 2.0, "no row has the outcome 1"),
    ):
        done = fs.run(fs.Newton(loss), from_rows(X, y, NAMES), rounds=30)
        with pytest.raises(fs.errors.DataError, match=f"exists: {said}"):
            done.summary()


# ── penalties ──


@pytest.mark.parametrize("loss", [fs.Squared, fs.Logistic, fs.Poisson])
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_a_penalised_fit_says_that_its_intervals_are_others(loss: Any, intercept: Any) -> None:
    family = {fs.Squared: "Gaussian", fs.Logistic: "binomial", fs.Poisson: "Poisson"}[loss]
    made = clients(family)
    found = fs.run(
        fs.Newton(loss(l2=0.1, intercept=intercept)), made, preprocess=fs.data.Preprocess(), tolerance=1e-11
    ).summary()
    assert "no confidence intervals of the usual kind" in found.notes[0]
    assert all(one.p is None and one.z is None for one in found.coefficients())
    rows = pooled(made)
    Z = np.column_stack([(rows["X"] - rows["X"].mean(axis=0)) / rows["X"].std(axis=0), np.ones(len(rows["y"]))])
    w = np.roll(found.standardised[0], -1)
    eta = Z @ w
    ones, p = np.ones(len(eta)), 1 / (1 + np.exp(-eta))
    curvature = {"Gaussian": ones, "binomial": p * (1 - p), "Poisson": np.exp(eta)}[family]
    H = (Z * curvature[:, None]).T @ Z
    P = 0.1 * len(Z) * np.diag([1, 1, 1, intercept == "penalised"])
    posterior = np.linalg.inv(H + P)
    effective = np.trace(posterior @ H)
    assert found.fit.parameters == pytest.approx(effective, rel=1e-6)
    scale = ((rows["y"] - eta) ** 2).sum() / (len(Z) - effective) if family == "Gaussian" else 1.0
    expected = np.sqrt(scale * np.diag(posterior))
    assert np.roll(found.standard_errors(standardised=True)[0], -1) == pytest.approx(expected, rel=1e-6)


def test_a_penalised_softmax_equals_the_inverse_of_its_whole_hessian() -> None:
    data = fs.data.load("iris")
    made = fs.data.partition(data.X, data.y, fs.data.IID(), clients=3, seed=0, feature_names=data.feature_names)
    loss = fs.Softmax(classes=3, l2=0.05, intercept="free")
    done = fs.run(fs.Newton(loss), made, preprocess=fs.data.Preprocess(), tolerance=1e-11)
    found = done.summary()
    rows = pooled(made)
    pool = fs.Client("all", done.model.transform.apply(rows["X"]), rows["y"])
    whole = np.linalg.inv(len(rows["y"]) * loss.hessian(pool, done.model.w).full())  # rows outer, classes inner
    places = np.arange(15).reshape(5, 3)
    contrast = np.zeros((10, 15))
    for a in (1, 2):
        for j in range(5):
            contrast[(a - 1) * 5 + j, places[j, a]], contrast[(a - 1) * 5 + j, places[j, 0]] = 1.0, -1.0
    errors = np.sqrt(np.diag(contrast @ whole @ contrast.T)).reshape(2, 5)
    assert found.standard_errors(standardised=True) == pytest.approx(np.roll(errors, 1, axis=1), rel=1e-6)


# ── runs ──


def test_penalties_may_be_whole_numbers() -> None:
    """An integer penalty made arrays of integers, to which nothing else could be added."""
    X, y = binary()
    made = from_rows(X, (y + (X[:, 0] > 1)).astype(float), ("a", "b", "c"))
    for algorithm in (fs.Newton, lambda loss: fs.FedNewtonCG(loss, preconditioner="diagonal")):
        one, other = (fs.run(algorithm(fs.Softmax(l2=l2, classes=3, intercept="free")), made) for l2 in (1, 1.0))
        assert (one.summary().covariances["model"] == other.summary().covariances["model"]).all()


def test_a_client_that_was_lost_is_left_out() -> None:
    X, y = binary()
    made = from_rows(X, y, NAMES, 4)
    road = Road(made, {"site-1": range(2, 99)})
    with fs.Session(road, also={"summary": fs.StandardErrors(FREE)}) as session:
        done = fs.run(
            fs.Newton(FREE), session, participation=fs.Participation(deadline=1.0, quorum=0.3), tolerance=1e-11
        )
        inside = done.summary()
    after = done.summary()  # the session is closed: opened again, without the one that was lost
    others = pooled([one for one in made if one.name != "site-1"])
    for found in (inside, after):
        check(found, glm("binomial", others["X"], others["y"]))
        assert found.sites == ("site-0", "site-2", "site-3")
        assert found.notes == ("The model is not fitted to the rows of site-1: lost during the run.",)


def test_a_resumed_run(tmp_path: Path) -> None:
    made = clients("Poisson")
    first = run(made, "Poisson", rounds=2, checkpoint=tmp_path / "saved")
    assert first.status == "rounds"
    done = run(made, "Poisson", checkpoint=tmp_path / "saved", resume=True)
    whole = run(made, "Poisson")
    assert (done.summary().covariances["model"] == whole.summary().covariances["model"]).all()
    assert str(done.summary()) == str(whole.summary())


def test_a_run_that_has_not_reached_the_maximum() -> None:
    made = clients("binomial")
    with pytest.raises(fs.errors.DataError, match=r"standard errors away .* ended as 'rounds'"):
        run(made, "binomial", rounds=1).summary()
    near = run(made, "binomial", tolerance=3e-3)
    found = near.summary()
    exact = run(made, "binomial").summary()
    off = np.abs(found.estimates - exact.estimates) / exact.standard_errors()
    assert off.max() <= 1.1 * found.distance  # the Newton decrement bounds it, to second order
    assert "give it a smaller tolerance" in found.notes[-1]
    short = run(made, "binomial", rounds=2).summary()
    assert "maximum, if there is one: give it more rounds" in short.notes[-1]
    averaged = fs.run(
        fs.FedAvg(FREE, local=fs.GradientSteps(steps=20)), made, rounds=20, preprocess=fs.data.Preprocess()
    )
    with pytest.raises(fs.errors.DataError, match="such as Newton"):
        averaged.summary()


def test_a_run_that_diverged() -> None:
    made = clients("Gaussian")
    algorithm = fs.FedAvg(fs.Squared(intercept="free"), local=fs.GradientSteps(steps=1, step_size=50.0))
    done = fs.run(algorithm, made, preprocess=fs.data.Preprocess(), rounds=300)
    assert done.status == "diverged"
    with pytest.raises(fs.errors.DataError, match="because the run ended as 'diverged'"):
        done.summary()


def test_what_has_no_summary_says_why() -> None:
    made, scaled = clients("Gaussian"), fs.data.Preprocess()
    mapped = fs.Squared(l2=0.1, features=fs.RandomFourier(10, gamma=0.1))
    for algorithm, said in (
        (fs.Newton(mapped), "RandomFourier features"),
        (fs.Newton(fs.Squared(l1=0.1, intercept="free")), "l1 penalty"),
        (fs.FFGB(fs.Squared(), fs.Trees(depth=2)), "no summary of this model, Ensemble"),
    ):
        done = fs.run(algorithm, made, rounds=3, preprocess=scaled)  # type: ignore[arg-type]
        with pytest.raises(fs.errors.ConfigError, match=said):
            done.summary()
    two = [fs.Client(c.name, c.X, np.column_stack([c.y, c.y])) for c in made]
    with pytest.raises(fs.errors.ConfigError, match="one target"):
        fs.run(fs.Newton(fs.Squared(intercept="free")), two, preprocess=scaled).summary()
    with pytest.raises(fs.errors.ConfigError, match="copied or pickled"):
        copy.deepcopy(run(made, "Gaussian")).summary()
    with pytest.raises(fs.errors.ConfigError, match=r"result of fs\.run"):
        fs.summary(made)  # type: ignore[arg-type]


def test_as_many_parameters_as_rows_and_an_exact_fit() -> None:
    X, _ = binary(6)
    wide = np.random.default_rng(0).standard_normal((6, 5))
    with pytest.raises(fs.errors.DataError, match="6 parameters for 6 rows"):
        fs.run(fs.Newton(fs.Squared(intercept="free")), from_rows(wide, X[:, 0], tuple("abcde"), 2)).summary()
    X, _ = binary()
    exact = fs.run(fs.Newton(fs.Squared(intercept="free")), from_rows(X, 1 + X @ [1, 2, 3], NAMES)).summary()
    assert exact.estimates[0] == pytest.approx([1, 1, 2, 3], abs=1e-9)
    assert "exactly" in exact.notes[0]
    constant = fs.run(fs.Newton(fs.Squared(intercept="free")), from_rows(X, np.full(len(X), 3e7), NAMES)).summary()
    assert constant.estimates[0] == pytest.approx([3e7, 0, 0, 0], abs=1e-6)
    assert "exactly" in constant.notes[0]
    assert "3.00e+07" in str(constant)


def test_a_target_far_from_zero() -> None:
    X, _ = binary()
    y = 1e8 + X @ [1, 2, 3] + np.random.default_rng(1).standard_normal(len(X))
    made = from_rows(X, y, NAMES)
    found = fs.run(
        fs.Newton(fs.Squared(intercept="free")), made, preprocess=fs.data.Preprocess(), tolerance=1e-14
    ).summary()
    rows = pooled(made)
    fit = sm.OLS(rows["y"] - 1e8, sm.add_constant(rows["X"])).fit()
    assert found.fit.r_squared == pytest.approx(fit.rsquared, rel=1e-6)
    assert found.standard_errors()[0] == pytest.approx(fit.bse, rel=1e-6)


def coverage(sites: int, trials: int = 4000, rows: int = 20) -> float:
    """How often a clustered 95 % interval holds the coefficient of a column that is the same in all rows of a site,
    with site effects of half the noise's deviation: least squares on site means, as all sites are equally large."""
    rng = np.random.default_rng([0, sites])
    x, effect = rng.standard_normal((trials, sites)), 0.5 * rng.standard_normal((trials, sites))
    y = effect + rng.standard_normal((trials, sites)) / rows**0.5
    x = x - x.mean(axis=1, keepdims=True)
    b = (x * y).sum(axis=1) / (x * x).sum(axis=1)
    r = y - y.mean(axis=1, keepdims=True) - b[:, None] * x
    factor = sites / (sites - 1) * (sites * rows - 1) / (sites * rows - 2)
    error = np.sqrt(factor * ((x * r) ** 2).sum(axis=1)) / (x * x).sum(axis=1)
    return float((np.abs(b) <= stats.norm.isf(0.025) * error).mean())


def test_why_few_sites_have_no_clusters() -> None:
    """The figures of docs/summary.md."""
    found = {sites: round(100 * coverage(sites)) for sites in (4, 10, 20, 50)}
    assert found == {4: 61, 10: 84, 20: 90, 50: 92}


# ── likelihood ratio ──


@pytest.mark.parametrize("family", ["Gaussian", "binomial", "Poisson"])
def test_the_likelihood_ratio_test(family: str) -> None:
    made = clients(family)
    fewer = [fs.Client(c.name, c.X[:, [2, 0]], c.y, feature_names=("weight", "dose")) for c in made]
    smaller, larger = run(fewer, family), run(made, family)
    found = fs.likelihood_ratio_test(smaller, larger)
    rows = pooled(made)
    a, b = (glm(family, rows["X"][:, columns], rows["y"])[0] for columns in ([0, 2], [0, 1, 2]))
    assert found.statistic == pytest.approx(2 * (b.llf - a.llf), rel=1e-6)
    assert (found.df, found.added) == (1, ("age",))
    assert found.p == pytest.approx(stats.chi2(1).sf(found.statistic), rel=1e-9)
    assert "age: χ²(1)" in str(found)
    with pytest.raises(fs.errors.ConfigError, match="only the smaller one has age"):
        fs.likelihood_ratio_test(larger, smaller)
    with pytest.raises(fs.errors.ConfigError, match="nothing to test"):
        fs.likelihood_ratio_test(larger.summary(), larger)
    with pytest.raises(fs.errors.ConfigError, match="different rows"):
        fs.likelihood_ratio_test(run(fewer[1:], family), larger)


def test_columns_that_are_imputed_otherwise_are_not_nested() -> None:
    rng, (X, y) = np.random.default_rng(2), binary()
    X[rng.random(len(y)) < 0.2, 1] = np.nan

    def fit(columns: int, **imputed: Any) -> fs.Run:
        schema = [fs.data.Numeric("a"), fs.data.Numeric("b", **imputed), fs.data.Numeric("c")][:columns]
        made = from_rows(X[:, :columns], y, ("a", "b", "c")[:columns])
        return fs.run(fs.Newton(FREE), made, preprocess=fs.data.Preprocess(fs.data.Schema(tuple(schema))))

    smaller = fit(2, impute=9.0)
    with pytest.raises(fs.errors.ConfigError, match=r"not nested: b has a mean of .* impute it alike"):
        fs.likelihood_ratio_test(smaller, fit(3))
    # With an indicator the larger model has the difference between 9 and the mean, and contains the smaller one.
    found = fs.likelihood_ratio_test(smaller, fit(3, indicator=True))
    filled = [np.where(np.isnan(X), value, X) for value in (9.0, np.nanmean(X[:, 1]))]
    small, _ = glm("binomial", filled[0][:, :2], y)
    large, _ = glm("binomial", np.column_stack([filled[1], np.isnan(X[:, 1])]), y)
    assert found.df == 2
    assert found.statistic == pytest.approx(2 * (large.llf - small.llf), rel=1e-6)


def test_what_cannot_be_tested() -> None:
    made = clients("binomial")
    other = [*made[:3], fs.Client("site-3", made[3].X, np.arange(120) % 2, feature_names=NAMES)]
    one, larger = (
        run([fs.Client(c.name, c.X[:, :2], c.y, feature_names=NAMES[:2]) for c in other], "binomial"),
        run(made, "binomial"),
    )
    with pytest.raises(fs.errors.ConfigError, match="different rows"):
        fs.likelihood_ratio_test(one, larger)
    penalised = fs.run(fs.Newton(fs.Logistic(l2=0.1, intercept="free")), made, preprocess=fs.data.Preprocess())
    with pytest.raises(fs.errors.ConfigError, match="without a penalty"):
        fs.likelihood_ratio_test(penalised, larger)
    with pytest.raises(fs.errors.ConfigError, match="one is Poisson"):
        fs.likelihood_ratio_test(run(clients("Poisson"), "Poisson"), larger)


# ── presentation ──


def test_how_it_is_shown(tmp_path: Path) -> None:
    found = run(clients("binomial"), "binomial").summary(level=0.9, errors="robust")
    text = str(found)
    assert "robust (HC0) standard errors" in text
    assert "90 % interval" in text
    lines = [line for line in text.splitlines() if line.startswith(("dose", "(intercept)", "     "))]
    assert len({len(line) for line in lines}) == 1  # aligned
    found.to_csv(tmp_path / "table.csv")
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["name"] for row in rows] == ["(intercept)", *NAMES]
    assert float(rows[1]["ratio"]) == pytest.approx(math.exp(float(rows[1]["estimate"])), rel=1e-12)
    assert float(rows[1]["high"]) == pytest.approx(
        float(rows[1]["estimate"]) + 1.6448536269514722 * float(rows[1]["robust_error"]), rel=1e-9
    )
    assert json.loads(json.dumps(found.to_dict()))["coefficients"] == found.to_rows()
    latex = found.to_latex()
    assert latex.startswith(r"\begin{tabular}{lrrrrrrrrr}")
    assert all(line.count("&") == 9 for line in latex.splitlines() if line.startswith(("dose", "age")))
    for ending, mark in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert found.forest_plot(tmp_path / f"forest.{ending}").startswith(mark)
    with pytest.raises(fs.errors.ConfigError, match="png, svg, pdf"):
        found.forest_plot(tmp_path / "forest.bmp")
    for wrong in ({"level": 1.0}, {"errors": "HC3"}):
        with pytest.raises(fs.errors.ConfigError):
            run(clients("binomial"), "binomial").summary(**wrong)  # type: ignore[arg-type]


def test_column_names_are_shown_safely(tmp_path: Path) -> None:
    X, y = binary()
    names = ("=cmd()", "a_b & $x$ <b>", "50 %")
    found = fs.run(fs.Newton(FREE), from_rows(X, y, names), tolerance=1e-10).summary()
    assert "'=cmd()" in found.to_csv()
    assert r"a\_b \& \$x\$ $<$b>" in found.to_latex()
    found.forest_plot()


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments))
    return int(ended.value.code or 0)


RUN_FILE = """
[data]
dataset = "diabetes"

[partition]
scheme = "iid"
clients = 3

[preprocess]
site_intercepts = "client-1"

[algorithm]
name = "Newton"
loss = { name = "Squared", intercept = "free" }

[summary]
errors = "robust"
"""


def test_a_run_file_with_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN_FILE)
    assert command("run", str(file), "--output", str(folder), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    inference = said["inference"]
    assert (inference["status"], inference["errors"], inference["family"]) == ("ok", "robust", "Gaussian")
    names = [row["name"] for row in inference["coefficients"]]
    assert names[-2:] == ["site=client-0", "site=client-2"]
    assert json.loads((folder / "summary.json").read_text())["inference"] == inference
    assert len((folder / "coefficients.csv").read_text().splitlines()) == 1 + len(names)
    assert (folder / "forest.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert "<h2>Coefficients</h2>" in page
    assert "site=client-2" in page
    assert command("run", str(file), "--output", str(folder), "--force") == 0
    assert "Gaussian model, robust (HC0) standard errors" in capsys.readouterr().out


def test_a_run_file_whose_model_has_no_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN_FILE.replace('intercept = "free"', 'l1 = 0.1, intercept = "free"'))
    assert command("run", str(file), "--output", str(folder), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "converged"
    assert "l1 penalty" in said["inference"]["message"]
    assert "l1 penalty" in (folder / "report.html").read_text()


# ── site intercepts ──


@pytest.mark.parametrize("preprocess", [None, fs.data.Preprocess()])
def test_site_intercepts_equal_dummies(preprocess: fs.data.Preprocess | None) -> None:
    X, y = binary()
    made = from_rows(X, y, NAMES)
    held = fs.data.hold_out(made, 0.2)
    by_site, found_preprocess = fs.data.site_intercepts(held, preprocess, reference="site-1")
    done = fs.run(fs.Newton(FREE), by_site, preprocess=found_preprocess, tolerance=1e-11)
    rows = pooled(held)
    sites = np.repeat([client.name for client in held], [client.n_samples for client in held])
    dummies = np.column_stack([sites == "site-0", sites == "site-2"]).astype(float)
    found = done.summary()
    check(found, glm("binomial", np.column_stack([rows["X"], dummies]), rows["y"]))
    assert found.names == ("(intercept)", *NAMES, "site=site-0", "site=site-2")
    assert by_site[0].held is not None
    assert by_site[0].held.X[0, -1] == "site-0"
    new = np.array([[0.1, 0.2, 0.3, "site-2"]], dtype=object)
    assert done.model.predict(new).shape == (1,)
    with pytest.raises(fs.errors.DataError, match="none of the declared"):
        done.model.predict(np.array([[0.1, 0.2, 0.3, "elsewhere"]], dtype=object))


def test_site_intercepts_that_cannot_be() -> None:
    X, y = binary()
    made = from_rows(X, y, NAMES)
    with pytest.raises(fs.errors.ConfigError, match="reference is the name of a client"):
        fs.data.site_intercepts(made, reference="nowhere")
    with pytest.raises(fs.errors.ConfigError, match="not both"):
        fs.data.site_intercepts(made, reference="site-1", full=True)
    with pytest.raises(fs.errors.ConfigError, match="at least two"):
        fs.data.site_intercepts(made[:1])
    with pytest.raises(fs.errors.DataError, match="has a column 'dose' already"):
        fs.data.site_intercepts(made, column="dose")
    with pytest.raises(fs.errors.DataError, match="sparse"):
        fs.data.site_intercepts([fs.Client(c.name, sp.csr_array(c.X), c.y) for c in made])


def test_a_site_of_one_outcome_has_no_intercept_of_its_own() -> None:
    X, y = binary()
    made = [*from_rows(X, y, NAMES), fs.Client("clinic", X[:9], np.ones(9), feature_names=NAMES)]
    by_site, preprocess = fs.data.site_intercepts(made, fs.data.Preprocess())
    done = fs.run(fs.Newton(FREE), by_site, preprocess=preprocess)
    with pytest.raises(fs.errors.DataError, match=r"\(site=clinic: one outcome only\)"):
        done.summary()


# ── others ──


def test_sums_that_cannot_be_are_rejected() -> None:
    done = run(clients("binomial"), "binomial")
    protocol = fs.StandardErrors(done.algorithm.loss)  # type: ignore[attr-defined]
    with fs.Session(clients("binomial"), also={"summary": protocol}) as session:
        fs.run(fs.Newton(protocol.loss), session, preprocess=fs.data.Preprocess())
        good = protocol.ask(session.fed, done.model.w).sums
        wrong = good.hessian.full() - 2 * np.diag(np.diag(good.hessian.full()))
        for name, bad in (
            ("hessian", Symmetric(wrong)),
            ("outer", Symmetric(np.full((4, 4), 2.0) - np.eye(4))),  # an eigenvalue of −1
            ("score", good.score[:2]),
            ("score", good.score * np.nan),
        ):
            with pytest.raises(fs.errors.DataError, match=r"the (clients'|sums of the clients)"):
                protocol._check(replace(good, **{name: bad}), session.fed, 4)


def test_a_fit_with_rows_of_the_server() -> None:
    class Both(fs.Newton):
        includes_server = True

    done = run(clients("binomial"), "binomial")
    with pytest.raises(fs.errors.ConfigError, match="server's own rows"):
        fs.summary(replace(done, algorithm=Both(FREE)))


def test_class_names_in_a_run_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    text = RUN_FILE.replace("diabetes", "wine").replace('name = "Squared"', 'name = "Softmax", classes = 3')
    file.write_text(text.replace('site_intercepts = "client-1"\n', ""))
    command("run", str(file), "--output", str(tmp_path / "out"), "--json")
    found = json.loads(capsys.readouterr().out)["inference"]
    assert found["status"] == "error"  # thirteen columns separate the wines
    assert "combination of these columns" in found["message"]
