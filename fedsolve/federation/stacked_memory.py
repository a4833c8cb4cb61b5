"""The memories of the clients in a stack, seen as one by a step inside `torch.func.vmap`.

Reading gives an array with each client's own values. Where one client remembers something and another does not, or
their plain values differ (numbers, texts), the stack is split: a client that joins late goes on with the others as soon
as it remembers what they do. Writing changes no client's memory: what was written is handed over with the replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import array_api_compat as api
import numpy as np

from fedsolve.errors import NotRemembered
from fedsolve.federation.client import Client
from fedsolve.federation.memory import Memory
from fedsolve.federation.not_together import NotTogether, Split
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array, Value

_MISSING = "nothing"  # in the place of what a value is: nothing is remembered
_PLAIN = (type(None), bool, int, float, str)


class StackedMemory(Memory):
    """What a step sees as `client.memory`.

    clients    of the stack, each in the call that is run
    part       makes of an array with an axis for the clients one that has each client's own part inside vmap
    looked_up  which keys the step has asked for, and whether the clients had them: what its way depends on
    written    what it has remembered since, as arrays inside vmap
    """

    __slots__ = ("_clients", "_part", "looked_up", "written")

    def __init__(self, clients: Sequence[Client], part: Callable[[Array], Array]) -> None:
        self._clients, self._part = clients, part
        self.looked_up: dict[str, bool] = {}
        self.written = Memory({}, clients[0].memory.types)

    def __getitem__(self, key: str) -> Value:
        if key not in self:
            raise NotRemembered(key)
        if key in self.written:
            return self.written[key]
        return self._together([client.memory[key] for client in self._clients])

    def __setitem__(self, key: str, value: Value) -> None:
        self.written[key] = value

    def __contains__(self, key: object) -> bool:
        if key in self.written:
            return True
        assert isinstance(key, str)
        kinds = [_kind(key, client.memory[key]) if key in client.memory else _MISSING for client in self._clients]
        if any(kind != kinds[0] for kind in kinds):
            raise Split(kinds, lasting=False)
        return self.looked_up.setdefault(key, kinds[0] is not _MISSING)

    def get(self, key: str, default: Value = None) -> Value:
        try:
            return self[key]
        except NotRemembered:
            return default

    def __delitem__(self, key: str) -> NoReturn:
        raise NotTogether("it removes something from client.memory")

    def __iter__(self) -> Iterator[str]:
        raise NotTogether("it lists what is in client.memory")

    def __len__(self) -> int:
        raise NotTogether("it counts what is in client.memory")

    def _together(self, values: Sequence[Value]) -> Value:
        """Values of one kind as one."""
        first = values[0]
        if type(first) is tuple:
            return tuple(self._together(items) for items in zip(*values, strict=True))
        return first if isinstance(first, _PLAIN) else self._part(_stacked(values, self._clients[0]))


def _kind(key: str, value: Value) -> object:
    """What clients must have in common to go on together: all of a plain value, type and shape of an array."""
    if isinstance(value, _PLAIN):
        return type(value), value
    if type(value) is tuple:
        return tuple(_kind(key, item) for item in value)
    if isinstance(value, np.ndarray) or api.is_torch_array(value):
        return str(value.dtype).rpartition(".")[2], tuple(value.shape)
    raise NotTogether(f"client.memory[{key!r}] holds a {type(value).__name__}")


def _stacked(values: Sequence[Array], client: Client) -> Array:
    """Arrays of one shape with an axis for the clients, as tensors such as `client` computes with."""
    if all(isinstance(value, np.ndarray) for value in values):  # one transfer to the device
        return client.localise(np.stack(values))
    own = [value if _is_own(value, client) else client.localise(value) for value in values]
    return namespace(own[0]).stack(own)


def _is_own(value: Array, client: Client) -> bool:
    same = api.is_torch_array(value) and value.device == client.y.device
    return same and (not value.dtype.is_floating_point or value.dtype == client.y.dtype)
