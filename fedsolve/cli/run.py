"""`fedsolve run` and `fedsolve compare`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsolve.algorithms.base import Algorithm, includes_server
from fedsolve.cli import coefficients, costs, warm_starts
from fedsolve.cli import gain as gains
from fedsolve.cli.console import Interrupted, OnRound, emit, escape, progress_bar, tell, warned
from fedsolve.cli.warm_starts import WarmStart
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.inference import FederationGain, FederationGains, federation_gain
from fedsolve.loggers import several
from fedsolve.loop.history import Run
from fedsolve.loop.run import run as run_algorithm
from fedsolve.loop.stopping import StoppingRule
from fedsolve.models.scores import score_name
from fedsolve.plain import describe
from fedsolve.report import RunFolder, comparison_figure, comparison_table, summarise, tables
from fedsolve.report import costs as cost_report
from fedsolve.report import evaluation as held_out
from fedsolve.report import run_page as pages
from fedsolve.report.comparison import Comparison, Trace
from fedsolve.report.figures import convergence, rendered
from fedsolve.report.html_parts import Html
from fedsolve.report.output_folder import COSTS_FIGURE, HELD_OUT
from fedsolve.report.result_words import result_sentences
from fedsolve.report.summary import note_later
from fedsolve.report.tables import size
from fedsolve.runfiles import coefficients as inference
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
    tell(problem.notes)
    if what.gain is not None:
        problem = gains.holding_out(problem, what.gain)
    ((label, algorithm),) = problem.algorithms.items()
    protocol = None if what.gain is None else gains.comparison(algorithm, what.gain, file)
    saved = _checkpoint(what.run, path := _folder(what, file, output, resume))
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
    inferred, forest = inference.asked(what, result, folder, summary)
    note_later(result, folder, summary)
    about = _about(what, problem, folder, {label: result}, f"{label} on {problem.data.name}", command, text)
    about = replace(about, inferred=inferred, forest=forest)
    folder.write_report(pages.run_page(about, result, summary, gained))

    def show(console: Console) -> None:
        console.print(tables.fitting(console, [summary]))
        _show_end(console, problem, result, label, summary, start)
        coefficients.show(console, inferred)
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


def compare(
    file: Path,
    output: Path | None,
    force: bool,
    as_json: bool,
    wanted: costs.Wanted | None = None,
    seeds: int | None = None,
) -> int:
    """Several algorithms on the same problem, with one seed or several; also what an accuracy costs, where that is
    wanted."""
    text = config.read_text(file)
    what = config.parse(text, str(file))
    problem = _several(what, file, wanted, seeds)
    tell(problem.notes)
    count = seeds or what.compare.seeds
    judging = None if wanted is None else costs.Judging.of(wanted, what, problem.entries)
    folder = RunFolder.open(_folder(what, file, output, False), force=force)
    folder.write_config(from_anywhere(text, file.parent))
    done = _run_each(what, problem, folder, file, judging, count)
    found = None if judging is None else judging.comparison()
    compared = Comparison(done.traces if found is None else _shown_of(done, found.best), what.compare.band)
    folder.write_rounds(replace(compared, traces=done.traces).csv())
    summary = {
        "status": "error" if _exit_code(done.rows) else "ok",
        "rows": done.rows,
        **({} if found is None else {"costs": found.plain()}),
        **({} if count == 1 else {"seeds": compared.seeds, "algorithms": comparison_table.plain(compared)}),
        "folder": folder.path,
        "report": folder.report,
    }
    folder.write_summary(summary)
    command = _command("compare", file, output, wanted, seeds)
    shown = done.rows if found is None else _worth_showing(done.rows, found.best)
    about = _about_comparison(what, problem, folder, compared, command, text)
    part = "" if found is None else _write_costs(found, folder, _described(problem), what.output.figures)
    side_by_side = comparison_table.section(compared)
    best = done.best([one.algorithm for one in compared.traces])
    titled = [{**row, "algorithm": done.title(row)} for row in shown]
    rows = [row for row in titled if row["algorithm"] in best]
    rows += [{**row, "algorithm": title} for title, row in done.alike(shown) if row["status"] == "error"]
    page = pages.comparison_page(about, rows, best, tables.RESULTS, costs=part, side_by_side=side_by_side)
    folder.write_report(page)

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(_described(problem))}[/bold]")
        console.print(comparison_table.terminal(compared, console))
        for sentence in comparison_table.explained(compared):
            console.print(f"[dim]{escape(sentence)}[/dim]")
        for one in () if found is None else cost_report.terminal(found):
            console.print(one)
        console.print()
        for title, row in done.alike(shown):
            if row["status"] in tables.BAD:
                console.print(escape(f"{title}: {row['message']}."))
        _notice(console, *done.runs.values())
        _where(console, folder)

    emit(summary, as_json, show)
    return _exit_code(done.rows)


def _several(what: keys.Config, file: Path, wanted: costs.Wanted | None, seeds: int | None) -> Problem:
    """The problem of a comparison, with its first seed. Raises ConfigError for what cannot be compared."""
    if what.algorithms is None:
        raise ConfigError(f"{file} has one [algorithm] and no list of [[algorithms]]: use `fedsolve run {file}`")
    if what.gain is not None:
        raise ConfigError(f"{file}: [gain] is for one model, and this file compares several; use `fedsolve run` for it")
    coefficients.reject(what, file)
    count = seeds or what.compare.seeds
    if wanted is not None and count > 1:
        raise ConfigError(f"--phi judges one run of each algorithm, and here are {count} seeds: use --seeds 1 with it")
    what.seeded(count - 1)  # rejects now what would be too large
    return problems.prepare(what, file)


@dataclass
class _Done:
    """The runs of a comparison.

    rows    of the summary: one for each algorithm and seed
    traces  what is compared of them
    runs    by label, the first that each algorithm could run; those of other seeds would hold their clients' rows
    count   how many seeds
    """

    count: int
    rows: list[dict[str, object]] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    failures: list[FedsolveError] = field(default_factory=list)

    def failed(
        self, labels: Sequence[str], what: keys.Config, error: FedsolveError, tried: Mapping[str, object] | None = None
    ) -> None:
        """Note algorithms that could not run with a seed."""
        self.failures.append(error)
        for label in labels:
            self.rows.append({**failed_row(label, error), "seed": what.run.seed, **(tried or {})})
            self.traces.append(Trace(label, *_seeds(what), "error", str(error), ""))

    def title(self, row: Mapping[str, object]) -> str:
        """What the run of a row is called."""
        return _title(str(row["algorithm"]), row["seed"], self.count)

    def alike(self, rows: Sequence[dict[str, object]]) -> Iterator[tuple[str, dict[str, object]]]:
        """The rows with their titles; those of an algorithm that ended alike with several seeds are one."""
        groups: dict[tuple[object, ...], list[dict[str, object]]] = {}
        for row in rows:
            groups.setdefault((row["algorithm"], row["status"], row["message"]), []).append(row)
        for (label, *_), same in groups.items():
            if len(same) == self.count:
                yield str(label), same[0]
            elif len(same) == 1:
                yield self.title(same[0]), same[0]
            else:
                yield f"{label}, seeds {', '.join(str(row['seed']) for row in same)}", same[0]

    def best(self, labels: Collection[str]) -> dict[str, Run]:
        """The runs of these algorithms that the report has in full, by title."""
        return {_title(label, run.seed, self.count): run for label, run in self.runs.items() if label in labels}


def _title(label: str, seed: object, count: int) -> str:
    return label if count == 1 else f"{label}, seed {seed}"


def _seeds(what: keys.Config) -> tuple[int, int | None]:
    """Those of the run and of the partition."""
    return what.run.seed, None if what.partition is None else what.partition.seed


def _run_each(
    what: keys.Config, problem: Problem, folder: RunFolder, file: Path, judging: costs.Judging | None, count: int
) -> _Done:
    """Run the algorithms of a comparison one after the other, with each seed."""
    done = _Done(count)
    with progress_bar() as begin:
        for more in range(count):
            seeded = what.seeded(more)
            try:
                of_seed = problem if more == 0 else problems.prepare(seeded, file)
            except FedsolveError as error:  # such as a partition that leaves a client without rows
                done.failed(list(problem.entries), seeded, error)
                continue
            for label in problem.entries:
                title = _title(label, seeded.run.seed, count)
                part, show = folder.part(title), begin(title, what.run.rounds)
                try:
                    _run_one(seeded, of_seed, label, part, show, file.parent, judging, done)
                except KeyboardInterrupt:
                    raise Interrupted(f"stopped during {title}; those before it are in {folder.path}") from None
    if not done.runs:
        folder.discard()
        raise done.failures[0]
    done.traces.sort(key=lambda one: list(problem.entries).index(one.algorithm))  # the seeds stay in their order
    return done


def _run_one(
    what: keys.Config,
    problem: Problem,
    label: str,
    part: RunFolder,
    show: OnRound,
    folder: Path,
    judging: costs.Judging | None,
    done: _Done,
) -> None:
    """Run one algorithm with one seed, and note how it went. One that cannot run leaves the others alone."""
    entry = problem.entries[label]
    rule = None if judging is None else judging.rule(entry)
    tried: dict[str, object] = {"entry": entry.entry, "values": entry.values} if entry.values else {}
    objective = describe((getattr(entry.algorithm, "loss", None), includes_server(entry.algorithm)))
    try:
        start = warm_starts.begin(what, problem, entry.algorithm, folder)
        result = _execute(what, problem, entry.algorithm, part, show, None, False, start, rule)
    except FedsolveError as error:  # the others may still do
        part.discard()
        done.failed([label], what, error, tried)
        return
    done.rows.append({**_finish(problem, result, label, part, start), **tried})
    done.runs.setdefault(label, result)
    found = Trace(label, *_seeds(what), result.status, result.message, objective)
    found = replace(found, history=result.history, reached=result.model_row, evaluation=result.evaluation)
    done.traces.append(found)
    if judging is not None and rule is not None:
        judging.note(label, entry, result, rule)


def _shown_of(done: _Done, best: Collection[str]) -> list[Trace]:
    labels = {str(row["algorithm"]) for row in _worth_showing(done.rows, best)}
    return [one for one in done.traces if one.algorithm in labels]


def _worth_showing(rows: Sequence[dict[str, object]], best: Collection[str]) -> list[dict[str, object]]:
    """Of the points of a grid those that are the best for some accuracy, or all if none could run. The others have
    their folders, and are in the summary."""
    ran = {row["entry"] for row in rows if "entry" in row and row["algorithm"] in best}
    return [row for row in rows if row.get("entry") not in ran or row["algorithm"] in best]


def _about_comparison(
    what: keys.Config, problem: Problem, folder: RunFolder, compared: Comparison, command: str, text: str
) -> pages.About:
    """What the report says of the problem; draws the figure, which has files of its own too."""
    files: dict[str, bytes] = {}
    if what.output.figures:
        files = rendered(comparison_figure.draw(compared, _described(problem)))
        folder.write_figures(files)
    samples = sum(client.n_samples for client in problem.clients)
    described = f"{_described(problem)}, {samples:,} rows"
    names = problem.data.feature_names
    measured = f", gradient norm and held-out {compared.score_name}" if compared.score else " and gradient norm"
    shows = f"Distance to the lowest value{measured} against rounds, bytes and seconds"
    about = pages.About(_described(problem), described, command, files.get("png"), text, names)
    return replace(about, drawn=compared.drawn, shows=shows)


def _write_costs(found: cost_report.CostComparison, folder: RunFolder, title: str, drawn: bool) -> Html:
    """The files of what an accuracy costs, and its part of the report."""
    folder.write_costs(found.csv())
    files = rendered(cost_report.draw(found, title)) if drawn else {}
    folder.write_figures(files, COSTS_FIGURE)
    return cost_report.section(found, files.get("png"))


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
    budget = what.run
    every = budget.checkpoint_every or max(1, budget.rounds // SAVES)
    rules, evaluation = what.judging(getattr(algorithm, "loss", None))
    described = {"algorithm": type(algorithm).__name__, "hyper_parameters": describe(algorithm), "seed": budget.seed}
    with ExitStack() as logging:
        loggers = [logging.enter_context(one) for one in what.loggers.open(folder.path, described)]
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
            on_round=several(folder.append, show, *loggers),
            min_rows=budget.min_rows,
        )
    if start is not None and start.ledger is not None and result.session is not None:
        result.session.earlier.append(("warm start", start.ledger))
    return replace(result, model=problem.named(result.model))


def _finish(problem: Problem, result: Run, label: str, folder: RunFolder, start: WarmStart | None) -> Summary:
    known = {
        "data": problem.data.name,
        "feature_names": problem.data.feature_names,
        "score": score_name(result.model),
        "scores": problem.scores(result.model),
        **({"notes": list(problem.notes)} if problem.notes else {}),
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
    described = f"{_described(problem)}, {samples:,} rows"
    outcome = None if isinstance(what.data.target, int) else what.data.target
    return pages.About(title, described, command, figure, text, problem.data.feature_names, drawn, outcome=outcome)


def _command(
    verb: str, file: Path, output: Path | None, wanted: costs.Wanted | None = None, seeds: int | None = None
) -> str:
    costly = () if wanted is None else wanted.arguments
    many = () if seeds is None else ("--seeds", str(seeds))
    there = () if output is None else ("--output", str(output))
    return shlex.join(["fedsolve", verb, str(file), *costly, *many, *there])


def _where(console: Console, folder: RunFolder) -> None:
    where = f"The report is [bold]{escape(str(folder.report))}[/bold]; everything else is beside it"
    console.print(where, soft_wrap=True)


def _described(problem: Problem) -> str:
    return f"{problem.data.name}, {len(problem.clients)} sites"


def _scores(summary: Summary) -> str:
    said = [f"{value:.4g} on the {where}ing data" for where, value in summary["scores"].items() if value is not None]
    kind = summary["score"]
    return f"{kind[:1].upper()}{kind[1:]}: {', '.join(said)}." if said else ""


def _show_end(
    console: Console, problem: Problem, result: Run, label: str, summary: Summary, start: WarmStart | None
) -> None:
    """How the run ended, what came out of it and what it took."""
    ended = f"[bold red]{result.status}[/bold red]: " if result.status in tables.BAD else ""
    console.print(f"\n{escape(f'{label} on {_described(problem)}')}: {ended}{escape(result.message)}.")
    if start is not None:
        console.print(escape(start.sentence))
    for said in result_sentences(result, sum(client.n_samples for client in problem.clients), None):
        console.print(said)
    if not ended:
        console.print(_scores(summary))
    console.print(_sent(summary))


def _sent(summary: Summary) -> str:
    """All that was sent, of which the table has what fitted the model."""
    whole = summary["sent"]["all"]
    parts = [f"{name} {size(one['bytes_up'])}" for name, one in summary["sent"].items() if name != "all"]
    up, down = size(whole["bytes_up"]), size(whole["bytes_down"])
    return f"In all, the sites sent {up} ({', '.join(parts)}) and received {down}."


def _notice(console: Console, *results: Run) -> None:
    """Who has few rows, each sentence once; and one line if much of a raw column is missing or was not declared."""
    said = list(dict.fromkeys(notice for result in results for notice in result.notices))
    transform = getattr(results[0].model, "transform", None)
    if transform is not None and (gaps := transform.notice()):
        said.append(gaps)
    for notice in said:
        console.print(warned(notice), soft_wrap=True)


def _exit_code(rows: Sequence[Mapping[str, object]]) -> int:
    """1 if a run was bad, or all points of a grid with one seed: some of these may well diverge."""
    sound: dict[object, bool] = {}
    for row in rows:
        name = (row.get("entry", row["algorithm"]), row["seed"])
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
