"""MLflow: one of its runs for each of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fedsolve.errors import ConfigError
from fedsolve.loggers.base import Logger, library
from fedsolve.loggers.scalars import scalars
from fedsolve.loop.history import Row

MOST_LETTERS = 500  # of a parameter: what every version of MLflow takes


class MLflow(Logger):
    """Logs the numbers of each round as metrics of a new MLflow run, by its client: no other run that is active in this
    process is touched, and neither is MLflow's own tracking address.

        with fs.loggers.MLflow("hospitals", name="newton") as log:
            fs.run(fs.Newton(loss), clients, on_round=log)

    The MLflow run is finished with the `with` block: as failed if an error ended it, as killed after Ctrl-C.

    Args:
        experiment: Its name; made if there is none. By default MLflow's own, "Default".
        name: What the run is called.
        tracking_uri: Where to log: a data base such as "sqlite:///mlflow.db", or the address of a server. By default
            as MLflow is configured (MLFLOW_TRACKING_URI).
        parameters: Logged as the parameters of the run, as text of at most 500 letters each.

    Attributes:
        run_id: The MLflow run, for artifacts and the like.

    Raises:
        ConfigError: If MLflow is not installed, or cannot log there.
    """

    def __init__(
        self,
        experiment: str | None = None,
        *,
        name: str | None = None,
        tracking_uri: str | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        mlflow, errors = library(("mlflow",), "mlflow"), library(("mlflow.exceptions",), "mlflow")
        try:
            self._client = mlflow.MlflowClient(tracking_uri=tracking_uri)
            self.run_id: str = self._client.create_run(self._experiment(experiment), run_name=name).info.run_id
        except errors.MlflowException as error:
            raise ConfigError(f"MLflow cannot log to {tracking_uri or 'where it is set to'}: {error}") from error
        for key, value in (parameters or {}).items():
            text = str(value)
            shown = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
            self._client.log_param(self.run_id, key, shown)

    def _experiment(self, name: str | None) -> str:
        """The number of an experiment; 0 is the one that MLflow always has."""
        if name is None:
            return "0"
        known = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if known is None else known.experiment_id)

    def __call__(self, row: Row) -> None:
        now = int(1000 * time.time())
        for name, value in scalars(row).items():
            self._client.log_metric(self.run_id, name, value, timestamp=now, step=row.round)

    def close(self, failure: BaseException | None = None) -> None:
        stopped = isinstance(failure, KeyboardInterrupt)
        self._client.set_terminated(self.run_id, "KILLED" if stopped else "FINISHED" if failure is None else "FAILED")
