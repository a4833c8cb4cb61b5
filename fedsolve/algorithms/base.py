"""What an algorithm is to the loop that drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fedsolve.federation.federation import Federation
from fedsolve.typing import Value

S = TypeVar("S")

MATRIX_FREE = 'FedNewtonCG(loss, preconditioner="diagonal")'  # what to use where Hessians do not fit into memory


@dataclass(frozen=True)
class Finished(Generic[S]):
    """Returned by `start` or `round` when there is nothing left to do.

    reason  why, where that is not plain: a clause for the run's message
    """

    state: S
    reason: str = ""


class Algorithm(Protocol):
    """A frozen dataclass with client steps and these methods. Optional beside them:

    needs               what it needs of its loss: "gradient", "hessian", "minimise", "solve" (systems with local
                        Hessians), "strong convexity", "quadratic"
    supports            what it can do that others cannot: "l1"
    includes_server     True if the objective is that of clients and server together, every sample counted alike; value,
                        gradient and certificate of the run are then of all of them
    fits_link           True if its clients send no more than their link carries, whatever the link
    contraction(state)  a factor by which, in theory, the error fell or tends to fall in the step that led here
    measured(state)     a `Measurement` that the state already knows, so that the run need not ask for it
    measuring(fed, state)  the call that measures a State, for one without weights; None: it is not measured
    telling(fed, state)  the call by which clients hear of what is new in a State of which they keep something, such as
                        the predictions of an ensemble; None: they know all. Its replies are gathered
    may_grow            True if its value may rise a thousandfold before it falls, which ends other runs as diverged
    remedy              what to try if the run diverges, in words that follow "try"
    pace(state)         (η, s): the size and the number of the full gradient steps that each client takes in a round
    footprint(sizes)    a `Footprint`: the memory and bandwidth it needs, so that a run that cannot work is rejected
                        before it starts
    """

    def start(self, fed: Federation) -> Value:
        """The State before the first round, or `Finished` with it."""

    def round(self, fed: Federation, state: Value) -> Value:
        """The State after one more round, or `Finished` with it."""

    def model(self, state: Value) -> Value:
        """The model that a State stands for."""


def includes_server(algorithm: object) -> bool:
    """Whether an algorithm's objective is that of clients and server together."""
    return getattr(algorithm, "includes_server", False) is True
