"""Which rules of a policy a site file has switched off, or loosened far beyond the default, in words."""

from __future__ import annotations

from collections.abc import Iterator

from fedsolve.sites.policy import Policy

FAR = 10  # times the default
_SWITCHES = {"fills": False, "bins": False, "own_draws": False, "networks": True}  # as they allow more
_LEAST = ("min_rows", "min_cell")  # the larger, the stricter
_SHARES = {"largest_row": 1.0, "share_of_cells": 1.0, "parameters_per_row": 1.0}  # from which on they hold nothing back
_MOST = (
    "runs",
    "requests",
    "bytes",
    "questions",
    "refusals",
    "failures",
    "directions",
    "counts",
    "evaluations",
    "row_sets",
    "largest_loss",
    "largest_step",
)


def loosened(policy: Policy) -> list[str]:
    """A line for each rule that holds nothing back any more, or far less than by default."""
    return list(_lines(policy, Policy()))


def _lines(policy: Policy, usual: Policy) -> Iterator[str]:
    for name, loose in _SWITCHES.items():
        if getattr(policy, name) is loose:
            yield f"{name} = {str(loose).lower()}: this rule is off"
    for name in _LEAST:
        value, default = getattr(policy, name), getattr(usual, name)
        if value <= 1:
            yield f"{name} = {value}: this rule is off"
        elif value < default:
            yield f"{name} = {value}: fewer than the default of {default}"
    for name, nothing in _SHARES.items():
        value, default = getattr(policy, name), getattr(usual, name)
        if value >= nothing:
            yield f"{name} = {value:g}: this rule is off"
        elif 1 - value <= (1 - default) / FAR:
            yield f"{name} = {value:g}: far above the default of {default:g}"
    for name in _MOST:
        value, default = getattr(policy, name), getattr(usual, name)
        if value >= FAR * default:
            yield f"{name} = {value:,}: far above the default of {default:,}"
