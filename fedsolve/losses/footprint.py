"""What an algorithm needs beyond its arithmetic: memory and room on the clients' links, estimated from sizes alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from fedsolve.losses import LinearLoss

MATRIX_FREE = 'FedNewtonCG(loss, preconditioner="diagonal")'


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

    held     that a client keeps from one exchange to the next
    working  that a client needs while it computes
    server   that the server needs
    sent     that a client sends in a round, at least
    instead  what to use where memory does not suffice
    """

    held: int = 0
    working: int = 0
    server: int = 0
    sent: int = 0
    instead: str = MATRIX_FREE


def footprint(protocol: Any, sizes: Sizes) -> Footprint:
    """What a protocol says of itself: an optional method `footprint(sizes)`. Without, nothing but models."""
    said = getattr(protocol, "footprint", None)
    return Footprint(sent=0) if said is None else said(sizes)


def local_solves(sizes: Sizes, models: int) -> Footprint:
    """Of a method whose clients keep their Hessian and its factor, and send so many models in a round."""
    return Footprint(held=2 * sizes.matrix, sent=models * sizes.weights)


def local_fit(loss: LinearLoss, sizes: Sizes) -> Footprint:
    """Of a method whose clients fit models of their own: a quadratic's Hessian and factor are kept, others not."""
    matrices = 2 * sizes.matrix
    return Footprint(
        held=matrices if loss.quadratic else 0, working=0 if loss.quadratic else matrices, sent=sizes.weights
    )


def shared_spectrum(sizes: Sizes) -> Footprint:
    """Of a method whose clients decompose their Hessians, and whose server solves with what it knows of them.

    A client makes its rows dense, or forms its Hessian if there are many; the server has its approximation, a copy of
    that on the way to its factor, the factor, and one of an earlier round. Eigenpairs are fitted to the link.
    """
    rows = min(sizes.samples, sizes.order) * sizes.order
    return Footprint(working=2 * rows, server=4 * sizes.matrix, sent=sizes.weights)
