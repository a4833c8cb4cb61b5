"""Points at which a reply would say too much of single rows.

A gradient is a sum over rows, Σ ψ_i x_i, with a factor ψ_i for each that depends on the point it is asked for. A server
that may choose points freely can make all factors vanish but a few, or let a single one change between two requests:
far out a logistic ψ is 0 or 1, and the difference of two gradients is then one row. Honest fits do not go there:

- with classes, where ψ goes to 0 or 1, a point where the rows fit much worse than at zero is refused (`largest_loss`);
- a point is refused if, beside an earlier one, one row makes up nearly all of what changed in ψ (`largest_row`), or if
  one row has nearly all of the curvature, which is what a Hessian is made of.

Judged is where rows are looked at, not what came as an argument: a line search goes along a direction, a local solver
goes on from where it was sent.
"""

from __future__ import annotations

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Pointwise, Softmax
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array

# Changes below this share of the largest ψ are not judged: near the end of an honest fit a single coefficient moves,
# and in a rare category few rows, or one, move with it.
NOTICEABLE = 1e-3
# Points of one call that are judged by all rules. Where a local solver goes later its own rows decide more and more;
# from there on the fit is judged, for batches at the 8th, 16th, 32nd point and so on, since it takes all rows.
FIRST = 4


class RowGuard:
    """Judges the points at which rows of a client are looked at."""

    def __init__(self, policy: Policy, client: Client, earlier: PointLog) -> None:
        self.policy, self.client, self.earlier = policy, client, earlier
        self._visits = 0

    def begin(self) -> None:
        """A new call."""
        self._visits = 0

    def visit(self, loss: object, client: Client, w: Array | None, eta: Array) -> None:
        """Raise PolicyRefusal if this site does not answer at a point with these predictions."""
        if not isinstance(loss, Pointwise):
            return
        self._visits += 1
        first = self._visits <= FIRST or w is None
        if client.n_samples != self.client.n_samples:  # a batch: what matters is where all rows are
            if not isinstance(loss, LinearLoss) or w is None or not (first or self._visits.bit_count() == 1):
                return
            client = self.client
            eta = loss.design(client).matvec(w)
            eta = eta if client.offset is None else eta + client.offset
        self.judge(loss, client, eta, everything=first)

    def judge(self, loss: Pointwise, client: Client, eta: Array, everything: bool = True) -> None:
        """Raise PolicyRefusal if this site does not answer where its rows are predicted so."""
        if not np.isfinite(to_numpy(eta)).all():
            raise PolicyRefusal("largest_loss", "a point came that is not finite")
        if loss.classifies:
            self._judge_fit(loss, client, eta)
        if everything:
            with np.errstate(all="ignore"):  # a first step may overshoot to numbers that say nothing of anybody
                self._judge_rows(loss, client, eta)

    def _judge_rows(self, loss: Pointwise, client: Client, eta: Array) -> None:
        s = None if client.sample_weight is None else to_numpy(client.sample_weight)
        factors = _by_row(to_numpy(loss.derivative(client.xp, eta, _targets(loss, client))), s)
        curvature = _curvature(loss, client, eta)
        if curvature is not None:
            self._judge_one(_by_row(to_numpy(curvature), s), "all of the curvature")
        self._judge_change(factors.astype(np.float32))

    def _judge_fit(self, loss: Pointwise, client: Client, eta: Array) -> None:
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
        if factors in self.earlier:
            return
        least = NOTICEABLE * float(np.abs(factors).max(initial=0.0))
        for one in self.earlier:
            change = np.abs(factors - one)
            if float(change.max()) > least:
                self._judge_one(change, "all of what changed since an earlier request")
        self.earlier.add(factors)


def _by_row(values: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """One number for each row: with several outputs the norm of theirs."""
    found = values if values.ndim == 1 else np.sqrt((values.reshape(len(values), -1) ** 2).sum(axis=1))
    return found if s is None else found * s


def _targets(loss: Pointwise, client: Client) -> Array:
    return loss.targets(client) if isinstance(loss, LinearLoss) else client.y


def _curvature(loss: Pointwise, client: Client, eta: Array) -> Array | None:
    """How much each row adds to a Hessian; None: all alike, or there is none."""
    if isinstance(loss, Softmax):  # the trace of diag(p) − p pᵀ
        return 1.0 - client.xp.sum(loss.responses(client.xp, eta) ** 2, axis=1)
    return loss.curvature(client.xp, eta, loss.targets(client)) if isinstance(loss, LinearLoss) else None


def _mean_error(loss: Pointwise, client: Client, eta: Array) -> float:
    errors = to_numpy(loss.error(client.xp, eta, _targets(loss, client)))
    s = None if client.sample_weight is None else to_numpy(client.sample_weight)
    return float(errors.mean() if s is None else s @ errors / s.sum())
