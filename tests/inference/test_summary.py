"""Summaries against statsmodels on the pooled rows: coefficients, standard errors, deviances and criteria."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm

import fedsolve as fs
from tests.extras import optional
from tests.inference.summary_reference import FAMILIES, check, glm, pooled

NAMES = ("dose", "age", "weight")
LOSSES = {"Gaussian": fs.Squared, "binomial": fs.Logistic, "Poisson": fs.Poisson}


def clients(
    family: str, sizes: tuple[int, ...] = (80, 1, 50, 120), offset: bool = False, weights: str | None = None
) -> list[fs.Client]:
    """Clients in raw units of very different size, one of them with a single row."""
    rng = np.random.default_rng(3)
    found = []
    for place, n in enumerate(sizes):
        Z = rng.standard_normal((n, 3)) + 0.3 * place
        X = Z * [1e9, 10.0, 1e-3] + [5e9, 50.0, 0.0]
        o = rng.uniform(-1, 1, n) if offset else None
        eta = 0.4 * Z[:, 0] - 0.3 * Z[:, 1] + 0.2 * Z[:, 2] + 0.1 + (0.0 if o is None else o)
        y = {
            "Gaussian": lambda eta=eta, n=n: 100 + eta + rng.standard_normal(n),
            "binomial": lambda eta=eta, n=n: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
            "Poisson": lambda eta=eta: rng.poisson(np.exp(eta)).astype(float),
        }[family]()
        s = {None: None, "whole": rng.integers(1, 5, n).astype(float), "any": rng.uniform(0.2, 3.0, n)}[weights]
        found.append(fs.Client(f"site-{place}", X, y, s, offset=o, feature_names=NAMES))
    return found


def run(made: list[fs.Client], family: str, **more: Any) -> fs.Run:
    given = {"preprocess": fs.data.Preprocess(), "tolerance": 1e-11, **more}
    return fs.run(fs.Newton(LOSSES[family](intercept="free")), made, **given)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("offset", [False, True])
def test_it_equals_statsmodels_in_raw_units_and_standardised(family: str, offset: bool) -> None:
    made = clients(family, offset=offset)
    found = run(made, family).summary()
    rows = pooled(made)
    check(found, glm(family, rows["X"], rows["y"], offset=rows["offset"]))
    Z = (rows["X"] - rows["X"].mean(axis=0)) / rows["X"].std(axis=0)
    check(found, glm(family, Z, rows["y"], offset=rows["offset"]), standardised=True)
    assert found.distance < 1e-6
    assert found.ledger.total(None).exchanges == (1 if family != "binomial" or not offset else found_steps(found))


def found_steps(found: fs.Summary) -> int:
    """With offsets the intercept-only logistic model takes some Newton steps of one number."""
    steps = found.ledger.total(None).exchanges
    assert 2 <= steps <= 10
    return steps


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["frequency", "reliability"])
def test_weights_are_frequencies_or_reliabilities(family: str, kind: Any) -> None:
    made = clients(family, offset=True, weights="whole" if kind == "frequency" else "any")
    done = run(made, family)
    found = done.summary(fs.StandardErrors(done.algorithm.loss, weights=kind))  # type: ignore[attr-defined]
    rows = pooled(made)
    more = {"freq_weights" if kind == "frequency" else "var_weights": rows["sample_weight"]}
    check(found, glm(family, rows["X"], rows["y"], offset=rows["offset"], **more))
    if kind == "frequency":  # the same as so many rows
        many = [np.repeat(rows[name], rows["sample_weight"].astype(int), axis=0) for name in ("X", "y", "offset")]
        check(found, glm(family, many[0], many[1], offset=many[2]))


def test_weights_that_are_no_whole_numbers_are_remarked_on() -> None:
    assert "not whole numbers" in run(clients("Poisson", weights="any"), "Poisson").summary().notes[0]
    assert run(clients("Poisson", weights="whole"), "Poisson").summary().notes == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_preprocessing_and_without_an_intercept(family: str) -> None:
    made = [
        fs.Client(c.name, (c.X - [5e9, 50.0, 0.0]) / [1e9, 10.0, 1e-3], c.y, feature_names=NAMES)
        for c in clients(family)
    ]
    done = fs.run(fs.Newton(LOSSES[family]()), made, tolerance=1e-11)
    rows = pooled(made)
    found = done.summary()
    assert found.names == NAMES
    check(found, glm(family, rows["X"], rows["y"], intercept=False))
    assert found.standardised[0] == pytest.approx(found.estimates[0] * rows["X"].std(axis=0), rel=1e-9)
    if family == "Gaussian":
        assert found.fit.r_squared == pytest.approx(sm.OLS(rows["y"], rows["X"]).fit().rsquared, rel=1e-9)


def test_the_constant_that_centring_leaves() -> None:
    made = clients("Gaussian")
    done = fs.run(fs.Newton(fs.Squared()), made, preprocess=fs.data.Preprocess(), tolerance=1e-11)
    found = done.summary()
    assert found.names[0] == "(intercept)"
    assert "no intercept" in found.notes[-1]
    X = pooled(made)["X"]
    assert found.estimates[0, 0] + X @ found.estimates[0, 1:] == pytest.approx(done.model.predict(X), rel=1e-9)
    assert np.isnan(found.standardised[0, 0])


def test_r_squared_and_the_t_distribution() -> None:
    made = clients("Gaussian")
    rows = pooled(made)
    ols = sm.OLS(rows["y"], sm.add_constant(rows["X"])).fit()
    found = run(made, "Gaussian").summary(use_t=True)
    assert found.fit.r_squared == pytest.approx(ols.rsquared, rel=1e-9)
    assert found.fit.adjusted_r_squared == pytest.approx(ols.rsquared_adj, rel=1e-9)
    assert [one.p for one in found.coefficients()] == pytest.approx(ols.pvalues, rel=1e-5)
    assert [one.low for one in found.coefficients()] == pytest.approx(ols.conf_int()[:, 0], rel=1e-6)


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_both_transports_and_an_open_session(transport: str) -> None:
    made, loss = clients("binomial"), fs.Logistic(intercept="free")
    with fs.Session(made, transport, also={"summary": fs.StandardErrors(loss)}) as session:
        done = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess(), tolerance=1e-11)
        inside = done.summary()
    again = done.summary()
    rows = pooled(made)
    check(inside, glm("binomial", rows["X"], rows["y"]))
    assert (inside.estimates == again.estimates).all()
    assert (inside.covariances["robust"] == again.covariances["robust"]).all()
    assert set(inside.ledger.by_call()) == {("envelope", "setup"), ("summary.sums", "setup")}
    assert inside.ledger.total(None).exchanges == 1


def test_a_session_that_was_not_told() -> None:
    with fs.Session(clients("binomial")) as session:
        done = fs.run(fs.Newton(fs.Logistic(intercept="free")), session, preprocess=fs.data.Preprocess())
        with pytest.raises(fs.errors.ConfigError, match="only protocols that it was told of"):
            done.summary()


def test_torch_clients() -> None:
    torch = optional("torch")
    made = clients("Poisson", offset=True)
    tensors = [
        fs.Client(c.name, torch.tensor(c.X), torch.tensor(c.y), offset=torch.tensor(c.offset), feature_names=NAMES)
        for c in made
    ]
    one, other = run(tensors, "Poisson").summary(), run(made, "Poisson").summary()
    assert one.estimates == pytest.approx(other.estimates, rel=1e-9)
    assert one.standard_errors("robust") == pytest.approx(other.standard_errors("robust"), rel=1e-9)
    assert one.fit.aic == pytest.approx(other.fit.aic, rel=1e-12)


def test_sparse_clients() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 6), density=0.3, rng=rng, format="csr") * 50
    y = (rng.random(400) < 1 / (1 + np.exp(-X.toarray()[:, 0] / 20))).astype(float)
    made = [fs.Client(name, X[part::2], y[part::2]) for part, name in enumerate("ab")]
    done = fs.run(
        fs.Newton(fs.Logistic(intercept="free")), made, preprocess=fs.data.Preprocess(centre=False), tolerance=1e-11
    )
    dense = np.concatenate([X[0::2].toarray(), X[1::2].toarray()])
    check(done.summary(), glm("binomial", dense, np.concatenate([y[0::2], y[1::2]])))


def test_columns_in_another_order_at_each_site() -> None:
    made = clients("binomial")
    orders = ([2, 0, 1], [1, 2, 0], [0, 1, 2], [0, 2, 1])
    mixed = [
        fs.Client(c.name, c.X[:, order], c.y, feature_names=[NAMES[j] for j in order])
        for c, order in zip(made, orders, strict=True)
    ]
    found, rows = run(mixed, "binomial").summary(), pooled(made)
    assert found.names == ("(intercept)", "weight", "dose", "age")
    Z = (rows["X"] - rows["X"].mean(axis=0)) / rows["X"].std(axis=0)
    check(found, glm("binomial", Z[:, [2, 0, 1]], rows["y"]), standardised=True)


@pytest.mark.parametrize("family", ["binomial", "Poisson"])
def test_outcomes_between_whole_numbers(family: str) -> None:
    rng = np.random.default_rng(0)
    made = [fs.Client(c.name, c.X, rng.random(c.n_samples), feature_names=NAMES) for c in clients(family)]
    rows = pooled(made)
    check(run(made, family).summary(), glm(family, rows["X"], rows["y"]))


def test_rows_of_weight_zero_do_not_count() -> None:
    made = clients("Gaussian")
    weighted = [fs.Client(c.name, c.X, c.y, (np.arange(c.n_samples) != 1).astype(float)) for c in made]
    done = run(weighted, "Gaussian")
    rows = pooled([c if c.n_samples == 1 else fs.Client(c.name, np.delete(c.X, 1, 0), np.delete(c.y, 1)) for c in made])
    for kind in ("frequency", "reliability"):
        found = done.summary(fs.StandardErrors(done.algorithm.loss, weights=kind))  # type: ignore[attr-defined, arg-type]
        check(found, glm("Gaussian", rows["X"], rows["y"]))
        assert found.rows == len(rows["y"])


@pytest.mark.parametrize("algorithm", [fs.GIANT, fs.SHED, fs.FedNL, fs.FedNewtonCG, fs.Scaffold])
def test_any_algorithm_that_reaches_the_pooled_fit(algorithm: Any) -> None:
    made, loss = clients("binomial"), fs.Logistic(intercept="free")
    found = fs.run(algorithm(loss), made, preprocess=fs.data.Preprocess(), rounds=500, tolerance=1e-9).summary()
    rows = pooled(made)
    check(found, glm("binomial", rows["X"], rows["y"]))


# ── several classes ──


def multinomial(y: Any, X: Any) -> Any:
    return sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", tol=1e-14, maxiter=100, disp=False)


def check_multinomial(found: fs.Summary, y: Any, X: Any) -> None:
    fit, design = multinomial(y, X), sm.add_constant(X)
    assert found.estimates == pytest.approx(np.asarray(fit.params).T, rel=1e-6)
    assert found.standard_errors() == pytest.approx(np.asarray(fit.bse).T, rel=1e-6)
    assert found.fit.log_likelihood == pytest.approx(fit.llf, rel=1e-9)
    assert found.fit.null_log_likelihood == pytest.approx(fit.llnull, rel=1e-9)
    assert found.fit.aic == pytest.approx(fit.aic, rel=1e-9)
    assert found.fit.bic == pytest.approx(fit.bic, rel=1e-9)
    assert found.fit.mcfadden == pytest.approx(fit.prsquared, rel=1e-8)
    # MNLogit has no HC0 of its own: the sandwich from its scores.
    classes = np.unique(y)
    residuals = (y[:, None] == classes[None, 1:]) - fit.predict(design)[:, 1:]
    scores = (residuals[:, :, None] * design[:, None, :]).reshape(len(y), -1)
    bread = np.linalg.inv(-fit.model.hessian(fit.params))
    robust = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread)).reshape(found.estimates.shape)
    assert found.standard_errors("robust") == pytest.approx(robust, rel=1e-6)


def test_classes_are_compared_with_the_first_one() -> None:
    data = fs.data.load("wine")
    X, names = data.X[:, [1, 2, 4]], [data.feature_names[j] for j in (1, 2, 4)]  # type: ignore[index]
    made = fs.data.partition(X, data.y, fs.data.IID(), clients=3, seed=0, feature_names=names)
    loss = fs.Softmax(classes=3, intercept="free")
    done = fs.run(fs.Newton(loss), made, preprocess=fs.data.Preprocess(), tolerance=1e-12)
    rows = pooled(made)
    found = done.summary()
    check_multinomial(found, rows["y"], rows["X"])
    assert (found.reference, found.outcomes) == ("0", ("1", "2"))
    assert "1 against 0" in str(found)
    assert found.coefficients()[1].ratio == pytest.approx(np.exp(found.estimates[0, 1]))


# ── by site ──


def test_clusters_are_sites_where_there_are_enough() -> None:
    few = run(clients("Poisson"), "Poisson").summary()
    assert set(few.covariances) == {"model", "robust"}
    with pytest.raises(fs.errors.ConfigError, match="at least 20 sites"):
        few.with_errors("clustered")
    made = clients("Poisson", sizes=(8,) * 25)
    found = run(made, "Poisson").summary(errors="clustered")
    rows, sites = pooled(made), np.repeat(np.arange(25), 8)
    fit = sm.GLM(rows["y"], sm.add_constant(rows["X"]), family=sm.families.Poisson()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": sites}
    )
    assert found.standard_errors()[0] == pytest.approx(fit.bse, rel=1e-6)
    calls = found.ledger.by_call()
    assert found.ledger.total(None).exchanges == 1
    assert calls["summary.site_score", "setup"].scalars_up == 25 * 4  # one vector of each site


def test_clusters_when_asked_for_come_with_a_warning() -> None:
    done = run(clients("Poisson"), "Poisson")
    protocol = fs.StandardErrors(done.algorithm.loss, clusters="yes")  # type: ignore[attr-defined]
    found = done.summary(protocol, errors="clustered")
    assert "too small" in found.notes[0]
