"""Section 6.3 of Su, Xu and Yang (2023): how the gain of joining falls with Γ, in runs of fs.FedAvg and fs.FedProx.

All truths are drawn within Γ of each other, and the federated risk is the least over the rounds, as in (33). Each of
the 40 draws of truths and noise is an output of its own, and so is each Γ, so that one run has them all.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.nonparametric.gain_risks import unlike_rows
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D
from fedsolve.typing import Array

LARGEST = Quantity(
    "After Theorem 16",
    "in runs, all truths within Γ of each other, infimum over t: the gain at Γ = 0.3, 1, 3 and 10 is below that at "
    "Γ = 0, n_j = 4 and 60, four methods",
    "gain over that at Γ = 0",
    most=1.0 - 1e-9,
)
EVERY_STEP = Quantity(
    "After Theorem 16",
    "… and it falls at every step of Γ = 0, 0.3, 1, 3 and 10",
    "gain over that with the next smaller Γ",
    most=1.0 - 1e-9,
)
QUANTITIES = (LARGEST, EVERY_STEP)
GAPS, DRAWS, ROUNDS, NORM, OTHERS = (0.0, 0.3, 1.0, 3.0, 10.0), 40, 150, 3.0, 9


def measured(seed: int, notes: Notes) -> None:
    """A client with 4 or 60 rows among nine with 40, d = 12, ‖θ_j*‖ = 3."""
    rng = np.random.default_rng([seed, 51])
    for own in (4, 60):
        X = [unlike_rows(rng, n, D) for n in (own, *(40,) * OTHERS)]
        truths, noise = truths_within(rng), [SIGMA * rng.standard_normal((len(rows), DRAWS)) for rows in X]
        alone = local_error(X[0], truths[0, :, 0], noise[0])
        clients = [
            Client(f"c{i}", rows, np.hstack([rows @ each + xi for each in np.moveaxis(truths[i], 1, 0)]))
            for i, (rows, xi) in enumerate(zip(X, noise, strict=True))
        ]
        eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
        chosen: list[FedAvg | FedProx] = [FedAvg(Squared(), GradientSteps(s, eta)) for s in (1, 5, 10)]
        chosen.append(FedProx(Squared(), pull=1 / eta))
        for what in chosen:
            gains = alone / least_errors(what, clients, truths[0, :, 0])
            notes.add(LARGEST, gains[1:] / gains[0])
            notes.add(EVERY_STEP, gains[1:] / gains[:-1])


def truths_within(rng: np.random.Generator) -> Array:
    """Truths by client, coefficient, Γ and draw. That of the first client does not change with Γ; all are in a ball of
    diameter Γ."""
    first = rng.standard_normal((D, DRAWS))
    first *= NORM / np.linalg.norm(first, axis=0)
    places = rng.standard_normal((OTHERS + 1, D, DRAWS))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    gaps = np.array(GAPS)[None, None, :, None]
    found: Array = first[None, :, None, :] + gaps / 2 * (places - places[:1])[:, :, None, :]
    return found


def local_error(X: Array, truths: Array, noise: Array) -> float:
    """Mean squared error of the best estimator for Gaussian truths of mean square B², in these draws."""
    penalty = SIGMA**2 * D / NORM**2 * np.eye(D)
    found = np.linalg.solve(X.T @ X + penalty, X.T @ (X @ truths + noise))
    return float(np.square(found - truths).sum(axis=0).mean())


def least_errors(what: FedAvg | FedProx, clients: list[Client], truths: Array) -> Array:
    """For each Γ the least over the rounds of the mean squared distance from the first client's truths."""
    means = []
    for one in islice(iterates(what, clients), ROUNDS + 1):
        theta = np.reshape(one.state.w, (D, len(GAPS), DRAWS))
        means.append(np.square(theta - truths[:, None, :]).sum(axis=0).mean(axis=1))
    least: Array = np.min(means, axis=0)
    return least
