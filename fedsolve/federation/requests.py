"""The requests of an exchange. Clients that are told the same, in the same state of acknowledgement, share one."""

from __future__ import annotations

from collections.abc import Sequence

from fedsolve.federation.calls import ByClient, Call, for_client
from fedsolve.wire.encoding import Part, Preamble
from fedsolve.wire.messages import Request

State = tuple[int, int]  # the reply of a client that was used last, and the one the server would go back to


def make_requests(
    head: Preamble,
    routes: Part,
    calls: Sequence[Call[object]],
    asked: tuple[str, ...],
    states: Sequence[State],
) -> dict[str, Request]:
    """One request for each client that is asked, in their order.

    Args:
        head: The preamble; `used` and `keep` are filled in for each client.
        states: Of each client that is asked; a single one, if all are in the same.
    """
    for call in calls:
        for value in call.arguments.values():
            if type(value) is ByClient:
                return _individual(head, routes, calls, asked, states if len(states) > 1 else [*states] * len(asked))
    shared = tuple([Part(call.arguments) for call in calls])
    if len(states) == 1:  # as a rule
        return dict.fromkeys(asked, _request(head, routes, states[0], shared))
    made = {state: _request(head, routes, state, shared) for state in set(states)}
    return {name: made[state] for name, state in zip(asked, states, strict=True)}


def _request(head: Preamble, routes: Part, state: State, arguments: tuple[Part, ...]) -> Request:
    used, keep = state
    own = Preamble(head.kind, head.attempt, head.round, head.exchange, head.number, used, keep, head.seed)
    return Request(own, routes, arguments)


def _individual(
    head: Preamble, routes: Part, calls: Sequence[Call[object]], asked: tuple[str, ...], states: Sequence[State]
) -> dict[str, Request]:
    """Arguments differ by client; what is one object for several of them is encoded once, and sent as one request."""
    parts: dict[tuple[int, tuple[object, ...]], Part] = {}
    together: dict[tuple[object, ...], tuple[Part, ...]] = {}
    made: dict[tuple[State, int], Request] = {}
    requests: dict[str, Request] = {}
    for name, state in zip(asked, states, strict=True):
        keys: list[tuple[int, tuple[object, ...]]] = []
        for index, call in enumerate(calls):
            given = for_client(call.arguments, name)
            key = (index, tuple([_key(value) for value in given.values()]))
            if key not in parts:
                parts[key] = Part(given)
            keys.append(key)
        arguments = together.setdefault(tuple(keys), tuple([parts[key] for key in keys]))
        request = made.get((state, id(arguments)))
        if request is None:
            request = made[(state, id(arguments))] = _request(head, routes, state, arguments)
        requests[name] = request
    return requests


def _key(value: object) -> object:
    """What two arguments share if one encoding serves both: the object itself, or the value where that is plain.
    (0.0 and −0.0 are equal and not the same, so floats go by identity.)"""
    kind = type(value)
    return (kind, value) if kind in (int, bool, str) else id(value)
