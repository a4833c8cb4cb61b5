"""The folder of a run.

    config.toml       the run file, with absolute paths of data files
    history.jsonl     a line per round, appended as rounds finish
    ledger.csv        what was sent: per exchange, client, call and direction; also before and after the run, to find
                      where to start, for standard errors and for federation gain
    model.npz         the model; `fedsolve predict` and `fedsolve.load_model` read it
    summary.json      how it ended, in one object
    convergence.png   gradient norm and value, against rounds and against bytes
    held_out.png      ROC curve and calibration on held-out rows, where there are any
    table.csv         of a comparison with --phi: what each algorithm costs, by φ and accuracy
    costs.png         the same, drawn
    rounds.csv        of a comparison: every round of every run, with its seed
    report.html       all of it on one page
    chosen.toml       of a selection: the run file with the values that were chosen
    checkpoint.bin    what `--resume` goes on from, with its ledger beside it
    submitted.json    of a run between sites: its id at the server
    submit.lock       while `fedsolve submit` writes here: which process
    submitter.json    at the server, of a run between sites: whose it is

In ledger.csv, a name that a spreadsheet would take for a formula has an apostrophe before it. A comparison has a folder
of these for each algorithm (and seed, where there are several), and one summary, figure and report above them; its
figures are there as PDF and SVG too. Apart from the history, a file is there whole or not at all, and nothing that
others put here is ever removed.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedsolve.errors import CheckpointError, ConfigError
from fedsolve.federation.ledger import Entry, Ledger
from fedsolve.loop.history import Row, Run
from fedsolve.report.json_values import to_json
from fedsolve.text import spreadsheet_cell
from fedsolve.wire.lines import append_lines
from fedsolve.wire.locks import is_locked
from fedsolve.wire.storage import check_own_file, remove_leftovers, write_atomically, writing

CONFIG, HISTORY, LEDGER, MODEL = "config.toml", "history.jsonl", "ledger.csv", "model.npz"
SUBMITTED, SUBMIT_LOCK, OWNER = "submitted.json", "submit.lock", "submitter.json"
CHOSEN = "chosen.toml"
SUMMARY, FIGURE, REPORT, CHECKPOINT = "summary.json", "convergence.png", "report.html", "checkpoint.bin"
HELD_OUT = "held_out.png"
COEFFICIENTS, FOREST = "coefficients.csv", "forest.png"
COSTS, COSTS_FIGURE, ROUNDS = "table.csv", "costs.png", "rounds.csv"
DRAWN = tuple(f"{name}.{kind}" for name in ("convergence", "costs") for kind in ("pdf", "svg"))  # beside the PNG
CHECKPOINT_LEDGER, CHECKPOINT_LOCK = CHECKPOINT + ".ledger", CHECKPOINT + ".lock"
EXTRAS = (HELD_OUT, COEFFICIENTS, FOREST, COSTS, COSTS_FIGURE, ROUNDS, *DRAWN)  # only where they are asked for
RESULTS = (HISTORY, LEDGER, MODEL, SUMMARY, FIGURE, *EXTRAS, REPORT)
OURS = (CONFIG, SUBMITTED, CHOSEN, *RESULTS, CHECKPOINT, CHECKPOINT_LEDGER)
LEFT = (*OURS, CHECKPOINT_LOCK)  # what a run that was killed may leave


class RunFolder:
    """Where the results of one run, or of one comparison, are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: set[str] = set()
        self._known: list[str] | None = None  # lines of a history that is being continued

    @classmethod
    def open(cls, path: Path, *, force: bool = False, resume: bool = False, submits: bool = False) -> RunFolder:
        """A folder to write in: new, empty, to go on in, or one whose results are replaced by force. Only whoever holds
        its `submit.lock` says `submits`."""
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise ConfigError(f"the output folder {path} is a file; choose another with --output")
        if path.is_dir():
            folder._check_no_submit(submits)
        if (resume or force) and path.is_dir():
            folder._check_unused()
            remove_leftovers(path, OURS)
        if path.is_dir() and any(each.name != SUBMIT_LOCK for each in path.iterdir()):
            if resume:
                for name in OURS:  # before anything is computed, not when it is to be written
                    check_own_file(path / name)
                folder._known = folder._lines()
            elif not force:
                going_on = "go on from its checkpoint with `fedsolve run … --resume`, "
                raise ConfigError(
                    f"the output folder {path} is not empty; {going_on if folder.checkpoint.is_file() else ''}"
                    "choose another with --output, or replace its results with --force"
                )
            elif not folder._holds_a_run():
                raise ConfigError(
                    f"the output folder {path} holds something else than a run; choose another with --output"
                )
            else:
                folder.clear()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the output folder {path} cannot be made: {error}") from None
        return folder

    def _holds_a_run(self) -> bool:
        left_by_a_run = (self.path / SUMMARY).is_file() or (self.path / HISTORY).is_file()
        known = (*LEFT, OWNER, SUBMIT_LOCK)
        return left_by_a_run or all(each.name in known or each.is_dir() for each in self.path.iterdir())

    def _check_no_submit(self, ours: bool) -> None:
        """Neither here nor in the folders below, which are cleared too; `ours` if the one here is the caller."""
        for one in self._inner() if ours else (self.path, *self._inner()):
            with writing(one / SUBMIT_LOCK):
                busy = is_locked(one / SUBMIT_LOCK)
            if busy:
                raise CheckpointError(
                    f"`fedsolve submit` writes into the folder {one} now; wait until it has ended, or choose another "
                    "with --output"
                )

    def _inner(self) -> list[Path]:
        return [each for each in self.path.iterdir() if each.is_dir()]

    def _check_unused(self) -> None:
        for one in (self.path, *self._inner()):
            with writing(one / CHECKPOINT_LOCK):
                busy = is_locked(one / CHECKPOINT_LOCK)
            if busy:
                raise CheckpointError(
                    f"a run is going on in the folder {one}; wait until it has ended, or choose another with --output"
                )

    def clear(self) -> None:
        """Remove the results of an earlier run, and nothing else."""
        inner = [each for each in self.path.iterdir() if not each.is_symlink() and (each / HISTORY).is_file()]
        for folder in (*inner, self.path):
            for name in LEFT:
                (folder / name).unlink(missing_ok=True)
        for folder in inner:
            if not any(folder.iterdir()):
                folder.rmdir()

    def discard(self) -> None:
        """Take back a folder in which nothing has happened: what could not start leaves nothing behind."""
        for name in self._parts:
            RunFolder(self.path / name).discard()
        if not (self.path / HISTORY).is_file() and not self.checkpoint.is_file():
            (self.path / CONFIG).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def part(self, label: str) -> RunFolder:
        """The folder of one algorithm of a comparison."""
        plain = re.sub(r"[^\w.]+", "-", label).strip("-.") or "run"
        name = next(
            each
            for each in itertools.chain([plain], (f"{plain}-{i}" for i in itertools.count(2)))
            if each not in self._parts
        )
        self._parts.add(name)
        return RunFolder.open(self.path / name, force=True)

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    # ── while it runs ──

    def append(self, row: Row) -> None:
        """Add a finished round to the history."""
        if self._known is not None:  # going on: the rounds after the checkpoint are run again
            kept = [line for line in self._known if json.loads(line)["round"] < row.round]
            write_atomically(self.path / HISTORY, _encoded(kept))
            self._known = None
        append_lines(self.path / HISTORY, to_json(row) + "\n")

    def _lines(self) -> list[str]:
        path = self.path / HISTORY
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        return [line for line in lines if _is_row(line)]  # the last one may be cut off

    # ── when it is done ──

    def write_run(self, run: Run, summary: Mapping[str, object]) -> None:
        """Everything about one run but its figure."""
        write_atomically(self.path / HISTORY, _encoded(to_json(row) for row in run.history))
        self.write_ledger(run)
        run.model.save(self.path / MODEL)
        self.write_summary(summary)

    def write_ledger(self, run: Run) -> None:
        """All that was sent for the run, also what its clients were asked before and since."""
        write_atomically(self.path / LEDGER, _ledger_csv(run.all_sent()))

    def write_summary(self, summary: Mapping[str, object]) -> None:
        write_atomically(self.path / SUMMARY, (to_json(summary, indent=2) + "\n").encode())

    def write_config(self, text: str) -> None:
        write_atomically(self.path / CONFIG, text.encode())

    @property
    def chosen(self) -> Path:
        return self.path / CHOSEN

    def write_selection(self, ledger: Ledger, summary: Mapping[str, object], chosen: str) -> None:
        """What cross-validation found, what it cost, and the run file with what it chose."""
        write_atomically(self.path / LEDGER, _ledger_csv(ledger))
        write_atomically(self.chosen, chosen.encode())
        self.write_summary(summary)

    def write_figure(self, png: bytes, name: str = FIGURE) -> None:
        write_atomically(self.path / name, png)

    def write_figures(self, files: Mapping[str, bytes], name: str = FIGURE) -> None:
        """A figure in several formats, by their endings; `name` is that of the PNG."""
        for kind, data in files.items():
            write_atomically((self.path / name).with_suffix(f".{kind}"), data)

    def write_rounds(self, table: str) -> None:
        write_atomically(self.path / ROUNDS, table.encode())

    def write_costs(self, table: str) -> None:
        write_atomically(self.path / COSTS, table.encode())

    @property
    def report(self) -> Path:
        return self.path / REPORT

    def write_report(self, page: str) -> None:
        write_atomically(self.report, page.encode())


def _is_row(line: str) -> bool:
    try:
        return isinstance(json.loads(line).get("round"), int)
    except (ValueError, AttributeError, RecursionError):
        return False


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def _ledger_csv(ledger: Ledger) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Entry._fields)
    writer.writerows(map(spreadsheet_cell, entry) for entry in ledger.entries())
    return text.getvalue().encode()
