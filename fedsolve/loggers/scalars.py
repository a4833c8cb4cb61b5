"""A row of the history as numbers with names."""

from __future__ import annotations

from fedsolve.loop.history import Row

# What is logged of a row, where it was measured.
_MEASURED = ("value", "gradient_norm", "relative_gradient", "gap", "change")
_SPENT = ("seconds", "exchanges", "bytes_up", "bytes_down", "cohort", "share")


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a finished round: what was measured, what was spent until then (`cost/…`), and the figures of
    held-out rows (`held_out/…`). What was not measured in this round is left out; what is not finite stays as it is, so
    that a run that diverges can be seen to.

    Example:
        >>> from fedsolve.loop.history import Row
        >>> scalars(Row(3, value=0.25, held_out={"accuracy": 0.9}))["held_out/accuracy"]
        0.9
    """
    measured = {name: getattr(row, name) for name in _MEASURED}
    found = {name: float(value) for name, value in measured.items() if value is not None}
    found |= {f"cost/{name}": float(getattr(row, name)) for name in _SPENT}
    return found | {f"held_out/{name}": float(value) for name, value in (row.held_out or {}).items()}
