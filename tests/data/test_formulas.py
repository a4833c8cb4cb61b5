"""Formulas: the same columns at every site, and on pooled rows, as formulaic makes; and what is not allowed in them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from formulaic import model_matrix

import fedsolve as fs
from fedsolve.data import Categorical, Discrete, Numeric, Preprocess, Schema, Transform
from fedsolve.data.formula_arithmetic import compute
from fedsolve.data.formula_factors import Spline
from fedsolve.data.formula_terms import has_intercept, read, sides
from fedsolve.errors import ConfigError, DataError, InputError, UnknownName
from tests.data.hospitals import SCHEMA, clients, pooled, tables

LOSS = fs.Logistic(l2=0.01, intercept="free")
COLUMNS = SCHEMA.columns
KNOTS = "knots=[180, 230], lower_bound=100, upper_bound=400"

# In all of these formulaic takes everything from the formula, or from sums over all rows.
FORMULAS = [
    "age",
    "age * sex",
    "age + sex + age:sex - age",
    "(age + sex + cp) ** 2",
    "(age + sex) ^ 2",
    "sex / age",
    "age %in% sex",
    "2:age + sex",
    "sex + cp:age",
    "sex:cp",
    "C(cp) + C(sex)",
    "C(cp, contr.treatment(base=2)) * age",
    "C(cp, Treatment(3))",
    "C(cp, contr.sum) + C(sex, Sum)",
    "C(cp, contr.helmert):age",
    "C(cp, contr.diff) + C(cp, contr.poly):sex",
    "C(cp, contr.SAS)",
    "log(chol) + np.sqrt(age) + I(age ** 2) + {age / chol}",
    "I(age > 50):sex + exp(age / 100) + abs(age - 50) + log1p(chol) + log2(chol) + log10(chol) + expm1(-chol / 400)",
    f"bs(chol, {KNOTS})",
    f"bs(chol, {KNOTS}, degree=1) * sex",
    f"bs(chol, {KNOTS}, include_intercept=True) + age",
    "bs(chol, df=3, lower_bound=100, upper_bound=400)",
    "bs(chol, knots=[220], lower_bound=200, upper_bound=250, extrapolation='clip')",
    "bs(chol, knots=[220], lower_bound=200, upper_bound=250, extrapolation='extend')",
    "bs(log(chol), knots=[5.2, 5.5], lower_bound=4.5, upper_bound=6.1)",
    f"cr(chol, {KNOTS}) + sex",
    "cr(chol, knots=[220], lower_bound=200, upper_bound=250):sex",
    "cs(chol, knots=[210, 230], lower_bound=200, upper_bound=250, extrapolation='clip')",
    f"cr(chol, {KNOTS}, constraints='center') * sex",
    "poly(age, 3) + poly(chol, degree=2, raw=True)",
    "poly(log(chol), 4):sex",
    "center(age) * scale(chol) + standardize(age) + scale(chol, ddof=0) + scale(age, center=False)",
    "scale(age, scale=False) + scale(age, center=False, scale=False)",
    "1 + age",
]
WITHOUT = [
    "age + sex - 1",
    "0 + sex + sex:age",
    "-1 + cp * age",
    f"bs(chol, {KNOTS}, include_intercept=True) + 0 + sex",
]


def transform_of(formula: str, given: dict[str, pd.DataFrame] | None = None, **more: Any) -> Transform:
    """What the clients agree on, without a fit."""
    preprocess = Preprocess(more.pop("schema", SCHEMA), formula=formula, **more)
    loss = replace(LOSS, intercept="free" if has_intercept(formula) else None)
    found = fs.run(fs.Newton(loss), clients(given=given), preprocess=preprocess, rounds=0).model.transform
    assert isinstance(found, Transform)
    return found


def reference(formula: str, rows: pd.DataFrame) -> pd.DataFrame:
    """formulaic on pooled rows, with all categories there are."""
    declared = {
        one.name: pd.Categorical(rows[one.name].astype(str), categories=[str(c) for c in categories])
        for one, categories in ((COLUMNS[2], ("f", "m")), (COLUMNS[3], (1, 2, 3)))
    }
    # A reference is text here, as the categories are.
    text = formula.replace("base=2", "base='2'").replace("Treatment(3)", "Treatment('3')")
    for name in ("sqrt", "abs", "log1p", "expm1"):
        text = text.replace(f"{name}(", f"np.{name}(").replace("np.np.", "np.")
    return pd.DataFrame(model_matrix(text, rows.assign(**declared)))


def in_units(transform: Transform, rows: Any) -> np.ndarray:
    """The columns in the units of the formula."""
    assert transform.design is not None
    D = transform.apply(rows)
    return D * np.array(transform.design.scale) + np.array(transform.design.centre)


# ── the same columns ──


@pytest.mark.parametrize("formula", FORMULAS + WITHOUT)
def test_sites_make_the_columns_that_formulaic_makes_of_pooled_rows(formula: str) -> None:
    transform = transform_of(formula)
    rows = pooled()
    expected = reference(formula, rows)
    assert ("Intercept" in expected.columns) == (formula in FORMULAS)
    expected = expected.drop(columns="Intercept", errors="ignore")
    if not any(text in formula for text in ("base=2", "Treatment(3)", "np.", "abs", "expm1", "log1p")):
        assert transform.feature_names() == tuple(expected.columns)
    size = np.abs(expected.to_numpy()).max(axis=0)
    D = in_units(transform, rows)
    assert np.abs(D - expected.to_numpy()).max(axis=0) == pytest.approx(0, abs=1e-11 * size.max())
    stacked = np.concatenate([transform.apply(table) for table in tables().values()])
    assert np.array_equal(stacked, transform.apply(rows))  # no row depends on those beside it


def test_names_are_those_of_formulaic() -> None:
    formula = "age * sex + bs(chol, df=5) + C(cp) + C(cp, contr.sum):age + poly(age, 2) + log(chol)"
    assert read(formula, COLUMNS).feature_names == (
        *("age", "sex[T.m]", *(f"bs(chol, df=5)[{k}]" for k in range(1, 6)), "C(cp)[T.2]", "C(cp)[T.3]"),
        *("poly(age, 2)[1]", "poly(age, 2)[2]", "log(chol)", "age:sex[T.m]"),
        *("C(cp, contr.sum)[S.1]:age", "C(cp, contr.sum)[S.2]:age"),
    )


def test_a_natural_spline_of_two_knots_is_a_line() -> None:  # which formulaic cannot compute
    D = read("cr(chol, df=2)", COLUMNS).apply({"chol": np.array([100.0, 175.0, 400.0, 475.0])})
    assert np.allclose(D, [[1, 0], [0.75, 0.25], [0, 1], [-0.25, 1.25]], rtol=1e-15)


def test_every_column_by_a_dot() -> None:
    assert read("log(age) + .", COLUMNS[:3]).feature_names == ("log(age)", "age", "chol", "sex[T.m]")


def test_names_that_are_no_words() -> None:
    columns = (Numeric("mean radius"), Numeric("a`b"), Categorical("site name", ("x", "y"), unseen="zeros"))
    design = read("`mean radius` * `site name` + log(`mean radius`)", columns)
    names = ("mean radius", "site name[T.y]", "log(`mean radius`)", "mean radius:site name[T.y]")
    assert design.feature_names == names
    D = design.apply({"mean radius": np.array([2.0, 3.0]), "site name": np.array([1, 2])})
    assert np.allclose(D, [[2, 1, np.log(2), 2], [3, 0, np.log(3), 0]], rtol=1e-15)


def test_a_category_that_nobody_has_makes_a_column_of_zeros() -> None:
    schema = Schema((*COLUMNS[:3], Categorical("cp", (1, 2, 3, 4), unseen="error"), COLUMNS[4]))
    transform = transform_of("age * C(cp)", schema=schema)
    D = in_units(transform, pooled())
    for name in ("C(cp)[T.4]", "age:C(cp)[T.4]"):
        assert not D[:, transform.feature_names().index(name)].any()


# ── what is learned ──


def test_knots_are_quantiles_of_all_rows_to_a_percent_of_the_range() -> None:
    transform = transform_of("bs(chol, df=7) + cr(chol, df=5)")
    assert transform.design is not None
    for factor, inner in zip(transform.design.factors, (4, 3), strict=True):
        assert isinstance(factor, Spline)
        assert factor.knots is not None
        exact = np.quantile(pooled().chol, np.linspace(0, 1, inner + 2)[1:-1])
        assert np.abs(np.array(factor.knots) - exact).max() <= (400 - 100) / 100
        assert [round(one, 1) for one in factor.knots] == list(factor.knots)  # can be written down
    assert transform.design.in_words()[0].startswith("bs(chol, df=7) has knots at 1")


def test_one_site_alone_has_other_knots_and_means() -> None:
    """So that the test above would notice what is taken from a single site's rows."""
    both, one = (
        transform_of("bs(chol, df=5) + center(age)"),
        transform_of("bs(chol, df=5) + center(age)", {"bryn": tables()["bryn"]}),
    )
    assert both.design is not None
    assert one.design is not None
    assert both.design.factors[0] != one.design.factors[0]
    assert both.design.factors[1] != one.design.factors[1]


