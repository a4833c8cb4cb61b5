"""Fits of formulas over sites, against statsmodels' formulas on the pooled rows (read and evaluated by patsy)."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import fedsolve as fs
from fedsolve.data import Categorical, Preprocess, Schema
from fedsolve.data.formula_terms import has_intercept
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.transports import Processes
from fedsolve.inference.summarised import INTERCEPT, Summary
from tests.data.hospitals import SCHEMA, clients, pooled, tables

RELATIVE = 1e-6
FAMILIES = {
    "ill": (fs.Logistic, sm.families.Binomial),
    "stay": (fs.Poisson, sm.families.Poisson),
    "pressure": (fs.Squared, sm.families.Gaussian),
}
SPLINE = "bs(chol, knots=(180, 230), lower_bound=100, upper_bound=400)"
FORMULAS = [
    f"age * sex + {SPLINE} + C(cp)",
    f"{SPLINE}:sex + np.log(age) + C(cp, Sum)",
    "sex / age + I(age ** 2) + standardize(chol)",
    "(age + sex + C(cp)) ** 2",
    "age * C(cp) - 1",
]


def fitted(formula: str, target: str = "ill", **more: Any) -> fs.Run:
    loss = FAMILIES[target][0](intercept="free" if has_intercept(formula) else None)
    preprocess = Preprocess(more.pop("schema", SCHEMA), formula=formula)
    return fs.run(
        fs.Newton(loss), more.pop("clients", None) or clients(target), preprocess=preprocess, tolerance=1e-11, **more
    )


def pooled_fit(formula: str, target: str, rows: pd.DataFrame | None = None, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smf.glm(f"{target} ~ {formula}", pooled() if rows is None else rows, family=FAMILIES[target][1]())
        return model.fit(tol=1e-14, maxiter=200, **more)


def ours(name: str) -> str:
    """The name that formulaic has for a column of patsy's: splines count from 1, and text is spaced by Python."""
    if name == "Intercept":
        return INTERCEPT
    return re.sub(r"(bs\(.*?\))\[(\d)\]", lambda found: f"{found[1]}[{int(found[2]) + 1}]", name)


def check(found: Summary, expected: Any, robust: Any | None = None, relative: float = RELATIVE) -> None:
    """Coefficients, standard errors, likelihood and deviance, by name."""
    names = [ours(name) for name in expected.params.index]
    assert sorted(names) == sorted(found.names)
    places = [found.names.index(name) for name in names]
    assert found.estimates[0][places] == pytest.approx(expected.params.to_numpy(), rel=relative)
    assert found.standard_errors("model")[0][places] == pytest.approx(expected.bse.to_numpy(), rel=relative)
    if robust is not None:
        assert found.standard_errors("robust")[0][places] == pytest.approx(robust.bse.to_numpy(), rel=relative)
    assert found.fit.log_likelihood == pytest.approx(expected.llf, rel=relative)
    assert found.fit.deviance == pytest.approx(expected.deviance, rel=relative)
    assert found.fit.aic == pytest.approx(expected.aic, rel=relative)


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_it_equals_the_pooled_fit_of_statsmodels(formula: str, target: str) -> None:
    run = fitted(formula, target)
    assert run.status == "converged"
    check(run.summary(), pooled_fit(formula, target), pooled_fit(formula, target, cov_type="HC0"))


def test_agreed_knots_give_the_fit_of_the_same_knots_in_statsmodels() -> None:
    """What the summary says of knots is all that is needed to fit the same elsewhere."""
    found = fitted("age + bs(chol, df=5)").summary()
    said = next(note for note in found.notes if note.startswith("bs(chol, df=5) has knots at "))
    knots, low, high = re.fullmatch(r".* has knots at (.*) between (.*) and (.*)\.", said).groups()  # type: ignore[union-attr]
    elsewhere = f"bs(chol, knots=({knots}), lower_bound={low}, upper_bound={high})"
    expected = pooled_fit(f"age + {elsewhere}", "ill")
    names = ["Intercept", "age", *(name for name in expected.params.index if name.startswith("bs"))]
    assert found.estimates[0] == pytest.approx(expected.params[names].to_numpy(), rel=RELATIVE)
    assert found.standard_errors("model")[0] == pytest.approx(expected.bse[names].to_numpy(), rel=RELATIVE)
    assert found.fit.log_likelihood == pytest.approx(expected.llf, rel=RELATIVE)


