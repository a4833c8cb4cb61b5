"""SHED, sections 1.2, 2.1, 6.2, 6.6 and 6.7: what agents send and compute in an iteration, by the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
ROUNDS, PERIOD, LOSS = 12, 50, Logistic(l2=MU)
INCREMENTS = (1, 3, 6, 30)
LEARNING = 40  # iterations of FedNL with n = 6
SMALL = 1e-6  # ‖g‖ over the first, until which GIANT's steps are compared: below they are rounding


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


def costs(algorithm: Algorithm, clients: list[Client], rounds: int = ROUNDS) -> Costs:
    sent = [one.sent for one in islice(iterates(algorithm, clients), rounds + 1)]

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


def until(name: str) -> int:
    """Iterations that are counted: with d = 30 those in which d pairs are left, whatever the width."""
    return min([ROUNDS, *((min(WIDTHS) - 1) // d for d in INCREMENTS if name == f"SHED, d = {d}")])


def vectors(found: dict[int, Costs]) -> list[tuple[float, float]]:
    """How many vectors of n numbers, and how many numbers besides, an agent sends in each iteration: up = a n + b."""
    each = zip(*(one.up[1:] for one in found.values()), strict=True)
    return [(float(a), float(b)) for a, b in (np.polyfit(list(found), up, 1) for up in each)]


def all_near(values: Sequence[float], wanted: float) -> bool:
    return all(abs(one - wanted) < 1e-6 for one in values)


def _spread(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def on_vectors(found: dict[str, dict[int, Costs]], claims: Claims) -> None:
    each = {name: vectors(one) for name, one in found.items() if name != "Newton"}
    sent = {name: [a for a, _ in pairs] for name, pairs in each.items()}
    right = all(all_near(sent[f"SHED, d = {d}"], d + 1) for d in INCREMENTS)
    told = ", ".join(f"{_spread(sent[f'SHED, d = {d}'])} for d = {d}" for d in INCREMENTS)
    claims.add("SHED: d + 1 vectors of n numbers in an iteration", right, f"{told}, in every iteration counted")
    beyond = [b - d - STEPS for d in INCREMENTS for _, b in each[f"SHED, d = {d}"]]
    said = f"{max(beyond):.3g} numbers besides the d eigenvalues and {STEPS} losses of the search: ρ, λ_n, f and a flag"
    claims.add(
        "SHED: a few numbers with them, ρ among them, at most 5 but for the search", max(beyond) <= 5 + 1e-6, said
    )
    times = {
        d: [more / one for more, one in zip(sent[f"SHED, d = {d}"], sent["SHED, d = 1"], strict=False)] for d in (3, 30)
    }
    claims.add(
        "d = 3 doubles the load of a round, d = 30 makes it 15 times",
        all_near(times[3], 2) and all_near(times[30], 15.5),
        f"{_spread(times[3])} and {_spread(times[30])} times the vectors of d = 1",
    )
    for name, called in (("SHED, d = 1", "SHED with d = 1"), ("GN-SHED", "GN-SHED")):
        said = f"{_spread(sent['FedNL'])} vectors, {called} {_spread(sent[name])}, in {ROUNDS} iterations"
        same = all_near(sent["FedNL"], 2) and all_near(sent[name], 2)
        claims.add(f"FedNL sends as many vectors as {called}", same, said)
    first = {n: one.up[0] for n, one in found["FedNL"].items()}
    said = ", ".join(f"{up:.0f} numbers for n = {n}" for n, up in first.items())
    claims.add(
        "FedNL: the whole Hessian in the first round, n(n + 1)/2 numbers",
        all(up >= n * (n + 1) / 2 for n, up in first.items()),
        said,
    )
    newton = {n: one.up[1:] for n, one in found["Newton"].items()}
    said = ", ".join(f"{_spread(up)} numbers for n = {n}" for n, up in newton.items())
    claims.add(
        "Newton's method: n(n + 1)/2 + n + 1 numbers of every agent in an iteration",
        all(all_near(up, n * (n + 1) / 2 + n + 1) for n, up in newton.items()),
        f"{said}, in each of {ROUNDS} iterations",
    )


def on_exchanges(found: dict[str, dict[int, Costs]], claims: Claims) -> None:
    def of(name: str, what: Callable[[Costs], list[float]]) -> list[float]:
        return sorted({value for one in found[name].values() for value in what(one)[1:]})

    shed, giant = (of(name, lambda one: one.exchanges) for name in ("SHED, d = 1", "GIANT"))
    said = f"exchanges in an iteration: SHED {shed}, GIANT {giant}"
    claims.add("SHED: one exchange for the update and one for the search", shed == [2.0], said)
    claims.add("GIANT: an extra round for the global gradient", giant == [3.0] and shed == [2.0], said)
    told = {name: of(name, lambda one: one.hessians) for name in ("Mont-Dec", "FedNL", "GIANT")}
    said = ", ".join(f"{name} {counts}" for name, counts in told.items())
    claims.add("Mont-Dec and FedNL: a Hessian in every iteration", told["Mont-Dec"] == told["FedNL"] == [1.0], said)
    total = max(sum(one.hessians) for one in found["SHED, d = 1"].values())
    said = f"{total:g} in {ROUNDS} iterations with one renewal"
    claims.add("SHED: a Hessian at renewals only", total == 1, said)


def learning(seed: int) -> tuple[float, float, float]:
    """Of FedNL, n = 6: ‖H_t − H(θ*)‖/‖H(θ*)‖ at the end, ‖I − H_t⁻¹H(θ*)‖, and GIANT's largest angle."""
    clients = agents(6, seed)
    best = optimum(clients, LOSS)
    H = np.mean([LOSS.hessian(one, best.w).full() for one in clients], axis=0) - MU * np.eye(6)
    path = [one.state for one in islice(iterates(METHODS["FedNL"], clients), LEARNING + 1)]
    learned, penalty = path[-1].learned.full(), MU * np.eye(6)
    left = float(np.linalg.norm(learned - H) / np.linalg.norm(H))
    factor = float(np.linalg.norm(np.eye(6) - np.linalg.solve(learned + penalty, H + penalty), 2))
    return left, factor, largest_angle(clients)


