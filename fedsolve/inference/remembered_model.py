"""A function that clients have heard of part by part, and whose predictions they keep: it is judged by these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.inference.metrics import Floats
from fedsolve.learners.hearing import remembered
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

_JUDGED = "predictions to judge by"  # in the cache of the rows they are of


@dataclass(frozen=True)
class Remembered:
    """Stands for the predictions that a client keeps (`learners.hearing`).

    Attributes:
        parts: How many parts the function has that is asked about.
    """

    parts: int


def recall(sent: Remembered, client: Client, rows: Client) -> None:
    """Lay the predictions at a client's own or held-out rows beside them. Raises WrongType if the client knows another
    function than the one that is asked about."""
    kept = remembered(client, sent.parts)
    found = kept.own if rows is client else kept.held
    rows.keep(_JUDGED, found, found)


def recalled(rows: Client) -> Floats:
    """The predictor at these rows, the offset included."""
    found: tuple[Array, Array] | None = rows.last(_JUDGED)
    assert found is not None, "recall comes first"
    eta: Floats = to_numpy(found[1])
    if rows.offset is None:
        return eta
    offset: Floats = to_numpy(rows.offset)
    return np.asarray(eta + (offset if eta.ndim == 1 else offset[:, None]))
