"""SHED, Figures 8 to 14: logistic regression, SHED beside other methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from fedsolve.report.figures import Figure
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims, at_least, spread, stated, within
from fedsolve.reproduce.figures import distinct_looks, legend_below
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result, Verdict
from fedsolve.reproduce.shed.comparison import Comparison, Counted, Make, compare
from fedsolve.reproduce.shed.heavy_ball import TOLD
from fedsolve.reproduce.shed.image_claims import FAR_WORSE, mont_dec, on_images
from fedsolve.reproduce.shed.methods import (
    AGD_,
    FEDNL,
    FIB,
    FIB_PIPELINED,
    FIB_PLUS,
    GIANT_OWN,
    GN,
    HEAVY,
    MONT_DEC,
    OURS,
    Method,
)
from fedsolve.reproduce.shed.problems import Problem, images, w8a

FEATURES = 300  # of images
MOST, MOST_QUICK = 1600, 250  # rounds that a method is given
IID, SKEWED = "iid", "one other class per agent"
PATIENT = replace(GIANT_OWN, most=6000)  # 2,000 iterations, to measure how much slower it is
HURRIED = replace(GIANT_OWN, most=3000)  # where 6,000 do not suffice either (seen on one split), or agents are many
ARRIVES = replace(GIANT_OWN, most=40_000)  # on digits, where it takes up to 22,201 rounds (seen on one split)
FAR_AWAY = [
    replace(one, most=800) for one in (MONT_DEC, HEAVY, AGD_)
]  # they are far from arriving, and no rule asks for more


def posed(seed: int, dataset: str, mu: float, iid: bool, quick: bool) -> Problem:
    """The problem of the paper; a small one of the same kind in the quick form."""
    if quick:
        return images("emnist_digits", 20, mu, iid=iid, seed=seed, agents=9)
    return w8a(mu, seed=seed) if dataset == "w8a" else images(dataset, FEATURES, mu, iid=iid, seed=seed)


# ── Figures 8, 9, 12 and 13: images ──


def _images(seeds: Seeds, quick: bool, dataset: str, mu: float, methods: list[Method]) -> Result:
    """GIANT takes many more rounds when agents differ; SHED does not."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset=dataset, mu=mu, iid=name == IID, quick=quick) for name in (IID, SKEWED)
    }
    given = [replace(one, most=None) for one in methods] if quick else methods
    found = compare(seeds, problems, given, MOST_QUICK if quick else MOST)
    claims = Claims(quick)
    on_images(found, IID, SKEWED, claims, mild=mu == 1e-5, with_gn=GN in methods)
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=claims.found,
        notes=(*found.notes, TOLD, *(_learned(found, name) for name in problems)),
        draw=found.draw,
    )


def _learned(found: Comparison, problem: str) -> str:
    """A sentence on Fib-SHED and FedNL."""
    shed, learned = (found.measured(problem, one.name, "iterations") for one in (FIB, FEDNL))
    other = spread(learned) if np.isfinite(learned.median) else f"more than {found.most // 2:,}"
    return f"{problem}: Fib-SHED takes {spread(shed)} iterations, FedNL {other}."


WITH_GN = [FIB, FIB_PLUS, GN, FAR_AWAY[0], PATIENT, FEDNL, *FAR_AWAY[1:], FIB_PIPELINED, OURS]
WITH_GN_HURRIED = [HURRIED if one is PATIENT else one for one in WITH_GN]
WITHOUT_GN = [one for one in WITH_GN_HURRIED if one is not GN]
ON_DIGITS = [ARRIVES if one is HURRIED else one for one in WITHOUT_GN]
for _figure, _dataset, _called, _mu, _methods, _takes in (
    (8, "fashion_mnist", "Fashion-MNIST", 1e-5, WITH_GN, "18 min"),
    (9, "fashion_mnist", "Fashion-MNIST", 1e-6, WITH_GN_HURRIED, "22 min"),
    (12, "emnist_digits", "EMNIST digits", 1e-5, ON_DIGITS, "11 min"),
    (13, "emnist_digits", "EMNIST digits", 1e-6, ON_DIGITS, "27 min"),
):
    experiment(
        f"shed-fig{_figure}",
        paper="SHED",
        place=f"Figure {_figure}",
        title=f"Logistic regression on {_called}, μ = {_mu:g}: SHED beside other methods",
        takes=_takes,
    )(partial(_images, dataset=_dataset, mu=_mu, methods=_methods))


# ── Figures 10, 11 and 14 ──

MILD, HARD = "μ = 1e-5", "μ = 1e-8"
ENOUGH = 4400  # rounds for FedNL, to say whether it is more than 8 times slower
SLOWER: Mapping[Method, float] = {FIB: 2.5, FEDNL: 8.0}  # times at μ = 1e-8, according to the paper


