"""Whether a small gradient means a minimum: what is asked of the clients before a run says "converged".

A gradient can be small because columns are nearly collinear, while the value is far from its minimum; or because the
weights run away along a direction in which f falls for ever and ever more slowly (classes that can be separated, a
class or a count that never occurs). Newton's step tells these from a minimum: its decrement is how far the value is
from one, and the changes of predictions along it, summed over the samples, show whether any sample is against it.

A penalty that reaches every weight settles it without a question. Otherwise Newton's step is found from one sum of
Hessians, or, where these are large, by conjugate gradients on sums of products; then one exchange tests the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedsolve.calls import Mean, Sum
from fedsolve.linalg import factor, norm
from fedsolve.measure import RESOLVED, Measure, Measurement, NewtonStep, Scale
from fedsolve.searches import rounding
from fedsolve.typing import Array

NEGLIGIBLE = 1e-7  # of f(0) − f: a value this near to its minimum is called minimal
ORDER = 64  # the largest Hessian that is asked for whole: 16 kB
PRODUCTS = 50  # conjugate gradient steps for larger ones
MOVED = 0.1  # the root of Σ Δη²: at a minimum, Newton's step changes predictions by far less
FREE = 1e-4  # the share of a change that samples may hinder, by rounding, where they do not hinder it

Ask = Callable[..., "tuple[Any, ...] | None"]  # results of calls that all clients answered, or None


@dataclass(frozen=True)
class Finding:
    """What is known of the point: a minimum, no minimum anywhere (`endless`), or not enough (`doubt` says why)."""

    doubt: str | None = None
    endless: bool = False
    newton: NewtonStep | None = None


def confirm(ask: Ask, measure: Measure, scale: Scale, w: Array, measurement: Measurement) -> Finding:
    """Whether there is a minimum at w, to a part in 10⁷ of what was gained since w = 0.

    `ask(*calls)` puts calls to all clients, and is None if any of them does not answer.
    """
    loss, value = measure.loss, measurement.value
    enough = NEGLIGIBLE * max(0.0, scale.value - value) + rounding(value, scale.value)
    mu = loss.strong_convexity()
    if loss.l1 or (mu > 0 and norm(measurement.gradient) ** 2 / (2 * mu) <= enough):
        return Finding()
    newton = measurement.newton or newton_step(ask, measure, scale, w, measurement.gradient)
    if newton is None:
        return Finding("not every client answered the question whether this is a minimum")
    if 0.5 * newton.decrement > enough:
        return Finding(f"by Newton's step the value is still about {0.5 * newton.decrement:.1e} above its minimum")
    if newton.unresolved > RESOLVED * (abs(scale.value) + abs(value)) ** 0.5:
        return Finding(
            "some columns are so nearly collinear that rounding hides what is to be gained by telling them apart; "
            "leave one of them out, or add a penalty, l2 > 0"
        )
    if mu > 0 or loss.quadratic:
        return Finding(newton=newton)
    return _bounded(ask, measure, newton)


def separated(ask: Ask, measure: Measure, w: Array) -> bool:
    """Whether the weights themselves prove that there is no minimum, however far a run has come: no sample is against
    going further the same way. For classes, that w separates them."""
    loss = measure.loss
    if loss.quadratic or loss.l1 or loss.l2 or not w.any():
        return False
    found = ask(Sum(measure.prospect, step=w))
    return found is not None and found[0][0] > 0 and found[0][1] == 0


def _bounded(ask: Ask, measure: Measure, newton: NewtonStep) -> Finding:
    """Whether the samples hold the weights along Newton's step."""
    found = ask(Sum(measure.prospect, step=-newton.step))
    if found is None:
        return Finding("not every client answered the question whether this is a minimum")
    ((changed, hindered),) = found
    if changed <= MOVED**2:
        return Finding(newton=newton)
    if hindered <= FREE**2 * changed:
        return Finding(endless=True)
    return Finding("Newton's step still changes predictions, though the gradient is small")


def newton_step(ask: Ask, measure: Measure, scale: Scale, w: Array, gradient: Array) -> NewtonStep | None:
    """H⁻¹g of all clients; by conjugate gradients (preconditioned by the columns' scale) it is only as good as judging
    its size needs. None if not everyone answered."""
    order = w.shape[0] if measure.loss.separable else w.size
    if order <= ORDER:
        found = ask(Mean(measure.hessian, w=w))
        return None if found is None else NewtonStep.by(factor(found[0]), gradient)
    squares = scale.columns**2 if gradient.ndim == 1 else scale.columns[:, None] ** 2
    step, r, z = 0.0 * gradient, gradient, gradient / squares
    d, rz = z, float((gradient * z).sum())
    first = rz
    for _ in range(PRODUCTS):
        found = ask(Mean(measure.product, w=w, v=d))
        if found is None:
            return None
        curvature = float((d * found[0]).sum())
        if not curvature > 0:
            break
        step, r = step + rz / curvature * d, r - rz / curvature * found[0]
        z, before = r / squares, rz
        rz = float((r * z).sum())
        if rz <= 1e-6 * first:
            break
        d = z + rz / before * d
    return NewtonStep(step, float((gradient * step).sum()))
