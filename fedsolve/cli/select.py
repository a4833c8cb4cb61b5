"""`fedsolve select`: penalties and feature maps by cross-validation over the federation."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsolve.cli.console import Interrupted, emit, escape, steps_bar, tell
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.loop.preflight import check_needs
from fedsolve.losses import LinearLoss
from fedsolve.report import RunFolder
from fedsolve.report.selection_page import Row, heading, selection_page, table
from fedsolve.report.tables import size
from fedsolve.runfiles import chosen_loss as chosen
from fedsolve.runfiles import keys
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.portable import from_anywhere
from fedsolve.runfiles.toml_writer import inline
from fedsolve.selection import Selection, cross_validate, loss_grid
from fedsolve.selection.batches import REPLY_BYTES

EXAMPLE = """
[select]
l2 = { low = 1e-6, high = 1, points = 7 }    # or a list: l2 = [1e-4, 1e-2]
folds = 5
"""


def select(file: Path, output: Path | None, force: bool, as_json: bool) -> int:
    """The cross-validated errors of the grid of [select], the choice, and what it cost."""
    text = config.read_text(file)
    what = config.parse(text, str(file))
    if what.select is None:
        missing = ConfigError(f"{file} has no [select] table, which says what to choose between, such as:")
        missing.add_note(EXAMPLE)
        raise missing
    problem = problems.prepare(what, file)
    tell(problem.notes)
    grid = _grid(what.select, problem.algorithms, file)
    path = output or Path("runs") / f"{file.stem}-select-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = RunFolder.open(path, force=force)
    folder.write_config(from_anywhere(text, file.parent))
    try:
        found = _cross_validate(what, what.select, problem, grid)
    except KeyboardInterrupt:
        folder.discard()
        raise Interrupted("stopped; a cross-validation begins anew next time") from None
    except FedsolveError:
        folder.discard()
        raise
    rows, notices = _rows(what.select, grid, found), _notices(what.select, grid, found)
    result = _result(what.select, problem, folder, found, rows, notices)
    command = shlex.join(["fedsolve", "select", str(file), *(() if output is None else ("--output", str(output)))])
    said = f"Chosen by {found.folds}-fold cross-validation: {command}"
    folder.write_selection(found.ledger, result, chosen.chosen_run_file(text, file.parent, result["best"], said))
    title = f"{problem.data.name}, {len(problem.clients)} clients, {result['samples']:,} samples"
    folder.write_report(selection_page(title, command, text, found, rows, notices))

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(title)}[/bold]\n{escape(heading(found))}\n")
        console.print(table(rows))
        console.print(escape(f"\nBest: {', '.join(f'{name} = {inline(one)}' for name, one in result['best'].items())}"))
        for notice in notices:
            console.print(f"[yellow]{escape(notice)}[/yellow]", soft_wrap=True)
        up, down = size(result["bytes_up"]), size(result["bytes_down"])
        exchanges = f"{result['exchanges']} exchange{'' if result['exchanges'] == 1 else 's'}"
        said = f"It cost {exchanges}, {up} up, {down} down, all clients together; it uses only sums of their replies."
        console.print(said)
        use = shlex.join(["fedsolve", "run" if what.algorithm is not None else "compare", str(folder.chosen)])
        console.print(f"The report is [bold]{escape(str(folder.report))}[/bold].", soft_wrap=True)
        console.print(f"To fit with the best: [bold]{escape(use)}[/bold]", soft_wrap=True)

    emit(result, as_json, show)
    return 0


def _grid(what: keys.Select, algorithms: Mapping[str, object], file: Path) -> list[LinearLoss]:
    """The grid around the loss of the file's algorithms, which must be one."""
    losses = {loss for one in algorithms.values() if isinstance(loss := getattr(one, "loss", None), LinearLoss)}
    if not losses:
        raise ConfigError(f"{file}: no algorithm has a loss of a linear model, and there is nothing else to choose")
    if len(losses) > 1:
        raise ConfigError(
            f"{file}: [select] chooses for one loss, and the algorithms have {len(losses)}; keep those with one, or "
            "give all of them the same in [loss]"
        )
    try:
        grid = loss_grid(losses.pop(), **what.lists())
        for algorithm, loss in itertools.product(algorithms.values(), grid):
            if isinstance(getattr(algorithm, "loss", None), LinearLoss):
                check_needs(algorithm, loss)  # or the run with what is chosen would be refused
        return grid
    except ConfigError as error:
        raise ConfigError(f"{file}: select: {error}") from None


def _cross_validate(
    what: keys.Config, how: keys.Select, problem: problems.Problem, grid: Sequence[LinearLoss]
) -> Selection:
    with steps_bar("cross-validation") as bar:
        return cross_validate(
            grid,
            problems.transport(what.run, problem.clients),
            folds=how.folds,
            seed=how.seed,
            preprocess=problem.preprocess,
            participation=what.participants(),
            reply_bytes=how.reply_bytes or REPLY_BYTES,
            progress=lambda done, of: bar(done, of, "fits"),
        )


def _rows(what: keys.Select, grid: Sequence[LinearLoss], found: Selection) -> list[Row]:
    """One for each point, in the order of the grid."""
    by_loss = {each.loss: each for each in found.candidates}
    return [
        Row.of(chosen.flat_values(what, loss), by_loss[loss], loss == found.best, loss == found.simplest)
        for loss in dict.fromkeys(grid)
    ]


def _notices(what: keys.Select, grid: Sequence[LinearLoss], found: Selection) -> list[str]:
    """What the choice leaves in doubt."""
    troubled = [one for one in found.candidates if one.trouble]
    said = [f"{len(troubled)} of the grid's points have no error; {one.loss!r}, {one.trouble}." for one in troubled[:1]]
    return [*chosen.ends(what, found.best, grid), *said]


def _result(
    what: keys.Select,
    problem: problems.Problem,
    folder: RunFolder,
    found: Selection,
    rows: Sequence[Row],
    notices: Sequence[str],
) -> dict[str, Any]:
    cost, before = found.ledger.total(), found.ledger.total("setup")
    return {
        "status": "ok",
        "data": problem.data.name,
        "clients": len(problem.clients),
        "samples": sum(client.n_samples for client in problem.clients),
        "error": found.best.error_name,
        "folds": found.folds,
        "seed": found.seed,
        "rows": rows,
        "best": chosen.values(what, found.best),
        "simplest": chosen.values(what, found.simplest),
        "notices": notices,
        "exchanges": cost.exchanges,
        "bytes_up": cost.bytes_up,
        "bytes_down": cost.bytes_down,
        "setup_bytes_up": before.bytes_up,
        "setup_bytes_down": before.bytes_down,
        "folder": folder.path,
        "report": folder.report,
        "chosen": folder.chosen,
    }
