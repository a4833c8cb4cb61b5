"""A function that boosting makes, as the server keeps it: its parts, and who has heard of how many of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fedsolve.federation.calls import PerClient
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part
from fedsolve.typing import Array


@dataclass(frozen=True)
class Boosted:
    """f^t: the State of boosting. Its parts only grow, so a checkpoint appends them.

    constant  f^0
    agreed    what the learner has prepared
    inputs    how many inputs the functions have
    parts     what each round has added
    told      how many parts each client knows; who is not in it knows nothing, not even f^0
    """

    constant: Array
    agreed: tuple[Array, ...]
    inputs: int
    parts: tuple[Part, ...] = ()
    told: dict[str, int] = field(default_factory=dict)

    def news(self, clients: Iterable[str]) -> News:
        """What each client has not heard of, as an argument of a call. One object for all that know as much, so that it
        is encoded once."""
        everything = News(0, self.parts, self.constant, self.agreed)
        made = {since: News(since, self.parts[since:]) for since in set(self.told.values())}
        return PerClient({name: made[self.told[name]] if name in self.told else everything for name in clients})

    def with_part(self, part: Part, told: Iterable[str]) -> Boosted:
        """f^{t+1}; the clients that were told of all but the new part took part in the round."""
        return replace(self.heard(told), parts=(*self.parts, part))

    def heard(self, names: Iterable[str]) -> Boosted:
        """The same function, of which these clients know all parts now."""
        return replace(self, told={**self.told, **dict.fromkeys(names, len(self.parts))})

    def is_known(self, clients: Iterable[str]) -> bool:
        """Whether these clients know all parts."""
        return all(self.told.get(name) == len(self.parts) for name in clients)