def test_only_sums_are_asked_for() -> None:
    preprocess = Preprocess(SCHEMA, formula="bs(chol, df=5) + poly(age, 2)")
    run = fs.run(fs.Newton(LOSS), clients(), preprocess=preprocess, rounds=0)
    asked = [call for record in run.ledger.records for call in record.calls if call.startswith("preprocess.")]
    sums = ["term_sums"] * 3 + ["made_totals", "made_spread", "adopt"]  # p₀, p₁, p₂: knots come with the first
    assert asked == [f"preprocess.{step}" for step in ["totals", *sums]]


def test_knots_that_coincide_are_rejected() -> None:
    given = {site: table.assign(chol=np.where(table.age > 45, 200.0, table.chol)) for site, table in tables().items()}
    said = r"bs\(chol, df=9\): its 6 knots at quantiles do not differ by a hundredth of the range.*knots = \[...\]"
    with pytest.raises(DataError, match=said):
        transform_of("bs(chol, df=9)", given)


def test_a_constant_has_no_deviation() -> None:
    given = {site: table.assign(age=50.0) for site, table in tables().items()}
    with pytest.raises(DataError, match=r"scale\(age\): too few different values at all sites"):
        transform_of("scale(age)", given)
    given = {site: table.assign(age=np.where(table.age > 50, 1e6, 1e6 + 1)) for site, table in tables().items()}
    with pytest.raises(DataError, match=r"poly\(age, 2\): too few different values"):
        transform_of("poly(age, 2)", given)


