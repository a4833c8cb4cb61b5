"""Jadbabaie et al. (2023), Appendix C: how gradients are computed, weights that do nothing, and smaller batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.diagnose import GradientRanks, gradient_ranks
from fedsolve.diagnose.partials import Partials
from fedsolve.diagnose.sample_gradients import SampleGradients
from fedsolve.networks.library import torch_library
from fedsolve.numerics.linalg import to_numpy
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fedlrgd.networks import BATCH, CLASSES, Images, Trained, images, train
from fedsolve.reproduce.fedlrgd.rank_settings import BASE, COORDINATES, SMALLEST
from fedsolve.reproduce.fedlrgd.rank_variants import gradients
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict
from fedsolve.typing import Array

TRAINED = replace(BASE, epochs=10)
SMALLER = replace(BASE, epochs=6, batch=BATCH // 2)
STEP = 0.01  # of Keras's gradient descent
NAMES = ("10 epochs", "… from steps of gradient descent, rounded", "6 epochs, batches of 100")
Found = list[tuple[GradientRanks, GradientRanks, GradientRanks]]  # exact, from steps, smaller batches
Tests = list[tuple[float, float, float]]  # accuracies: all weights, without the small ones, smaller batches
ALIKE, LEAST, BOUND, IDLE = 0.05, 0.95, 10, 0.005


@experiment(
    "fedlrgd-rank-steps",
    paper="FedLRGD",
    place="Appendix C",
    title="Approximate rank of gradients from steps, and what small weights do",
    takes="2 min",
    seeds=1,
)
def steps(seeds: Seeds, quick: bool) -> Result:
    """Two trainings for MNIST; the first one's gradients exactly and from rounded steps."""
    given, k = images("mnist"), 8 if quick else 60
    if quick:
        given = Images(given.X[:2000], given.y[:2000], given.X_test[:500], given.y_test[:500])
    found: Found = []
    tests: Tests = []
    for seed in seeds:
        made, small = train(TRAINED, given, seed), train(SMALLER, given, seed)
        exact = gradients(TRAINED, given, made)
        sources = (exact, Stepped(exact), gradients(SMALLER, given, small))
        one, two, three = (
            gradient_ranks(source, k, coordinates=COORDINATES, smallest=SMALLEST, seed=seed) for source in sources
        )
        found.append((one, two, three))
        tests.append((made.test_accuracy, without_small(made, given), small.test_accuracy))
    return Result(
        columns=(
            Column("gradients"),
            Column("test accuracy", "{:.3f}".format),
            Column("median rank", "{:.0f}".format),
            Column("largest", "{:.0f}".format),
            Column("≤ 10", "{:.1%}".format),
        ),
        rows=[_row(place, found, tests) for place in range(len(NAMES))],
        claims=_claims(found, tests, quick),
        notes=(
            f"MNIST, 784 sigmoid units, Adam, batches of {BATCH}, k = 60, {COORDINATES} coordinates with |θ*| ≥ "
            f"{SMALLEST}, unless a row says otherwise.",
            f"A step is θ − {STEP} ∇f in single precision; the gradient is the difference over {STEP}.",
        ),
    )


def _row(place: int, found: Found, tests: Tests) -> tuple[Cell, ...]:
    return (
        NAMES[place],
        Measured(tuple(one[2 if place == 2 else 0] for one in tests)),
        Measured(tuple(one[place].median for one in found)),
        Measured(tuple(float(one[place].largest) for one in found)),
        Measured(tuple(one[place].at_most(BOUND) for one in found)),
    )


def _claims(found: Found, tests: Tests, quick: bool) -> list[tuple[str, Verdict]]:
    claims = Claims(quick)
    apart = max(abs(one.at_most(BOUND) - two.at_most(BOUND)) for one, two, _ in found)
    claims.add(
        "gradients from one step of gradient descent in single precision: the share of ranks within 10 is the same, to "
        "5 points",
        apart <= ALIKE,
        f"{100 * apart:.1f} points; medians {found[0][0].median:g} and {found[0][1].median:g}",
    )
    lost = max(abs(before - after) for before, after, _ in tests)
    claims.add(
        "weights below 0.005 set to 0: the test accuracy changes by at most 0.5 points",
        lost <= IDLE,
        f"{100 * lost:.2f} points",
    )
    shares = [three.at_most(BOUND) for *_, three in found]
    claims.add(
        "batches of 100 instead of 200: at least 95% of the ranks are at most 10",
        min(shares) >= LEAST and min(test for *_, test in tests) >= 0.9,
        ", ".join(f"{share:.1%}" for share in shares),
    )
    return claims.found


@dataclass(frozen=True, eq=False)
class Stepped:
    """The gradients of another source as differences of one step of gradient descent, in single precision."""

    source: SampleGradients
    step: float = STEP

    @property
    def w(self) -> Array:
        return self.source.w

    @property
    def n_samples(self) -> int:
        return self.source.n_samples

    def placed(self, w: Array) -> Array:
        return self.source.placed(w)

    def of(self, rows: Array) -> Partials:
        exact = self.source.of(rows)

        def partials(w: Array, columns: Array) -> Array:
            before = to_numpy(w).reshape(-1)[columns].astype(np.float32)
            after = before - np.float32(self.step) * exact(w, columns).astype(np.float32)
            return np.asarray((before - after) / np.float32(self.step))

        return partials


def without_small(made: Trained, given: Images) -> float:
    """The test accuracy when weights below the threshold are 0."""
    torch = torch_library()
    module = TRAINED.architecture.build(given.X.shape[1], CLASSES)
    kept = np.where(np.abs(made.w) < SMALLEST, 0, made.w).astype(np.float32)
    torch.nn.utils.vector_to_parameters(torch.as_tensor(kept), module.parameters())
    with torch.no_grad():
        found = module(torch.as_tensor(np.ascontiguousarray(given.X_test))).argmax(dim=1).numpy()
    return float(np.mean(found == given.y_test))
