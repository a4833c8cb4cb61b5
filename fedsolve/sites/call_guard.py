"""The policy of a site, asked before and after every call of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from fedsolve.algorithms import FFGB, FedDyn, FedProx, FedSplit
from fedsolve.data.centring import Centred
from fedsolve.data.preprocessing import Preprocess
from fedsolve.descent.line_search import Armijo
from fedsolve.diagnose.input_distances import InputDistance
from fedsolve.errors import PolicyRefusal
from fedsolve.federation.client import Client
from fedsolve.federation.joining import Joining
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain
from fedsolve.inference.sent_model import SentModel
from fedsolve.inference.standard_errors import StandardErrors
from fedsolve.learners import Stumps, Trees
from fedsolve.learners.shared_bins import SharedBins
from fedsolve.local import Adam, ProximalSteps
from fedsolve.local.linear_systems import SystemSolver
from fedsolve.losses import LinearLoss, Loss
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.audit import Spent
from fedsolve.sites.by_row import weights_by_row
from fedsolve.sites.consent import is_refused
from fedsolve.sites.digits import check_direction, check_reply
from fedsolve.sites.numbers_sent import floats_in, has_matrix, numbers_in
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
# Arguments that are other numbers altogether, in steps of this library that are known: with so many columns as there
# are of them they have the shape of a model by chance. What the rows are asked at is judged at the rows.
NO_POINTS: Mapping[type, frozenset[str]] = {
    Armijo: frozenset({"steps"}),
    InputDistance: frozenset({"means", "V", "pooled", "rows"}),
    Evaluation: frozenset({"edges", "line"}),
    SharedBins: frozenset({"bounds", "starts", "edges"}),
    FFGB: frozenset({"news"}),
}
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
        if client.held is not None:
            client.held.watch = self.held
        loss = getattr(protocols.get("algorithm"), "loss", None)
        self.loss = loss if isinstance(loss, Loss) else None
        self.boosts = isinstance(protocols.get("algorithm"), FFGB)
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
        if isinstance(protocol, Evaluation | FederationGain):
            self._check_evaluations()
        self._asked[step] += 1
        self._begin()
        if isinstance(self.loss, LinearLoss) and any(isinstance(one, SentModel) for one in arguments.values()):
            raise PolicyRefusal("models", f"{step} came with a model of another kind than the run's")
        loss = getattr(protocol, "loss", None) or self.loss
        if isinstance(loss, LinearLoss) and not isinstance(protocol, Preprocess | Centred):
            self._check_size(loss, client)
            none = {name for kind, names in NO_POINTS.items() if isinstance(protocol, kind) for name in names}
            given = {name: value for name, value in arguments.items() if name not in none}
            self._check_point(loss, given, client)
            self._check_step(loss, protocol, given.get("step_size"), client)
        if isinstance(protocol, StandardErrors) and route[1] == "sums":
            self._check_products(protocol, arguments["w"], client)

    def _begin(self) -> None:
        for rows in filter(None, (self.rows, self.held)):
            rows.begin()

    def _answered(self, step: str) -> int:
        return self.spent.steps[step] + self._asked[step]

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Raise PolicyRefusal for a reply that does not leave."""
        for rows in filter(None, (self.rows, self.held)):
            rows.end()
        if isinstance(protocol, Joining | Evaluation | SharedBins):  # what they count has rules of its own
            return
        cells = client.n_samples * client.X.shape[1]
        most = max(FEW_NUMBERS, int(self.policy.share_of_cells * cells))
        for one in floats_in(reply.value):
            check_reply(one)
        numbers = numbers_in(reply.value)
        if numbers > most:
            instead = "; FedNewtonCG asks for vectors, and for no matrix" if has_matrix(reply.value) else ""
            raise PolicyRefusal(
                "share_of_cells",
                f"a reply of {numbers:,} numbers to {type(protocol).__name__}.{route[1]}, and at most {most:,} "
                f"leave, {self.policy.share_of_cells:g} for each of the {cells:,} cells here{instead}",
            )

    def _check_counts(self) -> None:
        kinds = [f"{kind.__name__}.{step}" for kind in (Trees, Stumps) for step in ("cell_counts", "values_at")]
        if sum(self._answered(one) for one in kinds) >= self.policy.counts:
            raise PolicyRefusal("counts", f"rows have been counted {self.policy.counts} times for this run")

    def _check_evaluations(self) -> None:
        kinds = (Evaluation.__name__, FederationGain.__name__)
        steps = {one for one in (*self.spent.steps, *self._asked) if one.partition(".")[0] in kinds}
        if sum(self._answered(one) for one in steps) >= self.policy.evaluations:
            raise PolicyRefusal(
                "evaluations",
                f"models have been judged {self.policy.evaluations} times for this run, which counts rows on either "
                "side of a threshold: judge less often, by a larger every",
            )

    def _check_rows(self, client: Client) -> None:
        held = client.held
        for what, count in (("learn from", client.n_samples), ("judge by", None if held is None else held.n_samples)):
            if count is not None and count < self.policy.min_rows:
                raise PolicyRefusal("min_rows", f"there are fewer than {self.policy.min_rows} rows to {what} here")

    def _check_size(self, loss: LinearLoss, client: Client) -> None:
        parameters = int(np.prod(_shape(loss, client)))
        most = self.policy.parameters_per_row * client.n_samples
        if parameters > most:
            what = "boosting by so many columns counts as" if self.boosts else "the model has"
            raise PolicyRefusal(
                "parameters_per_row",
                f"{what} {parameters} parameters, and with {client.n_samples} rows at most {int(most)} are fitted "
                "here: leave columns out, or join levels of categories",
            )

    def _check_point(self, loss: LinearLoss, arguments: Mapping[str, Value], client: Client) -> None:
        counts, shape = client.counts, _shape(loss, client)
        for name, value in arguments.items():
            if name in DIRECTIONS:
                for one in floats_in(value):
                    check_direction(one)
                continue
            for point in _points(value, shape):
                if not np.isfinite(point).all():
                    raise PolicyRefusal("largest_loss", "a point came that is not finite")
                self.rows.begin()
                loss.predictor(client, client.localise(point))  # of which the guard of the rows is told
        client.counts = counts  # what the policy computes is not the run's
        self.rows.begin()

    def _check_step(self, loss: LinearLoss, protocol: object, size: Value | None, client: Client) -> None:
        """Judge how far a local solver is told to go. Where it ends is judged at the rows, whatever the solver is."""
        local = getattr(protocol, "local", None)
        if not isinstance(size, float | int) or isinstance(local, Adam | ProximalSteps):
            return  # Adam's steps have a length of their own, and proximal steps use none
        if local is None and isinstance(protocol, FedDyn | FedProx | FedSplit):  # these then solve exactly
            return
        counts = client.counts
        usual = 1.0 if isinstance(local, SystemSolver) else _smoothness(loss, client)
        if not size * usual <= self.policy.largest_step:
            raise PolicyRefusal(
                "largest_step",
                f"a local step of {size:g}, over {self.policy.largest_step:g} times what the curvature here allows; "
                "standardise the columns, or give the solver a smaller step_size",
            )
        client.counts = counts

    def _check_products(self, protocol: StandardErrors, w: Value, client: Client) -> None:
        counts, point = client.counts, client.localise(w)
        protocol.loss.check_weights(client, w=point)
        eta = protocol.loss.predictor(client, point)
        self.rows.judge_products(protocol.loss, client, eta, protocol.weights == "reliability")
        client.counts = counts


def _smoothness(loss: LinearLoss, client: Client) -> float:
    """What local steps are measured by: a bound on the curvature, or, of counts, which have none, the curvature where
    each row is predicted their mean, as a model without columns does."""
    if loss.link != "exponential":
        return loss.smoothness(client)
    s = weights_by_row(client)
    return loss.smoothness_where(client, float(s @ to_numpy(client.y)) / float(s.sum()))


def _shape(loss: LinearLoss, client: Client) -> tuple[int, ...]:
    return loss.shape(client.design.shape[1], tuple(client.y.shape[1:]))


def _points(value: Value, shape: tuple[int, ...]) -> list[Array]:
    """The points in an argument of a step: arrays in the shape of the model, or stacks of them."""
    if isinstance(value, tuple | list):
        return [point for one in value for point in _points(one, shape)]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return []
    flat = int(np.prod(shape))
    if value.shape in (shape, (flat,)):
        return [value.reshape(shape)]
    if value.ndim >= 2 and value.shape[1:] in (shape, (flat,)):
        return [one.reshape(shape) for one in value]
    return []
