"""Calls of client steps, and what becomes of the replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

from fedsolve.errors import ConfigError
from fedsolve.federation.aggregation import Total
from fedsolve.federation.protocol import Signature, is_client_step, signature
from fedsolve.typing import Value

T = TypeVar("T")


class PerClient(Generic[T]):
    """An argument that differs by client."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self.values = dict(values)


class Call(ABC):
    """A client step to be called, its arguments, and what to do with the replies."""

    def __init__(
        self,
        step: Callable[..., Any],
        /,
        *unnamed: Any,
        weights: Literal["samples", "uniform"] = "samples",
        **arguments: Any,
    ) -> None:
        function = getattr(step, "__func__", None)
        if function is None or not is_client_step(function):
            raise ConfigError(f"{step!r} is not a client step: mark the method with @client_step and call it by self")
        if unnamed:
            names = ", ".join(signature(function).arguments)
            raise ConfigError(f"the arguments of {function.__name__} are given by name: {names or 'it has none'}")
        if weights not in ("samples", "uniform"):
            raise ConfigError(f"weights are 'samples' or 'uniform', got {weights!r}")
        self.protocol = step.__self__  # type: ignore[attr-defined]
        self.name: str = function.__name__
        self.signature: Signature = signature(function)
        self.weights = weights
        self.arguments = arguments

    @abstractmethod
    def collector(self, weights: Mapping[str, float] | None) -> Collector:
        """What takes the replies in, in the order of the clients; without weights all count the same."""


class Collector(Protocol):
    """Takes replies in as they come, and says what they come to."""

    def add_reply(self, client: str, value: Value) -> None: ...

    def outcome(self) -> Any: ...


class Mean(Call):
    """The weighted average of the replies."""

    def collector(self, weights: Mapping[str, float] | None) -> Collector:
        return _MeanOf(None if self.weights == "uniform" else weights)


class Sum(Call):
    """The sum of the replies."""

    def collector(self, weights: Mapping[str, float] | None) -> Collector:
        return _SumOf()


class Gather(Call):
    """Each reply by itself, by client."""

    def collector(self, weights: Mapping[str, float] | None) -> Collector:
        return _Each()


class _MeanOf(Total):
    def __init__(self, weights: Mapping[str, float] | None) -> None:
        super().__init__()
        self.weights, self.weight = weights, 0.0

    def add_reply(self, client: str, value: Value) -> None:
        if self.weights is None:
            self.weight += 1.0
            self.add(value)
        else:
            weight = self.weights[client]
            self.weight += weight  # of those who answered: the mean is theirs
            self.add(value, weight)

    def outcome(self) -> Value:
        return self.result(1.0 / self.weight)


class _SumOf(Total):
    def add_reply(self, client: str, value: Value) -> None:
        self.add(value)

    def outcome(self) -> Value:
        return self.result()


class _Each:
    def __init__(self) -> None:
        self.replies: dict[str, Value] = {}

    def add_reply(self, client: str, value: Value) -> None:
        self.replies[client] = value

    def outcome(self) -> dict[str, Value]:
        return self.replies


def for_client(arguments: Mapping[str, Any], client: str) -> dict[str, Value]:
    """The arguments one client gets."""
    given: dict[str, Value] = {}
    for name, value in arguments.items():
        if isinstance(value, PerClient):
            if client not in value.values:
                raise ConfigError(f"the argument {name!r} differs by client, and there is none for {client!r}")
            value = value.values[client]
        given[name] = value
    return given
