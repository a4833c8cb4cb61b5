"""What section 6.7.2 says of Figures 8 and 9, and section 6.7.3 of Figures 12 and 13, as rules."""

from __future__ import annotations

import numpy as np

from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims, at_least, at_most, times, within
from fedsolve.reproduce.shed.comparison import DEGRADED, NOT_DEGRADED, Comparison, Counted
from fedsolve.reproduce.shed.methods import FEDNL, FIB, FIB_PLUS, GIANT_OWN, GN, MONT_DEC

FAR_WORSE = 2.0  # times the rounds
SIMILAR = 2.0  # times, between the smallest and the largest of “similar” numbers
LARGE = 1.5  # times: a large advantage
SAME = 1.5  # times, for the same amount of data
COMPETITIVE = 1.5  # times GIANT's rounds at most, for SHED to be competitive with it (section 7)
EARLY = 5  # iterations at the beginning
HESSIANS, ROUNDS = 12, 450  # of Fib-SHED at μ = 1e-6, according to the paper
SHARE = 0.25


def mont_dec(found: Comparison, problem: str, claims: Claims) -> None:
    """Mont-Dec beside Fib-SHED+, which sends as much in a round."""
    ratio = found.ratio(problem, MONT_DEC.name, FIB_PLUS.name, "rounds")
    claim = f"{problem}: Mont-Dec takes at least {FAR_WORSE:g} times the rounds of Fib-SHED+, which sends as much"
    claims.found.append((claim, at_least(ratio, FAR_WORSE, claims.quick)))
    gaps = []
    for one, other in zip(found.traces[problem, MONT_DEC.name], found.traces[problem, FIB_PLUS.name], strict=True):
        at = min(EARLY, len(one.gaps) - 1, len(other.gaps) - 1)
        gaps.append(one.gaps[at] / other.gaps[at])
    median = float(np.median(gaps))
    said = f"{number(median, 3)} times the gap of Fib-SHED+"
    claims.add(f"{problem}: after {EARLY} iterations Mont-Dec is as good, at most twice the gap", median <= 2, said)


def on_images(found: Comparison, iid: str, skewed: str, claims: Claims, *, mild: bool, with_gn: bool) -> None:
    """All sentences; `mild` is μ = 1e-5."""
    _on_unlike_agents(found, iid, skewed, claims)
    _on_iid(found, iid, claims, mild, with_gn)
    if with_gn:
        _on_gn(found, iid, skewed, claims)
    for problem in (iid, skewed):
        mont_dec(found, problem, claims)
        ratio = found.ratio(problem, FEDNL.name, FIB.name, "rounds")
        claim = f"{problem}: FedNL is much slower than Fib-SHED, at least {LARGE} times the rounds"
        claims.found.append((claim, at_least(ratio, LARGE, claims.quick)))
        ratio = found.ratio(problem, FEDNL.name, FIB.name, "hessians")
        claim = f"{problem}: FedNL computes at least ten times as many Hessians"
        claims.found.append((claim, at_least(ratio, 10.0, claims.quick)))
    if not mild:
        rounds, hessians = (found.measured(skewed, FIB.name, one) for one in ("rounds", "hessians"))
        claims.found.append(
            (f"Fib-SHED computes {HESSIANS} Hessians, ± 25 %", within(hessians, HESSIANS, SHARE, claims.quick))
        )
        claims.found.append((f"Fib-SHED takes {ROUNDS} rounds, ± 25 %", within(rounds, ROUNDS, SHARE, claims.quick)))
    first = [one.vectors[0] / one.vectors[-1] for one in found.traces[skewed, FEDNL.name]]
    share = float(np.median(first))
    said = f"{100 * share:.0f} % of what FedNL sends until 1e-10"
    claims.add("FedNL's first Hessians weigh on its communication load, at least 10 %", share >= 0.1, said)


