"""What a server is told of what went wrong at a site: nothing that may be about its rows, and no folders of its disk.

The words themselves stay in the site's own audit log, and on standard error if it cannot be written.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

from fedsolve.errors import (
    FedsolveError,
    LinkExceeded,
    MemoryLost,
    NotRemembered,
    PolicyRefusal,
    ProtocolMismatch,
    StorageError,
    WireError,
)
from fedsolve.sites.site_file import SiteFile
from fedsolve.text import printable
from fedsolve.wire.messages import MOST_TEXT, Failure

# Errors whose words are about messages, rules and files of the library, and never about cells of the data. Of all
# others only the class and the place leave; their words are in the site's own log.
SPEAKING = (PolicyRefusal, ProtocolMismatch, WireError, LinkExceeded, MemoryLost, NotRemembered, StorageError)
_PATH = re.compile(r"""(?<![^\s"'(=:])/(?:[^\s/"']+/)*(?P<name>[^\s/"']+)""")  # from the root, without spaces in it
_HASH = re.compile(r"[0-9a-f]{16,}")  # in names of files: of the data file, of a set of its rows, of a run


def told_of(error: Exception, site: SiteFile | None = None, path: Path | None = None) -> str:
    """What a server is told of a site that cannot start; `path` is where its site file lies."""
    if isinstance(error, SPEAKING):
        said = str(error) if path is None else str(error).replace(f"{path.parent}/", "/")
        return _without_folders(said, error, site)
    where = "the site's own audit log, or in daemon.log of its kit if the site file cannot be read"
    return f"{type(error).__name__} when this site started; its words are in {where}"


def told_failure(failure: Failure, cause: BaseException | None, site: SiteFile) -> Failure:
    """What a server is told of a request that failed."""
    if cause is None or isinstance(cause, SPEAKING):
        text = _without_folders(failure.text, cause, site)
    else:  # where and what class, and no more
        place = failure.text.rpartition("(")[2] if not isinstance(cause, FedsolveError) else ""
        at = f" ({place}" if place.endswith(")") else ""
        text = f"{type(cause).__name__} in {failure.step}{at}; its words are in this site's own audit log"
    return Failure(failure.preamble, failure.kind, failure.step, text)


def _without_folders(text: str, error: BaseException | None, site: SiteFile | None) -> str:
    """Words in which files are called by their names alone."""
    if site is not None and isinstance(error, StorageError):  # files of the store are named, and this one never
        text = text.replace(str(site.file), "the data file")
    for folder in () if site is None else (site.store, site.file.parent, site.folder):
        if len(folder.parts) > 2:
            text = text.replace(f"{folder}/", "/")  # there may be spaces in it
    if not isinstance(error, StorageError):  # the others are about no files, and may show a formula with a slash
        return text
    return _PATH.sub(lambda found: _HASH.sub("*", found["name"]), text)


def say_here(error: BaseException) -> None:
    """The words of an error on standard error, for whoever runs the site; unless that is a file on a full disk too."""
    with suppress(OSError):
        print(printable(f"{type(error).__name__}: {error}", MOST_TEXT), file=sys.stderr)
