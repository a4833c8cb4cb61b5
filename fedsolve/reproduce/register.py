"""The register: every statement of the papers that can be checked, by what rule, and what came of it.

Each paper's package has a `register.toml`, a list of statements:

    [[statement]]
    place = "Theorem 2"                   # where in the paper
    says = "…"                            # what it says, in our words
    rule = "…"                            # what would make it true here; written before the run
    experiment = "fednewton-fig3"         # the experiment that decides it; "NAME --full" for its full form
    claims = ["…"]                        # which of its claims; all must hold. Without: all of its verdicts

    [[statement]]
    place = "Assumption 1"
    says = "…"
    untestable = "why it cannot be tested here"

`explanation` says why the answer is NO, with what was tried. A rule that was changed when a result was known says so,
in words that begin “Changed after”. Verdicts come from saved results (`saved_results`), so that asking for them takes
no time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal

from fedsolve.errors import ConfigError, UnknownName
from fedsolve.plain import Reader
from fedsolve.reproduce import harness
from fedsolve.reproduce.saved_results import Saved, all_saved, read_saved

Answer = Literal["yes", "NO", "open", "not run", "not testable"]

FULL = " --full"
PACKAGES = {
    "FedLRGD": "fedlrgd",
    "FedNewton": "fednewton",
    "FFGB": "ffgb",
    "Su, Xu and Yang (2023)": "nonparametric",
    "SHED": "shed",
}


@dataclass(frozen=True)
class Statement:
    """A statement of a paper.

    place        where it stands
    says         what it says
    rule         by which it is judged
    experiment   whose claims decide it
    claims       the claims, word for word; () all verdicts of the experiment
    untestable   why it cannot be tested here
    explanation  why the answer is NO, and what was tried
    """

    place: str
    says: str
    rule: str = ""
    experiment: str = ""
    claims: tuple[str, ...] = ()
    untestable: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        if bool(self.untestable) == bool(self.experiment):
            raise ConfigError(f"{self.place}: a statement has an experiment, or a reason why it cannot be tested")
        if self.experiment and not self.rule:
            raise ConfigError(f"{self.place}: a statement that is tested has a rule")

    @property
    def run_of(self) -> tuple[str, bool]:
        """The experiment's name, and whether its full form is meant."""
        name = self.experiment.removesuffix(FULL)
        return name, name != self.experiment

    @property
    def was_changed(self) -> bool:
        """Whether the rule says that it was changed when a result was known."""
        return "changed after" in self.rule.casefold()


@dataclass(frozen=True)
class Judged:
    """A statement, what came of it, and in which run."""

    statement: Statement
    answer: Answer
    said: tuple[str, ...] = ()
    saved: Saved | None = None

    def plain(self) -> dict[str, object]:
        """For machines."""
        one, run = self.statement, self.saved
        found: dict[str, object] = {"place": one.place, "says": one.says, "rule": one.rule, "answer": self.answer}
        found |= {"said": list(self.said), "explanation": one.explanation, "untestable": one.untestable}
        if run is not None:
            found |= {"command": run.command, "seeds": run.seeds, "version": run.version}
            found |= {"seconds": run.seconds, "clock": run.clock, "date": run.date, "commit": run.commit}
        return found


@dataclass(frozen=True)
class _Listed:
    statement: tuple[Statement, ...] = field(default=())


def find_paper(name: str) -> str:
    """The paper of this name, or of the name of its package. Raises UnknownName."""
    folded = {key.casefold(): paper for paper, package in PACKAGES.items() for key in (paper, package)}
    if name.casefold() not in folded:
        raise UnknownName("paper", name, (*PACKAGES, "nonparametric"))
    return folded[name.casefold()]


@cache
def statements(paper: str) -> tuple[Statement, ...]:
    """The register of a paper, in the paper's order."""
    file = resources.files(f"fedsolve.reproduce.{PACKAGES[paper]}") / "register.toml"
    if not file.is_file():
        return ()
    listed = Reader().make(_Listed, tomllib.loads(file.read_text(encoding="utf-8")), f"{paper}, register.toml")
    for one in listed.statement:
        if one.experiment:
            harness.find(one.run_of[0])
    return listed.statement


def judge(one: Statement) -> Judged:
    """What the saved results say of a statement."""
    if one.untestable:
        return Judged(one, "not testable")
    saved = read_saved(*one.run_of)
    if saved is None:
        return Judged(one, "not run")
    wanted = one.claims or tuple(saved.verdicts)
    missing = [claim for claim in wanted if claim not in saved.verdicts]
    if missing:
        raise ConfigError(
            f"{one.place}: the saved results of {one.experiment} have no claim {missing[0]!r}; run it again, or "
            "correct the register"
        )
    found = [saved.verdicts[claim] for claim in wanted]
    answer: Answer = "yes"
    if any(verdict.holds is False for verdict in found):
        answer = "NO"
    elif not found or any(verdict.holds is None for verdict in found):
        answer = "open"
    return Judged(one, answer, tuple(verdict.said for verdict in found), saved)


def judged(paper: str) -> list[Judged]:
    """The register of a paper with its verdicts."""
    return [judge(one) for one in statements(paper)]


def runs_of(found: Iterable[Judged]) -> dict[str, Saved]:
    """The saved runs that judged these statements, by experiment."""
    return {one.statement.experiment: one.saved for one in found if one.saved is not None}


def runs_beside(paper: str) -> dict[str, Saved]:
    """The saved runs of a paper's experiments that judge no statement: what goes beyond the paper, by experiment."""
    used = {one.experiment for one in statements(paper)}
    found = {name + (FULL if full else ""): read_saved(name, full) for name, full in all_saved()}
    return {
        name: saved
        for name, saved in found.items()
        if saved is not None and name not in used and harness.find(saved.name).paper == paper
    }
