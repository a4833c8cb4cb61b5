"""SHED, sections 2.2, 3.2 and 5: which eigenpairs agents send, in what order, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from fedsolve.algorithms import SHEDLeastSquares
from fedsolve.curvature.renewals import Fibonacci, Once, Periodic, Renewals
from fedsolve.descent import Armijo
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Logistic, Squared
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.heard_messages import COUNTS, EXACT, MU, SIZES, Heard, N, agents, heard, mismatch, spectrum
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.renewal_sets import sets
from fedsolve.typing import Array

PERIOD = 16  # long enough for all n − 1 pairs with one in an iteration
SHORT = 5  # T of SHED-LS-periodic
ITERATIONS = 40
FAR = 10.0  # a start at which full steps are refused

ORDER_LS = "SHED-LS: the pairs of λ_1, …, λ_{n−1} of H_i, each once, in this order"
ORDER = "SHED: those of H_i(θ^k), each once, in this order, from λ_1 at every renewal"
COMPLETE = "up to n − 1 of them, and then none"
RESTARTS = "SHED-LS-periodic: those of H_i, from λ_1 at 1, T, 2T, …"
SHIFT_LS, SHIFT = "SHED-LS: with them λ_{q+1} and λ_n, which make ρ", "SHED: with them ρ = λ_{q+1} of H_i(θ^k), (29)"
GRADIENT = "with each increment the gradient of f_i at θ^t"
STEP_LS = "SHED-LS: θ^{t+1} = θ^t − Ĥ^-1 g with (12), (13) of what was sent"
SHORTENED = "SHED, from far away: Algorithm 2's η is below 1 in some of these steps"
STEP = "SHED: θ^{t+1} = θ^t − η Ĥ^-1 g with (26), (30) of what was sent and η of Algorithm 2"

CHECKS = (
    *(Check("section 3.2", name, "off", EXACT) for name in (ORDER_LS, RESTARTS, SHIFT_LS, STEP_LS)),
    *(Check("section 5", name, "off", EXACT) for name in (ORDER, SHIFT, STEP)),
    Check("sections 2.2, 3.2", COMPLETE, "failures", 0.0),
    Check("section 2.2", GRADIENT, "off", EXACT),
    Check("section 4.1", SHORTENED, "failures", 0.0),
)


class Estimates:
    """Ĥ from the messages so far, agent by agent."""

    def __init__(self, clients: Sequence[Client], middle: bool) -> None:
        self.weights = np.array([one.weight for one in clients]) / sum(one.weight for one in clients)
        self.names, self.middle = [one.name for one in clients], middle
        self.pairs: dict[str, list[tuple[Array, Array]]] = {}

    def after(self, one: Heard) -> tuple[Array, Array]:
        """Ĥ with the messages of an iteration, and the mean gradient."""
        parts = []
        for name in self.names:
            sent = one.told[name].increment
            if sent.first == 0 and sent.pairs.values.size:
                self.pairs[name] = []
            self.pairs[name].append((np.asarray(sent.pairs.values), np.asarray(sent.pairs.vectors)))
            values = np.concatenate([each for each, _ in self.pairs[name]])
            V = np.hstack([each for _, each in self.pairs[name]])
            rho = (sent.following + sent.least) / 2 if self.middle else sent.following
            parts.append((V * (values - rho)) @ V.T + rho * np.eye(len(one.w)))
        g = np.average([one.told[name].gradient for name in self.names], axis=0, weights=self.weights)
        return np.average(parts, axis=0, weights=self.weights), g


def algorithm_2(f: Callable[[Array], float], w: Array, p: Array, g: Array) -> float:
    """The step of Algorithm 2 with the library's α and β."""
    eta, search = 1.0, Armijo()
    while f(w - eta * p) > f(w) - search.alpha * eta * float(p @ g):
        eta *= search.beta
    return eta


