"""What protocols remember at a client, in versions that can be returned to.

A version is one dict. Its keys begin with the name of the protocol they belong to ("algorithm:w"), so that two
protocols that both remember "w" do not meet. What the library itself keeps there belongs to "session": what was
agreed when the server joined, the order of the columns, the transform, the units of local systems, what went over the
link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import is_dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import NotRemembered, WrongType
from fedsolve.typing import Value

SESSION = "session:"  # begins the keys that are the library's own


def scope_of(protocol: str) -> str:
    """What the keys of a protocol begin with."""
    return f"{protocol}:"


class Memory(MutableMapping[str, Value]):
    """What a protocol must remember at this client; each protocol sees its own keys only.

    Values are never changed in place, only replaced: that is what makes it possible to return to an earlier version
    when a reply was lost.
    """

    __slots__ = ("changed", "data", "scope", "types")

    def __init__(self, items: dict[str, Value], types: frozenset[type] = frozenset()) -> None:
        self.data = items  # of all protocols
        self.types = types  # the dataclasses that can be read back
        self.changed = False
        self.scope = ""  # of the protocol whose step is running

    def __getitem__(self, key: str) -> Value:
        try:
            return self.data[self.scope + key]
        except KeyError:
            raise NotRemembered(key) from None

    def __setitem__(self, key: str, value: Value) -> None:
        self.put(self.scope, key, value)

    def __delitem__(self, key: str) -> None:
        self._own()
        del self.data[self.scope + key]

    def __iter__(self) -> Iterator[str]:
        start = len(self.scope)
        return (key[start:] for key in self.data if key.startswith(self.scope))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, key: str, default: Value = None) -> Value:
        return self.data.get(self.scope + key, default)

    def put(self, scope: str, key: str, value: Value) -> None:
        """Remember a value under a protocol's key."""
        _settle(key, value, self.types)
        self._own()
        self.data[scope + key] = value

    def _own(self) -> None:
        """Copy on the first write: the dict this memory was made from is an earlier version."""
        if not self.changed:
            self.data, self.changed = dict(self.data), True


class SessionMemory:
    """What the library itself remembers at a client, whichever protocol's step is running."""

    __slots__ = ("_memory",)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def get(self, key: str, default: Value = None) -> Value:
        """What is remembered under a key, or the default."""
        return self._memory.data.get(SESSION + key, default)

    def __setitem__(self, key: str, value: Value) -> None:
        self._memory.put(SESSION, key, value)


def session_memory(items: Mapping[str, Value], types: frozenset[type] = frozenset()) -> Memory:
    """A memory that holds these items of the library's own."""
    return Memory({SESSION + key: value for key, value in items.items()}, types)


def _settle(key: str, value: Value, types: frozenset[type]) -> None:
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
