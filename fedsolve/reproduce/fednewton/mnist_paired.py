"""FedNewton, Figures 3 and 5 (right), seed by seed: the order of the methods on MNIST."""

from __future__ import annotations

from fedsolve.data import IID, Dirichlet, QuantitySkew
from fedsolve.data.partition_schemes import Scheme
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.methods import ROUNDS
from fedsolve.reproduce.fednewton.mnist import CASE, CLIENTS, LAST, Posed
from fedsolve.reproduce.fednewton.paired import LARGEST, PRINTED, SURE, by_heading, traces
from fedsolve.reproduce.fednewton.table3_claims import difference
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

AVERAGED = (PRINTED, LARGEST)  # FedAvg passes over all rows in every step: two step sizes are enough here
SHOWN = ("KRR", "DKRR", "FedProx", *AVERAGED, "#1", "#2", "#4", "#8")
MANY: dict[str, tuple[Scheme, int]] = {"n = 6000": (IID(), 10), "n = 4615": (IID(), 13)}
DIVIDED: dict[str, tuple[Scheme, int]] = {
    "Dirichlet(0.5) by label": (Dirichlet(0.5), CLIENTS),
    "sizes by Dirichlet(0.5)": (QuantitySkew(0.5), CLIENTS),
}
TIMES = 10.0  # a great gap is so many times what eight rounds leave of it
SLOW = 0.1  # of the way from DKRR to KRR in 20 rounds
RULE = (
    f"One accuracy is above another if the mean of the differences by seed is more than {SURE:g} of its standard "
    "errors from 0. FedAvg with 2 full-batch steps of 0.001 (Table 2), and of 1/λ_max; its best step is "
    "the best in the mean over the test rows."
)


def drawn(seeds: Seeds, quick: bool, settings: dict[str, tuple[Scheme, int]], rounds: int) -> Tally[str]:
    """Accuracies after the last round, FedNewton's after one, two, four and eight, and FedProx's after one."""
    tally = Tally[str]()
    posed: Posed | None = None
    for seed, name in seeds.over(settings):
        posed = posed if posed is not None and posed.seed == seed else Posed(quick, seed)
        scheme, count = settings[name]
        found = traces(posed.clients(scheme, count), CASE.setting, posed.accuracy, rounds, larger={})
        tally.add(name, {**by_heading(found, (1, 2, 4, ROUNDS)), "FedProx, 1": found["FedProx"][1]})
    return tally


def above(pairs: dict[str, tuple[Measured, Measured]]) -> tuple[bool, str]:
    """Whether the first of every pair is above the second."""
    found = {name: difference(*pair) for name, pair in pairs.items()}
    said = ", ".join(f"{name}: {by:+.3f} points ({errors:+.1f})" for name, (by, errors) in found.items())
    return all(errors > SURE for _, errors in found.values()), f"(standard errors) {said}"


def best_of(tally: Tally[str], case: str) -> str:
    return max(AVERAGED, key=lambda name: tally.measured(case, name).mean)


def _result(tally: Tally[str], cases: list[str], claims: Claims, note: str) -> Result:
    return Result(
        columns=(Column("clients"), *(Column(name, "{:.2f}".format, average="mean") for name in SHOWN)),
        rows=[(case, *(tally.measured(case, name) for name in SHOWN)) for case in cases],
        claims=claims.found,
        notes=(note, RULE),
    )


def on_the_gap(tally: Tally[str], claims: Claims) -> None:
    """From DKRR to KRR: is it there, is it more than the seeds differ by, and what do eight rounds leave of it."""
    at = tally.measured
    there, found = above({case: (at(case, "KRR"), at(case, "DKRR")) for case in MANY})
    gaps = {case: at(case, "KRR").mean - at(case, "DKRR").mean for case in MANY}
    left = {case: abs(at(case, "KRR").mean - at(case, f"#{ROUNDS}").mean) for case in MANY}
    spread = {case: max(at(case, name).deviation for name in ("KRR", "DKRR")) for case in MANY}
    claims.add("MNIST, n > 4400: a gap between DKRR and KRR, by seed", there, found)
    close = all(left[case] <= gaps[case] / TIMES for case in MANY)
    said = "; ".join(f"{case}: DKRR {gaps[case]:.3f} points, #{ROUNDS} {left[case]:.3f}" for case in MANY)
    claims.add("MNIST, n > 4400: 8 rounds leave at most a tenth of the gap, by seed", close, said)
    great = all(gaps[case] >= spread[case] for case in MANY)
    said += "; standard deviation over the seeds " + ", ".join(f"{one:.2f}" for one in spread.values())
    claims.add("MNIST, n > 4400: a great gap between DKRR and KRR, by seed", there and close and great, said)


