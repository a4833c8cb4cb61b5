"""SHED, sections 6.3 and 6.7: what Mont-Dec sends, beside SHED+; and why least squares leave Mont-Dec and FedNL out."""

from __future__ import annotations

from itertools import islice

import numpy as np

from fedsolve.algorithms import FedNL, MontDec
from fedsolve.curvature.compressors import RankR
from fedsolve.curvature.options import HowMany
from fedsolve.curvature.renewals import Periodic
from fedsolve.federation.client import Client
from fedsolve.federation.links import Rayleigh
from fedsolve.losses import Logistic, Squared
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import optimum
from fedsolve.reproduce.shed.heard_messages import (
    COUNTS,
    EXACT,
    MU,
    UNEQUAL,
    agents,
    heard,
    mismatch,
    spectrum,
)
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.proofs_convex import Worst

ITERATIONS = 8
WIDE, MANY = 60, 12  # unknowns and agents with random links

CURRENT, OUTDATED = "Mont-Dec: always λ_1, …, λ_d of H_i(θ^t)", "SHED: not those, but at renewals"
AS_MUCH = "Mont-Dec sends as many pairs as SHED+, agent by agent"
ALONE = "the gradient is sent also where the link carries no pair"
SAME, AT_ONCE = "least squares: Mont-Dec sends the same pairs again", "least squares: FedNL's first step is exact"

CHECKS = (
    Check("section 6.7", CURRENT, "off", EXACT),
    Check("section 6.7", OUTDATED),
    Check("section 6.7", AS_MUCH, "failures", 0.0),
    Check("section 6.3", ALONE, "failures", 0.0),
    *(Check("section 6.7", name, "off", EXACT) for name in (SAME, AT_ONCE)),
)


def current(seed: int, w: Worst) -> None:
    """Mont-Dec's pairs, beside SHED's, against the Hessian of the current iterate."""
    clients, loss = agents(seed), Logistic(l2=MU)
    closest = float("inf")
    for count in COUNTS.values():
        for algorithm in (MontDec(loss, increment=count), as_printed(loss, count, Periodic(2 * ITERATIONS))):
            for t, one in enumerate(heard(algorithm, clients, ITERATIONS), 1):
                off = [
                    mismatch(
                        one.told[each.name].increment,
                        0,
                        spectrum(loss, each, one.w)[0],
                        loss.hessian(each, one.w).full(),
                    )
                    for each in clients
                ]
                if isinstance(algorithm, MontDec):
                    missing = [
                        one.told[each.name].increment.pairs.values.size != _wanted(count, each) for each in clients
                    ]
                    w.add(CURRENT, max(off) + float(any(missing)))
                elif t > 1:
                    sizes = [one.told[each.name].increment.pairs.values.size for each in clients]
                    closest = min([closest, *(far for far, size in zip(off, sizes, strict=True) if size)])
    w.add(OUTDATED, EXACT / closest)


def _wanted(count: HowMany, client: Client) -> int:
    return UNEQUAL[client.name] if isinstance(count, dict) else 1


def linked(seed: int, w: Worst) -> None:
    """Random links: how many pairs Mont-Dec and SHED+ send, and what comes where there is none."""
    clients, loss = agents(seed, WIDE, (80,) * MANY, Rayleigh()), Logistic(l2=MU)
    ours, theirs = (
        heard(algorithm, clients, ITERATIONS, seed)
        for algorithm in (as_printed(loss, "link", Periodic(2 * ITERATIONS)), MontDec(loss, increment="link"))
    )
    pairs = [
        (one.told[each.name].increment.pairs.values.size, other.told[each.name].increment.pairs.values.size)
        for one, other in zip(ours, theirs, strict=True)
        for each in clients
    ]
    totals = [sum(one.told[each.name].increment.pairs.values.size for one in ours) for each in clients]
    w.add(AS_MUCH, float(np.mean([a != b for a, b in pairs])) if max(totals) < WIDE - 1 else 1.0)
    empty = [
        norm(one.told[each.name].gradient - loss.gradient(each, one.w)) > EXACT
        for some in (ours, theirs)
        for one in some
        for each in clients
        if not one.told[each.name].increment.pairs.values.size
    ]
    w.add(ALONE, float(np.mean(empty)) if empty else 1.0)


def least_squares(seed: int, w: Worst) -> None:
    """Mont-Dec and FedNL where the Hessian is constant."""
    clients, loss = agents(seed), Squared(l2=MU)
    path = heard(MontDec(loss, increment=2), clients, 6)
    for one in path[1:]:
        for each in clients:
            first, again = (some.told[each.name].increment.pairs.values for some in (path[0], one))
            w.add(SAME, norm(np.asarray(first) - np.asarray(again)) / float(first[0]))
    best = optimum(clients, loss)
    start, after = islice((best.error(one.state.w) for one in iterates(FedNL(loss, RankR(1), option=1), clients)), 2)
    w.add(AT_ONCE, after / start)


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    for part in (current, linked, least_squares):
        part(seed, worst)
    return worst.found


@experiment(
    "shed-current",
    paper="SHED",
    place="sections 6.3 and 6.7",
    title="What Mont-Dec's agents send, beside SHED's; Mont-Dec and FedNL on least squares",
    takes="10 s",
)
def baselines(seeds: Seeds, quick: bool) -> Result:
    """Every message of the library's Mont-Dec against eigenpairs by NumPy."""
    notes = (
        f"The problems of shed-order, {ITERATIONS} iterations; agents send one pair, or 1, 2, 3 and 1. “Not those, but "
        "at renewals”: 1e-9 over the least distance of what SHED sends in other iterations from the first eigenpairs "
        f"of the current Hessian. Links: n = {WIDE}, {MANY} agents, the links of section 6.3.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
