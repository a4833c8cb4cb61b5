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

from fedsolve.closed_forms.limits import ROUNDING, client_sums
from fedsolve.closed_forms.methods import Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


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
    local = constant * min(sigma**2 * d / n, norm**2) + max(1 - n / d, 0.0) * norm**2
    federated = sigma**2 * d / whole("total", total, 1) + heterogeneity**2
    return math.inf if federated == 0 else local / federated


def heterogeneity_threshold(n: int, d: int, sigma: float, norm: float) -> float:
    """The model heterogeneity Γ up to which joining pays (Su et al., after Theorem 16).

    B √(1 − n/d) for a client with fewer rows than features, min{σ √(d/n), B} for one with more.

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
    if not 1 <= r <= d:
        raise ConfigError(f"r is the dimension of a subspace of {d} dimensions, got {r}")
    local = constant * min(sigma**2 * d / n, norm**2) + (1 - r / d) * norm**2
    federated = kappa * sigma**2 * d / whole("total", total, 1)
    return math.inf if federated == 0 else local / federated


def _check_counts(n: int, d: int, sigma: float, norm: float) -> None:
    whole("n", n, 1)
    whole("d", d, 1)
    for name, given in (("sigma", sigma), ("norm", norm)):
        if not 0 <= given < math.inf:
            raise ConfigError(f"{name} is a number of at least 0, got {given!r}")


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
        """The gain: above 1 it pays to join."""
        return math.inf if self.federated == 0 else self.local / self.federated

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
    truths = np.asarray(truths, dtype=np.float64)
    expected = (len(X), np.shape(X[0])[-1])
    if truths.shape != expected:
        raise DataError(f"truths has a row of {expected[1]} numbers for each of {len(X)} clients, got {truths.shape}")
    if not 0 <= client < len(X):
        raise DataError(f"there is no client {client} of {len(X)}, counted from 0")
    H, means, weights = client_sums(X, [rows @ truth for rows, truth in zip(X, truths, strict=True)])
    share = (weights / weights.sum())[:, None]
    own = truths[client]
    # θ_t = Σ_τ A^τ B y with A = I − ηS, S = Σ w_i Q_i H_i, and B = (η w_i Q_i X_iᵀ/n_i)_i; so the mean of B y is
    # η Σ w_i Q_i H_i θ_i*, and B Bᵀ = η² Σ (w_i²/n_i) Q_i H_i Q_i.
    h, V = np.linalg.eigh(H)
    p = method.filter(h)
    if not np.isfinite(p).all():
        raise ConfigError(f"{method} diverges on these rows; shorten the step size")
    S = np.einsum("iab,ib,icb->ac", V, share * p * h, V)
    mean = np.einsum("iab,ib,icb,icq->aq", V, share * p, V, means)[:, 0]
    spread = np.einsum("iab,ib,icb->ac", V, share**2 / weights[:, None] * p**2 * h, V)
    mu, U = np.linalg.eigh(S)
    least = ROUNDING * len(mu) * float(np.abs(mu).max())
    if method.step_size * mu[-1] >= 2 or mu[0] < -least:
        raise ConfigError(f"{method} diverges on these rows; shorten the step size")
    mu = np.where(mu > least, mu, 0.0)
    along, variances = U.T @ mean, np.einsum("ak,ab,bk->k", U, spread, U)
    sums = _geometric(method.step_size, mu, None if rounds is None else np.arange(whole("rounds", rounds, 0) + 1))
    errors = np.square(sums * along[:, None] - (U.T @ own)[:, None]).sum(axis=0) + sigma**2 * (variances @ sums**2)
    best = int(np.argmin(errors))
    return Gain(_local_error(X[client], own, sigma), float(errors[best]), None if rounds is None else best)


def _geometric(eta: float, mu: Array, t: Array | None) -> Array:
    """η Σ_{τ<t} (1 − ημ)^τ, a row for each μ and a column for each t; without t the limit. 0 where no client sees
    anything, μ = 0."""
    seen = np.where(mu > 0, mu, 1.0)[:, None]
    sums = 1 / seen if t is None else (1 - (1 - eta * seen) ** t) / seen
    return np.where(mu[:, None] > 0, sums, 0.0)


def _local_error(X: Array, truth: Array, sigma: float) -> float:
    """E‖θ̂ − θ*‖² of least squares of minimum norm: what the rows do not see of θ*, and σ² tr((XᵀX)⁺)."""
    _, scales, right = np.linalg.svd(X, full_matrices=False)
    seen = scales > _EPS * max(X.shape) * scales[0]
    inside = right[seen] @ truth
    # A truth that the rows see whole has no rest but rounding.
    rest = max(float(truth @ truth - inside @ inside), 0.0) if seen.sum() < X.shape[1] else 0.0
    return rest + sigma**2 * float(np.sum(1 / scales[seen] ** 2))