def followed(
    loss: LinearLoss,
    clients: list[Client],
    path: list[Heard],
    renewals: Renewals,
    names: tuple[str, str, str],
    w: Worst,
) -> int:
    """A run's messages against the eigenpairs at its renewals, and its steps, and how many of them are shortened.
    `names`: order, shift and step."""
    (order, shift, step), shortened = names, 0
    due, sent, at = set(sets(renewals, N, len(path))), dict.fromkeys((one.name for one in clients), 0), path[0].w
    known, quadratic = Estimates(clients, middle=loss.quadratic), loss.quadratic

    def f(point: Array) -> float:
        return float(np.average([loss.value(one, point) for one in clients], weights=known.weights))

    for t, one in enumerate(path, 1):
        if t in due:
            at, sent = one.w, dict.fromkeys(sent, 0)
        for client in clients:
            told, (values, _) = one.told[client.name], spectrum(loss, client, at)
            H = loss.hessian(client, at).full()
            w.add(order, mismatch(told.increment, sent[client.name], values, H))
            w.add(order, float(told.increment.first != sent[client.name] and told.increment.pairs.values.size > 0))
            sent[client.name] += told.increment.pairs.values.size
            last = abs(told.increment.least - values[-1]) if quadratic else 0.0
            w.add(shift, (abs(told.increment.following - values[min(sent[client.name], N - 1)]) + last) / values[0])
            w.add(GRADIENT, norm(told.gradient - loss.gradient(client, one.w)) / (1 + norm(told.gradient)))
            w.add(COMPLETE, float(sent[client.name] > N - 1))
        H_hat, g = known.after(one)
        p = np.linalg.solve(H_hat, g)
        if norm(g) > 1e-6:  # below, values are rounding
            eta = 1.0 if quadratic else algorithm_2(f, one.w, p, g)
            shortened += eta < 1
            w.add(step, norm(one.after - (one.w - eta * p)) / norm(p))
    if isinstance(renewals, Once) or (isinstance(renewals, Periodic) and renewals.period == PERIOD):
        long = [list(islice(path, t - 1, t - 2 + PERIOD)) for t in due if t - 2 + PERIOD <= len(path)]
        for some in long:  # periods with time for all
            totals = [sum(one.told[each.name].increment.pairs.values.size for one in some) for each in clients]
            w.add(COMPLETE, float(set(totals) != {N - 1}))
    return shortened


def shared(seed: int, w: Worst) -> None:
    """SHED-LS, SHED-LS-periodic and SHED, with one pair an iteration and with different numbers."""
    clients = agents(seed)
    squares, logistic = Squared(l2=MU), Logistic(l2=MU)
    for count in COUNTS.values():
        for rule, order in ((Once(), ORDER_LS), (Periodic(SHORT), RESTARTS)):
            path = heard(SHEDLeastSquares(squares, rule, increment=count), clients, ITERATIONS)
            followed(squares, clients, path, rule, (order, SHIFT_LS, STEP_LS), w)
        for renewals in (Periodic(PERIOD), Fibonacci()):
            path = heard(as_printed(logistic, count, renewals, solve="factor"), clients, ITERATIONS)
            followed(logistic, clients, path, renewals, (ORDER, SHIFT, STEP), w)
        start = FAR * np.random.default_rng((seed, 76)).standard_normal(N)
        rule = Periodic(PERIOD)
        path = heard(as_printed(logistic, count, rule, solve="factor"), clients, ITERATIONS, start=start)
        shortened = followed(logistic, clients, path, rule, (ORDER, SHIFT, STEP), w)
        w.add(SHORTENED, float(shortened == 0))


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    shared(seed, worst)
    return worst.found


@experiment(
    "shed-order",
    paper="SHED",
    place="sections 2.2, 3.2 and 5, Algorithms 1, 3 and 4",
    title="Which eigenpairs SHED's agents send, in what order, and what the Master makes of them",
    takes="15 s",
)
def order(seeds: Seeds, quick: bool) -> Result:
    """Every message of the library's SHED-LS and SHED against eigenpairs by NumPy."""
    notes = (
        f"n = {N}, agents of {', '.join(map(str, SIZES))} random rows, μ = {MU:g}, {ITERATIONS} iterations; agents "
        f"send one pair, or 1, 2, 3 and 1. Least squares without renewals and with T = {SHORT}; logistic regression "
        f"with T = {PERIOD}, from 0 and from {FAR:g} z, and with Fibonacci renewals. Eigenvalues and eigenvectors are "
        "compared with those of the Hessian at the last renewal, in units of λ_1; steps with Ĥ⁻¹g of what was heard, "
        "in units of it. Instead of ρ the agents of SHED-LS send λ_{q+1} and λ_n.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
