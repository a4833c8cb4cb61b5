"""FedNewton, Figure 4, seed by seed: clients with different inputs (α) and different models (β)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.figure4 import ALPHAS, BETAS, CLIENTS, EACH
from fedsolve.reproduce.fednewton.figure4_claims import (
    ALIKE,
    NEARER,
    PRINTED_SHIFT,
    REMARKABLE,
    SMALL,
    Case,
    crossings,
)
from fedsolve.reproduce.fednewton.methods import ROUNDS
from fedsolve.reproduce.fednewton.paired import RULE, SURE, below, by_heading, chain, distance, everywhere, traces
from fedsolve.reproduce.fednewton.paired import logarithms as logs
from fedsolve.reproduce.fednewton.synthetic import SETTING, problem
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.reproduce.tally import Tally

COMPARED = ("KRR", "DKRR", "FedAvg", "FedProx", "#1", "#2", "#4", "#8")
NEAR = 0.05  # of a printed threshold: it is that one
TOLERATED = 1.1  # times the error without shifts: a method tolerates them


def _of(tally: Tally[Case], case: Case, name: str) -> Measured:
    return tally.measured(case, name)


def _far(tally: Tally[Case], case: Case, name: str) -> Measured:
    return distance(_of(tally, case, name), _of(tally, case, "KRR"))


def _nearing(tally: Tally[Case], some: Sequence[Case], index: int) -> tuple[bool, str]:
    """Whether DKRR, #2, #4 and #8 come closer to KRR in turn, in every one of the cases."""
    found = {case: chain([_far(tally, case, name) for name in ("DKRR", "#2", "#4", "#8")]) for case in some}
    said = ", ".join(f"{errors:+.1f} at {case[index]:g}" for case, (_, errors) in found.items())
    return all(holds for holds, _ in found.values()), f"least step in standard errors {said}"


def inputs(tally: Tally[Case], left: Sequence[Case], claims: Claims) -> None:
    """Sentences 1) to 3) on data heterogeneity."""
    small, first, last = [case for case in left if case[0] <= SMALL], left[0], left[-1]
    pairs = {f"α = {case[0]:g}": (_of(tally, case, "#8"), _of(tally, case, "DKRR")) for case in small}
    holds, said = everywhere(pairs)
    claims.add("small α: FedNewton has a lower error than DKRR, by seed", holds, said)
    least = min(below(*pair)[0] for pair in pairs.values())
    left_over = max(_far(tally, case, "#8").mean / _far(tally, case, "DKRR").mean for case in small)
    said = f"{said}; at most {left_over:.1e} times as far from KRR's in the mean"
    claims.add(
        "small α: … by at least 1 %, and ten times as close to KRR's, by seed",
        holds and least >= REMARKABLE and left_over <= NEARER,
        said,
    )
    claims.add("small α: more rounds come closer to KRR, by seed", *_nearing(tally, small, 0))
    apart = {f"α = {case[0]:g}": (_of(tally, case, "KRR"), _of(tally, case, "DKRR")) for case in small}
    holds, said = everywhere(apart)
    claims.add("small α: DKRR's error stays above KRR's, by seed", holds, f"KRR {said}")
    rising, errors = chain([_of(tally, last, name) for name in ("#8", "#4", "#2", "#1")])
    share, worse = below(_of(tally, last, "DKRR"), _of(tally, last, "#8"))
    said = f"α = {last[0]:g}: from #1 to #8 by {errors:.1f} standard errors or more, DKRR {100 * share:.3g} % below #8"
    claims.add("large α: more rounds hurt, by seed", rising and worse > SURE, said)
    grown = {
        name: Measured(tuple(np.subtract(logs(_of(tally, last, name)).values, logs(_of(tally, first, name)).values)))
        for name in COMPARED
    }
    more = [a - b for a, b in zip(grown["#8"].values, grown["DKRR"].values, strict=True)]
    error = float(np.std(more, ddof=1)) / math.sqrt(len(more)) if len(more) > 1 else math.inf
    times = {name: math.exp(one.mean) for name, one in grown.items()}
    said = f"from α = 0 to {last[0]:g} times {times['#8']:.3g} for #8 and {times['DKRR']:.3g} for DKRR"
    claims.add("FedNewton is more sensitive to α than DKRR, by seed", float(np.mean(more)) > SURE * error, said)
    said = f"from α = 0 to {last[0]:g} times " + ", ".join(f"{times[n]:.3g} for {n}" for n in ("FedAvg", "FedProx"))
    holds = max(times["FedAvg"], times["FedProx"]) <= TOLERATED
    claims.add("FedAvg and FedProx tolerate the largest α, within 10 %, by seed", holds, said)


