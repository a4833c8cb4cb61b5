"""Measuring a run while it goes on: asking for value and gradient, certifying, and judging what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsolve.algorithms.base import Algorithm, includes_server
from fedsolve.errors import ClientRefused, LinkExceeded, WrongType
from fedsolve.federation.calls import Call, Mean
from fedsolve.federation.federation import Federation
from fedsolve.loop.confirm_minimum import UNASKED, confirm
from fedsolve.loop.health import diverged, stalled
from fedsolve.loop.history import Row
from fedsolve.loop.measure_protocols import Certificate, Inspect, Measure, Scale, certificate
from fedsolve.loop.rows import Rows
from fedsolve.loop.states import weights_of
from fedsolve.loop.stopping import CONVERGED, DIVERGED, Judge, Stopping, Verdict
from fedsolve.loop.telling import Telling
from fedsolve.losses import Loss
from fedsolve.losses.measurement import Measurement
from fedsolve.numerics.linalg import norm
from fedsolve.typing import Array, Value

NO_MINIMUM = (
    "there is no finite minimum: the value falls for ever along a direction that no sample opposes (the classes can "
    "be separated, or a class or a count never occurs); penalise all weights, the intercept too"
)


class Enough(Exception):
    """Raised inside a round whose first exchange showed that the model before it was good enough, or lost."""


@dataclass
class Measuring:
    """What is known of a run's rounds, and the verdict on it.

    measure, inspect  the protocols to ask with; None where the algorithm has no loss, or none that can be inspected
    every             measure every so many rounds; 0: only at the end
    scale             the problem's own units, where they were learned
    """

    algorithm: Algorithm
    loss: Loss | None
    measure: Measure | None
    inspect: Inspect | None
    stopping: Stopping
    every: int
    fed: Federation
    rows: Rows
    telling: Telling
    scale: Scale | None = None
    judges: tuple[Judge, ...] = ()
    verdict: Verdict | None = field(default=None, init=False)
    certificate: Certificate | None = field(default=None, init=False)
    endless: bool = field(default=False, init=False)  # whether it was shown that there is no minimum

    def resume(self, history: Sequence[Row]) -> None:
        """Know again what the last row of a resumed run certified."""
        if history and history[-1].gap is not None:
            kind = "strong convexity" if history[-1].gap_is_bound else "newton decrement"
            self.certificate = Certificate(kind, history[-1].gap)

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """The first verdict of the stopping rules. All are asked, so that a rule that keeps the best State has seen the
        last one too."""
        return next((found for found in [one.judge(row, state) for one in self.judges] if found is not None), None)

    # ── asking ──

    def now(self, state: Value, row: Row, last: bool) -> bool:
        """Complete the row if the state knows its own measurement, or if this is the last chance to ask. Returns
        whether the row is complete; if not, `later` asks."""
        known = getattr(self.algorithm, "measured", lambda state: None)(state)
        if known is not None:
            self._measured(row, known, self.fed.cohort.share, state)
        elif not (last or self._due(row)) or self._call(state) is None:
            self._publish(row, None)
        elif last:
            self.ask(state, row)
        else:
            return False
        return True

    def later(self, state: Value, row: Row) -> None:
        """Let the question travel with the first exchange of the next round."""
        call = self._call(state)
        assert call is not None  # or `now` would have completed the row

        def receive(results: tuple[Value, ...]) -> None:
            self._measured(row, as_measurement(results[0]), self.fed.cohort.share, state)
            if self.verdict is not None:
                raise Enough

        self.fed.attach((call,), receive)

    def ask(self, state: Value, row: Row) -> None:
        """Measure in an exchange of its own."""
        call = self._call(state)
        found = None if call is None else self.telling.measure(state, call)
        row = replace(row, missing=self.fed.missing)
        if found is None:
            self._publish(row, None)
            return
        (result,), share = found
        self._measured(row, as_measurement(result), share, state)

    def ask_all(self, *calls: Call[Value]) -> tuple[Value, ...] | None:
        """What all clients together answer; None if one of them does not, has no room for it on its link, or a policy
        that does not allow it."""
        try:
            found = self.fed.measure(*[self._of_everyone(call) for call in calls])
        except (LinkExceeded, ClientRefused):
            return None
        return None if found is None or found[1] < self.fed.objective - 1e-12 else found[0]

    def _due(self, row: Row) -> bool:
        return self.every > 0 and row.round % self.every == 0

    def _call(self, state: Value) -> Call[Value] | None:
        """How a State is measured: as the algorithm says, or by the loss at its weights; None: not at all."""
        own = getattr(self.algorithm, "measuring", None)
        if own is not None:
            call: Call[Value] | None = own(self.fed, state)
            return call
        w = weights_of(state)
        if self.measure is None or w is None:
            return None
        if self.measure.loss.by_value_alone:
            return self._of_everyone(Mean(self.measure.value_alone, w=w))
        return self._of_everyone(Mean(self.measure.value_and_gradient, w=w))

    def _of_everyone(self, call: Call[Value]) -> Call[Value]:
        """The call, with the server's own data in it where the objective has it."""
        return call.with_server() if includes_server(self.algorithm) else call

    # ── judging ──

    def _measured(self, row: Row, measurement: Measurement, share: float, state: Value) -> None:
        value, gradient = measurement.value, measurement.gradient
        first = next((one.value for one in self.rows.history if one.value is not None), None)
        scale = self.scale if comparable(measurement, weights_of(state)) else None
        # A gradient of some clients certifies nothing about the objective of all (or of all that are not lost).
        proof = None
        if self.loss is not None and share >= self.fed.objective - 1e-12:
            unit = max(abs(value), abs(first or 0.0), 0.0 if scale is None else abs(scale.value))
            proof = certificate(self.loss, measurement, unit)
        row = replace(
            row,
            value=value,
            gradient_norm=None if gradient is None else norm(gradient),
            relative_gradient=None if scale is None or gradient is None else scale.relative(gradient),
            gap=None if proof is None else proof.gap,
            gap_is_bound=proof is not None and proof.is_bound,
            measured_share=share,
            objective_share=self.fed.objective,
        )
        sizes = [] if first is None else [first] if scale is None else [scale.value, first]
        if getattr(self.algorithm, "may_grow", False):
            sizes = []  # by its theory the value may rise a long way first, so only one that is no number is too much
        found = diverged(row, sizes) or self.judge(row, state)
        if found is not None and found.status == CONVERGED:
            found, row, proof = self._confirmed(found, row, proof, measurement, weights_of(state))
        self._publish(row, proof)
        self.verdict = found or self.verdict or (stalled(self.rows.history) if self.stopping.converges else None)

    def _confirmed(
        self, verdict: Verdict, row: Row, proof: Certificate | None, measurement: Measurement, w: Array | None
    ) -> tuple[Verdict | None, Row, Certificate | None]:
        """The verdict that a point is a minimum, after the clients were asked; None if there is a doubt."""
        if self.inspect is None or self.scale is None or w is None or not comparable(measurement, w):
            return verdict, row, proof
        if not self._worth_confirming(row):
            return None, row, proof
        enough = self.stopping.enough(max(0.0, self.scale.value - measurement.value))
        found = confirm(self.ask_all, self.inspect, self.scale, w, measurement, enough)
        if found.endless:
            self.endless = True
            return Verdict(DIVERGED, NO_MINIMUM), row, None
        if found.doubt is not None:
            return None, replace(row, doubt=found.doubt), proof
        if found.newton is not None and proof is None:
            proof = Certificate("newton decrement", 0.5 * found.newton.decrement)
            row = replace(row, gap=proof.gap)
        if found.newton is not None and found.newton.singular:
            text = f"{verdict.message}; the Hessian is singular, so other coefficients fit as well as these"
            verdict = Verdict(verdict.status, text)
        return verdict, row, proof

    def _worth_confirming(self, row: Row) -> bool:
        """A doubt is not raised again until the gradient is ten times smaller."""
        doubted = [one for one in self.rows.history if one.doubt not in (None, UNASKED)]
        norms = [one.gradient_norm for one in doubted if one.gradient_norm]
        return not norms or row.gradient_norm is None or row.gradient_norm <= 0.1 * min(norms)

    def _publish(self, row: Row, proof: Certificate | None) -> None:
        self.certificate = proof
        self.rows.publish(row)


def comparable(measurement: Measurement, w: Array | None) -> bool:
    """Whether a measurement has a gradient with respect to the weights `w`."""
    return measurement.gradient is not None and w is not None and np.shape(measurement.gradient) == np.shape(w)


def as_measurement(result: Value) -> Measurement:
    """What a call that measures came to: a `Measurement`, a value with its gradient, or a value alone."""
    if isinstance(result, Measurement):
        return result
    if isinstance(result, int | float):
        return Measurement(float(result))
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], int | float):
        return Measurement(float(result[0]), result[1])
    raise WrongType(
        f"what measures a run answers with a number, or with a number and a gradient, got {type(result).__name__}"
    )