def test_values_beyond_the_ends_of_a_spline() -> None:
    given = tables()
    given["bryn"].loc[17, "chol"] = 401.0
    with pytest.raises(InputError, match=r"bs\(chol, df=4\), row 17: outside 100 to 400.*extrapolation='clip'"):
        transform_of("bs(chol, df=4)", given)
    ends = in_units(transform_of("bs(chol, df=4, extrapolation='clip')", given), given["bryn"])
    assert np.allclose(ends[17], [0, 0, 0, 1], atol=1e-12)


# ── missing cells ──


def with_gaps() -> dict[str, pd.DataFrame]:
    rng, given = np.random.default_rng(3), tables()
    for table in given.values():
        table["sex"] = table.sex.astype(object)
        table.loc[rng.random(len(table)) < 0.1, "chol"] = np.nan
        table.loc[rng.random(len(table)) < 0.1, "sex"] = None
    return given


def schema_of(**chol: Any) -> Schema:
    sex = Categorical("sex", ("f", "m"), unseen="error", impute="mode")
    return Schema((COLUMNS[0], Numeric("chol", low=100, high=400, **chol), sex, *COLUMNS[3:]))


def test_missing_cells_become_means_and_modes_before_the_formula() -> None:
    given = with_gaps()
    formula = f"age * sex + bs(chol, {KNOTS})"
    transform = transform_of(formula, given, schema=schema_of())
    rows = pd.concat(given.values(), ignore_index=True)
    filled = rows.assign(chol=rows.chol.fillna(rows.chol.mean()), sex=rows.sex.fillna(rows.sex.mode()[0]))
    expected = reference(formula, filled).drop(columns="Intercept").to_numpy()
    assert np.allclose(in_units(transform, rows), expected, rtol=1e-12, atol=1e-9)
    shares = {name: missing for name, missing, _ in transform.gaps()}
    assert shares == pytest.approx({"chol": rows.chol.isna().mean(), "sex": rows.sex.isna().mean()})


