"""GIANT with determinantal averaging, which removes the bias of a mean of inverses.

Distributed Estimation of the Inverse Hessian by Determinantal Averaging
    Michał Dereziński and Michael W. Mahoney. NeurIPS 2019.

    p = Σ det(H_j) H_j⁻¹ g / Σ det(H_j)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.algorithms import GIANT
from fedsolve.descent import Armijo
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.reproduce.claims import at_least
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.best import skewed
from fedsolve.reproduce.shed.comparison import Make, compare
from fedsolve.reproduce.shed.methods import GIANT_OWN, GIANT_QUARTER, Method
from fedsolve.reproduce.shed.problems import images
from fedsolve.typing import Array

MOST = 6000  # rounds
NOTABLE = 0.8  # of the rounds: less would be a notable improvement
IID, SKEWED = "iid", "one other class per agent"


@dataclass(frozen=True)
class Determinantal(GIANT):
    """GIANT whose directions are weighted by the determinants of their Hessians."""

    @client_step(sends="a direction by its own Hessian, and the logarithm of its determinant")
    def weighted_direction(self, client: Client, g: Array) -> tuple[Array, float]:
        hessian = self.loss.hessian(client, client.memory["w"]).full()
        return self.local_direction(client, g), float(np.linalg.slogdet(hessian)[1])

    def _mean_direction(self, fed: Federation, g: Array) -> Array:
        found = fed.gather(self.weighted_direction, g=g)
        logs = {name: log + np.log(fed.weights[name]) for name, (_, log) in found.items()}
        most = max(logs.values())
        shares = {name: np.exp(log - most) for name, log in logs.items()}
        return np.asarray(sum(shares[name] * p for name, (p, _) in found.items()) / sum(shares.values()))


DETERMINANTAL = Method(
    "GIANT, determinantal",
    lambda loss: Determinantal(loss, search=Armijo(alpha=0.1, beta=0.25, halvings=9), lbfgs=0),
)


@experiment(
    "shed-giant",
    paper="SHED",
    place="section 6.7",
    title="GIANT with its own search, with another, and with determinantal averaging",
    takes="5 min",
)
def giant(seeds: Seeds, quick: bool) -> Result:
    """Determinantal averaging brings no notable improvement."""
    problems: dict[str, Make] = {
        IID: lambda seed: (
            images("emnist_digits", 30, 1e-5, iid=True, seed=seed, agents=9)
            if quick
            else images("fashion_mnist", 100, 1e-5, iid=True, seed=seed)
        ),
        SKEWED: skewed(100, 1e-5, quick),
    }
    found = compare(seeds, problems, [GIANT_OWN, GIANT_QUARTER, DETERMINANTAL], MOST)
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[
            (
                f"{name}: determinantal averaging takes at least {NOTABLE} times GIANT's rounds",
                at_least(found.ratio(name, DETERMINANTAL.name, GIANT_OWN.name, "rounds"), NOTABLE, quick),
            )
            for name in problems
        ],
        notes=(*found.notes, "GIANT's own search tries η of 1, 1/4, 1/16, … with α = 0.1."),
        draw=found.draw,
    )
