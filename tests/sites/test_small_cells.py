"""Questions that every honest run asks, where they are about one person: cells, categories and classes of one row.

Each of these gave the row away before columns had rules of their own (docs/threat-model.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, PolicyRefusal
from fedsolve.loop.measure_protocols import Measure
from fedsolve.sites import HeldOut, Site, Terms, read_site_file
from fedsolve.sites.known_protocols import described
from fedsolve.sites.small_cells import Least, check_columns
from fedsolve.text import MOST_LISTED
from tests.sites.altered import NEWTON, begins, edited, gaps, schema
from tests.sites.curious import joined
from tests.sites.hospitals import COLUMNS, DECLARED, LOSS, PREPROCESS, hospitals, site_text, terms


def test_68_somebody_who_is_alone_in_a_category(tmp_path: Path) -> None:
    """H[category] / H[category, intercept] at w = 0 is that row."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row == 19 else "f", cells[3]])
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*rule 'min_cell'") as said:
        begins(found)
    assert "'m'" not in str(said.value)
    assert not any(letter.isdigit() for letter in str(said.value))


def test_68f_all_that_are_rare_are_named_at_once(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: ["70" if row == 5 else "60", cells[1], "m" if row == 19 else "f", cells[3]])
    with pytest.raises(PolicyRefusal, match=r"in column 'sex', column 'age', and sums") as said:
        begins(found)
    assert not any(letter.isdigit() for letter in str(said.value))


def test_68g_as_many_are_named_as_can_be_read() -> None:
    ones, many = np.eye(100)[:, :50], [f"column {place}" for place in range(50)]
    with pytest.raises(PolicyRefusal, match=rf"column {MOST_LISTED - 1} and {50 - MOST_LISTED} more, and sums"):
        check_columns(lambda: (ones,), many, Least(3))
    with pytest.raises(PolicyRefusal, match=r"in column 0 among the rows that this run sets aside, and sums"):
        check_columns(lambda: (ones,), many, Least(3, held=True))
    with pytest.raises(PolicyRefusal, match=r"in column 0, and sums"):  # a column is named once
        check_columns(lambda: (ones,), ["column 0"] * 50, Least(3))
    check_columns(lambda: (ones,), many, Least(1))


def test_71c_pairs_beside_columns() -> None:
    """A column that is rare by itself is not named again with each that it differs from in few rows."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, 100).astype(float)
    other = np.where(np.arange(100) == 7, 1 - one, one)
    rare = (np.arange(100) == 3).astype(float)
    with pytest.raises(PolicyRefusal, match=r"in c, what a and b have in common, and sums"):
        check_columns(lambda: (np.stack([one, other, rare], axis=1),), ["a", "b", "c"], Least(3))


@pytest.mark.parametrize(("others", "refused"), [(0, False), (1, True), (2, True), (3, False)])
def test_68b_so_many_are_a_few(others: int, refused: bool, tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row < others else "f", cells[3]])
    if refused:
        with pytest.raises(PolicyRefusal, match="min_cell"):
            begins(found)
    else:
        begins(found)
    found.files["arden"].write_text(site_text("arden", "min_cell = 1"))
    begins(found)


def test_68c_a_category_that_has_no_column(tmp_path: Path) -> None:
    """With a reference left out, 1 less all other columns is that column."""
    found = hospitals(tmp_path)
    declared = DECLARED.replace('["f", "m"]', '["x", "f", "m"]')
    for name, path in found.files.items():
        path.write_text(site_text(name, declared=declared))
    made = schema(sex={"categories": ["x", "f", "m"], "drop_first": True})
    begins(found, made)
    edited(tmp_path, lambda row, cells: [*cells[:2], "x" if row == 19 else cells[2], cells[3]])
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*rule 'min_cell'"):
        begins(found, made)


@pytest.mark.parametrize("unseen", ["other", "zeros"])
def test_68d_somebody_in_no_declared_category(unseen: str, tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:2], "u" if row == 19 else cells[2], cells[3]])
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*rule 'min_cell'"):
        begins(found, schema(sex={"unseen": unseen, "drop_first": False}))


def test_68e_a_number_that_is_one_persons(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [cells[0], "3" if row == 19 else "0", *cells[2:]])
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'min_cell'"):
        begins(found)


def test_69_somebody_who_alone_has_a_missing_cell(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    begins(found)
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'min_cell'"):
        begins(found, schema(pressure={"indicator": True}))


@pytest.mark.parametrize("algorithm", [NEWTON, fs.FFGB(fs.Logistic(), fs.Trees())], ids=lambda one: type(one).__name__)
def test_70_a_case_that_is_the_only_one(algorithm: Any, tmp_path: Path) -> None:
    """½ Σ x − n g at w = 0 is the sum over the cases."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:3], "yes" if row == 30 else "no"])
    with pytest.raises(PolicyRefusal, match=r"the outcome.*rule 'min_cell'"):
        begins(found, algorithm=algorithm)


