"""Whether a small gradient means a minimum: what is asked of the clients before a run says "converged".

A gradient can be small because columns are nearly collinear, while the value is far from its minimum; or because the
weights run away along a direction in which f falls for ever and ever more slowly (classes that can be separated, a
class or a count that never occurs). Newton's step tells these from a minimum: its decrement is how far the value is
from one, and the changes of predictions along it, summed over the samples, show whether any sample is against it.

A penalty that reaches every weight settles it without a question. Otherwise Newton's step is found from one sum of
Hessians, or, where these are large or not given away, by conjugate gradients on sums of products; then one exchange
tests the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsolve.descent import rounding
from fedsolve.federation.calls import Mean, Sum
from fedsolve.loop.measure_protocols import RESOLVED, Inspect, Scale
from fedsolve.losses.measurement import Measurement, NewtonStep
from fedsolve.numerics.linalg import factor, norm
from fedsolve.typing import Array, Value

NEGLIGIBLE = 1e-7  # of f(0) − f: a value this near to its minimum is called minimal, unless less was asked for
ORDER = 256  # the largest Hessian that is asked for whole: 263 kB from each client, once
PRODUCTS = 100  # conjugate gradient steps for larger ones
MOVED = 0.1  # the root of Σ Δη²: at a minimum, Newton's step changes predictions by far less
FREE = 1e-4  # the share of a change that samples may hinder, by rounding, where they do not hinder it
UNASKED = (
    "not every client could be asked whether this is a minimum (one was missing, its link had no room, or its policy "
    "does not allow the question)"
)

Ask = Callable[..., "tuple[Value, ...] | None"]  # results of calls that all clients answered, or None


@dataclass(frozen=True)
class Finding:
    """What is known of the point: a minimum, no minimum anywhere (`endless`), or not enough (`doubt` says why)."""

    doubt: str | None = None
    endless: bool = False
    newton: NewtonStep | None = None


def confirm(
    ask: Ask, inspect: Inspect, scale: Scale, w: Array, measurement: Measurement, enough: float = 0.0
) -> Finding:
    """Whether there is a minimum at w, to a part in 10⁷ of what was gained since w = 0, or to `enough` if more.

    `ask(*calls)` puts calls to all clients, and is None if any of them does not answer.
    """
    loss, value = inspect.loss, measurement.value
    enough = max(enough, NEGLIGIBLE * max(0.0, scale.value - value)) + rounding(value, scale.value)
    mu = loss.strong_convexity()
    if loss.l1 or (mu > 0 and norm(measurement.gradient) ** 2 / (2 * mu) <= enough):
        return Finding()
    newton = measurement.newton or newton_step(ask, inspect, scale, w, measurement.gradient, enough)
    if newton is None:
        return Finding(UNASKED)
    if 0.5 * newton.decrement > enough:
        return Finding(f"by Newton's step the value is still about {0.5 * newton.decrement:.1e} above its minimum")
    if newton.unresolved > RESOLVED * (abs(scale.value) + abs(value)) ** 0.5:
        return Finding(
            "some columns are so nearly collinear that rounding hides what is to be gained by telling them apart; "
            "leave one of them out, or add a penalty, l2 > 0"
        )
    if mu > 0 or loss.quadratic:
        return Finding(newton=newton)
    return _bounded(ask, inspect, w, newton)


def separated(ask: Ask, inspect: Inspect, w: Array) -> bool:
    """Whether the weights themselves prove that there is no minimum, however far a run has come: no sample is against
    going further the same way. For classes, that w separates them."""
    if inspect.loss.quadratic or not _unpenalised(inspect, w):
        return False
    found = ask(Sum(inspect.prospect, step=w))
    return found is not None and _is_proof(found[0])


def _unpenalised(inspect: Inspect, w: Array) -> bool:
    return not (inspect.loss.l1 or inspect.loss.l2) and bool(w.any())


def _is_proof(prospect: tuple[float, float]) -> bool:
    changed, hindered = prospect
    return changed > 0 and hindered == 0


def _bounded(ask: Ask, inspect: Inspect, w: Array, newton: NewtonStep) -> Finding:
    """Whether the samples hold the weights: along Newton's step; along that part of the weights for which the Hessian,
    to rounding, has no curvature left (they have run so far); and along the weights themselves."""
    calls = [Sum(inspect.prospect, step=-newton.step)]
    if newton.idle is not None:
        calls.append(Sum(inspect.prospect, step=newton.idle))
    if _unpenalised(inspect, w):
        calls.append(Sum(inspect.prospect, step=w))
    found = ask(*calls)
    if found is None:
        return Finding(UNASKED)
    if _unpenalised(inspect, w) and _is_proof(found[-1]):
        return Finding(endless=True)
    for changed, hindered in found[: 1 if newton.idle is None else 2]:
        if changed > MOVED**2 and hindered <= FREE**2 * changed:
            return Finding(endless=True)
    if found[0][0] > MOVED**2:
        return Finding("Newton's step still changes predictions, though the gradient is small")
    return Finding(newton=newton)


def newton_step(
    ask: Ask, inspect: Inspect, scale: Scale, w: Array, gradient: Array, enough: float
) -> NewtonStep | None:
    """H⁻¹g of all clients, as well as judging its size needs; None if not everyone answered."""
    loss = inspect.loss
    if loss.l2 and w.ndim == 1:  # then only the intercept is free, and one product may do
        found = ask(Mean(inspect.product, w=w, v=_last(w)))
        if found is None:
            return None
        bound = _of_the_intercept(loss.l2, found[0], gradient)
        if bound is not None and 0.5 * bound.decrement <= enough:
            return bound
    order = w.shape[0] if loss.separable else w.size
    found = ask(Mean(inspect.hessian, w=w)) if order <= ORDER else None
    if found is not None:
        return NewtonStep.by(factor(found[0]), gradient, w)
    # A Hessian may be more than a link or a policy lets out where a vector is not.
    return _by_conjugate_gradients(ask, inspect, w, gradient)


def _last(w: Array) -> Array:
    v = np.zeros(w.shape)
    v[-1] = 1.0
    return v


def _of_the_intercept(l2: float, column: Array, gradient: Array) -> NewtonStep | None:
    """A bound on the decrement from the intercept's column of H, where all other weights are penalised.

    With c its curvature and m the others' mean in it, H ≥ l2 ‖v‖² + c (b + mᵀv)² as a form in the weights v and the
    intercept b, whose least eigenvalue is at least min(l2, c) / (1 + ‖m‖)².
    """
    c = float(column[-1])
    if not c > 0:
        return None
    m = norm(column[:-1] / c)
    step = _last(gradient) * (gradient[-1] / c)
    return NewtonStep(step, norm(gradient) ** 2 * (1.0 + m) ** 2 / min(l2, c))


def _by_conjugate_gradients(ask: Ask, inspect: Inspect, w: Array, gradient: Array) -> NewtonStep | None:
    """Preconditioned by the diagonal of H. What is not found within the products allowed is left as infinite."""
    loss = inspect.loss
    found = ask(Mean(inspect.diagonal, w=w))
    if found is None:
        return None
    diagonal = found[0] + loss.penalty_curvature(found[0].shape)
    diagonal = np.where(diagonal > 0, diagonal, np.inf)
    inverse = (1.0 / diagonal) if diagonal.ndim == gradient.ndim else (1.0 / diagonal)[:, None]
    step, r, z = 0.0 * gradient, gradient, inverse * gradient
    d, rz = z, float((gradient * z).sum())
    first = rz
    for _ in range(PRODUCTS):
        if rz <= 1e-6 * first:
            return NewtonStep(step, float((gradient * step).sum()))
        found = ask(Mean(inspect.product, w=w, v=d))
        if found is None:
            return None
        curvature = float((d * found[0]).sum())
        if not curvature > 0:
            break
        step, r = step + rz / curvature * d, r - rz / curvature * found[0]
        z, before = inverse * r, rz
        rz = float((r * z).sum())
        d = z + rz / before * d
    return NewtonStep(step, float("inf"))
