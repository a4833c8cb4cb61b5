"""What the demo says before its table is true of its rows."""

from __future__ import annotations

from fedsolve.cli.demo_story import COLOURED, by_rounds, drawn_order, named_message, story
from fedsolve.report.figures import MOST_COLOURED
from fedsolve.runfiles import registry

ROWS = [
    {"algorithm": "FedAvg", "rounds": 200, "distance_to_pooled": 0.033},
    {"algorithm": "FFGB", "rounds": None, "distance_to_pooled": None},
    {"algorithm": "Newton", "rounds": 8, "distance_to_pooled": 1e-12},
    {"algorithm": "DKRR", "rounds": 0, "distance_to_pooled": 0.3},
    {"algorithm": "FedProx", "rounds": 200, "distance_to_pooled": 0.025},
]


def test_what_reaches_the_pooled_fit_comes_first() -> None:
    exact = {"algorithm": "SHED", "rounds": 29, "distance_to_pooled": 1e-13}
    rows = by_rounds([exact, *ROWS])
    assert [row["algorithm"] for row in rows] == ["Newton", "SHED", "FedProx", "FedAvg", "DKRR", "FFGB"]


def test_a_name_is_said_once() -> None:
    assert named_message({"algorithm": "SHED", "message": "SHED needs a loss"}) == "SHED needs a loss."
    assert named_message({"algorithm": "SHED", "message": "it is not for this"}) == "SHED: it is not for this."


def test_the_story() -> None:
    invented, exact, average = story(569, 4, ROWS)
    assert invented.startswith("Four invented hospitals share 569 patients.")
    assert "the hospitals are made up" in invented
    assert "after eight rounds" in exact
    assert "1.0e-12" in exact
    assert "after 200 rounds, the coefficients of FedAvg are still 3% away" in average
    assert "(DKRR) 30%" in average


def test_nothing_is_said_that_did_not_happen() -> None:
    worse = [{**row, "distance_to_pooled": 0.2} if row["algorithm"] == "Newton" else row for row in ROWS]
    assert not any("finds it" in one for one in story(569, 4, worse))
    better = [{**row, "distance_to_pooled": 1e-9} if row["algorithm"] == "FedAvg" else row for row in ROWS]
    assert not any("does not" in one for one in story(569, 4, better))
    assert len(story(569, 4, [])) == 1


def test_six_lines_have_a_colour() -> None:
    names = list(registry.names("algorithm"))
    assert set(COLOURED) <= set(names)
    assert len(COLOURED) == MOST_COLOURED
    drawn = drawn_order(names)
    assert drawn[:MOST_COLOURED] == list(COLOURED)
    assert sorted(drawn) == sorted(names)
