"""Calls of client steps, and what becomes of the replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from fedsolve.aggregate import weighted_sum
from fedsolve.errors import ConfigError
from fedsolve.protocol import Signature, is_client_step, signature
from fedsolve.typing import Value

T = TypeVar("T")


class PerClient(Generic[T]):
    """An argument that differs by client."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self.values = dict(values)


class Call:
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

    def combine(self, replies: list[Value], clients: Sequence[str], weights: Mapping[str, float]) -> Any:
        raise NotImplementedError("use Mean, Sum or Gather")


class Mean(Call):
    """The weighted average of the replies."""

    def combine(self, replies: list[Value], clients: Sequence[str], weights: Mapping[str, float]) -> Any:
        used = [1.0] * len(replies) if self.weights == "uniform" else [weights[name] for name in clients]
        total = sum(used)
        return weighted_sum(replies, [weight / total for weight in used])


class Sum(Call):
    """The sum of the replies."""

    def combine(self, replies: list[Value], clients: Sequence[str], weights: Mapping[str, float]) -> Any:
        return weighted_sum(replies, None)


class Gather(Call):
    """Each reply by itself, by client."""

    def combine(self, replies: list[Value], clients: Sequence[str], weights: Mapping[str, float]) -> Any:
        return dict(zip(clients, replies, strict=True))


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