def test_means_and_knots_are_those_of_observed_cells() -> None:
    given = with_gaps()
    transform = transform_of("scale(chol) + bs(chol, df=5)", given, schema=schema_of(impute=390))
    observed = pd.concat(given.values()).chol.dropna()
    assert transform.design is not None
    scaled, spline = transform.design.factors
    assert scaled.alpha[0] == pytest.approx(observed.mean(), rel=1e-12)  # type: ignore[union-attr]
    assert scaled.norms[1] == pytest.approx(((observed - observed.mean()) ** 2).sum(), rel=1e-12)  # type: ignore[union-attr]
    assert np.abs(np.array(spline.knots) - np.quantile(observed, [1 / 3, 2 / 3])).max() <= 3.0  # type: ignore[union-attr]


def test_an_indicator_of_missing_cells_comes_last() -> None:
    given = with_gaps()
    sex = Categorical("sex", ("f", "m"), unseen="zeros", indicator=True)
    schema = Schema((COLUMNS[0], Numeric("chol", indicator=True), sex, *COLUMNS[3:]))
    transform = transform_of("chol * sex", given, schema=schema)
    assert transform.feature_names() == ("chol", "sex[T.m]", "chol:sex[T.m]", "chol=missing", "sex=missing")
    rows = pd.concat(given.values(), ignore_index=True)
    D = transform.apply(rows)
    assert np.array_equal(D[:, 3], rows.chol.isna())
    assert np.array_equal(D[:, 4], rows.sex.isna())
    assert not D[rows.sex.isna(), 1].any()  # of no level


def test_complete_cases_of_the_formula_s_columns_alone() -> None:
    given = with_gaps()
    schema = Schema(tuple(replace(one, impute="complete") for one in schema_of().columns))
    for table in given.values():
        table["ward"] = None  # not in the formula
    preprocess = Preprocess(schema, formula="chol + sex")
    kept, said = fs.data.complete_cases(clients(given=given), preprocess)
    left = {client.name: client.n_samples for client in kept}
    assert left == {site: int(table[["chol", "sex"]].notna().all(axis=1).sum()) for site, table in given.items()}
    assert len(said) == 3
    fs.run(fs.Newton(LOSS), kept, preprocess=preprocess)


def test_a_mode_of_numbers_and_a_column_that_nobody_asks_for() -> None:
    given = with_gaps()
    for table in given.values():
        table["age"] = table.age.round(-1)
        table.loc[:5, "age"] = np.nan
    schema = Schema((Discrete("age", choices=(40, 50, 60)), *schema_of().columns[1:]))
    transform = transform_of("age", given, schema=schema)
    rows = pd.concat(given.values(), ignore_index=True)
    assert np.allclose(in_units(transform, rows)[:, 0], rows.age.fillna(rows.age.mode()[0]), rtol=1e-12)
    with pytest.raises(ConfigError, match="a formula cannot compute with missing cells, which impute='keep'"):
        Preprocess(schema_of(impute="keep"), formula="chol")
    Preprocess(schema_of(impute="keep"), formula="age")


def test_values_that_are_not_declared() -> None:
    given = tables()
    given["arden"].loc[3, "cp"] = 9
    for unseen, names in (("other", 3), ("zeros", 2)):
        schema = Schema((*COLUMNS[:3], Categorical("cp", (1, 2, 3), unseen=unseen), COLUMNS[4]))
        transform = transform_of("C(cp)", given, schema=schema)
        row = transform.apply(given["arden"])[3]
        assert len(row) == names
        assert row.tolist() == ([0, 0, 1] if unseen == "other" else [0, 0])
    with pytest.raises(InputError, match="none of the declared categories"):
        transform_of("C(cp)", given)


# ── what is not allowed ──

