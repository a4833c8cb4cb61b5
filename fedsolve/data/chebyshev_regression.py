"""The non-linear regression of Su, Xu and Yang (2023), section 7.4: U₅ observed on disjoint intervals.

    y = U₅(x) + ξ,   U₅(x) = 32x⁵ − 32x³ + 6x,   ξ ~ N(0, σ²)

Client i of M sees the uniform grid of n points on [−1 + 2i/M, −1 + 2(i + 1)/M), i from 0. With the feature map
`Polynomial(5, bias=True)` the model is linear, and the truth has the coefficients `U5`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

U5 = (0.0, 6.0, 0.0, -32.0, 0.0, 32.0)  # coefficients of 1, x, …, x⁵
_NOISE = 7  # a stream of the seed; the other generators and the feature maps have others


@dataclass(frozen=True, eq=False)
class ChebyshevData:
    """Clients with one column x each, and the coefficients of the truth.

    clients       named client-0, client-1, …, from left to right
    coefficients  of 1, x, …, x⁵ in U₅
    sigma         the standard deviation of the noise
    """

    clients: list[Client]
    coefficients: Array
    sigma: float


def chebyshev(clients: int = 20, samples: int = 10, *, sigma: float = 0.5, seed: int = 0) -> ChebyshevData:
    """Draw clients that observe U₅ with noise, each on an interval of its own.

    Args:
        clients: M, the number of clients. Default 20.
        samples: n, the points of each client. Default 10.
        sigma: σ, the standard deviation of the noise. Default 0.5.
        seed: Seed of the noise. Default 0.

    Returns:
        The clients and the coefficients of U₅.

    Example:
        >>> data = chebyshev(clients=4, samples=2)
        >>> [client.X.ravel().tolist() for client in data.clients]
        [[-1.0, -0.75], [-0.5, -0.25], [0.0, 0.25], [0.5, 0.75]]
    """
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ConfigError(f"sigma is a standard deviation of at least 0, got {sigma}")
    grid, seed = interval_grid(clients, samples), whole("seed", seed, 0)
    found = []
    for i, x in enumerate(grid):
        noise = np.random.default_rng((seed, _NOISE, i)).standard_normal(len(x))
        found.append(Client(f"client-{i}", x[:, None], chebyshev_u5(x) + sigma * noise))
    return ChebyshevData(found, np.array(U5), sigma)


def interval_grid(clients: int, samples: int) -> Array:
    """The points of each client, a row for each: −1 + 2(i + j/n)/M."""
    M, n = whole("clients", clients, 1), whole("samples", samples, 1)
    grid: Array = -1 + 2 * np.arange(M * n).reshape(M, n) / (M * n)
    return grid


def chebyshev_u5(x: Array) -> Array:
    """U₅(x), the Chebyshev polynomial of the second kind of degree 5."""
    value: Array = 2 * x * (16 * x**4 - 16 * x**2 + 3)
    return value
