"""The memory and bandwidth that an algorithm needs, estimated from the sizes of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

from fedsolve.losses import LinearLoss


@dataclass(frozen=True)
class Sizes:
    """The sizes of a problem as one client has it.

    weights  numbers in the model
    order    of the Hessian
    samples  rows of this client
    """

    weights: int
    order: int
    samples: int

    @classmethod
    def of(cls, loss: LinearLoss, features: int, outputs: tuple[int, ...], samples: int) -> Sizes:
        """Those of a loss, after its feature map."""
        return cls(prod(loss.shape(features, outputs)), loss.order(features, outputs), samples)

    @property
    def matrix(self) -> int:
        """Numbers in a Hessian."""
        return self.order**2

    @property
    def triangle(self) -> int:
        """Numbers that a Hessian travels as."""
        return self.order * (self.order + 1) // 2


@dataclass(frozen=True)
class Footprint:
    """An estimate, in numbers of 8 bytes, of what an algorithm needs beside the data and a few models.

    held     what a client keeps from one exchange to the next
    working  what a client needs while it computes
    server   what the server needs
    sent     what a client sends in a round, at least
    instead  what to use where memory does not suffice; empty for an algorithm that forms no Hessian
    """

    held: int = 0
    working: int = 0
    server: int = 0
    sent: int = 0
    instead: str = ""


@runtime_checkable
class HasFootprint(Protocol):
    """A protocol that can say what it needs."""

    def footprint(self, sizes: Sizes) -> Footprint: ...


def footprint(protocol: object, sizes: Sizes) -> Footprint:
    """What a protocol says of itself by an optional method `footprint(sizes)`; without one, nothing but models."""
    return protocol.footprint(sizes) if isinstance(protocol, HasFootprint) else Footprint()


def local_solves(sizes: Sizes, models: int) -> Footprint:
    """For methods whose clients keep their Hessian and its factor, and send so many models in a round."""
    return Footprint(held=2 * sizes.matrix, sent=models * sizes.weights)


def local_fit(loss: LinearLoss, sizes: Sizes) -> Footprint:
    """For methods whose clients fit models of their own. The Hessian and factor of a quadratic are kept, others not."""
    matrices = 2 * sizes.matrix
    return Footprint(
        held=matrices if loss.quadratic else 0, working=0 if loss.quadratic else matrices, sent=sizes.weights
    )


def shared_spectrum(sizes: Sizes) -> Footprint:
    """For methods whose clients decompose their Hessians, and whose server solves with the eigenpairs it received.

    A client makes its rows dense, or forms its Hessian if there are many; the server has its estimate, a copy of it to
    factorise, the factor, and one of an earlier round. Eigenpairs are fitted to the link.
    """
    rows = min(sizes.samples, sizes.order) * sizes.order
    return Footprint(working=2 * rows, server=4 * sizes.matrix, sent=sizes.weights)
