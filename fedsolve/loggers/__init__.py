"""Loggers for `fs.run(…, on_round=…)`: what a run measures in each round, sent to TensorBoard or MLflow.

    with fs.loggers.TensorBoard("runs/board") as board:
        fs.run(algorithm, clients, on_round=board)

A logger is called with each finished row of the history, as any function given as `on_round` is. The library it writes
with is imported when a logger is made, and is no dependency of fedsolve: `pip install fedsolve[tensorboard]`,
`fedsolve[mlflow]`.
"""

from fedsolve.loggers.base import Logger, several
from fedsolve.loggers.mlflow_runs import MLflow
from fedsolve.loggers.scalars import scalars
from fedsolve.loggers.tensorboard_files import TensorBoard

__all__ = ["Logger", "MLflow", "TensorBoard", "scalars", "several"]
