"""What the owner of a client may add to its runtime: a policy that is asked about every call and every point, and a
place for its memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fedsolve.federation.client import Client
from fedsolve.typing import Array, Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route


class Guard(Protocol):
    """What a site's own policy has to say about a call: it raises, and the call fails."""

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Called when the arguments have been checked against the step's annotations, before the step runs."""

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Called with what the step gives, before it becomes part of a reply."""


class Watch(Protocol):
    """What a site's own policy has to say about a point at which rows are looked at: it raises, and the call fails.

    Not all points come as arguments: a local solver goes on from there, a line search goes along a direction.
    """

    def visit(self, loss: object, client: Client, w: Array | None, eta: Array, line: tuple[Array, ...] = ()) -> None:
        """Called with the predictions η of a client's rows, or of a batch of them, before anything is made of them. `w`
        are the weights; None: a point along a line search, where `line` has the predictions that were added up to it,
        or predictions that no weights make."""

    def product(
        self,
        loss: object,
        client: Client,
        w: Array,
        found: Array,
        offset: Array | None = None,
        direction: bool = False,
    ) -> Array:
        """The predictions Xw + offset of a client's rows, or how they change along a direction: as they were found, or
        to the last digit where the terms of the sums cancel, so that rounding makes no steps of them."""

    def fitted(self, cells: Array, target: Array, weight: Array | None) -> None:
        """Called with a function that was fitted, whose numbers are weighted means of a target (outputs × rows) over
        cells of rows: the cell of each row. Follows `visit`, with the predictions that the target was made of."""


class Store(Protocol):
    """Where a client keeps its memory, so that it may restart."""

    def write(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        """Replace what is stored; raise, and leave it, if that is impossible."""

    def read(self, types: frozenset[type]) -> tuple[int, dict[int, dict[str, Value]]]:
        """The attempt and the versions that were written last; 0 and {0: {}} if there are none."""
        ...
