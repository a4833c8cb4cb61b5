"""`fedsolve gain`: who gains by joining, on rows that each client sets aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console

from fedsolve.algorithms.base import Algorithm
from fedsolve.cli import warm_starts
from fedsolve.cli.console import Interrupted, emit, escape, progress_bar, tell, warned
from fedsolve.data import Dataset, hold_out
from fedsolve.errors import ConfigError
from fedsolve.inference import FederationGain, FederationGains, federation_gain
from fedsolve.loop.run import run as run_algorithm
from fedsolve.losses import LinearLoss
from fedsolve.report import gain_section
from fedsolve.report.tables import BAD
from fedsolve.runfiles import keys
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.problem import Problem


def gain(file: Path, held_out: float | None, as_json: bool) -> int:
    """Fit the run file's model to what the clients do not set aside, and compare it with their own on the rest."""
    what = config.read(file)
    if what.algorithm is None:
        raise ConfigError(f"{file} lists several [[algorithms]]: keep the one whose model the clients would get")
    how = what.gain or keys.Gain()
    how = how if held_out is None else how.model_copy(update={"held_out": held_out})
    if held_out is not None:
        what = what.model_copy(update={"evaluation": None})  # it would set its own share aside
    else:
        check_shares(what)
    problem = holding_out(problems.prepare(what, file), how)
    tell(problem.notes)
    ((label, algorithm),) = problem.algorithms.items()
    protocol = comparison(algorithm, how, file)
    with progress_bar() as begin:
        try:
            start = warm_starts.begin(what, problem, algorithm, file.parent)
            result = run_algorithm(
                algorithm,
                problems.transport(what.run, problem.clients),
                stopping=what.run.stopping(),
                participation=what.participants(),
                seed=what.run.seed,
                warm_start=None if start is None else start.model,
                server=problem.server,
                preprocess=problem.preprocess,
                measure=what.run.measure,
                on_round=begin(label, what.run.rounds),
                min_rows=what.run.min_rows,
            )
            gains = federation_gain(result, protocol)
        except KeyboardInterrupt:
            raise Interrupted("stopped; nothing was saved") from None
    title = f"{problem.data.name}, {len(problem.clients)} clients: {label}"

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(title)}[/bold]")
        show_gains(console, gains)
        for notice in result.notices:
            console.print(warned(notice), soft_wrap=True)
        if result.status in BAD:
            console.print(f"[bold red]{escape(result.status)}[/bold red]: {escape(result.message)}.")

    emit({"run": result.status, "message": result.message, **as_plain(gains)}, as_json, show)
    return 1 if result.status in BAD else 0


def check_shares(what: keys.Config) -> None:
    """Raise ConfigError if [gain] and [evaluation] set different shares of rows aside: the same rows serve both."""
    if what.gain is None or what.evaluation is None or "held_out" not in what.gain.model_fields_set:
        return
    if what.gain.held_out != what.evaluation.hold_out:
        raise ConfigError(
            f"[gain] held_out is {what.gain.held_out:g} and [evaluation] hold_out is {what.evaluation.hold_out:g}, but "
            "the same rows serve both: leave one of them out"
        )


def holding_out(problem: Problem, how: keys.Gain) -> Problem:
    """The problem with rows set aside at every client, and as data only the others; as it is if that is so already."""
    if any(client._held is not None for client in problem.clients):
        return problem
    clients = hold_out(problem.clients, how.held_out, how.seed)
    if not isinstance(problem.data, Dataset):  # files of the sites, which are judged client by client
        return replace(problem, clients=clients)
    parts = [client.X for client in clients]
    X = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
    y = np.concatenate([client.y for client in clients])
    kept = replace(problem.data, X=X, y=y, groups=None, columns=None, sample_weight=None, offset=None)
    return replace(problem, clients=clients, data=kept)


def comparison(algorithm: Algorithm, how: keys.Gain, file: Path) -> FederationGain:
    """The comparison that [gain] describes. Raises before the run if the algorithm has no loss to make it with."""
    loss = getattr(algorithm, "loss", None)
    if not isinstance(loss, LinearLoss):
        raise ConfigError(
            f"{file}: {type(algorithm).__name__} has no loss of a linear model, and clients would have nothing to fit "
            "by themselves"
        )
    return FederationGain(loss, how.folds, how.level, how.seed)


def as_plain(gains: FederationGains | str) -> Mapping[str, object]:
    """For JSON; of a text, that it is why there are none."""
    if isinstance(gains, str):
        return {"status": "error", "message": gains, "rows": []}
    return {
        "status": "ok",
        "error": gains.error_name,
        "level": gains.level,
        "rows": gains.rows(),
        "notes": gain_section.notes(gains),
    }


def show_gains(console: Console, gains: FederationGains | str) -> None:
    """The table, and what it does not say; or why there is none."""
    if isinstance(gains, str):
        console.print(f"[bold red]Who gains is not known[/bold red]: {escape(gains)}.")
        return
    console.print(escape(f"{gain_section.heading(gains)}.\n"))
    console.print(gain_section.gain_table(gains))
    for note in gain_section.notes(gains):
        console.print(escape(f"• {note}"))
