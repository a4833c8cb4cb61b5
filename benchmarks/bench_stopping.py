"""How well σ is estimated, and how good the stopping time is: kernel min(x, z), FedAvg with η = 0.1 and s = 5.

Prints the figures of decision 035: σ̂/σ by generalised cross-validation and by largest marginal likelihood, and the
expected risk at T over the least that any round has. scripts/bench stopping
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.closed_forms.recursion import Decomposition
from fedsolve.features import Sobolev
from fedsolve.numerics.early_stopping import SpectrumFit, fit_spectrum, stopping_round

DRAWS = 60
TRUTHS = {
    "|x - 1/2| - 1/2": lambda x: np.abs(x - 0.5) - 0.5,
    "x": lambda x: x,
    "sin 2 pi x": lambda x: np.sin(2 * np.pi * x),
    "sin 8 pi x": lambda x: np.sin(8 * np.pi * x),
    "jump at 1/2": lambda x: (x > 0.5).astype(float),
}
NOISES = [("sin 8 pi x", 0.05), ("sin 8 pi x", 0.5), ("|x - 1/2| - 1/2", 0.5), ("jump at 1/2", 0.5)]
RISKS = [
    ("|x - 1/2| - 1/2", 0.1),
    ("|x - 1/2| - 1/2", 1),
    ("|x - 1/2| - 1/2", 10),
    ("x", 0.1),
    ("x", 1),
    ("sin 2 pi x", 1),
    ("sin 2 pi x", 3),
    ("sin 8 pi x", 1),
    ("sin 8 pi x", 10),
    ("jump at 1/2", 1),
]


class Problem:
    """N points of a grid at four clients of different sizes."""

    def __init__(self, N: int) -> None:
        self.N = N
        self.x = np.random.default_rng(N).permutation(np.arange(1, N + 1) / N)
        self.K = Sobolev()(self.x[:, None])
        self.sizes = (N // 2, N // 4, N // 5, N - N // 2 - N // 4 - N // 5)
        self.values, self.vectors = np.linalg.eigh(self.K / N)

    def fits(self, truth: np.ndarray, sigma: float) -> list[tuple[SpectrumFit, float]]:
        """Both estimates for each draw of the noise."""
        y = truth + sigma * np.random.default_rng(2).standard_normal((DRAWS, self.N))
        projections = (y @ self.vectors) ** 2 / self.N
        means = np.square(y).mean(axis=1)
        return [
            (fit_spectrum(self.values, c, float(m), self.N), by_likelihood(self.values, c))
            for c, m in zip(projections, means, strict=True)
        ]


def by_likelihood(values: np.ndarray, projections: np.ndarray) -> float:
    """σ̂ from the ridge regression of largest marginal likelihood, the estimate that was not taken."""
    ridges = values[-1] * np.geomspace(1e-14, 1e4, 400)[:, None]
    left = ridges / (values + ridges)
    best = np.argmin(np.log(left @ projections) - np.log(left).mean(axis=1))
    return float(np.sqrt(left[best] ** 2 @ projections / left[best].mean()))


def main() -> None:
    print("estimated over true sigma: mean and least, cross-validation | likelihood")
    for name, sigma in NOISES:
        for N in (40, 100, 200, 400):
            problem = Problem(N)
            found = problem.fits(TRUTHS[name](problem.x), sigma)
            ridge, other = np.array([[fit.noise, likely] for fit, likely in found]).T / sigma
            row = f"{ridge.mean():.2f} {ridge.min():.2f} | {other.mean():.2f} {other.min():.3f}"
            print(f"{name:16} sigma {sigma:4} N {N:3}   {row}")
    print("risk at T over the least, sigma 0.5: known sigma and norm | norm 1 | estimated: mean, median, worst")
    rounds = np.unique(np.geomspace(1, 3e6, 700).astype(int))
    for N in (100, 400):
        problem = Problem(N)
        run = Decomposition.of(problem.K, problem.sizes, LocalSteps(0.1, 5))
        for name, scale in RISKS:
            truth = scale * TRUTHS[name](problem.x)
            norm = float(np.sqrt(truth @ np.linalg.solve(problem.K, truth)))
            pairs = [(0.5, norm), (0.5, 1.0), *((fit.noise, fit.norm) for fit, _ in problem.fits(truth, 0.5))]
            times = [stopping_round(problem.values, noise, N, 0.1, 5, B) for noise, B in pairs]
            least = run.expected_error(rounds, truth, sigma=0.5).min()
            known, printed, *each = run.expected_error(np.array(times), truth, sigma=0.5) / least
            row = f"{known:.2f} | {printed:7.2f} | {np.mean(each):.2f} {np.median(each):.2f} {max(each):.2f}"
            print(f"{scale:4} ({name:15}) norm {norm:5.1f} N {N}   {row}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