REJECTED = [
    ("age.__class__", "unknown column in the formula 'age.__class__'"),
    ("I(age.__class__)", "'age.__class__' cannot be computed in a formula; arithmetic on columns has"),
    ("__import__('os')", "'__import__' is not allowed in a formula; allowed are C with contr.SAS"),
    ("I(__import__('os').system('true'))", "cannot be computed in a formula"),
    ("{().__class__.__base__.__subclasses__()}", "is not allowed in a formula"),
    ("log.__globals__(age)", "not allowed in a formula"),
    ("I(log.__class__(age))", "cannot be computed in a formula"),
    ("bs(chol, df=(1).__class__)", "is no number, text or list of numbers that is written out"),
    ("bs(chol, knots=[x for x in [1]])", "is no number, text or list of numbers"),
    ("bs(chol, **{'df': 4})", "each once"),
    ("bs(*chol)", "cannot be computed"),
    ("C(cp, contr.__class__)", "categories are compared by contr.SAS"),
    ("C(cp, contr.treatment(base=age))", "is no number, text or list"),
    ("C(cp, contr.treatment.__init__)", "categories are compared by"),
    ("np.linalg.norm(age)", "'np.linalg.norm' is not allowed"),
    ("np.load('x')", "'np.load' is not allowed"),
    ("eval('1')", "'eval' is not allowed"),
    ("exec('1')", "'exec' is not allowed"),
    ("Q('age')", "'Q' is not allowed"),
    ("lag(age)", "'lag' is not allowed"),
    ("hashed(cp)", "'hashed' is not allowed"),
    ("offset(age)", "'offset' is not allowed"),
    ("age[0]", "cannot be computed"),
    ("I(age if age else 1)", "cannot be computed"),
    ("I([x for x in age])", "cannot be computed"),
    ("I(lambda: age)", "cannot be computed"),
    ("I(f'{age}')", "cannot be computed"),
    ("I((x := age))", "cannot be computed"),
    ("I(age @ chol)", "cannot be computed"),
    ("I('a' * age)", "cannot be computed"),
    ("I(age, 2)", "cannot be computed"),
    ("log(age, base=2)", "cannot be computed"),
    ("I(True)", "cannot be computed"),
    ("I(1 < age < 2)", "cannot be computed"),
    ("age + smoker", "unknown column in the formula 'smoker'"),
    ("log(chl)", "Did you mean 'chol'"),
    ("C(age)", "the schema declares no categories of age, and they are never collected.*write categories"),
    ("C(cp, levels=[1, 2])", "C does not take levels; the levels are those of the schema"),
    ("C(cp + 1)", "C takes a column"),
    ("C(cp, contr.treatment(base=7))", r"7 is none of the declared categories \[1.0, 2.0, 3.0\]"),
    ("C(cp, contr.sum(base=1))", "only the reference of contr.treatment can be chosen"),
    ("log(sex)", "sex has categories, with which one cannot compute"),
    ("bs(sex, df=4)", "sex has categories"),
    ("bs(age, df=4)", "say where the spline begins and ends: low and high of age in the schema, or lower_bound"),
    ("bs(age + chol, df=4)", "ends: lower_bound = ..., upper_bound"),
    ("cr(age, df=4)", "say where the spline begins and ends"),
    ("cr(chol)", "say df = how many columns"),
    ("bs(chol, df=4, knots=[200])", "and not both"),
    ("bs(chol, df=2)", "df is a whole number from 3 to 53, got 2"),
    ("bs(chol, df=4.5)", "df is a whole number"),
    ("bs(chol, knots=[50])", "knots are different numbers between 100 and 400"),
    ("bs(chol, knots=200)", "knots are a list"),
    ("bs(chol, degree=10)", "degree is a whole number from 1 to 9"),
    ("bs(chol, df=4, extrapolation='na')", "extrapolation is 'raise', 'clip' or 'extend'"),
    ("bs(chol, lower_bound=500)", "the spline begins below where it ends"),
    ("bs(chol, lower_bound='a')", "lower_bound is a number"),
    ("bs(chol, 4, 3, 2, True, 1, 2, 'clip', 9)", "bs takes df, knots"),
    ("bs()", "bs is of a column"),
    ("cr(chol, df=4, constraints='sum')", "constraints is 'center' or left out"),
    ("poly(age, 0)", "degree is a whole number from 1"),
    ("poly(age, 2, raw=1)", "raw is True or False"),
    ("scale(age, center=5)", "center is True or False"),
    ("center(bs(chol))", "bs stands by itself"),
    ("bs(center(chol), df=4)", "center stands by itself"),
    ("I(C(cp))", "C stands by itself"),
    ("I(2)", "it has no column"),
    ("1", "the formula has no column"),
    ("age +", "is no formula that can be read"),
    ("((((", "is no formula that can be read"),
    ("age | sex", "is no formula that can be read"),
    ("[age ~ sex]", "left of ~ stands the column to predict by itself"),
    ("3", "is no formula that can be read"),
    ("`age", "is no formula that can be read"),
    ("I(age", "is no formula that can be read"),
    ("age ** sex", r"\*\* and \^ take a whole number from 1 to 9; for a power write I\(age \*\* 2\)"),
    ("age ** 12", "take a whole number from 1 to 9"),
    ("(age + sex + cp + chol) ** 9", "a formula has at most 2,000 terms, and this one up to 262,145"),
    ("*".join(f"I(age + {k})" for k in range(30)), "at most 2,000 terms"),
    ("log(y) ~ age", "left of ~ stands the column to predict by itself"),
    ("y ~ x ~ age", "left of ~ stands"),
    ("y ~", "nothing stands right of ~"),
    ("", "a formula is a text such as"),
    ("a" * 20_000, "at most 10,000 characters"),
    ("I(" + "-" * 9_000 + "age)", "can be read|cannot be computed"),
    ("I(" + "(" * 400 + "age" + ")" * 400 + ")", "can be read"),
]


