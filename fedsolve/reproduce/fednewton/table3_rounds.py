"""FedNewton, Table 3, seed by seed: eight rounds against one, where the means alone do not tell."""

from __future__ import annotations

from itertools import islice

from fedsolve.algorithms import FedNewton
from fedsolve.data import IID, Dirichlet, load, one_hot, split_indices
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.methods import ROUNDS
from fedsolve.reproduce.fednewton.paired import SURE
from fedsolve.reproduce.fednewton.table2 import CASES, FEATURES, Case, rows_of
from fedsolve.reproduce.fednewton.table3 import CLIENTS
from fedsolve.reproduce.fednewton.table3_claims import difference
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

SHOWN = (0, 1, 2, 4, ROUNDS)
SKEWED = "Dirichlet(0.5)"
IN_DOUBT = (("letter", "iid"), ("pendigits", "iid"), ("dna", "iid"), ("dna", SKEWED), ("letter", SKEWED))
SCHEMES = {"iid": IID(), SKEWED: Dirichlet(0.5)}
QUICK_FEATURES = 50

Place = tuple[str, str]  # a set and its split


def accuracies(case: Case, split: str, features: int, seed: int) -> list[float]:
    """Of FedNewton after 0 to 8 rounds, 0 is DKRR; the clients of fednewton-table3-…"""
    rows = rows_of(load(case.data), seed)
    phi = RandomFourier.fednewton(case.std, features, seed)
    inputs, test, targets = phi.block(rows.X), phi.block(rows.X_test), one_hot(rows.y, rows.classes)
    parts = split_indices(rows.y, SCHEMES[split], clients=CLIENTS, seed=seed)
    clients = [Client(f"client-{j}", inputs[part], targets[part]) for j, part in enumerate(parts)]
    path = islice(iterates(FedNewton(Squared(l2=case.setting.l2)), clients, keep_caches=True), ROUNDS + 1)
    return [100 * float(((test @ one.state.w).argmax(axis=1) == rows.y_test).mean()) for one in path]


def difference_of(one: Measured, other: Measured) -> Measured:
    return Measured(tuple(a - b for a, b in zip(one.values, other.values, strict=True)))


@experiment(
    "fednewton-table3-rounds",
    paper="FedNewton",
    place="Table 3",
    title="Eight rounds of FedNewton against one, seed by seed",
    takes="4 min",
    seeds=10,
)
def table3_rounds(seeds: Seeds, quick: bool) -> Result:
    """On the sets whose means differ by little, or by less than the seeds do."""
    places: tuple[Place, ...] = IN_DOUBT[2:4] if quick else IN_DOUBT
    by_name = {case.data: case for case in CASES}
    tally = Tally[Place]()
    for seed, place in seeds.over(places):
        found = accuracies(by_name[place[0]], place[1], QUICK_FEATURES if quick else FEATURES, seed)
        tally.add(place, {f"#{t}": found[t] for t in SHOWN})
    claims = Claims(quick)
    for place in places:
        by, errors = difference(tally.measured(place, f"#{ROUNDS}"), tally.measured(place, "#1"))
        better = place[1] == "iid"
        said = f"#{ROUNDS} is {by:+.3f} points from #1, {errors:+.1f} standard errors"
        claim = f"{place[0]}, {place[1]}: eight rounds are {'better' if better else 'worse'} than one, by seed"
        claims.add(claim, (errors if better else -errors) > SURE, said)
    for name in ("letter", "dna"):
        if not {(name, "iid"), (name, SKEWED)} <= set(places):
            continue
        behind = [
            difference_of(tally.measured((name, split), "#1"), tally.measured((name, split), f"#{ROUNDS}"))
            for split in (SKEWED, "iid")
        ]
        by, errors = difference(*behind)
        said = f"#{ROUNDS} loses {by:+.3f} points more than #1, {errors:+.1f} standard errors"
        claims.add(f"{name}: eight rounds lose more than one, by seed", errors > SURE, said)
    return Result(
        columns=(
            Column("data"),
            Column("split"),
            *(Column(f"#{t}" if t else "DKRR", "{:.3f}".format, average="mean") for t in SHOWN),
        ),
        rows=[(*place, *(tally.measured(place, f"#{t}") for t in SHOWN)) for place in places],
        claims=claims.found,
        notes=(
            "Test accuracy in per cent, settings and clients of fednewton-table3-…. Better and worse: the mean of the "
            f"differences by seed is more than {SURE:g} of its standard errors from 0. On the other sets the mean of "
            "#8 is not above that of #1 iid, and tens of points below it with Dirichlet(0.5).",
        ),
    )
