"""The stopping rules of a run: the usual limits, and whatever is combined with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass

from fedsolve.errors import ConfigError
from fedsolve.loop.stopping import Stopping, StoppingRule


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
