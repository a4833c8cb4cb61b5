"""The problems of the SHED paper, section 6.1, on the data sets that are available.

    problem = images("fashion_mnist", features=100, mu=1e-5, iid=False, seed=0)
    best = optimum(problem.clients, problem.loss)
    trace = follow(GIANT(problem.loss), best, gap=1e-10, iterations=1000)

`about` describes each problem in one sentence and says how it differs from the paper's; the reports print it.
Features are scaled, and images reduced by PCA, with statistics of the pooled data. That is possible only in a
simulation, and its cost is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedsolve.data import load
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Logistic, Squared
from fedsolve.typing import Array

AGENTS, PER_AGENT, TARGET = 28, 400, 1  # section 6.1.2
W8A_AGENTS, W8A_SIZES = 60, (700, 900)


@dataclass(frozen=True, eq=False)
class Problem:
    """The clients and their loss."""

    clients: list[Client]
    loss: LinearLoss
    about: str


# ── logistic regression, section 6.1.2 ──


@cache
def principal(dataset: str, features: int) -> tuple[Array, Array]:
    """Pixels / 255 on the first principal axes of all images, and the labels.

    The axes are those of the centred data; what is projected is not centred. Without a mean and without an intercept
    the problem would lose its one large eigenvalue, and with it the ill-conditioning that the paper studies.
    """
    X, y, axes = _images(dataset)
    if not 1 <= features <= X.shape[1]:
        raise ConfigError(f"PCA keeps between 1 and {X.shape[1]} features, got {features}")
    return X @ axes[:, :features], y


@cache
def _images(dataset: str) -> tuple[Array, Array, Array]:
    """Images, labels and principal axes, the largest variance first; of equal sign on every machine."""
    data = load(dataset)
    mean = data.X.mean(axis=0)
    covariance = data.X.T @ data.X / len(data.y) - np.outer(mean, mean)
    axes = np.linalg.eigh(covariance)[1][:, ::-1]
    largest = np.abs(axes).argmax(axis=0)
    return data.X, data.y, axes * np.sign(axes[largest, np.arange(axes.shape[1])])


def images(
    dataset: str = "fashion_mnist",
    features: int = 300,
    mu: float = 1e-5,
    *,
    iid: bool,
    seed: int,
    agents: int = AGENTS,
    target: int = TARGET,
) -> Problem:
    """One class against the others: half of each agent's images are of the target class, the other half a mixture of
    the others (iid) or all of one other class, assigned to the agents in turn."""
    X, y = principal(dataset, features)
    rng = np.random.default_rng(seed)
    targets = rng.permutation(np.flatnonzero(y == target))
    others = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y) if label != target]
    half = min(PER_AGENT // 2, len(targets) // max(1, agents))
    if not half:
        raise ConfigError(f"{dataset} has {len(targets)} images of class {target}, too few for {agents} agents")
    # Agent i's other class is i mod 9; a mixture takes of all of them in turn.
    mixed = np.stack([rows[: min(map(len, others))] for rows in others], axis=1).ravel()
    clients = []
    for agent in range(agents):
        take = slice(agent * half, (agent + 1) * half)
        turn, place = divmod(agent, len(others))
        rest = mixed[take] if iid else others[place][turn * half : (turn + 1) * half]
        rows = np.sort(np.concatenate([targets[take], rest]))
        clients.append(Client(f"agent-{agent}", X[rows], (y[rows] == target).astype(float)))
    kind = "a mixture of the others" if iid else "one other class per agent"
    few = (
        f" (the paper has about {PER_AGENT}, from 60,000 images; available here are {len(y):,})"
        if 2 * half < PER_AGENT
        else ""
    )
    about = (
        f"{dataset}, PCA to {features} keeping the mean, class {target} against {kind}, {agents} agents of {2 * half} "
        f"images{few}, μ = {mu:g}"
    )
    return Problem(clients, Logistic(l2=mu), about)


def w8a(mu: float = 1e-5, *, seed: int, agents: int = W8A_AGENTS, iid: bool = False) -> Problem:
    """Agents of 700 to 900 rows; half of them share the 1,479 rows of the rare class, the others have none of it.

    The paper does not say how many agents it has, nor how many of them lack a class. With `iid` the same rows are dealt
    out at random.
    """
    data = load("w8a")
    rng = np.random.default_rng(seed)
    rare, common = (rng.permutation(np.flatnonzero(data.y == label)) for label in (1, 0))
    sizes = rng.integers(W8A_SIZES[0], W8A_SIZES[1] + 1, agents)
    shares = np.array_split(rare, max(1, agents // 2))
    parts, used = [], 0
    for agent, size in enumerate(sizes):
        own = shares[agent] if agent < len(shares) else rare[:0]
        if size <= len(own) or used + size - len(own) > len(common):
            raise ConfigError(f"w8a has too few rows for {agents} agents of {W8A_SIZES[0]} to {W8A_SIZES[1]}")
        parts.append(np.sort(np.concatenate([own, common[used : used + size - len(own)]])))
        used += size - len(own)
    if iid:
        parts = [np.sort(some) for some in np.split(rng.permutation(np.concatenate(parts)), np.cumsum(sizes)[:-1])]
    clients = [Client(f"agent-{j}", data.X[rows], data.y[rows].astype(float)) for j, rows in enumerate(parts)]
    about = (
        f"w8a, {agents} agents of {W8A_SIZES[0]} to {W8A_SIZES[1]} rows ({sizes.sum():,} of {len(data.y):,}), "
        f"{'all at random' if iid else f'{len(shares)} of them with both classes'}, μ = {mu:g}"
    )
    return Problem(clients, Logistic(l2=mu), about)


# ── least squares, section 6.1.1 ──


@cache
def _scaled(dataset: str) -> tuple[Array, Array, Array]:
    """Features and labels between 0 and 1, and the labels as they are."""
    data = load(dataset)
    return _to_unit(data.X), _to_unit(data.y), data.y


def _to_unit(values: Array) -> Array:
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1.0)


@cache
def distinct_columns(dataset: str) -> tuple[int, ...]:
    """The columns, without those that repeat an earlier one."""
    X, _, _ = _scaled(dataset)
    return tuple(sorted(np.unique(X, axis=1, return_index=True)[1].tolist()))


def songs(mu: float = 1e-5, *, iid: bool, seed: int, agents: int = 20, distinct: bool = False) -> Problem:
    """The year of a song from its timbre: equal parts at random, or an agent for each year.

    distinct  without the 36 columns that repeat others
    """
    X, y, years = _scaled("msd_songs")
    if distinct:
        X = X[:, distinct_columns("msd_songs")]
    if iid:
        parts = [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(len(y)), agents)]
    else:
        parts = [np.flatnonzero(years == year) for year in np.unique(years)]
    clients = [Client(f"agent-{j}", X[rows], y[rows]) for j, rows in enumerate(parts)]
    sizes = [len(rows) for rows in parts]
    kind = "at random" if iid else "by year"
    features = "their 54 distinct ones" if distinct else "36 of them repeated"
    about = (
        f"{len(y):,} songs (Million Song Subset) {kind} among {len(parts)} agents of {min(sizes)} to {max(sizes)}; "
        f"a stand-in for the paper's 300,000 among 200: the same kind of 90 features, {features}; μ = {mu:g}"
    )
    return Problem(clients, Squared(l2=mu), about)


def news(mu: float = 1e-5, *, seed: int, per_agent: int = 500) -> Problem:
    """How often an article is shared: agents of 500, as many as there are."""
    X, y, _ = _scaled("news")
    agents = len(y) // per_agent
    parts = np.random.default_rng(seed).permutation(len(y))[: agents * per_agent].reshape(agents, per_agent)
    clients = [Client(f"agent-{j}", X[np.sort(rows)], y[np.sort(rows)]) for j, rows in enumerate(parts)]
    about = (
        f"Online News, {agents} agents of {per_agent} (the paper has 30, from 39,644 articles; available here are "
        f"{len(y):,}), μ = {mu:g}"
    )
    return Problem(clients, Squared(l2=mu), about)
