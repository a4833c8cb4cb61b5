"""Whatever asks the clients something is a protocol: a frozen dataclass with methods marked `@client_step`.

Algorithms are one kind; preprocessing, line searches, measuring and joining a run are others. A call names protocol
and step; both sides hold the same protocol objects, and a fingerprint of them is compared before a run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TypeVar, get_type_hints, overload

from fedsolve.errors import ConfigError
from fedsolve.plain import describe as describe
from fedsolve.plain import fingerprint as fingerprint
from fedsolve.typing import Value
from fedsolve.wire.annotation_checks import Check, by_name, checker, dataclasses_in

Step = TypeVar("Step", bound=Callable[..., object])

_MARK = "__client_step__"
_TOGETHER = "__together__"
_SERVER_ONLY = "__server_only__"
_SENDS = "__sends__"


@overload
def client_step(function: Step, /) -> Step: ...


@overload
def client_step(
    *, together: bool = False, server_only: bool = False, sends: str | None = None
) -> Callable[[Step], Step]: ...


def client_step(
    function: Step | None = None,
    /,
    *,
    together: bool = False,
    server_only: bool = False,
    sends: str | None = None,
) -> Step | Callable[[Step], Step]:
    """Mark a method as one that runs where the data is. Its annotations are its contract on the wire.

    together  whether the step is array code throughout, so that one call may serve many clients (`stacked.py` says
              what such a step may use): `@client_step(together=True)`. It still runs for one client at a time wherever
              a transport does not run clients together
    server_only  whether the step may run only on data of the server's own (`fed.here`); clients do not answer it
    sends     what a reply is, in words for people who do not know the algorithm ("a gradient"). The report of a run
              says with them what left each site; without them it names the step. "{self.field}" stands for what a field
              of the protocol says
    """

    def mark(step: Step) -> Step:
        setattr(step, _MARK, True)
        setattr(step, _TOGETHER, together)
        setattr(step, _SERVER_ONLY, server_only)
        setattr(step, _SENDS, sends)
        return step

    return mark if function is None else mark(function)


def is_client_step(function: object) -> bool:
    return getattr(function, _MARK, False) is True


def is_server_only(function: Callable[..., object]) -> bool:
    """Whether a step was marked with `server_only=True`."""
    return getattr(function, _SERVER_ONLY, False) is True


def what_it_sends(function: Callable[..., object]) -> str | None:
    """What a reply of a client step is, in words, where it says so: `@client_step(sends="a gradient")`."""
    found = getattr(function, _SENDS, None)
    return found if isinstance(found, str) else None


def runs_together(function: Callable[..., object]) -> bool:
    """Whether a client step was marked with `together=True`."""
    return getattr(function, _TOGETHER, False) is True


@dataclass(frozen=True)
class Signature:
    """What a step takes and gives."""

    arguments: dict[str, Check]
    returns: Check
    returns_hint: object
    types: frozenset[type]


@cache
def signature(function: Callable[..., object]) -> Signature:
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


def steps(protocol: object) -> dict[str, Callable[..., Value]]:
    """The client steps of a protocol by name."""
    kind = type(protocol)
    return {name: getattr(kind, name) for name in dir(kind) if is_client_step(getattr(kind, name, None))}


def collect(name: str, protocol: object) -> Iterator[tuple[str, object]]:
    """A protocol and the protocols among its fields, each under its path: `algorithm`, `algorithm.search`; also those
    inside a field that asks nothing itself, such as the learner of a `Minimax`: `algorithm.learner.learner`."""
    if isinstance(protocol, type):
        raise ConfigError(f"{name} is the class {protocol.__name__}: call it, {protocol.__name__}(…)")
    if not is_dataclass(protocol):
        raise ConfigError(f"a protocol is a frozen dataclass, got {protocol!r}")
    yield name, protocol
    for field in fields(protocol):
        inner = getattr(protocol, field.name)
        if is_dataclass(inner) and not isinstance(inner, type):
            found = collect(f"{name}.{field.name}", inner)
            yield from (one for one in found if one[1] is not inner or steps(inner))


def types_of(protocols: Mapping[str, object]) -> frozenset[type]:
    """Every dataclass that may travel between the two sides of these protocols."""
    found = {
        one for protocol in protocols.values() for step in steps(protocol).values() for one in signature(step).types
    }
    by_name(found)
    return frozenset(found)