@pytest.mark.parametrize("formula", ["age + poly(chol, 3)", "scale(age) * center(chol)"])
def test_means_and_polynomials_are_those_of_pooled_rows(formula: str) -> None:
    """formulaic makes the pooled columns here, because patsy has no poly."""
    from formulaic import model_matrix

    rows = pooled()
    D = model_matrix(formula, rows)
    expected = sm.GLM(rows.ill, D, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=100)
    check(fitted(formula).summary(), expected)


def test_units_do_not_matter() -> None:
    """Columns of 1e9 and 1e-6, with their squares and product: the fit converges as it does for any other."""
    given = {site: table.assign(age=table.age * 1e9, chol=table.chol * 1e-6) for site, table in tables().items()}
    schema = Schema((SCHEMA.columns[0], fs.data.Numeric("chol"), *SCHEMA.columns[2:]))
    formula = "age * chol + I(age ** 2)"
    run = fitted(formula, schema=schema, clients=clients(given=given))
    assert run.status == "converged"
    plain = fitted(formula).summary()
    found = run.summary()
    units = np.array([1.0, 1e-9, 1e6, 1e-18, 1e-3])
    order = [found.names.index(name) for name in (INTERCEPT, "age", "chol", "I(age ** 2)", "age:chol")]
    assert found.estimates[0][order] == pytest.approx(plain.estimates[0][order] * units, rel=RELATIVE)
    assert found.standard_errors("model")[0][order] == pytest.approx(
        plain.standard_errors("model")[0][order] * units, rel=RELATIVE
    )


def test_a_level_that_nobody_has_is_named_and_the_rest_is_as_without_it() -> None:
    schema = Schema((*SCHEMA.columns[:3], Categorical("cp", (1, 2, 3, 4), unseen="error"), SCHEMA.columns[4]))
    run = fitted("age * C(cp)", schema=schema)
    found = run.summary()
    assert found.aliased == {"C(cp)[T.4]": (), "age:C(cp)[T.4]": ()}
    assert any("C(cp)[T.4] (the same in all rows)" in note for note in found.notes)
    expected = pooled_fit("age * C(cp)", "ill")
    for name, value, error in zip(expected.params.index, expected.params, expected.bse, strict=True):
        place = found.names.index(ours(name))
        assert found.estimates[0][place] == pytest.approx(value, rel=RELATIVE)
        assert found.standard_errors("model")[0][place] == pytest.approx(error, rel=RELATIVE)


def test_collinear_columns_are_named() -> None:
    """The columns of cr sum to one, as the intercept is."""
    found = fitted("cr(chol, df=4)").summary()
    assert list(found.aliased) == ["cr(chol, df=4)[4]"]
    centred = fitted("cr(chol, df=3, constraints='center')").summary()
    assert not centred.aliased
    assert centred.fit.log_likelihood == pytest.approx(found.fit.log_likelihood, rel=1e-9)


def test_a_category_with_one_outcome_is_named() -> None:
    given = tables()
    for table in given.values():
        table.loc[table.cp == 3, "ill"] = 1.0
    with pytest.raises(DataError, match=r"no finite maximum-likelihood estimate.*C\(cp\)\[T\.3\]: one outcome only"):
        fitted("age + C(cp)", clients=clients(given=given)).summary()


# ── beside other things ──


def test_nested_formulas_are_compared() -> None:
    smaller, larger = (fitted(one) for one in ("age + sex", f"age * sex + {SPLINE}"))
    test = fs.likelihood_ratio_test(smaller, larger)
    a, b = (pooled_fit(one, "ill") for one in ("age + sex", f"age * sex + {SPLINE}"))
    assert test.df == 6
    assert test.statistic == pytest.approx(2 * (b.llf - a.llf), rel=RELATIVE)
    assert test.added == (*(f"{SPLINE}[{k}]" for k in range(1, 6)), "age:sex[T.m]")
    with pytest.raises(ConfigError, match="not nested"):
        fs.likelihood_ratio_test(fitted("log(age)"), larger)


@pytest.mark.parametrize("full", [False, True])
def test_site_intercepts_join_the_formula(full: bool) -> None:
    formula = "age * sex - 1" if full else "ill ~ age * sex"
    made, preprocess = fs.data.site_intercepts(clients(), Preprocess(SCHEMA, formula=formula), full=full)
    loss = fs.Logistic(intercept=None if full else "free")
    run = fs.run(fs.Newton(loss), made, preprocess=preprocess, tolerance=1e-11)
    expected = pooled_fit("0 + site + age * sex" if full else "age * sex + site", "ill")
    check(run.summary(), expected)
    with pytest.raises(ConfigError, match="the formula has an intercept, beside which not every site"):
        fs.data.site_intercepts(clients(), Preprocess(SCHEMA, formula="age"), full=True)


