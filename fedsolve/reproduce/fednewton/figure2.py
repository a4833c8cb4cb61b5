"""FedNewton, Figure 2: how a Dirichlet distribution divides dna among ten clients."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from fedsolve.data import Dirichlet, load, split_indices
from fedsolve.report.figures import COLOURS, Figure
from fedsolve.reproduce.claims import judged
from fedsolve.reproduce.fednewton.table3 import CLIENTS
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result, Verdict
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

CONSTANTS = (0.1, 0.5, 1.0, 10.0, 100.0)
SHOWN = 1.0  # c of Figure 2
DIVIDED = 0.5  # c of section 7.2
SETS = ("dna", "letter", "pendigits", "satimage", "shuttle", "usps", "mnist")
LEAST = 2.0  # the largest client has this many times the rows of the smallest: unbalanced


def counts(y: Array, c: float, seed: int) -> Array:
    """Rows of each class (columns) at each client (rows)."""
    _, codes = np.unique(y, return_inverse=True)
    parts = split_indices(y, Dirichlet(c), clients=CLIENTS, seed=seed)
    return np.array([np.bincount(codes[part], minlength=codes.max() + 1) for part in parts])


def chi_square(table: Array) -> float:
    """Pearson's statistic of clients against classes, over its degrees of freedom: about 1 if labels are alike."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    freedom = int((table.shape[0] - 1) * (table.shape[1] - 1))
    return float(((table - expected) ** 2 / expected).sum()) / freedom


def limit_of(table: Array) -> float:
    """About the 99.9 % point of `chi_square` for labels at random, by the normal approximation."""
    return 1 + 3.1 * math.sqrt(2 / ((table.shape[0] - 1) * (table.shape[1] - 1)))


def every_set(seeds: int, quick: bool) -> tuple[str, Verdict]:
    """Whether Dirichlet(0.5) makes clients of very different sizes and labels on all sets of section 7.2."""
    least, over = {}, {}
    for name in SETS[:1] if quick else SETS:
        y = load(name).y
        tables = [counts(y, DIVIDED, seed) for seed in range(seeds)]
        sizes = [table.sum(axis=1) for table in tables]
        least[name] = min(float(one.max() / max(one.min(), 1)) for one in sizes)
        over[name] = min(chi_square(table[:, table.sum(axis=0) > 0]) / limit_of(table) for table in tables)
    said = ", ".join(f"{name} {times:.2g}" for name, times in least.items())
    said = f"the largest client has at least so many times the rows of the smallest: {said}; χ² is at least "
    said += f"{min(over.values()):.2g} times its 99.9 % point"
    holds = min(least.values()) >= LEAST and min(over.values()) > 1
    return "c = 0.5: clients of every set are unbalanced and have different labels", judged(holds, said, seeds)


def _draw(table: Array, figure: Figure) -> None:
    axis = figure.subplots()
    below = np.zeros(CLIENTS)
    for label, column in enumerate(table.T):
        axis.bar(range(1, CLIENTS + 1), column, bottom=below, color=COLOURS[label], label=f"class {label + 1}")
        below = below + column
    axis.set_xticks(range(1, CLIENTS + 1))
    axis.set_xlabel("client")
    axis.set_ylabel("rows, seed 0")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)


@experiment(
    "fednewton-fig2",
    paper="FedNewton",
    place="Figure 2",
    title="Ten clients of dna, divided by a Dirichlet distribution",
    takes="1 s",
    seeds=20,
    quick_seeds=5,
)
def fig2(seeds: Seeds, quick: bool) -> Result:
    """With c = 1 clients differ in size and in labels; with a larger c less."""
    y = load("dna").y
    tally = Tally[float]()
    for seed, c in seeds.over(CONSTANTS):
        table = counts(y, c, seed)
        sizes = table.sum(axis=1)
        tally.add(c, {"sizes": float(sizes.max() / sizes.min()), "labels": chi_square(table)})
    limit = limit_of(counts(y, SHOWN, 0))
    sizes, labels = tally.measured(SHOWN, "sizes"), tally.measured(SHOWN, "labels")
    medians = [[tally.measured(c, name).median for c in CONSTANTS] for name in ("sizes", "labels")]
    return Result(
        columns=(Column("c"), Column("largest / smallest client"), Column("χ² of labels / degrees of freedom")),
        rows=[(f"{c:g}", tally.measured(c, "sizes"), tally.measured(c, "labels")) for c in CONSTANTS],
        claims=(
            (
                "c = 1: clients are unbalanced",
                judged(
                    min(sizes.values) >= LEAST,
                    f"the largest has {min(sizes.values):.2g} to {max(sizes.values):.2g} times the smallest's rows",
                    len(seeds),
                ),
            ),
            (
                "c = 1: clients have different labels",
                judged(
                    min(labels.values) > limit,
                    f"χ² is {min(labels.values):.3g} to {max(labels.values):.3g} times its degrees of freedom",
                    len(seeds),
                ),
            ),
            (
                "a larger c makes clients more alike",
                judged(
                    all(values == sorted(values, reverse=True) for values in medians),
                    f"medians from {medians[1][0]:.3g} to {medians[1][-1]:.3g} times, labels",
                    len(seeds),
                ),
            ),
            every_set(len(seeds), quick),
        ),
        notes=(
            f"Each class of dna is divided among {CLIENTS} clients by proportions from Dirichlet(c). Unbalanced: the "
            f"largest client has at least {LEAST:g} times the rows of the smallest, in every seed. Different labels: "
            f"χ² over its degrees of freedom above {limit:.2f} in every seed, what labels at random exceed once in "
            "about a thousand. With c = 0.5 the same is asked of "
            f"{', '.join(SETS)}.",
        ),
        draw=partial(_draw, counts(y, SHOWN, 0)),
    )
