"""The command line: `fedsolve init`, `run`, `compare`, `select`, `demo`, `diagnose`, `reproduce`, `datasets`,
`algorithms` and `predict`; between organisations `provision`, `server`, `site`, `submit`, `status` and `stop`, and
for the administrator of a site `consent`, `audit` and `forget`.

Exit status 0: done. 2: wrong input, said in one sentence. 1: a fault, a run that diverged or lost its quorum, or an
experiment whose stated verdict is no. 130: stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedsolve.cli import audit as audit_command
from fedsolve.cli import claims as claims_command
from fedsolve.cli import consent as consent_command
from fedsolve.cli import costs as cost_command
from fedsolve.cli import daemons, deployment, jobs, listings
from fedsolve.cli import demo as demo_command
from fedsolve.cli import diagnose as diagnose_command
from fedsolve.cli import forget as forget_command
from fedsolve.cli import gain as gain_command
from fedsolve.cli import init as init_command
from fedsolve.cli import predict as predict_command
from fedsolve.cli import reproduce as reproduce_command
from fedsolve.cli import run as run_command
from fedsolve.cli import select as select_command
from fedsolve.cli.console import Interrupted
from fedsolve.cli.markers import markers
from fedsolve.cli.new_rows import Asked
from fedsolve.errors import CheckpointError, FedsolveError, FedsolveWarning, InputError, QuorumNotReached
from fedsolve.report.json_values import to_json
from fedsolve.text import printable
from fedsolve.version import __version__

DONE, FAULT, WRONG_INPUT, STOPPED = 0, 1, 2, 130

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where an error comes from.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run in the folder.")]
RunFile = Annotated[Path, typer.Argument(metavar="FILE.toml", show_default=False, help="The run file.")]
Kit = Annotated[Path, typer.Option("--kit", show_default=False, help="Your start-up kit: the folder of a user.")]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", show_default=False, help="The folder for the results. (default: runs/NAME-TIME)"),
]


class Commands(TyperGroup):
    """Turns what goes wrong in any command into an exit status and one sentence."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args) or ["--help"]
        named["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FedsolveWarning)  # commands print what there is to say themselves
                status = super().main(given, *rest, **named)
        except Exception as error:
            status = _explain(error, as_json="--json" in given, trace="--traceback" in given)
        sys.exit(status or DONE)

    def invoke(self, ctx: Any) -> object:
        try:
            found: object = super().invoke(ctx)
            return found
        except KeyboardInterrupt:  # in a command that has nothing more to say; `--json` means one object here too
            raise Interrupted("stopped by Ctrl-C before it had finished") from None


def _explain(error: Exception, as_json: bool, trace: bool) -> int:
    text, status = " ".join(str(error).split()), FAULT
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # the command line itself was wrong
        said = error.format_message().rstrip(".")
        text, status = f"{said}{'' if said.endswith('?') else '.'} See fedsolve --help.", int(error.exit_code)
    elif isinstance(error, InputError | CheckpointError):
        status = WRONG_INPUT
    elif isinstance(error, Interrupted):
        status = STOPPED
    elif not isinstance(error, FedsolveError):
        text = f"{type(error).__name__}: {text}" + ("" if trace else " (--traceback shows where)")
    if trace:
        print(printable("".join(traceback.format_exception(error)), lines=True), end="", file=sys.stderr)
    print(f"fedsolve: {printable(text)}", file=sys.stderr)
    if not trace:  # which shows them too
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
    if as_json:
        kind = "no quorum" if isinstance(error, QuorumNotReached) else "error"
        kind = "interrupted" if status == STOPPED else kind
        print(to_json({"status": kind, "error": type(error).__name__, "message": text}))
    return status


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Fit one model to data that several parties hold and may not pool.",
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="The version, and no more.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def init(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", show_default=False, help="One csv or parquet file per site, or NAME=FILE."),
    ],
    target: Annotated[str, typer.Option(show_default=False, help="The column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The run file to write.")] = Path("run.toml"),
    names: Annotated[
        list[str] | None,
        typer.Option(
            show_default=False,
            help="Names of the columns, if files have no header: a,b,c, or SITE=a,b,c for the file of one; repeat it.",
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(show_default=False, help='Values of the target that count as 1: "yes", "> 0", "1..4", "2,3".'),
    ] = None,
    na: Annotated[
        list[str] | None,
        typer.Option(show_default=False, help="What marks a missing cell: -9, or chol=0 for a column; repeat it."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(show_default=False, help="A column that is no feature; may be repeated.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(show_default=False, help="A column that stays although some site lacks it; may be repeated."),
    ] = None,
    weight: Annotated[str | None, typer.Option(show_default=False, help="The column of row weights.")] = None,
    offset: Annotated[str | None, typer.Option(show_default=False, help="The column of offsets.")] = None,
    loss: Annotated[
        str | None,
        typer.Option(show_default=False, help="Logistic, Softmax, Squared or Poisson. (default: by the target)"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept more than 1,000 categories of a column.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run file if it exists.")] = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Write a run file for your own files, one per site. See docs/own-files.md."""
    lists = init_command.Lists(names or (), na or (), drop or (), keep or ())
    asked = init_command.Asked(target, output, weight, offset, positive, loss, lists, yes, force)
    return init_command.init(files, asked, json)


@app.command()
def audit(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", show_default=False, help="The audit.jsonl of a site, or its folder.")
    ],
    run: Annotated[
        str | None, typer.Option("--run", show_default=False, help="Only this run; the first digits are enough.")
    ] = None,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Say in words what left a site in each run, and what its policy refused, from the site's own log."""
    return audit_command.audit(log, run, json)


@app.command()
def run(
    file: RunFile,
    output: Folder = None,
    force: Force = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the output folder.")] = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Run one algorithm as a run file says. Every key of a run file is in docs/run-file.md."""
    return run_command.run(file, output, force, resume, json)


@app.command()
def compare(
    file: RunFile,
    output: Folder = None,
    phi: Annotated[
        str | None,
        typer.Option(
            "--phi",
            metavar="NUMBERS",
            show_default=False,
            help="Also what an accuracy costs if sending a vector takes as long as so many gradients: 1,10,100,1000.",
        ),
    ] = None,
    sending: Annotated[
        str | None,
        typer.Option(
            "--sending",
            metavar="epochs|vectors",
            show_default=False,
            help="With --phi: what costs as much, a message (epochs, the default) or every p numbers in it (vectors).",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=False,
            help="How often to run each, with other partitions and seeds. (default: seeds of \\[compare], or 1)",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Run several algorithms on the same data and compare them. Every key of a run file is in docs/run-file.md."""
    return run_command.compare(file, output, force, json, cost_command.wanted(phi, sending), seeds)


@app.command()
def select(
    file: RunFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", show_default=False, help="The folder for the results. (default: runs/NAME-select-TIME)"
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Choose penalties and feature maps by cross-validation, as \\[select] of a run file says; see docs/run-file.md."""
    return select_command.select(file, output, force, json)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the results.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Who is treated in which hospital.", min=0)] = 0,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Four hospitals, one model: every algorithm against the fit of the pooled data. Needs no files."""
    return demo_command.demo(output, seed, json)


@app.command()
def diagnose(
    file: RunFile,
    steps: Annotated[int, typer.Option(help="Lanczos steps, two exchanges each.", min=1)] = 8,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Would FedNewton converge on this problem, who differs from whom, and by how much? Nothing is fitted for keeps."""
    return diagnose_command.diagnose(file, steps, json)


@app.command()
def gain(
    file: RunFile,
    held_out: Annotated[
        float | None,
        typer.Option(show_default=False, help="The share of rows to set aside. (default: that of \\[gain], or 0.3)"),
    ] = None,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Who gains by joining? The federated model against each client's own best one, on rows that are set aside."""
    return gain_command.gain(file, held_out, json)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="The experiment; with --claims, a paper.")
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Every statement of the papers, or of one, and what came of it.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what there is, and no more.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small form, to try it; no source of figures.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's own size, where an experiment has it; goes on where it stopped.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="How many. (default: what the experiment says)")
    ] = None,
    settings: Annotated[
        str | None, typer.Option(show_default=False, help="With --full: which settings, separated by commas.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, show_default=False, help="With --full: end after so many.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", show_default=False, help="The folder for the results. (default: runs/reproduce-NAME)"
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", show_default=False, help="Also keep table and verdicts as a small file in this folder."),
    ] = None,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Reproduce a figure or table of the papers, ours beside what they print."""
    if list_:
        return reproduce_command.listing(json)
    if claims:
        return claims_command.claims(name, output, json)
    wanted = reproduce_command.Wanted(quick, full, seeds, settings, minutes, output, save)
    return reproduce_command.reproduce(name, wanted, json)


@app.command()
def datasets(json: Json = False, trace: Traceback = False) -> int:
    """List the data sets that have a name."""
    return listings.datasets(json)


@app.command()
def algorithms(json: Json = False, trace: Traceback = False) -> int:
    """List the algorithms, and all else that a run file can name."""
    return listings.algorithms(json)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.npz, or the folder of a run.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A file (csv, parquet, npz, LIBSVM, idx), or the name of a data set.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A csv file for the predictions. (default: standard output)",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column with the true values, to compare with.", show_default=False)
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A column that is no feature; may be repeated.", show_default=False),
    ] = None,
    id_: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="A column to carry through to the output as it is, and no feature; may be repeated.",
            show_default=False,
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Predict with the model of a run that diverged, too.")
    ] = False,
    na: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MARKER",
            help="What marks a missing cell, besides what did in the run: -9, or chol=0 for one column (chol= if "
            "nothing does); may be repeated.",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(help="Whose file it is, if the run file says how that site's file is read.", show_default=False),
    ] = None,
    no_offset: Annotated[
        bool, typer.Option("--no-offset", help="Predict for an offset of 0, where the run had a column of offsets.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Predict with a model that a run has left."""
    asked = Asked(target, drop or [], site, markers(na or []), not no_offset)
    wanted = predict_command.Wanted(output, id_ or [], anyway, force)
    return predict_command.predict(model, data, asked, wanted, json)


@app.command()
def provision(
    file: Annotated[Path, typer.Argument(metavar="PROJECT.toml", show_default=False, help="Who takes part.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the kits.")] = Path("kits"),
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Make a start-up kit, with certificate and key, for the server, each site and each user of a federation."""
    return daemons.make_kits(file, output, json)


@app.command()
def server(
    kit: Annotated[Path, typer.Argument(metavar="KIT", show_default=False, help="The server's start-up kit.")],
    trace: Traceback = False,
) -> int:
    """Run the server of a federation, until Ctrl-C."""
    return daemons.serve(kit)


@app.command()
def site(
    kit: Annotated[Path, typer.Argument(metavar="KIT", show_default=False, help="The site's start-up kit.")],
    file: Annotated[
        Path, typer.Argument(metavar="SITE.toml", show_default=False, help="The site file: its data and its policy.")
    ],
    trace: Traceback = False,
) -> int:
    """Run a site of a federation, until Ctrl-C: it answers the runs that its policy allows."""
    return daemons.join(kit, file)


@app.command()
def forget(
    file: Annotated[Path, typer.Argument(metavar="SITE.toml", show_default=False, help="The site file.")],
    days: Annotated[float, typer.Option(min=1, help="Forget runs in which nothing was written for so long.")] = 90.0,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Remove what a site remembers of old runs; they cannot be gone on with. The audit log stays."""
    return forget_command.forget(file, days, json)


@app.command()
def consent(
    site: Annotated[
        Path, typer.Argument(metavar="SITE.toml", show_default=False, help="The site file: its data and its policy.")
    ],
    file: Annotated[
        Path, typer.Argument(metavar="RUN.toml", show_default=False, help="The server's half of a run file.")
    ],
    data: Annotated[
        bool, typer.Option("--data", help="Also read the data file, and say what is wrong with it for this run.")
    ] = False,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Show whether a site would take part in a run, what would leave it and what would not. Reads no data without
    --data, and sends none."""
    return consent_command.consent(site, file, data, json)


@app.command()
def submit(
    file: Annotated[
        Path, typer.Argument(metavar="RUN.toml", show_default=False, help="The server's half of a run file.")
    ],
    kit: Kit,
    output: Folder = None,
    force: Force = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the output folder.")] = False,
    attempts: Annotated[int, typer.Option(min=1, help="How many jobs to try, if they die.")] = 5,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for sites that are not connected.")] = 60.0,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Run an algorithm between the sites of a federation, and write the same folder as `fedsolve run`."""
    return deployment.submit(file, kit, deployment.Asked(output, force, resume, attempts, wait), json)


@app.command()
def status(kit: Kit, json: Json = False, trace: Traceback = False) -> int:
    """Show which sites are connected to the server of a federation, and which runs it has."""
    return jobs.status(kit, json)


@app.command()
def stop(
    kit: Kit,
    job: Annotated[
        str | None, typer.Option("--job", show_default=False, help="The job to stop. (default: all that are running)")
    ] = None,
    json: Json = False,
    trace: Traceback = False,
) -> int:
    """Stop runs of yours between sites. Their checkpoints stay, and `fedsolve submit --resume` goes on from them."""
    return jobs.stop(kit, job, json)


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