def largest_angle(clients: list[Client]) -> float:
    """1 − cos of the angle between a step of GIANT and −Σ p_i H_i⁻¹ g, the largest of the steps."""
    found: list[float] = []
    norms: list[float] = []
    for start, after in pairwise(one.state.w for one in iterates(METHODS["GIANT"], clients)):
        g = np.mean([LOSS.gradient(one, start) for one in clients], axis=0)
        norms.append(float(np.linalg.norm(g)))
        if norms[-1] <= SMALL * norms[0]:
            break
        wanted = np.mean([np.linalg.solve(LOSS.hessian(one, start).full(), g) for one in clients], axis=0)
        step = start - after
        found.append(1 - float(step @ wanted / np.linalg.norm(step) / np.linalg.norm(wanted)))
    return max(found)


@experiment(
    "shed-messages",
    paper="SHED",
    place="sections 1.2, 2.1, 6.2, 6.6, 6.7",
    title="What SHED's agents send and compute in an iteration, beside other methods",
    takes="5 s",
)
def messages(seeds: Seeds, quick: bool) -> Result:
    """Counted by the ledger on random logistic regressions of three widths."""
    found = {name: {n: costs(method, agents(n, 0), until(name)) for n in WIDTHS} for name, method in METHODS.items()}
    learned = [learning(seed) for seed in seeds]
    claims = Claims(quick)
    on_vectors(found, claims)
    on_exchanges(found, claims)
    left, factor, angle = (max(one[k] for one in learned) for k in range(3))
    said = f"‖H_t − H(θ*)‖ is at most {left:.1g} of ‖H(θ*)‖ after {LEARNING} iterations"
    claims.add("FedNL with rank 1 learns the Hessian at the optimum, to 1e-6", left <= 1e-6, said)
    said = f"‖I − H_t⁻¹H(θ*)‖, the factor of the error near θ*, is at most {factor:.1g} then"
    claims.add("FedNL: superlinear, its factor near the optimum tends to 0, to 1e-6", factor <= 1e-6, said)
    said = f"1 − cos of the angle is at most {angle:.1g}"
    claims.add("GIANT moves along the mean of H_i^-1 g in every step", angle <= 1e-9, said)
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
            f"Logistic regression on {AGENTS} agents of {SAMPLES} random rows, μ = {MU:g}. The table has the second "
            f"iteration; claims are on each of {ROUNDS} iterations, or of {until('SHED, d = 30')} with d = 30, after "
            f"which fewer than 30 pairs are left for n = {min(WIDTHS)}. Vectors of n numbers are the slope of what an "
            "agent sends over n. SHED is as printed, with one renewal, "
            f"GN-SHED with its own renewals, GIANT as published. FedNL learns with n = 6, {len(learned)} problems.",
        ),
    )
