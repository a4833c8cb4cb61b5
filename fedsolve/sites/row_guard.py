"""Points at which a reply would say too much of single rows.

A gradient is a sum over rows, Σ ψ_i x_i, with a factor ψ_i for each that depends on the point it is asked for; a
Hessian is Σ c_i x_i x_iᵀ. A server that may choose points freely can make all factors vanish but a few, or let a few
change between two requests: far out a logistic ψ is 0 or 1, and the difference of two gradients is then one row. Honest
fits do not go there:

- a point where the rows fit much worse than without a model is refused (`largest_loss`), for every loss but a quadratic
  one, of which all gradients together tell no more than two sums;
- a point is refused where a few rows have nearly all of the factors, or of what changed since an earlier point, as it
  is or put together with sums that a server knows (`largest_row`, `few_rows`, `beside`).

Judged is where rows are looked at, not what came as an argument: a line search goes along a direction, a local solver
goes on from where it was sent. Whatever is not finite is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Pointwise
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.beside import alike_in_a_region, nearly_one_of, region_alike, two_alike
from fedsolve.sites.by_row import columns_by_row, targets_by_row, weights_by_row
from fedsolve.sites.digits import check_line, product
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.leaf_rule import check_leaves
from fedsolve.sites.misfit import is_far, misfit, reference
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.policy import Policy
from fedsolve.sites.regions import Regions
from fedsolve.typing import Array

# Points of a local solver that are judged by all rules: the first ones, the 32nd, 64th and so on, and the last ones
# (some algorithms look at another point after the last step). Where it goes later its own rows decide more and more, so
# that there the fit is judged, in every step. But a call less one with a step fewer is the gradient at the last point.
FIRST, LAST = 16, 2

# What makes the first step too long of a fit that starts at counts of one.
_LARGE_COUNTS = "; or if counts are large: give them an offset near the logarithm of their mean"


class RowGuard:
    """Judges the points at which rows of a client are looked at."""

    def __init__(self, policy: Policy, client: Client, earlier: PointLog) -> None:
        self.policy, self.client, self.earlier = policy, client, earlier
        self._visits = 0
        self._later: deque[Callable[[], None]] = deque(maxlen=LAST)  # judge points that only the fit was judged at
        self._last: tuple[object, Array] | None = None  # the loss and the predictions that were judged last
        self._reference: tuple[object, float] | None = None

    def begin(self) -> None:
        """A new call, or a new point among its arguments: it is judged by all rules."""
        self._visits, self._last = 0, None
        self._later.clear()

    def end(self) -> None:
        """Raise PolicyRefusal if this site does not answer where a local solver ended."""
        for judge in self._later:
            judge()

    def visit(self, loss: object, client: Client, w: Array | None, eta: Array, line: tuple[Array, ...] = ()) -> None:
        """Raise PolicyRefusal if this site does not answer at a point with these predictions."""
        if not isinstance(loss, Pointwise):
            raise PolicyRefusal("largest_loss", f"points of a {type(loss).__name__} cannot be judged here")
        if self._last is not None and self._last[0] is loss and self._last[1] is eta:
            return  # a value, a gradient and a Hessian at one point
        self._visits += 1
        parts = line if w is None else (w,)
        if line and isinstance(loss, LinearLoss):
            with np.errstate(all="ignore"):  # what is not finite is refused
                check_line(loss, client, line, eta)
        self._judge_fit(loss, client, eta)
        judge = partial(self._judge_wholly, loss, client, w, eta, bool(parts))
        if w is None or self._visits <= FIRST or self._visits.bit_count() == 1:
            judge()
        else:
            self._later.append(judge)
        self._last = loss, eta

    def _judge_wholly(self, loss: Pointwise, client: Client, w: Array | None, eta: Array, by_columns: bool) -> None:
        """By all rules; of a batch where all rows are: a server does not know which ones are in it."""
        with np.errstate(all="ignore"):  # what is not finite is refused
            if client.n_samples == self.client.n_samples:
                self._judge_rows(loss, client, eta, by_columns)
            elif isinstance(loss, LinearLoss) and w is not None:
                everybody, offset = loss.design(self.client).matvec(w), self.client.offset
                everybody = everybody if offset is None else everybody + offset
                everybody = self.product(loss, self.client, w, everybody, offset)
                self._judge_fit(loss, self.client, everybody)
                self._judge_rows(loss, self.client, everybody, True)

    def fitted(self, cells: Array, target: Array, weight: Array | None) -> None:
        """Raise PolicyRefusal for a function with a number that is nearly that of a few rows."""
        loss = None if self._last is None else self._last[0]
        classifies = isinstance(loss, Pointwise) and loss.classifies
        counts = isinstance(loss, Pointwise) and loss.link == "exponential"
        check_leaves(self.policy, cells, target, weight, classifies, counts)

    def product(
        self,
        loss: object,
        client: Client,
        w: Array,
        found: Array,
        offset: Array | None = None,
        direction: bool = False,
    ) -> Array:
        """Predictions, or how they change along a direction, without steps of rounding. Raises PolicyRefusal where
        nothing keeps them from having some."""
        if not isinstance(loss, LinearLoss):
            return found
        with np.errstate(all="ignore"):
            return product(loss, self.client, client, w, found, offset, direction)

    def judge_products(self, loss: Pointwise, client: Client, eta: Array, squared_weights: bool) -> None:
        """Raise PolicyRefusal for products of the factors, Σ ψ_a ψ_b x xᵀ, in which large ones count more."""
        with np.errstate(all="ignore"):
            s = weights_by_row(client)
            factors = np.abs(columns_by_row(loss.derivative(client.xp, eta, targets_by_row(loss, client))))
            weights = s * s if squared_weights else s
            regions = self._regions(loss, client)
            for k, one in enumerate(factors):
                parts = weights * one * factors[k:]
                self._judge_few(loss, client, parts, "the products of the scores")
                if regions is not None and regions.exceeded_widely(parts):
                    within = f"fewer than {self._number} rows have nearly all products of the scores within a category"
                    self._refuse(f"the server asks at a point where {within}", loss)

    def _judge_fit(self, loss: Pointwise, client: Client, eta: Array) -> None:
        if is_far(loss, eta):
            if loss.quadratic:
                raise PolicyRefusal("largest_loss", "a point came whose predictions are out of all proportion")
            self._refuse_misfit(loss)
        if not loss.quadratic:
            if self._reference is None or self._reference[0] is not loss:
                self._reference = loss, reference(loss, self.client, self.policy.largest_loss)
            with np.errstate(all="ignore"):
                here = misfit(loss, client, eta)
            if not here <= self._reference[1]:
                self._refuse_misfit(loss)
        # With the same words: they would tell of the row with the largest prediction.
        if not (to_numpy(eta) < loss.ceiling).all():
            self._refuse_misfit(loss)

    def _refuse_misfit(self, loss: Pointwise) -> None:
        raise PolicyRefusal(
            "largest_loss",
            f"the server asks at a point where the rows fit more than {self.policy.largest_loss:g} times worse than "
            "without a model; a fit does not come there, unless its columns are badly scaled or its steps too "
            f"long{_LARGE_COUNTS if loss.link == 'exponential' else ''}",
        )

    def _judge_rows(self, loss: Pointwise, client: Client, eta: Array, by_columns: bool) -> None:
        s = weights_by_row(client)
        responses = s * columns_by_row(loss.responses(client.xp, eta))
        # A quadratic loss has the same Hessian everywhere.
        regions = self._regions(loss, client) if by_columns and not loss.quadratic else None
        if self.policy.largest_row < 1:
            self._judge_here(loss, client, eta, responses, regions)
        self._judge_change(loss, client, responses, s, regions)

    def _judge_here(
        self, loss: Pointwise, client: Client, eta: Array, responses: Array, regions: Regions | None
    ) -> None:
        xp, y, s = client.xp, targets_by_row(loss, client), weights_by_row(client)
        self._judge_few(loss, client, np.abs(s * columns_by_row(loss.derivative(xp, eta, y))), "the gradient")
        if not loss.quadratic:
            for weights in loss.hessian_weights(xp, eta, y):  # of many classes a part at a time, for memory
                parts = np.abs(s * columns_by_row(weights))
                self._judge_few(loss, client, parts, "the curvature")
                if regions is not None and regions.exceeded(parts):
                    within = f"fewer than {self._number} rows have nearly all of the curvature within a category"
                    self._refuse(f"the server asks at a point where {within}", loss)
            self._judge_few(loss, client, np.abs(responses), "what is predicted")
        if loss.classifies:
            self._judge_few(loss, client, np.abs(s - responses), "what is predicted")

    def _judge_few(self, loss: Pointwise, client: Client, parts: Array, what: str) -> None:
        if self._few(client).exceeded(parts).any():
            said = f"the server asks at a point where fewer than {self._number} rows have nearly all of {what}"
            self._refuse(said, loss)

    def _regions(self, loss: Pointwise, client: Client) -> Regions | None:
        """The rows that columns tell from others."""
        if self.policy.largest_row >= 1 or not isinstance(loss, LinearLoss):
            return None
        return Regions.of(loss, client, self.policy)

    def _judge_change(
        self, loss: Pointwise, client: Client, responses: Array, s: Array, regions: Regions | None
    ) -> None:
        few, classes = self._few(client), loss.classifies
        with self.earlier.alone():
            new = [one for one in responses if one not in self.earlier]
            beside = any(nearly_one_of(one, s, classes, self.earlier, few) for one in new)
            within = len(new) > 1 and two_alike(np.stack(new), s, classes, self.earlier, few)
            if regions is not None and not (beside or within):
                beside = any(alike_in_a_region(one, s, classes, self.earlier, regions) for one in new)
                within = any(region_alike(one, s, classes, other, regions) for one, other in combinations(new, 2))
            if beside or within:
                said = f"fewer than {self._number} rows have nearly all of what changed since an earlier request"
                self._refuse(said, loss)
            if new:
                self.earlier.add(np.stack(new))

    @property
    def _number(self) -> int:
        return max(2, self.policy.min_rows)

    def _few(self, client: Client) -> FewRows:
        return FewRows.of(self.policy, client.n_samples)

    @staticmethod
    def _refuse(said: str, loss: Pointwise) -> None:
        often = "; a fit comes there if a category has few rows: join it with others"
        if loss.classifies:
            often = (
                "; a fit comes there if the classes can be separated (use l2), or if a category has few rows (join it "
                "with others)"
            )
        elif loss.link == "exponential":
            often += _LARGE_COUNTS
        raise PolicyRefusal("largest_row", said + often)
