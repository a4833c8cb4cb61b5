"""What a logger is, and how the library that it writes with is found."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Self

from fedsolve.errors import ConfigError
from fedsolve.loop.history import Row


class Logger(ABC):
    """Called with each finished row of a run's history; closed at the end, by itself in a `with` block.

    A run does not go on after a logger has failed: what it raises ends the run, as an error of any `on_round` does.
    With `checkpoint=` the run can be resumed.
    """

    @abstractmethod
    def __call__(self, row: Row) -> None:
        """Log a finished round."""

    @abstractmethod
    def close(self, failure: BaseException | None = None) -> None:
        """Write what is left. `failure` is what ended the run too early, if anything did."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)


def several(*called: Callable[[Row], None]) -> Callable[[Row], None]:
    """One `on_round` that calls all of these, in their order.

    Example:
        >>> rows = []
        >>> several(rows.append, rows.append)("row")
        >>> rows
        ['row', 'row']
    """

    def on_round(row: Row) -> None:
        for one in called:
            one(row)

    return on_round


def library(names: tuple[str, ...], extra: str) -> ModuleType:
    """The first of these modules that is installed. Raises ConfigError if none is."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ConfigError(f"{' or '.join(names)} is not installed: pip install 'fedsolve[{extra}]'")
