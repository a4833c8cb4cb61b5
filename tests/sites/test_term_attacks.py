"""A server that gets at rows by the terms of a run: names, parts, feature maps, choices, folds.

Each of these was accepted before the rules on terms ran over every part of a run (docs/threat-model.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import FedsolveError, PolicyRefusal
from fedsolve.features import Monomials, Nystroem, NystroemRange, Polynomial, Transformer
from fedsolve.learners import RidgeLearner
from fedsolve.plain import to_plain
from fedsolve.selection.fits import FoldFits
from fedsolve.selection.folds import fold_of_samples
from fedsolve.selection.sums import FoldSums
from fedsolve.sites import HeldOut, Site, SiteTransport, Terms, read_site_file
from fedsolve.sites.known_protocols import described
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import COLUMNS, DECLARED, LOSS, PREPROCESS, Hospitals, hospitals, site_text, terms

NEWTON = fs.Newton(LOSS)
POINT = np.array([[0.3, 0.1, 1.0]])
NARROW = NystroemRange((0.3, 0.1, 1.0), (0.3 + 1e-9, 0.1 + 1e-9, 1.0 + 1e-9), 1, 1e6)
HAT = Transformer("SplineTransformer", {"degree": 1, "knots": [[0.1, -9.0, -1.0], [0.2, 0.0, 0.5], [0.3, 9.0, 2.0]]})


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def begun(found: Hospitals, plain: dict[str, Any]) -> Site:
    """A site that was sent these protocols, as JSON."""
    return Site(read_site_file(found.files["arden"]), Terms.from_json(Terms(terms().run, plain).to_json()))


def refused(found: Hospitals, rule: str, **protocols: object) -> None:
    """Whether a site refuses to begin a run with these protocols, by this rule."""
    with pytest.raises(PolicyRefusal, match=f"rule {rule!r}"):
        begun(found, described({"preprocess": PREPROCESS, "algorithm": NEWTON, **protocols}))


IN_THE_PLACE_OF_A_FIELD = {
    "diagnosis": fs.diagnose.Heterogeneity(LOSS),
    "batches of one": fs.FedAvg(LOSS, fs.GradientSteps(1, batch_size=1, step_size=0.1)),
    "network": fs.FedAvg(fs.Network(fs.MLP((4,)), fs.Logistic()), fs.GradientSteps(1, step_size=0.1)),
    "landmarks": fs.Newton(fs.Logistic(l2=0.1, features=Nystroem(POINT, gamma=1e6))),
    "leaves of one": fs.FFGB(fs.Logistic(), fs.Trees(min_rows=1)),
    "bins of one": fs.Evaluation(LOSS, least=1),
    "an algorithm that is not on the list": fs.FedNewtonCG(LOSS),
}


@pytest.mark.parametrize("what", IN_THE_PLACE_OF_A_FIELD)
def test_60_a_protocol_in_the_place_of_a_field(what: str, tmp_path: Path) -> None:
    """Under the name of Newton's own line search it was no root, and no rule of consent looked at it."""
    found = hospitals(tmp_path, policy='algorithms = ["Newton"]\nalso = []')
    plain = described({"algorithm": NEWTON, "preprocess": PREPROCESS})
    with pytest.raises(PolicyRefusal, match=r"'algorithm.search'.*rule 'terms'"):
        begun(found, {**plain, "algorithm.search": to_plain(IN_THE_PLACE_OF_A_FIELD[what])})


@pytest.mark.parametrize("name", ["algorithm.", ".search", "a.b", "stopping.0/../x", "session\nrun", "", "x" * 65, "1"])
def test_60b_names_that_are_none(name: str, found: Hospitals) -> None:
    plain = described({"algorithm": NEWTON, "preprocess": PREPROCESS})
    with pytest.raises(PolicyRefusal, match=r"is no name of a protocol.*rule 'terms'"):
        begun(found, {**plain, name: to_plain(fs.Evaluation(LOSS, least=5))})


