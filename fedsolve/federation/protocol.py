"""Whatever asks the clients something is a protocol: a frozen dataclass with methods marked `@client_step`.

Algorithms are one kind; preprocessing, line searches, measuring and joining a run are others. A call names protocol
and step; both sides hold the same protocol objects, and a fingerprint of them is compared before a run starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints, overload

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.wire.contracts import Check, by_name, checker, dataclasses_in, field_hints

Step = TypeVar("Step", bound=Callable[..., Any])

_MARK = "__client_step__"
_TOGETHER = "__together__"


@overload
def client_step(function: Step, /) -> Step: ...


@overload
def client_step(*, together: bool = False) -> Callable[[Step], Step]: ...


def client_step(function: Step | None = None, /, *, together: bool = False) -> Step | Callable[[Step], Step]:
    """Mark a method as one that runs where the data is. Its annotations are its contract on the wire.

    together  whether the step is array code throughout, so that one call may serve many clients (`stacked.py` says
              what such a step may use): `@client_step(together=True)`. It still runs for one client at a time wherever
              a transport does not run clients together
    """

    def mark(step: Step) -> Step:
        setattr(step, _MARK, True)
        setattr(step, _TOGETHER, together)
        return step

    return mark if function is None else mark(function)


def is_client_step(function: Any) -> bool:
    return getattr(function, _MARK, False) is True


def runs_together(function: Callable[..., object]) -> bool:
    """Whether a client step was marked with `together=True`."""
    return getattr(function, _TOGETHER, False) is True


@dataclass(frozen=True)
class Signature:
    """What a step takes and gives."""

    arguments: dict[str, Check]
    returns: Check
    returns_hint: Any
    types: frozenset[type[Any]]


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """Read a step's annotations."""
    hints = get_type_hints(function)
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    missing = [name for name in parameters[2:] if name not in hints]
    if "return" not in hints or missing:
        raise ConfigError(
            f"client step {function.__qualname__} must annotate its arguments and its reply "
            f"(missing: {', '.join(missing) or 'return'}), because the wire checks them"
        )
    returned = hints.pop("return")
    arguments = {name: hints[name] for name in parameters[2:]}
    found = {one for hint in (returned, *arguments.values()) for one in dataclasses_in(hint)}
    return Signature({k: checker(v) for k, v in arguments.items()}, checker(returned), returned, frozenset(found))


def steps(protocol: Any) -> dict[str, Callable[..., Any]]:
    """The client steps of a protocol by name."""
    kind = type(protocol)
    return {name: getattr(kind, name) for name in dir(kind) if is_client_step(getattr(kind, name, None))}


def collect(name: str, protocol: Any) -> Iterator[tuple[str, Any]]:
    """A protocol and the protocols among its fields, each under its path: `algorithm`, `algorithm.search`."""
    if isinstance(protocol, type):
        raise ConfigError(f"{name} is the class {protocol.__name__}: call it, {protocol.__name__}(…)")
    if not is_dataclass(protocol):
        raise ConfigError(f"a protocol is a frozen dataclass, got {protocol!r}")
    yield name, protocol
    for field in fields(protocol):
        inner = getattr(protocol, field.name)
        if is_dataclass(inner) and not isinstance(inner, type) and steps(inner):
            yield from collect(f"{name}.{field.name}", inner)


def types_of(protocols: Mapping[str, Any]) -> frozenset[type[Any]]:
    """Every dataclass that may travel between the two sides of these protocols."""
    found = {
        one for protocol in protocols.values() for step in steps(protocol).values() for one in signature(step).types
    }
    by_name(found)
    return frozenset(found)


def fingerprint(protocol: Any) -> str:
    """A short hash of the class and of every hyper-parameter: equal on both sides, or the run does not start."""
    return hashlib.blake2b(describe(protocol).encode(), digest_size=8).hexdigest()


def describe(value: Any) -> str:
    """Class and hyper-parameters, spelled out."""
    if is_dataclass(value) and not isinstance(value, type):
        floats = _float_fields(type(value))
        inner = ", ".join(
            f"{field.name}={_described(getattr(value, field.name), field.name in floats)}" for field in fields(value)
        )
        return f"{type(value).__qualname__}({inner})"
    if isinstance(value, np.generic):
        return repr(value.item())  # np.int64(3) is 3
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {describe(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(describe(item) for item in value) + "]"
    if hasattr(value, "tobytes"):  # an array among the hyper-parameters
        return f"array{value.shape}{hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest()}"
    return repr(value)


def _described(value: Any, is_float: bool) -> str:
    """One field; 1 and 1.0 are the same where a float is declared."""
    if is_float and isinstance(value, int | np.integer) and not isinstance(value, bool):
        value = float(value)
    return describe(value)


@cache
def _float_fields(kind: type[Any]) -> frozenset[str]:
    """The fields of a dataclass that hold a float, and no int that would be something else."""
    try:
        hints = field_hints(kind)
    except NameError:  # an annotation that cannot be read: what it allows is not known
        return frozenset()
    options = {name: {hint, *get_args(hint)} for name, hint in hints.items()}
    return frozenset(name for name, found in options.items() if float in found and int not in found)
