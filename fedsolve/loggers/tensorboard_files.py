"""TensorBoard: one folder of event files for each run."""

from __future__ import annotations

import os
from pathlib import Path

from fedsolve.errors import ConfigError
from fedsolve.loggers.base import Logger, library
from fedsolve.loggers.scalars import scalars
from fedsolve.loop.history import Row

# Both have a SummaryWriter, which is used alike; the second needs torch.
WRITERS = ("tensorboardX", "torch.utils.tensorboard")


class TensorBoard(Logger):
    """Writes the numbers of each round as scalars that TensorBoard draws against the rounds.

        with fs.loggers.TensorBoard("runs/board/newton") as board:
            fs.run(fs.Newton(loss), clients, on_round=board)

    `tensorboard --logdir runs/board` then shows all runs in that folder side by side. A resumed run may write to the
    same folder: its rounds have the same numbers.

    Args:
        folder: Where the event files go, a folder for each run.

    Raises:
        ConfigError: If neither tensorboardX nor torch with tensorboard is installed, or the folder is a file.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ConfigError(f"the folder for TensorBoard, {path}, is a file; choose another")
        self._writer = library(WRITERS, "tensorboard").SummaryWriter(str(path))

    def __call__(self, row: Row) -> None:
        for name, value in scalars(row).items():
            self._writer.add_scalar(name, value, row.round)
        self._writer.flush()  # so that a run that is killed has its rounds

    def close(self, failure: BaseException | None = None) -> None:
        self._writer.close()