def test_weights_and_offsets() -> None:
    rng, formula = np.random.default_rng(1), f"age * sex + {SPLINE}"
    columns = [column.name for column in SCHEMA.columns]
    s, offset = rng.integers(1, 4, 580).astype(float), rng.uniform(-1, 1, 580)
    made, start = [], 0
    for site, table in tables().items():
        here = slice(start, start := start + len(table))
        made.append(fs.Client(site, table[columns], table.stay, s[here], offset=offset[here]))
    found = fitted(formula, "stay", clients=made).summary()
    model = smf.glm(f"stay ~ {formula}", pooled(), family=sm.families.Poisson(), freq_weights=s, offset=offset)
    expected = model.fit(tol=1e-14, maxiter=100)
    names = [found.names.index(ours(name)) for name in expected.params.index]
    assert found.estimates[0][names] == pytest.approx(expected.params.to_numpy(), rel=RELATIVE)
    assert found.standard_errors("model")[0][names] == pytest.approx(expected.bse.to_numpy(), rel=RELATIVE)


def test_the_model_takes_raw_columns_by_name_and_is_saved(tmp_path: Path) -> None:
    formula = f"age * sex + {SPLINE} + C(cp) + poly(age, 2):sex"
    run = fitted(formula)
    run.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    rows = pooled()
    expected = pooled_fit(f"age * sex + {SPLINE} + C(cp) + I(age ** 2):sex", "ill").predict(rows)  # the same space
    for model in (run.model, again):
        found = model.predict_proba(rows[["cp", "sex", "chol", "age"]])[:, 1]  # another order, without the ward
        assert found == pytest.approx(expected.to_numpy(), rel=1e-6)
        assert np.array_equal(found, model.predict_proba(rows)[:, 1])  # more columns than it needs
        array = rows[[column.name for column in SCHEMA.columns]].to_numpy(dtype=object)
        assert np.array_equal(found, model.predict_proba(array)[:, 1])
        one = model.predict_proba(rows.iloc[[5]])[:, 1]
        assert one == pytest.approx(found[5], rel=1e-13)  # one row alone, as among others
        with pytest.raises(DataError, match=r"lacks 'chol'; give it at least the columns of the formula"):
            model.predict(rows[["cp", "sex", "age"]])
    assert again.transform.to_plain() == run.model.transform.to_plain()


def test_both_transports_give_the_same_bits() -> None:
    formula = "age * sex + bs(chol, df=5) + scale(age) + cr(chol, df=3, constraints='center')"
    loss, preprocess = fs.Logistic(l2=0.01, intercept="free"), Preprocess(SCHEMA, formula=formula)
    found = [
        fs.run(fs.Newton(loss), given, preprocess=preprocess, rounds=4)
        for given in (clients(), Processes(clients(), workers=2))
    ]
    assert np.array_equal(found[0].model.w, found[1].model.w)
    a, b = (
        [(one.calls, one.bytes_up.tolist(), one.bytes_down.tolist()) for one in run.ledger.records] for run in found
    )
    assert a == b


def test_a_run_is_resumed_with_its_formula(tmp_path: Path) -> None:
    preprocess = Preprocess(SCHEMA, formula="age * sex + bs(chol, df=5) + poly(age, 2)")
    loss = fs.Logistic(l2=0.01, intercept="free")
    whole = fs.run(fs.Scaffold(loss), clients(), preprocess=preprocess, rounds=6)
    path = tmp_path / "saved"
    fs.run(fs.Scaffold(loss), clients(), preprocess=preprocess, rounds=3, checkpoint=path)
    again = fs.run(fs.Scaffold(loss), clients(), preprocess=preprocess, rounds=6, checkpoint=path, resume=True)
    assert np.array_equal(again.model.w, whole.model.w)
    other = replace(preprocess, formula="age * sex")
    with pytest.raises(fs.errors.CheckpointError, match="formula"):
        fs.run(fs.Scaffold(loss), clients(), preprocess=other, rounds=6, checkpoint=path, resume=True)


def test_evaluation_on_held_out_rows() -> None:
    loss = fs.Logistic(intercept="free")
    held = fs.data.hold_out(clients(), 0.3, seed=0)
    run = fs.run(
        fs.Newton(loss),
        held,
        preprocess=Preprocess(SCHEMA, formula="age * sex + bs(chol, df=5)"),
        evaluation=fs.Evaluation(loss),
    )
    rows = pd.concat([pd.DataFrame(one.held.X, columns=one.feature_names) for one in held])
    y = np.concatenate([one.held.y for one in held])
    p = run.model.predict_proba(rows)[:, 1]
    assert run.evaluation.value == pytest.approx(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p))), rel=1e-10)
