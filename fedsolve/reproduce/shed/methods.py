"""The methods of the SHED paper (section 6.7) under the names of its figures, and SHED with our options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fedsolve.algorithms import AGD, GIANT, SHED, FedNL, MontDec, Newton, SHEDLeastSquares
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.compressors import RankR
from fedsolve.curvature.options import HowMany
from fedsolve.curvature.renewals import Fibonacci, GradientNorm, Renewals
from fedsolve.descent import Armijo
from fedsolve.federation.client import Client
from fedsolve.federation.links import Link, Rayleigh
from fedsolve.losses import LinearLoss
from fedsolve.reproduce.shed.gaps import Optimum, Trace, follow
from fedsolve.reproduce.shed.heavy_ball import heavy_ball

Make: TypeAlias = Callable[[LinearLoss], Algorithm]


@dataclass(frozen=True)
class Method:
    """An algorithm under its name in the figures.

    link   the link of every agent
    most   the limit of rounds, where it differs from that of the other methods
    rides  whether its line search rides along with other messages. The paper counts a round for it in every iteration:
           so does the entry `name`, and a second one has the rounds as they are
    tuned  chooses options for a problem, instead of `make`
    """

    name: str
    make: Make
    link: Link | None = None
    most: int | None = None
    rides: bool = False
    tuned: Callable[[Optimum], Algorithm] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The entries of a comparison."""
        return (self.name, f"{self.name}, pipelined") if self.rides else (self.name,)

    def limit(self, rounds: float) -> float:
        """Exchanges after which it is stopped, where others have this limit."""
        return (self.most or rounds) / (2 if self.rides else 1)

    def told(self, best: Optimum, seed: int) -> str:
        """All that a trace depends on beside the problem."""
        made = repr(self.make(best.loss)) if self.tuned is None else self.tuned.__qualname__
        return f"{made} {self.link!r} {seed}"

    def follow(self, best: Optimum, *, gap: float, rounds: float, seed: int) -> Trace:
        clients = best.clients
        if self.link is not None:
            clients = [Client(one.name, one.X, one.y, link=self.link) for one in clients]
        algorithm = self.make(best.loss) if self.tuned is None else self.tuned(best)
        return follow(algorithm, replace(best, clients=clients), gap=gap, rounds=self.limit(rounds), seed=seed)

    def counted(self, trace: Trace) -> tuple[Trace, ...]:
        """The trace of each entry."""
        if not self.rides:
            return (trace,)
        return replace(trace, exchanges=[trace.exchanges[0] + 2 * t for t in range(len(trace.gaps))]), trace

    def named(self, name: str) -> Method:
        return replace(self, name=name)


def as_printed(loss: LinearLoss, increment: HowMany = 1, renewals: Renewals | None = None, **ours: Any) -> SHED:
    """Algorithm 4 as printed: two exchanges per iteration, eigenvectors in full precision, no L-BFGS.

    `ours` are options of this library that override these.
    """
    chosen: dict[str, Any] = {"lbfgs": 0, "pipelined": False, "precision": "float64"} | ours
    return SHED(loss, renewals or Fibonacci(), increment, **chosen)


def increments(count: HowMany) -> Method:
    """Fib-SHED with `count` eigenvectors per round, or as many as a Rayleigh link carries."""
    name = f"Fib-SHED, d = {count}" if count != "link" else "Fib-SHED, Rayleigh"
    return Method(name, lambda loss: as_printed(loss, count), Rayleigh() if count == "link" else None)


def least_squares_increments(count: HowMany) -> Method:
    """SHED-LS with `count` eigenvectors per round, or as many as a Rayleigh link carries."""
    name = f"SHED-LS, d = {count}" if count != "link" else "SHED-LS, Rayleigh"
    return Method(name, lambda loss: SHEDLeastSquares(loss, increment=count), Rayleigh() if count == "link" else None)


FIB = increments(1).named("Fib-SHED")
FIB_PIPELINED = Method("Fib-SHED, pipelined", lambda loss: as_printed(loss, pipelined=True))
FIB_PLUS = increments("link").named("Fib-SHED+")
GN = Method("GN-SHED", lambda loss: as_printed(loss, renewals=GradientNorm()))
MONT_DEC = Method("Mont-Dec", lambda loss: MontDec(loss, increment="link"), Rayleigh())
# The search of GIANT's authors: η of 1, 1/4, 1/16, … and α = 0.1; and the one that suits it better (decision 022).
GIANT_OWN = Method("GIANT", lambda loss: GIANT(loss, search=Armijo(alpha=0.1, beta=0.25, halvings=9), lbfgs=0))
GIANT_QUARTER = Method("GIANT, α = 1/4", lambda loss: GIANT(loss, search=Armijo(alpha=0.25), lbfgs=0))
GIANT_ = Method("GIANT", lambda loss: GIANT(loss, search=Armijo(alpha=0.25), lbfgs=0))
# FedNL-LS with rank-1 corrections, the paper's “best performing variant”. The initial Hessians are counted.
FEDNL = Method("FedNL", lambda loss: FedNL(loss, RankR(1), option=1), rides=True)
AGD_ = Method("AGD, Nesterov", AGD)
HEAVY = Method("AGD, heavy ball", AGD, tuned=heavy_ball)
NEWTON = Method("exact Newton", Newton)
OURS = Method("SHED, our options", SHED)
LS = least_squares_increments(1).named("SHED-LS")
LS_PLUS = least_squares_increments("link").named("SHED-LS+")
