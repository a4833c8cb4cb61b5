"""SHED, Figures 8 and 9 at other gaps than 1e-10: the paper does not say at which gap a method has converged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fedsolve.reproduce.claims import NOTHING_TO_COMPARE, stated
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.reproduce.shed.comparison import DEGRADED, GAP, NOT_DEGRADED, Comparison, Make, compare
from fedsolve.reproduce.shed.image_claims import LARGE, SIMILAR
from fedsolve.reproduce.shed.logistic import HURRIED, MOST, MOST_QUICK, PATIENT, posed
from fedsolve.reproduce.shed.methods import FEDNL, FIB, FIB_PLUS, GN

GAPS = (1e-4, 1e-6, 1e-8)  # beside 1e-10
IID, SKEWED = "iid, μ = {:g}", "one other class per agent, μ = {:g}"
MUS = (1e-5, 1e-6)
METHODS = [FIB, FIB_PLUS, GN, PATIENT, FEDNL]
Answer = tuple[float, bool]  # a ratio of rounds or vectors, and what the rule says of it


def _rounds(found: Comparison, problem: str, method: str, gap: float) -> Measured:
    return Measured(tuple(one.rounds(gap) for one in found.traces[problem, method]))


def _vectors(found: Comparison, problem: str, method: str, gap: float) -> Measured:
    return Measured(tuple(one.until(gap, one.vectors) for one in found.traces[problem, method]))


def _answers(found: Comparison, mu: float, gap: float) -> dict[str, Answer]:
    """Sentences of section 6.7.2 as ratios of medians."""
    iid, skewed = IID.format(mu), SKEWED.format(mu)

    def at(problem: str, method: str) -> float:
        return _rounds(found, problem, method, gap).median

    degraded, steady = at(skewed, PATIENT.name) / at(iid, PATIENT.name), at(skewed, FIB.name) / at(iid, FIB.name)
    slower = {one: at(one, FEDNL.name) / at(one, FIB.name) for one in (iid, skewed)}
    alike = [at(iid, one.name) for one in (FIB, FIB_PLUS, GN, PATIENT)]
    sent = _vectors(found, iid, PATIENT.name, gap).median / _vectors(found, iid, FIB.name, gap).median
    return {
        f"GIANT degrades, at least {DEGRADED} times the rounds": (degraded, degraded >= DEGRADED),
        f"Fib-SHED does not, at most {NOT_DEGRADED} times": (steady, steady <= NOT_DEGRADED),
        f"iid, FedNL takes at least {LARGE} times Fib-SHED's rounds": (slower[iid], slower[iid] >= LARGE),
        f"one other class per agent, FedNL takes at least {LARGE} times": (slower[skewed], slower[skewed] >= LARGE),
        f"iid, the methods are within {SIMILAR:g} times": (max(alike) / min(alike), max(alike) <= SIMILAR * min(alike)),
        "iid, GIANT sends less than Fib-SHED": (sent, sent < 1),
    }


def giant_ahead(ratios: Mapping[str, float]) -> Verdict:
    """Section 7: “GIANT may perform better under certain conditions”. Ratios are GIANT's count over Fib-SHED's."""
    ahead = {where: ratio for where, ratio in ratios.items() if ratio < 1}
    listed = ", ".join(f"{ratio:.3g} times the {where}" for where, ratio in ahead.items())
    return Verdict(bool(ahead), f"{len(ahead)} of {len(ratios)} counts" + (f": {listed}" if ahead else ""))


def _giant(found: Comparison) -> dict[str, float]:
    """GIANT's rounds and vectors over Fib-SHED's with iid data, medians; infinite where GIANT did not arrive."""
    counts = {"rounds": _rounds, "vectors": _vectors}
    return {
        f"{name} to {gap:g} at μ = {mu:g}": count(found, IID.format(mu), PATIENT.name, gap).median
        / count(found, IID.format(mu), FIB.name, gap).median
        for mu in MUS
        for gap in (*GAPS, GAP)
        for name, count in counts.items()
    }


def _text(ratio: float) -> str:
    return f"{ratio:.3g}" if np.isfinite(ratio) else "not reached"


@experiment(
    "shed-gaps",
    paper="SHED",
    place="section 6.7.2",
    title="Figures 8 and 9 at other gaps than 1e-10",
    takes="28 min",
)
def other_gaps(seeds: Seeds, quick: bool) -> Result:
    """Whether the answers depend on the gap at which rounds are counted."""
    kinds: Mapping[str, Callable[[float], str]] = {"iid": IID.format, "skewed": SKEWED.format}
    problems: dict[str, Make] = {
        name(mu): partial(posed, dataset="fashion_mnist", mu=mu, iid=kind == "iid", quick=quick)
        for mu in MUS
        for kind, name in kinds.items()
    }
    hurried = [HURRIED if one is PATIENT else one for one in METHODS]
    methods = {name: METHODS if name.endswith(f"{MUS[0]:g}") else hurried for name in problems}
    found = compare(seeds, problems, methods, MOST_QUICK if quick else MOST)
    claims = []
    for mu in MUS:
        usual, others = _answers(found, mu, GAP), [_answers(found, mu, gap) for gap in GAPS]
        for claim, (ratio, holds) in usual.items():
            told = [f"{_text(one[claim][0])} at {gap:g}" for one, gap in zip(others, GAPS, strict=True)]
            said = f"{'yes' if holds else 'no'}, {_text(ratio)} at {GAP:g}; {', '.join(told)}"
            same = all(one[claim][1] == holds for one in others)
            known = not np.isnan([ratio, *(one[claim][0] for one in others)]).any()
            verdict = stated(same, said, quick) if known else NOTHING_TO_COMPARE
            claims.append((f"μ = {mu:g}, the same at every gap: {claim}", verdict))
    ahead = giant_ahead(_giant(found))
    claims.append(
        ("iid, somewhere GIANT takes fewer rounds or sends less", stated(bool(ahead.holds), ahead.said, quick))
    )
    whole = "{:,.0f}".format
    return Result(
        columns=(
            Column("problem"),
            Column("method"),
            *(Column(f"rounds to {gap:g}", whole, infinite="not reached") for gap in (*GAPS, GAP)),
        ),
        rows=[
            (problem, method, *(_rounds(found, problem, method, gap) for gap in (*GAPS, GAP)))
            for problem, method in found.traces
        ],
        claims=claims,
        notes=found.notes,
    )
