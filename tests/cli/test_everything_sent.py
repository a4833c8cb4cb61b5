"""What was sent is counted once and completely: ledger.csv, summary.json, the terminal and the report agree."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.report.tables import size

from .conftest import Command

EVERYTHING = """
[evaluation]
hold_out = 0.3

[summary]

[gain]

[output]
figures = false
"""
WARM = 'warm_start = { name = "Newton" }\n'


def sums(folder: str) -> dict[str, dict[str, int]]:
    """Bytes of ledger.csv by purpose and direction, added up here."""
    found: dict[str, Counter[str]] = {}
    with Path(folder, "ledger.csv").open() as file:
        for row in csv.DictReader(file):
            for purpose in (row["purpose"], "all"):
                found.setdefault(purpose, Counter())[f"bytes_{row['direction']}"] += int(row["bytes"])
    return {purpose: dict(counts) for purpose, counts in found.items()}


def cells(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the report."""
    table = page[page.index(heading) :]
    table = table[: table.index("</table>")]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]


@pytest.fixture
def everything(command: Command, run_file: Callable[..., Path]) -> str:
    """A run with all that may be asked beside the fit, and what it printed."""
    fit = ("tolerance = 1e-9", f"tolerance = 1e-9\n{WARM}")
    path = run_file(fit, ("l2 = 0.01", "l2 = 0.05"), add=EVERYTHING)
    outcome = command("run", path, "--output", "out")
    assert outcome.status == 0, outcome.err
    return outcome.out


def test_all_accounts_agree(everything: str) -> None:
    found = sums("out")
    assert set(found) == {"setup", "warm start", "algorithm", "measure", "evaluation", "summary", "gain", "all"}
    assert json.loads(Path("out/summary.json").read_text())["sent"] == found
    whole = found["all"]
    assert f"In all, the sites sent {size(whole['bytes_up'])} (" in everything
    page = Path("out/report.html").read_text()
    assert f"In all, the sites sent {size(whole['bytes_up'])}, and received {size(whole['bytes_down'])};" in page
    by_site = cells(page, "By site")
    assert by_site[0][-2:] == ["all up", "all down"]
    assert by_site[-1][-2:] == [size(whole["bytes_up"]), size(whole["bytes_down"])]
    for purpose, each in found.items():
        place = by_site[0].index(f"{purpose} up")
        assert by_site[-1][place : place + 2] == [size(each["bytes_up"]), size(each["bytes_down"])]
    by_call = cells(page, "What was sent, in bytes")
    assert by_call[-1][:4] == ["all", "", size(whole["bytes_up"]), size(whole["bytes_down"])]
    assert ["summary.sums", "summary"] in [row[:2] for row in by_call]


def test_nothing_but_the_question_is_added() -> None:
    """Joining again and the agreed preprocessing are part of what standard errors take."""
    data = fs.data.load("diabetes")
    clients = fs.data.partition(data.X, data.y, clients=3, feature_names=data.feature_names)
    run = fs.run(fs.Newton(fs.Squared(intercept="free")), clients, preprocess=fs.data.Preprocess())
    before = run.all_sent()
    assert before.total(None) == run.ledger.total(None)
    found = run.summary()
    assert run.session is not None
    ((name, asked),) = run.session.later
    assert name == "summary"
    after = run.all_sent()
    assert after.total(None) == before.total(None) + asked.total(None)
    assert after.total("summary") == asked.total(None)
    assert found.ledger.total(None).bytes_up < asked.total(None).bytes_up
    assert {entry.call for entry in after.entries() if entry.purpose == "summary"} == {
        *("envelope", "session.join", "preprocess.adopt", "summary.sums")
    }
    assert after.total("algorithm") == run.ledger.total("algorithm")
    assert run.ledger.total("summary").exchanges == 0  # the run's own accounts stay as they were


def test_a_question_in_vain_is_counted(command: Command, run_file: Callable[..., Path]) -> None:
    """The sites have answered before it is known that there is no finite estimate."""
    path = run_file(
        ("l2 = 0.01", "l2 = 0"), ("rounds = 20", "rounds = 3"), add="[summary]\n[output]\nfigures = false\n"
    )
    command("run", path, "--output", "out")
    told = json.loads(Path("out/summary.json").read_text())
    assert told["inference"]["status"] == "error"
    assert told["sent"]["summary"]["bytes_up"] == sums("out")["summary"]["bytes_up"] > 0


def test_an_open_session_counts_what_it_was_asked() -> None:
    data = fs.data.load("diabetes")
    clients = fs.data.partition(data.X, data.y, clients=3)
    loss = fs.Squared(intercept="free")
    with fs.Session(clients, also={"summary": fs.StandardErrors(loss)}) as session:
        run = fs.run(fs.Newton(loss), session)
        found = run.summary()
        assert run.all_sent().total("summary") == found.ledger.total(None)
        assert run.all_sent().total(None) == session.fed.ledger.total(None)


def test_the_report_says_what_agreeing_took(command: Command, tmp_path: Path) -> None:
    for site, shift in (("a", 0), ("b", 3)):
        rows = [f"{i % 13 + shift},{'xy'[i % 2]},{i * 7 % 5 > 2:d}" for i in range(40)]
        (tmp_path / f"{site}.csv").write_text("\n".join(["age,kind,ill", *rows]) + "\n")
    assert command("init", "a.csv", "b.csv", "--target", "ill").status == 0
    Path("run.toml").write_text(Path("run.toml").read_text() + "\n[output]\nfigures = false\n")
    assert command("run", "run.toml", "--output", "out").status == 0
    page = Path("out/report.html").read_text()
    assert "Where fedsolve init makes it, they tell each other the names of their columns" in page
    assert "fedsolve init lists it for each site. In the run itself nothing else left a site" in page
