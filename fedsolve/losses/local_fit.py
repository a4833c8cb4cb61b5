"""Newton's method on one client's own part of the objective, for local fits and proximal steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import factor, namespace
from fedsolve.typing import Array

if TYPE_CHECKING:
    from fedsolve.losses.linear import LinearLoss

_EPS = 2.220446049250313e-16


def newton(
    loss: LinearLoss,
    client: Client,
    anchor: Array | None = None,
    pull: float = 0.0,
    iterations: int = 100,
    start: Array | None = None,
) -> Array:
    """argmin f_j + (pull/2) ‖w − anchor‖² by damped Newton from `start` (else from the anchor, else from zero), to the
    accuracy of float64.

    Where so many iterations are not enough it raises DataError, except from a given `start`: whoever goes on from there
    in later rounds gets the last iterate, which is no worse than the start.
    """
    anchor = loss.zero(client) if anchor is None else anchor
    w = anchor if start is None else start
    loss.predictor(client, w)
    with client.unwatched():  # where it goes from here only the client's own rows decide
        found = _damped(loss, client, w, anchor, pull, iterations, start is not None)
    if pull and client.watch is not None:  # but a far anchor leads far: the answer is the gradient where it ends
        loss.predictor(client, found)
    return found


def _damped(
    loss: LinearLoss, client: Client, w: Array, anchor: Array, pull: float, iterations: int, goes_on: bool
) -> Array:
    xp = client.xp

    def objective(v: Array) -> float:
        return loss.value(client, v) + 0.5 * pull * float(xp.sum((v - anchor) ** 2))

    value = objective(w)
    for _ in range(iterations):
        g = loss.gradient(client, w) + pull * (w - anchor)
        hessian = loss.hessian(client, w)
        if pull:
            hessian = hessian.plus_diagonal(pull * xp.ones(hessian.n, dtype=xp.float64, device=w.device))
        step = factor(hessian).solve(g)
        decrement = float(xp.sum(g * step))
        bounded = pull or (loss.l2 and loss.intercept != "free")
        if not bounded and decrement <= 1e-12 * (1.0 + abs(value)) and _still_moves(loss, client, step):
            break
        if decrement <= 1e-16 * (1.0 + abs(value)):
            return w - step  # convergence is quadratic: this step leaves about the square of that
        eta = 1.0
        while objective(w - eta * step) > value - 1e-4 * eta * decrement + 8 * _EPS * abs(value):
            eta *= 0.5
            if eta < 1e-10:
                return w  # no step lowers the value any more: rounding has the last word
        w = w - eta * step
        value = objective(w)
    if pull and goes_on:
        return w
    if pull:  # then there is a minimum, and it is rounding or the distance that stands between
        raise DataError(
            f"client {client.name!r}: {iterations} Newton steps did not solve its own problem with a pull of {pull:g}; "
            "standardise the columns (preprocess=Preprocess()), or give a stronger pull or a local solver"
        )
    raise DataError(
        f"client {client.name!r}: its own fit has no finite minimiser (its samples can be separated, or it lacks a "
        "class); penalise all weights, or use an algorithm that needs no local fits (Newton)"
    )


def _still_moves(loss: LinearLoss, client: Client, step: Array) -> bool:
    """Whether predictions go on changing where the value no longer does: the mark of samples that can be separated.
    At a minimiser, a decrement of 1e-12 moves them by about its root."""
    eta = loss.design(client).matvec(step)
    return float(namespace(eta).max(namespace(eta).abs(eta))) > 1e-2
