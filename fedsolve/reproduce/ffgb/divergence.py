"""Section 6 of Shen et al. (2022): that FedAvg can diverge with a large step size; where, and how large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.algorithms import FedAvg
from fedsolve.federation.client import Client
from fedsolve.federation.transports import InProcess
from fedsolve.local import GradientSteps
from fedsolve.loop.run import run
from fedsolve.loop.stopping import Stopping
from fedsolve.losses import Squared
from fedsolve.losses.network import Network
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.images import small_mnist
from fedsolve.reproduce.ffgb.methods import BATCH, CLIP, PAPER, STEP_SIZES
from fedsolve.reproduce.ffgb.table2 import network, small_arena
from fedsolve.reproduce.ffgb.traces import Arena, accuracy
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

LARGER = (0.3, 1.0, 3.0, 10.0)  # beyond the paper's grid
STEPS = (*STEP_SIZES, *LARGER)
ROUNDS, K = 10, 5
CURVATURES = ((4.0,), (1.0, 4.0))  # of one client, and of two
Found = dict[str, dict[float, tuple[float, float, float]]]  # accuracy, and the loss over its start: last and largest


def followed(seed: int, quick: bool) -> Found:
    """The small MNIST problem, with gradients clipped as in the paper, and without."""
    images = small_mnist(seed)
    arena, loss = small_arena(images, seed), network(images)
    found: Found = {}
    for name, clip in (("clipped", CLIP), ("not clipped", None)):
        found[name] = {step: _ends(arena, loss, step, clip, quick) for step in STEPS}
    return found


def _ends(arena: Arena, loss: Network, step: float, clip: float | None, quick: bool) -> tuple[float, float, float]:
    """0 and infinite where weights are no longer finite."""
    local = GradientSteps(step_size=step, epochs=1 if quick else 10, batch_size=BATCH, clip=clip)
    done = run(
        FedAvg(loss, local),
        InProcess(arena.clients, together=True),
        stopping=Stopping(rounds=1 if quick else ROUNDS, tolerance=None),
        min_rows=0,
        seed=arena.seed,
    )
    values = [float("nan") if row.value is None else row.value for row in done.history]
    if not np.isfinite(values).all():
        return 0.0, float("inf"), float("inf")
    return accuracy(done.model, arena.X_test, arena.y_test), values[-1] / values[0], max(values) / values[0]


def threshold(curvatures: Sequence[float]) -> float:
    """The least step size with |mean (1 − ηλ)^K| > 1: FedAvg on quadratics of these curvatures and one solution."""
    from scipy.optimize import brentq

    def excess(eta: float) -> float:
        return abs(float(np.mean((1 - eta * np.array(curvatures)) ** K))) - 1

    grid = np.linspace(1e-6, 4, 4001)
    first = next(place for place, eta in enumerate(grid) if place and excess(eta) > 0)
    return float(brentq(excess, grid[first - 1], grid[first], xtol=1e-14))


def quadratics(curvatures: Sequence[float], eta: float, rounds: int = 300) -> float:
    """|w − 1| after these rounds of FedAvg with K full steps, from w = 0, where it is 1."""
    clients = [
        Client(f"c{i}", np.full((2, 1), np.sqrt(one)), np.full(2, np.sqrt(one))) for i, one in enumerate(curvatures)
    ]
    local = GradientSteps(steps=K, step_size=eta)
    done = run(FedAvg(Squared(intercept=None), local), clients, rounds=rounds, tolerance=0, min_rows=0, measure=0)
    return float(abs(done.model.w[0] - 1))


def claims(every: Sequence[Found], quick: bool) -> list[tuple[str, Verdict]]:
    """The rules were written before the first run; a claim holds if it holds in every seed."""

    def of(name: str, steps: Sequence[float], place: int = 1) -> str:
        return "; ".join(f"{step:g}: " + ", ".join(f"{one[name][step][place]:.3g}" for one in every) for step in steps)

    found = []
    for name in ("clipped", "not clipped"):
        diverges = all(any(one[name][step][1] > 1 for step in LARGER) for one in every)
        grows = all(any(one[name][step][2] > 2 for step in LARGER) for one in every)
        accuracies = f"; accuracies: {of(name, STEPS, 0)}"
        found.append(
            (
                f"MLP on MNIST, {name}: with some step size up to 10 the training loss ends above its start",
                stated(diverges, of(name, STEPS) + accuracies, quick),
            )
        )
        found.append((f"… {name}: in some round it is twice its start", stated(grows, of(name, STEPS, 2), quick)))
    inside = all(one["clipped"][step][1] < 1 for one in every for step in STEP_SIZES)
    found.append(
        ("… with the paper's, 0.01 to 0.1, clipped, it ends below", stated(inside, of("clipped", STEP_SIZES), quick))
    )
    most = [max(one["clipped"], key=lambda step: one["clipped"][step][0]) for one in every]
    found.append(
        (
            "… and the best accuracy is that of one of these",
            stated(
                all(one in STEP_SIZES for one in most), f"the best is {', '.join(f'{one:g}' for one in most)}", quick
            ),
        )
    )
    for curvatures in CURVATURES:
        edge = threshold(curvatures)
        above, below = (quadratics(curvatures, share * edge) for share in (1.01, 0.99))
        name = "one quadratic client: the threshold is 2/L" if len(curvatures) == 1 else "two quadratic clients"
        holds = above > 10 and below < 0.1 and (len(curvatures) > 1 or abs(edge * max(curvatures) - 2) < 1e-9)
        said = f"threshold {edge:.4f}; |w − w*|, 1 at the start, is {above:.1e} with 1.01 of it, {below:.1e} with 0.99"
        found.append((f"{name}, above it FedAvg diverges, below it converges", Verdict(holds, said)))
    return found


@experiment(
    "ffgb-divergence",
    paper=PAPER,
    place="Section 6",
    title="FedAvg with large step sizes",
    takes="4 min",
    seeds=5,
)
def divergence(seeds: Seeds, quick: bool) -> Result:
    """The small MNIST problem over step sizes, and quadratics whose threshold is known."""
    every = [followed(seed, quick) for seed in seeds]
    rows: list[tuple[str | float | Measured, ...]] = [
        (name, step, *(Measured(tuple(one[name][step][place] for one in every)) for place in range(3)))
        for name in every[0]
        for step in STEPS
    ]
    return Result(
        columns=(
            Column("gradients"),
            Column("step size", "{:g}".format),
            Column("accuracy", "{:.3f}".format),
            Column("loss over that at the start", "{:.3g}".format),
            Column("the largest", "{:.3g}".format),
        ),
        rows=rows,
        claims=claims(every, quick),
        notes=(
            f"The MLP and the MNIST rows of ffgb-table2, not the paper's CNN: 50 clients, s = 0.1, {ROUNDS} rounds of "
            f"10 epochs in batches of {BATCH}; clipped is to norm {CLIP:g}.",
            f"Quadratics: curvatures 4, and 1 and 4, the same solution at all clients, K = {K} full steps, 300 rounds.",
        ),
    )
