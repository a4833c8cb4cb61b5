"""The `[summary]` of a run file: asked after the run, and written into its folder."""

from __future__ import annotations

from typing import Any

from fedsolve.errors import FedsolveError
from fedsolve.inference import StandardErrors, Summary, summary
from fedsolve.loop.history import Run
from fedsolve.losses import LinearLoss
from fedsolve.report import RunFolder
from fedsolve.report.output_folder import COEFFICIENTS, FOREST
from fedsolve.runfiles import keys


def asked(
    what: keys.Fit, result: Run, folder: RunFolder, said: dict[str, Any]
) -> tuple[Summary | str | None, bytes | None]:
    """The summary, or why there is none, and its figure. It is added to summary.json, and has files of its own. The
    model is fitted and saved before, and does not depend on it."""
    how = what.summary
    if how is None:
        return None, None
    found = _found(result, how)
    if isinstance(found, str):
        said["inference"] = {"status": "error", "message": found, "coefficients": []}
    else:
        said["inference"] = {"status": "ok", **found.to_dict()}
        found.to_csv(folder.path / COEFFICIENTS)
    folder.write_summary(said)
    if isinstance(found, str) or not what.output.figures:
        return found, None
    drawn = found.forest_plot()
    folder.write_figure(drawn, FOREST)
    return found, drawn


def _found(result: Run, how: keys.SummaryTable) -> Summary | str:
    loss = getattr(result.algorithm, "loss", None)
    try:
        protocol = StandardErrors(loss, how.weights, how.clusters) if isinstance(loss, LinearLoss) else None
        return summary(result, protocol, errors=how.errors, level=how.level, use_t=how.t)
    except FedsolveError as error:
        return str(error)
