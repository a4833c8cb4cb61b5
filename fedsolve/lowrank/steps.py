"""The steps that learning from low rank asks beside the weights: exact values, and the server's own samples."""

from __future__ import annotations

from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import Loss
from fedsolve.losses.measurement import Measurement
from fedsolve.lowrank import at_clients
from fedsolve.lowrank.corrections import Corrected, Point
from fedsolve.typing import Array


class SampleSteps:
    """Client steps that an algorithm inherits; it has the fields `loss`, `weights` and `steps`."""

    loss: Loss
    weights: str
    steps: int | None

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def local_smoothness(self, client: Client) -> float:
        """A bound on λ_max(∇²f_j)."""
        return self.loss.smoothness(client)

    @client_step(sends="its loss")
    def local_value(self, client: Client, w: Array) -> float:
        """f_j(w)."""
        return self.loss.value(client, w)

    @client_step(sends="its loss and gradient")
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array]:
        """f_j(w) and ∇f_j(w)."""
        return self.loss.value(client, w), self.loss.gradient(client, w)

    @client_step(server_only=True)
    def own_probes(self, client: Client, centre: Array, widths: Array, count: int) -> Array:
        """Points drawn from a box, a row for each."""
        drawn = client.rng.uniform(-1.0, 1.0, (count, centre.shape[0]))
        return centre + widths * (drawn if client.is_numpy else client.localise(drawn))

    @client_step(server_only=True)
    def own_partials(self, client: Client, points: Array, with_penalty: bool) -> Array:
        """The partial derivatives of each of the server's samples: (points, samples, p)."""
        return at_clients.partials(self.loss, client, points, with_penalty)

    # ── server ──

    def visit(self, fed: Federation, w: Array) -> Point:
        """Value and gradient at w, of clients and server together."""
        (found,) = fed.exchange(Mean(self.evaluate, w=w).with_server())
        return Point(w, *found, fed.cohort.clients)

    def measured(self, state: Corrected) -> Measurement | None:
        """What the last correction found, if the state has been visited."""
        known = state.value is not None and state.gradient is not None
        return Measurement(state.value, state.gradient) if known and state.value is not None else None

    @property
    def remedy(self) -> str:
        """What to try if a run diverges."""
        if self.weights == "inverse":
            return "a rank of one more than the model has weights, fewer or smaller steps, weights='truncated'"
        return "a larger l2" if self.steps is None else "a smaller step_size, steps=None (the default)"
