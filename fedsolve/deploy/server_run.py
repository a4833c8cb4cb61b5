"""A run at the server, from the server's half of a run file to a run folder; free of NVFlare.

The folder of a run stays at the server, with its checkpoint: when a job dies, the next one with the same run id goes on
from there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fedsolve.algorithms.base import Algorithm
from fedsolve.deploy import messages, server_rows
from fedsolve.deploy.job_folder import STOPPED
from fedsolve.deploy.library import Json
from fedsolve.errors import ConfigError, FedsolveError, QuorumNotReached
from fedsolve.federation.participation import Participation
from fedsolve.federation.session import Session
from fedsolve.inference import StandardErrors
from fedsolve.loggers import several
from fedsolve.loop.history import Row, Run
from fedsolve.loop.run import run as run_algorithm
from fedsolve.loop.stopping import QUORUM
from fedsolve.losses import LinearLoss
from fedsolve.models import Model
from fedsolve.models.scores import score_name
from fedsolve.plain import to_plain
from fedsolve.report import RunFolder, summarise
from fedsolve.report import evaluation as held_out
from fedsolve.report import run_page as pages
from fedsolve.report.figures import convergence
from fedsolve.report.output_folder import CHECKPOINT_LOCK, HELD_OUT
from fedsolve.report.summary import note_later
from fedsolve.runfiles import coefficients, server_file
from fedsolve.runfiles.server_file import ServerFile
from fedsolve.sites import Carrier, HeldOut, SiteColumn, SiteTransport, Terms
from fedsolve.wire.locks import is_locked

PATIENCE = 30.0  # seconds
ALSO = "summary"  # the protocol of the standard errors, which are asked for after the run


@dataclass(frozen=True)
class ServerRun:
    """One run, or the rest of it.

    run      its id, the same in every job that goes on with it
    text     the server's half of the run file
    command  how it was submitted
    folder   where the server keeps it
    rows     those of the server's own, in plain values, if the job has brought some
    """

    run: str
    text: str
    command: str
    folder: Path
    rows: Json | None = None

    def execute(
        self, carrier: Carrier, on_round: Callable[[Row], None], on_end: Callable[[], None] = lambda: None
    ) -> Json:
        """Run it, or go on with it, and write its folder; returns what is in summary.json. `on_end` is called after the
        last round. Raises FedsolveError."""
        what = server_file.parse(self.text)
        label, entry = what.entry()
        algorithm, preprocess = entry.algorithm, what.preprocessing()
        if what.server is not None and self.rows is None:  # a file that a job names is never opened here
            raise ConfigError("the job has not brought the rows of [server]; `fedsolve submit` reads and sends them")
        server = None if self.rows is None else server_rows.from_plain(self.rows)
        going_on = RunFolder(self.folder).checkpoint.is_file()
        _wait_for(self.folder)
        folder = RunFolder.open(self.folder, resume=going_on, force=not going_on)
        folder.write_config(self.text)
        rules, evaluation = what.judging(getattr(algorithm, "loss", None))
        transport = SiteTransport(carrier, terms_of(what, self.run))
        with Session(transport, also=also_of(what, algorithm)) as session:
            result = run_algorithm(
                algorithm,
                session,
                stopping=rules,
                participation=_participation(what),
                seed=what.run.seed,
                server=server,
                preprocess=preprocess,
                measure=what.run.measure,
                evaluation=evaluation,
                checkpoint=folder.checkpoint,
                checkpoint_every=what.run.checkpoint_every or 1,
                resume=going_on,
                on_round=several(folder.append, on_round),
                min_rows=what.run.min_rows,
            )
            on_end()
            return _written(what, _named(result, session), label, folder, session, self.command, self.text)


def _wait_for(folder: Path) -> None:
    """Wait while the job before, which is ending, still holds the checkpoint."""
    until = time.monotonic() + PATIENCE
    while folder.is_dir() and is_locked(folder / CHECKPOINT_LOCK) and time.monotonic() < until:
        time.sleep(0.2)


def _participation(what: ServerFile) -> Participation:
    """Who takes part. Where the file has no deadline, the one that is kept anyway is said, so that a site that lets it
    pass twice is lost, and not waited for in every round."""
    found = what.participants()
    return found if found.deadline is not None else replace(found, deadline=messages.DEADLINE)


def terms_of(what: ServerFile, run: str) -> Terms:
    """What is asked of sites beside protocols."""
    judged = what.evaluation
    held = None if judged is None else HeldOut(judged.hold_out, judged.seed)
    own = what.preprocess is not None and what.preprocess.site_intercepts is not False
    return Terms(run, {}, held, SiteColumn(server_file.SITE) if own else None, what.sites.target)


def also_of(what: ServerFile, algorithm: Algorithm) -> dict[str, object]:
    """The protocols that are asked after the run."""
    loss = getattr(algorithm, "loss", None)
    if what.summary is None or not isinstance(loss, LinearLoss):
        return {}
    return {ALSO: StandardErrors(loss, what.summary.weights, what.summary.clusters)}


def _named(result: Run, session: Session) -> Run:
    """The run with a model that knows what its classes are called, where the sites declare it."""
    model, classes = result.model, session.fed.classes
    if isinstance(model, Model) and classes is not None and len(classes) == model.n_classes:
        return replace(result, model=model.with_classes(classes))
    return result


def _written(
    what: ServerFile, result: Run, label: str, folder: RunFolder, session: Session, command: str, text: str
) -> Json:
    """Write everything that a run folder has."""
    clients = [
        {"name": name, "samples": info.samples, "weight": info.weight} for name, info in session.fed.info.items()
    ]
    data, names = f"{len(clients)} sites", getattr(result.model, "feature_names", None)
    summary = {
        **summarise(result, label),
        "clients": clients,
        "data": data,
        "feature_names": names,
        "score": score_name(result.model),
        "scores": {"train": None},
    }
    folder.write_run(result, summary)
    inferred, forest = coefficients.asked(what, result, folder, summary)
    note_later(result, folder, summary)
    figure = drawn = None
    if what.output.figures:
        figure = convergence({label: result.history}, title=f"{label}, {data}", best_name="lowest")
        folder.write_figure(figure)
        drawn = None if result.evaluation is None else held_out.figure(result.evaluation)
    if drawn is not None:
        folder.write_figure(drawn, HELD_OUT)
    described = f"{data}, {sum(info.samples for info in session.fed.info.values()):,} rows"
    about = pages.About(
        f"{label} between {data}",
        described,
        command,
        figure,
        text,
        names,
        drawn,
        inferred,
        forest,
        outcome=what.sites.target,
    )
    folder.write_report(pages.run_page(about, result, summary))
    return summary


def explained(error: Exception) -> Json:
    """How a run that could not be finished ended, in plain values."""
    kind = QUORUM if isinstance(error, QuorumNotReached) else "error"
    said = str(error) if isinstance(error, FedsolveError) else f"{type(error).__name__} at the server: {error}"
    return {"status": kind, "error": type(error).__name__, "message": " ".join(said.split())}


def stopped(has_checkpoint: bool) -> Json:
    """How a run ended that somebody stopped."""
    left = "its checkpoint is at the server" if has_checkpoint else "there was no checkpoint yet, so it begins anew"
    return {"status": STOPPED, "message": f"somebody stopped the run; {left}"}


def unwritten(error: OSError) -> Json:
    """How a run ended whose results could not be written."""
    # The copy of a folder raises a list of files, each with its reason.
    first = error.args[0][0][-1] if isinstance(error, shutil.Error) and error.args[0] else error
    said = f"the run ended, and the server has no room for its results: {first}; --resume writes them when there is"
    return {"status": "error", "error": "StorageError", "message": " ".join(said.split())}


def row_in_words(row: Row) -> Json:
    """What is told of a round while the run goes on."""
    wanted = ("round", "value", "gradient_norm", "bytes_up", "bytes_down")
    return {name: to_plain(getattr(row, name)) for name in wanted}
