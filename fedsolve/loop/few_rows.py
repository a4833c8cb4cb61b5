"""Clients with very few rows: what they send can give their rows away, so they are named, or rejected.

A gradient, or a sum, over one row determines this row up to few numbers. With p parameters a client sends sums of p
numbers or more in every round: where p is not much smaller than its number of rows, they can be solved for the rows.
The limit of three rows for each parameter is the one that DataSHIELD, a system for federated statistics in medicine,
sets by default (Gaye et al., "DataSHIELD: taking the analysis to the data, not the data to the analysis", International
Journal of Epidemiology, 2014; its option `nfilter.glm` = 0.33).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from fedsolve.errors import DataError
from fedsolve.federation.federation import Federation
from fedsolve.losses import Loss

MIN_ROWS = 5  # below which a client is named, unless a run says otherwise
ROWS_PER_PARAMETER = 3
MOST_NAMED = 5  # clients in one sentence


def check_rows(fed: Federation, min_rows: int = MIN_ROWS) -> None:
    """Raise DataError if a client has a single row, unless `min_rows` allows it. To be asked when the clients have
    joined, and before anything is computed from their rows."""
    if min_rows <= 1:
        return
    alone = [name for name, info in fed.info.items() if info.samples == 1]
    if not alone:
        return
    several = len(alone) > 1
    raise DataError(
        f"{_named(dict.fromkeys(alone, 1), counted=False)} {'have' if several else 'has'} one row"
        f"{' each' if several else ''}, and a sum over one row is the row itself: leave "
        f"{'these clients' if several else 'this client'} out, or merge {'their rows' if several else 'its row'} with "
        "those of another; to allow clients of one row, as in a simulation, say min_rows=1 (in a run file, "
        "[run] min_rows = 1)"
    )


def notices(fed: Federation, loss: Loss | None, min_rows: int = MIN_ROWS) -> tuple[str, ...]:
    """A sentence on clients with fewer rows than `min_rows`, and one on those with fewer than three rows for each
    parameter of the model. `min_rows` = 0: none."""
    if min_rows <= 0 or not fed.info:
        return ()
    rows = {name: info.samples for name, info in fed.info.items()}
    said = []
    few = {name: count for name, count in rows.items() if count < min_rows}
    if few:
        said.append(
            f"{_named(few)} {'has' if len(few) == 1 else 'have'} fewer than {min_rows} rows: sums over so few can give "
            "single rows away. min_rows sets this limit"
        )
    parameters = 0 if loss is None else prod(loss.shape(fed.features, fed.outputs))
    tight = {name: count for name, count in rows.items() if ROWS_PER_PARAMETER * parameters > count}
    many = "1 parameter" if parameters == 1 else f"{parameters:,} parameters"
    if tight:
        said.append(
            f"the fit has {many}, more than a third of the rows of {_named(tight)}: what is sent "
            "can then be enough to work out single rows. Use fewer columns, or leave "
            f"{'this client' if len(tight) == 1 else 'these clients'} out; min_rows=0 switches this warning off"
        )
    return tuple(said)


def _named(rows: Mapping[str, int], counted: bool = True) -> str:
    """Some clients by name, those with the fewest rows first."""
    order = sorted(rows, key=lambda name: rows[name])
    shown = [
        f"{name!r} ({rows[name]:,} row{'' if rows[name] == 1 else 's'})" if counted else repr(name) for name in order
    ]
    kept, left = shown[:MOST_NAMED], len(shown) - MOST_NAMED
    if left > 0:
        kept.append(f"{left:,} others")
    listed = kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"
    return f"{'client' if len(order) == 1 else 'clients'} {listed}"
