"""FedNewton, Figure 3 (right): MNIST near the threshold, with more rounds than the eight of the figure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

from fedsolve.algorithms import FedNewton
from fedsolve.data import IID
from fedsolve.losses import Squared
from fedsolve.report.figures import Figure
from fedsolve.reproduce.fednewton.methods import pooled
from fedsolve.reproduce.fednewton.mnist import CASE, NEAR, Posed
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

SIZES = {18: 3333, 24: 2500}  # clients, and the samples of each
MOST = 40  # rounds
LISTED = (0, 1, 2, 4, 8, 16, 24, 32, 40)

Traces = Mapping[int, list[list[float]]]  # accuracies after 0, 1, … rounds by clients and seed


def _claims(traces: Traces, krr: Mapping[int, list[float]]) -> list[tuple[str, Verdict]]:
    many, few = SIZES

    def told(m: int) -> str:
        ends, starts = ([path[t] for path in traces[m]] for t in (MOST, 0))
        said = f"{min(ends):.2f} to {max(ends):.2f} after {MOST} rounds, DKRR {min(starts):.2f} to {max(starts):.2f}, "
        return said + f"KRR {min(krr[m]):.2f} to {max(krr[m]):.2f}"

    near = all(abs(path[MOST] - value) <= NEAR for path, value in zip(traces[many], krr[many], strict=True))
    return [
        (
            f"n = {SIZES[few]}: {MOST} rounds are worse than DKRR",
            Verdict(all(path[MOST] < path[0] for path in traces[few]), told(few)),
        ),
        (f"n = {SIZES[many]}: {MOST} rounds have reached KRR", Verdict(near, told(many))),
    ]


@experiment(
    "fednewton-fig3-mnist-late",
    paper="FedNewton",
    place="Figure 3, right",
    title="FedNewton on MNIST near the threshold, with more rounds",
    takes="4 min",
    seeds=3,
)
def fig3_mnist_late(seeds: Seeds, quick: bool) -> Result:
    """Where ρ is a little above 1 eight rounds still help and forty do not."""
    loss = Squared(l2=CASE.setting.l2)
    traces: dict[int, list[list[float]]] = {m: [] for m in SIZES}
    krr: dict[int, list[float]] = {m: [] for m in SIZES}
    rho: dict[int, list[float]] = {m: [] for m in SIZES}
    size = dict(SIZES)
    posed: Posed | None = None
    for seed, m in seeds.over(SIZES):
        posed = posed if posed is not None and posed.seed == seed else Posed(quick, seed)
        clients = posed.clients(IID(), m)
        size[m] = min(client.n_samples for client in clients)
        path = islice(iterates(FedNewton(loss), clients, keep_caches=True), MOST + 1)  # begins at DKRR
        traces[m].append([posed.accuracy(one.state.w) for one in path])
        krr[m].append(posed.accuracy(pooled(loss, clients)))
        rho[m].append(posed.rho(clients, loss.l2))

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        curves = {f"n = {n}, ρ = {np.median(rho[m]):.2f}": over_rounds(traces[m]) for m, n in size.items()}
        draw_curves(axis, curves, log=False, band=False)
        axis.axhline(float(np.median(krr[18])), color="black", linestyle=":", label="KRR")
        axis.set_ylim(80, 96)
        axis.set_ylabel("accuracy of FedNewton, %, median")
        legend_below(figure, [axis])

    claims = _claims(traces, krr)
    return Result(
        columns=(
            Column("m, n"),
            Column("ρ"),
            Column("KRR", "{:.2f}".format, average="mean"),
            *(Column(f"#{t}" if t else "DKRR", "{:.2f}".format, average="mean") for t in LISTED),
        ),
        rows=[
            (
                f"{m}, {n}",
                Measured(tuple(rho[m])),
                Measured(tuple(krr[m])),
                *(Measured(tuple(path[t] for path in traces[m])) for t in LISTED),
            )
            for m, n in size.items()
        ],
        claims=[(claim, Verdict(None, one.said) if quick else one) for claim, one in claims],
        notes=(
            "As fednewton-fig3-mnist, after which it was written, to explain it. Test accuracy in per cent, mean ± "
            f"standard deviation. FedNewton has reached KRR if it is within {NEAR} points of it in every seed.",
        ),
        draw=draw,
    )