@experiment(
    "shed-fig10",
    paper="SHED",
    place="Figure 10",
    title="Logistic regression on Fashion-MNIST: what a small μ costs",
    takes="9 min",
)
def fig10(seeds: Seeds, quick: bool) -> Result:
    """Ill-conditioning slows Fib-SHED less than FedNL."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset="fashion_mnist", mu=mu, iid=False, quick=quick)
        for name, mu in ((MILD, 1e-5), (HARD, 1e-8))
    }
    found = compare(seeds, problems, [FIB, replace(FEDNL, most=ENOUGH), OURS], MOST)
    shed, learned = (found.between(HARD, MILD, one.name, "iterations") for one in SLOWER)
    least = ENOUGH / found.measured(MILD, FEDNL.name, "rounds").median
    known = np.isfinite(learned.median)
    said = f"{spread(learned, 3)} times" if known else f"more than {number(least, 3)} times, where it was stopped"
    enough = learned.median > SLOWER[FEDNL] if known else True if least > SLOWER[FEDNL] else None
    more = learned.median > shed.median if known else True if least > shed.median else None
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=(
            (f"Fib-SHED is about {SLOWER[FIB]} times slower, ± 25 %", within(shed, SLOWER[FIB], 0.25, quick)),
            (f"FedNL is more than {SLOWER[FEDNL]:g} times slower", Verdict(None if quick else enough, said)),
            ("FedNL suffers more", Verdict(None if quick else more, f"{said}, Fib-SHED {spread(shed, 3)}")),
        ),
        notes=(*found.notes, "Slower is by iterations.", _slower_at(found)),
        draw=found.draw,
        printed_by="paper",
    )


def _slower_at(found: Comparison) -> str:
    """The same ratios at other gaps."""
    told = []
    for gap in (1e-4, 1e-6, 1e-8):
        ratios = []
        for method in SLOWER:
            hard, mild = ([one.iterations(gap) for one in found.traces[mu, method.name]] for mu in (HARD, MILD))
            ratios.append(float(np.median(np.divide(hard, mild))))
        told.append(f"to {gap:g} {ratios[0]:.3g} and {ratios[1]:.3g} times")
    return f"At other gaps Fib-SHED and FedNL are slower by these factors: {', '.join(told)}."


TENFOLD = 10.0


@experiment(
    "shed-fig11",
    paper="SHED",
    place="Figure 11",
    title="How often an agent computes its Hessian: Fib-SHED and FedNL",
    takes="6 min",
)
def fig11(seeds: Seeds, quick: bool) -> Result:
    """FedNL computes a Hessian in every iteration, SHED only at renewals."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset=dataset, mu=1e-5, iid=False, quick=quick)
        for name, dataset in (("Fashion-MNIST", "fashion_mnist"), ("EMNIST", "emnist_digits"), ("w8a", "w8a"))
    }
    found = compare(seeds, problems, [FIB, FEDNL], MOST)

    def often(problem: str) -> Verdict:
        ratio = found.ratio(problem, FEDNL.name, FIB.name, "hessians")
        return at_least(ratio, TENFOLD, quick)

    def always(problem: str) -> Verdict:
        counts = [(one.hessians[-1], len(one.gaps)) for one in found.traces[problem, FEDNL.name]]
        return stated(all(a >= b for a, b in counts), f"{counts[0][0]:g} in {counts[0][1] - 1} iterations", quick)

    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[
            *((f"{name}: FedNL computes at least ten times as many Hessians", often(name)) for name in problems),
            *((f"{name}: FedNL computes a Hessian in every iteration", always(name)) for name in problems),
        ],
        notes=(*found.notes, *(_learned(found, name) for name in problems)),
        draw=partial(_draw_hessians, found),
    )


def _draw_hessians(found: Comparison, figure: Figure) -> None:
    """Two bars for each data set, as in the paper, with their medians."""
    axis, places = figure.subplots(), np.arange(len(found.abouts))
    for side, (method, look) in enumerate(distinct_looks([FIB.name, FEDNL.name]).items()):
        counts = [found.measured(problem, method, "hessians").median for problem in found.abouts]
        bars = axis.bar(places + 0.35 * (side - 0.5), counts, 0.33, color=look["color"], label=method)
        axis.bar_label(bars, fmt="{:,.0f}")
    axis.set_xticks(places, list(found.abouts))
    axis.set_yscale("log")
    axis.set_ylim(bottom=1)
    axis.set_ylabel("Hessians computed by an agent until f − f* ≤ 1e-10")
    axis.spines[["top", "right"]].set_visible(False)
    legend_below(figure, [axis])


CLEARLY = 1.25  # times: “significantly outperform”
COUNTED: tuple[Counted, ...] = ("rounds", "vectors")


@experiment(
    "shed-fig14",
    paper="SHED",
    place="Figure 14",
    title="Logistic regression on w8a: SHED beside other methods",
    takes="40 min",
)
def fig14(seeds: Seeds, quick: bool) -> Result:
    """Half of the agents have only one class: GIANT is slow, and FedNL is faster than Fib-SHED."""
    problems: dict[str, Make] = {
        f"μ = {mu:g}": partial(posed, dataset="w8a", mu=mu, iid=False, quick=quick) for mu in (1e-5, 1e-6)
    }
    given = [replace(one, most=None) for one in WITHOUT_GN] if quick else WITHOUT_GN
    found = compare(seeds, problems, given, MOST_QUICK if quick else MOST)

    claims = Claims(quick)
    for name in problems:
        giant = at_least(found.ratio(name, PATIENT.name, FIB.name, "rounds"), FAR_WORSE, quick)
        claims.found.append((f"{name}: GIANT takes at least {FAR_WORSE:g} times Fib-SHED's rounds", giant))
        mont_dec(found, name, claims)
        for ours, counted in product((FIB, FIB_PLUS), COUNTED):
            more = at_least(found.ratio(name, FEDNL.name, ours.name, counted), CLEARLY, quick)
            claim = f"{name}: {ours.name} outperforms FedNL, which takes at least {CLEARLY} times the {counted}"
            claims.found.append((claim, more))
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=claims.found,
        notes=(*found.notes, TOLD, *(_learned(found, name) for name in problems)),
        draw=found.draw,
    )
