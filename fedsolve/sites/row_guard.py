"""Points at which a reply would say too much of single rows.

A gradient is a sum over rows, Σ ψ_i x_i, with a factor ψ_i for each that depends on the point it is asked for. A server
that may choose points freely can make all factors vanish but a few, or let a single one change between two requests:
far out a logistic ψ is 0 or 1, and the difference of two gradients is then one row. Honest fits do not go there:

- with classes, where ψ goes to 0 or 1, a point where the rows fit much worse than at zero is refused (`largest_loss`);
- a point is refused if, beside an earlier one, one row makes up nearly all of what changed in ψ (`largest_row`), or if
  one row has nearly all of the curvature, which is what a Hessian is made of.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Softmax
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array

MOST_KEPT = 5 * 10**7  # numbers that are kept of earlier points
# Changes below this share of the largest ψ are not judged: near the end of an honest fit a single coefficient moves,
# and in a rare category few rows, or one, move with it.
NOTICEABLE = 1e-3


class RowGuard:
    """Judges the points of one run at one site."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._earlier: deque[np.ndarray] = deque()
        self._at_zero: tuple[object, float] | None = None

    def judge(self, loss: LinearLoss, client: Client, w: Array) -> None:
        """Raise PolicyRefusal if this site does not answer at w."""
        if not np.isfinite(to_numpy(w)).all():
            raise PolicyRefusal("largest_loss", "a point came that is not finite")
        eta = loss.design(client).matvec(w)
        eta = eta if client.offset is None else eta + client.offset
        if loss.classifies:
            self._judge_fit(loss, client, eta)
        with np.errstate(all="ignore"):  # a first step may overshoot to numbers that say nothing of anybody
            self._judge_rows(loss, client, eta)

    def _judge_rows(self, loss: LinearLoss, client: Client, eta: Array) -> None:
        s = None if client.sample_weight is None else to_numpy(client.sample_weight)
        factors = _by_row(to_numpy(loss.derivative(client.xp, eta, loss.targets(client))), s)
        curvature = _curvature(loss, client, eta)
        if curvature is not None:
            self._judge_one(_by_row(to_numpy(curvature), s), "all of the curvature")
        self._judge_change(factors)

    def _judge_fit(self, loss: LinearLoss, client: Client, eta: Array) -> None:
        zero = 0.0 * eta if client.offset is None else 0.0 * eta + client.offset
        here, there = (_mean_error(loss, client, one) for one in (eta, zero))
        if not here <= self.policy.largest_loss * there:
            raise PolicyRefusal(
                "largest_loss",
                f"the server asks at a point where the rows fit more than {self.policy.largest_loss:g} times worse "
                "than at zero; a fit does not come there, unless its columns are badly scaled or its steps too long",
            )

    def _judge_one(self, parts: np.ndarray, what: str) -> None:
        total = float(parts.sum())
        if total > 0 and float(parts.max()) > self.policy.largest_row * total:
            raise PolicyRefusal("largest_row", f"the server asks at a point where one row has nearly {what}")

    def _judge_change(self, factors: np.ndarray) -> None:
        if any(np.array_equal(one, factors.astype(np.float32)) for one in self._earlier):
            return
        kept = factors.astype(np.float32)
        least = NOTICEABLE * float(np.abs(kept).max(initial=0.0))
        for one in self._earlier:
            change = np.abs(kept - one)
            if float(change.max()) > least:
                self._judge_one(change, "all of what changed since an earlier request")
        self._earlier.append(kept)
        while len(self._earlier) * len(kept) > MOST_KEPT and len(self._earlier) > 1:
            self._earlier.popleft()


def _by_row(values: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """One number for each row: with several outputs the norm of theirs."""
    found = values if values.ndim == 1 else np.sqrt((values.reshape(len(values), -1) ** 2).sum(axis=1))
    return found if s is None else found * s


def _curvature(loss: LinearLoss, client: Client, eta: Array) -> Array | None:
    """How much each row adds to a Hessian; None: all alike."""
    if isinstance(loss, Softmax):  # the trace of diag(p) − p pᵀ
        return 1.0 - client.xp.sum(loss.responses(client.xp, eta) ** 2, axis=1)
    return loss.curvature(client.xp, eta, loss.targets(client))


def _mean_error(loss: LinearLoss, client: Client, eta: Array) -> float:
    errors = to_numpy(loss.error(client.xp, eta, loss.targets(client)))
    s = None if client.sample_weight is None else to_numpy(client.sample_weight)
    return float(errors.mean() if s is None else s @ errors / s.sum())
