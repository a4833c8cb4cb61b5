"""What a run brings besides its clients, a warm start and data of the server, in the columns the clients agree on."""

from __future__ import annotations

from typing import Any

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.memory import session_memory
from fedsolve.loop.preflight import warm_weights
from fedsolve.tables.names import difference
from fedsolve.typing import Array


def warm_start_by_name(warm_start: Any, fed: Federation, loss: Any, transform: Any) -> Array | None:
    """The weights to start from as this run orders them: those of a model are matched by the names of its columns.

    A model's weights mean nothing to other columns: raises ConfigError if it was fitted on others, on columns that were
    preprocessed where these are not or the other way round, or on other features of them.
    """
    w = warm_weights(warm_start)
    if w is None or not hasattr(warm_start, "coef"):
        return w
    instead = "fit it in the same way, or give its weights alone, warm_start=model.w, if you know that they fit"
    if (warm_start.transform is None) != (transform is None):
        ours, theirs = ("no preprocess=", "behind one") if transform is None else ("a preprocess=", "without one")
        raise ConfigError(f"this run has {ours}, and the model of the warm start was fitted {theirs}; {instead}")
    mapped = getattr(loss, "features", None)
    if warm_start.features != mapped:
        raise ConfigError(
            f"the warm start's weights are for the features {warm_start.features!r}, this run's for {mapped!r}; "
            f"{instead}"
        )
    has_intercept = getattr(loss, "intercept", None) is not None
    if loss is not None and bool(warm_start.intercept) != has_intercept:
        with_, without = ("the warm start", "this loss") if warm_start.intercept else ("this loss", "the warm start")
        raise ConfigError(f"{with_} has an intercept and {without} has none; {instead}")
    if warm_start.classes is not None and fed.classes is not None and warm_start.classes != fed.classes:
        raise ConfigError(
            f"the warm start's classes are {list(warm_start.classes)}, this run's {list(fed.classes)}; declare the "
            "same classes in the same order"
        )
    before, now = warm_start.feature_names, fed.feature_names
    if before is None or now is None or before == now:
        return w
    if said := difference(before, now):
        raise ConfigError(f"the model of the warm start was fitted on other columns: it {said}; {instead}")
    if mapped is not None:
        raise ConfigError(
            "the warm start's feature map was fitted on the same columns in another order, which changes what its "
            "features are; give the clients the columns in the order of model.feature_names"
        )
    places = {name: place for place, name in enumerate(before)}
    rows = [places[name] for name in now]
    return w[[*rows, len(rows)] if has_intercept else rows]


def as_server(
    server: Client | None,
    fed: Federation,
    loss: Any,
    columns: tuple[str, ...] | None,
    transform: Any,
    types: frozenset[type[Any]],
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
    known = {"columns": columns, "transform": transform}
    server.forget()
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
    if callable(getattr(loss, "check", None)):
        loss.check(server)
