"""How fast Newton's method on shared eigenvectors must converge: the factors of Theorem 3, and the bounds on the
Lyapunov exponent, of Dal Fabbro, Dey, Rossi and Schenato (2022).

A run's history has c_t in `Row.contraction`; what needs the solution, or every client's spectrum, is for simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.curvature.eigenpairs import eigenpairs
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array


def lyapunov(contractions: Sequence[float] | Array) -> Array:
    """a_t = (∏_{k ≤ t} c_k)^{1/t} for t = 1, 2, …, equation (23): the mean factor per iteration so far."""
    c = np.asarray(contractions, dtype=np.float64)
    with np.errstate(divide="ignore"):  # c_t = 0: the step was exact
        return np.asarray(np.exp(np.cumsum(np.log(c)) / np.arange(1, c.size + 1)))


def periodic_bound(clients: Sequence[Client], loss: LinearLoss, w: Array, period: int) -> float:
    """ā_T of equations (24) and (36): one eigenvector a round, a renewal every `period` rounds.

    For a quadratic w does not matter and ρ is the middle of what is not sent (24); otherwise w is the solution, and ρ
    the largest (36), which bounds the rate only in the end.
    """
    if period < 1:
        raise ConfigError(f"a period is at least one round, got {period}")
    total = sum(client.weight for client in clients)
    rho, least = np.zeros(period), 0.0
    for client in clients:
        found = eigenpairs(loss, client, w)
        following = np.array([found.after(q) for q in range(1, period + 1)])
        rho += client.weight / total * (0.5 * (following + found.least) if loss.quadratic else following)
        least += client.weight / total * max(0.0, found.least)
    factors = np.where(rho > 0, np.maximum(0.0, 1.0 - least / np.where(rho > 0, rho, 1.0)), 0.0)
    return float(lyapunov(factors)[-1])
