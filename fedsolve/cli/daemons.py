"""`fedsolve provision`, `server` and `site`: what organisations set up and keep running for runs between them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, in_line, say
from fedsolve.deploy import daemon, kit_settings, ports
from fedsolve.deploy.kit_lock import only_one
from fedsolve.deploy.kits import Kind, Kit, open_kit, soon_expired
from fedsolve.deploy.knocking import check_trusted
from fedsolve.deploy.project_file import AUTHORITY, read_project
from fedsolve.deploy.provisioning import provision
from fedsolve.errors import ConfigError
from fedsolve.runfiles import run_file
from fedsolve.sites.site_file import parse_site_file


def make_kits(file: Path, output: Path, as_json: bool) -> int:
    """`fedsolve provision`."""
    project = read_project(file)
    made = provision(project, output)

    def show(console: Console) -> None:
        for kit in made:
            console.print(in_line(f"{kit.name}: {kit}"), soft_wrap=True)
        console.print(
            f"Give each folder to its owner by a safe way: it holds a private key. {in_line(str(output / AUTHORITY))} "
            "stays with you: whoever has it can make kits.",
            soft_wrap=True,
        )

    emit({"status": "ok", "kits": {kit.name: kit for kit in made}, "authority": output / AUTHORITY}, as_json, show)
    return 0


def _opened(folder: Path, kind: Kind) -> Kit:
    """The kit of a daemon, which runs here, and for longer than a command."""
    daemon.check_platform()
    kit = open_kit(folder, kind)
    if (soon := soon_expired(kit)) is not None:
        say(soon)
    return kit


def serve(folder: Path) -> int:
    """`fedsolve server`."""
    kit = _opened(folder, "server")
    with only_one(kit):
        ports.check_free(kit)
        say(
            f"the server of {kit.project} runs as {kit.name} on port {kit.port}; Ctrl-C ends it. Its log is "
            f"{kit.folder / 'daemon.log'}"
        )
        daemon.serve(kit, {**kit_settings.SERVER_ENVIRONMENT, daemon.RUNS: str(kit.folder / "runs")}, say)
    return 0


def join(folder: Path, site_file: Path) -> int:
    """`fedsolve site`."""
    kit = _opened(folder, "site")
    about = parse_site_file(run_file.read_text(site_file, "site file"), site_file)
    if about.name != kit.name:
        raise ConfigError(
            f"{site_file} is of {about.name!r}, and the certificate of the kit {folder} is of {kit.name!r}"
        )
    if not about.file.is_file():
        raise ConfigError(f"{site_file}: there is no data file {about.file}")
    check_trusted(kit)  # which the daemon would only write into its log, again and again
    with only_one(kit):
        say(f"{kit.name} is a site of {kit.project}; Ctrl-C ends it. What leaves is in {about.audit_log}")
        daemon.serve(kit, {daemon.SITE_FILE: str(site_file.resolve())}, say)
    return 0
