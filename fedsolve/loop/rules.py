"""The stopping rules of a run: the usual limits, and whatever is combined with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass

from fedsolve.errors import ConfigError
from fedsolve.federation.protocol import describe
from fedsolve.loop.early_stopping import StoppingTime
from fedsolve.loop.history import Row
from fedsolve.loop.patience import Best, Patience
from fedsolve.loop.stopping import LATEST, Judge, Stopping, StoppingRule, Verdict
from fedsolve.typing import Value


@dataclass(frozen=True)
class Kept:
    """What a rule keeps in a checkpoint, under the rule's description."""

    rule: str
    value: Value


# What the library's own rules keep: known to every checkpoint, so that one of other rules can be read, and rejected
# with a reason.
KEPT_TYPES: tuple[type[object], ...] = (Kept, Best, StoppingTime)


def as_rules(
    given: StoppingRule | Sequence[StoppingRule] | None, rounds: int | None, tolerance: float | None
) -> tuple[Stopping, tuple[StoppingRule, ...]]:
    """The limits of a run, and all of its rules, the limits among them.

    Raises ConfigError for anything that is no rule, for several `Stopping`, and for `rounds` or `tolerance` beside one.
    """
    rules: list[StoppingRule] = []
    if given is not None:
        rules += [given] if isinstance(given, StoppingRule) else _each(given)
    for rule in rules:
        if isinstance(rule, type) or not isinstance(rule, StoppingRule) or not is_dataclass(rule):
            raise ConfigError(f"stopping takes Stopping(…), or rules with prepare(fed, algorithm, state), got {rule!r}")
    limits = [rule for rule in rules if isinstance(rule, Stopping)]
    if len(limits) > 1:
        raise ConfigError("stopping has several Stopping(…): put all limits into one")
    if limits and (rounds is not None or tolerance is not None):
        raise ConfigError("give either stopping=Stopping(…) or rounds= and tolerance=, not both")
    if limits:
        return limits[0], tuple(rules)
    usual = Stopping(
        Stopping.rounds if rounds is None else rounds, Stopping.tolerance if tolerance is None else tolerance
    )
    return usual, (usual, *rules)


def _each(given: Sequence[StoppingRule]) -> list[StoppingRule]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"stopping takes Stopping(…), or a list of stopping rules, got {given!r}")
    return list(given)


def kept_by(rules: Sequence[StoppingRule], judges: Sequence[Judge]) -> tuple[Value, ...]:
    """What the judges keep, for a checkpoint."""
    found = ((rule, getattr(judge, "kept", None)) for rule, judge in zip(rules, judges, strict=True))
    return tuple(Kept(_identity(rule), kept) for rule, kept in found if kept is not None)


def _identity(rule: StoppingRule) -> str:
    """The description of a rule, without what may be changed when a run is resumed."""
    return describe(rule.kept_as() if hasattr(rule, "kept_as") else rule)


def hand_over(
    rules: Sequence[StoppingRule], judges: Sequence[Judge], kept: Sequence[Value], history: Sequence[Row]
) -> None:
    """Let the judges of a resumed run go on with what their rules kept.

    A rule is known by its description, wherever it stands in the list. Rules that keep nothing, such as `Stopping`, may
    be changed, and so may what `kept_as` leaves out, such as the rounds of `Patience`. Raises ConfigError if a rule
    that kept something is missing: without it the run would end otherwise.
    """
    waiting = [one for one in kept if one is not None]
    for rule, judge in zip(rules, judges, strict=True):
        if not hasattr(judge, "resume"):
            continue
        names = (_identity(rule), describe(rule))  # the latter in checkpoints of earlier versions
        mine = next((one for one in waiting if isinstance(one, Kept) and one.rule in names), None)
        waiting = [one for one in waiting if one is not mine]
        judge.resume(history, None if mine is None else mine.value)
    if waiting:
        missing = ", ".join(one.rule if isinstance(one, Kept) else type(one).__name__ for one in waiting)
        raise ConfigError(
            f"the checkpoint is of a run with the stopping rule {missing}, which this run does not have: resume with "
            "the same rule (limits such as rounds may change), or begin a new run"
        )


def at_the_end(verdict: Verdict, judges: Sequence[Judge]) -> Verdict:
    """The verdict of a run, with what the other rules have to say: `Patience` hands back the best State. "Converged"
    and "finished" stay as they are, because they are said of the latest State."""
    if verdict.status in LATEST or verdict.state is not None:
        return verdict
    for judge in judges:
        if hasattr(judge, "at_budget"):
            verdict = judge.at_budget(verdict)
    return verdict


def check_measured(rules: Sequence[StoppingRule], every: int) -> None:
    """Raise ConfigError if a rule judges by what a run measures, and this one measures nothing before its end."""
    for rule in rules:
        if every == 0 and isinstance(rule, Patience) and rule.evaluation is None:
            raise ConfigError(
                "Patience judges by the measured value, and measure=0 measures only at the end: leave measure out, or "
                "let it judge by held-out rows, Patience(evaluation=Evaluation(loss))"
            )
