"""Rules on batches and folds, which depend on how many rows a site has.

A batch is a set of rows, and so is what it leaves out: the sum over all rows less that over a batch of all but one is
the row that is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fedsolve.distillation.distil import Distil
from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.learners import NetworkLearner
from fedsolve.local.batches import Batched
from fedsolve.numerics.linalg import to_numpy
from fedsolve.selection.fits import FoldFits
from fedsolve.selection.sums import FoldSums
from fedsolve.sites.known_protocols import roots
from fedsolve.sites.parts import parts_of
from fedsolve.sites.policy import Policy

BY_CHANCE = 1e-9  # how probable a batch of too few different rows may be


def check_sizes(policy: Policy, protocols: Mapping[str, object], client: Client) -> None:
    """Raise PolicyRefusal if batches have too few rows or leave too few out, or folds have too few."""
    rows = client.n_samples
    for name, protocol in roots(protocols).items():
        for part in _at_clients(protocol):
            if isinstance(part, Batched | NetworkLearner) and part.batch_size is not None and part.batch_size < rows:
                _check_batches(policy, name, part, part.batch_size, client)
            if isinstance(part, FoldSums | FoldFits) and rows // part.folds < policy.min_rows:
                raise PolicyRefusal(
                    "min_rows",
                    f"{name!r}: {part.folds} folds of {rows} rows have fewer than {policy.min_rows} each; choose fewer",
                )


def _at_clients(protocol: object) -> Iterator[object]:
    """The parts of a protocol but those with which the server distils rows of its own."""
    parts = list(parts_of(protocol))
    servers = {id(one) for part in parts if isinstance(part, Distil) for one in parts_of(part)}
    return (one for one in parts if id(one) not in servers)


def _check_batches(policy: Policy, name: str, solver: Batched | NetworkLearner, size: int, client: Client) -> None:
    least, rows = policy.min_rows, client.n_samples
    if isinstance(solver, Batched) and solver.batches == "independent":
        if least > 1 and _probability_of_few(client, size, least - 1) > BY_CHANCE:
            raise PolicyRefusal(
                "min_rows",
                f"{name!r}: batches of {size} that are drawn with repetition from {rows} rows may have fewer than "
                f"{least} different ones; choose a larger batch_size, or batches = 'shuffled'",
            )
        return
    if rows - size < least:
        raise PolicyRefusal(
            "min_rows",
            f"{name!r}: batches of {size} leave out {rows - size} of {rows} rows, whose sum is that of all rows less "
            f"the batch's, and at least {least} are allowed; choose a smaller batch_size, or leave it out",
        )
    whole = solver.epochs is not None or (isinstance(solver, Batched) and solver.batches == "fixed")
    if whole and 0 < rows % size < least:
        raise PolicyRefusal(
            "min_rows",
            f"{name!r}: {rows} rows in batches of {size} leave a last one of {rows % size}, and at least {least} are "
            "allowed; choose another batch_size, or steps instead of epochs",
        )


def _probability_of_few(client: Client, size: int, few: int) -> float:
    """A bound on the probability that so many draws have at most `few` different rows: then all are in one of the sets
    of so many rows, and of these none is drawn more often than that of the largest weights."""
    rows = client.n_samples
    weights = np.ones(rows) if client.sample_weight is None else to_numpy(client.sample_weight)
    share = float(np.sort(weights)[-few:].sum() / weights.sum())
    return math.comb(rows, few) * share**size
