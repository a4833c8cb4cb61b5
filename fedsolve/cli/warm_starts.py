"""The model that a run of a run file begins with: read from its file, or fitted by an algorithm that runs first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import FedsolveError
from fedsolve.federation.ledger import Ledger
from fedsolve.loop.run import run as run_algorithm
from fedsolve.loop.stopping import Stopping, rounds_in_words
from fedsolve.models.base import Model, load_model
from fedsolve.runfiles import keys
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles.problem import Problem
from fedsolve.runfiles.warm_starts import WHERE, first_algorithm, model_file

Plain = dict[str, object]


@dataclass(frozen=True)
class WarmStart:
    """The model, and what is to be said of it in the summary: its file, or who made it and what that took."""

    model: Model
    said: Plain
    ledger: Ledger | None = None  # what was sent for it

    @property
    def sentence(self) -> str:
        """For the terminal."""
        if "file" in self.said:
            return f"It began with the model of {self.said['file']}."
        rounds = rounds_in_words(int(str(self.said["rounds"])))
        return f"It began with the model of {self.said['algorithm']} after {rounds}, whose cost is not in the table."


def begin(what: keys.Config, problem: Problem, algorithm: Algorithm, folder: Path) -> WarmStart | None:
    """The warm start of a run file, or None. An algorithm that runs first has the same clients, seed and server's rows;
    its rounds and bytes are not those of the run, and the summary names them."""
    path = model_file(what, folder)
    if path is not None:
        return WarmStart(load_model(path), {"file": path})
    first = first_algorithm(what, algorithm, folder)
    if first is None:
        return None
    assert isinstance(what.run.warm_start, keys.WarmStart)
    try:
        found = run_algorithm(
            first,
            problems.transport(what.run, problem.clients),
            stopping=Stopping(rounds=what.run.warm_start.rounds, tolerance=None),
            participation=what.participants(),
            seed=what.run.seed,
            server=problem.server,
            preprocess=problem.preprocess,
            measure=0,
            min_rows=what.run.min_rows,
        )
    except FedsolveError as error:
        error.args = (f"{WHERE}: {error}",)
        raise
    total = found.ledger.total()
    said: Plain = {
        "algorithm": type(first).__name__,
        "rounds": found.history[-1].round,
        "bytes_up": total.bytes_up,
        "bytes_down": total.bytes_down,
        "seconds": found.history[-1].seconds,
    }
    return WarmStart(found.model, said, found.all_sent())
