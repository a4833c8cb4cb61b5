"""A server that tells functions of its own, and bins to fit trees on, instead of those that boosting makes.

Each of these got classes or outcomes of single persons before bins and functions were held to (docs/threat-model.md).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError
from fedsolve.federation.federation import Federation
from fedsolve.inference.remembered_model import Remembered
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part
from fedsolve.sites import SiteTransport
from tests.sites.altered import edited
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import COLUMNS, DECLARED, Hospitals, hospitals, site_text, terms
from tests.sites.tables import PREPROCESS as FOUR
from tests.sites.tables import Table
from tests.sites.told_functions import BOOSTING, SHARE, begin, bins, part, stump


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def one_of(found: Hospitals) -> Hospitals:
    """A run may have a single site."""
    return Hospitals({"arden": found.files["arden"]}, ())


def fits(fed: Federation, news: News) -> None:
    fed.gather(BOOSTING.local_steps, news=news, t=news.since + len(news.parts))


def hears(fed: Federation, news: News) -> None:
    fed.gather(BOOSTING.learn_of, news=news)


def ages(folder: Path) -> np.ndarray:
    """arden's, in order and as a run with arden alone has them."""
    lines = (folder / "arden.csv").read_text().splitlines()[1:]
    age = np.array([float(line.split(",")[0]) for line in lines])
    return np.sort((age - age.mean()) / age.std())


def declared_codes(tmp_path: Path, scaling: str | None = None) -> tuple[Hospitals, fs.data.Preprocess]:
    """Hospitals whose ages are codes of three categories, and how a run declares them."""
    found = hospitals(tmp_path)
    for name, path in found.files.items():
        path.write_text(site_text(name, declared=DECLARED.replace('name = "age"', 'name = "age"\nchoices = [0, 1, 2]')))
        edited(tmp_path, lambda row, cells: [str(row % 3), *cells[1:]], name)
    column = {"name": "age", "scaling": scaling, "choices": [0, 1, 2], "impute": None}
    return found, fs.data.Preprocess(Schema.from_plain([column, *COLUMNS[1:]]))


def test_110_numbers_that_a_learner_takes_for_categories(found: Hospitals) -> None:
    """Of each code a stump says on which side it is: the class of everybody who has a pressure of their own."""
    unscaled = fs.data.Preprocess(Schema.from_plain([COLUMNS[0], {"name": "pressure", "scaling": None}, COLUMNS[2]]))
    for which in ("pressure", 1):
        stumps = fs.FFGB(fs.Logistic(), fs.Stumps(categories=((which, 220),)))
        with (
            pytest.raises(FedsolveError, match=r"codes of 220 categories.*'terms'"),
            joined(found, stumps, None, unscaled),
        ):
            pass


def test_110b_codes_that_all_sites_have_declared(tmp_path: Path) -> None:
    codes = fs.FFGB(fs.Logistic(), fs.Stumps(categories=(("age", 3),)))
    found, made = declared_codes(tmp_path)
    run = fs.run(codes, SiteTransport(Direct(found.files), terms()), preprocess=made, rounds=3)
    assert all(not row.missing for row in run.history)
    scaled = declared_codes(tmp_path, "standardise")[1]
    with pytest.raises(FedsolveError, match="'terms'"), joined(found, codes, None, scaled):
        pass


@pytest.mark.parametrize("threshold", [-0.5, 5.0])
def test_111_columns_that_the_servers_bins_call_categories(threshold: float, found: Hospitals) -> None:
    """Whether somebody has two ones was told by an error. It is refused whatever the rows are."""
    pair = bins([threshold], [threshold], groups=[(0, 2)])
    codes = bins([], np.arange(3) + 0.5, groups=[(1, -4)])
    for agreed in (pair, codes):
        with joined(found, BOOSTING) as fed, pytest.raises(FedsolveError, match=r"'bins'|cut between whole numbers"):
            fits(fed, begin(agreed))
    agreed = bins([0.5], [0.5], groups=[(0, 2)])
    with joined(found, BOOSTING) as fed, pytest.raises(ClientRefused, match=r"other columns for categories.*'bins'"):
        fits(fed, begin(agreed))


def test_112_a_code_that_one_person_has(tmp_path: Path) -> None:
    codes = fs.FFGB(fs.Logistic(), fs.Stumps(categories=(("age", 3),)))
    found, made = declared_codes(tmp_path)
    edited(tmp_path, lambda row, cells: ["2" if row == 7 else str(row % 2), *cells[1:]])
    with pytest.raises(FedsolveError, match="'min_cell'"), joined(found, codes, None, made) as fed:
        fed.gather(codes.local_steps, news=begin(codes.learner.prepare(fed)), t=0)


def test_113_an_edge_that_is_moved(found: Hospitals, tmp_path: Path) -> None:
    """n · mean of a leaf changes by the residual of the one person between the two edges."""
    with joined(one_of(found), BOOSTING) as fed:
        age = ages(tmp_path)
        first, second = (float(age[k : k + 2].mean()) for k in (20, 21))
        fits(fed, begin(bins([first])))
        with pytest.raises(ClientRefused, match="'functions'"):
            fits(fed, begin(bins([second])))
        with pytest.raises(ClientRefused, match="'functions'"):
            fits(fed, begin(bins([first]), start=0.5))
        fits(fed, begin(bins([first])))