def test_70b_a_count_that_is_the_only_one(tmp_path: Path) -> None:
    found = hospitals(tmp_path, numbers=True)
    edited(tmp_path, lambda row, cells: [*cells[:3], "4" if row == 30 else "0"])
    for loss in (fs.Poisson(intercept="free"), fs.Squared(intercept="free")):
        with pytest.raises(PolicyRefusal, match=r"the outcome.*rule 'min_cell'"):
            begins(found, algorithm=fs.Newton(loss))


def test_70d_a_class_in_a_run_without_an_algorithm(tmp_path: Path) -> None:
    """The rules know the classes by whatever loss the run brings."""
    found = hospitals(tmp_path)
    for name, path in found.files.items():
        path.write_text(site_text(name).replace('["no", "yes"]', '["no", "yes", "maybe"]'))
    edited(tmp_path, lambda row, cells: [*cells[:3], "maybe" if row == 3 else cells[3]])
    measure = Measure(fs.Softmax(classes=3))
    asked = Terms(terms().run, described({"measure": measure, "preprocess": PREPROCESS}))
    with pytest.raises(PolicyRefusal, match=r"the outcome.*rule 'min_cell'"):
        Site(read_site_file(found.files["arden"]), asked)


@pytest.mark.parametrize("key", ["weight", "offset"])
def test_70c_a_weight_that_is_one_rows(key: str, tmp_path: Path) -> None:
    """Σ s² ψ² x xᵀ less Σ s ψ² x xᵀ is of the rows whose weight is not 1."""
    found = hospitals(tmp_path)
    file = tmp_path / "arden.csv"
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([f"{head},s", *(f"{line},{2 if row == 9 else 1}" for row, line in enumerate(lines))]))
    found.files["arden"].write_text(site_text("arden", data=f'{key} = "s"'))
    with pytest.raises(PolicyRefusal, match=rf"the {key}.*rule 'min_cell'"):
        begins(found)


@pytest.mark.parametrize("one", ["m", "f"])
def test_71_two_columns_that_differ_for_one_person(one: str, tmp_path: Path) -> None:
    """Neither is rare, and the difference of their sums, or of one and the opposite of the other, is that row."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [str(int((cells[2] == one) != (row == 19))), *cells[1:]])
    with pytest.raises(PolicyRefusal, match=r"column 'age' and column 'sex'.*rule 'min_cell'"):
        begins(found)


def test_71b_a_column_that_is_the_outcome_but_for_one(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if (cells[3] == "yes") != (row == 19) else "f", cells[3]])
    with pytest.raises(PolicyRefusal, match=r"the outcome.*rule 'min_cell'"):
        begins(found)


def test_72_held_out_rows_where_they_are_judged_by(tmp_path: Path) -> None:
    """With least squares the errors at some points give all products of columns over the held-out rows."""
    found = hospitals(tmp_path)
    judge = fs.Evaluation(LOSS, least=5)
    held = begins(found, evaluation=judge).client.held
    assert held is not None
    chosen = [line.split(",")[:2] for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]]
    rows = [chosen.index([f"{age:.1f}", f"{pressure:.0f}"]) for age, pressure, _ in held.X.tolist()]
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row in (rows[0], *range(20)) else "f", cells[3]])
    edited(tmp_path, lambda row, cells: [*cells[:2], "f" if row in rows[1:] else cells[2], cells[3]])
    begins(found)
    with pytest.raises(PolicyRefusal, match=r"column 'sex' among the rows.*sets aside.*rule 'min_cell'"):
        begins(found, evaluation=judge)


@pytest.mark.parametrize("impute", ["mean", 120, 135, "keep"])
def test_73_a_number_that_is_one_persons_among_gaps(impute: object, tmp_path: Path) -> None:
    """Whatever stands for the missing cells: no server can find the number by trying."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [cells[0], "150" if row == 4 else "120", *cells[2:]])
    gaps(tmp_path, *range(10, 30))
    boosting = fs.FFGB(fs.Logistic(), fs.Trees())
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'min_cell'"):
        begins(found, schema(pressure={"impute": impute}), algorithm=boosting if impute == "keep" else NEWTON)


def test_73a_a_column_that_two_persons_have(tmp_path: Path) -> None:
    """Its sum would be that of two numbers, before anything is imputed."""
    found = hospitals(tmp_path)
    gaps(tmp_path, *range(2, 60))
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'min_cell'"):
        begins(found)


def test_73b_columns_that_nobody_preprocesses(tmp_path: Path) -> None:
    """A run without a schema, and a server that goes on without a transform, has the columns as they are."""
    found = hospitals(tmp_path, numbers=True)
    for name, path in found.files.items():
        file = tmp_path / f"{name}.csv"
        file.write_text(file.read_text().replace(",f,", ",0,").replace(",m,", ",1,"))
        path.write_text(path.read_text().replace(DECLARED, ""))
    edited(tmp_path, lambda row, cells: [*cells[:2], str(int(row == 19)), cells[3]])
    squared = fs.Newton(fs.Squared(intercept="free"))
    asked = Terms(terms().run, described({"algorithm": squared}))
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*rule 'min_cell'"):
        Site(read_site_file(found.files["arden"]), asked)