@pytest.mark.parametrize(("formula", "said"), REJECTED)
def test_what_is_not_allowed_is_rejected_with_what_is(formula: str, said: str) -> None:
    with pytest.raises((ConfigError, UnknownName), match=said):
        Preprocess(SCHEMA, formula=formula)


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """formulaic itself would: this shows that the attempts are real ones, and that they get nowhere here."""
    there, here = tmp_path / "there", tmp_path / "here"
    frame = pd.DataFrame({"age": [1.0, 2.0]})
    attack = "I(age * len(str(__builtins__['open']('{}', 'w'))))"
    with pytest.warns(ResourceWarning):
        model_matrix(attack.format(there), frame)
    assert there.exists()
    monkeypatch.setattr("builtins.eval", pytest.fail)
    monkeypatch.setattr("builtins.exec", pytest.fail)
    with pytest.raises(InputError):
        Preprocess(Schema((Numeric("age"),)), formula=attack.format(here))
    assert not here.exists()
    with pytest.raises(ConfigError):
        compute("age.__class__", {"age": np.ones(2)})


def test_a_saved_formula_is_checked_when_it_is_read() -> None:
    """A model file is data, also one that somebody has written by hand."""
    plain = json.loads(json.dumps(transform_of("age + log(chol)").to_plain()))
    Transform.from_plain(plain)
    for source in ("age.__class__", "__import__('os')", "2", "nobody", "sex"):
        wrong = json.loads(json.dumps(plain))
        wrong["design"]["factors"][1]["source"] = source
        with pytest.raises(DataError):
            Transform.from_plain(wrong)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("factors", 0, "knots"), [230.0, 180.0]),
        (("factors", 0, "knots"), [230.0]),
        (("factors", 0, "low"), 500.0),
        (("factors", 0, "degree"), 100),
        (("factors", 1, "norms"), [1.0, -1.0, 1.0]),
        (("factors", 2, "coding"), [[1.0], [1.0, 0.0]]),
        (("products", 0, "parts"), [[0, 99]]),
        (("products", 0, "parts"), []),
        (("scale",), [1.0]),
        (("names",), []),
    ],
)
def test_a_saved_design_is_sound(path: tuple[Any, ...], value: Any) -> None:
    plain = json.loads(json.dumps(transform_of(f"bs(chol, {KNOTS}) + poly(age, 2) + sex").to_plain()))
    *inner, last = path
    table = plain["design"]
    for step in inner:
        table = table[step]
    assert last in (table if isinstance(table, dict) else range(len(table)))
    table[last] = value
    with pytest.raises(DataError):
        Transform.from_plain(plain)


# ── beside other things ──


def test_sides() -> None:
    assert sides("ill ~ age + sex") == ("ill", " age + sex")
    assert sides("~ age") == (None, " age")
    assert sides("`was ill` ~ age")[0] == "was ill"
    assert has_intercept("y ~ age")
    assert not has_intercept("y ~ age - 1")
    assert not has_intercept("0 + .")


def test_without_formulaic(monkeypatch: pytest.MonkeyPatch) -> None:
    read.cache_clear()
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ConfigError, match=r'a formula needs formulaic: pip install "fedsolve\[formula\]"'):
        Preprocess(SCHEMA, formula="age + cp:sex")