def test_60c_a_field_of_a_stopping_rule(found: Hospitals) -> None:
    """The loop calls stopping rules `stopping.0`, so that these names have a dot; their fields are theirs too."""
    rule = fs.EarlyStopping(fs.Squared())
    plain = described({"algorithm": fs.FedAvg(fs.Squared()), "preprocess": PREPROCESS, "stopping.0": rule})
    with pytest.raises(PolicyRefusal, match=r"'stopping.0.loss', which is a field of 'stopping.0'.*rule 'terms'"):
        begun(found, {**plain, "stopping.0.loss": to_plain(fs.Evaluation(fs.Squared(), least=5))})


def test_60d_a_name_that_forges_a_line_of_the_log(found: Hospitals) -> None:
    """What is told and written down has it in quotes."""
    plain = described({"algorithm": NEWTON, "preprocess": PREPROCESS})
    with pytest.raises(PolicyRefusal) as said:
        begun(found, {**plain, "x\nRun ffff: nothing was refused": to_plain(fs.diagnose.Heterogeneity(LOSS))})
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("policy", "solver", "rule"),
    [
        ('algorithms = ["SHED"]\nalso = ["Heterogeneity"]', NEWTON, "algorithms"),
        ('also = ["Heterogeneity"]\nrefuse = ["Newton.evaluate"]', NEWTON, "refuse"),
        ('also = ["Heterogeneity"]', fs.Newton(fs.Logistic(l2=0.1, features=NARROW)), "features"),
    ],
)
def test_61_an_algorithm_inside_a_diagnosis(policy: str, solver: fs.Newton, rule: str, tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy=policy)
    plain = described({"algorithm": fs.SHED(LOSS), "preprocess": PREPROCESS})
    inner = to_plain(fs.diagnose.Heterogeneity(LOSS, solver=solver))
    with pytest.raises(PolicyRefusal, match=f"rule {rule!r}"):
        begun(found, {**plain, "heterogeneity": inner})


