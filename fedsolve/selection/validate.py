"""Cross-validation over a federation: which penalty, and which feature map, without pooling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Preprocessing, checked_seed, opened
from fedsolve.federation.transports import Transport
from fedsolve.loop.preflight import check_resources
from fedsolve.losses import LinearLoss
from fedsolve.numerics.scalars import is_whole, python_numbers
from fedsolve.selection.batches import REPLY_BYTES, Progress
from fedsolve.selection.candidates import Selection
from fedsolve.selection.fits import FoldFits
from fedsolve.selection.sums import FoldSums, unpenalised


def cross_validate(
    losses: Sequence[LinearLoss],
    clients: Sequence[Client] | Transport,
    *,
    folds: int = 5,
    seed: int = 0,
    transport: str = "in_process",
    preprocess: Preprocessing | None = None,
    participation: Participation | None = None,
    reply_bytes: int = REPLY_BYTES,
    progress: Progress | None = None,
) -> Selection:
    """The cross-validated error of every loss of a grid (penalties, feature maps), all of them travelling together.

    `Squared` takes one exchange, the others as many as Newton's method needs. The errors are those of the pooled data
    with the same folds. Every sample is in some fold, so everyone must answer every time, or `QuorumNotReached` is
    raised.

    losses         all of one kind; `loss_grid` makes a grid from lists
    folds, seed    each client divides its own samples, by a draw from seed and its name
    preprocess     a preprocessing protocol, agreed before; from all samples, those that are left out too
    participation  its `deadline` and `retries` hold here; the rest is for runs that can do without some
    reply_bytes    what a client's reply may have, or what one fit needs if that is more: what does not fit waits
    progress       called with how many of the fits are done, and how many there are
    """
    grid = _checked(losses, folds, reply_bytes)
    folds, seed, reply_bytes = int(folds), checked_seed(seed), int(reply_bytes)
    protocol: FoldSums | FoldFits
    if grid[0].quadratic:
        protocol = FoldSums(tuple(dict.fromkeys(map(unpenalised, grid))), folds, seed)
    else:
        protocol = FoldFits(grid, folds, seed)
    protocols: dict[str, object] = {"folds": protocol}
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
    everyone = _everyone(participation)
    with opened(
        clients, protocols, transport=transport, seed=seed, participation=everyone, preprocess=preprocess
    ) as fed:
        for loss in grid:
            check_resources(protocol, loss, fed, "cross-validation")
        if folds > (samples := sum(info.samples for info in fed.info.values())):
            raise DataError(f"{folds} folds of {samples} samples: some would have no samples, use fewer folds")
        found = protocol.candidates(fed, grid, reply_bytes, progress or (lambda done, of: None))
    best_first = sorted(found, key=lambda each: each.error)
    if not math.isfinite(best_first[0].error):
        raise DataError(f"no point of the grid could be judged; {best_first[0].loss!r}, {best_first[0].trouble}")
    return Selection(tuple(best_first), fed.ledger, folds, seed)


def _checked(losses: Sequence[LinearLoss], folds: int, reply_bytes: int) -> tuple[LinearLoss, ...]:
    if isinstance(losses, LinearLoss) or not isinstance(losses, Iterable):
        raise ConfigError(
            f"cross_validate takes a list of losses to choose between, got {losses!r}; give a list, or make a grid "
            "with loss_grid(loss, l2=[0.1, 1.0])"
        )
    grid = tuple(python_numbers(loss) for loss in losses)
    if not grid or not all(isinstance(loss, LinearLoss) for loss in grid):
        raise ConfigError(
            f"cross_validate takes a grid of losses, such as [Squared(l2=0.1), Squared(l2=1.0)], got {losses!r}"
        )
    kinds = {(type(loss).__name__, getattr(loss, "classes", None)) for loss in grid}
    if len(kinds) > 1:
        said = ", ".join(sorted(name if classes is None else f"{name}(classes={classes})" for name, classes in kinds))
        raise ConfigError(f"errors of different losses do not compare: a grid has one kind of loss, got {said}")
    if not is_whole(folds) or folds < 2:
        raise ConfigError(f"folds is a whole number of at least two, got {folds!r}")
    if not is_whole(reply_bytes) or reply_bytes < 1:
        raise ConfigError(f"reply_bytes is a whole number of bytes, got {reply_bytes!r}")
    return grid


def _everyone(given: Participation | None) -> Participation:
    given = given or Participation()
    return Participation(deadline=given.deadline, retries=given.retries, quorum=1.0)
