"""Calls of client steps, and what becomes of the replies.

`Mean`, `Sum` and `Gather` take a step and the step's own arguments, by name, and nothing else: a type checker sees the
step's signature through them. What is said about the call itself (uniform weights, the server's own data) is said on
the call object:

    fed.exchange(Mean(self.local_gradient, w=w).uniform(), Gather(self.local_spectrum, count=3))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.aggregation import Total
from fedsolve.federation.array_kinds import map_arrays
from fedsolve.federation.client import Client
from fedsolve.federation.protocol import Signature, is_client_step, is_server_only, signature
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Verb

T = TypeVar("T")
R = TypeVar("R", covariant=True)
P = ParamSpec("P")


class ByClient:
    """An argument that differs by client; `PerClient` makes one."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = dict(values)


def PerClient(values: Mapping[str, T]) -> T:
    """An argument that differs by client: `fed.mean(self.step, count=PerClient({"a": 1, "b": 2}))`.

    Its type is that of the values, so it is accepted wherever the step declares one of them. Every client that is asked
    must be among the names.
    """
    return cast(T, ByClient(values))


class Call(ABC, Generic[R]):
    """A client step to be called, its arguments, and what to do with the replies; `R` is what the server gets."""

    verb: ClassVar[Verb]
    is_added: ClassVar[bool] = True  # whether the replies are added up, and so must have one shape
    at_server: ClassVar[bool] = False  # whether the step runs on the server's own data, and there alone

    def __init__(self, step: Callable[..., object], unnamed: tuple[object, ...], arguments: dict[str, object]) -> None:
        function = getattr(step, "__func__", None)
        if function is None or not is_client_step(function):
            raise ConfigError(f"{step!r} is not a client step: mark the method with @client_step and call it by self")
        if is_server_only(function) and not self.at_server:
            raise ConfigError(f"{function.__name__} runs only at the server: fed.here(self.{function.__name__}, …)")
        if unnamed:
            names = ", ".join(signature(function).arguments)
            raise ConfigError(f"the arguments of {function.__name__} are given by name: {names or 'it has none'}")
        self.protocol: object = getattr(step, "__self__", None)
        self.name: str = function.__name__
        self.signature: Signature = signature(function)
        self.function: Callable[..., Value] = function
        sent_as = getattr(getattr(self.protocol, "loss", None), "sent_as", "float64")
        self.arguments = arguments if sent_as == "float64" else _converted(arguments, sent_as, self.protocol)
        self.counts_server = False

    def with_server(self) -> Self:
        """Count the server's own data like one client more, which comes last. Returns the call."""
        self.counts_server = True
        return self

    @abstractmethod
    def collector(self, weights: Mapping[str, float] | None) -> Collector[R]:
        """What takes the replies in, in the order of the clients; without weights all count the same."""


def _converted(arguments: dict[str, object], sent_as: str, protocol: object) -> dict[str, object]:
    """The arguments of an algorithm's step, or of one that measures a run, with float64 arrays in the type of numbers
    that its loss computes with. Other protocols, such as an evaluation, may have arrays that are no weights, and do not
    say `sends_weights`."""
    if not hasattr(protocol, "round") and not getattr(protocol, "sends_weights", False):
        return arguments

    def convert(array: Array) -> Array:
        if not isinstance(array, np.ndarray) or array.dtype != np.float64:
            return array
        with np.errstate(over="ignore"):  # of a run that diverges: clients say that it is not finite
            return array.astype(sent_as)

    def each(value: object) -> object:
        if isinstance(value, ByClient):
            return ByClient({name: map_arrays(one, convert) for name, one in value.values.items()})
        return map_arrays(value, convert)

    return {name: each(value) for name, value in arguments.items()}


class Collector(Protocol[R]):
    """Takes replies in as they come, and says what they come to."""

    def add_reply(self, client: str, value: Value) -> None: ...

    def outcome(self) -> R: ...


class Mean(Call[T]):
    """The average of the replies, weighted by `client.weight` unless said otherwise: `Mean(step, w=w).uniform()`."""

    verb: ClassVar[Verb] = "mean"

    def __init__(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        super().__init__(step, args, kwargs)
        self.is_uniform = False

    def uniform(self) -> Self:
        """Count all clients the same, however much data they have. Returns the call."""
        self.is_uniform = True
        return self

    def collector(self, weights: Mapping[str, float] | None) -> Collector[T]:
        return _MeanOf(None if self.is_uniform else weights)


class Sum(Call[T]):
    """The sum of the replies."""

    verb: ClassVar[Verb] = "sum"

    def __init__(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        super().__init__(step, args, kwargs)

    def collector(self, weights: Mapping[str, float] | None) -> Collector[T]:
        return _SumOf()


class Gather(Call[dict[str, T]]):
    """Each reply by itself, by client."""

    verb: ClassVar[Verb] = "gather"
    is_added: ClassVar[bool] = False

    def __init__(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        super().__init__(step, args, kwargs)
        self._check: Callable[[T], None] | None = None

    def checked(self, check: Callable[[T], None]) -> Self:
        """Let `check` see each reply, and raise `WrongType` for one that cannot be used. Returns the call.

        Where a quorum is set, the client of such a reply is missing, with the reason; otherwise the error is raised.
        """
        self._check = check
        return self

    def collector(self, weights: Mapping[str, float] | None) -> Collector[dict[str, T]]:
        return _Each(self._check)


class Here(Call[T]):
    """What a step says of the server's own data: `fed.here`."""

    verb: ClassVar[Verb] = "gather"
    at_server: ClassVar[bool] = True

    def __init__(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        super().__init__(step, args, kwargs)

    def collector(self, weights: Mapping[str, float] | None) -> Collector[T]:
        raise AssertionError("there is one reply, and it is the server's own")


class _MeanOf(Total):
    def __init__(self, weights: Mapping[str, float] | None) -> None:
        super().__init__()
        self.weights, self.weight = weights, 0.0

    def add_reply(self, client: str, value: Value) -> None:
        weight = None
        if self.weights is None:
            self.weight += 1.0
        else:
            weight = self.weights[client]
            self.weight += weight  # of those who answered: the mean is theirs
        so_far = self._sum
        if so_far is not None and type(value) is so_far.kind:  # as a rule
            so_far.add(value, weight)
        else:
            self.add(value, weight)

    def outcome(self) -> Value:
        return self.result(1.0 / self.weight)


class _SumOf(Total):
    def add_reply(self, client: str, value: Value) -> None:
        self.add(value)

    def outcome(self) -> Value:
        return self.result()


class _Each:
    def __init__(self, check: Callable[[Value], None] | None) -> None:
        self.replies: dict[str, Value] = {}
        self.check = check

    def add_reply(self, client: str, value: Value) -> None:
        if self.check is not None:
            self.check(value)
        self.replies[client] = value

    def outcome(self) -> dict[str, Value]:
        return self.replies


def for_client(arguments: Mapping[str, object], client: str) -> dict[str, Value]:
    """The arguments one client gets."""
    given: dict[str, Value] = {}
    for name, value in arguments.items():
        if isinstance(value, ByClient):
            if client not in value.values:
                raise ConfigError(f"the argument {name!r} differs by client, and there is none for {client!r}")
            value = value.values[client]
        given[name] = value
    return given
