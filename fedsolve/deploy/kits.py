"""A start-up kit on disk: whose it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsolve.deploy import library
from fedsolve.deploy.library import Json
from fedsolve.errors import ConfigError

Kind = Literal["server", "site", "user"]
_FILES: dict[Kind, str] = {"server": "fed_server.json", "site": "fed_client.json", "user": "fed_admin.json"}


@dataclass(frozen=True)
class Kit:
    """A kit.

    name        of the participant, as its certificate says
    project     the name of the project
    host, port  where the server is reached
    role        of a user, as the certificate says; empty for others
    """

    folder: Path
    kind: Kind
    name: str
    organisation: str
    project: str
    host: str
    port: int
    role: str = ""

    @property
    def address(self) -> str:
        """Where the server is reached, in one word."""
        return f"{self.host}:{self.port}"


def open_kit(folder: Path, kind: Kind) -> Kit:
    """The kit in a folder. Raises ConfigError unless it is one of this kind."""
    startup = folder.resolve() / "startup"
    found = next((one for one, file in _FILES.items() if (startup / file).is_file()), None)
    if found is None:
        raise ConfigError(f"{folder} is no start-up kit: it has no startup folder with the settings of a participant")
    if found != kind:
        raise ConfigError(f"{folder} is the kit of a {found}, and this command needs that of a {kind}")
    try:
        settings: Json = json.loads((startup / _FILES[kind]).read_text())
        subject = _subject(startup / ("server.crt" if kind == "server" else "client.crt"))
        project, host, port = _server(settings)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"the kit {folder} is damaged ({type(error).__name__}: {error}); ask for a new one") from None
    name, organisation = subject["commonName"], subject["organizationName"]
    role = subject.get("unstructuredName", "") if kind == "user" else ""
    return Kit(folder.resolve(), kind, name, organisation, project, host, port, role)


def _server(settings: Json) -> tuple[str, str, int]:
    """The project, and the host and port of its server."""
    if "admin" in settings:
        admin = settings["admin"]
        return str(admin["project_name"]), str(admin["host"]), int(admin["port"])
    server = settings["servers"][0]
    host, _, port = str(server["service"]["target"]).rpartition(":")
    return str(server["name"]), host, int(port)


def _subject(certificate: Path) -> dict[str, str]:
    """Whom a certificate is for."""
    x509 = library.module("cryptography.x509")  # which NVFlare needs itself
    found = x509.load_pem_x509_certificate(certificate.read_bytes()).subject
    return {str(one.oid._name): str(one.value) for one in found}
