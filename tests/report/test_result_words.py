"""The first sentences of a report, and what stands below its coefficients, are true of the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.inference.forest import drawn
from fedsolve.report.result_words import _further, result_sentences
from fedsolve.report.sent_words import section_parts

SCHEMA = Schema(
    (
        Numeric("age"),
        Categorical("smoker", ("never", "current"), unseen="error", drop_first=True),
        Numeric("noise", impute=0.0),
    )
)


def clients(rows: int = 150, family: str = "binomial") -> list[fs.Client]:
    made = []
    for seed, name in enumerate(("arden", "bryn")):
        rng = np.random.default_rng(seed)
        X = np.empty((rows, 3), dtype=object)
        X[:, 0], X[:, 1], X[:, 2] = (
            rng.normal(60, 12, rows),
            rng.choice(["never", "current"], rows),
            rng.normal(size=rows),
        )
        eta = (X[:, 0].astype(float) - 60) / 12 + 1.5 * (X[:, 1] == "current") - 0.5
        y = {
            "binomial": rng.random(rows) < 1 / (1 + np.exp(-eta)),
            "Poisson": rng.poisson(np.exp(eta / 2)),
            "Gaussian": eta + rng.normal(size=rows),
        }[family].astype(float)
        X[: 7 + seed, 0] = np.nan
        X[:2, 2] = np.nan
        classes = ("no", "yes") if family == "binomial" else None
        labels = np.array(classes, dtype=object)[y.astype(int)] if classes else y
        made.append(fs.Client(name, X, labels, feature_names=[one.name for one in SCHEMA.columns], classes=classes))
    return made


LOSSES = {"binomial": fs.Logistic, "Poisson": fs.Poisson, "Gaussian": fs.Squared}


def fitted(family: str = "binomial", l2: float = 0.0) -> fs.Run:
    run = fs.run(
        fs.Newton(LOSSES[family](l2=l2, intercept="free")), clients(family=family), preprocess=Preprocess(SCHEMA)
    )
    return replace(run, model=run.model.with_classes(("no", "yes"))) if family == "binomial" else run


def test_a_complete_fit_and_its_effects() -> None:
    run = fitted()
    found = run.summary()
    fit, effects = result_sentences(run, 300, found, "ill")
    assert fit == "The fit is complete, and equals a fit to all 300 rows together."
    lines = {one.name: one for one in found.coefficients()}
    smoker, age = lines["smoker=current"], lines["age"]
    ratios = [np.exp(one) for one in (smoker.estimate, smoker.low, smoker.high)]
    low, mid, high = (np.exp(age.standardised + z * age.standardised_error) for z in (-1.959964, 0, 1.959964))
    said = f"{ratios[0]:.1f} times ({ratios[1]:.1f} to {ratios[2]:.1f}) as high for smoker current, compared with never"
    assert effects.startswith("The odds of ill being “yes” are ")
    assert said in effects
    assert f"{mid:.1f} times ({low:.1f} to {high:.1f}) as high for one standard deviation more of age" in effects
    assert "noise" not in effects


@pytest.mark.parametrize(
    ("family", "start"), [("Poisson", "The rate of visits is "), ("Gaussian", "Visits is higher by ")]
)
def test_other_outcomes(family: str, start: str) -> None:
    run = fitted(family)
    assert result_sentences(run, 300, run.summary(), "visits")[1].startswith(start)


def test_no_more_is_said_than_is_known() -> None:
    penalised = fitted(l2=0.1)
    assert result_sentences(penalised, 300, penalised.summary()) == [
        "The fit is complete, and equals a fit to all 300 rows together with the same penalty."
    ]
    short = fs.run(fs.AGD(fs.Logistic(l2=0.01)), clients(), preprocess=Preprocess(SCHEMA), rounds=2)
    assert result_sentences(short, 300, None) == []
    nothing = fs.run(
        fs.Newton(fs.Squared(intercept="free")),
        [fs.Client("a", np.random.default_rng(1).normal(size=(40, 1)), np.random.default_rng(2).normal(size=40))],
    )
    assert (
        result_sentences(nothing, 40, nothing.summary())[1]
        == "No column has an effect whose 95 % interval leaves out zero."
    )


def test_what_the_table_leaves_open() -> None:
    found = fitted().summary()
    assert found.legend == (
        "yes counts as 1, no as 0: the odds are those of yes.",
        "smoker: compared with never.",
        "Missing cells replaced by the mean of all sites: 15 (age 15).",
        "Missing cells replaced by 0: noise fewer than 5.",
    )
    assert all(line in str(found) for line in found.legend)
    assert found.to_dict()["legend"] == list(found.legend)
    assert fitted("Gaussian").summary().legend[0] == "smoker: compared with never."


def test_effects_that_would_be_dots_are_drawn_by_standard_deviation() -> None:
    found = fitted().summary()  # a year of age beside a category
    assert "of one standard deviation" in drawn(found).axes[0].get_xlabel()
    assert "of one raw unit" in drawn(found, False).axes[0].get_xlabel()
    assert drawn(found).axes[0].get_xscale() == "log"


def test_whether_few_rows_applies() -> None:
    text = "".join(section_parts(fitted()))
    assert "the site with the fewest rows, arden, has 150 for 4 coefficients: three or more for each" in text
    rng = np.random.default_rng(0)
    few = [fs.Client(name, rng.normal(size=(8, 3)), rng.normal(size=8)) for name in ("a", "b")]
    run = fs.run(fs.Newton(fs.Squared(l2=0.1, intercept="free")), few, min_rows=0)
    assert "has 8 for 4 coefficients: fewer than three for each, which is few." in "".join(section_parts(run))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (0, ""),
        (1, " One more column has an effect: x0."),
        (2, " 2 more columns have an effect: x0 and x1."),
        (9, " 9 more columns have an effect: x0, x1, x2, x3, x4, x5 and 3 more."),
    ],
)
def test_further_columns_are_named(names: int, said: str) -> None:
    assert _further([f"x{j}" for j in range(names)]) == said
