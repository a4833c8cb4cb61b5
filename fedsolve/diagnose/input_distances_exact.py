"""Distances between the clients' inputs, from their rows: for simulation only.

    TV(a, b) = sup_A |a(A) − b(A)| = ½ Σ_x |a(x) − b(x)|          Shen, Hassani, Kale and Karbasi (2022), equation 18
    W_1(a, b) = min over couplings of E‖x − x'‖                   equation 19

α_i is the empirical distribution of client i's rows (by sample weight), and α the plain mean of the α_i (equation 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

PAIRS = 500_000  # of points, each a variable of the linear program


@dataclass(frozen=True)
class ExactDistances:
    """By client, TV(α, α_i) and W_1(α, α_i) of the rows themselves.

    Where no row is at two clients, every TV is 1 − 1/N, however alike the distributions are that the rows come from.
    """

    tv: dict[str, float]
    w1: dict[str, float]

    @property
    def omega_tv(self) -> float:
        """ω_TV, the mean of TV(α, α_i) (equation 12). At most 1 − 1/N, because α has 1/N of each α_i."""
        return float(np.mean(list(self.tv.values())))

    @property
    def omega_w1(self) -> float:
        """ω_W1, the mean of W_1(α, α_i) (equation 16)."""
        return float(np.mean(list(self.w1.values())))


def total_variation(A: Array, B: Array, a: Array | None = None, b: Array | None = None) -> float:
    """TV of two empirical distributions, by counting the rows they share; `a` and `b` are weights of rows."""
    p, q = _masses([(A, a), (B, b)])[1]
    return 0.5 * float(np.abs(p - q).sum())


def wasserstein(A: Array, B: Array, a: Array | None = None, b: Array | None = None, *, power: int = 1) -> float:
    """W_power of two empirical distributions, power 1 or 2, exactly: a linear program, in one dimension a sum (W_1).

    Raises ConfigError for more than 500,000 pairs of points; `input_distances` has bounds that need no pairs.
    """
    if power not in (1, 2):
        raise ConfigError(f"power is 1 or 2, got {power!r}")
    points, (p, q) = _masses([(A, a), (B, b)])
    return float(_transport(points, p, q, power) ** (1 / power))


def exact_input_distances(clients: Sequence[Client], *, standardise: bool = True) -> ExactDistances:
    """ω_TV and ω_W1 from all rows of all clients, which only a simulation has.

    standardise  measure W_1 in columns divided by their standard deviation under α. W_1 has the columns' units: without
                 this, a column in metres counts 1000 times as much as the same in kilometres. TV has no units.
    """
    if not clients:
        raise ConfigError("there are no clients")
    rows = [_dense(client) for client in clients]
    points, masses = _masses([(X, client.sample_weight) for X, client in zip(rows, clients, strict=True)])
    pooled = np.mean(masses, axis=0)
    if standardise:
        centred = points - pooled @ points
        deviation = np.sqrt(pooled @ centred**2)
        points = centred / np.where(deviation > 1e-12 * np.abs(points).max(axis=0, initial=0.0), deviation, 1.0)
    names = [client.name for client in clients]
    tv = {name: 0.5 * float(np.abs(pooled - p).sum()) for name, p in zip(names, masses, strict=True)}
    w1 = {name: _transport(points, pooled, p, 1) for name, p in zip(names, masses, strict=True)}
    return ExactDistances(tv, w1)


def _masses(parts: Sequence[tuple[Array, Array | None]]) -> tuple[Array, list[Array]]:
    """The distinct rows of all parts, and how much each part puts on each of them."""
    found = [_matrix(X) for X, _ in parts]
    if len({X.shape[1] for X in found}) > 1:
        raise DataError(f"rows have different numbers of columns: {sorted({X.shape[1] for X in found})}")
    stacked = np.vstack(found) + 0.0  # −0 and 0 are the same
    if not np.isfinite(stacked).all():
        raise DataError("rows have NaN or infinite entries: impute them first")
    points, where = np.unique(stacked, axis=0, return_inverse=True)
    masses, start = [], 0
    for X, (_, weight) in zip(found, parts, strict=True):
        s = np.ones(len(X)) if weight is None else np.asarray(to_numpy(weight), dtype=np.float64)
        mass = np.bincount(where.reshape(-1)[start : start + len(X)], weights=s, minlength=len(points))
        masses.append(mass / mass.sum())
        start += len(X)
    return points, masses


def _transport(points: Array, p: Array, q: Array, power: int) -> float:
    """min Σ ‖x − x'‖^power π(x, x') over π with marginals p and q."""
    from scipy.optimize import linprog  # slow to import, as is scipy.spatial
    from scipy.spatial.distance import cdist

    if points.shape[1] == 1 and power == 1:
        from scipy.stats import wasserstein_distance  # slow to import

        return float(wasserstein_distance(points[:, 0], points[:, 0], p, q))
    if power == 1:  # for a metric, what both have at a point stays there
        p, q = np.maximum(p - q, 0.0), np.maximum(q - p, 0.0)
    here, there = np.flatnonzero(p > 0), np.flatnonzero(q > 0)
    if not here.size or not there.size:
        return 0.0
    n, m = here.size, there.size
    if n * m > PAIRS:
        raise ConfigError(
            f"{n:,} × {m:,} points are too many for an exact W (at most {PAIRS:,} pairs): take fewer rows, or "
            "`input_distances`, which bounds it"
        )
    cost = cdist(points[here], points[there]) ** power
    total = p[here].sum()
    leaving = sp.kron(sp.eye(n), np.ones((1, m)), format="csr")
    arriving = sp.kron(np.ones((1, n)), sp.eye(m), format="csr")
    rows = sp.vstack([leaving, arriving[:-1]], format="csr")
    # One constraint follows from the others, and rounding must not make them contradict each other.
    sums = np.concatenate([p[here], q[there][:-1] * (total / q[there].sum())])
    found = linprog(cost.ravel(), A_eq=rows, b_eq=sums, bounds=(0, None), method="highs")
    if found.status != 0:
        raise DataError(f"the transport between two clients' rows was not solved: {found.message}")
    return float(found.fun)


def _matrix(X: Array) -> Array:
    X = np.asarray(X.toarray() if sp.issparse(X) else to_numpy(X), dtype=np.float64)
    return X[:, None] if X.ndim == 1 else X


def _dense(client: Client) -> Array:
    return np.vstack([_matrix(block) for _, block in client.design.blocks()])
