"""report.html: well-formed, escaped, self-contained, and with the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.loop.history import Row
from fedsolve.loop.measure_protocols import Certificate
from fedsolve.models.linear import LinearModel
from fedsolve.report import run_page as pages
from fedsolve.report import summarise, tables
from fedsolve.report.figures import convergence
from fedsolve.report.html_parts import Html, element, markup, page, table

EVIL = "<script>alert('x')</script>&\""
VOID = {"meta", "img"}


class Checker(HTMLParser):
    """Every element is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("src", "href"):
                assert (value or "").startswith("data:")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert not {"script", "link", "iframe"} & set(checker.seen)
    assert not re.search(r"https?://|@import|url\(", text)
    return checker


@pytest.fixture(scope="module")
def run() -> fs.Run:
    data = fs.data.load("breast_cancer")
    clients = fs.data.partition(data.X, data.y, clients=3, seed=0, names=["Ålesund", EVIL, "c"])
    return fs.run(fs.Newton(fs.Logistic(l2=0.01)), clients, preprocess=fs.data.Preprocess(), tolerance=1e-10)


def about(run: fs.Run, **changed: object) -> pages.About:
    figure = convergence({EVIL: run.history}, title="x")
    given = pages.About(f"Newton on {EVIL}", EVIL, f"fedsolve run {EVIL}.toml", figure, f'name = "{EVIL}"')
    return replace(given, **changed)  # type: ignore[arg-type]


def test_the_page_of_a_run(run: fs.Run) -> None:
    summary = {**summarise(run, EVIL), "scores": {"train": 0.987654}}
    text = pages.run_page(about(run), run, summary)
    checker = check(text)
    assert EVIL not in text
    said = " ".join(checker.text)
    assert f"Newton on {EVIL}" in said
    assert f"fedsolve run {EVIL}.toml" in said
    for word in ("converged", "Ålesund", "0.9877", "algorithm.evaluate", "setup", "a bound", fs.__version__):
        assert word in said
    sent = run.ledger.total()
    assert tables.size(sent.bytes_up) in said
    assert tables.size(sent.bytes_down) in said
    assert checker.seen.count("img") == 1
    assert f"{run.model.w[3]:.6g}" in said
    assert check(pages.run_page(about(run, figure=None), run, summary)).seen.count("img") == 0


def test_the_page_of_a_comparison(run: fs.Run) -> None:
    failed = {"algorithm": "DKRR", "status": "error", "message": f"it has {EVIL}"}
    rows = [summarise(run, EVIL), failed]
    text = pages.comparison_page(about(run), rows, {EVIL: run}, tables.RESULTS, "Said <so>.")
    said = " ".join(check(text).text)
    assert EVIL not in text
    assert f"DKRR: it has {EVIL}" in said
    assert "Said <so>." in said


def test_the_certificate_is_honest(run: fs.Run) -> None:
    last = run.history[-1]

    def said(certificate: Certificate | None, **changed: object) -> str:
        history = [*run.history[:-1], replace(last, **changed)]  # type: ignore[arg-type]
        return pages.certificate_sentence(replace(run, certificate=certificate, history=history))

    assert "at most" in said(Certificate("strong convexity", 1e-9))
    estimate = said(Certificate("newton decrement", 1e-9))
    assert "about 1.0e-09" in estimate
    assert "no bound" in estimate
    assert "no certificate" in said(None)
    assert "certifies nothing" in said(Certificate("strong convexity", 1e-9), measured_share=0.8)
    assert "nothing is certified" in said(Certificate("strong convexity", 1e-9), gradient_norm=float("inf"))
    assert "Nothing was measured" in pages.certificate_sentence(replace(run, history=[Row(0)]))


def test_long_histories_are_thinned() -> None:
    rows = [Row(index) for index in range(1000)]
    kept = [row.round for row in pages.thinned(rows)]
    assert len(kept) == len(set(kept)) == pages.MOST_ROWS
    assert kept == sorted(kept)
    assert (kept[:3], kept[-1]) == ([0, 1, 2], 999)
    assert pages.thinned(rows[:5]) == rows[:5]
    assert len({row.round for row in pages.thinned(rows[:26])}) == pages.MOST_ROWS


def test_many_clients_are_summed_up() -> None:
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{j}", rng.standard_normal((5, 2)), rng.standard_normal(5)) for j in range(50)]
    run = fs.run(fs.Newton(fs.Squared(l2=0.1)), clients, rounds=1)
    text = pages.run_page(about(run), run, summarise(run, "Newton"))
    assert "31 others" in text
    assert "feature 1" in text or "x1" in text


@pytest.mark.parametrize("shape", [(100,), (3, 2), (3, 50)])
def test_models_large_and_wide(run: fs.Run, shape: tuple[int, ...]) -> None:
    model = LinearModel(np.ones(shape), False, "identity")
    text = pages.run_page(about(run), replace(run, model=model), summarise(run, "Newton"))
    check(text)


def test_escaping() -> None:
    assert markup(["<", Html("<b>"), ["&"]]) == "&lt;<b>&amp;"
    assert element("p", '"', class_='"') == '<p class="&quot;">&quot;</p>'
    check(page("<t>", table([("a<", False), ("b", True)], [["<x>", "1"]], ["all", "1"])))


def test_the_slope_of_theory_is_explained_where_it_is_drawn(run: fs.Run) -> None:
    X = np.random.default_rng(0).standard_normal((40, 4))
    clients = [fs.Client(name, X[part], X[part, 0]) for name, part in (("a", slice(20)), ("b", slice(20, 40)))]
    shed = fs.run(fs.SHEDLeastSquares(fs.Squared(l2=0.1)), clients)
    for one, drawn in ((shed, True), (run, False)):
        about = pages.About("title", "described", "command", convergence({"one": one.history}))
        made = check(pages.run_page(about, one, summarise(one, "one", clients)))
        assert (pages.SLOPE in "".join(made.text)) == drawn
        rows = [summarise(one, "one", clients)]
        made = check(pages.comparison_page(about, rows, {"one": one}, tables.RESULTS))
        assert (pages.SLOPE in "".join(made.text)) == drawn


def test_headings_are_in_order_and_tables_have_headers(run: fs.Run) -> None:
    summary = summarise(run, "Newton")
    pages_made = (
        pages.run_page(about(run), run, summary),
        pages.comparison_page(about(run), [summary], {"Newton": run}, tables.RESULTS),
    )
    for text in pages_made:
        assert '<html lang="en">' in text
        levels = [int(one) for one in re.findall(r"<h(\d)", text)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        for one in re.findall(r"<table>.*?</table>", text, re.DOTALL):
            assert '<th scope="col"' in one or 'scope="col"' in one
            assert 'scope="row"' in one
        assert all(re.findall(r'<img alt="([^"]*)"', text))
