"""Lower bounds of TV and W_1 from sums over bins: one half of the rows chooses a witness, the other half measures it.

    TV(α, α_i) ≥ α_i(A) − α(A)            for every event A          Shen et al. (2022), equation 18
    W_1(α, α_i) ≥ ∫φ dα_i − ∫φ dα         for every φ with slopes of at most 1 (Kantorovich and Rubinstein)

A witness (A, φ) is a function of one projection θᵀx, constant or linear in each bin of it. Chosen on rows that do not
measure it, it is measured without bias: of equal distributions the expected bound is 0.
"""

from __future__ import annotations

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.typing import Array

REACH = 4.0  # standard deviations of a projection that are divided into bins; two more bins have what is beyond
NOTHING = 1e-9  # a smaller difference of weights, or area, is rounding, and its sign says nothing
LEAST = 20  # rows of a client, at least, for two halves to speak


def halves(client: Client, seed: int) -> Array | None:
    """Weights of the rows in either half, two columns that sum to 1; None for a client with too few rows."""
    n = client.n_samples
    weight = np.ones(n) if client.sample_weight is None else np.asarray(to_numpy(client.sample_weight), dtype=float)
    first = np.zeros(n, dtype=bool)
    first[np.random.default_rng([seed, client.key]).permutation(n)[: n // 2]] = True
    split = np.stack([np.where(first, weight, 0.0), np.where(first, 0.0, weight)], axis=1)
    if min(effective_rows(split)) < LEAST // 2:
        return None
    return split / split.sum(axis=0)


def effective_rows(split: Array) -> tuple[float, float]:
    """(Σs)²/Σs² of either half: the number of rows, where all count the same."""
    squares = np.maximum((split**2).sum(axis=0), np.finfo(float).tiny)
    a, b = split.sum(axis=0) ** 2 / squares
    return float(a), float(b)


def projections(client: Client, V: Array, centre: Array, scale: Array) -> Array:
    """((x − centre) / scale)ᵀ θ of every row, for the columns θ of V."""
    scaled = V / scale[:, None]
    Z = to_numpy(client.design.matvec(like(scaled, client.design.sample)))
    return np.asarray(Z - centre @ scaled, dtype=np.float64)


def binned(U: Array, weight: Array, bins: int) -> Array:
    """The weight, and the weighted sums of u and of u², in each bin of each column of U: (3, columns, bins + 2)."""
    D = U.shape[1]
    width = 2 * REACH / bins
    place = np.clip(np.floor((U + REACH) / width) + 1, 0, bins + 1).astype(np.intp)
    flat = (place + np.arange(D) * (bins + 2)).ravel()
    s = np.repeat(weight, D)
    size = D * (bins + 2)
    each = [np.bincount(flat, weights=s * U.ravel() ** power, minlength=size) for power in range(3)]
    return np.stack(each).reshape(3, D, bins + 2)


def areas(difference: Array) -> Array:
    """∫ over each bin of F_a − F_b, from the differences of weights and of sums: (columns, bins + 2)."""
    count, total = difference[0], difference[1]
    bins = count.shape[1] - 2
    edges = np.linspace(-REACH, REACH, bins + 1)
    right = np.append(edges, edges[-1])
    before = np.cumsum(count, axis=1) - count  # F at the left edge
    width = np.concatenate([[0.0], np.full(bins, 2 * REACH / bins), [0.0]])
    # ∫ F = F(left)·width + Σ (right − u) over the bin; beyond the last edge ∫ (F − 1) = Σ (edge − u).
    return before * width + right * count - total


def events(own: Array, pooled: Array, rows: float) -> tuple[Array, Array]:
    """The event of each direction in which a client has more weight than all: (columns, bins), and by how much.

    Bins are put together to groups of equal weight, as many as have five of the client's rows on average: finer events
    would follow the noise of the rows that choose.
    """
    D, width = own.shape
    count = int(min(max(rows // 5, 2), width))
    before = np.cumsum(pooled, axis=1) - 0.5 * pooled
    group = np.clip((before * count).astype(np.intp), 0, count - 1) + count * np.arange(D)[:, None]
    more = np.bincount(group.ravel(), weights=(own - pooled).ravel(), minlength=D * count)
    return (more > NOTHING)[group], np.maximum(more, 0.0).reshape(D, count).sum(axis=1)


def measure(own: Array, pooled: Array, sigma: Array, rows: float, variances: tuple[float, float]) -> Array:
    """(bound of TV, its variance, bound of W_1, its variance).

    own, pooled  (2 halves, 3, columns, bins + 2): the first half chooses, the second measures
    sigma        the standard deviation of each projection, which is the unit of u
    rows         of the client, in the half that chooses
    variances    what a witness's variance over the client's rows, and over those of all, adds to that of the bound
    """
    chosen_events, excess = events(own[0, 0], pooled[0, 0], rows)
    best = int(np.argmax(excess))
    a, b = (float(each[1, 0, best, chosen_events[best]].sum()) for each in (own, pooled))
    chosen = areas(pooled[0] - own[0])
    way = int(np.argmax(sigma * np.abs(chosen).sum(axis=1)))
    slopes = np.where(np.abs(chosen[way]) > NOTHING, np.sign(chosen[way]), 0.0)
    w1 = float(sigma[way] * (slopes @ areas((pooled[1] - own[1])[:, [way]])[0]))
    mine, all_ = (sigma[way] ** 2 * _variance(slopes, each[1][:, way]) for each in (own, pooled))
    first, second = variances
    return np.array([a - b, first * a * (1 - a) + second * b * (1 - b), w1, first * mine + second * all_])


def _variance(slopes: Array, bins: Array) -> float:
    """The variance of φ with these slopes, from the weights and sums in each bin."""
    count, total, square = bins
    inner = slopes.size - 2
    edges = np.linspace(-REACH, REACH, inner + 1)
    knots = np.concatenate([[0.0], np.cumsum(slopes[1:-1]) * (2 * REACH / inner)])  # φ at the edges
    at_zero = np.concatenate([[0.0], knots]) - slopes * np.concatenate([[edges[0]], edges])  # φ = at_zero + slope · u
    mean = float(count @ at_zero + total @ slopes)
    return max(float(count @ at_zero**2 + 2 * total @ (at_zero * slopes) + square @ slopes**2) - mean**2, 0.0)
