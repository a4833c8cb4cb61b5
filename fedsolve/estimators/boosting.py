"""Boosted trees over several sites: `FFGB` with `Trees`, by the settings that docs/boosting.md recommends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.algorithms.base import Algorithm
from fedsolve.data.held_out import hold_out
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import ConfigError
from fedsolve.estimators.base import FederatedClassifier, FederatedEstimator, FederatedRegressor
from fedsolve.estimators.choosing import Chosen
from fedsolve.estimators.seeds import seed_of
from fedsolve.estimators.site_rows import Problem, held_clients
from fedsolve.federation.client import Client
from fedsolve.federation.transports import Transport
from fedsolve.inference.evaluation import Evaluation
from fedsolve.learners import Trees
from fedsolve.loop.history import Run
from fedsolve.loop.patience import Patience
from fedsolve.loop.run import run
from fedsolve.loop.stopping import CONVERGED, FINISHED, Stopping, StoppingRule
from fedsolve.losses import LinearLoss, Loss, Pointwise, Squared
from fedsolve.models.ensemble import Ensemble
from fedsolve.numerics.scalars import positive, whole
from fedsolve.typing import Array

STEP = 0.75  # over the largest curvature of the loss
SHRINK = 0.1  # of an average site's rows: what leaves are shrunk by
MANY = 10_000  # rows beyond which early_stopping="auto" stops early, as in scikit-learn
KEEP = Preprocess(standardise=False, impute="keep")  # missing cells stay missing: each split sends them the better way


PARAMETERS = """
Args:
    learning_rate: How far each tree is followed. Default None: 0.75 over the largest curvature of the loss, which
        is 0.75 for numbers, 3 for two classes and 1.5 for more. That is larger than scikit-learn's 0.1, because
        `l2_regularization` shrinks the leaves.
    max_iter: The most rounds. Default 30. Each site adds `steps` trees in a round.
    steps: How many trees a site fits in a round. Default 4. More need fewer rounds.
    max_leaf_nodes: How many leaves a tree has at most. Default 31; None: as many as `max_depth` allows.
    max_depth: How many splits lie between the root and a leaf at most. Default 6.
    min_samples_leaf: How many rows of its site a leaf stands for at least, counted in rows whatever their weights.
        Default 5. A site with fewer rows adds nothing.
    l2_regularization: Shrinks the leaves, in units of rows. Default None: a tenth of an average site's rows.
    max_bins: How many bins a column has at most, beside that of missing values. Default 255.
    early_stopping: Whether each site sets rows aside, and the run ends when their loss no longer falls. Default
        "auto": with more than 10,000 rows.
    validation_fraction: The share of rows that each site sets aside. Default 0.1. Clients that hold rows out
        already (`fs.data.hold_out`) keep theirs.
    n_iter_no_change: After how many rounds without progress to stop. Default 10. The best model is kept.
    random_state: Seeds the rows that are set aside. Default 0, as is None.
    algorithm: "auto" (the default) is `FFGB` with these settings; or an `fs.FFGB` object, whose loss is replaced
        and whose other settings count instead of those above.

Attributes that `fit` sets:
    feature_importances_: How much each column adds, as shares that sum to 1.
    classes_, n_iter_, bytes_, run_: The classes of a classifier, the rounds, the bytes sent in all, and the `fs.Run`.
"""


class BoostingEstimator(FederatedEstimator):
    """What boosting of numbers and of classes share."""

    feature_importances_: Array

    _checks: ClassVar[dict[str, object]] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        max_iter: int = 30,
        steps: int = 4,
        max_leaf_nodes: int | None = 31,
        max_depth: int = 6,
        min_samples_leaf: int = 5,
        l2_regularization: float | None = None,
        max_bins: int = 255,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: int | np.random.RandomState | None = 0,
        algorithm: Chosen = "auto",
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.steps = steps
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.algorithm = algorithm

    def _auto(self, loss: Pointwise, problem: Problem) -> Algorithm:
        share = SHRINK * problem.weight / problem.sites if self.l2_regularization is None else self.l2_regularization
        trees = Trees(self.max_depth, self.max_leaf_nodes, self.max_bins, self.min_samples_leaf, share)
        usual = STEP / loss.curvature_bound
        step = usual if self.learning_rate is None else positive("learning_rate", self.learning_rate)
        return FFGB(loss, trees, self.steps, step, residual=None, initial="constant")

    def _run(self, algorithm: Algorithm, clients: Sequence[Client] | Transport, problem: Problem) -> Run:
        if not isinstance(algorithm, FFGB):
            raise ConfigError(f"{type(self).__name__} boosts with FFGB, got {algorithm!r}")
        seed, limits = seed_of(self.random_state), Stopping(whole("max_iter", self.max_iter, 1), tolerance=None)
        rules: list[StoppingRule] = [limits]
        if self._stops_early(problem):
            assert isinstance(algorithm.loss, Loss)
            rules.append(Patience(self.n_iter_no_change, Evaluation(algorithm.loss)))
            if not hasattr(clients, "deliver") and all(client.held is None for client in held_clients(clients)):
                clients = hold_out(held_clients(clients), self.validation_fraction, seed)
        preprocess = KEEP if getattr(algorithm.learner, "accepts_missing", False) else None
        return run(algorithm, clients, stopping=rules, preprocess=preprocess, seed=seed)

    def _reached(self, run: Run) -> bool:
        return run.status in (CONVERGED, FINISHED, "rounds", "patience")  # there is no minimum to reach

    def _stops_early(self, problem: Problem) -> bool:
        if self.early_stopping not in (True, False, "auto"):
            raise ConfigError(f'early_stopping is True, False or "auto", got {self.early_stopping!r}')
        return problem.rows > MANY if self.early_stopping == "auto" else bool(self.early_stopping)

    def _learn(self, problem: Problem) -> None:
        assert isinstance(self.run_.model, Ensemble)
        found = self.run_.model.importances()
        self.feature_importances_ = np.zeros(problem.features) if found is None else np.array(list(found.values()))

    def _predictor(self, X: Array) -> Array:
        rows = self._rows(X)
        return self.run_.model.decision_function(rows)


class FederatedBoostingRegressor(FederatedRegressor, BoostingEstimator):
    __doc__ = f"""Boosted trees for numbers. Missing cells (NaN) are learned from as they are.

The server sees the trees of each site.
{PARAMETERS}"""

    def _loss(self, problem: Problem) -> Squared:
        return Squared()

    def predict(self, X: Array) -> Array:
        """The expected target of each row."""
        return self._predictor(X)


class FederatedBoostingClassifier(FederatedClassifier, BoostingEstimator):
    __doc__ = f"""Boosted trees for two or more classes. Missing cells (NaN) are learned from as they are.

The server sees the trees of each site.
{PARAMETERS}"""

    def _loss(self, problem: Problem) -> LinearLoss:
        return self._class_loss(0.0, None)

    def decision_function(self, X: Array) -> Array:
        """The predictor of each row: of the second of two classes, else one for each class."""
        return self._predictor(X)
