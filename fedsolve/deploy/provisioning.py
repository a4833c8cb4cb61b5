"""Start-up kits, made offline: for each participant a folder with its certificate, its key and its settings."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

from fedsolve.deploy import kit_settings, library
from fedsolve.deploy.library import Json
from fedsolve.deploy.project_file import AUTHORITY, Project
from fedsolve.errors import ConfigError, StorageError
from fedsolve.wire.storage import write_atomically

_LIGHTER = "nvflare.lighter.impl"


def provision(project: Project, folder: Path) -> list[Path]:
    """Make the kits of all participants that have none in this folder yet; returns the folders of the new ones.

    The folder `authority` in it signs certificates: whoever has it can make kits. It stays where it is; the others are
    given to their owners.
    """
    library.module("nvflare")  # before anything is written
    new = [name for name in project.participants() if not (folder / name).exists()]
    if not new:
        raise ConfigError(f"{folder} has kits for all participants of {project.name}; remove those to be made again")
    authority = folder / AUTHORITY
    try:
        authority.mkdir(parents=True, exist_ok=True)
        authority.chmod(0o700)
        made = _build(project, authority)
        for name in new:
            half = authority / f"half-{name}"  # so that no kit is ever there in part, also if this process is killed
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(made / name, half)
            half.chmod(0o700)
            _settle(half, server=name == project.server.host)
            half.rename(folder / name)
        for state in (authority / project.name / "state").glob("*"):  # with every participant's key, to make kits later
            state.chmod(0o600)
        for one in made.parent.glob("prod_*"):  # also those of a call that was cut short: they hold private keys
            shutil.rmtree(one)
    except OSError as error:
        raise StorageError(f"the kits cannot be written to {folder}: {error.strerror or error}") from error
    return [folder / name for name in new]


def _build(project: Project, authority: Path) -> Path:
    """The kits as NVFlare makes them; returns their folder."""
    provisioning = library.module("nvflare.lighter.provision")
    provisioner = library.module("nvflare.lighter.provisioner")
    plain = _described(project)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        builders = library.module("nvflare.lighter.prov_utils").prepare_builders(plain)
        found = provisioner.Provisioner(str(authority), builders).provision(provisioning.prepare_project(plain))
    folders = sorted((authority / project.name).glob("prod_*"))
    if found.get("build_error") or not folders:
        raise ConfigError(f"NVFlare could not make the kits: {' '.join(said.getvalue().split())}")
    return folders[-1]


def _described(project: Project) -> Json:
    """The project as NVFlare describes one."""
    server = {
        "name": project.server.host,
        "type": "server",
        "org": project.server.organisation,
        "fed_learn_port": project.server.port,
        "admin_port": project.server.port,
    }
    sites = [{"name": one.name, "type": "client", "org": one.organisation or one.name} for one in project.sites]
    users = [
        {"name": one.name, "type": "admin", "org": one.organisation or project.server.organisation, "role": one.role}
        for one in project.users
    ]
    return {
        "api_version": 3,
        "name": project.name,
        "description": "made by fedsolve",
        "participants": [server, *sites, *users],
        "builders": [
            {"path": f"{_LIGHTER}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {
                "path": f"{_LIGHTER}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc"},
            },
            {"path": f"{_LIGHTER}.cert.CertBuilder", "args": {}},
            {"path": f"{_LIGHTER}.signature.SignatureBuilder", "args": {}},
        ],
    }


def _settle(kit: Path, server: bool) -> None:
    """Replace NVFlare's defaults by fedsolve's own settings, and take away what is for other ways of starting."""
    local = kit / "local"
    is_site = (kit / "startup" / "fed_client.json").is_file()
    if server or is_site:
        write_json(local / "authorization.json", kit_settings.authorization())
        (local / "authorization.json.default").unlink(missing_ok=True)
        (local / "privacy.json.sample").unlink(missing_ok=True)
    if is_site:
        write_json(local / "resources.json", kit_settings.site_resources())
        (local / "resources.json.default").unlink(missing_ok=True)
    for name in ("start.sh", "sub_start.sh", "stop_fl.sh", "docker.sh"):
        (kit / "startup" / name).unlink(missing_ok=True)
    command = "server KIT" if server else "site KIT SITE.toml" if is_site else "submit RUN.toml --kit KIT"
    for readme in kit.rglob("readme.txt"):
        readme.write_text(README.format(command))


README = """This is a start-up kit of fedsolve. It holds a private key: keep it to yourself.

Use it with: fedsolve {}
"""


def write_json(path: Path, value: object) -> None:
    """Write a settings file of a kit, as a whole."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())
