"""Hessians of a client's part of the objective: formed, kept, factorised, or only multiplied with."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from fedsolve.federation.client import Client
from fedsolve.losses.first_order import FirstOrder
from fedsolve.numerics.design import gram_entries
from fedsolve.numerics.linalg import Factor, check_columns, factor, symmetric_product
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array


@dataclass(frozen=True)
class SecondOrder(FirstOrder):
    """∇²f_j and what is computed with it."""

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
        r = self._curved(client, w, self.change(client, design, v))
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        product = design.rmatvec(r)
        product /= client.weight
        return self._add_penalty_gradient(product, v)  # it is linear: at v it is the penalty's Hessian times v

    def data_product(self, client: Client, w: Array, v: Array) -> Array:
        """`row_product` less the penalty's part, which everyone knows: no pass over v beside the two products."""
        s, design = client.sample_weight, self.design(client)
        client.count("products", client.n_samples)
        r = self._curved(client, w, self.change(client, design, v))
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