def thresholds(tally: Tally[Case], left: Sequence[Case], claims: Claims) -> None:
    """Where ρ crosses 1 and where DKRR overtakes, in both readings of Δ_Dj."""
    for what, pair in (("ρ crosses 1", ("ρ", None)), ("8 rounds are overtaken by DKRR", ("#8", "DKRR"))):
        for shift in ("Δ_D", "Σ Δ_D"):
            found = crossings(tally, left, pair[0], pair[1], shift)
            said = f"at {found.median:.3g} in the median ({min(found.values):.3g} to {max(found.values):.3g})"
            holds = abs(found.median - PRINTED_SHIFT) <= NEAR * PRINTED_SHIFT
            claims.add(f"{what} at {shift} = {PRINTED_SHIFT}, within 5 % in the median", holds, said)


def models(tally: Tally[Case], right: Sequence[Case], claims: Claims) -> None:
    """Sentences 1) to 3) on model heterogeneity."""
    first, last, some = right[0], right[-1], right[1:]
    worse = {case: {name: below(_of(tally, first, name), _of(tally, case, name)) for name in COMPARED} for case in some}
    holds = all(errors > SURE for _, errors in worse[last].values())
    least = min(share for share, _ in worse[last].values())
    said = f"β = {last[1]:g}: errors without are at least {100 * least:.2g} % lower"
    claims.add("the largest β is worse for all methods, by seed", holds, said)
    missed = [
        f"{case[1]:g} ({', '.join(name for name, (_, errors) in one.items() if errors <= SURE)})"
        for case, one in worse.items()
        if any(errors <= SURE for _, errors in one.values())
    ]
    said = f"not at β = {'; '.join(missed)}" if missed else f"from β = {some[0][1]:g} on"
    claims.add("every β is worse for all methods, by seed", not missed, said)
    small = [case for case in right if case[1] <= SMALL]
    claims.add("small β: more rounds come closer to KRR, by seed", *_nearing(tally, small, 1))
    means = [math.exp(logs(_of(tally, last, name)).mean) for name in COMPARED]
    said = f"β = {last[1]:g}: {min(means):.3g} to {max(means):.3g} in the geometric mean"
    claims.add("large β: all methods end alike, within 10 %, by seed", max(means) <= (1 + ALIKE) * min(means), said)


@experiment(
    "fednewton-fig4-paired",
    paper="FedNewton",
    place="Figure 4",
    title="FedNewton on clients with different inputs or different models, seed by seed",
    takes="2 min",
    seeds=20,
    quick_seeds=3,
)
def fig4_paired(seeds: Seeds, quick: bool) -> Result:
    """Small shifts of the inputs: FedNewton is better; large ones: every round is worse."""
    left: list[Case] = [(alpha, 0.0) for alpha in (ALPHAS[:3:2] + ALPHAS[-1:] if quick else ALPHAS)]
    right: list[Case] = [(0.0, beta) for beta in (BETAS[::3] if quick else BETAS)]
    cases = [*left, *right[1:]]
    tally = Tally[Case]()
    for seed, case in seeds.over(cases):
        posed = problem(CLIENTS, EACH, case[0], seed, beta=case[1])
        shift = posed.data_shift
        tally.add(case, {"ρ": posed.rho, "Δ_D": shift, "Σ Δ_D": CLIENTS * shift})
        tally.add(case, by_heading(traces(posed.clients, SETTING, posed.test_error, ROUNDS), (1, 2, 4, ROUNDS)))
    claims = Claims(quick)
    inputs(tally, left, claims)
    thresholds(tally, left, claims)
    models(tally, right, claims)
    named = ("Δ_D", "Σ Δ_D", "ρ", *COMPARED)
    found: list[tuple[str, Verdict]] = claims.found
    return Result(
        columns=(Column("α, β"), *(Column(name, "{:.4g}".format) for name in named)),
        rows=[(f"{case[0]:g}, {case[1]:g}", *(tally.measured(case, name) for name in named)) for case in cases],
        claims=found,
        notes=(f"The setting of fednewton-fig4, {CLIENTS} clients of {EACH} samples. {RULE}",),
    )
