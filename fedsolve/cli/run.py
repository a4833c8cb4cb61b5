"""`fedsolve run` and `fedsolve compare`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsolve.algorithms.base import Algorithm
from fedsolve.cli import costs, warm_starts
from fedsolve.cli import gain as gains
from fedsolve.cli.console import Interrupted, OnRound, emit, escape, progress_bar, warned
from fedsolve.cli.warm_starts import WarmStart
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.inference import FederationGain, FederationGains, federation_gain
from fedsolve.loop.history import Row, Run
from fedsolve.loop.run import run as run_algorithm
from fedsolve.loop.stopping import StoppingRule
from fedsolve.models.scores import score_name
from fedsolve.report import RunFolder, summarise, tables
from fedsolve.report import costs as cost_report
from fedsolve.report import evaluation as held_out
from fedsolve.report import run_page as pages
from fedsolve.report.figures import convergence
from fedsolve.report.html_parts import Html
from fedsolve.report.output_folder import COSTS_FIGURE, HELD_OUT
from fedsolve.runfiles import keys
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.portable import from_anywhere
from fedsolve.runfiles.problem import Problem

Summary = dict[str, Any]  # plain values, as in summary.json

SAVES = 10  # in a run, where the file does not say how often: at most a tenth of the work is lost


def run(file: Path, output: Path | None, force: bool, resume: bool, as_json: bool) -> int:
    """One algorithm."""
    text = config.read_text(file)
    what = config.parse(text, str(file))
    if what.algorithm is None:
        raise ConfigError(f"{file} lists several [[algorithms]]: use `fedsolve compare {file}`")
    gains.check_shares(what)
    problem = problems.prepare(what, file)
    if what.gain is not None:
        problem = gains.holding_out(problem, what.gain)
    ((label, algorithm),) = problem.algorithms.items()
    protocol = None if what.gain is None else gains.comparison(algorithm, what.gain, file)
    path = _folder(what, file, output, resume)
    saved = _checkpoint(what.run, path)
    going_on = _goes_on(what, saved, resume)
    folder = RunFolder.open(path, force=force, resume=going_on)
    copied = from_anywhere(text, file.parent)
    if not going_on:  # else the copy there is right until the run file has proved to be of the same run
        folder.write_config(copied)
    with progress_bar() as begin:
        try:
            start = None if going_on else warm_starts.begin(what, problem, algorithm, file.parent)
            result = _execute(what, problem, algorithm, folder, begin(label, what.run.rounds), saved, going_on, start)
        except KeyboardInterrupt:
            raise Interrupted(_how_to_resume(file, path, saved)) from None
        except FedsolveError:
            folder.discard()
            raise
    folder.write_config(copied)
    summary = _finish(problem, result, label, folder, start)
    gained = None if protocol is None else _gained(result, protocol)
    if gained is not None:  # last, so that the model is saved whatever the clients answer
        summary["gain"] = gains.as_plain(gained)
        folder.write_summary(summary)
    command = _command("run", file, output)
    about = _about(what, problem, folder, {label: result}, f"{label} on {problem.data.name}", command, text)
    folder.write_report(pages.run_page(about, result, summary, gained))

    def show(console: Console) -> None:
        console.print(tables.fitting(console, [summary]))
        ended = f"[bold red]{result.status}[/bold red]: " if result.status in tables.BAD else ""
        console.print(f"\n{escape(f'{label} on {_described(problem)}')}: {ended}{escape(result.message)}.")
        if start is not None:
            console.print(escape(start.sentence))
        if not ended:
            console.print(_scores(summary))
        if result.evaluation is not None:
            console.print(held_out.terminal(result.evaluation))
            console.print()
        if gained is not None:
            console.print()
            gains.show_gains(console, gained)
        _notice(console, result)
        _where(console, folder)

    emit({**summary, "folder": folder.path, "report": folder.report}, as_json, show)
    return _exit_code([summary])


def compare(file: Path, output: Path | None, force: bool, as_json: bool, wanted: costs.Wanted | None = None) -> int:
    """Several algorithms on the same problem; also what an accuracy costs, where that is wanted."""
    text = config.read_text(file)
    what = config.parse(text, str(file))
    if what.algorithms is None:
        raise ConfigError(f"{file} has one [algorithm] and no list of [[algorithms]]: use `fedsolve run {file}`")
    if what.gain is not None:
        raise ConfigError(f"{file}: [gain] is for one model, and this file compares several; use `fedsolve run` for it")
    problem = problems.prepare(what, file)
    judging = None if wanted is None else costs.Judging.of(wanted, what, problem.entries)
    folder = RunFolder.open(_folder(what, file, output, False), force=force)
    folder.write_config(from_anywhere(text, file.parent))
    rows, results = _run_each(what, problem, folder, file, judging)
    found = None if judging is None else judging.comparison()
    summary = {
        "status": "error" if _exit_code(rows) else "ok",
        "rows": rows,
        **({} if found is None else {"costs": found.plain()}),
        "folder": folder.path,
        "report": folder.report,
    }
    folder.write_summary(summary)
    command = _command("compare", file, output, wanted)
    shown = rows if found is None else _worth_showing(rows, found.best)
    best = {label: run for label, run in results.items() if any(row["algorithm"] == label for row in shown)}
    about = _about(what, problem, folder, best, _described(problem), command, text)
    part = "" if found is None else _write_costs(found, folder, _described(problem), what.output.figures)
    folder.write_report(pages.comparison_page(about, shown, best, tables.RESULTS, costs=part))

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(_described(problem))}[/bold]")
        console.print(tables.fitting(console, shown))
        if found is not None:
            for one in cost_report.terminal(found):
                console.print(one)
        console.print()
        for row in shown:
            if row["status"] in tables.BAD:
                console.print(escape(f"{row['algorithm']}: {row['message']}."))
        _notice(console, *results.values())
        _where(console, folder)

    emit(summary, as_json, show)
    return _exit_code(rows)


def _run_each(
    what: keys.Config, problem: Problem, folder: RunFolder, file: Path, judging: costs.Judging | None
) -> tuple[list[dict[str, object]], dict[str, Run]]:
    """Run the algorithms of a comparison one after the other: a row for each, and the runs of those that could run."""
    rows: list[dict[str, object]] = []
    results: dict[str, Run] = {}
    failures: list[FedsolveError] = []
    with progress_bar() as begin:
        for label, entry in problem.entries.items():
            part, show = folder.part(label), begin(label, what.run.rounds)
            rule = None if judging is None else judging.rule(entry)
            tried: dict[str, object] = {"entry": entry.entry, "values": entry.values} if entry.values else {}
            try:
                start = warm_starts.begin(what, problem, entry.algorithm, file.parent)
                result = _execute(what, problem, entry.algorithm, part, show, None, False, start, rule)
            except KeyboardInterrupt:
                raise Interrupted(f"stopped during {label}; those before it are in {folder.path}") from None
            except FedsolveError as error:  # the others may still do
                failures.append(error)
                part.discard()
                rows.append({**failed_row(label, error), **tried})
                continue
            rows.append({**_finish(problem, result, label, part, start), **tried})
            results[label] = result
            if judging is not None and rule is not None:
                judging.note(label, entry, result, rule)
    if not results:
        folder.discard()
        raise failures[0]
    return rows, results


def _worth_showing(rows: Sequence[dict[str, object]], best: Collection[str]) -> list[dict[str, object]]:
    """Of the points of a grid those that are the best for some accuracy, or all if none could run. The others have
    their folders, and are in the summary."""
    ran = {row["entry"] for row in rows if "entry" in row and row["algorithm"] in best}
    return [row for row in rows if row.get("entry") not in ran or row["algorithm"] in best]


def _write_costs(found: cost_report.CostComparison, folder: RunFolder, title: str, drawn: bool) -> Html:
    """The files of what an accuracy costs, and its part of the report."""
    folder.write_costs(found.csv())
    figure = cost_report.figure(found, title) if drawn else None
    if figure is not None:
        folder.write_figure(figure, COSTS_FIGURE)
    return cost_report.section(found, figure)


def failed_row(label: str, error: Exception, status: str = "error") -> dict[str, object]:
    """The row of an algorithm that could not run."""
    nothing = dict.fromkeys(("rounds", "value", "gradient_norm", "bytes_up", "bytes_down", "seconds"))
    return {"algorithm": label, "status": status, "message": str(error), **nothing}


# ── one run ──


def _execute(
    what: keys.Config,
    problem: Problem,
    algorithm: Algorithm,
    folder: RunFolder,
    show: OnRound,
    saved: Path | None,
    resume: bool,
    start: WarmStart | None,
    rule: StoppingRule | None = None,
) -> Run:
    def on_round(row: Row) -> None:
        folder.append(row)
        show(row)

    budget = what.run
    every = budget.checkpoint_every or max(1, budget.rounds // SAVES)
    rules, evaluation = what.judging(getattr(algorithm, "loss", None))
    result = run_algorithm(
        algorithm,
        problems.transport(budget, problem.clients),
        stopping=rules if rule is None else [*rules, rule],
        participation=what.participants(),
        seed=budget.seed,
        warm_start=None if start is None else start.model,
        server=problem.server,
        preprocess=problem.preprocess,
        measure=budget.measure,
        evaluation=evaluation,
        checkpoint=saved,
        checkpoint_every=every,
        resume=resume,
        on_round=on_round,
        min_rows=budget.min_rows,
    )
    return replace(result, model=problem.named(result.model))


def _finish(problem: Problem, result: Run, label: str, folder: RunFolder, start: WarmStart | None) -> Summary:
    known = {
        "data": problem.data.name,
        "feature_names": problem.data.feature_names,
        "score": score_name(result.model),
        "scores": problem.scores(result.model),
    }
    summary = {**summarise(result, label, problem.clients), **known}
    if start is not None:
        summary["warm_start"] = start.said
    folder.write_run(result, summary)
    return summary


def _gained(result: Run, protocol: FederationGain) -> FederationGains | str:
    """Who gains, or why that is not known: the model is fitted, and its report does not depend on this."""
    try:
        return federation_gain(result, protocol)
    except FedsolveError as error:
        return str(error)


def _about(
    what: keys.Config,
    problem: Problem,
    folder: RunFolder,
    results: dict[str, Run],
    title: str,
    command: str,
    text: str,
) -> pages.About:
    """What the report says of the problem; draws the figure, which has a file of its own too."""
    figure = None
    if what.output.figures:
        histories = {label: result.history for label, result in results.items()}
        figure = convergence(histories, title=title, best_name="lowest")
        folder.write_figure(figure)
    drawn = None
    if what.output.figures and len(results) == 1:
        ((only),) = results.values()
        drawn = None if only.evaluation is None else held_out.figure(only.evaluation)
        if drawn is not None:
            folder.write_figure(drawn, HELD_OUT)
    samples = sum(client.n_samples for client in problem.clients)
    described = f"{_described(problem)}, {samples:,} samples"
    outcome = what.data.target if isinstance(what.data.target, str) else None
    return pages.About(title, described, command, figure, text, problem.data.feature_names, drawn, outcome=outcome)


def _command(verb: str, file: Path, output: Path | None, wanted: costs.Wanted | None = None) -> str:
    costly = () if wanted is None else wanted.arguments
    return shlex.join(["fedsolve", verb, str(file), *costly, *(() if output is None else ("--output", str(output)))])


def _where(console: Console, folder: RunFolder) -> None:
    where = f"The report is [bold]{escape(str(folder.report))}[/bold]; everything else is beside it"
    console.print(where, soft_wrap=True)


def _described(problem: Problem) -> str:
    return f"{problem.data.name}, {len(problem.clients)} clients"


def _scores(summary: Summary) -> str:
    said = [f"{value:.4g} on the {where}ing data" for where, value in summary["scores"].items() if value is not None]
    kind = summary["score"]
    return f"{kind[:1].upper()}{kind[1:]}: {', '.join(said)}." if said else ""


def _notice(console: Console, *results: Run) -> None:
    """Who has few rows, each sentence once; and one line if much of a raw column is missing or was not declared."""
    said = list(dict.fromkeys(notice for result in results for notice in result.notices))
    transform = getattr(results[0].model, "transform", None)
    if transform is not None and (gaps := transform.notice()):
        said.append(gaps)
    for notice in said:
        console.print(warned(notice), soft_wrap=True)


def _exit_code(rows: Sequence[Mapping[str, object]]) -> int:
    """1 if a run was bad, or all points of a grid: some of these may well diverge."""
    sound: dict[object, bool] = {}
    for row in rows:
        name = row.get("entry", row["algorithm"])
        sound[name] = sound.get(name, False) or row["status"] not in tables.BAD
    return 0 if all(sound.values()) else 1


# ── where ──


def _folder(what: keys.Config, file: Path, output: Path | None, resume: bool) -> Path:
    if output is not None:
        return output
    if what.output.folder is not None:
        return Path(what.output.folder).expanduser()
    if resume:
        raise ConfigError("--resume needs the folder of the run to go on with: --output FOLDER")
    return Path("runs") / f"{file.stem}-{time.strftime('%Y%m%d-%H%M%S')}"


def _checkpoint(what: keys.Budget, folder: Path) -> Path | None:
    if isinstance(what.checkpoint, str):
        return Path(what.checkpoint).expanduser()
    return RunFolder(folder).checkpoint if what.checkpoint else None


def _goes_on(what: keys.Config, saved: Path | None, asked: bool) -> bool:
    """Whether to go on from a checkpoint: `--resume` insists on one, `resume = true` begins without."""
    there = saved is not None and saved.is_file()
    if asked and saved is None:
        raise ConfigError("--resume needs a checkpoint, and run.checkpoint = false switches it off")
    if asked and not there:
        raise ConfigError(f"there is no checkpoint {saved} to go on from; leave --resume out to begin")
    return there and (asked or what.run.resume)


def _how_to_resume(file: Path, folder: Path, saved: Path | None) -> str:
    if saved is None or not saved.is_file():
        return "stopped; no checkpoint has been written, so the run begins anew next time"
    command = shlex.join(["fedsolve", "run", str(file), "--output", str(folder), "--resume"])
    return f"stopped; the checkpoint is {saved}. Go on with: {command}"
