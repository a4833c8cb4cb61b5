"""Chance at a site: a secret of its own, beside the seed of the run.

A server that knows the seed knows which rows are in a batch, and with enough batches solves for the rows. The secret is
made once and kept, so that a site which starts again draws what it drew before.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from fedsolve.errors import StorageError
from fedsolve.wire.storage import write_atomically, writing

_BYTES = 32


def own_key(folder: Path, key: int) -> int:
    """The number by which a client draws, from its usual one and the site's secret."""
    path = folder / "secret"
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        write_atomically(path, secrets.token_bytes(_BYTES))
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(secret) != _BYTES:
        raise StorageError(f"{path} is no secret of {_BYTES} bytes; move it away, and a new one is made")
    made = hashlib.blake2b(key.to_bytes(8, "little"), digest_size=8, key=secret)
    return int.from_bytes(made.digest(), "little")
