"""A project file: who takes part in a federation, so that each of them can be given a start-up kit.

name = "hearts"

[server]
host = "fl.example.org"            # by which sites and users reach it
port = 8002

[[sites]]
name = "arden"                     # as in its site file

[[users]]
name = "ann@example.org"
role = "lead"                      # submits runs; a "member" only looks
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from fedsolve.errors import ConfigError
from fedsolve.federation.client_checks import check_client_name
from fedsolve.runfiles import run_file
from fedsolve.runfiles.faults import in_words
from fedsolve.runfiles.keys import Table

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_USER = re.compile(r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,190}")
AUTHORITY = "authority"  # the folder of the project's own certificate authority
_TAKEN = frozenset({AUTHORITY, "server", "client", "admin", "relay", "all", "job"})  # most by NVFlare, for other things


class ServerTable(Table):
    """The server: the name by which it is reached, and the one port that it opens."""

    host: str
    port: int = Field(default=8002, ge=1, le=65535)
    organisation: str = "server"


class SiteEntry(Table):
    """A site, and whose it is; an organisation of the same name by default."""

    name: str
    organisation: str | None = None


class User(Table):
    """Somebody who uses the federation.

    role          "lead": submits runs, looks at and stops their own. "member": looks at what runs. "org_admin": also
                  follows and stops what people of the same organisation submitted. Nobody can send code or open a
                  shell, whatever their role
    organisation  whose they are; that of the server by default
    """

    name: str
    role: Literal["lead", "member", "org_admin"] = "lead"
    organisation: str | None = None


class Project(Table):
    """A whole project file."""

    name: str
    server: ServerTable
    sites: list[SiteEntry] = Field(min_length=1)
    users: list[User] = Field(min_length=1)

    def participants(self) -> list[str]:
        """The names of the server, the sites and the users."""
        return [self.server.host, *(site.name for site in self.sites), *(user.name for user in self.users)]


def read_project(path: Path) -> Project:
    """The project file at `path`; every fault in it is a ConfigError that names file and key."""
    tables = run_file.toml_tables(run_file.read_text(path, "project file"), str(path))
    try:
        found = Project.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{path}: {'; '.join(in_words(error.errors(), Project))}") from None
    try:
        _check(found)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def _check(project: Project) -> None:
    plain = "letters, digits, - and _, beginning with a letter"
    for site in project.sites:
        check_client_name(site.name)
    for name in (project.name, *(site.name for site in project.sites)):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name of a project or site, which has at most 63 {plain}")
    for name in (site.name for site in project.sites):
        if name.casefold() in _TAKEN:
            raise ConfigError(f"a site cannot be called {name!r}, which stands for something else; choose another name")
    if project.server.host.casefold() == AUTHORITY:
        raise ConfigError(f"server.host cannot be {AUTHORITY!r}, which is the folder of the project's own certificate")
    owners = [project.server.organisation]
    owners += [one.organisation for one in project.sites if one.organisation is not None]
    owners += [one.organisation for one in project.users if one.organisation is not None]
    for owner in owners:
        if not _NAME.fullmatch(owner):
            raise ConfigError(f"{owner!r} is no name of an organisation, which has at most 63 {plain}")
    if not _HOST.fullmatch(project.server.host):
        raise ConfigError(f"server.host {project.server.host!r} is neither the name of a computer nor an address")
    for user in project.users:
        if not _USER.fullmatch(user.name):
            raise ConfigError(f"{user.name!r} is no name of a user, which looks like an e-mail address")
    names = [name.casefold() for name in project.participants()]  # some systems' folders know no capitals
    twice = next((name for name in project.participants() if names.count(name.casefold()) > 1), None)
    if twice is not None:
        raise ConfigError(f"two participants are called {twice!r}: each has a name of its own")
