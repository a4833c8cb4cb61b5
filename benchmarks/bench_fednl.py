"""A round of FedNL beside a round of exact Newton, and how many there are.

(a) w8a, 142 clients of 350 rows, d = 301 with a penalised constant column, l2 = 1e-3: CPU time of a round of FedNL with
    top-k, k = 8d, and the spectral-norm shift, against one of exact Newton. Wanted: at most 2.0 times.
(b) rounds to ‖g‖ ≤ 1e-10. Wanted: at most 25; on a9a, split alike, at most 21.

Whole runs in turn, one thread, CPU time from the first to the last round by their number, median of 7; what is set up
once per client is done before. Needs w8a and a9a (FEDSOLVE_DATA): scripts/bench fednl. Ends with 1 where one is missed.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.errors import DataError
from fedsolve.federation.transports import InProcess

LOSS = fs.Logistic(l2=1e-3, intercept="penalised")
CLIENTS, TOLERANCE, REPEAT = 142, 1e-10, 7


def transport(name: str) -> InProcess:
    data = fs.data.load(name)
    rows = data.X.shape[0] // CLIENTS * CLIENTS
    clients = fs.data.partition(data.X[:rows], data.y[:rows], fs.data.Contiguous(), clients=CLIENTS)
    return InProcess(clients, keep_caches=True)


def timed(algorithm: Any, road: InProcess) -> tuple[float, fs.Run]:
    """CPU seconds of a round, without the start; and the run."""
    marks: list[float] = []
    run = fs.run(
        algorithm,
        road,
        stopping=fs.Stopping(60, tolerance=None, gradient_norm=TOLERANCE),
        on_round=lambda row: marks.append(time.process_time()),
    )
    return (marks[-1] - marks[0]) / run.rounds, run


def verdict(holds: bool) -> str:
    return "ok" if holds else "MISSED"


def rounds(name: str, run: fs.Run, wanted: int) -> bool:
    last, holds = run.history[-1], run.converged and run.rounds <= wanted
    said = f"{run.rounds} rounds to ‖g‖ = {last.gradient_norm:.1e}, f = {last.value:.15f}"
    print(f"(b) {name}: {said} (wanted ≤ {wanted}) {verdict(holds)}")
    return holds


def main() -> int:
    try:
        road, other = transport("w8a"), transport("a9a")
    except DataError as error:
        print(f"left out: {error}")
        return 0
    sides = {
        "Newton": fs.Newton(LOSS),
        "FedNL": fs.FedNL(LOSS, fs.TopKPairs(8), search=None),
        "FedNL-LS": fs.FedNL(LOSS, fs.TopKPairs(8)),
        "FedNL-LS, Frobenius": fs.FedNL(LOSS, fs.TopKPairs(8), shift="frobenius"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    runs: dict[str, fs.Run] = {}
    for repeat in range(REPEAT + 1):
        for name, algorithm in sides.items():
            spent, runs[name] = timed(algorithm, road)
            if repeat:  # the first sets up what is kept
                seconds[name].append(spent)
    newton, held = median(seconds["Newton"]), True
    print(f"    Newton: {newton * 1e3:.1f} ms a round, {runs['Newton'].rounds} rounds")
    for name in list(sides)[1:]:
        ratio = median(ours / theirs for ours, theirs in zip(seconds[name], seconds["Newton"], strict=True))
        held &= ratio <= 2.0
        up = runs[name].history[-1].bytes_up / runs["Newton"].history[-1].bytes_up
        print(
            f"(a) {name}: {median(seconds[name]) * 1e3:.1f} ms a round, ratio {ratio:.2f} (wanted ≤ 2.0) "
            f"{verdict(ratio <= 2.0)}; {runs[name].rounds} rounds, {up:.2f} of Newton's bytes up"
        )
    held &= rounds("w8a", runs["FedNL"], 25)
    held &= rounds("a9a", timed(sides["FedNL"], other)[1], 21)
    return 0 if held else 1


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
