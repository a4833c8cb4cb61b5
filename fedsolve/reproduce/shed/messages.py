"""SHED, sections 1.2, 2.1, 6.2, 6.6 and 6.7: what agents send and compute in an iteration, by the ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from fedsolve.algorithms import GIANT, FedNL, MontDec, Newton
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.compressors import RankR
from fedsolve.curvature.renewals import GradientNorm, Periodic
from fedsolve.federation.client import Client
from fedsolve.losses import Logistic
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.shed.gaps import optimum
from fedsolve.reproduce.shed.methods import as_printed

WIDTHS, AGENTS, SAMPLES, MU = (100, 200, 300), 4, 100, 1e-2
ROUNDS, PERIOD, LOSS = 3, 50, Logistic(l2=MU)
INCREMENTS = (1, 3, 6, 30)
LEARNING = 40  # iterations of FedNL with n = 6


def agents(n: int, seed: int, count: int = AGENTS) -> list[Client]:
    rng = np.random.default_rng((seed, n, 41))
    found = []
    for j in range(count):
        X = rng.standard_normal((SAMPLES, n)) / math.sqrt(n)
        y = (X @ np.ones(n) + rng.logistic(size=SAMPLES) > 0).astype(float)
        found.append(Client(f"agent-{j}", X, y))
    return found


@dataclass(frozen=True)
class Costs:
    """Of one agent, by iteration; the start is the first entry."""

    up: list[float]
    exchanges: list[float]
    hessians: list[float]


def costs(algorithm: Algorithm, clients: list[Client]) -> Costs:
    sent = [one.sent for one in islice(iterates(algorithm, clients), ROUNDS + 1)]

    def steps(values: list[float]) -> list[float]:
        return [b - a for a, b in pairwise([0.0, *values])]

    up = steps([one.scalars_up / len(clients) for one in sent])
    hessians = steps([one.counts.get("hessians", 0) / len(clients) for one in sent])
    return Costs(up, steps([float(one.exchanges) for one in sent]), hessians)


METHODS: dict[str, Algorithm] = {
    **{f"SHED, d = {d}": as_printed(LOSS, d, Periodic(PERIOD)) for d in INCREMENTS},
    "GN-SHED": as_printed(LOSS, 1, GradientNorm()),
    "GIANT": GIANT(LOSS, lbfgs=0),
    "Mont-Dec": MontDec(LOSS, increment=1),
    "FedNL": FedNL(LOSS, RankR(1), option=1),
    "Newton": Newton(LOSS),
}
STEPS = as_printed(LOSS).search.halvings + 1  # step sizes of a search


def vectors(found: dict[int, Costs]) -> tuple[float, float]:
    """How many vectors of n numbers, and how many numbers besides, an agent sends in an iteration: up = a n + b."""
    a, b = np.polyfit(list(found), [one.up[2] for one in found.values()], 1)
    return float(a), float(b)


def _on_vectors(found: dict[str, dict[int, Costs]], claims: Claims) -> None:
    sent = {name: vectors(each) for name, each in found.items() if name != "Newton"}
    right = all(abs(sent[f"SHED, d = {d}"][0] - (d + 1)) < 1e-6 for d in INCREMENTS)
    told = ", ".join(f"{sent[f'SHED, d = {d}'][0]:.4g} for d = {d}" for d in INCREMENTS)
    claims.add("SHED: d + 1 vectors of n numbers in an iteration", right, told)
    beyond = [sent[f"SHED, d = {d}"][1] - d - STEPS for d in INCREMENTS]
    said = f"{max(beyond):.3g} numbers besides the d eigenvalues and {STEPS} losses of the search: ρ, λ_n, f and a flag"
    claims.add(
        "SHED: a few numbers with them, ρ among them, at most 5 but for the search", max(beyond) <= 5 + 1e-6, said
    )
    double = (sent["SHED, d = 3"][0] / sent["SHED, d = 1"][0], sent["SHED, d = 30"][0] / sent["SHED, d = 1"][0])
    said = f"{double[0]:.4g} and {double[1]:.4g} times the vectors of d = 1"
    claims.add(
        "d = 3 doubles the load of a round, d = 30 makes it 15 times",
        abs(double[0] - 2) + abs(double[1] - 15.5) < 1e-6,
        said,
    )
    for name, called in (("SHED, d = 1", "SHED with d = 1"), ("GN-SHED", "GN-SHED")):
        said = f"{sent['FedNL'][0]:.4g} vectors, {called} {sent[name][0]:.4g}"
        same = abs(sent["FedNL"][0] - sent[name][0]) < 1e-6
        claims.add(f"FedNL sends as many vectors as {called}", same, said)
    first = {n: one.up[0] for n, one in found["FedNL"].items()}
    said = ", ".join(f"{up:.0f} numbers for n = {n}" for n, up in first.items())
    claims.add(
        "FedNL: the whole Hessian in the first round, n(n + 1)/2 numbers",
        all(up >= n * (n + 1) / 2 for n, up in first.items()),
        said,
    )
    newton = {n: one.up[-1] for n, one in found["Newton"].items()}
    power = float(np.polyfit(np.log(list(newton)), np.log(list(newton.values())), 1)[0])
    said = ", ".join(f"{up:.0f} numbers for n = {n}" for n, up in newton.items()) + f", like n^{power:.2f}"
    claims.add("Newton's method: O(n²) numbers of every agent, exponent 2 ± 0.1", abs(power - 2) <= 0.1, said)


def _on_exchanges(found: dict[str, dict[int, Costs]], claims: Claims) -> None:
    def of(name: str, what: str) -> list[float]:
        return sorted({value for one in found[name].values() for value in getattr(one, what)[2:]})

    shed, giant = of("SHED, d = 1", "exchanges"), of("GIANT", "exchanges")
    said = f"exchanges in an iteration: SHED {shed}, GIANT {giant}"
    claims.add("SHED: one exchange for the update and one for the search", shed == [2.0], said)
    claims.add("GIANT: an extra round for the global gradient", giant == [3.0] and shed == [2.0], said)
    told = {name: of(name, "hessians") for name in ("Mont-Dec", "FedNL", "GIANT")}
    said = ", ".join(f"{name} {counts}" for name, counts in told.items())
    claims.add("Mont-Dec and FedNL: a Hessian in every iteration", told["Mont-Dec"] == told["FedNL"] == [1.0], said)
    total = max(sum(one.hessians) for one in found["SHED, d = 1"].values())
    said = f"{total:g} in {ROUNDS} iterations with one renewal"
    claims.add("SHED: a Hessian at renewals only", total == 1, said)


def learning(seed: int) -> tuple[float, float, float]:
    """Of FedNL, n = 6: ‖H_t − H(θ*)‖/‖H(θ*)‖ at the end, ‖I − H_t⁻¹H(θ*)‖, and GIANT's angle.

    The angle is that between GIANT's first step and −Σ p_i H_i⁻¹ g.
    """
    clients = agents(6, seed)
    best = optimum(clients, LOSS)
    H = np.mean([LOSS.hessian(one, best.w).full() for one in clients], axis=0) - MU * np.eye(6)
    path = [one.state for one in islice(iterates(METHODS["FedNL"], clients), LEARNING + 1)]
    learned, penalty = path[-1].learned.full(), MU * np.eye(6)
    left = float(np.linalg.norm(learned - H) / np.linalg.norm(H))
    factor = float(np.linalg.norm(np.eye(6) - np.linalg.solve(learned + penalty, H + penalty), 2))
    (start, after) = (one.state.w for one in islice(iterates(METHODS["GIANT"], clients), 2))
    g = np.mean([LOSS.gradient(one, start) for one in clients], axis=0)
    wanted = np.mean([np.linalg.solve(LOSS.hessian(one, start).full(), g) for one in clients], axis=0)
    step = start - after
    return left, factor, 1 - float(step @ wanted / np.linalg.norm(step) / np.linalg.norm(wanted))


@experiment(
    "shed-messages",
    paper="SHED",
    place="sections 1.2, 2.1, 6.2, 6.6, 6.7",
    title="What SHED's agents send and compute in an iteration, beside other methods",
    takes="5 s",
)
def messages(seeds: Seeds, quick: bool) -> Result:
    """Counted by the ledger on random logistic regressions of three widths."""
    found = {name: {n: costs(method, agents(n, 0)) for n in WIDTHS} for name, method in METHODS.items()}
    learned = [learning(seed) for seed in seeds]
    claims = Claims(quick)
    _on_vectors(found, claims)
    _on_exchanges(found, claims)
    left, factor, angle = (max(one[k] for one in learned) for k in range(3))
    said = f"‖H_t − H(θ*)‖ is at most {left:.1g} of ‖H(θ*)‖ after {LEARNING} iterations"
    claims.add("FedNL with rank 1 learns the Hessian at the optimum, to 1e-6", left <= 1e-6, said)
    said = f"‖I − H_t⁻¹H(θ*)‖, the factor of the error near θ*, is at most {factor:.1g} then"
    claims.add("FedNL: superlinear, its factor near the optimum tends to 0, to 1e-6", factor <= 1e-6, said)
    claims.add("GIANT moves along the mean of H_i^-1 g", angle <= 1e-9, f"1 − cos of the angle is at most {angle:.1g}")
    columns = (
        Column("method"),
        *(Column(f"numbers up, n = {n}", "{:.0f}".format) for n in WIDTHS),
        Column("exchanges"),
    )
    return Result(
        columns=columns,
        rows=[
            (name, *(one.up[2] for one in each.values()), each[WIDTHS[0]].exchanges[2]) for name, each in found.items()
        ],
        claims=claims.found,
        notes=(
            f"Logistic regression on {AGENTS} agents of {SAMPLES} random rows, μ = {MU:g}, the second iteration. "
            "Vectors of n numbers are the slope of what an agent sends over n. SHED is as printed, with one renewal, "
            f"GN-SHED with its own renewals, GIANT as published. FedNL learns with n = 6, {len(learned)} problems.",
        ),
    )
