"""Experiments by name, and the one way to run them.

@experiment("fednewton-table3", paper="000", place="Table 3", title="…", takes="5 min")
def table3(seeds: Seeds, quick: bool) -> Result:
    for seed, dataset in seeds.over(datasets):
        …
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from fedsolve.errors import ConfigError, UnknownName
from fedsolve.reproduce.result import Result

T = TypeVar("T")
OnStep = Callable[[int, int, str], None]  # done, of how many, what is next


def _nobody_watches(done: int, total: int, what: str) -> None:
    pass


@dataclass(frozen=True)
class Seeds:
    """The seeds to run, one after another. Going through them is what moves the progress bar."""

    seeds: tuple[int, ...]
    on_step: OnStep = _nobody_watches

    def __len__(self) -> int:
        return len(self.seeds)

    def __iter__(self) -> Iterator[int]:
        return (seed for seed, _ in self.over(("",)))

    def over(self, cases: Iterable[T]) -> Iterator[tuple[int, T]]:
        """Every seed with every case, seed by seed."""
        pairs = list(product(self.seeds, list(cases)))
        for done, (seed, case) in enumerate(pairs):
            self.on_step(done, len(pairs), f"seed {seed}  {case}".rstrip())
            yield seed, case
        self.on_step(len(pairs), len(pairs), "")


@dataclass(frozen=True)
class Experiment:
    """What is to be reproduced, and how. `takes` is for people: about how long, on one core."""

    name: str
    paper: str
    place: str
    title: str
    takes: str
    run: Callable[[Seeds, bool], Result]
    seeds: int = 5
    quick_seeds: int = 1

    @property
    def source(self) -> str:
        return f"paper {self.paper}, {self.place}"


@dataclass(frozen=True)
class Outcome:
    """A result with what made it."""

    experiment: Experiment
    result: Result
    seeds: tuple[int, ...]
    quick: bool
    seconds: float


_known: dict[str, Experiment] = {}


def experiment(name: str, **described: Any) -> Callable[[Callable[[Seeds, bool], Result]], Experiment]:
    """Register a function under a name; the rest are fields of `Experiment`."""

    def register(run: Callable[[Seeds, bool], Result]) -> Experiment:
        if name in _known:
            raise ConfigError(f"two experiments are named {name!r}")
        _known[name] = Experiment(name, run=run, **described)
        return _known[name]

    return register


def names() -> dict[str, Experiment]:
    """Every experiment by its name, paper by paper. Importing `fedsolve.reproduce` registers them."""
    return dict(sorted(_known.items(), key=lambda item: (item[1].paper, item[0])))


def find(name: str) -> Experiment:
    known = names()
    if name not in known:
        raise UnknownName("experiment", name, known)
    return known[name]


def perform(
    what: Experiment,
    *,
    quick: bool = False,
    seeds: int | None = None,
    on_step: OnStep = _nobody_watches,
) -> Outcome:
    """Run an experiment with seeds 0, 1, …; `quick` is its small form, to try it."""
    count = seeds if seeds is not None else what.quick_seeds if quick else what.seeds
    if count < 1:
        raise ConfigError(f"an experiment needs at least one seed, got {count}")
    chosen = tuple(range(count))
    began = time.perf_counter()
    result = what.run(Seeds(chosen, on_step), quick)
    return Outcome(what, result, chosen, quick, time.perf_counter() - began)
