"""Shen et al. (2022), sections 2 and 5 and Appendix B: oracles that are fitted, and what an ensemble costs to send."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.algorithms.ffgb_distill import FFGBDistill
from fedsolve.distillation import Distil
from fedsolve.federation.client import Client
from fedsolve.learners import Fitting, gamma
from fedsolve.learners.lipschitz import extension
from fedsolve.learners.network import NetworkLearner
from fedsolve.learners.sobolev import SobolevLearner
from fedsolve.local import Adam
from fedsolve.loop.run import run
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.models import Ensemble
from fedsolve.networks import MLP
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import fitted_minimax, printed_settings
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Within, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

CLASSES, INPUTS, ROWS, CLIENTS, ROUNDS = 5, 20, 100, 4, 4
NETWORK = MLP((16,))

VALUES = AtLeast("Appendix B, (21)", "γ of (14) of Sobolev training is above 0", most=0.0)
SLOPES = AtLeast("Appendix B, (21)", "γ of (15) is above 0 between the client's rows", most=0.0)
EVERYWHERE = AtLeast("Appendix B, (21)", "… between 400 points of the square", most=0.0)
STEEP = Check("Section 4.3", "‖h‖_lip over ‖φ‖_lip of Sobolev training, between 400 points of the square")
GROWS = Within(
    "Section 5",
    "after T rounds the ensemble has T·N·K functions: counted over that",
    most=1.0,
    give=0.0,
    words="{} times T·N·K functions",
)
K_TIMES = Within(
    "Section 5",
    "with K = 4 a client sends 4 times the numbers that it sends with K = 1",
    most=4.0,
    give=0.04,
    words="{} times",
)
ONE = Within(
    "Section 6",
    "FFGB-Distill: a client is sent one network and sends one, in every round: over its weights",
    most=1.0,
    give=0.05,
    words="{} network each way",
)
WHOLE = Within(
    "Section 6",
    "the functions of f^T without distillation are T·N·K networks: numbers over that",
    most=1.0,
    give=0.05,
    words="{} times T·N·K networks",
)
CHECKS = (
    *fitted_minimax.CHECKS,
    *(VALUES, SLOPES, EVERYWHERE, STEEP, GROWS, K_TIMES, ONE, WHOLE),
    *printed_settings.CHECKS,
)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 59]), Found()
    clients = _clients(rng)
    fitted_minimax.measure(clients, CLASSES, np.random.default_rng([seed, 89]), found)
    _sobolev(rng, found)
    _sent(clients, rng, found)
    printed_settings.measure(rng, found)
    return found.worst


def _clients(rng: np.random.Generator) -> list[Client]:
    centres = rng.standard_normal((CLASSES, INPUTS))
    labels = [rng.choice(CLASSES, ROWS, p=rng.dirichlet(np.full(CLASSES, 0.5))) for _ in range(CLIENTS)]
    return [
        Client(f"c{i}", centres[y] + rng.standard_normal((ROWS, INPUTS)), y.astype(float)) for i, y in enumerate(labels)
    ]


def _sobolev(rng: np.random.Generator, found: Found) -> None:
    """(21) against the Lipschitz extension that it follows."""
    X = rng.random((12, 2))
    y = 0.6 * np.sin(3 * X[:, 0]) + 0.8 * np.cos(3 * X[:, 1])
    h, phi = SobolevLearner().fit(Fitting(X, y, None, (), rng)), extension(X, y, None)
    found.note(VALUES, gamma(y, h(X), norm="largest"))
    found.note(SLOPES, 1 - _slope(h(X) - y, X) / _slope(y, X))
    there = rng.random((400, 2))
    found.note(EVERYWHERE, 1 - _slope(h(there) - phi(there), there) / _slope(phi(there), there))
    found.note(STEEP, _slope(h(there), there) / _slope(phi(there), there))


def _slope(values: Array, X: Array) -> float:
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    return float((np.abs(values[:, None] - values[None]) / np.where(apart > 0, apart, np.inf)).max())


def _sent(clients: list[Client], rng: np.random.Generator, found: Found) -> None:
    """Functions in the ensemble, and bytes in the ledger."""
    learner, sent = NetworkLearner(NETWORK, epochs=2), {}
    for K in (1, 4):
        done = run(FFGB(Softmax(classes=CLASSES), learner, steps=K), clients, rounds=ROUNDS, tolerance=0, min_rows=0)
        assert isinstance(done.model, Ensemble)
        count = sum(len(part.coefficients) for part in done.model.parts)
        found.note(GROWS, count / (ROUNDS * CLIENTS * K))
        sent[K] = done.ledger.total().scalars_up
    found.note(K_TIMES, sent[4] / sent[1])
    loss, adam = Network(NETWORK, Softmax(classes=CLASSES)), Adam(epochs=2, batch_size=64)
    server = Client("server", rng.standard_normal((50, INPUTS)), None)
    method = FFGBDistill(loss, 10.0, adam, Distil("outputs", adam))
    done = run(method, clients, rounds=ROUNDS, tolerance=0, min_rows=0, server=server)
    weights = (INPUTS + 1) * 16 + 17 * CLASSES
    for round in range(1, ROUNDS + 1):
        total = done.ledger.total(rounds=[round])
        for scalars in (total.scalars_up, total.scalars_down):
            found.note(ONE, scalars / (CLIENTS * weights))
    found.note(WHOLE, sent[1] / (ROUNDS * CLIENTS * weights))


@experiment(
    "ffgb-oracles",
    paper=PAPER,
    place="Sections 2, 5 and 6, Appendix B",
    title="Oracles that are fitted, and what an ensemble costs",
    takes="60 s",
)
def oracles(seeds: Seeds, quick: bool) -> Result:
    """γ of fitted networks, minimax and Sobolev fits; functions and bytes with and without distillation."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{CLIENTS} clients with {ROWS} rows of {INPUTS} inputs, {CLASSES} classes of unequal shares; networks "
            f"with 16 hidden units; T = {ROUNDS}. Sobolev training: 12 points of the unit square.",
            "Queries of (5) and (10): ∇R_i at f = 0 and at a linear f with random weights, and normal noise; (20) by "
            f"reweighting, with {fitted_minimax.FITS} fits at most, whose average is one wider network.",
        ),
        quick,
    )
