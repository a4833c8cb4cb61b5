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

Repair = tuple[FunctionType | str, dict[str, Any]]  # a function or a module, and names it should know


def pack(protocols: Mapping[str, Any], *rest: Any) -> tuple[bytes, list[bytes | memoryview]]:
    """The values as bytes, and the contents of their arrays."""
    values, buffers = (dict(protocols), *rest), []  # type: tuple[Any, ...], list[pickle.PickleBuffer]
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
        known = where.__globals__ if isinstance(where, FunctionType) else vars(importlib.import_module(where))
        for name, value in names.items():
            known.setdefault(name, value)
    return tuple(values)


def _whole(values: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(values, protocol=5, buffer_callback=buffers.append)  # type: ignore[no-any-return]
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"the clients or the algorithm cannot be handed to a worker process: {error}. Hold nothing in them that "
            'belongs to this process, such as a file or a lock, or use Processes(clients, start="fork")'
        ) from error


# ── annotations ──
# cloudpickle takes along the names that a function's code uses, and not those in its annotations where these are kept
# as text. A client step's annotations are its contract, so the names in them must be known where it is read.


def _repairs(protocols: Iterable[Any]) -> Iterator[Repair]:
    waiting = [kind for protocol in protocols for kind in _kinds(protocol)]
    seen: set[type[Any]] = set()
    while waiting:
        kind = waiting.pop()
        if kind in seen or not (kind.__module__ == "__main__" or "<locals>" in kind.__qualname__):
            continue
        seen.add(kind)
        waiting += kind.__mro__
        module = sys.modules.get(kind.__module__)
        if module is not None:
            names = _named(vars(kind).get("__annotations__", {}).values(), vars(module))
            yield kind.__module__, names
            waiting += [value for value in names.values() if isinstance(value, type)]
        for function in vars(kind).values():
            if isinstance(function, FunctionType):
                names = _named(function.__annotations__.values(), function.__globals__)
                yield function, names
                waiting += [value for value in names.values() if isinstance(value, type)]


def _kinds(value: Any) -> Iterator[type[Any]]:
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


def _named(annotations: Iterable[Any], namespace: Mapping[str, Any]) -> dict[str, Any]:
    words = {word for text in annotations if isinstance(text, str) for word in re.findall(r"[^\W\d]\w*", text)}
    return {word: namespace[word] for word in words if word in namespace}
