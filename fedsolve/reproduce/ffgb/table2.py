"""Shen et al. (2022), Table 2: how many models are transmitted until the test accuracy is moderate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, isfinite

from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.full_settings import COLUMNS
from fedsolve.reproduce.ffgb.full_table import in_full
from fedsolve.reproduce.ffgb.images import Images, small_mnist
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDAVG_DISTILL, FEDDYN, FFGB, GRIDS, METHODS, PAPER, Method
from fedsolve.reproduce.ffgb.parts import Part
from fedsolve.reproduce.ffgb.traces import Arena
from fedsolve.reproduce.ffgb.tuning import Budget, tuned
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

CLIENTS, HOMOGENEITY = 50, 0.1
TARGETS = (0.75, 0.84)
# The most rounds, and those after which step sizes are compared.
BUDGETS = {FFGB: Budget(5), FEDAVG_DISTILL: Budget(20, 1), FEDDYN: Budget(60, 6), FEDAVG: Budget(60, 10)}
WITHIN = {FFGB: (1, 3)}  # models to the two targets, at most
ABOUT = {FEDDYN: 10, FEDAVG: 30}  # reference, to the higher target
SETTING = (
    f"{CLIENTS} clients of 100 rows each, s = {HOMOGENEITY}: a tenth of the rows is divided at random, the rest by "
    "label. The paper's local budgets: 100 epochs of Adam at clients and server for FFGB-Distill, 100 epochs of SGD "
    "for FedAvg-Distill, 10 for the others."
)
Found = Mapping[Method, Sequence[Part]]


def small_arena(images: Images, seed: int) -> Arena:
    """The small setting: 50 clients, and the server's rows."""
    clients = images.clients(HOMOGENEITY, CLIENTS, seed)
    return Arena(clients, images.server(), images.X_test, images.y_test, seed)


def network(images: Images) -> Network:
    """The network that all methods train on these images."""
    return Network(images.architecture, Softmax(classes=images.classes))


def shortened(budget: Budget) -> Budget:
    """A budget to try an experiment with: few rounds of a tenth of the epochs."""
    return Budget(min(budget.rounds, 3), 1, 0.1)


@experiment(
    "ffgb-table2",
    paper=PAPER,
    place="Table 2",
    title="Models transmitted until the test accuracy is moderate",
    takes="6 min",
    seeds=2,
    full=partial(in_full, COLUMNS),
)
def table2(seeds: Seeds, quick: bool) -> Result:
    """Each method with the best step size of its grid, until 0.84."""
    found: dict[Method, list[Part]] = {method: [] for method in METHODS}
    images = None
    for seed, name in seeds.over([method.name for method in METHODS]):
        method = next(one for one in METHODS if one.name == name)
        if images is None or method is METHODS[0]:
            images = small_mnist(seed)
            arena, loss = small_arena(images, seed), network(images)
        budget = shortened(BUDGETS[method]) if quick else BUDGETS[method]
        part, _ = tuned(arena, method, loss, budget, TARGETS[-1])
        found[method].append(part)
    assert images is not None
    return Result(
        columns=columns(TARGETS),
        rows=[row(method, found[method], TARGETS) for method in METHODS],
        claims=_claims(found, quick),
        notes=(
            f"{images.about}. {SETTING}",
            GRIDS,
            "A step size is chosen by the accuracy after a few rounds "
            f"({', '.join(f'{method.name}: {one.pilot}' for method, one in BUDGETS.items() if one.pilot)}).",
            "A round transmits one model to each client and one back. “–” means not within "
            f"{', '.join(f'{one.rounds} ({method.name})' for method, one in BUDGETS.items())} rounds.",
        ),
        draw=partial(_draw, found),
        printed_by="reference",
    )


def columns(targets: Sequence[float]) -> tuple[Column, ...]:
    """A column for each target, the chosen step size, and the seconds of a round."""
    return (
        Column("method"),
        *(Column(f"models to {target:g}", "{:.0f}".format, infinite="–") for target in targets),
        Column("after 1 round", "{:.3f}".format),
        Column("step size"),
        Column("s per round", "{:.1f}".format),
    )


def row(method: Method, parts: Sequence[Part], targets: Sequence[float]) -> tuple[Cell, ...]:
    """A method's row of the table."""
    traces = [part.trace for part in parts]
    reference = {targets[-1]: ABOUT.get(method)}
    sizes = sorted({part.step_size for part in parts})
    return (
        method.name,
        *(Measured(tuple(one.rounds_to(target) for one in traces), reference.get(target)) for target in targets),
        Measured(tuple(one.accuracies[min(1, one.rounds)] for one in traces)),
        ", ".join(f"{one:g}" for one in sizes),
        Measured(tuple(one.seconds for one in traces)),
    )


def _claims(found: Found, quick: bool) -> list[tuple[str, Verdict]]:
    claims = []
    for method, bounds in WITHIN.items():
        for target, most in zip(TARGETS, bounds, strict=True):
            each = [part.trace.rounds_to(target) for part in found[method]]
            said = ", ".join(f"{one:.0f}" if isfinite(one) else "not reached" for one in each)
            words = f"{method.name} reaches {target:g} within {most} round{'s' if most > 1 else ''}, with every seed"
            claims.append((words, stated(max(each) <= most, said, quick)))
    ours = max(part.trace.rounds_to(TARGETS[-1]) for part in found[FFGB])
    others = {
        method.name: min(part.trace.rounds_to(TARGETS[-1]) for part in parts)
        for method, parts in found.items()
        if method is not FFGB
    }
    said = f"{_count(ours)} against " + ", ".join(f"{_count(one)} ({name})" for name, one in others.items())
    claims.append(
        (
            f"FFGB-Distill is the first at {TARGETS[-1]:g}, as in the paper",
            stated(ours < min(others.values()) and ours < inf, said, quick),
        )
    )
    return claims


def _count(rounds: float) -> str:
    return f"{rounds:.0f}" if isfinite(rounds) else "not reached"


def _draw(found: Found, figure: Figure) -> None:
    axis = figure.subplots()
    curves = {method.name: over_rounds([part.trace.accuracies for part in parts]) for method, parts in found.items()}
    draw_curves(axis, curves, log=False)
    for target in TARGETS:
        axis.axhline(target, color="grey", linewidth=0.8, linestyle=":")
    axis.set_ylabel("test accuracy")
    legend_below(figure, [axis])