def cut_at(found: Hospitals, *places: float) -> None:
    """A run whose bins cut the ages there."""
    with joined(one_of(found), BOOSTING) as fed:
        fits(fed, begin(bins(places)))


def test_114_edges_of_two_runs(found: Hospitals, tmp_path: Path) -> None:
    age = np.unique(ages(tmp_path))
    between = (age[:-1] + age[1:]) / 2
    below = np.array([(ages(tmp_path) < one).sum() for one in between])
    cut_at(found, float(between[10]))
    cut_at(found, float(between[10] + 1e-9))  # the same rows on either side
    near = int(np.flatnonzero((below > below[10]) & (below < below[10] + 5))[-1])
    far = int(np.flatnonzero(below >= below[10] + 5)[0])
    with pytest.raises(ClientRefused, match="'bins'"):
        cut_at(found, float(between[near]))
    cut_at(found, float(between[far]))
    with pytest.raises(ClientRefused, match="'bins'"):
        cut_at(found, -9.0, float(between[11]))


def test_114b_edges_of_runs_in_other_units(tmp_path: Path) -> None:
    """Cuts are compared by the rows on either side, not as numbers. A site that trusts the server may allow it."""

    def ask(folder: Path, policy: str) -> None:
        folder.mkdir()
        found = one_of(hospitals(folder, policy=policy))
        age = ages(folder)
        cut_at(found, float(age[20:22].mean()))
        lines = (folder / "arden.csv").read_text().splitlines()[1:]
        own = np.sort([float(line.split(",")[0]) for line in lines])
        unscaled = fs.data.Preprocess(Schema.from_plain([{"name": "age", "scaling": None}, *COLUMNS[1:]]))
        with joined(found, BOOSTING, None, unscaled) as fed:
            fits(fed, begin(bins([float(own[21:23].mean())])))

    with pytest.raises(ClientRefused, match="'bins'"):
        ask(tmp_path / "a", "")
    ask(tmp_path / "b", "bins = false")


def test_115_a_split_beside_the_agreed_edges(found: Hospitals) -> None:
    for column, threshold in ((0, 0.1), (1, 0.0)):
        with joined(one_of(found), BOOSTING) as fed, pytest.raises(ClientRefused, match=r"splits elsewhere.*'bins'"):
            hears(fed, begin(bins([0.0]), part(stump(column, threshold, 1.0, 0.0))))


def test_116_a_function_that_is_taken_back(found: Hospitals) -> None:
    """Told anew with another mask in each question, a leaf around one person said whether it is ill."""
    agreed, first, second = bins([0.0, 0.5]), part(stump(0, 0.0, 1.0, 0.0)), part(stump(0, 0.5, 1.0, 0.0))
    with joined(one_of(found), BOOSTING) as fed:
        hears(fed, begin(agreed, first, second))
        for again in (begin(agreed, second), begin(agreed, first, first), begin(agreed, first, second, start=1.0)):
            with pytest.raises(ClientRefused, match="'functions'"):
                hears(fed, again)
        hears(fed, begin(agreed, first))  # as a run that goes back to an earlier state
        with pytest.raises(ClientRefused, match="'functions'"):
            hears(fed, News(1, (first,)))
        hears(fed, News(1, (second, first)))


def test_116b_a_part_that_erases_what_was_before(found: Hospitals) -> None:
    agreed, one = bins([0.0]), stump(0, 0.0, 1.0, 0.0)
    for wrong in (Part(0.0, np.array([SHARE]), (one,)), Part(1.0, np.array([5.0]), (one,))):
        with joined(one_of(found), BOOSTING) as fed, pytest.raises(ClientRefused, match="'functions'"):
            hears(fed, begin(agreed, wrong))


def test_117_a_leaf_that_is_one_rows(tmp_path: Path) -> None:
    """Of the young one has a large number, or weight, beside which the others have none; of the old all do."""

    def age(row: int) -> str:
        return str(30 + row if row < 30 else 60 + row)

    def alike(row: int) -> bool:
        return row < 30 and row != 7

    numbers = Table("numbers").write(tmp_path)
    edited(tmp_path, lambda row, cells: [age(row), *cells[1:4], "0.001" if alike(row) else str(5 + row / 100)])
    boosting = fs.FFGB(fs.Squared(), fs.Trees())
    with joined(Hospitals({"arden": numbers["arden"]}, ()), boosting, None, FOUR) as fed:
        news = News(0, (), np.zeros(()), boosting.learner.prepare(fed))
        with pytest.raises(ClientRefused, match=r"a leaf of a tree.*'largest_row'"):
            fed.gather(boosting.local_steps, news=news, t=0)
    heavy = Table("classes", weights=True).write(tmp_path)

    def weighed(row: int, cells: list[str]) -> list[str]:
        ill = "yes" if row >= 30 or row % 2 else "no"
        return [age(row), *cells[1:4], "0.001" if alike(row) else str(5 + row / 100), ill]

    edited(tmp_path, weighed)
    with joined(Hospitals({"arden": heavy["arden"]}, ()), BOOSTING, None, FOUR) as fed:
        news = News(0, (), np.zeros(()), BOOSTING.learner.prepare(fed))
        with pytest.raises(ClientRefused, match=r"a leaf of a tree.*'largest_row'"):
            fits(fed, news)


