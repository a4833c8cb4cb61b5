"""The protocol behind a summary: one exchange brings all sums for standard errors, tests and information criteria."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Gather, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.inference import score_sums
from fedsolve.inference.score_sums import ScoreSums
from fedsolve.losses import LinearLoss, Logistic, Poisson, Softmax, Squared
from fedsolve.typing import Array
from fedsolve.wire.messages import Purpose

MOST_PARAMETERS = 1024  # two matrices of this order are 8 MB from each client
LEAST_SITES = 20
NEWTON_STEPS, SMALL_STEP = 50, 1e-12
ROUNDING = 1e-9  # of an eigenvalue, with the diagonal as the unit


@dataclass(frozen=True)
class Answers:
    """What the clients have said: sums over all of them, the score of each site where it was asked for, and the
    log-likelihood (without its constants) of the intercept-only model where sums of one exchange do not give it."""

    sums: ScoreSums
    site_scores: dict[str, Array] | None
    null_kernel: float | None


@dataclass(frozen=True)
class StandardErrors:
    """The protocol of `run.summary()`. Give it to a `Session` to ask after a run whose clients are not in this process:
    `fs.Session(transport, also={"summary": fs.StandardErrors(loss)})`.

    What leaves a client, in one message: two symmetric matrices (the Hessian of its log-likelihood, and the sum of the
    outer products of its scores), the sum of its scores, sums and sums of squares of its columns, some seven totals of
    its likelihood, and for each column how many rows have a raw value of zero, and how many another, by outcome, where
    5 stands for "5 or more". These are added up over the clients. With clusters each site's sum of scores, one vector,
    also arrives by itself.

    Args:
        loss: The loss of the run: `Squared`, `Logistic`, `Poisson` or `Softmax`.
        weights: What sample weights are. "frequency", the default: a row of weight 3 stands for three rows.
            "reliability": it is one row, whose variance is a third. This changes the number of rows in the Gaussian
            scale and in BIC, and robust standard errors; see `docs/summary.md`.
        clusters: Whether to ask for standard errors that are clustered by site. "auto", the default: if there are at
            least 20 sites, and more sites than parameters.
    """

    loss: LinearLoss
    weights: Literal["frequency", "reliability"] = "frequency"
    clusters: Literal["auto", "yes", "no"] = "auto"

    purpose: ClassVar[Purpose] = "setup"

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Squared | Logistic | Poisson | Softmax):
            raise ConfigError(f"standard errors are those of Squared, Logistic, Poisson or Softmax, got {self.loss!r}")
        if self.weights not in ("frequency", "reliability"):
            raise ConfigError(f"weights is 'frequency' or 'reliability', got {self.weights!r}")
        if self.clusters not in ("auto", "yes", "no"):
            raise ConfigError(f"clusters is 'auto', 'yes' or 'no', got {self.clusters!r}")

    # ── clients ──

    @client_step(sends="sums for standard errors: a Hessian, products of scores, and counts")
    def sums(self, client: Client, w: Array) -> ScoreSums:
        """All sums over the client's rows."""
        self.loss.check_weights(client, w=w)
        return score_sums.sums(self.loss, client, w, self.weights == "reliability")

    @client_step(sends="the sum of its scores")
    def site_score(self, client: Client, w: Array) -> Array:
        """The sum of the client's scores, for standard errors that are clustered by site."""
        self.loss.check_weights(client, w=w)
        return score_sums.site_score(self.loss, client, w)

    @client_step(sends="sums for the deviance without columns")
    def null_step(self, client: Client, intercept: float) -> Array:
        """Sums for one Newton step on the intercept-only logistic model, asked only where there are offsets."""
        return score_sums.null_step(client, intercept)

    # ── server ──

    def ask(self, fed: Federation, w: Array) -> Answers:
        """Ask all clients of an open federation that are not lost. Everyone must answer: standard errors are those of
        the rows that the model was fitted to."""
        order = self.order(fed)
        with fed.setting_up():
            sites: dict[str, Array] | None = None
            if self._clusters(len(fed.clients) - len(fed.position().lost), order):
                # Gathered: the outer product of a site's own sum is not a sum over rows.
                found, sites = fed.exchange(Sum(self.sums, w=w), Gather(self.site_score, w=w))
            else:
                found = fed.sum(self.sums, w=w)
            self._check(found, fed, order)
            return Answers(found, sites, self._null_kernel(fed, found))

    def order(self, fed: Federation) -> int:
        """How many parameters there are. Raises ConfigError if there are too many."""
        if fed.outputs and not isinstance(self.loss, Softmax):
            raise ConfigError(
                f"a summary is of one target, and y has {fed.outputs[0]} columns: fit them one at a time for standard "
                "errors"
            )
        p, *classes = self.loss.shape(fed.features, fed.outputs)
        order = p * (classes[0] - 1 if classes else 1)
        if order > MOST_PARAMETERS:
            raise ConfigError(
                f"the model has {order:,} parameters, and a summary sends two matrices of that order from each client; "
                f"{MOST_PARAMETERS:,} is the most: use fewer columns"
            )
        return order

    def _clusters(self, sites: int, order: int) -> bool:
        return self.clusters == "yes" or (self.clusters == "auto" and sites >= LEAST_SITES and sites > order)

    def _null_kernel(self, fed: Federation, found: ScoreSums) -> float | None:
        """The intercept-only logistic model with offsets, which has no closed form: Newton's method in one number."""
        totals = dict(zip(score_sums.TOTALS, found.totals.tolist(), strict=True))
        if not isinstance(self.loss, Logistic) or not totals["offset"]:
            return None
        share = float(found.null[0]) / totals["weight"]
        if not 0 < share < 1:
            return 0.0
        intercept = float(np.log(share / (1 - share)))
        for _ in range(NEWTON_STEPS):
            kernel, slope, curvature = fed.sum(self.null_step, intercept=intercept).tolist()
            step = slope / curvature if curvature > 0 else 0.0
            intercept -= float(np.clip(step, -2.0, 2.0))
            if abs(step) <= SMALL_STEP * (1 + abs(intercept)):
                break
        return float(kernel)

    def _check(self, found: ScoreSums, fed: Federation, order: int) -> None:
        """Raise DataError for what can be no sum over rows."""
        p = self.loss.width(fed.features)
        columns = p - (self.loss.intercept is not None)
        shapes = {
            "totals": (len(score_sums.TOTALS),),
            "score": (order,),
            "moments": (2, columns),
            "others": (columns,),
        }
        for name, shape in shapes.items():
            array = getattr(found, name)
            if array.shape != shape:
                raise DataError(f"the sums of the clients have {name} of shape {array.shape}, expected {shape}")
            if not np.isfinite(array).all():
                raise DataError(f"the sums of the clients have {name} that are not finite: coefficients are too large")
        for name in ("hessian", "outer"):
            matrix = getattr(found, name).full()
            if matrix.shape != (order, order) or not _is_sum_of_squares(matrix):
                raise DataError(f"the clients' {name} is not a sum of squares: a client has sent something else")
        if not found.totals[0] > 0 or found.samples <= 0:
            raise DataError("no client has rows that count")


def _is_sum_of_squares(matrix: Array) -> bool:
    """Whether all eigenvalues are at least zero, to rounding, in units in which the diagonal is one."""
    squares = np.diag(matrix)
    if not np.isfinite(matrix).all() or (squares < 0).any():
        return False
    units = np.sqrt(np.where(squares > 0, squares, 1.0))
    return float(np.linalg.eigvalsh(matrix / np.outer(units, units))[0]) >= -ROUNDING * len(matrix)
