"""FedNewton, Remarks 2 and 4: for which features and which losses Algorithm 1 is good."""

from __future__ import annotations

from itertools import islice

import numpy as np

from fedsolve.algorithms import FedNewton
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.losses.linear import LinearLoss
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.fednewton.other_losses import Exponential, Relu, Trigonometric
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

CLIENTS, EACH, INPUTS, WIDTH, ROUNDS = 4, 400, 5, 40, 40
L2, LOSS_L2 = 1e-2, 1e-2
EARLY = 5  # rounds in which w still moves: a Hessian is kept while it stays
KERNEL_ROWS = 60  # of a client: all features of an exact kernel are as many as there are rows
EXACT, MIN, VISIBLE = 1e-8, 1e-8, 1e-3

MAPS = {
    name: f"FedNewton reaches KRR with the features of {what}"
    for name, what in (
        ("network", "a network's hidden layer"),
        ("tangent", "a network's tangents at its first weights"),
        ("kernel", "an exact kernel"),
        ("fourier", "random Fourier features"),
        ("sketch", "a random sketch of the columns"),
    )
}
SAME = "with an exact kernel the predictions are those of kernel ridge regression"
FIXED = "the Hessians of ReLU and of the squared loss do not depend on w"
BENDS = "ReLU is twice differentiable: its slopes beside 0 agree"
RELU = "ReLU with its Hessian out of the loop: FedNewton comes to the minimum"
MOVES = {name: f"the Hessian of the {name} loss depends on w" for name in ("exponential", "trigonometric")}
REACHED = {name: f"FedNewton reaches the minimum of the {name} loss from zero" for name in MOVES}
EVERY = {name: f"one Hessian a round and client for the {name} loss" for name in MOVES}

CHECKS = (
    *(Check("Remark 2", claim, "off", EXACT) for claim in MAPS.values()),
    Check("Remark 2", SAME, "off", EXACT),
    Check("Remark 4", FIXED, "off", EXACT),
    Check("Remark 4", BENDS, "off", EXACT),
    Check("Remark 4", RELU, "off", 0.01),
    *(Check("Remark 4", claim, "times") for claim in MOVES.values()),
    *(Check("Remark 4", claim, "off", MIN) for claim in REACHED.values()),
    *(Check("Remark 4", claim, "off", 0.0) for claim in EVERY.values()),
)
LOSSES: dict[str, LinearLoss] = {"exponential": Exponential(l2=LOSS_L2), "trigonometric": Trigonometric(l2=LOSS_L2)}


