"""What an algorithm is to the loop that drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fedsolve.federation.federation import Federation

S = TypeVar("S")


@dataclass(frozen=True)
class Finished(Generic[S]):
    """Returned by `start` or `round` when there is nothing left to do."""

    state: S


class Algorithm(Protocol):
    """A frozen dataclass with client steps and these. Optional beside them:

    needs            what it needs of its loss ("gradient", "hessian", "minimise", "solve" for systems with local
                     Hessians, "strong convexity", "quadratic")
    contraction(state)  a factor by which theory says the error fell, or tends to fall, in the step that led here
    measured(state)  a `Measurement` the state already knows, so that the run need not ask
    footprint(sizes) a `Footprint`: what it needs of memory and links, so that the run can be rejected before it starts
    """

    def start(self, fed: Federation) -> Any: ...

    def round(self, fed: Federation, state: Any) -> Any: ...

    def model(self, state: Any) -> Any: ...