def test_74_a_product_of_columns_that_is_one_persons(tmp_path: Path) -> None:
    """Where a site allows feature maps, their columns are judged like any other."""
    found = hospitals(tmp_path, policy='features = ["Polynomial"]')
    for name, path in found.files.items():
        declared = DECLARED.replace('name = "age"', 'name = "age"\ncategories = ["0", "1"]')
        path.write_text(site_text(name, 'features = ["Polynomial"]', declared=declared))
        edited(tmp_path, lambda row, cells: [str(row % 2), *cells[1:]], name)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row == 19 or (row % 4 == 0) else "f", cells[3]])
    made = schema(age={"categories": ["0", "1"], "drop_first": True})
    products = fs.Newton(fs.Logistic(l2=0.1, features=fs.features.Polynomial(2, interaction_only=True)))
    begins(found, made)
    with (
        pytest.raises(ClientRefused, match=r"feature map Polynomial.*rule 'min_cell'"),
        joined(found, products, preprocess=made),
    ):
        pass


def test_80_somebody_alone_among_the_rows_that_another_run_sets_aside(tmp_path: Path) -> None:
    """Four have the category, and one of them is set aside: three are enough, and the difference of two runs is one."""
    found = hospitals(tmp_path)
    asked = Terms(terms().run, described({"algorithm": NEWTON, "preprocess": PREPROCESS}), held_out=HeldOut(0.3))
    held = Site(read_site_file(found.files["arden"]), asked).client.held
    assert held is not None
    aside = {f"{age:.1f},{pressure:.0f}" for age, pressure, _ in held.X.tolist()}
    lines = (tmp_path / "arden.csv").read_text().splitlines()[1:]
    places = [place for place, line in enumerate(lines) if line.rpartition(",")[0].rpartition(",")[0] in aside]
    others = [place for place in range(len(lines)) if place not in places]
    some = {places[0], *others[:3]}
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row in some else "f", cells[3]])
    with joined(found, NEWTON):
        pass
    again = Terms(terms().run, asked.protocols, held_out=HeldOut(0.3))
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*sets aside.*by another seed.*rule 'min_cell'"):
        Site(read_site_file(found.files["arden"]), again)
    with joined(found, NEWTON):  # and the run that was refused is not held against others
        pass


def test_80b_complete_cases_beside_all_rows(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, *range(10))
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row in (0, 20, 21, 22) else "f", cells[3]])
    with joined(found, NEWTON, preprocess=schema(pressure={"impute": "complete"})):
        pass
    with pytest.raises(PolicyRefusal, match=r"column 'sex'.*rule 'row_sets'"):
        begins(found)


def test_83_refusals_by_one_seed_after_the_other(tmp_path: Path) -> None:
    """Whether those set aside have too few of a class says which rows are in it, if one may ask for ever."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:3], "yes" if row % 5 == 0 else "no"])
    plain = described({"algorithm": NEWTON, "preprocess": PREPROCESS, "evaluation": fs.Evaluation(LOSS, least=5)})
    said = []
    for seed in range(12):
        try:
            Site(read_site_file(found.files["arden"]), Terms(terms().run, plain, held_out=HeldOut(0.1, seed)))
            said.append("accepted")
        except PolicyRefusal as refusal:
            said.append(str(refusal))
    assert any("rule 'min_cell'" in one for one in said[:8])
    assert all("have tried 8 different sets" in one for one in said[8:])


def test_83b_refusals_count_as_runs(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="runs = 3")
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row == 19 else "f", cells[3]])
    for _ in range(3):
        with pytest.raises(PolicyRefusal, match="rule 'min_cell'"):
            begins(found)
    with pytest.raises(PolicyRefusal, match="rule 'runs'"):
        begins(found, fs.data.Preprocess(Schema.from_plain(COLUMNS[:2])))


def test_126_few_rows_of_a_category_with_an_outcome(tmp_path: Path) -> None:
    """A summary says of each column and outcome that there are none, some, or 5 rows and more: not that one man is
    ill."""
    found = hospitals(tmp_path)
    men = [row for row, line in enumerate((tmp_path / "arden.csv").read_text().splitlines()[1:]) if ",m," in line]
    ill = {row: "yes" if row == men[0] else "no" for row in men}
    edited(tmp_path, lambda row, cells: [*cells[:3], ill.get(row, cells[3])])
    judge = fs.StandardErrors(LOSS)
    with joined(found, NEWTON, summary=judge) as fed:
        counts = fed.gather(judge.sums, w=np.zeros(4))["arden"].counts
    assert counts[1, 2].tolist() == [5, 2]  # men who are well, and one who is ill
    assert set(counts.ravel().tolist()) <= {0, 2, 5}
