"""Losses of linear models: what a client computes of its part of the objective.

    f_j(w) = Σ_i s_i ℓ(x_iᵀw, y_i) / Σ_i s_i + (l2/2) ‖w‖²,        f = Σ_j p_j f_j,   p_j = weight_j / Σ weight

so that the weighted mean of the clients' values, gradients and Hessians is that of the pooled data. `w` has the
intercept last; a free intercept is not penalised. With several outputs `w` is a matrix, a column for each. A client's
offset, if it has one, is added to x_iᵀw. With a feature map x_i is φ(x_i) throughout; the intercept comes after it.

An l1 penalty is no client's business: f is smooth, and the server adds l1 ‖w‖₁ (see `prox.py`).
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from array_api_compat import device

from fedsolve.errors import ConfigError, WrongType
from fedsolve.features.base import FeatureMap
from fedsolve.features.mapped import FeatureDesign
from fedsolve.federation.client import Client, same_point
from fedsolve.losses.local_fit import newton
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.design import Design, gram_entries, with_intercept
from fedsolve.numerics.lanczos import largest_eigenvalue_by_products
from fedsolve.numerics.linalg import Factor, check_columns, factor, largest_eigenvalue, namespace, symmetric_product
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array

Intercept = Literal["free", "penalised"] | None
# The number of features above which no Gram matrix is formed for its largest eigenvalue alone, and no pass over the
# weights is made that can be spared.
BY_PRODUCTS = 2048


@dataclass(frozen=True)
class LinearLoss(ABC):
    """A loss of the linear predictor η = Xw. Subclasses say what ℓ is, one sample at a time."""

    l2: float = 0.0
    intercept: Intercept = None
    l1: float = 0.0
    features: FeatureMap | None = field(default=None, kw_only=True)

    quadratic: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    # Whether the columns of w (several outputs) are problems of their own that share one Hessian.
    separable: ClassVar[bool] = True
    curvature_bound: ClassVar[float]  # sup of d²ℓ/dη²
    error_name: ClassVar[str] = "loss"
    provides: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise", "solve"})

    def __post_init__(self) -> None:
        for name in ("l2", "l1"):
            given = getattr(self, name)
            if not (np.isfinite(given) and given >= 0):
                raise ConfigError(f"{name} is a finite penalty of at least 0, got {given}")
        if self.intercept not in ("free", "penalised", None):
            raise ConfigError(f"intercept is 'free', 'penalised' or None, got {self.intercept!r}")
        if self.features is not None and not isinstance(self.features, FeatureMap):
            raise ConfigError(f"features is a feature map such as RandomFourier(…), or None, got {self.features!r}")

    # ── one sample at a time ──

    @abstractmethod
    def pointwise(self, xp: Any, eta: Array, y: Array) -> Array:
        """ℓ(η, y) of each sample (summed over outputs)."""

    @abstractmethod
    def derivative(self, xp: Any, eta: Array, y: Array) -> Array:
        """dℓ/dη."""

    @abstractmethod
    def curvature(self, xp: Any, eta: Array, y: Array) -> Array | None:
        """d²ℓ/dη² of each sample; None for 1."""

    def error(self, xp: Any, eta: Array, y: Array) -> Array:
        """What a sample that was not learned from is judged by, `error_name`; ℓ unless a loss says otherwise."""
        return self.pointwise(xp, eta, y)

    def hits(self, xp: Any, eta: Array, y: Array) -> Array | None:
        """1 for each sample whose class is predicted, 0 for the others; None where there are no classes."""
        return None

    @abstractmethod
    def check(self, client: Client) -> None:
        """Refuse targets outside the loss's domain."""

    @abstractmethod
    def model(self, w: Array) -> LinearModel:
        """The model that weights stand for."""

    # ── a client's part ──

    def value(self, client: Client, w: Array) -> float:
        """f_j(w)."""
        client.count("losses", client.n_samples)
        return self._mean_loss(client, self.predictor(client, w)) + self.penalty(w)

    def along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        """f_j(w − ηp) for each η of a grid: two products with the data serve them all."""
        self.check_weights(client, p=p)
        here, change = self.predictor(client, w), self.design(client).matvec(p)
        client.count("losses", client.n_samples * steps.shape[0])
        penalty = self._penalty_along(w, p)
        values = [self._mean_loss(client, here - eta * change) + penalty(eta) for eta in map(float, steps)]
        return client.xp.asarray(values, dtype=client.xp.float64, device=device(client.y))

    def slopes_along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        """d/dη f_j(w − ηp) for each η of a grid, from the same two products. Differences of values drown in their
        rounding near the optimum; these do not."""
        xp, s = client.xp, client.sample_weight
        self.check_weights(client, p=p)
        here, change, y = self.predictor(client, w), self.design(client).matvec(p), self.targets(client)
        client.count("gradients", client.n_samples * steps.shape[0])
        against = -change if s is None else -change * (s if change.ndim == 1 else s[:, None])

        penalty = self._penalty_slope_along(w, p)

        def slope(eta: float) -> float:
            of_data = float(xp.sum(self.derivative(xp, here - eta * change, y) * against)) / client.weight
            return of_data - penalty(eta)

        return xp.asarray([slope(float(step)) for step in steps], dtype=xp.float64, device=device(client.y))

    def _mean_loss(self, client: Client, eta: Array) -> float:
        losses, s = self.pointwise(client.xp, eta, self.targets(client)), client.sample_weight
        return client.number(client.xp.sum(losses) if s is None else s @ losses) / client.weight

    def gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w), from the rows."""
        s, design = client.sample_weight, self.design(client)
        client.count("gradients", client.n_samples)
        r = self.derivative(client.xp, self._predict(client, w, design), self.targets(client))
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        g = design.rmatvec(r)
        g /= client.weight
        return self._add_penalty_gradient(g, w) if self.l2 else g

    def hessian(self, client: Client, w: Array) -> Symmetric:
        """∇²f_j(w); of order p for separable outputs, which share it, and of order pk otherwise."""
        if self.quadratic:
            return client.cached((self, "hessian"), lambda: self._hessian(client, w))
        return self._hessian(client, w)

    def _hessian(self, client: Client, w: Array) -> Symmetric:
        client.count("hessians", 1)
        c = self._curvature_weights(client, w)
        if c is None:
            gram = self.design(client).gram().map(lambda array: array / client.weight)
        else:
            gram = self.design(client).gram(c / client.weight)  # scaling n weights is cheaper than p² entries
        return gram.add_diagonal(self.l2 * self._mask(client.y, gram.n)) if self.l2 else gram

    def _curvature_weights(self, client: Client, w: Array) -> Array | None:
        """s_i ℓ''(η_i) of each sample; None for 1."""
        c, s = self.curvature(client.xp, self.predictor(client, w), self.targets(client)), client.sample_weight
        if s is not None:
            c = s if c is None else c * s
        return c

    def data_hessian(self, client: Client, w: Array) -> Entries:
        """∇²f_j(w) less the l2 penalty's part, which everyone knows, on the places where it may differ from zero."""
        if self.quadratic or not self.separable:  # it is at hand, or is no weighted Gram matrix
            whole = Entries.of(self.hessian(client, w))
            return whole.less_diagonal(self.penalty_diagonal(whole.n)) if self.l2 else whole
        client.count("hessians", 1)
        c = self._curvature_weights(client, w)
        assert c is not None  # only a quadratic has none
        return gram_entries(self.design(client), c / client.weight)

    # Methods that solve with local Hessians keep them, and use them for products and gradients too.

    def kept_hessian(self, client: Client, w: Array) -> Symmetric:
        """The local Hessian, kept for the last w."""
        return (
            self.hessian(client, w)
            if self.quadratic
            else client.at((self, "kept"), w, lambda v: self._hessian(client, v))
        )

    def hessian_factor(self, client: Client, w: Array) -> Factor:
        """A factorisation of the local Hessian, kept while it holds."""

        def compute(v: Array) -> Factor:
            client.count("factorisations", 1)
            return factor(self.kept_hessian(client, v), self.strong_convexity(), self._units(client))

        if self.quadratic:
            return client.cached((self, "factor"), lambda: compute(w))
        return client.at((self, "factor"), w, compute)

    def _units(self, client: Client) -> Array | None:
        """The units of a Hessian's rows that the clients have agreed on (see `Inspect.agree`), if they have."""
        return client.session.get("units")

    def hessian_product(self, client: Client, w: Array, v: Array) -> Array:
        """∇²f_j(w) v, with the kept Hessian."""
        full = self.kept_hessian(client, w).full()
        check_columns("a vector to multiply a Hessian with", v, full.shape[0])
        if full.shape[0] == v.shape[0]:
            return symmetric_product(full, v)
        return client.xp.reshape(symmetric_product(full, client.xp.reshape(v, (-1,))), v.shape)

    def row_product(self, client: Client, w: Array, v: Array) -> Array:
        """∇²f_j(w) v from the rows, Xᵀ(D(Xv)): two products with the data, and no Hessian is formed."""
        s, design = client.sample_weight, self.design(client)
        self.check_weights(client, v=v)
        client.count("products", client.n_samples)
        r = self._curved(client, w, design.matvec(v))
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        product = design.rmatvec(r)
        product /= client.weight
        return self._add_penalty_gradient(product, v)  # it is linear: at v it is the penalty's Hessian times v

    def data_product(self, client: Client, w: Array, v: Array) -> Array:
        """`row_product` less the penalty's part, which everyone knows: no pass over v beside the two products."""
        s, design = client.sample_weight, self.design(client)
        client.count("products", client.n_samples)
        r = self._curved(client, w, design.matvec(v))
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        return design.rmatvec(r / client.weight)

    def data_diagonal(self, client: Client, w: Array) -> Array:
        """The diagonal of `data_hessian`, from the rows: a vector for separable outputs, which share it, else of the
        shape of w."""
        xp, s, c = client.xp, client.sample_weight, self._sample_curvature(client, w)
        if c is None:
            c = xp.ones(client.n_samples, dtype=xp.float64, device=device(client.y))
        if s is not None:
            c = c * (s if c.ndim == 1 else s[:, None])
        return self.design(client).squares(c / client.weight)

    def _curved(self, client: Client, w: Array, change: Array) -> Array:
        """D · change: how dℓ/dη of each sample follows a change of η."""
        c = None if self.quadratic else self._sample_curvature(client, w)
        return change if c is None else change * (c if change.ndim == 1 else c[:, None])

    def _sample_curvature(self, client: Client, w: Array) -> Array | None:
        """d²ℓ/dη² of each sample, kept for the last w; None for 1."""
        if self.quadratic:
            return None
        return client.at(
            (self, "curvature"), w, lambda v: self.curvature(client.xp, self.predictor(client, v), self.targets(client))
        )

    def newton_gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w) where the local Hessian is kept: H_j w + ∇f_j(0) for a quadratic, which needs no pass over the data
        (FedNewton, Algorithm 1, lines 1 and 5); from the rows otherwise."""
        if not self.quadratic:
            return self.gradient(client, w)
        self.check_weights(client, w=w)
        at_zero = client.cached((self, "gradient at 0"), lambda: self.gradient(client, 0.0 * w))
        return self.hessian_product(client, w, w) + at_zero

    def minimise(self, client: Client, anchor: Array | None = None, pull: float = 0.0) -> Array:
        """argmin f_j, the local fit; or argmin f_j + (pull/2) ‖w − anchor‖², the proximal step from an anchor."""
        return newton(self, client, anchor, pull)

    def predictor(self, client: Client, w: Array) -> Array:
        """η = Xw + offset, kept for the last w asked for: value, gradient and Hessian at one point share it."""
        return self._predict(client, w, self.design(client))

    def _predict(self, client: Client, w: Array, design: Design) -> Array:
        key = ("predictor", self.intercept, self.features)
        last = client.last(key)
        if last is None:
            self._check_shape(client, design, "w", w)
        elif same_point(last[0], w):
            return last[1]
        elif last[0].shape != w.shape or last[0].dtype != w.dtype:  # weights like the last ones fit as those did
            self._check_shape(client, design, "w", w)
        eta = design.matvec(w)
        if client.offset is not None:
            eta = eta + client.offset
        return client.keep(key, w, eta)

    def check_weights(self, client: Client, **arrays: Array) -> None:
        """Raise WrongType unless each array has the dtype and the shape that w has at this client.

        NumPy would broadcast others: a column of p weights makes n² predictions of n samples, or a wrong sum of them.
        """
        design = self.design(client)
        for name, array in arrays.items():
            self._check_shape(client, design, name, array)

    def _check_shape(self, client: Client, design: Design, name: str, array: Array) -> None:
        # In pieces, because this is done for every client in every exchange.
        shape, outputs = array.shape, self.outputs(client)
        if shape[1:] != outputs or shape[:1] != design.shape[1:] or array.dtype != client.y.dtype:
            expected = (design.shape[1], *outputs)
            raise WrongType(
                f"{name} has {array.dtype} entries and shape {tuple(array.shape)}, where the weights of this client's "
                f"problem have float64 entries and shape {expected}"
            )

    def outputs(self, client: Client) -> tuple[int, ...]:
        """The shape of one prediction: () for a number, (k,) for k of them."""
        return client.y.shape[1:]  # type: ignore[no-any-return]

    def targets(self, client: Client) -> Array:
        """What the predictor is compared with."""
        return client.y

    def design(self, client: Client) -> Design:
        """The client's inputs through the feature map, with the intercept's column; of these what there is."""
        inner, features = client.design, self.features
        if features is not None:
            raw = inner
            inner = client.cached(("mapped", features), lambda: FeatureDesign(features, raw, _counter(client)))
        if self.intercept is None:
            return inner
        return client.cached(("with intercept", features), lambda: with_intercept(inner))

    def zero(self, client: Client) -> Array:
        """w = 0 at a client."""
        shape = self.shape(client.design.shape[1], tuple(client.y.shape[1:]))
        return client.xp.zeros(shape, dtype=client.xp.float64, device=device(client.y))

    # ── the objective ──

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of w, for so many inputs."""
        return (self.width(features), *outputs)

    def width(self, inputs: int) -> int:
        """The rows of w: a weight for each input or feature, and the intercept."""
        return (inputs if self.features is None else self.features.dimension(inputs)) + (self.intercept is not None)

    def order(self, features: int, outputs: tuple[int, ...]) -> int:
        """The order of the Hessian: p for separable outputs, which share it, and pk otherwise."""
        shape = self.shape(features, outputs)
        return shape[0] if self.separable else int(np.prod(shape))

    def penalty(self, w: Array) -> float:
        """(l2/2) ‖w‖², without a free intercept."""
        if not self.l2:
            return 0.0
        penalised = w[:-1, ...] if self.intercept == "free" else w
        return 0.5 * self.l2 * float(namespace(w).sum(penalised * penalised))

    # Along a line the penalties are a parabola: for many weights its three numbers spare a pass for each step.

    def _penalty_along(self, w: Array, p: Array) -> Callable[[float], float]:
        """η ↦ penalty(w − ηp)."""
        if w.shape[0] <= BY_PRODUCTS:
            return lambda eta: self.penalty(w - eta * p)
        here, slope, bend = self._penalty_parabola(w, p)
        return lambda eta: here - eta * slope + eta * eta * bend

    def _penalty_slope_along(self, w: Array, p: Array) -> Callable[[float], float]:
        """η ↦ ∇penalty(w − ηp) · p."""
        xp = namespace(w)
        if w.shape[0] <= BY_PRODUCTS:
            return lambda eta: float(xp.sum(self._add_penalty_gradient(xp.zeros_like(w), w - eta * p) * p))
        _, slope, bend = self._penalty_parabola(w, p)
        return lambda eta: slope - 2 * eta * bend

    def _penalty_parabola(self, w: Array, p: Array) -> tuple[float, float, float]:
        """penalty(w), ∇penalty(w) · p and penalty(p)."""
        xp = namespace(w)
        slope = float(xp.sum(self._add_penalty_gradient(xp.zeros_like(w), w) * p))
        return self.penalty(w), slope, self.penalty(p)

    def _add_penalty_gradient(self, g: Array, w: Array) -> Array:
        if self.l2:
            if self.intercept == "free":
                mask = self._mask(w, w.shape[0])
                w = w * (mask if w.ndim == 1 else mask[:, None])
            g += self.l2 * w
        return g

    def _mask(self, model: Array, p: int) -> Array:
        """1 for each penalised coordinate, 0 for a free intercept; of the library and on the device of `model`."""
        xp = namespace(model)
        mask = xp.ones(p, dtype=xp.float64, device=device(model))
        if self.intercept == "free":
            mask[-1] = 0.0
        return mask

    def row_penalties(self, rows: int) -> Array:
        """The l2 penalty of each row of w, at the server."""
        penalties = np.full(rows, self.l2)
        if self.intercept == "free":
            penalties[-1] = 0.0
        return penalties

    def penalty_diagonal(self, order: int) -> Array:
        """The l2 penalty's part of a Hessian of this order, at the server."""
        return self.row_penalties(order)

    def penalty_curvature(self, shape: tuple[int, ...]) -> Array:
        """The diagonal of the penalties' Hessian at the server, in the shape of `data_diagonal`."""
        return self.penalty_diagonal(int(np.prod(shape))).reshape(shape)

    def penalty_product(self, v: Array) -> Array:
        """The penalties' Hessian times v at the server."""
        return self._add_penalty_gradient(np.zeros(v.shape), v)  # which is linear

    def l1_weights(self, shape: tuple[int, ...]) -> Array:
        """The weight of each |w_i| at the server."""
        weights = np.full(shape, self.l1)
        if self.intercept == "free":
            weights[-1] = 0.0
        return weights

    # ── scale and existence of a minimum ──

    def scale(self, client: Client) -> tuple[Array, Array, float]:
        """What f is measured by at this client: the mean square of each column, that of dℓ/dη at w = 0 (of each output
        where outputs are problems of their own), and f_j(0)."""
        xp, s, y = client.xp, client.sample_weight, self.targets(client)
        counted = xp.ones(client.n_samples, dtype=xp.float64, device=device(client.y)) if s is None else s
        columns = self.design(client).squares(counted) / client.weight
        eta = xp.zeros_like(y) if client.offset is None else client.offset + 0.0 * y
        slopes = self.derivative(xp, eta, y) ** 2
        client.count("losses", client.n_samples)
        if slopes.ndim == 2 and not self.separable:
            slopes = xp.sum(slopes, axis=1)
        squares = (xp.sum(slopes, axis=0) if s is None else s @ slopes) / client.weight
        return columns, xp.reshape(squares, (-1,)), self._mean_loss(client, eta)

    def hinders(self, xp: Any, change: Array, y: Array) -> Array:
        """How much of a change of η each sample forbids for good: |change| where ℓ(η + t·change) grows without bound
        in t, 0 where it does not. Where no sample hinders a change, f has no minimum along it. For a quadratic, all."""
        return change if change.ndim == 1 else xp.sqrt(xp.sum(change * change, axis=1))

    def prospect(self, client: Client, step: Array) -> tuple[float, float]:
        """Σ_i Δ_i² and Σ_i of the part of it that sample i hinders, for the changes Δ of η along a step, over the
        samples that count; not weighted, so that one sample is enough."""
        self.check_weights(client, step=step)
        xp, s = client.xp, client.sample_weight
        change = self.design(client).matvec(step)
        hindered = self.hinders(xp, change, self.targets(client)) ** 2
        squares = change * change if change.ndim == 1 else xp.sum(change * change, axis=1)
        if s is not None:
            nothing = xp.zeros_like(squares)
            squares, hindered = xp.where(s > 0, squares, nothing), xp.where(s > 0, hindered, nothing)
        client.count("losses", client.n_samples)
        return float(xp.sum(squares)), float(xp.sum(hindered))

    def smoothness(self, client: Client) -> float:
        """A bound on λ_max(∇²f_j) for all w: curvature_bound · λ_max(Σ s x xᵀ / Σ s) + l2; infinite where none is."""
        if not np.isfinite(self.curvature_bound):
            return float("inf")
        return self.curvature_bound * self._largest_of_gram(client) / client.weight + self.l2

    def _largest_of_gram(self, client: Client) -> float:
        """λ_max(Σ s x xᵀ), kept; for many features from products, without the matrix, and then at most 0.1 % more."""

        def compute() -> float:
            design, s = self.design(client), client.sample_weight
            if design.shape[1] <= BY_PRODUCTS:
                return largest_eigenvalue(design.gram(s))

            def product(v: Array) -> Array:
                r = design.matvec(v)
                return design.rmatvec(r if s is None else r * s)

            return largest_eigenvalue_by_products(product, design.shape[1], client.y)

        return client.cached((self, "largest of Gram"), compute)

    def strong_convexity(self) -> float:
        """A μ with f ≥ its tangent + (μ/2)‖·‖² whatever the data: l2 if it reaches every coordinate, else 0."""
        return 0.0 if self.intercept == "free" else self.l2


def _counter(client: Client) -> Callable[[int], None]:
    """Notes rows of features at a client that it does not keep alive: the client keeps the features."""
    of = weakref.ref(client)

    def count(rows: int) -> None:
        if (alive := of()) is not None:
            alive.count("features", rows)

    return count
