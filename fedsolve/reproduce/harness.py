"""Registers experiments by name and runs them.

@experiment("fednewton-table1", paper="FedNewton", place="Table 1", title="…", takes="5 min")
def table3(seeds: Seeds, quick: bool) -> Result:
    for seed, dataset in seeds.over(datasets):
        …
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from fedsolve.errors import ConfigError, UnknownName
from fedsolve.reproduce.result import Result

T = TypeVar("T")
OnStep = Callable[[int, int, str], None]  # done, of how many, what is next


def _nobody_watches(done: int, total: int, what: str) -> None:
    pass


@dataclass(frozen=True)
class Seeds:
    """The seeds of an experiment. Iterating over them advances the progress bar.

    earlier  processor seconds of what the experiment found done by an earlier one
    """

    seeds: tuple[int, ...]
    on_step: OnStep = _nobody_watches
    earlier: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seeds)

    def __iter__(self) -> Iterator[int]:
        return (seed for seed, _ in self.over(("",)))

    def over(self, cases: Iterable[T]) -> Iterator[tuple[int, T]]:
        """Iterate over all pairs of seed and case, one seed after the other."""
        pairs = list(product(self.seeds, list(cases)))
        for done, (seed, case) in enumerate(pairs):
            self.on_step(done, len(pairs), f"seed {seed}  {case}".rstrip())
            yield seed, case
        self.on_step(len(pairs), len(pairs), "")


@dataclass(frozen=True)
class Full:
    """How to run the full form of an experiment, which takes hours and goes on where it was stopped.

    folder    where each finished part is saved
    settings  which settings to run, by name, in this order; () all of them
    minutes   do not run longer than so many; None: until all is done
    """

    folder: Path
    settings: tuple[str, ...] = ()
    minutes: float | None = None


@dataclass(frozen=True)
class Experiment:
    """A figure, table or claim to reproduce.

    name         what `fedsolve reproduce NAME` calls it
    paper        short name of the paper, such as "FedNewton" (docs/papers.md has the full citations)
    place        the figure or table of that paper, or "beyond the paper"
    title        one line for the report
    takes        about how long it runs on one core, in words
    run          the function that makes the `Result`
    seeds        number of seeds of the usual form
    quick_seeds  number of seeds with `--quick`
    full         the function that makes the `Result` with `--full`, by default of one seed; None: no such form
    """

    name: str
    paper: str
    place: str
    title: str
    takes: str
    run: Callable[[Seeds, bool], Result]
    seeds: int = 5
    quick_seeds: int = 1
    full: Callable[[Seeds, Full], Result] | None = None

    @property
    def source(self) -> str:
        """The paper and the place in it, for instance "FedNewton, Table 3"."""
        return f"{self.paper}, {self.place}"


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment, with the seeds it ran and the time it took.

    seconds    on the clock
    processor  seconds of processor time, of all threads and ended child processes: what it takes whoever else is busy,
               and whatever part of it an earlier experiment had done
    """

    experiment: Experiment
    result: Result
    seeds: tuple[int, ...]
    quick: bool
    seconds: float
    full: bool = False
    processor: float = 0.0


_known: dict[str, Experiment] = {}


def experiment(name: str, **described: Any) -> Callable[[Callable[[Seeds, bool], Result]], Experiment]:
    """Register the decorated function under `name`. The keyword arguments are the other fields of `Experiment`."""

    def register(run: Callable[[Seeds, bool], Result]) -> Experiment:
        if name in _known:
            raise ConfigError(f"two experiments are named {name!r}")
        _known[name] = Experiment(name, run=run, **described)
        return _known[name]

    return register


def names() -> dict[str, Experiment]:
    """All experiments by name, ordered by paper. Importing `fedsolve.reproduce` registers them."""
    return dict(sorted(_known.items(), key=lambda item: (item[1].paper, item[0])))


def find(name: str) -> Experiment:
    """The experiment of this name. Raises `UnknownName` if there is none."""
    known = names()
    if name not in known:
        raise UnknownName("experiment", name, known)
    return known[name]


def perform(
    what: Experiment,
    *,
    quick: bool = False,
    seeds: int | None = None,
    full: Full | None = None,
    on_step: OnStep = _nobody_watches,
) -> Outcome:
    """Run an experiment and return its result.

    quick    run the small form, which shows that the experiment works; do not quote its numbers
    seeds    how many seeds to run, 0 to N − 1; by default as many as the experiment declares
    full     run the full form, with these options. Raises ConfigError if the experiment has none
    on_step  called before each step with the steps done, their total and what comes next
    """
    usual = 1 if full is not None else what.quick_seeds if quick else what.seeds
    count = usual if seeds is None else seeds
    if count < 1:
        raise ConfigError(f"an experiment needs at least one seed, got {count}")
    if full is not None and (what.full is None or quick):
        others = ", ".join(one.name for one in names().values() if one.full is not None)
        said = "--full and --quick exclude each other" if quick else f"{what.name} has no full form (known: {others})"
        raise ConfigError(said)
    chosen = tuple(range(count))
    began, busy = time.perf_counter(), _processor_time()
    watched = Seeds(chosen, on_step)
    result = what.run(watched, quick) if full is None or what.full is None else what.full(watched, full)
    took, used = time.perf_counter() - began, _processor_time() - busy + sum(watched.earlier)
    return Outcome(what, result, chosen, quick, took, full is not None, used)


def _processor_time() -> float:
    """Of this process, known to less than the hundredths of `os.times`, and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])
