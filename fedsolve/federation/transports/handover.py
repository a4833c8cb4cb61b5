"""Clients and protocols for a fresh process: pickled, with the arrays beside it and not copied.

This machine talks to itself here; what comes over a network is never unpickled. Classes of a module travel by name.
Those a new process could not import, because they were written in a script, in a notebook or inside a function, travel
whole (cloudpickle), so that a script needs no `if __name__ == "__main__":`.
"""

from __future__ import annotations

import importlib
import pickle
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from fedsolve.errors import ConfigError

_ALIGNED = 64  # bytes: arrays begin where vector instructions like it
_BUFFER = struct.Struct("<Q?")  # length, whether it may be written to

# What cloudpickle leaves behind: names that a function or a module should know; the full name of a class.
Repair = tuple[FunctionType | str | type, dict[str, object]]


def pack(protocols: Mapping[str, object], *rest: object) -> tuple[bytes, list[bytes | memoryview]]:
    """The values as bytes, and the contents of their arrays."""
    values, buffers = (dict(protocols), *rest), []  # type: tuple[object, ...], list[pickle.PickleBuffer]
    try:
        data = pickle.dumps(((), *values), protocol=5, buffer_callback=buffers.append)
        importable = b"__main__" not in data
    except (pickle.PicklingError, AttributeError, TypeError):
        importable = False
    if not importable:
        buffers.clear()
        data = _whole((tuple(_repairs(protocols.values())), *values), buffers)
    raw = [buffer.raw() for buffer in buffers]
    index = b"".join(_BUFFER.pack(view.nbytes, not view.readonly) for view in raw)
    contents: list[bytes | memoryview] = []
    for view in raw:
        contents += [view, bytes(-view.nbytes % _ALIGNED)]
    return struct.pack("<Q", len(raw)) + index + data, contents


def unpack(data: bytearray, contents: bytearray) -> tuple[Any, ...]:
    """What was packed; arrays are views of `contents`."""
    (count,) = struct.unpack_from("<Q", data)
    start, place = 8 + count * _BUFFER.size, 0
    views: list[memoryview] = []
    for size, writable in _BUFFER.iter_unpack(memoryview(data)[8:start]):
        view = memoryview(contents)[place : place + size]
        views.append(view if writable else view.toreadonly())
        place += size + -size % _ALIGNED
    repairs, *values = pickle.loads(memoryview(data)[start:], buffers=views)
    for where, names in repairs:
        _repair(where, names)
    return tuple(values)


def _whole(values: object, buffers: list[pickle.PickleBuffer]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(values, protocol=5, buffer_callback=buffers.append)  # type: ignore[no-any-return]
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"the clients or the algorithm cannot be handed to a worker process: {error}. Hold nothing in them that "
            'belongs to this process, such as a file or a lock, or use Processes(clients, start="fork")'
        ) from error


# ── what cloudpickle leaves behind ──
# It takes along the names that a function's code uses, and not those in its annotations where these are kept as text.
# But a client step's annotations are its contract. And of a class inside another it keeps the last name only, while
# fingerprints and the wire use the full one.


def _repairs(protocols: Iterable[object]) -> Iterator[Repair]:
    waiting = [kind for protocol in protocols for kind in _kinds(protocol)]
    seen: set[type] = set()
    while waiting:
        kind = waiting.pop()
        if kind in seen or not (kind.__module__ == "__main__" or "<locals>" in kind.__qualname__):
            continue
        seen.add(kind)
        yield kind, {"__qualname__": kind.__qualname__}
        inside = vars(kind).values()
        found: list[Repair] = [
            (one, _named(one.__annotations__, one.__globals__)) for one in inside if isinstance(one, FunctionType)
        ]
        module = sys.modules.get(kind.__module__)
        if module is not None:
            found.append((kind.__module__, _named(vars(kind).get("__annotations__", {}), vars(module))))
        yield from found
        known = [value for _, names in found for value in names.values()]
        waiting += [one for one in (*kind.__mro__, *inside, *known) if isinstance(one, type)]


def _repair(where: FunctionType | str | type, names: Mapping[str, object]) -> None:
    if isinstance(where, type):
        where.__qualname__ = str(names["__qualname__"])
        return
    known = where.__globals__ if isinstance(where, FunctionType) else vars(importlib.import_module(where))
    for name, value in names.items():
        known.setdefault(name, value)


def _kinds(value: object) -> Iterator[type]:
    """The classes of a protocol and of what is in its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for field in fields(value):
            yield from _kinds(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _kinds(item)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value:
            yield from _kinds(item)


def _named(annotations: Mapping[str, object], namespace: Mapping[str, object]) -> dict[str, object]:
    """What the names in annotations stand for."""
    words = {word for text in annotations.values() if isinstance(text, str) for word in re.findall(r"[^\W\d]\w*", text)}
    return {word: namespace[word] for word in words if word in namespace}
