"""A start-up kit on disk: whose it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fedsolve.deploy import library
from fedsolve.deploy.library import Json
from fedsolve.errors import ConfigError

SOON = 30  # days before the end of a certificate from which on it is said
Kind = Literal["server", "site", "user"]
_FILES: dict[Kind, str] = {"server": "fed_server.json", "site": "fed_client.json", "user": "fed_admin.json"}


@dataclass(frozen=True)
class Kit:
    """A kit.

    name        of the participant, as its certificate says
    project     the name of the project
    host, port  where the server is reached
    role        of a user, as the certificate says; empty for others
    expires     when the certificate does
    """

    folder: Path
    kind: Kind
    name: str
    organisation: str
    project: str
    host: str
    port: int
    role: str = ""
    expires: datetime | None = None

    @property
    def address(self) -> str:
        """Where the server is reached, in one word."""
        return f"{self.host}:{self.port}"


def open_kit(folder: Path, kind: Kind) -> Kit:
    """The kit in a folder. Raises ConfigError unless it is one of this kind, and its certificate is valid."""
    startup = folder.resolve() / "startup"
    found = next((one for one, file in _FILES.items() if (startup / file).is_file()), None)
    if found is None:
        raise ConfigError(f"{folder} is no start-up kit: it has no startup folder with the settings of a participant")
    if found != kind:
        raise ConfigError(f"{folder} is the kit of a {found}, and this command needs that of a {kind}")
    try:
        settings: Json = json.loads((startup / _FILES[kind]).read_text())
        subject, expires = _certificate(startup / ("server.crt" if kind == "server" else "client.crt"))
        name, organisation = subject["commonName"], subject["organizationName"]
        project, host, port = _server(settings)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"the kit {folder} is damaged ({type(error).__name__}: {error}); ask for a new one") from None
    if expires < datetime.now(UTC):
        raise ConfigError(
            f"the certificate of the kit {folder} has expired, on {expires:%Y-%m-%d}; ask for a new kit. (Or is the "
            "clock of this machine wrong?)"
        )
    role = subject.get("unstructuredName", "") if kind == "user" else ""
    return Kit(folder.resolve(), kind, name, organisation, project, host, port, role, expires)


def _server(settings: Json) -> tuple[str, str, int]:
    """The project, and the host and port of its server."""
    if "admin" in settings:
        admin = settings["admin"]
        return str(admin["project_name"]), str(admin["host"]), int(admin["port"])
    server = settings["servers"][0]
    host, _, port = str(server["service"]["target"]).rpartition(":")
    return str(server["name"]), host, int(port)


def _certificate(path: Path) -> tuple[dict[str, str], datetime]:
    """Whom a certificate is for, and when it expires."""
    x509 = library.module("cryptography.x509")  # which NVFlare needs itself
    found = x509.load_pem_x509_certificate(path.read_bytes())
    return {str(one.oid._name): str(one.value) for one in found.subject}, found.not_valid_after_utc


def soon_expired(kit: Kit) -> str | None:
    """What is to be said of a certificate in its last days."""
    left = None if kit.expires is None else (kit.expires - datetime.now(UTC)).days
    if left is None or left > SOON:
        return None
    return (
        f"the certificate of the kit {kit.folder} expires in {left} days, on {kit.expires:%Y-%m-%d}: ask for a new kit"
    )
