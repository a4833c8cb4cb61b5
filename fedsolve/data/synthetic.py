"""The synthetic regression of FedNewton, section 7: clients that differ in their inputs (α), their models (β), or both.

    y = min(−w_jᵀx, w_jᵀx) + ε,   x ~ N(u_j, I),   u_j ~ N(0, αI),   w_j ~ N(1, βI),   ε ~ N(0, 0.2)

Variances throughout, the noise's too. Test points are N(0, I) with the noise-free f*(x) = −|1ᵀx|. A client's draws
depend on the seed and its own number alone, and α and β only scale them: settings compare draw by draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.data.dataset import Array
from fedsolve.errors import ConfigError

_CLIENTS, _TEST = 0, 1  # the streams of one seed; feature maps have others


@dataclass(frozen=True, eq=False)
class Heterogeneous:
    """Inputs and targets of each client, test points with the targets of f*, and each client's w_j and u_j."""

    parts: list[tuple[Array, Array]]
    X_test: Array
    y_test: Array
    models: list[Array]
    means: list[Array]


def heterogeneous(
    clients: int,
    samples: int,
    *,
    alpha: float = 0.0,
    beta: float = 0.0,
    features: int = 10,
    noise: float = 0.2,
    test_samples: int = 2500,
    seed: int = 0,
) -> Heterogeneous:
    """`samples` for each of the clients; alpha, beta and noise are variances."""
    for name, count in (("clients", clients), ("samples", samples), ("features", features)):
        if count < 1:
            raise ConfigError(f"{name} = {count}; expected at least 1.")
    for name, variance in (("alpha", alpha), ("beta", beta), ("noise", noise)):
        if not (math.isfinite(variance) and variance >= 0):
            raise ConfigError(f"{name} is a variance of at least 0, got {variance}.")
    parts, models, means = [], [], []
    for j in range(clients):
        rng = np.random.default_rng((seed, _CLIENTS, j))
        u, v = rng.standard_normal((2, features))
        means.append(math.sqrt(alpha) * u)
        X = means[-1] + rng.standard_normal((samples, features))
        w = 1.0 + math.sqrt(beta) * v
        models.append(w)
        parts.append((X, -np.abs(X @ w) + math.sqrt(noise) * rng.standard_normal(samples)))
    X_test = np.random.default_rng((seed, _TEST)).standard_normal((test_samples, features))
    return Heterogeneous(parts, X_test, -np.abs(X_test.sum(axis=1)), models, means)
