"""What an algorithm remembers at a client, in versions that can be returned to."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import NotRemembered, WrongType
from fedsolve.typing import Value


class Memory(MutableMapping[str, Any]):
    """What an algorithm must remember at this client. Values are never changed in place, only replaced:
    that is what makes it possible to return to an earlier version when a reply was lost."""

    __slots__ = ("changed", "data", "types")

    def __init__(self, items: dict[str, Value], types: frozenset[type[Any]] = frozenset()) -> None:
        self.data = items
        self.types = types  # the dataclasses that can be read back
        self.changed = False

    def __getitem__(self, key: str) -> Value:
        try:
            return self.data[key]
        except KeyError:
            raise NotRemembered(key) from None

    def __setitem__(self, key: str, value: Value) -> None:
        _settle(key, value, self.types)
        self._own()
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        self._own()
        del self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def get(self, key: str, default: Any = None) -> Any:
        return self.data.get(key, default)

    def _own(self) -> None:
        """Copy on the first write: the dict this memory was made from is an earlier version."""
        if not self.changed:
            self.data, self.changed = dict(self.data), True


def _settle(key: str, value: Value, types: frozenset[type[Any]]) -> None:
    """Make a value unchangeable, or refuse one that cannot be made so or could not be read back from a checkpoint."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, list | dict | set):
        raise WrongType(
            f"client.memory[{key!r}] cannot hold a {type(value).__name__}: changed in place, it would change in "
            "earlier versions too; use a tuple, and replace it"
        )
    elif isinstance(value, tuple):
        for item in value:
            _settle(key, item, types)
    elif (is_dataclass(value) or sp.issparse(value)) and type(value) not in types:
        raise WrongType(
            f"client.memory[{key!r}] cannot hold a {type(value).__name__}, which no client step declares: "
            "it could not be read back; keep its fields instead"
        )