def features(name: str, X: Array, rng: np.random.Generator) -> Array:
    """Of all rows, with norms of at most about 1; a network has one hidden layer and random weights."""
    d = X.shape[1]
    W, a = rng.standard_normal((d, WIDTH)) / np.sqrt(d), rng.standard_normal(WIDTH)
    hidden = np.tanh(X @ W)
    if name == "network":
        return np.asarray(hidden / np.sqrt(WIDTH))
    if name == "tangent":  # ∂/∂(W, a) of aᵀtanh(Wᵀx)
        inner = (1 - hidden**2) * a
        tangents = np.hstack([hidden, (inner[:, None, :] * X[:, :, None]).reshape(len(X), -1)])
        return np.asarray(tangents / np.sqrt(WIDTH * d))
    if name == "kernel":
        values, vectors = np.linalg.eigh(gaussian(X))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    if name == "fourier":
        return RandomFourier.fednewton(1.0, WIDTH, 0).block(X)
    wide = np.hstack([X, X**2, np.sin(3 * X), np.cos(3 * X)])
    return np.asarray(wide @ rng.choice([-1.0, 1.0], (wide.shape[1], WIDTH // 4)) / np.sqrt(wide.shape[1] * WIDTH))


def gaussian(X: Array) -> Array:
    """The kernel matrix exp(−‖x − x'‖²/(2d))."""
    squares = np.sum(X**2, axis=1)
    return np.asarray(np.exp(-(squares[:, None] + squares - 2 * X @ X.T) / (2 * X.shape[1])))


def of_features(rng: np.random.Generator) -> dict[str, float]:
    found = {}
    for name, claim in MAPS.items():
        rows = CLIENTS * (KERNEL_ROWS if name == "kernel" else EACH)
        X = rng.standard_normal((rows, INPUTS))
        y = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(rows)
        Phi = features(name, X, rng)
        loss = Squared(l2=L2)
        parts = np.array_split(np.arange(rows), CLIENTS)
        clients = [Client(f"client-{j}", Phi[part], y[part]) for j, part in enumerate(parts)]
        *_, last = islice(iterates(FedNewton(loss), clients), ROUNDS + 1)
        pooled = np.linalg.solve(Phi.T @ Phi / rows + L2 * np.eye(Phi.shape[1]), Phi.T @ y / rows)
        found[claim] = _apart(last.state.w, pooled)
        if name == "kernel":
            K = gaussian(X)
            found[SAME] = _apart(Phi @ last.state.w, K @ np.linalg.solve(K + rows * L2 * np.eye(rows), y))
    return found


def _apart(one: Array, other: Array) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def _clients(rng: np.random.Generator, kind: str) -> list[Client]:
    w, found = rng.standard_normal(INPUTS), []
    for j in range(CLIENTS):
        if kind == "trigonometric":  # |y| ≤ 0.7: convex wherever the predictions are
            X = rng.uniform(-1, 1, (EACH, INPUTS))
            y = 0.4 * X @ w / np.abs(w).sum() + rng.uniform(-0.3, 0.3, EACH)
        else:
            X = rng.standard_normal((EACH, INPUTS))
            y = np.where(X @ w / 4 + 0.3 * rng.logistic(size=EACH) > 0, 1.0, -1.0)
        found.append(Client(f"client-{j}", X, y))
    return found


def _value(loss: LinearLoss, clients: list[Client], w: Array) -> float:
    return float(np.mean([loss.value(one, w) for one in clients]))


def _moved(loss: LinearLoss, client: Client, rng: np.random.Generator) -> float:
    """How far the Hessian at a random w is from that at zero, relative to it."""
    zero, w = np.zeros(INPUTS), 0.1 * rng.standard_normal(INPUTS)
    return _apart(loss.hessian(client, w).full(), loss.hessian(client, zero).full())


def of_losses(rng: np.random.Generator) -> dict[str, float]:
    found = {}
    for name, loss in LOSSES.items():
        clients = _clients(rng, name)
        path = list(islice(iterates(FedNewton(loss), clients), ROUNDS + 1))
        gradient = np.mean([loss.gradient(one, path[-1].state.w) for one in clients], axis=0)
        found[MOVES[name]] = VISIBLE / _moved(loss, clients[0], rng)
        found[REACHED[name]] = float(np.linalg.norm(gradient))
        made = [one.sent.counts.get("hessians", 0) for one in path[: EARLY + 1]]
        found[EVERY[name]] = float(np.max(np.abs(np.diff(made) - CLIENTS)))
    clients, relu = _clients(rng, "relu"), Relu(l2=LOSS_L2)
    found[FIXED] = max(_moved(one, clients[0], rng) for one in (relu, Squared(l2=LOSS_L2)))
    y, step = np.ones(1), 1e-6
    beside = [float(relu.derivative(np, np.array([1.0 + side * step]), y)[0]) for side in (-1, 1)]
    found[BENDS] = abs(beside[1] - beside[0])
    *_, last = islice(iterates(FedNewton(relu), clients), ROUNDS + 1)
    least = _least(relu, clients)
    found[RELU] = _value(relu, clients, last.state.w) / least - 1
    return found


def _least(loss: LinearLoss, clients: list[Client], steps: int = 2000) -> float:
    """The least value on a path of subgradients with steps 1/(λ t): no less than the minimum."""
    w, least = np.zeros(INPUTS), np.inf
    for t in range(1, steps + 1):
        least = min(least, _value(loss, clients, w))
        w = w - np.mean([loss.gradient(one, w) for one in clients], axis=0) / (LOSS_L2 * (t + 10))
    return least


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng((seed, 11))
    return {**of_features(rng), **of_losses(rng)}


@experiment(
    "fednewton-scope",
    paper="FedNewton",
    place="Remarks 2 and 4",
    title="For which features and which losses FedNewton is good",
    takes="1 min",
)
def scope(seeds: Seeds, quick: bool) -> Result:
    """Features of every kind will do, and every loss with a second derivative that says where the minimum is."""
    notes = (
        f"{CLIENTS} clients of {EACH} rows ({KERNEL_ROWS} with an exact kernel), {INPUTS} columns, {ROUNDS} rounds. Of "
        f"features: λ = {L2:g}, y = sin(Σ x) and noise, the relative distance of w from KRR. Of losses: λ = "
        f"{LOSS_L2:g}; ReLU is max(0, 1 − yη), the exponential loss e^−yη, the trigonometric one 1 − cos(η − y). "
        "Of Hessians the relative change from w = 0 to a random w (where they depend on it, "
        f"{VISIBLE:g} over it); of ReLU the pooled value over the least one of 2,000 subgradient "
        "steps, less 1; of the others the norm of the pooled gradient.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
