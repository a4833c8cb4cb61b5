"""`formula` in run files: fit, table and predictions in its terms, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from tests.data.hospitals import pooled, tables

from .conftest import Command

RUN = """
[data]
files = {{ arden = "arden.csv", bryn = "bryn.csv", corrie = "corrie.csv" }}
drop = ["stay", "pressure"]
{data}

[preprocess]
{preprocess}
formula = "{formula}"

[[preprocess.schema]]
name = "age"
[[preprocess.schema]]
name = "chol"
low = 100
high = 400
impute = "complete"
[[preprocess.schema]]
name = "sex"
categories = ["f", "m"]
unseen = "error"
[[preprocess.schema]]
name = "cp"
categories = [1, 2, 3]
unseen = "error"
[[preprocess.schema]]
name = "ward"
categories = ["blue", "green"]

[algorithm]
name = "Newton"
loss = {{ name = "Logistic", intercept = "free" }}

[run]
tolerance = 1e-10

[summary]

[output]
figures = false
"""
FORMULA = "ill ~ age * sex + bs(chol, knots=[180, 230]) + C(cp)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for site, table in tables().items():
        given = table.assign(ill=table.ill.astype(int))
        given.loc[:3, "chol"] = np.nan
        given.to_csv(tmp_path / f"{site}.csv", index=False)
    return tmp_path


def write(folder: Path, formula: str = FORMULA, data: str = "", preprocess: str = "") -> Path:
    path = folder / "run.toml"
    path.write_text(RUN.format(formula=formula, data=data, preprocess=preprocess))
    return path


@pytest.mark.parametrize("data", ["", 'target = "ill"'])
def test_a_formula_is_fitted_and_predicts(folder: Path, data: str, command: Command) -> None:
    done = command("run", write(folder, data=data), "--output", folder / "out", "--json")
    assert done.status == 0, done.err
    found = {row["name"]: row for row in done.json["inference"]["coefficients"]}
    complete = pooled().groupby("site", group_keys=False).apply(lambda rows: rows.iloc[4:], include_groups=False)
    text = FORMULA.replace("knots=[180, 230]", "knots=(180, 230), lower_bound=100, upper_bound=400")
    expected = smf.glm(text, complete, family=sm.families.Binomial()).fit(tol=1e-14)
    assert found["age:sex[T.m]"]["estimate"] == pytest.approx(expected.params["age:sex[T.m]"], rel=1e-6)
    assert found["C(cp)[T.3]"]["error"] == pytest.approx(expected.bse["C(cp)[T.3]"], rel=1e-6)
    assert [name for name in found if name.startswith("bs")] == [
        f"bs(chol, knots=[180, 230])[{k}]" for k in range(1, 6)
    ]

    rows = pooled().sample(20, random_state=0)
    rows[["sex", "age", "cp", "chol", "ill"]].assign(ward="nobody asks").to_csv(folder / "new.csv", index=False)
    for drop in ((), ("ward",)):
        pd.read_csv(folder / "new.csv").drop(columns=list(drop)).to_csv(folder / "some.csv", index=False)
        predicted = command(
            "predict", folder / "out", folder / "some.csv", "--target", "ill", "--output", folder / "p.csv", "--force"
        )
        assert predicted.status == 0, predicted.err
        probabilities = pd.read_csv(folder / "p.csv").iloc[:, -1]
        assert probabilities.to_numpy() == pytest.approx(expected.predict(rows).to_numpy(), rel=1e-6)
    pd.read_csv(folder / "new.csv").drop(columns="chol").to_csv(folder / "some.csv", index=False)
    lacking = command("predict", folder / "out", folder / "some.csv", "--output", folder / "p.csv", "--force")
    assert lacking.status == 2
    assert "no column 'chol'" in lacking.sentence


def test_site_intercepts_are_a_term(folder: Path, command: Command) -> None:
    done = command(
        "run",
        write(folder, "ill ~ age * sex", preprocess="site_intercepts = true"),
        "--output",
        folder / "out",
        "--json",
    )
    assert done.status == 0, done.err
    names = [row["name"] for row in done.json["inference"]["coefficients"]]
    assert names == ["(intercept)", "age", "sex[T.m]", "site[T.bryn]", "site[T.corrie]", "age:sex[T.m]"]


@pytest.mark.parametrize(
    ("formula", "data", "said"),
    [
        ("sick ~ age", 'target = "ill"', "data.target is 'ill', and preprocess.formula has 'sick' left of ~"),
        ("age", "", "target"),
        ("ill ~ age + smoker", "", "unknown column in the formula 'smoker'"),
        ("ill ~ bs(age, df=4)", "", "say where the spline begins and ends: low and high of age in the schema"),
        ("ill ~ I(age.__class__)", "", "cannot be computed in a formula"),
        ("log(ill) ~ age", "", "left of ~ stands the column to predict by itself"),
        ("ill ~ age - 1", "", "the formula has no intercept and Logistic has one"),
        ("ill ~ C(age)", "", "the schema declares no categories of age"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    folder: Path, formula: str, data: str, said: str, command: Command
) -> None:
    done = command("run", write(folder, formula, data), "--output", folder / "out")
    assert done.status == 2
    assert said in done.sentence


def test_a_named_data_set_has_its_own_target(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.toml"
    text = """
        [data]
        dataset = "breast_cancer"
        [partition]
        scheme = "iid"
        clients = 3
        [preprocess]
        formula = "%s`mean radius` * log(`mean area`)"
        [algorithm]
        name = "Newton"
        loss = { name = "Logistic", intercept = "free" }
        [summary]
        [output]
        figures = false
    """
    path.write_text(text % "")
    done = command("run", path, "--output", tmp_path / "out", "--json")
    assert done.status == 0, done.err
    names = [row["name"] for row in done.json["inference"]["coefficients"]]
    assert names == ["(intercept)", "mean radius", "log(`mean area`)", "mean radius:log(`mean area`)"]
    path.write_text(text % "y ~ ")
    done = command("run", path, "--output", tmp_path / "other")
    assert done.status == 2
    assert "a data set has a target of its own: leave y ~ out" in done.sentence
