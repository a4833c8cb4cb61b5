"""Products of columns and powers of columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from array_api_compat import device

from fedsolve.features.base import FeatureMap, dense, whole
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array


@dataclass(frozen=True)
class Polynomial(FeatureMap):
    """All products of up to `degree` columns, in scikit-learn's order: a, b, a², ab, b², …

    interaction_only  no column twice in a product
    bias              a first column of ones (a loss's intercept is the better place for it)
    """

    degree: int = 2
    interaction_only: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        whole("degree", self.degree)

    def dimension(self, d: int) -> int:
        if self.interaction_only:
            return sum(comb(d, k) for k in range(1, self.degree + 1)) + self.bias
        return comb(d + self.degree, self.degree) - 1 + self.bias

    def block(self, X: Array) -> Array:
        X = dense(X)
        xp, d = namespace(X), X.shape[1]
        # The products of one degree by their first column: of the next are those of column i with all that begin at i
        # or later (after i, if no column may come twice).
        level = [X[:, i : i + 1] for i in range(d)]
        found = list(level)
        for _ in range(1, self.degree):
            tails = [level[i + self.interaction_only :] for i in range(d)]
            level = [X[:, i : i + 1] * xp.concat(tail, axis=1) if tail else X[:, :0] for i, tail in enumerate(tails)]
            found += level
        if self.bias:
            found.insert(0, xp.ones((X.shape[0], 1), dtype=X.dtype, device=device(X)))
        return xp.concat(found, axis=1)


@dataclass(frozen=True)
class Monomials(FeatureMap):
    """The powers of each column up to `degree`: all columns, then their squares, and so on."""

    degree: int = 2

    def __post_init__(self) -> None:
        whole("degree", self.degree)

    def dimension(self, d: int) -> int:
        return d * self.degree

    def block(self, X: Array) -> Array:
        X = dense(X)
        powers = [X]
        for _ in range(1, self.degree):
            powers.append(powers[-1] * X)
        return namespace(X).concat(powers, axis=1)
