"""Writes the output folder of an experiment.

table.csv     a line per row: our values, their spread, the printed ones
table.json    the same with the value of every seed, the notes, the command and the version
figure.png
report.html   all of it on one page
parts/        with --full: what is finished, so that the next run goes on from there
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fedsolve.errors import ConfigError
from fedsolve.report.figures import blank, png
from fedsolve.report.html_parts import badge, code, element, image, page, paragraph, section, table
from fedsolve.report.json_values import to_json
from fedsolve.reproduce.harness import Outcome
from fedsolve.reproduce.result import Cell, Column, Measured, Verdict
from fedsolve.version import __version__
from fedsolve.wire.storage import remove_leftovers, write_atomically

CSV, JSON, FIGURE, REPORT = "table.csv", "table.json", "figure.png", "report.html"
CLAIMS = (("expected", False), ("found", False))
OURS = (CSV, JSON, FIGURE, REPORT)
PARTS = "parts"
QUICK = "This is the quick form of the experiment. Do not quote its numbers."


def open_folder(path: Path) -> Path:
    """Open an output folder: new, empty, or that of an earlier experiment, whose results are replaced."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"the output folder {path} is a file; choose another with --output")
    ours = (path / JSON).is_file() or (path / PARTS).is_dir()
    if path.is_dir() and any(path.iterdir()) and not ours:
        raise ConfigError(f"the output folder {path} contains other files; choose another with --output")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the output folder {path} cannot be made: {error}") from None
    return path


def describe(outcome: Outcome, command: str) -> dict[str, object]:
    """The outcome as plain values, for table.json and `--json`."""
    what, result = outcome.experiment, outcome.result
    return {
        "status": result.status,
        "name": what.name,
        "title": what.title,
        "source": what.source,
        "quick": outcome.quick,
        "full": outcome.full,
        "seeds": outcome.seeds,
        "columns": [column.heading for column in result.columns],
        "rows": result.records(),
        "claims": [{"claim": claim, "holds": one.holds, "said": one.said} for claim, one in result.claims],
        "notes": list(result.notes),
        "printed_by": result.printed_by,
        "seconds": outcome.seconds,
        "processor_seconds": outcome.processor,
        "command": command,
        "version": __version__,
    }


def write(outcome: Outcome, folder: Path, command: str) -> dict[str, object]:
    """Write all files and return the contents of table.json."""
    remove_leftovers(folder, OURS)
    for name in OURS:
        (folder / name).unlink(missing_ok=True)
    figure = _figure(outcome)
    if figure is not None:
        write_atomically(folder / FIGURE, figure)
    described = describe(outcome, command)
    write_atomically(folder / CSV, _csv(outcome))
    write_atomically(folder / REPORT, _page(outcome, figure, command).encode())
    write_atomically(folder / JSON, (to_json(described, indent=2) + "\n").encode())
    return described


def _figure(outcome: Outcome) -> bytes | None:
    if outcome.result.draw is None:
        return None
    figure = blank()
    outcome.result.draw(figure)
    quick = " (quick form)" if outcome.quick else ""
    figure.suptitle(f"{outcome.experiment.title}{quick}")
    return png(figure)


def _csv(outcome: Outcome) -> bytes:
    result = outcome.result
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    headings: list[str] = []
    lines: list[list[object]] = [[] for _ in result.rows]
    for index, column in enumerate(result.columns):
        cells = [row[index] for row in result.rows]
        if not any(isinstance(cell, Measured) for cell in cells):
            headings.append(column.heading)
            for line, cell in zip(lines, cells, strict=True):
                line.append(str(cell) if isinstance(cell, Verdict) else cell)
            continue
        headings += [column.heading, f"{column.heading} low", f"{column.heading} high"]
        headings += [f"{column.heading} {result.printed_by}"]
        for line, cell in zip(lines, cells, strict=True):
            line.extend(_four(column, cell))
    writer.writerow(headings)
    writer.writerows(lines)
    return text.getvalue().encode()


def _four(column: Column, cell: Cell) -> list[object]:
    if not isinstance(cell, Measured):
        return [cell, None, None, None]
    return [column.centre(cell), *column.spread(cell), cell.printed]


def _page(outcome: Outcome, figure: bytes | None, command: str) -> str:
    what, result = outcome.experiment, outcome.result
    held, said = sum(verdict.holds is True for verdict in result.verdicts), len(result.verdicts)
    runs = f"{len(outcome.seeds)} seeds" if len(outcome.seeds) > 1 else "one seed"
    averages = {column.average for column in result.columns}
    spread = "Medians, with quartiles in brackets" if averages == {"median"} else "Means ± standard deviations"
    mixed = "Medians with quartiles in brackets, or means ± standard deviations" if len(averages) > 1 else spread
    lines = [
        [
            badge(str(cell), cell.holds) if isinstance(cell, Verdict) else text
            for text, cell in _paired(outcome, line, row)
        ]
        for line, row in zip(result.lines(), result.rows, strict=True)
    ]
    return page(
        what.title,
        paragraph(f"{what.source} · {what.name}", kind="quiet"),
        paragraph(QUICK, kind="warning") if outcome.quick else "",
        paragraph(badge(f"{held} of {said} claims hold", held == said)) if said else "",
        section("Results", table(list(result.headings()), lines)),
        paragraph(f"{mixed}, over {runs}." if len(outcome.seeds) > 1 else f"From {runs}.", kind="quiet"),
        section("Claims", table(CLAIMS, [[one, badge(str(it), it.holds)] for one, it in result.claims]))
        if result.claims
        else "",
        section("Figure", image(figure, f"Figure: {what.title}")) if figure is not None else "",
        section("Notes", element("ul", *(element("li", note) for note in result.notes))) if result.notes else "",
        section("Command", code(command), paragraph(f"{outcome.seconds:.1f} seconds.", kind="quiet")),
    )


def _paired(outcome: Outcome, line: list[str], row: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """Pair each text of a line with its cell; None for a printed value."""
    cells: list[Cell] = []
    for index, cell in enumerate(row):
        cells.append(cell)
        if outcome.result.has_printed(index):
            cells.append(None)
    return list(zip(line, cells, strict=True))