def test_without_a_schema_all_columns_are_numbers() -> None:
    given = {site: table.drop(columns=["sex", "cp", "ward"]) for site, table in tables().items()}
    made = [fs.Client(site, table[["age", "chol", "stay"]], table.ill) for site, table in given.items()]
    run = fs.run(fs.Newton(LOSS), made, preprocess=Preprocess(formula="age * log(chol)"))
    assert run.model.feature_names == ("age", "log(chol)", "age:log(chol)")
    nameless = [fs.Client(site, table[["age", "chol"]].to_numpy(), table.ill) for site, table in given.items()]
    with pytest.raises(DataError, match="a formula is of columns by name, and the clients' columns have none"):
        fs.run(fs.Newton(LOSS), nameless, preprocess=Preprocess(formula="age"))
    with pytest.raises(UnknownName, match="unknown column in the formula 'sex'"):
        fs.run(fs.Newton(LOSS), made, preprocess=Preprocess(formula="sex"))


def test_columns_in_another_order_at_each_site() -> None:
    formula, order = "age * sex + .", [column.name for column in COLUMNS[:4]]
    schema = Schema(COLUMNS[:4])
    expected = fs.run(
        fs.Newton(LOSS),
        [fs.Client(site, one[order], one.ill) for site, one in tables().items()],
        preprocess=Preprocess(schema, formula=formula),
    )
    turned = [
        fs.Client(site, one[order[shift:] + order[:shift]], one.ill)
        for shift, (site, one) in enumerate(tables().items())
    ]
    found = fs.run(fs.Newton(LOSS), turned, preprocess=Preprocess(schema, formula=formula))
    assert np.array_equal(found.model.w, expected.model.w)


def test_a_sparse_client_is_rejected() -> None:
    sparse = fs.Client("a", sp.csr_array(np.eye(8)[:, :2]), np.arange(8) % 2, feature_names=["u", "v"])
    with pytest.raises(InputError, match="sparse"):
        fs.run(fs.Newton(LOSS), [sparse], preprocess=Preprocess(formula="u + v"))


def test_a_client_that_declares_another_formula_does_not_answer() -> None:
    ours, theirs = (Preprocess(SCHEMA, formula=one) for one in ("age + sex", "age * sex"))
    made = clients()[0]
    transform = fs.run(fs.Newton(LOSS), clients(), preprocess=theirs, rounds=0).model.transform
    for step in (ours.term_sums, ours.made_totals, ours.adopt):
        with pytest.raises(fs.errors.ProtocolMismatch, match="another formula"):
            step(made, transform)
    declared = transform_of("bs(chol, knots=[200])")
    assert declared.design is not None
    moved = replace(declared.design, factors=(replace(declared.design.factors[0], knots=(201.0,)),))
    own = Preprocess(SCHEMA, formula="bs(chol, knots=[200])")
    with pytest.raises(fs.errors.ProtocolMismatch, match="another formula"):
        own.adopt(made, replace(declared, design=moved))


def test_not_finite_values_are_named_by_row() -> None:
    given = tables()
    given["corrie"].loc[5, "age"] = 0.0
    with pytest.raises(InputError, match=r"log\(age\), row 5: not a finite number"):
        transform_of("log(age)", given)
    with pytest.raises(InputError, match="values too large"):
        transform_of("poly(age, 9, raw=True)", {s: t.assign(age=t.age * 1e40) for s, t in tables().items()})


def test_the_intercept_is_said_once() -> None:
    for formula, intercept, said in (
        ("age", None, "the formula has an intercept and Logistic has none: say intercept = 'free'"),
        ("age - 1", "free", "the formula has no intercept and Logistic has one"),
    ):
        loss = fs.Logistic(l2=0.01, intercept=intercept)
        with pytest.raises(ConfigError, match=said):
            fs.run(fs.Newton(loss), clients(), preprocess=Preprocess(SCHEMA, formula=formula))


def test_trees_of_a_formula_s_columns() -> None:
    boosted = fs.FFGB(fs.Logistic(), fs.Trees(depth=2), steps=2)
    run = fs.run(boosted, clients(), preprocess=Preprocess(SCHEMA, formula="age * sex"), rounds=3)
    assert run.model.predict(pooled()).shape == (580,)
