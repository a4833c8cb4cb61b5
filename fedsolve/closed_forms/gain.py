"""What a client gains by joining, in theory and in simulation (Su et al., section 6.3).

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

The gain is the error of the best local model over that of the federated one, both as squared distances from the
client's own truth. That truth is known in simulation only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.client_rows import checked_rows, directions, numbers, weighed_rows
from fedsolve.closed_forms.methods import Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import at_least_zero, whole
from fedsolve.typing import Array

# ── theory ──


def gain_bound(
    n: int, d: int, total: int, sigma: float, norm: float, heterogeneity: float, constant: float = 1.0
) -> float:
    """The lower bound on the federation gain, up to a constant (Su et al., Theorem 16, equation 34).

    Args:
        n: n_j, the rows of the client.
        d: The number of features.
        total: N, the rows of all clients.
        sigma: The standard deviation of the noise.
        norm: B, the norm of the client's truth.
        heterogeneity: Γ, the largest distance between two clients' truths.
        constant: c_1, which depends on the covariances alone. The theorem does not say its value.
    """
    _check_counts(n, d, sigma, norm)
    _check_total(total, n, constant)
    local = constant * min(sigma**2 * d / n, norm**2) + max(1 - n / d, 0.0) * norm**2
    federated = sigma**2 * d / total + at_least_zero("heterogeneity", heterogeneity) ** 2
    return math.inf if federated == 0 else local / federated


def heterogeneity_threshold(n: int, d: int, sigma: float, norm: float) -> float:
    """The model heterogeneity Γ up to which, at least, joining pays (Su et al., after Theorem 16).

    B √(1 − n/d) for a client with fewer rows than features, min{σ √(d/n), B} for one with more. As n comes to d from
    below it falls to 0 and then jumps: with almost as many rows as features the true threshold is larger.

    Args:
        n: n_j, the rows of the client.
        d: The number of features.
        sigma: The standard deviation of the noise.
        norm: B, the norm of the client's truth.
    """
    _check_counts(n, d, sigma, norm)
    return norm * math.sqrt(1 - n / d) if n < d else min(sigma * math.sqrt(d / n), norm)


def subspace_gain_bound(
    n: int, r: int, d: int, total: int, sigma: float, norm: float, kappa: float, constant: float = 1.0
) -> float:
    """The lower bound on the gain of a client whose rows lie in a subspace, up to a constant (Su et al., Theorem 17).

    Args:
        n: n_j, the rows of the client.
        r: r_j, the dimension of its subspace.
        d: The number of features.
        total: N, the rows of all clients; the theorem asks for N ≥ C·max(n_i/r_i)·d·log d.
        sigma: The standard deviation of the noise.
        norm: B, the norm of the truth.
        kappa: κ of the method.
        constant: c_1. The theorem does not say its value.
    """
    _check_counts(n, d, sigma, norm)
    _check_total(total, n, constant)
    if whole("r", r, 1) > d:
        raise ConfigError(f"r is the dimension of a subspace of {d} dimensions, got {r}")
    if not 1 <= kappa < math.inf:
        raise ConfigError(f"kappa bounds a condition number, so it is at least 1; got {kappa!r}")
    local = constant * min(sigma**2 * d / n, norm**2) + (1 - r / d) * norm**2
    federated = kappa * sigma**2 * d / total
    return math.inf if federated == 0 else local / federated


def _check_counts(n: int, d: int, sigma: float, norm: float) -> None:
    whole("n", n, 1)
    whole("d", d, 1)
    at_least_zero("sigma", sigma)
    at_least_zero("norm", norm)


def _check_total(total: int, n: int, constant: float) -> None:
    whole("total", total, 1)
    if total < n:
        raise ConfigError(f"total is the rows of all clients, at least the {n} of this one; got {total}")
    at_least_zero("constant", constant)


# ── simulation ──


@dataclass(frozen=True)
class Gain:
    """Definition 15 for one client.

    Attributes:
        local: E‖θ̂_j − θ_j*‖² of the local model.
        federated: E‖θ_t − θ_j*‖² of the federated one.
        round: The t at which it is least; None: the limit.
    """

    local: float
    federated: float
    round: int | None

    @property
    def ratio(self) -> float:
        """The gain: above 1 it pays to join. 1 if neither model has an error."""
        if self.federated == 0:
            return 1.0 if self.local == 0 else math.inf
        return self.local / self.federated

    @property
    def of_norms(self) -> float:
        """The ratio of the norms instead of their squares, as in Figures 4 and 5."""
        return math.sqrt(self.ratio)


def minimum_norm(X: Array, y: Array) -> Array:
    """(XᵀX)⁺Xᵀy, the local benchmark of Su et al., section 7.2: least squares, of least norm where it is not unique."""
    found: Array = np.linalg.lstsq(X, y, rcond=None)[0]
    return found


def expected_gain(
    X: Sequence[Array], truths: Array, client: int, sigma: float, method: Method, rounds: int | None = None
) -> Gain:
    """The federation gain of linear regression for given rows, its expectation over the noise exact (Definition 15).

    The definition's risks are suprema over all truths of bounded norm; here the truths are given, and the local model
    is least squares of minimum norm, as in the paper's experiments. θ_0 = 0.

    Args:
        X: The rows of each client.
        truths: θ_i* of each client, (M, d).
        client: j, which client's gain.
        sigma: The standard deviation of the noise, which is independent.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        rounds: Take the best of the rounds 0 … `rounds` (equation 33). None, the default, takes the limit.
    """
    rows, own = _checked(X, truths, client, sigma)
    shares = np.array([float(len(one)) for one in rows])
    shares /= shares.sum()
    A = [one / math.sqrt(len(one)) for one in rows]
    weighed = weighed_rows(A, shares, method)
    if weighed is None:
        raise ConfigError(f"{method} diverges on a client's own rows; shorten the step size")
    # θ_t = η Σ_{τ<t} (I − ηMᵀM)^τ Mᵀ g with M of `client_rows` and g = (√w_i P_i^½ y_i/√n_i)_i. With M = U diag(m) Vᵀ
    # it is V diag(m · sums) Uᵀ g, and √w_i/√n_i = 1/√N.
    M, weighings = weighed
    U, scales, V = directions(M)
    sums = _geometric(method.step_size, scales**2, rounds) * scales[:, None]
    parts = np.split(U, np.cumsum([len(one) for one in rows])[:-1])
    back = np.concatenate([one.root(part) for one, part in zip(weighings, parts, strict=True)]) / math.sqrt(len(U))
    means = np.concatenate([one @ truth for one, truth in zip(rows, np.asarray(truths, dtype=np.float64), strict=True)])
    errors = np.square(sums * (means @ back)[:, None] - (V @ own)[:, None]).sum(axis=0)
    errors = errors + _rest(V, own) + sigma**2 * (np.square(back).sum(axis=0) @ sums**2)
    best = int(np.argmin(errors))
    return Gain(_local_error(rows[client], own, sigma), float(errors[best]), None if rounds is None else best)


def _checked(X: Sequence[Array], truths: Array, client: int, sigma: float) -> tuple[list[Array], Array]:
    """The rows of each client, and the truth of this one."""
    at_least_zero("sigma", sigma)
    rows, _ = checked_rows(X, [np.zeros(len(one)) for one in X])
    truths = numbers("truths", truths)
    expected = (len(rows), rows[0].shape[1])
    if truths.shape != expected or not np.isfinite(truths).all():
        raise DataError(
            f"truths has a row of {expected[1]} numbers for each of {len(rows)} clients, all finite; got shape "
            f"{truths.shape}"
        )
    if not 0 <= whole("client", client) < len(rows):
        raise DataError(f"there is no client {client} of {len(rows)}, counted from 0")
    return rows, truths[client]


def _geometric(eta: float, mu: Array, rounds: int | None) -> Array:
    """η Σ_{τ<t} (1 − ημ)^τ, a row for each μ and a column for each t = 0, …, rounds; without rounds the limit."""
    if rounds is None:
        return 1 / mu[:, None]
    decay = (1 - eta * mu[:, None]) ** np.arange(whole("rounds", rounds, 0) + 1)
    return (1 - decay) / mu[:, None]


def _rest(V: Array, truth: Array) -> float:
    """What the rows do not see of a truth: nothing if they see all directions, not even rounding."""
    inside = V @ truth
    return float(np.square(truth - V.T @ inside).sum()) if len(V) < len(truth) else 0.0


def _local_error(X: Array, truth: Array, sigma: float) -> float:
    """E‖θ̂ − θ*‖² of least squares of minimum norm: what the rows do not see of θ*, and σ² tr((XᵀX)⁺)."""
    _, scales, V = directions(X)
    return _rest(V, truth) + sigma**2 * float(np.sum(1 / scales**2))
