"""Whose a run is.

Its id is in the names of its jobs, which every user of a federation sees. So the id alone opens nothing: only who
submitted a run first goes on with it, or runs it anew.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from fedsolve.errors import ConfigError, StorageError
from fedsolve.report.output_folder import CHECKPOINT, OWNER
from fedsolve.wire.locks import FileLock
from fedsolve.wire.storage import write_atomically, writing

PATIENCE = 10.0  # seconds for another job to note the same


def claim(folder: Path, submitter: str) -> None:
    """Note in the folder of a run who submitted it, at the first of its jobs. Raises ConfigError at a later one that
    somebody else submitted.

    submitter  as the server knows it, by the certificate of the connection
    """
    if not submitter:
        raise ConfigError("the job does not say who submitted it")
    path, lock = folder / OWNER, FileLock(folder / f"{OWNER}.lock")
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + PATIENCE
        while not lock.acquire():
            if time.monotonic() > until:
                raise StorageError(f"{lock.path} has been held by another job for {PATIENCE:g} s")
            time.sleep(0.01)
    try:
        if path.exists() or (folder / CHECKPOINT).exists():
            _check(path, submitter)
        else:
            write_atomically(path, (json.dumps({"submitter": submitter}) + "\n").encode())
    finally:
        lock.release()


def _check(path: Path, submitter: str) -> None:
    try:
        found = json.loads(path.read_text())["submitter"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"nobody knows whose the run {path.parent.name} is: begin a new one") from None
    if found != submitter:
        raise ConfigError(
            f"the run {path.parent.name} was submitted by somebody else, and nobody else goes on with it; begin a run "
            "of your own"
        )
