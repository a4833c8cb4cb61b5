"""What a client knows of a function that grows: it hears of what is new, and keeps the predictions at its own rows.

A client is sent the parts it does not have yet, so a round costs the same however many there are. What it keeps is in
its memory, so a lost reply, a restart or a resumed run leaves it with the predictions that the server counts on. They
are the library's own (`client.session`), because an evaluation asks for them too.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from fedsolve.errors import WrongType
from fedsolve.federation.client import Client
from fedsolve.learners.base import Fitting, WeakLearner
from fedsolve.learners.parts import Part, added, built, constant_at
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_finite, require_shape

_KEPT, _AGREED = "predictions of an ensemble", "agreed on for learning"  # in the session's memory


@dataclass(frozen=True)
class News:
    """What a client has not heard of yet.

    since   how many parts it knows
    parts   those that come next
    start   the constant that f begins with, for a client that knows nothing
    agreed  what the learner has prepared, likewise
    """

    since: int
    parts: tuple[Part, ...] = ()
    start: Array | None = None
    agreed: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Kept:
    """What a client keeps: how many parts it knows, and f at its own rows and at its held-out rows, if it has any."""

    parts: int
    own: Array
    held: Array | None


def hear(client: Client, learner: WeakLearner, news: News, outputs: tuple[int, ...]) -> Kept:
    """Take in what is new, and return what is kept then.

    Raises WrongType if the news do not go on where this client's knowledge ends: then the server is wrong about it.
    """
    others = client.held
    if news.start is None:
        kept = _kept(client)
    else:
        require_shape("start", news.start, *outputs)
        require_finite("start", news.start)
        held = None if others is None else constant_at(news.start, _zeros(others))
        kept = Kept(0, constant_at(news.start, _zeros(client)), held)
        client.session[_AGREED] = news.agreed
        for name in tuple(client.memory):  # of an earlier run
            del client.memory[name]
    if kept.parts != news.since:
        raise WrongType(f"the server tells of parts from {news.since} on, and this client knows {kept.parts}")
    own, held = kept.own, kept.held
    for part in news.parts:
        X = inputs_of(client, learner)
        functions = built(learner, part, X.shape[1], outputs)
        numbers = [float(one) for one in part.coefficients]
        own = added(learner, part.decay, numbers, functions, own, X)
        if others is not None:
            held = added(learner, part.decay, numbers, functions, held, inputs_of(others, learner))
    client.session[_KEPT] = (news.since + len(news.parts), own, held)
    return Kept(news.since + len(news.parts), own, held)


def agreed_on(client: Client) -> tuple[Array, ...]:
    """What the learner has prepared, as this client was told."""
    agreed: tuple[Array, ...] = client.session.get(_AGREED, ())
    return agreed


def remembered(client: Client, parts: int) -> Kept:
    """What a client keeps of the function with so many parts. Raises WrongType if it knows another one."""
    kept = _kept(client)
    if kept.parts != parts:
        raise WrongType(f"the function with {parts} parts is asked about, and this client knows {kept.parts}")
    return kept


def inputs_of(client: Client, learner: WeakLearner) -> Array:
    """The matrix that functions of a learner take at a client: one object, by which a learner may know it again."""
    of = (client.session.get("transform"), client.session.get("columns"))
    kept: list[tuple[object, object, Array]] = client.cached((learner, "inputs"), list)
    if not kept or kept[0][0] is not of[0] or kept[0][1] is not of[1]:  # the next run may preprocess otherwise
        kept[:] = [(*of, learner.inputs(client))]
    return kept[0][2]


def fitting(client: Client, learner: WeakLearner, target: Array) -> Fitting:
    """What a learner fits at a client: its rows, this target, and what was agreed and kept for it."""
    agreed = agreed_on(client)
    notes: list[tuple[object, dict[str, object]]] = client.cached((learner, "kept"), lambda: [(None, {})])
    if notes[0][0] is not agreed:  # agreed on anew: what was computed from it is void
        notes[0] = (agreed, {})
    return Fitting(
        inputs_of(client, learner), target, client.sample_weight, agreed, client.rng, notes[0][1], client.watch
    )


def _kept(client: Client) -> Kept:
    found = client.session.get(_KEPT)
    if found is None:
        raise WrongType("the server goes on with a function that this client has not heard of")
    return Kept(*found)


def _zeros(client: Client) -> Array:
    return client.xp.zeros(client.n_samples, dtype=client.xp.float64, device=device(client.y))
