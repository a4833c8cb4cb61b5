"""The policy of a site, asked before and after every call of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from fedsolve.data.centring import Centred
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.federation.joining import Joining
from fedsolve.inference.client_sums import held_rows
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.remembered_model import Remembered, recall
from fedsolve.inference.sent_model import SentModel
from fedsolve.learners import Stumps, Trees
from fedsolve.learners.shared_bins import SharedBins
from fedsolve.losses import LinearLoss, Loss, Pointwise
from fedsolve.sites.audit import Spent
from fedsolve.sites.consent import is_refused
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.policy import Policy
from fedsolve.sites.row_guard import RowGuard
from fedsolve.typing import Array, Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route

# Arguments in the shape of a model that are directions, products of gradients or units, and no points. An argument that
# is not listed here is taken for a point before the step begins, also one of an algorithm that is still to be written;
# what a step makes of directions is judged when it looks at rows there.
DIRECTIONS = frozenset({"g", "d", "r", "v", "p", "c", "step", "units", "mean", "centre", "scale"})
FEW_NUMBERS = 64  # that every reply may have, however small the table


class CallGuard:
    """Holds the rules of a policy for one run.

    spent   what the run has been given before this process started
    client  the site's rows; the guard is told of every point at which they are looked at
    learned, held   the points that were answered at before, on the rows to learn from and those to judge by
    """

    def __init__(
        self,
        policy: Policy,
        protocols: Mapping[str, object],
        spent: Spent,
        client: Client,
        learned: PointLog,
        held: PointLog,
    ) -> None:
        self.policy, self.spent = policy, spent
        self.rows = RowGuard(policy, client, learned)
        self.held = None if client.held is None else RowGuard(policy, client.held, held)
        client.watch = self.rows
        loss = getattr(protocols.get("algorithm"), "loss", None)
        self.loss = loss if isinstance(loss, Loss) else None
        self._asked: Counter[str] = Counter()  # of the request that is being answered

    def request(self) -> None:
        """Called once for every request, before its calls."""
        self._asked.clear()
        if self.spent.refusals >= self.policy.refusals:
            raise PolicyRefusal("refusals", f"the run was refused something {self.spent.refusals} times")
        if self.spent.failures >= self.policy.failures:
            raise PolicyRefusal("failures", f"{self.spent.failures} requests of the run failed")
        if self.spent.requests >= self.policy.requests:
            raise PolicyRefusal("requests", f"the run has been answered {self.spent.requests} times, and no more are")
        if self.spent.bytes >= self.policy.bytes:
            raise PolicyRefusal("bytes", f"the run has been sent {self.spent.bytes:,} bytes, and no more are")

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Raise PolicyRefusal for a call that is not answered."""
        if isinstance(protocol, Joining):
            self._check_rows(client)
            return
        step = f"{type(protocol).__name__}.{route[1]}"
        if is_refused(self.policy, protocol, route[1]):
            raise PolicyRefusal("refuse", f"{step} is never answered here")
        if self._answered(step) >= self.policy.questions:
            raise PolicyRefusal("questions", f"{step} has been answered {self._answered(step)} times in this run")
        if step == "Inspect.prospect" and self._answered(step) >= self.policy.directions:
            raise PolicyRefusal("directions", f"{step} has been answered {self._answered(step)} times in this run")
        if isinstance(protocol, SharedBins):
            self._check_counts()
        self._asked[step] += 1
        self.rows.begin()
        if isinstance(self.loss, LinearLoss) and any(isinstance(one, SentModel) for one in arguments.values()):
            raise PolicyRefusal("models", f"{step} came with a model of another kind than the run's")
        loss = getattr(protocol, "loss", None) or self.loss
        if isinstance(loss, LinearLoss) and not isinstance(protocol, Preprocess | Centred):
            self._check_point(loss, arguments, client)
        if isinstance(protocol, Evaluation) and "line" in arguments:
            self._check_line(protocol, arguments["w"], np.asarray(arguments["line"]), client)

    def _answered(self, step: str) -> int:
        return self.spent.steps[step] + self._asked[step]

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Raise PolicyRefusal for a reply that does not leave."""
        if isinstance(protocol, Joining | Evaluation | SharedBins):  # what they count has rules of its own
            return
        cells = client.n_samples * client.X.shape[1]
        most = max(FEW_NUMBERS, int(self.policy.share_of_cells * cells))
        if reply.scalars > most:
            raise PolicyRefusal(
                "share_of_cells",
                f"a reply of {reply.scalars:,} numbers to {type(protocol).__name__}.{route[1]}, and at most {most:,} "
                f"leave, {self.policy.share_of_cells:g} for each of the {cells:,} cells here",
            )

    def _check_counts(self) -> None:
        kinds = [f"{kind.__name__}.{step}" for kind in (Trees, Stumps) for step in ("cell_counts", "values_at")]
        if sum(self._answered(one) for one in kinds) >= self.policy.counts:
            raise PolicyRefusal("counts", f"rows have been counted {self.policy.counts} times for this run")

    def _check_rows(self, client: Client) -> None:
        held = client.held
        for what, count in (("learn from", client.n_samples), ("judge by", None if held is None else held.n_samples)):
            if count is not None and count < self.policy.min_rows:
                raise PolicyRefusal("min_rows", f"there are fewer than {self.policy.min_rows} rows to {what} here")

    def _check_point(self, loss: LinearLoss, arguments: Mapping[str, Value], client: Client) -> None:
        counts = client.counts
        shape = loss.shape(client.design.shape[1], tuple(client.y.shape[1:]))
        parameters, most = int(np.prod(shape)), self.policy.parameters_per_row * client.n_samples
        if parameters > most:
            raise PolicyRefusal(
                "parameters_per_row",
                f"the model has {parameters} parameters, and with {client.n_samples} rows at most {int(most)} are "
                "fitted here",
            )
        for name, value in arguments.items():
            for point in _points(name, value, shape):
                if not np.isfinite(point).all():
                    raise PolicyRefusal("largest_loss", "a point came that is not finite")
                loss.predictor(client, client.localise(point))  # of which the guard of the rows is told
        size = arguments.get("step_size")
        if isinstance(size, float | int) and not size * loss.smoothness(client) <= self.policy.largest_step:
            raise PolicyRefusal(
                "largest_step",
                f"a local step of {size:g}, over {self.policy.largest_step:g} times what the curvature here allows",
            )
        client.counts = counts  # what the policy computes is not the run's
        self.rows.begin()

    def _check_line(self, protocol: Evaluation, w: Value, line: np.ndarray, client: Client) -> None:
        """A calibration moves and stretches what a model predicts: that is a point as well."""
        guard, loss = self.held if protocol.rows == "held" else self.rows, protocol.loss
        if guard is None or line.shape != (2,) or not isinstance(loss, Pointwise):
            return
        rows, counts = guard.client, guard.client.counts
        if isinstance(w, Remembered):
            recall(w, client, rows)
        guard.judge(loss, rows, line[0] + line[1] * held_rows(loss, rows, w).eta)
        guard.client.counts = counts


def _points(name: str, value: Value, shape: tuple[int, ...]) -> list[Array]:
    """The points among the arguments of a step: arrays in the shape of the model, or stacks of them."""
    if name in DIRECTIONS:
        return []
    if isinstance(value, tuple | list):
        return [point for one in value for point in _points(name, one, shape)]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return []
    if value.shape == shape:
        return [value]
    if value.ndim == len(shape) + 1 and value.shape[1:] == shape:
        return list(value)
    return []
