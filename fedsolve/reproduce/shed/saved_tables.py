"""The medians in the saved tables of Figures 7 to 14, for claims on several figures at once: nothing is run again."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fedsolve.errors import ConfigError
from fedsolve.reproduce.saved_results import Saved, read_saved

COUNTS = ("rounds", "vectors", "Hessians", "MB")  # of the columns of a comparison


@dataclass(frozen=True)
class Cell:
    """A problem of a figure: `problem` as its table calls it.

    data  and what it is called here: data set and μ, with `unlike` agents or not
    """

    experiment: str
    problem: str
    data: str
    unlike: bool

    def __str__(self) -> str:
        return f"{self.data}, {'unlike' if self.unlike else 'iid'}"


def _images(experiment: str, data: str) -> tuple[Cell, Cell]:
    return Cell(experiment, "iid", data, False), Cell(experiment, "one other class per agent", data, True)


IMAGES = (
    *_images("shed-fig8", "Fashion-MNIST 1e-5"),
    *_images("shed-fig9", "Fashion-MNIST 1e-6"),
    *_images("shed-fig12", "EMNIST 1e-5"),
    *_images("shed-fig13", "EMNIST 1e-6"),
)
W8A = (
    Cell("shed-fig14", "μ = 1e-05", "w8a 1e-5", True),
    Cell("shed-fig14", "μ = 1e-06", "w8a 1e-6", True),
)
SONGS = tuple(
    Cell("shed-fig7", f"songs {how}{columns}", f"songs{columns}", how != "at random")
    for columns in ("", ", distinct columns")
    for how in ("at random", "by year")
)
MILD = tuple(  # section 6: “similar results” with μ = 1e-4
    Cell("shed-mu4", f"μ = 1e-4, {kind}", "Fashion-MNIST 1e-4, n = 100", unlike)
    for kind, unlike in (("iid", False), ("one other class per agent", True))
)
DIGITS = (Cell("shed-digits", "MNIST, one other class per agent", "MNIST 1e-5", True),)


def median(text: str) -> float:
    """The median in a cell of a table: 1,141 of "1,141 (1,051–1,252)"; infinite where the gap was not reached."""
    if text in ("–", "not reached"):
        return math.inf
    return float(text.split(" (")[0].replace(",", ""))


def quartiles(text: str) -> tuple[float, float]:
    """The quartiles in a cell of a table: 1,051 and 1,252 of "1,141 (1,051–1,252)"; its value where it is alone."""
    inside = re.search(r"\((.+)–(.+)\)", text)
    if inside is None:
        return median(text), median(text)
    low, high = inside.groups()
    return median(low), median(high)


def read(experiment: str) -> Saved:
    found = read_saved(experiment)
    if found is None:
        raise ConfigError(f"there are no saved results of {experiment}: run `fedsolve reproduce {experiment} --save`")
    return found


class Tables:
    """The saved tables of some cells, by cell, method and heading."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self.cells = cells
        self.sources = {name: read(name) for name in dict.fromkeys(cell.experiment for cell in cells)}
        self._values = {
            (name, line[0], line[1]): dict(zip(one.headings[2:], map(median, line[2:]), strict=True))
            for name, one in self.sources.items()
            for line in one.lines
        }
        self._spreads = {
            (name, line[0], line[1]): dict(zip(one.headings[2:], map(quartiles, line[2:]), strict=True))
            for name, one in self.sources.items()
            for line in one.lines
        }

    def of(self, cell: Cell, method: str, counted: str) -> float:
        return self._values[cell.experiment, cell.problem, method][counted]

    def spread(self, cell: Cell, method: str, counted: str) -> tuple[float, float]:
        """The quartiles over the splits."""
        return self._spreads[cell.experiment, cell.problem, method][counted]

    def has(self, cell: Cell, method: str) -> bool:
        return (cell.experiment, cell.problem, method) in self._values

    def ratio(self, cell: Cell, over: str, under: str, counted: str) -> float:
        """How many times the count of one method is another's; NaN where the other one's is not known."""
        below = self.of(cell, under, counted)
        return self.of(cell, over, counted) / below if math.isfinite(below) else math.nan

    def impact(self, unlike: Cell, method: str) -> float:
        """How many times the rounds a method takes with unlike agents; NaN where it does not arrive with iid ones."""
        alike = next(one for one in self.cells if one.data == unlike.data and not one.unlike)
        below = self.of(alike, method, "rounds")
        return self.of(unlike, method, "rounds") / below if math.isfinite(below) else math.nan
