"""Su, Xu and Yang (2023), Figure 3: minibatches do not change the estimation error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedsolve.reproduce.claims import REFERENCE, judged
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.nonparametric.figure2 import BATCHES, HOW, exact
from fedsolve.reproduce.nonparametric.homogeneous import ROWS, SETTING
from fedsolve.reproduce.nonparametric.methods import ABOUT, PAPER, methods
from fedsolve.reproduce.nonparametric.minibatches import SIZES, Traced, draw_sizes, panel_title, traced
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

CHANGE = 0.02  # reference: errors change by less than this
LOW = 0.01  # of ‖θ*‖, "low" errors
SAME = 0.03  # the four methods are within this share of the same error, as in Figure 1


def change(found: Traced, size: int, name: str) -> Measured:
    """By seed, the relative change of the last error from all rows to batches."""
    small, whole = np.array(found.errors(size, name).values), np.array(found.errors(ROWS, name).values)
    return Measured(tuple(np.abs(small / whole - 1)))


def apart(found: Traced, size: int) -> Measured:
    """By seed, the largest relative difference of a method's last error from the mean of the four."""
    ends = np.array([found.errors(size, name).values for name in methods()])
    return Measured(tuple(np.max(np.abs(ends / ends.mean(axis=0) - 1), axis=0)))


def _claims(found: Traced, small: Sequence[int], quick: bool) -> Sequence[tuple[str, Verdict]]:
    changes = {(size, name): change(found, size, name) for size in small for name in methods()}
    worst = max(changes, key=lambda case: changes[case].median)
    single = max(max(one.values) for one in changes.values())
    differences = {size: max(apart(found, size).values) for size in (ROWS, *small)}
    widest = max(differences, key=lambda size: differences[size])
    slower = {size: found.arrivals(size, "s = 1").median / found.arrivals(ROWS, "s = 1").median for size in small}
    largest = max(float(one.errors[-1] / one.errors[0]) for some in found.traces.values() for one in some)  # θ_0 = 0
    seeds = len(changes[worst].values)
    return (
        (
            f"no batch size changes the error of a method by {100 * CHANGE:g} %, in every seed",
            Verdict(
                single < CHANGE,
                f"by {100 * single:.1f} % at most; in the median seed by {100 * changes[worst].median:.1f} % "
                f"({worst[1]}, batches of {worst[0]})",
            ),
        ),
        (
            "for every batch size the four methods end within 3 % of the same error, in every seed",
            Verdict(differences[widest] <= SAME, f"{100 * differences[widest]:.1f} % at most, {panel_title(widest)}"),
        ),
        (
            "s = 1 is only a bit slower with batches (the paper)",
            judged(
                all(ratio <= 1 + ABOUT for ratio in slower.values()),
                ", ".join(f"{ratio:.2f} times the rounds with {size}" for size, ratio in slower.items()),
                seeds,
            ),
        ),
        (
            f"for every batch size and method the last error is at most {100 * LOW:g} % of ‖θ*‖, in every seed",
            Verdict(largest <= LOW, f"{100 * largest:.2g} % at most"),
        ),
        exact(found),
    )


@experiment(
    "nonparametric-fig3",
    paper=PAPER,
    place="Figure 3",
    title="Minibatches do not change the estimation error",
    takes="25 s",
)
def fig3(seeds: Seeds, quick: bool) -> Result:
    """With minibatches all methods estimate θ* as well as without."""
    sizes = SIZES[:2] if quick else SIZES
    found = traced(seeds, sizes)
    error = "{:.4f}".format
    return Result(
        columns=(
            Column("batches"),
            *(Column(name, error) for name in methods()),
            Column("rounds of s = 1", "{:.0f}".format),
        ),
        rows=[
            (
                panel_title(size),
                *(found.errors(size, name) for name in methods()),
                found.arrivals(size, "s = 1"),
            )
            for size in sizes
        ],
        claims=_claims(found, sizes[1:], quick),
        notes=(
            f"The error ‖θ − θ*‖ at the end. {SETTING} “Rounds” is the first round with an error of at most 1.1 times "
            "the last one.",
            f"{BATCHES} {HOW}",
            f"{REFERENCE} It gives the 2 %. “A bit slower” means at most 25 % more rounds.",
        ),
        draw=partial(draw_sizes, found, sizes, "errors", "error ‖θ − θ*‖"),
        printed_by="reference",
    )
