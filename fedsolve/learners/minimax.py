"""Minimax: the fit whose largest error over a client's rows is least, with any weak learner.

    min_h max_{x ∈ supp α_i} ‖φ(x) − h(x)‖²          Shen, Hassani, Kale and Karbasi (2022), equation 20

This is the oracle Q^∞ of Theorem 4.1, where clients' inputs differ: a fit in mean squares may be far off at single
rows, and such spikes do harm where another client's rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.features import FeatureMap
from fedsolve.features.base import one_of
from fedsolve.features.mapped import FeatureDesign
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.learners.base import Arrays, Fitting, Function, WeakLearner
from fedsolve.learners.mixture import Mixture, members
from fedsolve.learners.ridge import RidgeFunction, RidgeLearner
from fedsolve.numerics.design import Design, as_design, with_intercept
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.numerics.scalars import whole
from fedsolve.plain import Reader
from fedsolve.typing import Array

ENTRIES = 2_000_000  # of the linear program's matrix, at most


class _Learners:
    """The classes that a Minimax in a file may name: weak learners, and the feature maps of ridge."""

    def kind_of(self, value: type) -> str | None:
        return (
            "weak learner"
            if issubclass(value, WeakLearner)
            else "feature map"
            if issubclass(value, FeatureMap)
            else None
        )

    def names(self, kind: str) -> Mapping[str, type]:
        known: Mapping[str, type] = WeakLearner.known if kind == "weak learner" else FeatureMap.known
        return {one.__name__: one for one in known.values()}


@dataclass(frozen=True)
class Minimax(WeakLearner):
    """Fits with the least largest error over the rows; sample weights only say which rows count at all.

    learner  what is fitted, such as RidgeLearner() or Trees()
    method   "lp" solves a linear program, exactly, and takes a RidgeLearner, whose penalty it leaves out; with several
             outputs the largest error is over rows and outputs. "reweighting" fits `rounds` times, gives more weight to
             the rows with large errors each time (AdaHedge, de Rooij et al. 2014), and takes the average: a mixture of
             as many functions, or one function of a RidgeLearner. "auto", the default: "lp" for a RidgeLearner where
             rows × coefficients are at most two million, else "reweighting"
    rounds   fits of a reweighting, at most (default 30). The square of its largest error is above the least possible by
             about ℓ √(ln n / rounds), for n rows and squared errors of up to ℓ, if `learner` minimises squares exactly
    """

    learner: WeakLearner
    method: Literal["auto", "lp", "reweighting"] = "auto"
    rounds: int = 30

    kind: ClassVar[str] = "minimax"
    reader: ClassVar[Reader] = Reader(_Learners())

    def __post_init__(self) -> None:
        if not isinstance(self.learner, WeakLearner) or isinstance(self.learner, Minimax):
            raise ConfigError(f"learner is a weak learner such as RidgeLearner(), and no Minimax, got {self.learner!r}")
        one_of("method", self.method, ("auto", "lp", "reweighting"))
        if self.method == "lp" and not isinstance(self.learner, RidgeLearner):
            raise ConfigError(
                f'method="lp" takes a learner that is linear in its coefficients, RidgeLearner, and '
                f'{type(self.learner).__name__} is none: take method="reweighting"'
            )
        whole("rounds", self.rounds, 1)

    @property
    def sends(self) -> str:
        """What `learner` sends."""
        return self.learner.sends

    # ── clients ──

    def fit(self, fitting: Fitting) -> Function:
        if fitting.weight is not None:
            fitting = _supported(fitting)
        if isinstance(self.learner, RidgeLearner) and self.method != "reweighting":
            design = _design(self.learner, fitting.X)
            if self.method == "lp" or design.shape[0] * design.shape[1] * _outputs(fitting.target) <= ENTRIES:
                order = design.shape[1]
                basis = to_numpy(design.matvec(like(np.eye(order), design.sample)))
                return self._ridge(chebyshev(basis, to_numpy(fitting.target)), fitting.target)
        found = self._reweighted(fitting)
        if isinstance(self.learner, RidgeLearner):
            each = [member.arrays() for member in found]
            w, b = (sum(arrays[place] for arrays in each) / len(each) for place in range(2))
            return RidgeFunction(self.learner.features, w, b)
        return Mixture(self.learner, tuple(found))

    def _ridge(self, solution: Array, target: Array) -> RidgeFunction:
        assert isinstance(self.learner, RidgeLearner)
        solution = like(solution, target)
        if self.learner.intercept:
            return RidgeFunction(self.learner.features, solution[:-1, ...], solution[-1, ...])
        return RidgeFunction(self.learner.features, solution, 0.0 * solution[0, ...])

    def _reweighted(self, fitting: Fitting) -> list[Function]:
        """The functions whose average is the fit: the first so many whose average has the least largest error."""
        target = to_numpy(fitting.target)
        n = target.shape[0]
        gain, gap = np.zeros(n), 0.0  # the sum of each row's squared errors; that of AdaHedge's mixability gaps
        found: list[Function] = []
        total, best, least = np.zeros(target.shape), 0, np.inf
        for _ in range(self.rounds):
            rate = np.log(max(n, 2)) / gap if gap > 0 else np.inf
            w = _softmax(gain, rate)
            # A learner may keep what depends on the weights, and these are others in every fit.
            h = self.learner.fit(replace(fitting, weight=like(n * w, fitting.target), kept={}))
            found.append(h)
            values = to_numpy(h(fitting.X))
            squares = _squares(target - values)
            total = total + values
            largest = float(_squares(target - total / len(found)).max())
            if largest < least:
                best, least = len(found), largest
            gap += max(_mixed(w, squares, rate) - float(w @ squares), 0.0)
            gain = gain + squares
            if not gap > 0:  # all rows have the same error: nothing is to be gained
                break
        return found[:best]

    def inputs(self, client: Client) -> Array:
        return self.learner.inputs(client)

    # ── both sides ──

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Function:
        if isinstance(self.learner, RidgeLearner):
            return self.learner.function(arrays, inputs, outputs)
        return Mixture(self.learner, tuple(members(self.learner, arrays, inputs, outputs, self.rounds)))

    def importances(self, function: Function, inputs: int) -> Array | None:
        if not isinstance(function, Mixture):
            return self.learner.importances(function, inputs)
        each = [self.learner.importances(member, inputs) for member in function.members]
        known = [one for one in each if one is not None]
        return sum(known) / len(known) if known and len(known) == len(each) else None

    # ── server ──

    def prepare(self, fed: Federation) -> Arrays:
        return self.learner.prepare(fed)

    def width(self, fed: Federation) -> int:
        return self.learner.width(fed)


def chebyshev(basis: Array, target: Array) -> Array:
    """argmin_c max_ij |(basis c − target)_ij|, one column of c for each output, by a linear program."""
    from scipy.optimize import linprog  # slow to import

    n, order = basis.shape
    if not (np.isfinite(basis).all() and np.isfinite(target).all()):
        raise DataError("a minimax fit needs finite inputs and targets")
    Y = target.reshape(n, -1)
    units = np.abs(basis).max(axis=0, initial=0.0)  # columns of very unlike units are scaled for the solver
    units = np.where(units > 0, units, 1.0)
    size = float(np.abs(Y).max(initial=0.0)) or 1.0
    scaled, found = basis / units, []
    for y in Y.T / size:  # the largest error over all outputs is least if it is for each
        ones = np.ones((n, 1))
        A = np.block([[scaled, -ones], [-scaled, -ones]])
        cost = np.append(np.zeros(order), 1.0)
        bounds = [(None, None)] * order + [(0, None)]
        done = linprog(cost, A_ub=A, b_ub=np.concatenate([y, -y]), bounds=bounds, method="highs")
        if done.status != 0:
            raise DataError(f"the linear program of a minimax fit was not solved: {done.message}")
        found.append(size * done.x[:-1] / units)
    c = np.stack(found, axis=1)
    return c[:, 0] if target.ndim == 1 else c


def _design(learner: RidgeLearner, X: Array) -> Design:
    inner = as_design(X) if learner.features is None else FeatureDesign(learner.features, as_design(X))
    return with_intercept(inner) if learner.intercept else inner


def _supported(fitting: Fitting) -> Fitting:
    """The rows with a weight above 0, all the same."""
    assert fitting.weight is not None
    s = to_numpy(fitting.weight)
    rows = np.flatnonzero(s > 0)
    if len(rows) == len(s):
        return replace(fitting, weight=None)
    return replace(fitting, X=fitting.X[rows], target=fitting.target[rows], weight=None, kept={})


def _outputs(target: Array) -> int:
    return 1 if target.ndim == 1 else int(target.shape[1])


def _squares(residual: Array) -> Array:
    return np.sum(residual.reshape(len(residual), -1) ** 2, axis=1)


def _softmax(gain: Array, rate: float) -> Array:
    behind = gain - gain.max()
    w = np.exp(rate * behind) if np.isfinite(rate) else np.where(behind == 0, 1.0, 0.0)
    return np.asarray(w / w.sum())


def _mixed(w: Array, squares: Array, rate: float) -> float:
    """(1/η) ln Σ w e^{η ℓ}, the largest ℓ for η = ∞."""
    top = float(squares[w > 0].max())
    if not np.isfinite(rate):
        return top
    return top + float(np.log(w @ np.exp(rate * (squares - top)))) / rate
