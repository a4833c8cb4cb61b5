"""Several algorithms on one problem, each with one seed or several: what is compared, and all of it as a csv file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from fedsolve.inference.evaluated import Evaluated
from fedsolve.loop.history import Row
from fedsolve.report.bands import Path, Spread
from fedsolve.report.tables import BAD
from fedsolve.text import spreadsheet_cell

# What a run spends on its way: the names of the axes, and of the columns.
SPENT = ("round", "bytes", "seconds")
HELD_OUT = "held out"
# Columns of rounds.csv that are those of the history; those of held-out rows follow.
_HISTORY = tuple(field.name for field in fields(Row) if field.name not in ("round", "missing", "held_out"))
# A figure of held-out rows is drawn if it is known in every round: the first of these that there is.
_SCORES = ("accuracy", "error", "value")


@dataclass(frozen=True)
class Trace:
    """What a comparison keeps of a run.

    algorithm       the label of the algorithm
    seed            the seed of the run,
    partition_seed  and that by which the rows were divided; None: they were not divided by chance
    status          how it ended
    objective       equal for two runs that minimise the same; together with the seed it says whose values compare
    reached         the row of the history that is about the model
    """

    algorithm: str
    seed: int
    partition_seed: int | None
    status: str
    message: str
    objective: str
    history: Sequence[Row] = ()
    reached: Row | None = None
    evaluation: Evaluated | None = None


@dataclass(frozen=True)
class Comparison:
    """All runs of a comparison.

    traces  one for each algorithm and seed, in this order
    spread  what the bands show, where there are several seeds
    """

    traces: Sequence[Trace]
    spread: Spread = "range"

    @property
    def algorithms(self) -> list[str]:
        """The labels, each once."""
        return list(dict.fromkeys(one.algorithm for one in self.traces))

    @property
    def drawn(self) -> list[str]:
        """Those that have a line in the figure, in its order."""
        return [name for name in self.algorithms if any(one.history for one in self.of(name))]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return list(dict.fromkeys(one.seed for one in self.traces))

    def of(self, algorithm: str) -> list[Trace]:
        """The runs of an algorithm."""
        return [one for one in self.traces if one.algorithm == algorithm]

    @cached_property
    def _lowest(self) -> dict[tuple[int, str], float]:
        found: dict[tuple[int, str], float] = {}
        for one in self.traces:
            values = [row.value for row in one.history if row.value is not None and math.isfinite(row.value)]
            if values:
                key = (one.seed, one.objective)
                found[key] = min(found.get(key, math.inf), *values)
        return found

    def gap(self, trace: Trace, row: Row | None) -> float | None:
        """How far the value is above the lowest that any run with the same seed and objective has reached."""
        lowest = self._lowest.get((trace.seed, trace.objective))
        return None if row is None or row.value is None or lowest is None else row.value - lowest

    @cached_property
    def score(self) -> str | None:
        """The figure of held-out rows that is drawn; None where there are none."""
        known = [set(row.held_out) for one in self.traces for row in one.history if row.held_out]
        return next((name for name in _SCORES if known and all(name in one for one in known)), None)

    @property
    def score_name(self) -> str:
        """The same in words."""
        if self.score == "error":
            return next((one.evaluation.error_name for one in self.traces if one.evaluation is not None), "error")
        return "loss" if self.score == "value" else "accuracy"

    def measures(self) -> list[str]:
        """What is drawn against what was spent."""
        return ["gap", "gradient norm", *(() if self.score is None else (HELD_OUT,))]

    def path(self, trace: Trace, measure: str, spent: str) -> Path:
        """What a run reached, against the rounds, bytes or seconds that it took until then. One that has diverged is at
        infinity from its end on, and not where it was given up; its last model is judged by held-out rows as it is."""
        found = ((_spent(row, spent), self._measured(trace, row, measure)) for row in trace.history)
        path = [(place, value) for place, value in found if value is not None]
        if path and trace.status in BAD and measure != HELD_OUT:
            path.append((math.nextafter(path[-1][0], math.inf), math.inf))
        return path

    def _measured(self, trace: Trace, row: Row, measure: str) -> float | None:
        if measure == "gap":
            return self.gap(trace, row)
        if measure == "gradient norm":
            return row.gradient_norm
        return None if self.score is None else (row.held_out or {}).get(self.score)

    @property
    def is_all_alike(self) -> bool:
        """Whether there are several seeds, and none of them made a difference."""
        if len(self.seeds) < 2:
            return False
        alike = ({tuple(row.value for row in one.history) for one in self.of(name)} for name in self.algorithms)
        return all(len(one) == 1 for one in alike)

    def csv(self) -> str:
        """rounds.csv: a line for each algorithm, seed and round; one without a round for a run that could not start."""
        known = {name: None for one in self.traces for row in one.history for name in row.held_out or ()}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        head = ["algorithm", "seed", "partition_seed", "status", "round", "objective_gap", *_HISTORY, "missing"]
        writer.writerow([*head, *(f"held_out_{name}" for name in known)])
        for one in self.traces:
            rows: Sequence[Row | None] = one.history or [None]
            for row in rows:
                about = (one.algorithm, one.seed, one.partition_seed, one.status)
                cells = (*about, *self._cells(one, row, known))
                writer.writerow(["" if cell is None else spreadsheet_cell(cell) for cell in cells])
        return text.getvalue()

    def _cells(self, trace: Trace, row: Row | None, known: Mapping[str, None]) -> Iterator[object]:
        if row is None:
            yield from [None] * (3 + len(_HISTORY) + len(known))
            return
        yield from (row.round, self.gap(trace, row))
        yield from (getattr(row, name) for name in _HISTORY)
        yield "; ".join(f"{client}: {why}" for client, why in row.missing)
        yield from ((row.held_out or {}).get(name) for name in known)


def _spent(row: Row, spent: str) -> float:
    if spent == "round":
        return float(row.round)
    return row.seconds if spent == "seconds" else float(row.bytes_up + row.bytes_down)