def _on_unlike_agents(found: Comparison, iid: str, skewed: str, claims: Claims) -> None:
    slower = {one.name: found.between(skewed, iid, one.name, "rounds") for one in (GIANT_OWN, FIB, FIB_PLUS, FEDNL)}
    claim = f"GIANT degrades on unlike agents: at least {DEGRADED} times the rounds"
    claims.found.append((claim, at_least(slower.pop(GIANT_OWN.name), DEGRADED, claims.quick)))
    for name, ratio in slower.items():
        claim = f"{name} does not: at most {NOT_DEGRADED} times the rounds"
        claims.found.append((claim, at_most(ratio, NOT_DEGRADED, claims.quick)))
    counted: Counted
    for counted in ("rounds", "vectors"):
        rivals = {
            one.name: found.ratio(skewed, one.name, FIB_PLUS.name, counted).median
            for one in (GIANT_OWN, FEDNL, MONT_DEC)
        }
        least = min(rivals, key=lambda name: rivals[name])
        said = f"{least} takes {number(rivals[least], 3)} times those of Fib-SHED+"
        claim = f"{skewed}: Fib-SHED+ has a large advantage in {counted}, at least {LARGE} times"
        claims.add(claim, rivals[least] >= LARGE, said)


def _on_gn(found: Comparison, iid: str, skewed: str, claims: Claims) -> None:
    """What is said of all SHED, or of Fib-SHED and GN-SHED, for GN-SHED."""
    ratio = found.between(skewed, iid, GN.name, "rounds")
    claim = f"{GN.name} does not: at most {NOT_DEGRADED} times the rounds"
    claims.found.append((claim, at_most(ratio, NOT_DEGRADED, claims.quick)))
    for problem in (iid, skewed):
        ratio = found.ratio(problem, FEDNL.name, GN.name, "rounds")
        claim = f"{problem}: FedNL is much slower than GN-SHED, at least {LARGE} times the rounds"
        claims.found.append((claim, at_least(ratio, LARGE, claims.quick)))
        ratio = found.ratio(problem, GN.name, FIB.name, "rounds")
        claim = f"{problem}: GN-SHED takes at most {SIMILAR:g} times Fib-SHED's rounds"
        claims.found.append((claim, at_most(ratio, SIMILAR, claims.quick)))


def _on_iid(found: Comparison, iid: str, claims: Claims, mild: bool, with_gn: bool) -> None:
    giant = found.ratio(iid, GIANT_OWN.name, FIB.name, "rounds")
    vectors = found.ratio(iid, GIANT_OWN.name, FIB.name, "vectors")
    if mild and with_gn:
        rounds = [found.measured(iid, one.name, "rounds").median for one in (FIB, FIB_PLUS, GN, GIANT_OWN)]
        said = f"{number(min(rounds), 4)} to {number(max(rounds), 4)} rounds"
        claim = f"{iid}: Fib-SHED, Fib-SHED+, GN-SHED and GIANT take similar rounds, within {SIMILAR:g} times"
        claims.add(claim, max(rounds) <= SIMILAR * min(rounds), said)
        shares = {one.name: found.ratio(iid, one.name, GIANT_OWN.name, "rounds").median for one in (FIB, FIB_PLUS, GN)}
        claim = f"{iid}: Fib-SHED, Fib-SHED+ and GN-SHED each take at most {COMPETITIVE} times GIANT's rounds"
        said = ", ".join(f"{name} {number(share, 3)} times" for name, share in shares.items())
        claims.add(claim, all(share <= COMPETITIVE for share in shares.values()), said)
        claims.add(f"{iid}: GIANT sends less than Fib-SHED", vectors.median < 1, times(vectors))
    if not mild:
        claims.add(f"{iid}: GIANT takes more rounds than Fib-SHED", giant.median > 1, times(giant))
        same = 1 / SAME <= vectors.median <= SAME
        claims.add(f"{iid}: GIANT sends as much, within {SAME} times", same, times(vectors))
