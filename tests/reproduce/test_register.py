"""The register: what it names exists, its pages are up to date, and the command that prints it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedsolve.cli.main import app
from fedsolve.errors import ConfigError, UnknownName
from fedsolve.reproduce import find, perform
from fedsolve.reproduce import register as registers
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.register import (
    PACKAGES,
    Judged,
    Statement,
    find_paper,
    judge,
    judged,
    runs_beside,
    runs_of,
    statements,
)
from fedsolve.reproduce.register_pages import changed, counted, page, write_pages
from fedsolve.reproduce.result import Verdict
from fedsolve.reproduce.saved_results import Saved, read_saved, save
from fedsolve.version import __version__

ROOT = Path(__file__).parents[2]
SAVED = sorted((ROOT / "fedsolve" / "reproduce" / "saved").glob("*.json"))
WRITTEN = [paper for paper in PACKAGES if statements(paper)]
run = CliRunner()


# ── what is in the repository ──


@pytest.mark.parametrize("paper", WRITTEN)
def test_every_statement_can_be_judged(paper: str) -> None:
    """`judge` raises if a claim is not among the saved ones."""
    found = judged(paper)
    assert len(found) == len(statements(paper)) > 0
    for one in found:
        it = one.statement
        assert it.place
        assert it.says
        assert (one.answer == "not testable") == bool(it.untestable)
        assert one.answer != "NO" or it.explanation, f"{it.place}: a NO without an explanation"
        assert bool(one.saved) == (one.answer in ("yes", "NO", "open"))


@pytest.mark.parametrize("paper", WRITTEN)
def test_no_statement_is_there_twice(paper: str) -> None:
    found = [(one.place, one.says) for one in statements(paper)]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("paper", WRITTEN)
def test_the_page_is_that_of_the_register(paper: str) -> None:
    path = ROOT / "docs" / "reproduce" / f"{PACKAGES[paper]}-claims.md"
    assert path.read_text(encoding="utf-8") == page(paper), "fedsolve reproduce --claims --output docs/reproduce"


@pytest.mark.parametrize("paper", WRITTEN)
def test_the_counts_of_a_page_add_up(paper: str) -> None:
    found = judged(paper)
    total, _, parts = counted(found).partition(" statements: ")
    assert int(total) == sum(int(part.split()[0]) for part in parts.split(", "))
    rows = [line for line in page(paper).partition("\n## Beyond")[0].splitlines() if line.startswith("| ")]
    experiments = {one.statement.experiment for one in found if one.saved is not None}
    assert len(rows) == 1 + len(found) + 1 + len(experiments)  # two headings
    assert all(line.replace("\\|", "").count("|") == 7 for line in rows[: 1 + len(found)])


def test_every_saved_run_is_on_a_page() -> None:
    shown = [name for paper in PACKAGES for name in (*runs_of(judged(paper)), *runs_beside(paper))]
    assert sorted(set(shown)) == sorted(path.stem.replace("-full", " --full") for path in SAVED)
    assert len(shown) == len(set(shown))


def test_rules_that_were_changed_are_counted() -> None:
    before = Statement("here", "something", "At most 1.", "newton-rounds")
    after = Statement("here", "something", "At most 1. Changed after a first run, which had 2.", "newton-rounds")
    assert changed([Judged(before, "yes")]) == "All rules are as they were before the first run."
    assert changed([Judged(before, "yes"), Judged(after, "yes")]).startswith("One rule was changed")
    assert changed([Judged(after, "NO")] * 3).startswith("3 rules were changed")


def test_saved_results_are_small_and_say_where_they_are_from() -> None:
    assert SAVED
    for path in SAVED:
        assert path.stat().st_size < 200_000, path.name
        name, full = path.stem.removesuffix("-full"), path.stem.endswith("-full")
        found = read_saved(name, full)
        assert found is not None
        assert find(found.name).name == name
        assert found.command.startswith(f"fedsolve reproduce {name}")
        assert ("--full" in found.command) == full
        assert "--quick" not in found.command
        assert found.seeds >= 1
        assert found.seconds > 0
        assert found.clock in ("processor", "wall")
        assert found.version.split(".")[0].isdigit()
        assert found.verdicts
        assert all(one.said for one in found.verdicts.values())


# ── how it judges ──


def _saved(**verdicts: bool | None) -> Saved:
    made = {claim: Verdict(holds, claim) for claim, holds in verdicts.items()}
    return Saved("x", "fedsolve reproduce x", 5, 1.0, __version__, "2024-01-31", made, [], [], [])


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        (("a",), "yes"),
        (("a", "b"), "NO"),
        (("a", "c"), "open"),
        (("b", "c"), "NO"),
        ((), "NO"),
    ],
)
def test_all_claims_must_hold(monkeypatch: pytest.MonkeyPatch, wanted: tuple[str, ...], answer: str) -> None:
    monkeypatch.setattr(registers, "read_saved", lambda name, full: _saved(a=True, b=False, c=None))
    found = judge(Statement("here", "something", "a rule", "newton-rounds", wanted))
    assert found.answer == answer
    assert found.said == (wanted or ("a", "b", "c"))


def test_what_was_not_run_and_what_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "read_saved", lambda name, full: None)
    assert judge(Statement("here", "something", "a rule", "newton-rounds")).answer == "not run"
    assert judge(Statement("here", "something", untestable="no data")).answer == "not testable"


def test_the_full_form_has_results_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(registers, "read_saved", lambda name, full: asked.append((name, full)))
    judge(Statement("here", "something", "a rule", "ffgb-table2 --full"))
    judge(Statement("here", "something", "a rule", "ffgb-table2"))
    assert asked == [("ffgb-table2", True), ("ffgb-table2", False)]


def test_a_claim_that_is_not_saved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "read_saved", lambda name, full: _saved(a=True))
    with pytest.raises(ConfigError, match="Theorem 9: the saved results of newton-rounds have no claim 'z'"):
        judge(Statement("Theorem 9", "something", "a rule", "newton-rounds", ("z",)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "an experiment, or a reason"),
        ({"experiment": "newton-rounds", "rule": "r", "untestable": "no"}, "an experiment, or a reason"),
        ({"experiment": "newton-rounds"}, "has a rule"),
    ],
)
def test_a_statement_is_tested_by_a_rule_or_says_why_not(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Statement("here", "something", **given)  # type: ignore[arg-type]


def test_papers_by_name() -> None:
    assert find_paper("fedlrgd") == find_paper("FedLRGD") == "FedLRGD"
    assert find_paper("nonparametric") == find_paper("Su, Xu and Yang (2023)")
    with pytest.raises(UnknownName, match="fedlrdg"):
        find_paper("fedlrdg")


# ── saving ──


def test_a_quick_run_is_not_saved(tmp_path: Path) -> None:
    outcome = perform(find("fedlrgd-theory"), quick=True, seeds=1)
    with pytest.raises(ConfigError, match="--quick gives none"):
        save(outcome, tmp_path, "fedsolve reproduce fedlrgd-theory --quick")
    assert not list(tmp_path.iterdir())


def test_a_saved_run_has_its_command_without_the_report_s_folder(tmp_path: Path) -> None:
    words = ["reproduce", "fedlrgd-theory", "--seeds", "1", "--save", str(tmp_path), "--output", str(tmp_path / "out")]
    assert run.invoke(app, words).exit_code in (0, 1)
    kept = json.loads((tmp_path / "fedlrgd-theory.json").read_text())
    assert kept["command"] == "fedsolve reproduce fedlrgd-theory --seeds 1"
    assert kept["seeds"] == 1
    assert kept["version"] == __version__
    assert (kept["commit"] != "") == ((ROOT / ".git").exists() and shutil.which("git") is not None)
    assert kept["verdicts"]["b gradients take the server 2b on average"]["holds"] is True


# ── the command ──


def test_the_command_prints_the_register() -> None:
    found = run.invoke(app, ["reproduce", "--claims"])
    assert found.exit_code == 0
    for paper in WRITTEN:
        register, printed = judged(paper), " ".join(found.stdout.split())
        assert counted(register) in printed
        for one in register:
            assert " ".join(one.statement.rule.split()[:3]) in printed
        for saved in (*runs_of(register).values(), *runs_beside(paper).values()):
            assert f"{saved.command.split(' --')[0]} " in printed


def test_the_command_for_machines() -> None:
    found = run.invoke(app, ["reproduce", "--claims", "fedlrgd", "--json"])
    assert found.exit_code == 0
    plain = json.loads(found.stdout)["papers"]["FedLRGD"]
    assert plain["counts"] == counted(judged("FedLRGD"))
    tested = [one for one in plain["statements"] if one["answer"] in ("yes", "NO")]
    assert all(one["command"].startswith("fedsolve reproduce ") and one["said"] for one in tested)
    assert all({"seeds", "seconds", "version", "date", "commit"} <= one.keys() for one in tested)


def test_a_wrong_paper_is_wrong_input() -> None:
    found = run.invoke(app, ["reproduce", "--claims", "fedlrdg"])
    assert found.exit_code == 2


def test_pages_are_written(tmp_path: Path) -> None:
    found = run.invoke(app, ["reproduce", "--claims", "--output", str(tmp_path)])
    assert found.exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{PACKAGES[paper]}-claims.md" for paper in WRITTEN}
    assert {path.name for path in write_pages(tmp_path)} == {path.name for path in tmp_path.iterdir()}


# ── checks of theorems ──


def test_a_check_holds_in_every_seed_or_not_at_all() -> None:
    share, power = Check("here", "a share"), Check("there", "a power", "exponent", -0.5)
    found = [{"a share": 0.2, "a power": -0.9}, {"a share": 1.1, "a power": -0.6}]
    result = checked((share, power), found, ())
    assert [verdict.holds for _, verdict in result.claims] == [False, True]
    assert result.claims[0][1].said == "at most 1.1 of the bound"
    assert result.claims[1][1].said == "exponent at most -0.6"
    quick = checked((share, power), found, (), quick=True)
    assert [verdict.holds for _, verdict in quick.claims] == [None, True]


def test_a_check_forgives_rounding_and_no_nan() -> None:
    check = Check("here", "a share")
    assert check.verdict([1 + 1e-12]).holds
    assert not check.verdict([1 + 1e-6]).holds
    assert not check.verdict([0.5, float("nan")]).holds
    assert not check.verdict([float("nan"), 0.5]).holds