def test_117b_a_leaf_that_is_one_count(tmp_path: Path) -> None:
    """Single counts may stand alone in a leaf, as classes may; a count of 5,000 beside none may not."""
    counts = Table("counts").write(tmp_path)
    boosting = fs.FFGB(fs.Poisson(), fs.Trees())

    def counted(most: int) -> None:
        def change(row: int, cells: list[str]) -> list[str]:
            young = row < 30
            return [str(30 + row if young else 60 + row), *cells[1:4], str(most * (row == 7) if young else most)]

        edited(tmp_path, change)
        with joined(Hospitals({"arden": counts["arden"]}, ()), boosting, None, FOUR) as fed:
            news = News(0, (), np.array(-9.0), boosting.learner.prepare(fed))
            fed.gather(boosting.local_steps, news=news, t=0)

    counted(1)
    with pytest.raises(ClientRefused, match=r"a leaf of a tree.*'largest_row'"):
        counted(5000)


def test_118_a_function_that_is_judged_and_taken_back(found: Hospitals) -> None:
    judge = fs.Evaluation(fs.Logistic(), least=5, rows="own")
    agreed, first, second = bins([0.0, 0.5]), part(stump(0, 0.0, 1.0, 0.0)), part(stump(0, 0.5, 1.0, 0.0))
    with joined(one_of(found), BOOSTING, evaluation=judge) as fed:
        hears(fed, begin(agreed, first))
        fed.gather(judge.held_figures, w=Remembered(1), edges=np.zeros((1, 3)))
        with pytest.raises(ClientRefused, match="'functions'"):
            hears(fed, begin(agreed, second))


def test_a_value_has_six_digits(found: Hospitals) -> None:
    """From all digits of the sum of losses follow the numbers of rows of each class in each leaf."""
    with joined(one_of(found), BOOSTING) as fed:
        hears(fed, begin(bins([0.0]), part(stump(0, 0.0, 1.0, 0.3))))
        value = fed.gather(BOOSTING.value, parts=1)["arden"]
    assert np.frexp(value)[0] * 2**20 % 1 == 0


UNLIKE = [
    (Table("classes", (300, 60, 30, 150), distinct=2.5), fs.FFGB(fs.Logistic(), fs.Trees(), step_size=0.3), 40),
    (Table("counts", (60, 80, 25, 70), rate=0.2), fs.FFGB(fs.Poisson(), fs.Trees(depth=3), initial="constant"), 20),
    (Table("counts", (240, 200, 180, 260), 0.3, 3.0), fs.FFGB(fs.Poisson(), fs.Trees(depth=3)), 8),
    (Table("counts", (240, 200, 180, 260), 0.3, 3.0, weights=True), fs.FFGB(fs.Poisson(), fs.Trees(depth=3)), 8),
    (Table("numbers", (60, 300, 25, 70)), fs.FFGB(fs.Squared(), fs.Trees(depth=3), steps=2), 20),
    (Table("five classes", (300, 260, 280, 200)), fs.FFGB(fs.Softmax(classes=5), fs.Stumps(), tikhonov=0.1), 20),
]


@pytest.mark.parametrize(
    ("table", "algorithm", "rounds"),
    UNLIKE,
    ids=[f"{table.outcome}-{table.rows[0]}{'-weights' * table.weights}" for table, *_ in UNLIKE],
)
def test_honest_trees_pass_and_are_those_of_a_simulation(
    table: Table, algorithm: fs.FFGB, rounds: int, tmp_path: Path
) -> None:
    files = table.write(tmp_path)
    classes = {"classes": ["no", "yes"], "five classes": [f"c{j}" for j in range(5)]}.get(table.outcome)
    read = fs.data.load_sites(
        {name: tmp_path / f"{name}.csv" for name in files},
        target="ill",
        classes=classes,
        schema=FOUR.schema,
        weight="wt" if table.weights else None,
    )
    for _ in range(2):  # and once more on the same rows
        run = fs.run(algorithm, SiteTransport(Direct(files), terms()), preprocess=FOUR, rounds=rounds)
        assert all(not row.missing for row in run.history)
    alone = fs.run(algorithm, read.clients, preprocess=FOUR, rounds=rounds)
    assert [row.value for row in run.history] == pytest.approx([row.value for row in alone.history], rel=1e-6)
    assert len(alone.state.parts) == rounds
    for one, other in zip(alone.state.parts, run.state.parts, strict=True):
        for function, same in zip(one.functions, other.functions, strict=True):
            assert all(map(np.array_equal, function, same))
