"""SHED, sections 1, 2.1 and 6.1.2: half-sentences on FedAvg, privacy, failures and whole Hessians, on real data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

import numpy as np

from fedsolve.algorithms import FedAvg, Newton, SHEDLeastSquares
from fedsolve.curvature.renewals import Once
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import follow, optimum
from fedsolve.reproduce.shed.heard_messages import heard
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.problems import AGENTS, PER_AGENT, TARGET, images, principal, songs
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.typing import Array

FEATURES, MU, ROUNDS, LATER, LOCAL = 100, 1e-5, 100, 300, 10
WIDTHS, GAP, MOST = (100, 200, 300), 1e-10, 1000
KNOWN = 1e-6  # relative distance at which a row counts as known
SONGS_USED = 300_000  # by the paper

GOOD = "FedAvg is at most 1 point less accurate than θ* after 100 rounds, iid"
GOOD_UNLIKE = "… with one other class per agent"
LONGER, LONGER_UNLIKE = "… iid, after 300 rounds", "… with one other class per agent, after 300 rounds"
CRITICAL = "FedAvg leaves at least 1.5 times the share of f − f* with one other class per agent"
CRITICAL_LATER = "… after 300 rounds"
LOST = "without one agent the others' solution is at most 1 point less accurate, iid"
LOST_UNLIKE = "… without one agent, with one other class per agent"
PRIVATE = "SHED-LS: no agent's row is known from its first eigenpair, songs by year"
SINGLE = "… those whose row is known have one row"
LARGER = "Newton's method sends at least 1.5 times the numbers of Fib-SHED until 1e-10, n = 300"
GROWS = "… and the ratio grows from n = 100 to 200 and to 300"
FEWER = "there are fewer images than songs: 60,000 of Fashion-MNIST, 300,000"
CHECKS = (
    *(Check("section 1", name, "off", 0.01) for name in (GOOD, GOOD_UNLIKE, LONGER, LONGER_UNLIKE)),
    *(Check("section 1", name, "times", 1 / 1.5) for name in (CRITICAL, CRITICAL_LATER)),
    *(Check("section 1", name, "off", 0.01) for name in (LOST, LOST_UNLIKE)),
    *(Check("section 1", name, "failures", 0.0) for name in (PRIVATE, SINGLE)),
    Check("section 2.1", LARGER, "times", 1 / 1.5),
    Check("section 2.1", GROWS, "times", 0.999),
    Check("section 6.1.2", FEWER, "times", 0.999),
)


def accuracy(w: Array, clients: Sequence[Client]) -> float:
    """On all images that no agent has: the mean of the shares that are right in the target class and in the others."""
    X, labels = principal("fashion_mnist", FEATURES)
    used = {row.tobytes() for one in clients for row in one.X}
    free = np.array([row.tobytes() not in used for row in X])
    right = (X[free] @ w > 0) == (labels[free] == TARGET)
    ours = labels[free] == TARGET
    return (float(right[ours].mean()) + float(right[~ours].mean())) / 2


def averaging(seed: int, iid: bool, w: Worst) -> Array:
    """The shares of the first f − f* that FedAvg leaves; and accuracies, of an optimum without the last agent too."""
    posed = images("fashion_mnist", FEATURES, MU, iid=iid, seed=seed)
    best, without = optimum(posed.clients, posed.loss), optimum(posed.clients[:-1], posed.loss)
    algorithm = FedAvg(posed.loss, GradientSteps(steps=LOCAL))
    path = [one.state.w for one in islice(iterates(algorithm, posed.clients, seed), LATER + 1)]
    reached = accuracy(best.w, posed.clients)
    names = (GOOD, LONGER) if iid else (GOOD_UNLIKE, LONGER_UNLIKE)
    for name, rounds in zip(names, (ROUNDS, LATER), strict=True):
        w.add(name, reached - accuracy(path[rounds], posed.clients))
    w.add(LOST if iid else LOST_UNLIKE, reached - accuracy(without.w, posed.clients))
    return np.array([best.gap(path[rounds]) / best.gap(path[0]) for rounds in (ROUNDS, LATER)])


def private(seed: int, w: Worst) -> None:
    """Whether √(λ_1 − μ) v_1, all of which is sent, is one of the agent's rows up to its sign."""
    posed = songs(iid=False, seed=seed)
    told = heard(SHEDLeastSquares(posed.loss, Once(), increment=1), posed.clients, 1, seed)[0].told
    known = []
    for one in posed.clients:
        pairs = told[one.name].increment.pairs
        x = np.sqrt(max(float(pairs.values[0]) - posed.loss.l2, 0.0)) * np.asarray(pairs.vectors)[:, 0]
        known.append(min(min(norm(row - x), norm(row + x)) / norm(row) for row in one.X) <= KNOWN)
    w.add(PRIVATE, float(np.mean(known)))
    alone = [one.n_samples > 1 for one, is_known in zip(posed.clients, known, strict=True) if is_known]
    w.add(SINGLE, float(np.mean(alone)) if alone else 0.0)


def sent(seed: int, features: int) -> float:
    """The vectors that Fib-SHED's agents send until 1e-10 over those of Newton's."""
    posed = images("fashion_mnist", features, MU, iid=True, seed=seed)
    best = optimum(posed.clients, posed.loss)
    traces = [follow(one, best, gap=GAP, iterations=MOST) for one in (as_printed(posed.loss), Newton(posed.loss))]
    shed, newton = (one.until(GAP, one.vectors) for one in traces)
    return shed / newton


def measured(seed: int, widths: Sequence[int] = WIDTHS) -> dict[str, float]:
    w = Worst()
    left = {iid: averaging(seed, iid, w) for iid in (True, False)}
    for name, share in zip((CRITICAL, CRITICAL_LATER), left[True] / left[False], strict=True):
        w.add(name, share)
    private(seed, w)
    shares = [sent(seed, n) for n in widths]
    w.add(LARGER, shares[-1])
    for narrow, wide in pairwise(shares):
        w.add(GROWS, wide / narrow)
    w.add(FEWER, len(principal("fashion_mnist", FEATURES)[1]) / SONGS_USED)
    return w.found


@experiment(
    "shed-remarks-data",
    paper="SHED",
    place="sections 1, 2.1 and 6.1.2",
    title="What SHED's paper says in passing of FedAvg, privacy, failures and whole Hessians, on its data",
    takes="3 min",
    seeds=3,
)
def remarks_data(seeds: Seeds, quick: bool) -> Result:
    """Fashion-MNIST and songs."""
    notes = (
        f"Fashion-MNIST, {AGENTS} agents of {PER_AGENT} images, μ = {MU:g}, iid and with one other class per agent. "
        f"FedAvg: n = {FEATURES}, {LOCAL} local steps of 1/L of the steepest agent, {ROUNDS} and {LATER} "
        "rounds; accuracy is the mean of the two classes', on images of no agent. "
        "Newton's method and Fib-SHED, d = 1: iid, n = "
        f"{', '.join(map(str, WIDTHS))}. Songs by year, an agent for each: a row is known where √(λ_1 − μ) v_1 of the "
        f"first message is it, to {KNOWN:g} and up to its sign.",
    )
    widths = (20, 40, 60) if quick else WIDTHS
    return checked(CHECKS, [measured(seed, widths) for seed in seeds], notes, quick)
