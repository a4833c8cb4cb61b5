"""One `fedsolve submit` for each output folder: a second one would mix its results with the first one's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsolve.deploy.kit_lock import locked
from fedsolve.errors import ConfigError
from fedsolve.report.output_folder import SUBMIT_LOCK


@contextmanager
def only_one_submit(folder: Path) -> Iterator[None]:
    """Hold an output folder for this process, and make it if it is not there. The system releases it when the process
    ends, however it ends. A folder in which nothing was written is not left behind.

    Raises ConfigError, with the number of the other process, where another `fedsolve submit` writes into the folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"the output folder {folder} is a file; choose another with --output")
    was_empty = folder.is_dir() and not any(folder.iterdir())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the output folder {folder} cannot be made: {error}") from None

    def in_use(process: str) -> str:
        return (
            f"another `fedsolve submit` writes into the output folder {folder} now{process}; wait until it has ended, "
            "end it with Ctrl-C, or choose another folder with --output"
        )

    try:
        with locked(folder / SUBMIT_LOCK, f"the output folder {folder}", in_use):
            yield
    finally:
        if not was_empty:
            with suppress(OSError):  # not empty
                folder.rmdir()
