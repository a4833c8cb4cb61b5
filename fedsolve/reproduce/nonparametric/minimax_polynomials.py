"""The best that any estimator can do in Figure 6 of Su, Xu and Yang (2023): polynomials on the clients' grid.

For y = Φθ* + ξ with Gaussian noise the least worst-case risk over all θ* is that of least squares on all rows,
σ² Tr((ΦᵀΦ)⁻¹G), where θᵀGθ is the integral of the squared polynomial: its risk is the same for every θ*, and it is
the limit of the Bayes risks for ever wider Gaussian priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsolve.data.chebyshev_regression import interval_grid
from fedsolve.features import Polynomial
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.nonparametric.methods import SIGMA
from fedsolve.reproduce.result import Verdict
from fedsolve.typing import Array

NEARLY = 1.25  # times the minimax risk: "nearly optimal"
GIVE = 0.05  # of the exponent
LARGE = (100, 300, 1000)  # rows of each client: N from 2,000 to 20,000
WIDE = 1e6  # the standard deviation of the widest prior
SAME = 1e-6


def on_grid(clients: int, samples: int, degree: int, shift: float = 0.0) -> Array:
    """Φ, the monomials at the points of all clients, each moved by `shift` of the distance to the next."""
    points = interval_grid(clients, samples).reshape(-1, 1) + 2 * shift / (clients * samples)
    return Polynomial(degree, bias=True).block(points)


def bayes_risk(rows: Array, G: Array, deviation: float) -> float:
    """The least mean risk for θ* ~ N(0, deviation² I): the trace of the posterior covariance, weighed by G."""
    precision = rows.T @ rows / SIGMA**2 + np.eye(rows.shape[1]) / deviation**2
    return float(np.trace(np.linalg.solve(precision, G)))


def minimax_risk(rows: Array, G: Array) -> float:
    """The worst-case risk of least squares."""
    return float(SIGMA**2 * np.trace(np.linalg.solve(rows.T @ rows, G)))


def exponent(clients: int, sizes: Sequence[int], G: Array, shift: float = 0.0) -> float:
    """Of the minimax risk in N."""
    risks = [minimax_risk(on_grid(clients, n, len(G) - 1, shift), G) for n in sizes]
    return float(np.polyfit(np.log(clients * np.asarray(sizes)), np.log(risks), 1)[0])


def optimality(
    expected: Mapping[str, Array], clients: int, sizes: Sequence[int], G: Array, quick: bool
) -> Sequence[tuple[str, Verdict]]:
    """How the expected errors of the methods, by size, compare with the minimax risk, and how that falls with N."""
    grids = [on_grid(clients, n, len(G) - 1) for n in sizes]
    risks = np.array([minimax_risk(rows, G) for rows in grids])
    away = max(abs(bayes_risk(rows, G, WIDE) / risk - 1) for rows, risk in zip(grids, risks, strict=True))
    powers = {
        f"the minimax risk falls as N^(−1 ± {GIVE}), N = 20 to 200": exponent(clients, sizes, G),
        "… and so it does, N = 2,000 to 20,000": exponent(clients, LARGE, G),
        "… and with points in the middle of their cells, N = 20 to 200": exponent(clients, sizes, G, 0.5),
    }
    ratios = {name: errors / risks for name, errors in expected.items()}
    worst = max(ratios, key=lambda name: float(ratios[name].max()))
    least = min(float(one.min()) for one in ratios.values())
    return (
        (
            f"no estimator beats least squares on all rows: the Bayes risk of a wide prior is its risk, to {SAME:g}",
            Verdict(away <= SAME, f"at most {away:.1e} away"),
        ),
        *(
            (claim, stated(abs(power + 1) <= GIVE, f"exponent {number(power, 3)}", quick))
            for claim, power in powers.items()
        ),
        (
            f"the expected MSE of every method is at most {NEARLY} times the minimax risk, at every N",
            stated(
                float(ratios[worst].max()) <= NEARLY and least >= 1 - SAME,
                f"{least:.4f} to {float(ratios[worst].max()):.3f} times, the most for {worst}",
                quick,
            ),
        ),
    )