@pytest.mark.parametrize(
    ("field", "inside"),
    [
        ("search", fs.FedAvg(LOSS)),
        ("search", fs.Evaluation(LOSS, least=1)),
        ("search", fs.diagnose.Heterogeneity(LOSS)),
        ("loss", NEWTON),
        ("loss", fs.Trees()),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_62_a_field_of_another_kind(field: str, inside: object, found: Hospitals) -> None:
    plain: dict[str, Any] = described({"algorithm": NEWTON, "preprocess": PREPROCESS})
    plain["algorithm"] |= {field: to_plain(inside)}
    with pytest.raises(PolicyRefusal, match="rule 'terms'"):
        begun(found, plain)


MAPS = [
    Nystroem(POINT, gamma=1e6),
    NARROW,
    HAT,
    fs.RandomFourier(10, gamma=300.0),
    Polynomial(3),
    Monomials(7),
    Transformer("PolynomialFeatures", {"degree": 2}),
]


@pytest.mark.parametrize("made", MAPS, ids=lambda one: type(one).__name__)
def test_63_columns_by_a_feature_map(made: Any, found: Hospitals) -> None:
    loss = fs.Logistic(l2=0.1, features=made)
    refused(found, "features", algorithm=fs.Newton(loss))
    refused(found, "features", evaluation=fs.Evaluation(loss, least=5))
    refused(found, "features", summary=fs.StandardErrors(loss))
    refused(found, "features", algorithm=fs.FFGB(fs.Logistic(), RidgeLearner(features=made)))
    refused(found, "features", algorithm=fs.Newton(LOSS, fs.Armijo(loss=loss)))


def test_63b_a_transformer_is_allowed_by_its_own_name(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='features = ["PolynomialFeatures", "Polynomial"]')
    for made in (Polynomial(2), Transformer("PolynomialFeatures", {"degree": 2})):
        plain = described({"algorithm": fs.Newton(fs.Logistic(l2=0.1, features=made)), "preprocess": PREPROCESS})
        assert begun(found, plain).guard
    refused(found, "features", algorithm=fs.Newton(fs.Logistic(l2=0.1, features=HAT)))


def test_64_another_formula_than_the_one_that_was_read(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='formulas = ["age * sex + pressure"]')
    for formula, allowed in (("age * sex\n + pressure", True), ("age * sex + I(age > 83.1)", False)):
        plain = described({"algorithm": NEWTON, "preprocess": fs.data.Preprocess(PREPROCESS.schema, formula=formula)})
        if allowed:
            assert begun(found, plain).guard
            continue
        with pytest.raises(PolicyRefusal, match="rule 'formulas'"):
            begun(found, plain)


def test_65_choices_of_the_servers_own(tmp_path: Path) -> None:
    """`totals` counts the rows of each choice: a value that is one person's would be counted as 1."""
    found = hospitals(tmp_path)
    for name, path in found.files.items():
        declared = DECLARED.replace('name = "age"', 'name = "age"\nchoices = [0, 1]')
        path.write_text(site_text(name, declared=declared))
    ages = sorted({float(line.split(",")[0]) for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]})
    odd = fs.data.Preprocess(Schema.from_plain([{"name": "age", "choices": ages[:4]}, *COLUMNS[1:]]))
    with pytest.raises(FedsolveError, match=r"other choices.*'terms'"), joined(found, NEWTON, preprocess=odd) as fed:
        fed.gather(odd.totals)


def test_65b_another_range_than_the_site_declares(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    for name, path in found.files.items():
        path.write_text(site_text(name, declared=DECLARED.replace('"age"', '"age"\nlow = 0\nhigh = 120')))
    for low, high, fits in ((0, 120, True), (83.1, 83.2, False)):
        column = {"name": "age", "scaling": "range", "low": low, "high": high}
        made = fs.data.Preprocess(Schema.from_plain([column, *COLUMNS[1:]]))
        plain = described({"algorithm": NEWTON, "preprocess": made})
        if fits:
            assert begun(found, plain).guard
            continue
        with pytest.raises(PolicyRefusal, match=r"another range.*rule 'terms'"):
            begun(found, plain)


def test_66_what_one_loss_refuses_asked_by_another(found: Hospitals) -> None:
    """`largest_loss` is for classes; least squares has no limit to how far out it may be asked."""
    refused(found, "terms", summary=fs.StandardErrors(fs.Squared(intercept="free")))


def test_67_folds_of_one_row(tmp_path: Path) -> None:
    """A site that answers cross-validation answers for folds of some rows, not of one."""
    found = hospitals(tmp_path, policy='also = ["FoldSums", "FoldFits"]')
    squared = fs.Squared(intercept="free")
    refused(found, "min_rows", algorithm=fs.Newton(squared), folds=FoldSums((squared,), 60, 0))
    refused(found, "min_rows", folds=FoldFits((LOSS,), 13, 0))
    plain = described({"algorithm": NEWTON, "preprocess": PREPROCESS, "folds": FoldFits((LOSS,), 10, 0)})
    site = begun(found, plain)
    assert np.bincount(fold_of_samples(site.client, 10, 0)).min() >= 5


def test_81_a_fit_to_the_largest_errors(found: Hospitals) -> None:
    """A minimax fit depends on the few rows that are farthest away, and on no others."""
    refused(found, "min_rows", algorithm=fs.FFGB(fs.Logistic(), fs.learners.Minimax(RidgeLearner())))
    refused(found, "min_rows", algorithm=fs.FFGB(fs.Logistic(), fs.learners.Minimax(fs.Trees())))


def test_82_missing_cells_that_stay_missing(found: Hospitals) -> None:
    """What is computed with NaN tells which rows have one; trees take them, and nothing else does."""
    kept = fs.data.Preprocess(Schema.from_plain([COLUMNS[0], {**COLUMNS[1], "impute": "keep"}, COLUMNS[2]]))
    refused(found, "terms", preprocess=kept)
    assert begun(found, described({"preprocess": kept, "algorithm": fs.FFGB(fs.Logistic(), fs.Trees())})).guard


def test_rules_of_a_run_that_stops_early_are_no_fields_of_anything(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    patience = fs.Patience(evaluation=fs.Evaluation(LOSS, least=5))
    asked = Terms(terms().run, held_out=HeldOut(0.3))
    run = fs.run(
        NEWTON,
        SiteTransport(Direct(found.files), asked),
        preprocess=PREPROCESS,
        stopping=[patience, fs.Stopping(rounds=5)],
    )
    assert all(not row.missing for row in run.history)
