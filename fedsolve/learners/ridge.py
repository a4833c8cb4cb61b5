"""Ridge regression as a weak learner: on the columns themselves, or on features of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from array_api_compat import device

from fedsolve.errors import ConfigError, WrongType
from fedsolve.features import FeatureMap
from fedsolve.features.mapped import FeatureDesign
from fedsolve.learners.base import Arrays, Fitting, Function, WeakLearner
from fedsolve.numerics.design import Design, as_design, with_intercept
from fedsolve.numerics.linalg import Factor, factor, is_float64, namespace
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class RidgeFunction(Function):
    """x ↦ φ(x)ᵀw + b."""

    features: FeatureMap | None
    w: Array
    b: Array
    fitted_at: tuple[Array, Design] | None = None  # rows whose features are known

    def __call__(self, X: Array) -> Array:
        known = self.fitted_at
        design = known[1] if known is not None and known[0] is X else _design(self.features, X, keep=0)
        return design.matvec(self.w) + self.b

    def arrays(self) -> Arrays:
        return self.w, self.b


@dataclass(frozen=True)
class RidgeLearner(WeakLearner):
    """Fits φ(x)ᵀw + b to a target, with the penalty (l2/2) ‖w‖² beside half the weighted mean of squares.

    l2        the penalty on w (default 1e-3); b is not penalised. 0 takes the solution of least norm
    features  φ, such as `fs.RandomFourier(…)`, `fs.Polynomial(…)` or `fs.Nystroem(…)` on public landmarks; None, the
              default, takes the columns as they are
    intercept whether there is a b (default True)
    """

    l2: float = 1e-3
    features: FeatureMap | None = None
    intercept: bool = True

    kind: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        at_least_zero("l2", self.l2)
        if self.features is not None and not isinstance(self.features, FeatureMap):
            raise ConfigError(f"features is a feature map such as RandomFourier(…), or None, got {self.features!r}")

    # ── clients ──

    def fit(self, fitting: Fitting) -> RidgeFunction:
        kept, target = fitting.kept, fitting.target
        if "factor" not in kept:  # the same for every target
            kept["inner"], kept["design"], kept["factor"] = self._prepared(fitting)
        inner, design, solver = cast(tuple[Design, Design, Factor], (kept["inner"], kept["design"], kept["factor"]))
        xp, s = namespace(target), fitting.weight
        whole = float(target.shape[0] if s is None else xp.sum(s))
        r = target if s is None else target * (s if target.ndim == 1 else s[:, None])
        solution, at = solver.solve(design.rmatvec(r) / whole), (fitting.X, inner)
        if self.intercept:
            return RidgeFunction(self.features, solution[:-1, ...], solution[-1, ...], at)
        none = xp.zeros(solution.shape[1:], dtype=xp.float64, device=device(target))  # an array also for one output
        return RidgeFunction(self.features, solution, none, at)

    def _prepared(self, fitting: Fitting) -> tuple[Design, Design, Factor]:
        xp, s, target = namespace(fitting.target), fitting.weight, fitting.target
        inner = _design(self.features, fitting.X)
        design = with_intercept(inner) if self.intercept else inner
        n, order = design.shape
        ones = xp.ones(n, dtype=xp.float64, device=device(target)) if s is None else s
        penalties = xp.full(order, self.l2, dtype=xp.float64, device=device(target))
        if self.intercept:
            penalties[-1] = 0.0
        gram = design.gram(ones / float(xp.sum(ones)))
        return inner, design, factor(gram.add_diagonal(penalties) if self.l2 else gram)

    # ── both sides ──

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> RidgeFunction:
        order = inputs if self.features is None else self.features.dimension(inputs)
        shapes = [tuple(array.shape) for array in arrays]
        if shapes != [(order, *outputs), outputs] or not all(map(is_float64, arrays)):
            raise WrongType(
                f"a ridge function has float64 arrays of shapes {(order, *outputs)} and {outputs}, got {shapes}"
            )
        return RidgeFunction(self.features, *arrays)

    def weighted_sum(self, functions: Sequence[Function], coefficients: Sequence[float], X: Array) -> Array:
        """The function whose weights are the sum of theirs, once over the rows."""
        w, b = functions[0].arrays()
        w, b = coefficients[0] * w, coefficients[0] * b
        for coefficient, function in zip(coefficients[1:], functions[1:], strict=True):
            more = function.arrays()
            w, b = w + coefficient * more[0], b + coefficient * more[1]
        return RidgeFunction(self.features, w, b)(X)

    def importances(self, function: Function, inputs: int) -> Array | None:
        """|w| of each column, over all outputs: comparable where the columns are on one scale. None for features."""
        if self.features is not None or not isinstance(function, RidgeFunction):
            return None
        xp, w = namespace(function.w), function.w
        return xp.abs(w) if w.ndim == 1 else xp.sqrt(xp.sum(w * w, axis=1))


def _design(features: FeatureMap | None, X: Array, keep: int | None = None) -> Design:
    inner = as_design(X)
    if features is None:
        return inner
    return FeatureDesign(features, inner) if keep is None else FeatureDesign(features, inner, keep=keep)
