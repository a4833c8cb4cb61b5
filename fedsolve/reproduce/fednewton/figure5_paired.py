"""FedNewton, Figure 5 (left), seed by seed: the order of the methods, and why FedProx is there after one round."""

from __future__ import annotations

from itertools import islice

import numpy as np

from fedsolve.algorithms import FedProx
from fedsolve.losses import Squared
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.figure3_paired import LEFT
from fedsolve.reproduce.fednewton.figure5 import ALPHA, BETAS, CLIENTS, EACH, FROM, LAST, WITHIN
from fedsolve.reproduce.fednewton.methods import ROUNDS
from fedsolve.reproduce.fednewton.paired import AVERAGED, RULE, best_step, distance, everywhere, traces
from fedsolve.reproduce.fednewton.synthetic import SETTING, problem
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

SLOW = 0.1  # of the way to FedNewton's end in 20 rounds, as on MNIST
FURTHER = 10.0  # times as far: the start is why FedProx is near its end after one round
ZERO = "FedProx from zero"
ITERATIVE = ("FedNewton", "FedProx", *AVERAGED, ZERO)

Case = tuple[float, float]  # β, round


def judge(tally: Tally[Case], beta: float, claims: Claims) -> None:
    """The sentences of section 7.1, for one reading of γ = 0.001."""

    def at(name: str, t: int) -> Measured:
        return tally.measured((beta, t), name)

    dkrr, end = at("FedNewton", 0), f"β = {beta:g}, by seed"
    printed, best = at("FedAvg", ROUNDS), best_step(tally, (beta, ROUNDS))
    for claim, name, one, other in (
        ("FedNewton < FedProx", "", at("FedNewton", ROUNDS), at("FedProx", ROUNDS)),
        ("FedProx < FedAvg", "", at("FedProx", ROUNDS), printed),
        ("FedAvg < DKRR", "", printed, dkrr),
        ("FedProx < FedAvg with its best step", best, at("FedProx", ROUNDS), at(best, ROUNDS)),
        ("FedNewton < FedAvg with its best step", best, at("FedNewton", ROUNDS), at(best, ROUNDS)),
        ("FedAvg with its best step < DKRR", best, at(best, ROUNDS), dkrr),
    ):
        holds, said = everywhere({name or f"round {ROUNDS}": (one, other)})
        claims.add(f"{claim} after {ROUNDS} rounds, {end}", holds, said)
    far = [distance(at("FedNewton", t), at("KRR", 0)) for t in range(FROM, LAST + 1)]
    said = f"at most {max(one.median for one in far):.1e} in the median, {max(one.mean for one in far):.1e} in the mean"
    claims.add(
        f"FedNewton within {WITHIN:g} of KRR from round {FROM}, {end}", max(one.median for one in far) <= WITHIN, said
    )
    over = far[0].mean / distance(dkrr, at("KRR", 0)).mean
    said = f"{100 * over:.2g} % of DKRR's mean distance in round {FROM}"
    claims.add(f"FedNewton leaves a tenth of DKRR's distance from KRR in round {FROM}, {end}", over <= LEFT, said)
    holds, said = everywhere({f"round {LAST}": (at("FedNewton", LAST), at("FedProx", LAST))})
    claims.add(f"FedProx stays above FedNewton, {end}", holds, said)
    way = dkrr.mean - at("FedProx", LAST).mean
    first = (dkrr.mean - at("FedProx", 1).mean) / way
    said = f"{100 * first:.0f} % of its mean way to round {LAST} in round 1"
    claims.add(f"FedProx moves in round 1 and then slowly, {end}", way > 0 and first > 0.5, said)
    left = {name: distance(at(name, 1), at(name, LAST)).mean for name in ("FedProx", ZERO)}
    share = (at(ZERO, 0).mean - at(ZERO, 1).mean) / (at(ZERO, 0).mean - at(ZERO, LAST).mean)
    said = f"after round 1 {left[ZERO]:.1e} from its error in round {LAST} if begun at zero, {left['FedProx']:.1e} if "
    said += f"begun at DKRR; from zero that is {100 * share:.1f} % of its way"
    claim = f"FedProx is {FURTHER:g} times as far from its end after round 1 if begun at zero, {end}"
    claims.add(claim, left[ZERO] >= FURTHER * left["FedProx"], said)
    whole = dkrr.mean - at("FedNewton", LAST).mean
    moved = {name: (dkrr.mean - at(name, LAST).mean) / whole for name in AVERAGED}
    said = ", ".join(f"{name}: {100 * share:.2g} %" for name, share in moved.items())
    said = f"of the mean way from DKRR to where FedNewton ends, in {LAST} rounds: {said}"
    claims.add(f"FedAvg converges slowly, {end}", abs(moved["FedAvg"]) <= SLOW, said)
    claims.add(f"FedAvg converges slowly with every step, {end}", max(map(abs, moved.values())) <= SLOW, said)


@experiment(
    "fednewton-fig5-paired",
    paper="FedNewton",
    place="Figure 5, left",
    title="FedNewton and first-order methods, round by round and seed by seed",
    takes="1 min",
    seeds=40,
    quick_seeds=3,
)
def fig5_paired(seeds: Seeds, quick: bool) -> Result:
    """FedNewton reaches KRR; FedProx is better than DKRR and FedAvg hardly leaves it."""
    betas = BETAS[:1] if quick else BETAS
    loss = Squared(l2=SETTING.l2)
    tally = Tally[Case]()
    for seed, beta in seeds.over(betas):
        posed = problem(CLIENTS, EACH, ALPHA, seed, beta=beta)
        found = traces(posed.clients, SETTING, posed.test_error, LAST)
        zero = np.zeros(posed.features.shape[1])
        path = iterates(FedProx(loss, SETTING.pull), posed.clients, warm_start=zero, keep_caches=True)
        found[ZERO] = [posed.test_error(one.state.w) for one in islice(path, LAST + 1)]
        for t in range(LAST + 1):
            scores = {name: found[name][t] for name in ITERATIVE}
            tally.add((beta, t), {**scores, "KRR": found["KRR"][0]} if t == 0 else scores)
    claims = Claims(quick)
    for beta in betas:
        judge(tally, beta, claims)
    listed = (0, 1, 2, 4, FROM, ROUNDS, LAST)
    return Result(
        columns=(Column("β, round"), *(Column(name, "{:.5f}".format) for name in ITERATIVE)),
        rows=[
            (f"{beta:g}, {t}", *(tally.measured((beta, t), name) for name in ITERATIVE))
            for beta in betas
            for t in listed
        ],
        claims=claims.found,
        notes=(
            f"The setting of fednewton-fig5. Round 0 is DKRR but for {ZERO}. FedAvg with 2 full-batch steps of 0.001 "
            f"(Table 2), and of 0.1, 1 and 1/λ_max; its best step is the best after {ROUNDS} rounds on the test "
            f"points. {RULE}",
        ),
    )
