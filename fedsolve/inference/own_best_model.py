"""The best model that a client can fit by itself: the run's loss, with the penalty that its own cross-validation
chooses. Where the run has an l1 penalty, so may the client's own fit. Everything is computed at the client, from the
rows it learns from; its held-out rows are not looked at."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import device

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.inference.few_rows import in_columns, in_span_of_rows
from fedsolve.inference.own_sparse_fit import sparse_fit
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import factor, like, to_numpy
from fedsolve.typing import Array

# Penalties to choose from, in units of the mean curvature of the client's own rows: from next to none, which is least
# squares of minimum norm where rows are few, to nearly infinite. The run's own penalty is tried too, also if it is 0.
MULTIPLES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
# With an l1 penalty also these, beside the run's l2: in units of the smallest l1 at which all weights are zero.
L1_MULTIPLES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.06, 0.03)
NEXT_TO_NONE = 1e-4  # of the smallest curvature: a penalty that the columns of the smallest units do not feel
_FOLDS = 5  # a stream of the seed that neither held-out rows nor the folds of `cross_validate` are drawn from

BY_FOLDS, ONE_ROW, ONE_CLASS, NO_FIT = "folds", "one row", "one class", "no fit"


@dataclass(frozen=True)
class OwnModel:
    """Weights fitted by one client alone.

    Attributes:
        w: The weights, in the client's kind of array.
        penalty: The l2 penalty that was chosen.
        how: How they were found, one of the four words above; `compared.OWN_MODELS` has a sentence for each.
        l1: The l1 penalty that was chosen; 0 where the loss has none.
    """

    w: Array
    penalty: float
    how: str
    l1: float = 0.0


def own_best_model(client: Client, loss: LinearLoss, folds: int = 5, seed: int = 0) -> OwnModel:
    """Fit `loss` to one client's rows, with the penalty that has the least cross-validated error.

    Args:
        client: The client. Only the rows it learns from are used.
        loss: What to fit: its intercept and feature map are kept. With l1 > 0, the choice is among l2 penalties alone
            and l1 penalties beside the loss's own l2.
        folds: How many folds; as many as there are rows if there are fewer. Of equal errors the larger penalty wins.
        seed: Divides the rows, together with the client's name.
    """
    design = loss.design(client)  # computed once, for all folds
    candidates = _candidates(client, loss)
    if client.n_samples < design.shape[1] - 1 and not loss.quadratic and not loss.l1:
        small, inner, Q = in_span_of_rows(client, loss)
        plain = tuple(replace(inner, l2=one.l2) for one in candidates)
        found = _best(small, inner, plain, folds, seed)
        return replace(found, w=like(in_columns(found.w, Q, loss), client.y))
    return _best(client, loss, candidates, folds, seed)


def _best(client: Client, loss: LinearLoss, candidates: tuple[LinearLoss, ...], folds: int, seed: int) -> OwnModel:
    _ = loss.targets(client)
    rows = len(np.flatnonzero(_weights(client)))
    how = BY_FOLDS if rows > 1 else ONE_ROW
    errors = _errors(client, candidates, min(folds, rows), seed) if rows > 1 else {candidates[0]: 0.0}
    whole, pull = client.reweighted(like(_weights(client), client.y)), _pull(client, loss)  # leaves no cache behind
    for candidate in sorted(errors, key=lambda one: errors[one]):  # penalties descend, and sorting is stable
        try:
            w = _fit(whole, candidate, pull, None)
        except DataError:  # on all rows even this fit has no end, though those without a fold had one
            continue
        return OwnModel(w, candidate.l2, ONE_CLASS if pull else how, candidate.l1)
    return OwnModel(loss.zero(client), candidates[0].l2, NO_FIT)


def _errors(client: Client, candidates: tuple[LinearLoss, ...], folds: int, seed: int) -> dict[LinearLoss, float]:
    """The cross-validated error of each candidate; those of which some fit has no end are left out."""
    s, errors = _weights(client), np.zeros(len(candidates))
    fold_of = np.random.default_rng([seed, client.key, _FOLDS]).permutation(np.arange(client.n_samples) % folds)
    for fold in range(folds):
        inside = s * (fold_of != fold)
        held = s - inside
        if not inside.any() or not held.any():  # of weight 0
            continue
        part = client.reweighted(like(inside, client.y))
        pull, w = _pull(part, candidates[0]), None
        for place, candidate in enumerate(candidates):
            if not np.isfinite(errors[place]):
                continue
            if place and candidate.l1 > candidates[place - 1].l1:  # the path with l1 begins
                w = None
            try:
                w = _fit(part, candidate, pull, w)
            except DataError:
                errors[place] = np.inf
                continue
            each = to_numpy(candidate.error(client.xp, candidate.predictor(part, w), candidate.targets(part)))
            errors[place] += held @ np.where(held > 0, each, 0.0)
    return {one: float(error) for one, error in zip(candidates, errors, strict=True) if np.isfinite(error)}


def _fit(client: Client, loss: LinearLoss, pull: float, start: Array | None) -> Array:
    """argmin f_j, from the fit with the penalty before; argmin f_j + (pull/2) ‖w‖² where there is a pull."""
    if loss.l1:
        return sparse_fit(client, loss, pull, start)
    if pull:
        return loss.minimise(client, loss.zero(client), pull)
    if not loss.quadratic:
        return loss.minimise(client, start)
    # One Gram matrix, without a penalty, serves all of them.
    bare, zero = replace(loss, l2=0.0), loss.zero(client)
    gradient = client.cached((bare, "own gradient"), lambda: bare.gradient(client, zero))
    hessian = bare.hessian(client, zero)
    penalty = like(loss.row_penalties(hessian.n), client.y)
    return -factor(hessian.plus_diagonal(penalty), loss.strong_convexity()).solve(gradient)


def _candidates(client: Client, loss: LinearLoss) -> tuple[LinearLoss, ...]:
    """What to choose from: l2 penalties from the largest down; then, if the loss has an l1 penalty, l1 penalties with
    the loss's l2, from the smallest that makes all weights zero down, the loss's own among them."""
    plain = replace(loss, l1=0.0)
    found = tuple(replace(plain, l2=penalty) for penalty in _penalties(client, plain))
    if not loss.l1:
        return found
    most = _largest_slope(client, found[0]) or loss.l1
    grid = {most * multiple for multiple in L1_MULTIPLES} | {float(loss.l1)}
    return (*found, *(replace(loss, l1=penalty) for penalty in sorted(grid, reverse=True)))


def _largest_slope(client: Client, loss: LinearLoss) -> float:
    """The smallest l1 at which all weights but the intercept's are zero. The intercept is that of a fit whose penalty
    lets it have next to nothing else."""
    w = loss.zero(client)
    if loss.intercept is not None:
        with suppress(DataError):  # then about w = 0
            w[-1] = _fit(client.reweighted(like(_weights(client), client.y)), loss, _pull(client, loss), None)[-1]
    slopes = to_numpy(loss.gradient(client, w))
    return float(np.max(np.abs(slopes if loss.intercept is None else slopes[:-1]), initial=0.0))


def _penalties(client: Client, loss: LinearLoss) -> tuple[float, ...]:
    """The grid, from the largest down: multiples of the mean curvature of the columns, so that it follows their units,
    and the run's own."""
    probe = replace(loss, l2=1.0)  # softmax adds a term of its own where there is no penalty
    diagonal = to_numpy(probe.data_diagonal(client, loss.zero(client)))
    if loss.intercept is not None:
        diagonal = diagonal[:-1]
    seen = diagonal[np.isfinite(diagonal) & (diagonal > 0)]
    scale, least = (float(np.mean(seen)), float(np.min(seen))) if seen.size else (1.0, 1.0)
    found = {scale * multiple for multiple in MULTIPLES} | {float(loss.l2)}
    # Where some columns have far smaller units than others, what is next to nothing is so for them.
    below = scale * MULTIPLES[0]
    while below > NEXT_TO_NONE * least:
        below /= 10.0
        found.add(below)
    return tuple(sorted(found, reverse=True))


def _pull(client: Client, loss: LinearLoss) -> float:
    """A pull to zero, 1/n as one row has, where the rows let every prediction grow for ever (one class, no counts, or a
    class that is missing): a fit would have no minimum, or one that only the smallest penalty of the grid holds."""
    xp, y, s = client.xp, loss.targets(client), _weights(client)
    outputs = loss.outputs(client)
    for place in np.ndindex(outputs):
        for sign in (1.0, -1.0):
            change = xp.zeros((client.n_samples, *outputs), dtype=xp.float64, device=device(client.y))
            change[(slice(None), *place)] = sign
            if not (s @ np.abs(to_numpy(loss.hinders(xp, change, y)).reshape(len(s), -1))).any():
                return 1.0 / max(1, len(np.flatnonzero(s)))
    return 0.0


def _weights(client: Client) -> Array:
    return np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
