"""Kill a run that saves after every round, at random moments, and let it go on.

    python -m tests.attack.killed FOLDER KILLS SEED

Forks instead of starting an interpreter for each kill; it is a program of its own because forking is safe only without
threads. Prints how many kills there were and how many runs came to their end, each with the bits of an undisturbed one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import fedsolve as fs
from tests.attack.test_damaged_files import ALGORITHM, clients, told
from tests.faults.faulty import FaultyRoad

ROUNDS = 30


def run(folder: Path, stores: bool) -> tuple[Any, ...]:
    """Begin the run or go on. With stores, the clients keep their own memories on disk, and die with the server."""
    road: Any = FaultyRoad(clients(), folder) if stores else clients()
    found = fs.run(ALGORITHM, road, rounds=ROUNDS, tolerance=0, checkpoint=folder / "run", resume=True)
    return told(found)[:3]


def attempt(folder: Path, stores: bool, expected: tuple[Any, ...], delay: float) -> int | None:
    """Run in a process that is killed after so many seconds; its exit status, None if it was killed."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = 0 if run(folder, stores) == expected else 1
        finally:
            os._exit(status)  # nothing of the parent's is flushed or ended twice
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(folder: Path, kills: int, seed: int) -> int:
    expected = told(fs.run(ALGORITHM, clients(), rounds=ROUNDS, tolerance=0))[:3]
    began = time.perf_counter()
    assert run(folder / "timed", False) == expected
    length = time.perf_counter() - began
    rng, killed, ended, saved = random.Random(seed), 0, 0, 0
    while killed < kills or ended < 2:
        place, stores = folder / f"run-{ended}", ended % 2 == 1
        status = attempt(place, stores, expected, rng.uniform(0, 0.4 if killed < kills else 20) * length)
        if status is None:
            killed += 1
            saved += (place / "run").exists()
        elif status == 0:
            ended += 1
            left = {one.name for one in place.iterdir() if one.suffix != ".memory"}
            # Locks of stores stay where their process has not closed them: it ended by os._exit.
            left -= {f"{one.name}.lock" for one in place.glob("*.memory")}
            assert left == {"run", "run.ledger"}, left
        else:
            print(f"a run ended with {status} after {killed} kills")
            return 1
    print(f"{killed} kills, {saved} of them after a save; {ended} runs ended with the very bits")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
