"""States that clients hear of part by part: what is new goes along with the question how good the State is.

Where an algorithm has `telling(fed, state)`, its clients keep something of the State, such as the predictions of an
ensemble, and a question about it costs the same however large it is. Such a State is a `Told`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, runtime_checkable

from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.calls import Call
from fedsolve.federation.federation import Federation
from fedsolve.typing import Value


@runtime_checkable
class Told(Protocol):
    """A State that knows who has heard of it.

    parts  what it is made of; clients know it by their number
    """

    @property
    def parts(self) -> tuple[Value, ...]: ...

    def heard(self, names: Iterable[str], /) -> Self:
        """The same State, of which these clients know all parts."""
        ...

    def is_known(self, clients: Iterable[str], /) -> bool:
        """Whether these clients know all parts."""
        ...


class Telling:
    """Asks about States, and remembers who has heard of what was new, so that nobody is told twice."""

    def __init__(self, algorithm: Algorithm, fed: Federation) -> None:
        self._tell = getattr(algorithm, "telling", None)
        self._fed = fed
        self._about: Value = None  # the State that was last asked about,
        self._names: set[str] = set()  # and who has heard of it since

    def measure(self, state: Value, *calls: Call[object]) -> tuple[tuple[Value, ...], float] | None:
        """`fed.measure` about a State: who does not know all of it hears of the rest in the same message."""
        call = None if self._tell is None else self._tell(self._fed, self._noted(state))
        found = self._fed.measure(*calls) if call is None else self._fed.measure(call, *calls)
        if call is None or found is None:
            return found
        (heard, *results), share = found
        if self._about is not state:
            self._about, self._names = state, set()
        self._names |= set(heard)
        return tuple(results), share

    def noted(self, state: Value) -> Value:
        """The State with who has heard of it while it was asked about: it goes on from this one."""
        found = self._noted(state)
        self._about, self._names = None, set()
        return found

    def _noted(self, state: Value) -> Value:
        return state.heard(sorted(self._names)) if self._names and self._about is state else state
