"""Is this version as fast as an earlier one? The cases of bench_newton.py, in both versions, measured in turn.

    scripts/bench-against COMMIT [--pairs 30]

Each version runs in a process of its own with its own benchmarks, one BLAS thread, and waits to be asked for the next
repetition; a pair is one repetition of each, one directly after the other, in changing order. Printed for each case:
the median of the pairs' ratios (this version to the earlier one) with its 95 % interval from order statistics, and the
ratio of the minima. The time is that of the processor (`process_time`), so that other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import binom

CASES = ("(a) dense", "", "(b) sparse", "", "(c) again", "(c) anew", "")  # the sides of in_turn; "": not ours


def serve(tree: Path) -> None:
    """In a process of its own: run the benchmark of `tree`, one repetition of all sides for each line that comes in."""
    sys.path[:0] = [str(tree), str(tree / "benchmarks")]
    import bench_newton
    from threadpoolctl import threadpool_limits

    out, asked = sys.stdout, sys.stdin

    def in_turn(*sides: Callable[[], object], repeat: int = 5) -> list[float]:
        for line in asked:
            if line.strip() == "next":
                break
            seconds = []
            for side in sides:
                start = time.process_time()
                side()
                seconds.append(time.process_time() - start)
            print(*seconds, file=out, flush=True)
        return [1.0] * len(sides)

    bench_newton.in_turn = in_turn
    with threadpool_limits(1), contextlib.redirect_stdout(io.StringIO()):
        bench_newton.main()


def started(tree: Path) -> subprocess.Popen[str]:
    """A process that serves one version."""
    command = [sys.executable, __file__, "--serve", str(tree)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def ask(side: subprocess.Popen[str]) -> list[float]:
    """The seconds of one repetition."""
    assert side.stdin is not None
    assert side.stdout is not None
    print("once", file=side.stdin, flush=True)
    line = side.stdout.readline()
    if not line:
        raise SystemExit("one of the two versions has ended: run its scripts/bench newton to see why")
    return [float(one) for one in line.split()]


def compare(earlier: Path, here: Path, pairs: int) -> None:
    """Print the ratios of all cases."""
    sides = [started(earlier), started(here)]
    names = iter(CASES)
    for group in (2, 2, 3):
        for side in sides:
            ask(side)  # warm
        found: list[tuple[list[float], list[float]]] = []
        for pair in range(pairs):
            order = (0, 1) if pair % 2 else (1, 0)
            taken = {which: ask(sides[which]) for which in order}
            found.append((taken[0], taken[1]))
        for side in sides:
            print("next", file=side.stdin, flush=True)
        for place, name in zip(range(group), names, strict=False):
            if name:
                show(name, np.array([before[place] for before, _ in found]), np.array([now[place] for _, now in found]))
    for side in sides:
        side.communicate(timeout=600)


def show(name: str, before: np.ndarray, now: np.ndarray) -> None:
    """One line of the table."""
    ratios = np.sort(now / before)
    place = max(int(binom.ppf(0.025, len(ratios), 0.5)) - 1, 0)
    low, high = ratios[place], ratios[-1 - place]
    print(
        f"{name:11s} earlier {before.min() * 1e3:7.1f} ms, now {now.min() * 1e3:7.1f} ms; now / earlier: median "
        f"{np.median(ratios):.3f} ({low:.3f} to {high:.3f}), of the minima {now.min() / before.min():.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--pairs", type=int, default=30, help="at most 45: the benchmark has no more points")
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
    else:
        compare(given.earlier, Path(__file__).resolve().parents[1], min(given.pairs, 45))


if __name__ == "__main__":
    main()
