"""Predictions that lose their digits.

x·w is a sum. Where its terms are far larger than the sum (two columns that add up to one, each times 2⁵², and an
intercept that takes both away) each term is rounded to the last digit of the largest, and so the sum is a step
function of one column, with a threshold of the server's own: replies are then sums over everybody above it, and two of
them enclose one row, although all predictions are moderate. The same holds for the change of predictions along a
direction, from which products with a Hessian and slopes are made.

Columns that are nearly collinear have such terms in honest fits, too. So sums whose terms cancel are computed in twice
the precision: then there are no steps. What would have some even so is refused.

Sizes are root mean squares over all rows, not largest values: whether a rule is kept would tell of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from array_api_compat import device

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.design import Design
from fedsolve.numerics.linalg import like, rms, to_numpy
from fedsolve.numerics.precise_products import precise_product
from fedsolve.typing import Array

RULE = "digits"
# Terms may be so many times as large as what they add up to; honest fits to columns as they are come to eleven, and p
# columns whose terms have signs as by chance to √p: such fits equal their simulation to the bit. Where terms are a
# few times as large, none may be so small that nothing but its steps is left of it. Otherwise the sums are computed in
# twice the precision, in which there is nothing left of the steps up to the last of these factors.
MUCH, SOME, TINY, TOO_MUCH = 16.0, 4.0, 2.0**-30, 2.0**40
# A row whose prediction is so small a part of its terms has lost half of its digits: it is computed in twice the
# precision by itself. By chance that are a few rows in a hundred million, so that honest runs keep their bits.
LOST = 2.0**-26
ALONG = 64.0  # the same for the two parts of a prediction along a line, each of which is rounded once
# Entries of directions beyond these sizes overflow or underflow on the way: for some rows sooner than for others.
LARGEST, SMALLEST = 1e100, 1e-100
WHY = (
    "predictions are small differences of large numbers, which rounding turns into steps; standardise the columns "
    "(scaling), and leave out those that nearly add up to others"
)


def product(
    loss: LinearLoss, whole: Client, client: Client, w: Array, found: Array, offset: Array | None, direction: bool
) -> Array:
    """Xw + offset of a client's rows, which are some of a whole client's, or Xw along a direction: as it was found, or
    in twice the precision. Raises PolicyRefusal where not even that is enough.

    A loss of classes or counts computes with differences of about one; the squared loss with those from the targets. Of
    a direction everything is a multiple. Outputs that are problems of their own are judged by themselves.
    """
    terms, totals = _terms(loss, whole, w)
    totals = totals + (0.0 if offset is None else rms(offset))
    sizes = _by_output(loss, _centred(loss, found)) if direction else _scales(loss, client, found)
    if all(_keeps_digits(*one) for one in zip(terms.T, totals, sizes, strict=True)):
        lost = _lost(loss, found, totals)
        return _restored(loss, client, w, found, offset, lost) if lost.size else found
    if not np.isfinite(totals).all() or (not direction and (totals > TOO_MUCH * sizes).any()):
        raise PolicyRefusal(RULE, f"a point came at which {WHY}")
    precise = precise_product(_blocks(loss.design(client)), _own_part(loss, w), _start(found, offset))
    if direction and (totals > TOO_MUCH * _by_output(loss, _centred(loss, precise))).any():
        raise PolicyRefusal(RULE, f"a direction came along which {WHY}")  # known only now: before, it was rounding
    return like(precise, found)


def _keeps_digits(terms: Array, total: float, size: float) -> bool:
    much = max(MUCH, math.sqrt(len(terms)))
    return bool(total <= SOME * size or (total <= much * size and not ((terms > 0) & (terms < TINY * total)).any()))


def _lost(loss: LinearLoss, found: Array, totals: Array) -> Array:
    """The numbers of the rows whose terms cancel although those of others do not: decoys hide them from the sizes."""
    near = np.abs(to_numpy(_centred(loss, found))) < LOST * totals
    return np.flatnonzero(near if near.ndim == 1 else near.any(axis=1))


def _restored(loss: LinearLoss, client: Client, w: Array, found: Array, offset: Array | None, lost: Array) -> Array:
    """The predictions with some rows in twice the precision."""
    made = np.array(to_numpy(found))
    made[lost] = precise_product(
        _blocks(loss.design(client).rows(lost)), _own_part(loss, w), _start(found, offset)[lost]
    )
    return like(made, found)


def _own_part(loss: LinearLoss, w: Array) -> Array:
    """The weights without what all classes have in common: nothing depends on it, and it would be rounded once more."""
    weights = to_numpy(w)
    return weights if weights.ndim == 1 or loss.separable else weights - weights.mean(axis=1, keepdims=True)


def _blocks(design: Design) -> Iterator[tuple[slice, Array]]:
    return ((rows, to_numpy(block)) for rows, block in design.blocks())


def _start(found: Array, offset: Array | None) -> Array:
    return np.zeros_like(to_numpy(found)) if offset is None else np.broadcast_to(to_numpy(offset), found.shape)


def check_line(loss: LinearLoss, client: Client, parts: Sequence[Array], found: Array) -> None:
    """Raise PolicyRefusal where predictions that were added up along a line are far smaller than these."""
    if not sum(rms(_centred(loss, one)) for one in parts) <= ALONG * _scale(loss, client, found):
        raise PolicyRefusal(RULE, f"a line came along which {WHY}")


def check_direction(v: Array) -> None:
    """Raise PolicyRefusal for a direction from whose size something overflows or underflows; zero is none."""
    largest = float(np.abs(v).max(initial=0.0))
    if largest and not SMALLEST <= largest <= LARGEST:
        raise PolicyRefusal(RULE, "a direction came that is near the end of the range of numbers")


def check_reply(value: Array | float) -> None:
    """Raise PolicyRefusal for a reply that is not finite, or so small that it has lost digits."""
    largest = float(np.abs(value).max(initial=0.0))
    if not math.isfinite(largest) or 0 < largest < np.finfo(np.float64).tiny:
        raise PolicyRefusal(RULE, "a reply came out that is not finite, or at the lower end of the range of numbers")


def _scale(loss: LinearLoss, client: Client, found: Array) -> float:
    """The size of the differences between predictions with which a loss computes, of all outputs together."""
    return float(_scales(loss, client, found).max())


def _scales(loss: LinearLoss, client: Client, found: Array) -> Array:
    """The same for each output. Their level is no such size: where all are far from zero, counts and weights of classes
    still follow each last digit."""
    if loss.quadratic:
        return _by_output(loss, found - client.y) + _by_output(loss, client.y - client.y.mean(axis=0))
    centred = _centred(loss, found)
    return 1.0 + _by_output(loss, centred - centred.mean(axis=0))


def _by_output(loss: LinearLoss, values: Array) -> Array:
    """The root mean square of each output that is a problem of its own, and of all of them where they are one."""
    return np.array([rms(one) for one in to_numpy(values).T] if values.ndim > 1 and loss.separable else [rms(values)])


def _terms(loss: LinearLoss, client: Client, w: Array) -> tuple[Array, Array]:
    """For each column j its root mean square times |w_j|, a column for each output that is a problem of its own; of
    outputs that are one problem the largest. And the sum of such terms of each output, or the largest."""
    sizes, typical = np.abs(to_numpy(w)), _typical(loss, client)
    if sizes.ndim == 1 or loss.separable:
        terms = typical[:, None] * sizes.reshape(len(typical), -1)
        return terms, terms.sum(axis=0)
    return (typical * sizes.max(axis=1))[:, None], (typical @ sizes).max(initial=0.0, keepdims=True)


def _typical(loss: LinearLoss, client: Client) -> Array:
    """The root mean square of each column of the design."""

    def compute() -> Array:
        ones = client.xp.ones(client.n_samples, dtype=client.xp.float64, device=device(client.y))
        return np.sqrt(to_numpy(loss.design(client).squares(ones)) / client.n_samples)

    return client.cached(("typical sizes", loss.features, loss.intercept is not None), compute)


def _centred(loss: LinearLoss, eta: Array) -> Array:
    """What of predictions a loss looks at: of several classes their differences."""
    return eta - eta.mean(axis=1, keepdims=True) if eta.ndim > 1 and not loss.separable else eta
