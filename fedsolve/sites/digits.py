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
from collections.abc import Sequence

import numpy as np
from array_api_compat import device

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import like, rms, to_numpy
from fedsolve.numerics.precise_products import precise_product
from fedsolve.typing import Array

RULE = "digits"
# Terms may be so many times as large as what they add up to; honest fits to columns as they are come to eleven, and p
# columns whose terms have signs as by chance to √p: these equal their simulation to the bit. Where they are a few times
# as large, none may be so small that nothing but its steps is left of it. Otherwise the sums are computed in twice the
# precision, in which there is nothing left of the steps up to the last of these factors.
MUCH, SOME, TINY, TOO_MUCH = 16.0, 4.0, 2.0**-30, 2.0**40
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
    a direction everything is a multiple.
    """
    terms, total = _terms(loss, whole, w)
    total += 0.0 if offset is None else rms(offset)
    size = rms(_centred(loss, found)) if direction else _scale(loss, client, found)
    if total <= SOME * size or (
        total <= max(MUCH, math.sqrt(len(terms))) * size and not ((terms > 0) & (terms < TINY * total)).any()
    ):
        return found
    if not math.isfinite(total) or (total > TOO_MUCH * size and not direction):
        raise PolicyRefusal(RULE, f"a point came at which {WHY}")
    start = np.zeros_like(to_numpy(found)) if offset is None else np.broadcast_to(to_numpy(offset), found.shape)
    blocks = ((rows, to_numpy(block)) for rows, block in loss.design(client).blocks())
    precise = precise_product(blocks, to_numpy(w), start)
    if direction and total > TOO_MUCH * rms(_centred(loss, precise)):  # known only now: before, it was rounding
        raise PolicyRefusal(RULE, f"a direction came along which {WHY}")
    return like(precise, found)


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
    """The size of the differences between predictions with which a loss computes. Their level is no such size: where
    all are far from zero, counts and weights of classes still follow each last digit."""
    if loss.quadratic:
        return rms(found - client.y) + rms(client.y - client.y.mean(axis=0))
    centred = _centred(loss, found)
    return 1.0 + rms(centred - centred.mean(axis=0))


def _terms(loss: LinearLoss, client: Client, w: Array) -> tuple[Array, float]:
    """For each column j its root mean square times |w_j|, of several outputs the largest; and the largest sum of such
    terms that an output has."""
    sizes, typical = np.abs(to_numpy(w)), _typical(loss, client)
    largest = sizes if sizes.ndim == 1 else sizes.max(axis=1)
    return typical * largest, float((typical @ sizes).max(initial=0.0))


def _typical(loss: LinearLoss, client: Client) -> Array:
    """The root mean square of each column of the design."""

    def compute() -> Array:
        ones = client.xp.ones(client.n_samples, dtype=client.xp.float64, device=device(client.y))
        return np.sqrt(to_numpy(loss.design(client).squares(ones)) / client.n_samples)

    return client.cached(("typical sizes", loss.features, loss.intercept is not None), compute)


def _centred(loss: LinearLoss, eta: Array) -> Array:
    """What of predictions a loss looks at: of several classes their differences."""
    return eta - eta.mean(axis=1, keepdims=True) if eta.ndim > 1 and not loss.separable else eta
