"""What a client adds up for a summary: the Hessian of its log-likelihood, the outer products of its scores, and counts.

Everything is a sum over rows. With ℓ the loss of a row, ψ = dℓ/dη, c = d²ℓ/dη² and s the row's weight:

    hessian   Σ s c x xᵀ
    outer     Σ s ψ² x xᵀ, or Σ s² ψ² x xᵀ where weights are reliabilities
    score     Σ s ψ x

For k classes the parameters are the contrasts w_a − w_0 of the classes a = 1 … k − 1 with the first one, class after
class: block (a, b) of the Hessian is Σ s (p_a δ_ab − p_a p_b) x xᵀ, and of the outer products Σ s ψ_a ψ_b x xᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from fedsolve.data.fitted_transform import Transform
from fedsolve.federation.client import Client
from fedsolve.inference.design_columns import raw_values
from fedsolve.losses import LinearLoss, Logistic, Poisson, Softmax, Squared
from fedsolve.numerics.design import Design
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array

FEW = 5  # a count below it is said as "fewer than 5"
SOME = 2  # stands for a client's count of 1 to 4: two of them, as of two outcomes, are fewer than 5, and three are not
TOTALS = ("weight", "kernel", "constant", "saturated", "log_weight", "fractional", "offset")


@dataclass(frozen=True)
class ScoreSums:
    """The sums of one client, or of all.

    samples   rows that count
    totals    the weight; Σ s (−ℓ); what the log-likelihood has beside that; Σ s (−ℓ) of a model that predicts every
              row; Σ log s; and whether there are weights that are no whole numbers, and offsets
    null      the sums from which the intercept-only model follows
    hessian, outer, score   as above
    moments   Σ s x and Σ s x² of each column
    counts    of each column, the rows whose raw value is 0, and those in which it is not, by outcome: 0, 2 for "some",
              and 5 for "5 or more"
    others    the rows of each column whose raw value is neither 0 nor 1: at most 1
    """

    samples: int
    totals: Array
    null: Array
    hessian: Symmetric
    outer: Symmetric
    score: Array
    moments: Array
    counts: Array
    others: Array


def sums(loss: LinearLoss, client: Client, w: Array, squared_weights: bool) -> ScoreSums:
    """The sums of a client's rows."""
    design = loss.design(client)
    eta, y = to_numpy(loss.predictor(client, w)), to_numpy(loss.targets(client))
    s = np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
    client.count("hessians", 1)
    client.count("gradients", client.n_samples)
    slopes = _slopes(loss, eta, y)
    hessian = _blocks(design, client, _curvatures(loss, eta, s))
    weights = s * s if squared_weights else s
    k = slopes.shape[1]
    outer = {(a, b): weights * slopes[:, a] * slopes[:, b] for a in range(k) for b in range(a, k)}
    columns = design.shape[1] - (loss.intercept is not None)
    ones = like(s, client.y)
    moments = np.stack([to_numpy(design.rmatvec(ones)), to_numpy(design.squares(ones))])[:, :columns]
    counts, others = _counts(loss, client, design, columns, y, s)
    return ScoreSums(
        int(np.count_nonzero(s)),
        _totals(loss, client, eta, y, s),
        _null_sums(loss, client, w, y, s),
        hessian,
        _blocks(design, client, outer),
        _score(design, client, slopes, s),
        moments,
        counts,
        others,
    )


def site_score(loss: LinearLoss, client: Client, w: Array) -> Array:
    """Σ s ψ x of a client's rows."""
    eta, y = to_numpy(loss.predictor(client, w)), to_numpy(loss.targets(client))
    s = np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
    client.count("gradients", client.n_samples)
    return _score(loss.design(client), client, _slopes(loss, eta, y), s)


def null_step(client: Client, intercept: float) -> Array:
    """−Σ s ℓ, Σ s ψ and Σ s c of a logistic model that is this intercept and the offsets: one Newton step's sums."""
    loss, y = Logistic(), to_numpy(client.y)
    s = np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
    eta = intercept + (0.0 if client.offset is None else to_numpy(client.offset)) + 0.0 * y
    client.count("losses", client.n_samples)
    if client.watch is not None:
        client.watch.visit(loss, client, None, eta)
    p = loss.responses(np, eta)
    each = (-loss.pointwise(np, eta, y), p - y, p * (1.0 - p))
    return np.array([s @ one for one in each])


# ── scores and curvature ──


def _slopes(loss: LinearLoss, eta: Array, y: Array) -> Array:
    """ψ of each row, a column for each contrast."""
    if isinstance(loss, Softmax):
        return (loss.responses(np, eta) - y)[:, 1:]
    return np.asarray(loss.derivative(np, eta, y))[:, None]


