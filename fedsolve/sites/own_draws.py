"""Chance at a site: a secret of its own, beside the seed of the run.

A server that knows which rows are in a batch solves for them, and so does one that need not know it: it asks for the
same batch at other points until there are more answers than numbers in its rows. So what is drawn depends on a secret
of the site, on the run, and on the question: the arguments of a call and what the protocol remembers. A question that
comes again draws what it drew before, also after a restart; no other question has its batches.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from fedsolve.errors import StorageError
from fedsolve.federation.client import Client
from fedsolve.learners import NetworkLearner
from fedsolve.local.batches import Batched
from fedsolve.sites.parts import parts_of
from fedsolve.typing import Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route
from fedsolve.wire.storage import write_atomically, writing

_BYTES = 32


def own_key(folder: Path, run: str, key: int) -> int:
    """The number by which a client draws in a run, from its usual one and the site's secret."""
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
    made = hashlib.blake2b(key.to_bytes(8, "little") + run.encode(), digest_size=8, key=secret)
    return int.from_bytes(made.digest(), "little")


class OwnDraws:
    """Makes the batches of a call depend on what it asks for."""

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Seed the chance of a call that may draw batches."""
        if not any(isinstance(part, Batched | NetworkLearner) and part.batch_size for part in parts_of(protocol)):
            return
        asked: dict[Value, Value] = dict(arguments)
        found = hashlib.blake2b(digest_size=8)
        for one in (asked, dict(sorted(client.memory.items()))):
            for chunk in Part(one).chunks():
                found.update(chunk)
        seed, round, exchange, call = client.moment
        client.moment = (seed, round, exchange, (call << 64) + int.from_bytes(found.digest(), "little"))

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Nothing is judged."""
