"""What a run brings besides its clients, a warm start and data of the server, in the columns the clients agree on."""

from __future__ import annotations

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.memory import SESSION, Memory, session_memory
from fedsolve.loop.preflight import warm_weights
from fedsolve.losses import Loss
from fedsolve.models.base import Model, Task
from fedsolve.tables.column_names import difference
from fedsolve.typing import Array, Value

DATA_MARK = "data mark"


def warm_start_by_name(
    warm_start: Model | Array | None, fed: Federation, loss: Loss | None, transform: Value
) -> Array | None:
    """The weights to start from as this run orders them. Raises ConfigError if those of a model do not fit."""
    if not isinstance(warm_start, Model):
        return warm_weights(warm_start)
    intercept = None if loss is None else getattr(loss, "intercept", None) is not None
    task = Task(
        fed.feature_names,
        fed.classes,
        transform is not None,
        getattr(loss, "features", None),
        intercept,
        architecture=getattr(loss, "architecture", None),
    )
    return warm_weights(warm_start.weights_for(task))


def as_server(
    server: Client | None,
    fed: Federation,
    loss: Loss | None,
    columns: tuple[str, ...] | None,
    transform: Value,
    types: frozenset[type[object]],
) -> None:
    """Give the server's own data the columns and the preprocessing that the federation has agreed on, and check it as a
    client's is checked when it joins.

    columns  the names the clients agreed on before preprocessing; None: they have none
    types    the dataclasses that the server's memory may hold
    """
    if server is None:
        return
    whose = f"the server's data ({server.name!r})"
    if columns is not None and server.feature_names is not None:
        if said := difference(server.feature_names, columns):
            raise DataError(f"{whose} {said}; give it the columns that the clients have, in any order")
    elif columns is not None or server.feature_names is not None:
        without, having = (whose, "the clients'") if columns is not None else ("the clients' data", "the server's")
        raise DataError(f"{without} has no column names where {having} has; give both names, or neither")
    mark = server.data_mark() if fed.checkpointing else None  # by which a resumed run knows it again
    known = {"columns": columns, "transform": transform, DATA_MARK: mark}
    server.forget()
    server.counts = {}  # of an earlier run
    server.memory = session_memory({key: value for key, value in known.items() if value is not None}, types)
    width = server.design.shape[1]
    if width != fed.features:
        raise DataError(f"{whose} has {width} features where the clients have {fed.features}")
    if loss is None or server.y is None:  # unlabelled data has no targets to check
        return
    if tuple(server.y.shape[1:]) != fed.outputs:
        raise DataError(f"{whose} has targets of shape {tuple(server.y.shape[1:])}, the clients of {fed.outputs}")
    if server.classes != fed.classes:
        raise DataError(
            f"{whose} declares the classes {server.classes}, the clients {fed.classes}; declare the "
            "same, in the same order"
        )
    loss.check(server)


def same_server(server: Client | None, memory: Memory) -> None:
    """Raise DataError unless a resumed run has the server's data that it began with.

    memory  what the server's data remembered when the checkpoint was saved
    """
    before = memory.data.get(SESSION + DATA_MARK)
    if before is None and server is not None:
        raise DataError("the run began without data of the server's own: resume it without, or begin a new run")
    if before is not None and server is None:
        raise DataError("the run began with data of the server's own: give it again, server=Client(…), to resume")
    if server is not None and before != server.data_mark():
        raise DataError(
            f"the server's data ({server.name!r}) is not what the run began with, so it cannot be resumed; give it its "
            "data back, or begin a new run"
        )