def _curvatures(loss: LinearLoss, eta: Array, s: Array) -> dict[tuple[int, int], Array]:
    """s c of each row, for each pair of contrasts."""
    if not isinstance(loss, Softmax):
        c = loss.curvature(np, eta, eta)
        return {(0, 0): s if c is None else s * c}
    P = loss.responses(np, eta)[:, 1:]
    k = P.shape[1]
    return {(a, b): s * P[:, a] * ((a == b) - P[:, b]) for a in range(k) for b in range(a, k)}


def _blocks(design: Design, client: Client, weights: dict[tuple[int, int], Array]) -> Symmetric:
    """The symmetric matrix whose block (a, b) is Σ_i weights_i x xᵀ; weights may be negative off the diagonal."""
    p, k = design.shape[1], max(b for _, b in weights) + 1
    if k == 1:
        return design.gram(like(weights[0, 0], client.y))
    full = np.zeros((k * p, k * p))
    for (a, b), each in weights.items():
        # A Gram matrix has weights ≥ 0.
        block = np.zeros((p, p))
        for sign in (1.0, -1.0):
            part = np.maximum(sign * each, 0.0)
            if part.any():
                block += sign * to_numpy(design.gram(like(part, client.y)).full())
        full[a * p : (a + 1) * p, b * p : (b + 1) * p] = block
        full[b * p : (b + 1) * p, a * p : (a + 1) * p] = block
    return Symmetric(full)


def _score(design: Design, client: Client, slopes: Array, s: Array) -> Array:
    found = to_numpy(design.rmatvec(like(s[:, None] * slopes, client.y)))
    return np.ascontiguousarray(found.T).reshape(-1)


# ── likelihood ──


def _totals(loss: LinearLoss, client: Client, eta: Array, y: Array, s: Array) -> Array:
    losses = loss.error(np, eta, y) if isinstance(loss, Softmax) else loss.pointwise(np, eta, y)
    constant = saturated = np.zeros(len(s))
    if isinstance(loss, Poisson):
        constant, saturated = -gammaln(y + 1), xlogy(y, y) - y
    elif isinstance(loss, Logistic):  # zero for labels 0 and 1
        constant, saturated = -gammaln(y + 1) - gammaln(2 - y), xlogy(y, y) + xlogy(1 - y, 1 - y)
    elif isinstance(loss, Softmax):
        saturated = xlogy(y, y).sum(axis=1)
    fractional = client.sample_weight is not None and bool((s != np.floor(s)).any())
    logs = np.log(s[s > 0]).sum()
    found = (s.sum(), -(s @ losses), s @ constant, s @ saturated, logs, fractional, client.offset is not None)
    return np.array(found, dtype=np.float64)


def _null_sums(loss: LinearLoss, client: Client, w: Array, y: Array, s: Array) -> Array:
    """What the intercept-only model needs. Squares are taken about the fitted intercept, so that no digits are lost
    where the mean is large."""
    offset = np.zeros(len(s)) if client.offset is None else to_numpy(client.offset)
    if isinstance(loss, Squared):
        r = y - offset - (0.0 if loss.intercept is None else float(to_numpy(w)[-1]))
        return np.array([s @ r, s @ (r * r)])
    if isinstance(loss, Poisson):
        return np.array([s @ y, s @ np.exp(offset), s @ (y * offset)])
    return np.asarray(s @ y).reshape(-1)


# ── counts ──


def _counts(loss: LinearLoss, client: Client, design: Design, columns: int, y: Array, s: Array) -> tuple[Array, Array]:
    """Rows without and with each column's indicator, by outcome: none, some, or 5 or more. Whether the sum over clients
    is 0 does not depend on that; whether it is below 5 is estimated where several clients have some."""
    transform = client.session.get("transform")
    zero, one = raw_values(transform if isinstance(transform, Transform) else None, columns)
    outcomes = _outcomes(loss, y) & (s > 0)[:, None]
    present, total = np.zeros((columns, outcomes.shape[1]), dtype=np.int64), outcomes.sum(axis=0)
    others = np.zeros(columns, dtype=np.int64)
    for part, block in design.blocks():
        X = to_numpy(block)[:, :columns]
        has = zero != X
        present += has.T.astype(np.int64) @ outcomes[part]
        others += ((one != X) & has & (s[part] > 0)[:, None]).sum(axis=0)
    counts = np.stack([total - present, present])
    counts = np.where(counts >= FEW, FEW, np.where(counts > 0, SOME, 0))
    return counts, np.minimum(others, 1)


def _outcomes(loss: LinearLoss, y: Array) -> Array:
    """Which of the outcomes each row is a case of; one for all where a fit cannot run away."""
    if isinstance(loss, Softmax):
        return np.asarray(y > 0)
    if isinstance(loss, Logistic):
        return np.stack([y < 1, y > 0], axis=1)
    if isinstance(loss, Poisson):
        return np.stack([y == 0, y > 0], axis=1)
    return np.ones((len(y), 1), dtype=bool)
