"""The beginning of a run: joining, preprocessing and the first State, or going on from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from fedsolve.algorithms.base import Algorithm, includes_server
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.session import Preprocessing, Session
from fedsolve.loop.agreement import as_server, warm_start_by_name
from fedsolve.loop.few_rows import check_rows
from fedsolve.loop.history import Row
from fedsolve.loop.measure_protocols import Inspect, Scale
from fedsolve.loop.measuring import Measuring
from fedsolve.loop.preflight import check_resources
from fedsolve.loop.rows import Rows
from fedsolve.loop.saving import Saving
from fedsolve.loop.states import unwrapped
from fedsolve.loop.stopping import Stopping, rounds_in_words
from fedsolve.typing import Value


@dataclass(frozen=True)
class Beginning:
    """Where the loop sets out from.

    measured  whether the row has been measured
    done      why the algorithm is done already; None if it is not
    kept      of a resumed run: the earlier States that its stopping rules keep
    """

    state: Value
    row: Row
    measured: bool = False
    done: str | None = None
    kept: tuple[Value, ...] | None = None


def start(
    algorithm: Algorithm,
    session: Session,
    measuring: Measuring,
    rows: Rows,
    preprocess: Preprocessing | None,
    server: Client | None,
    warm_start: Value,
    types: frozenset[type[object]],
    min_rows: int,
) -> tuple[Beginning, Value]:
    """A new run: everyone joins, the columns are agreed on and preprocessed, and the algorithm starts. Returns the
    transform of the preprocessing beside it."""
    fed, loss = session.fed, measuring.loss
    transform = session.join(preprocess, lambda joined: check_rows(joined, min_rows))
    as_server(server, fed, loss, session.columns, transform, types)
    if server is not None and server.y is None and includes_server(algorithm):
        raise DataError(
            f"{type(algorithm).__name__} learns from the server's own samples, and the server's data ({server.name!r}) "
            "has no targets: give it samples with targets"
        )
    fed.warm_start = warm_start_by_name(warm_start, fed, loss, transform)
    check_resources(algorithm, loss, fed)
    measuring.scale = learned_scale(algorithm, measuring.inspect, measuring.stopping, fed)
    state, done = unwrapped(algorithm.start(fed))
    note_server(server, fed, 0)
    return Beginning(state, rows.row(0, state, None), done=done), transform


def resume(
    algorithm: Algorithm, session: Session, measuring: Measuring, rows: Rows, saving: Saving, min_rows: int
) -> Beginning:
    """Go on from a checkpoint, to the bit."""
    fed = session.fed
    progress, ledger = saving.load()
    most = measuring.stopping.rounds
    if progress.round > most:
        raise ConfigError(
            f"{saving.checkpoint.path} is a run after {rounds_in_words(progress.round)}, and rounds = {most} would end "
            "it before that: allow more rounds, or begin a new run"
        )
    fed.ledger = ledger
    fed.resume(progress.position, progress.round)
    history: list[Row] = list(progress.rows)
    measuring.resume(history)
    rows.resume(history, progress.pending.seconds)
    # The new attempt is on disk before anyone hears of it, so that no two servers share a number.
    saving.save(progress.state, progress.pending, progress.measured, history, progress.kept)
    fed.join()
    check_rows(fed, min_rows)
    check_resources(algorithm, measuring.loss, fed)
    if saving.scale is None:  # the run had no use for it until now
        saving.scale = learned_scale(algorithm, measuring.inspect, measuring.stopping, fed)
    measuring.scale = saving.scale
    return Beginning(progress.state, progress.pending, progress.measured, kept=progress.kept)


def learned_scale(algorithm: Algorithm, inspect: Inspect | None, stopping: Stopping, fed: Federation) -> Scale | None:
    """The problem's own units from sums, if anything depends on them."""
    if inspect is None:
        return None
    solves = "solve" in getattr(algorithm, "needs", ())
    unpenalised = solves and inspect.loss.strong_convexity() <= 0
    if not (stopping.converges or unpenalised):
        return None
    _ = fed.features, fed.outputs  # raise if the clients do not agree on them
    with fed.setting_up():
        ask = Mean(inspect.scale)
        (sums,) = fed.exchange(ask.with_server() if includes_server(algorithm) else ask)
        scale = inspect.made_scale(sums)
        if unpenalised:  # then local systems may have many solutions
            fed.sum(inspect.agree, units=scale.columns)
    return scale


def note_server(server: Client | None, fed: Federation, round: int) -> None:
    """Move what the server's own data has computed to the ledger."""
    if server is not None and server.counts:
        fed.ledger.server_counts.append((round, server.counts))
        server.counts = {}