@experiment(
    "fednewton-fig3-mnist-paired",
    paper="FedNewton",
    place="Figure 3, right",
    title="FedNewton on MNIST with many samples per client, seed by seed",
    takes="6 min",
)
def fig3_mnist_paired(seeds: Seeds, quick: bool) -> Result:
    """From 4,400 samples eight rounds are better than DKRR, FedProx and FedAvg."""
    tally = drawn(seeds, quick, MANY, ROUNDS)
    claims, at = Claims(quick), tally.measured
    eight = {case: at(case, "#8") for case in MANY}
    best = {case: best_of(tally, case) for case in MANY}
    for other in ("DKRR", "FedProx", "FedAvg"):
        holds, said = above({case: (eight[case], at(case, other)) for case in MANY})
        claims.add(f"MNIST, n > 4400: 8 rounds are better than {other}, by seed", holds, said)
    holds, said = above({f"{case}, {name}": (eight[case], at(case, name)) for case, name in best.items()})
    claims.add("MNIST, n > 4400: 8 rounds are better than FedAvg with its best step, by seed", holds, said)
    on_the_gap(tally, claims)
    return _result(tally, list(MANY), claims, f"The setting of fednewton-fig3-mnist, {ROUNDS} rounds.")


@experiment(
    "fednewton-fig5-mnist-paired",
    paper="FedNewton",
    place="Figure 5, right",
    title="FedNewton and first-order methods on MNIST, seed by seed",
    takes="7 min",
)
def fig5_mnist_paired(seeds: Seeds, quick: bool) -> Result:
    """The order of FedProx, FedAvg and DKRR, and FedNewton's where only sizes differ."""
    tally = drawn(seeds, quick, DIVIDED, LAST)
    claims, at = Claims(quick), tally.measured
    label, sizes = DIVIDED
    for case in DIVIDED:
        best = best_of(tally, case)
        for one, other in (("FedProx", "FedAvg"), ("FedAvg", "DKRR"), ("FedProx", "DKRR")):
            holds, said = above({f"round {LAST}": (at(case, one), at(case, other))})
            claims.add(f"MNIST, {case}: {one} > {other}, by seed", holds, said)
        holds, said = above({f"{best}, round {LAST}": (at(case, "FedProx"), at(case, best))})
        claims.add(f"MNIST, {case}: FedProx > FedAvg with its best step, by seed", holds, said)
        far = at(case, "KRR").mean - at(case, "DKRR").mean
        moved = {name: (at(case, name).mean - at(case, "DKRR").mean) / far for name in AVERAGED}
        said = ", ".join(f"{name}: {100 * share:.2g} %" for name, share in moved.items())
        said = f"of the mean way from DKRR to KRR in {LAST} rounds: {said}"
        claims.add(f"MNIST, {case}: FedAvg converges slowly, by seed", abs(moved["FedAvg"]) <= SLOW, said)
        claims.add(
            f"MNIST, {case}: FedAvg converges slowly with every step", max(map(abs, moved.values())) <= SLOW, said
        )
        way, first = (at(case, name).mean - at(case, "DKRR").mean for name in ("FedProx", "FedProx, 1"))
        said = f"FedProx is {first:+.3f} points from DKRR after one round and {way:+.3f} after {LAST}"
        claims.add(
            f"MNIST, {case}: FedProx moves in round 1 and then slowly, by seed", way > 0 and first > way / 2, said
        )
    others = ("DKRR", "FedProx", *AVERAGED)
    for t in ("#2", "#8"):
        holds, said = above({name: (at(sizes, t), at(sizes, name)) for name in others})
        claims.add(f"MNIST, {sizes}: {t} is better than all others after {LAST} rounds, by seed", holds, said)
    return _result(tally, [label, sizes], claims, f"The setting of fednewton-fig5-mnist, {LAST} rounds, #t as headed.")
