"""SHED, sections 1, 2, 6.1.2, 6.3 and 6.7: half-sentences on links, classes and other methods, on small problems."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import MontDec
from fedsolve.data import load
from fedsolve.federation.client import Client
from fedsolve.federation.links import Rayleigh
from fedsolve.losses import Logistic, Squared
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.background import local_direction
from fedsolve.reproduce.shed.heard_messages import SIZES, Heard, N, agents, heard
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import off
from fedsolve.reproduce.shed.small_logistic import Agents
from fedsolve.typing import Array

MU = 0.1
GAINS, AGENTS, NODES = (1.0, 5.0, 10.0), 28, (0.001, 0.01, 0.1)  # Γ; agents; chances that a node or link fails
CLASSES_MU, POINTS = 1e-3, 20

WAITS = "an iteration that waits for all agents is at least as sure as one of a single node"
VARIES = "the 90 % quantile of the rate (37) is at least twice the 10 % quantile, Γ = 1, 5 and 10"
APART = "in a round of 28 agents the most vectors are at least twice the fewest, median of 1,000 rounds"
PRINTED = "(1): the mean of the library's local costs is the printed cost of all rows"
SAME_LIMIT = "local steps of GIANT (conjugate gradients) and DONE (Richardson) tend to the same direction"
NEWSAMP = "Mont-Dec with one agent steps with (4), ρ = λ_{q+1} of H(θ^t)"
ONE_VS_ALL = "one-vs-all costs at most 2 points of accuracy beside multinomial logistic regression"
BLOCKS = "its probabilities, normalised, are those of multinomial logistic regression, to 0.01"
CHECKS = (
    Check("section 1", WAITS),
    Check("section 6.3", VARIES, "times", 0.5),
    Check("section 6.3", APART, "times", 0.5),
    Check("(1)", PRINTED, "off", 1e-9),
    Check("section 6.7", SAME_LIMIT, "off", 1e-6),
    Check("section 2.1", NEWSAMP, "off", 1e-9),
    Check("section 6.1.2", ONE_VS_ALL, "off", 0.02),
    Check("section 6.1.2", BLOCKS, "off", 0.01),
)


def links(seed: int, w: Worst) -> None:
    """(37) in closed form, and the library's draws."""
    high, low = -np.log(0.1), -np.log(0.9)  # quantiles of γ
    for gain in GAINS:
        w.add(VARIES, float(np.log1p(low * gain) / np.log1p(high * gain)))
    clients = [Client(f"agent-{j}", np.zeros((1, 1)), np.zeros(1)) for j in range(AGENTS)]
    for one in clients:
        one.moment = (seed, 0, 0, 0)
    drawn = np.array([[Rayleigh().vectors(round, one) for one in clients] for round in range(1000)])
    w.add(APART, float(np.median(drawn.min(axis=1) / drawn.max(axis=1))))
    for p in NODES:
        w.add(WAITS, (1 - p) / (1 - p) ** (AGENTS + 1))


def costs(seed: int, w: Worst) -> None:
    """The sum of (1) over all rows, labels of ±1, beside the weighted mean of the library's local costs."""
    clients, rng = agents(seed), np.random.default_rng((seed, 103))
    X, y = (np.concatenate([getattr(one, name) for one in clients]) for name in ("X", "y"))
    for theta in rng.standard_normal((POINTS, N)):
        z = X @ theta
        for loss, each in (
            (Logistic(l2=MU), np.log(1 + np.exp(-(2 * y - 1) * z))),
            (Squared(l2=MU), (z - y) ** 2 / 2),
        ):
            mean = np.average([loss.value(one, theta) for one in clients], weights=SIZES)
            w.add(PRINTED, off(float(mean), float(each.mean() + MU / 2 * theta @ theta)))


def directions(seed: int, w: Worst) -> None:
    """The mean of n conjugate gradient steps, and of so many of Richardson's that (1 − κ/K)^k is 1e-8, beside Ĥ⁻¹g."""
    of = Agents(seed, 8, 4, 60, MU)
    g, local = of.gradient(np.zeros(8)), of.hessians(np.zeros(8))
    exact = of.mean([np.linalg.solve(H, g) for H in local])
    for richardson in (False, True):
        found = []
        for H in local:
            values = np.linalg.eigvalsh(H)
            enough = int(np.log(1e-8) / np.log1p(-values[0] / values[-1])) + 1 if richardson else 8
            found.append(local_direction(H, g, enough, richardson))
        w.add(SAME_LIMIT, off(of.mean(found), exact))


def stepped(client: Client, one: Heard, loss: Logistic, q: int) -> float:
    """How far a step of Mont-Dec is from −Ĥ⁻¹g with (4), whatever its length η = 1, ½, …"""
    values, V = np.linalg.eigh(loss.hessian(client, one.w).full())
    values, V = values[::-1], V[:, ::-1]
    p = (V / np.where(np.arange(N) < q, values, values[q])) @ V.T @ loss.gradient(client, one.w)
    halvings = round(float(np.log2(norm(p) / norm(one.w - one.after))))
    return off(one.w - one.after, p * 0.5**halvings)


def current(seed: int, w: Worst) -> None:
    client, loss = agents(seed)[-1], Logistic(l2=MU)
    for q in (1, 3):
        for one in heard(MontDec(loss, increment=q), [client], 5):
            w.add(NEWSAMP, stepped(client, one, loss, q))


def classes(seed: int, w: Worst) -> None:
    """Written digits, half of them held out."""
    from sklearn.linear_model import LogisticRegression

    data, rng = load("digits"), np.random.default_rng((seed, 104))
    rows = rng.permutation(len(data.y))
    train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    X, y = data.X / 16, data.y

    def fitted(labels: Array) -> Array:
        model = LogisticRegression(C=1 / (CLASSES_MU * len(train)), tol=1e-8, max_iter=10_000, fit_intercept=False)
        return np.asarray(model.fit(X[train], labels[train]).predict_proba(X[test]))

    together = fitted(y)
    single = np.column_stack([fitted((y == label).astype(int))[:, 1] for label in np.unique(y)])
    right = [float(np.mean(np.unique(y)[one.argmax(axis=1)] == y[test])) for one in (together, single)]
    w.add(ONE_VS_ALL, right[0] - right[1])
    w.add(BLOCKS, float(np.abs(single / single.sum(axis=1, keepdims=True) - together).max()))


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    for part in (links, costs, directions, current, classes):
        part(seed, worst)
    return worst.found


@experiment(
    "shed-remarks",
    paper="SHED",
    place="sections 1, 2, 6.1.2, 6.3 and 6.7",
    title="What SHED's paper says in passing of links, classes and others' methods",
    takes="30 s",
)
def remarks(seeds: Seeds, quick: bool) -> Result:
    """Small problems, each made for a half-sentence."""
    notes = (
        f"Nodes and links fail with a chance of {', '.join(map(str, NODES))}, {AGENTS} agents. (1) at {POINTS} random "
        f"points of the four agents of shed-order, μ = {MU}, and Mont-Dec with its largest one. GIANT and DONE: n = 8, "
        f"four agents of 60. Classes: the bundled written digits, half of them held out, μ = {CLASSES_MU:g}.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
