"""Reports of odd runs: many sites, long and strange names, many classes, several targets, sites that never answer."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.inference import forest
from fedsolve.loop.history import Row
from fedsolve.report import comparison_figure, evaluation, figures, summarise, tables
from fedsolve.report import run_page as pages
from fedsolve.report.comparison import Comparison, Trace
from fedsolve.report.comparison_table import section as side_by_side
from fedsolve.report.fitted import what_was_fitted, who_took_part
from fedsolve.report.gain_section import notes
from fedsolve.report.html_parts import MOST_SHOWN, long_table

LOSS = fs.Logistic(l2=0.1, intercept="free")
STRANGE = ["東京大学病院", "a$_^$b", 90 * "x", "<script>alert(1)</script>", "Universitätsklinikum " + 5 * "lang "]


def clients(names: list[str], rows: int = 40, columns: int = 3, classes: int = 2) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    made = []
    for name in names:
        X = rng.standard_normal((rows, columns))
        y = np.digitize(X[:, 0] + rng.standard_normal(rows), np.linspace(-1, 1, classes + 1)[1:-1])
        made.append(fs.Client(name, X, y.astype(float)))
    return made


def judged(names: list[str]) -> fs.Run:
    held = fs.data.hold_out(clients(names), 0.5)
    return fs.run(fs.Newton(LOSS), held, evaluation=fs.Evaluation(LOSS), min_rows=0)


def words(text: str) -> str:
    return re.sub("<[^>]*>", " ", text)


# ── figures ──


@pytest.mark.parametrize(
    "names", [STRANGE, ["cleveland", "hungarian", "switzerland", "va"], list("abcdef"), [26 * "W", 26 * "M"]]
)
def test_long_and_strange_names_leave_room_for_the_curves(names: list[str]) -> None:
    found = judged(names).evaluation
    assert found is not None
    drawn = evaluation.draw(found)
    assert figures.png(drawn).startswith(b"\x89PNG")  # letters that the font lacks, and a $, do not matter
    assert all(axis.get_position().width > 0.35 for axis in drawn.axes)
    (legend,) = drawn.legends
    with warnings.catch_warnings(action="ignore"):  # it measures the letters again
        box = legend.get_window_extent()
    assert drawn.bbox.x0 <= box.x0 < box.x1 <= drawn.bbox.x1


def history() -> list[Row]:
    return [Row(place, value=0.5**place, gradient_norm=0.5**place, bytes_up=place) for place in range(3)]


def test_no_colour_of_a_comparison_is_used_twice_and_the_page_says_who_is_grey() -> None:
    names = [f"{place} $_^$ {60 * 'x'}" for place in range(9)]
    rows = history()
    traces = [Trace(name, 0, 0, "rounds", "", "", rows, rows[-1]) for name in names]
    found = Comparison([Trace("could not run", 0, 0, "error", "", ""), *traces])  # and takes no colour
    assert found.drawn == names
    drawn = comparison_figure.draw(found, "a $_^$ title " + 200 * "x")
    assert figures.png(drawn).startswith(b"\x89PNG")
    for axis in drawn.axes:
        colours = [line.get_color() for line in axis.get_lines()]
        assert len(set(colours[: figures.MOST_COLOURED])) == figures.MOST_COLOURED
        assert set(colours[figures.MOST_COLOURED :]) <= {figures.GREY}
    (legend,) = drawn.legends
    assert [one.get_text() for one in legend.get_texts()][-1] == "3 others"
    assert all(axis.get_position().width > 0.2 for axis in drawn.axes)
    about = pages.About("t", "d", "c", b"", drawn=found.drawn, shows="What it shows")
    page = pages.comparison_page(about, [], {}, tables.RESULTS, side_by_side=side_by_side(found))
    assert f"In grey: {', '.join(names[figures.MOST_COLOURED :])}." in page
    assert 'alt="What it shows. t."' in page


def test_a_forest_of_many_classes_uses_no_colour_twice_and_says_what_it_leaves_out() -> None:
    """Nine outcomes against the first, of eight columns each: 72 coefficients."""
    loss = fs.Softmax(classes=10, l2=0.01, intercept="free")
    run = fs.run(fs.Newton(loss), clients(["a", "b"], rows=300, columns=8, classes=10), min_rows=0)
    summary = run.summary()
    (axis,) = forest.drawn(summary).axes
    assert axis.get_xlabel().endswith(f"The first {forest.MOST_LINES} of 72 coefficients")
    looks = {}
    for line in axis.get_lines():
        if " against " in str(line.get_label()):
            looks[line.get_label()] = (line.get_color(), line.get_marker())
    assert len(looks) == len(set(looks.values())) == 9
    coloured = [colour for colour, _ in looks.values() if colour != forest.GREY]
    assert len(coloured) == len(set(coloured)) == len(forest.COLOURS)
    about = pages.About("t", "d", "c", inferred=summary)
    page = pages.run_page(about, run, summarise(run, "Newton"))
    assert page.index("1 against 0") < page.index("<summary>2 against 0</summary>")


# ── the page ──


def test_held_out_scores_of_a_comparison_stand_beside_its_costs() -> None:
    run = judged(["a", "b"])
    found = Comparison([Trace("x", 0, 0, run.status, "", "", run.history, run.model_row, run.evaluation)])
    heads = re.findall('<th class="number" scope="col">(.*?)</th>', side_by_side(found))
    assert heads[:4] == ["rounds", "up", "down", "held-out log-loss"]
    assert heads.index("held-out AUC") < heads.index("value") < heads.index("seconds")


def test_tables_of_many_sites_are_folded_and_complete() -> None:
    names = [f"site-{place:03}" for place in range(MOST_SHOWN + 7)]
    run = judged(names)
    assert run.evaluation is not None
    for part in (
        evaluation.page_section(run.evaluation, None),
        who_took_part(run, summarise(run, "Newton", clients(names))["clients"]),
    ):
        before, after = part.split("<details>")
        assert "<summary>7 more sites</summary>" in after
        assert all((before if name < names[MOST_SHOWN] else after).count(name) == 1 for name in names)
    assert "all sites" in evaluation.page_section(run.evaluation, None).split("<details>")[0]
    assert "<details>" not in long_table([("a", False)], [["x"]] * MOST_SHOWN, label="few")


def test_a_site_that_never_answered_is_named() -> None:
    slow = fs.Participation(latency={"a": 1e-9, "b": 1e-9, "c": 1e12}, deadline=1.0)
    run = fs.run(fs.AGD(LOSS), clients(["a", "b", "c"]), rounds=3, tolerance=0, participation=slow, min_rows=0)
    said = words(who_took_part(run, ()))
    assert "3 sites took part; 1 of them was missing from some round." in said
    assert "c never answered, and nothing of it is in the model." in said
    assert "never answered" not in words(who_took_part(judged(["a", "b"]), ()))


def test_the_outcome_is_named() -> None:
    run = judged(["a", "b"])
    model = replace(run.model, classes=("no", "yes"))  # type: ignore[type-var]
    said = words(what_was_fitted(replace(run, model=model), "ill"))
    assert "of the outcome “ill” with" in said
    assert "It predicts whether it is “yes” or “no”." in said
    assert "of the outcomes “y1”, “y2” and “y3” with" in words(what_was_fitted(run, ["y1", "y2", "y3"]))
    assert "outcome" not in words(what_was_fitted(run))


def test_coefficients_with_intervals_come_before_what_engineers_ask() -> None:
    run = judged(["a", "b"])
    summary = fs.run(fs.Newton(replace(LOSS, l2=0.0)), clients(["a", "b"]), min_rows=0).summary()
    rows = summarise(run, "Newton", clients(["a", "b"]))
    page = pages.run_page(pages.About("t", "d", "c", inferred=summary), run, rows)
    titles = re.findall("<h[23]>(.*?)</h[23]>", page)
    order = ["What left each site", "Coefficients", "Held-out rows", "Technical details"]
    order += ["How close to the best fit", "History", "Weights"]
    assert [one for one in titles if one in order] == order
    assert "Model" not in titles
    alone = pages.run_page(pages.About("t", "d", "c"), run, rows)
    assert "<h2>Model</h2>" in alone
    assert "<dt>sites</dt><dd>2</dd>" in alone
    assert "<dt>rows</dt><dd>80</dd>" in alone


def test_the_model_of_a_run_that_diverged_is_not_to_be_used() -> None:
    far = fs.FedAvg(LOSS, local=fs.GradientSteps(3, step_size=1e6))
    run = fs.run(far, clients(["a", "b"]), min_rows=0)
    assert run.status == "diverged"
    about = pages.About("t", "d", "c")
    assert pages.DIVERGED in pages.run_page(about, run, summarise(run, "FedAvg"))
    sound = judged(["a", "b"])
    assert pages.DIVERGED not in pages.run_page(about, sound, summarise(sound, "Newton"))


def test_a_comparison_warns_of_sites_with_few_rows_once() -> None:
    run = fs.run(fs.Newton(LOSS), clients(["a", "b"], rows=9), min_rows=5)
    rows = [summarise(run, label) for label in "xy"]
    page = pages.comparison_page(pages.About("t", "d", "c"), rows, {"x": run, "y": run}, tables.RESULTS)
    assert len(run.notices) == 1
    assert page.count('class="warning">The fit has 4 parameters') == 1


def test_sites_of_which_the_same_is_said_share_a_sentence() -> None:
    names = [f"site-{place}" for place in range(9)]
    held = fs.data.hold_out([*clients(["large"], rows=400), *clients(names, rows=20)], 0.5)
    run = fs.run(fs.Newton(LOSS), held, min_rows=0)
    (said,) = notes(fs.federation_gain(run))  # and nothing of how the large one chose its penalty, which is as usual
    begin = "site-0, site-1, site-2, site-3, site-4 and 4 other sites"
    assert said == f"{begin}: cannot tell, each has 10 held-out rows, and 30 are needed."


@pytest.mark.parametrize(
    ("count", "said"), [(1, "a"), (2, "a and b"), (3, "a, b and c"), (4, "a, b and 2 other sites")]
)
def test_names_in_a_sentence(count: int, said: str) -> None:
    assert tables.listed(list("abcd")[:count], most=3) == said
