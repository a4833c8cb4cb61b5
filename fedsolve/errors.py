"""Every error fedsolve raises on purpose.

FedsolveError
├── InputError            what the user gave is wrong; the command line exits with 2 and one sentence
│   ├── DataError         shapes, dtypes, NaN, empty clients, labels outside the loss's domain
│   ├── ConfigError       a configuration file or a hyper-parameter
│   └── UnknownName       a name that stands for nothing here, with the names that do
├── WireError             bytes that are not a message
│   ├── Truncated         fewer bytes than declared
│   ├── TooLarge          more bytes than allowed, or than declared
│   ├── WrongVersion      another version of the wire format
│   └── WrongType         a value of a type the wire, or the step, does not allow
├── ClientError           a client could not answer: its name, the step, what it said
│   ├── ClientInputError  because of its data or of what it was asked to do with it; an InputError too
│   ├── ClientMismatch    because it was started otherwise than the server; a ProtocolMismatch too
│   ├── MemoryLost        the client no longer has the memory the server builds on
│   ├── LinkExceeded      a reply larger than the client's link allows; an InputError too
│   └── ClientRefused     because its site's policy does not allow it; an InputError too
├── PolicyRefusal         a site's policy does not allow what it was asked; names the rule
├── NotRemembered         a step builds on something its client has not been told; a KeyError too
├── ProtocolMismatch      the two sides differ in version, protocol or hyper-parameters
├── QuorumNotReached      too few clients answered
├── CheckpointError       a checkpoint that is damaged, in use, of another run or version, or cannot be written
├── StorageError          another file that is damaged, in use, or cannot be written; an OSError too
└── TransportError        the connection to the clients broke

FedsolveWarning           what a run, or a model, has to say and goes on
├── FewRowsWarning        clients with so few rows that what they send can give them away
└── DivergedModelWarning  a model was read whose run diverged
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fedsolve.text import printable

MOST_SHOWN = 10_000  # characters of a message; what others sent may be in it, and may be of any length
OF_POLICY = "of this site's policy"  # ends what a refusal says, after the rule


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that may have been meant; None if none is near."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)


def meant(name: str, known: Iterable[str]) -> str:
    """The same as the end of a sentence; empty if there is none."""
    close = nearest(name, known)
    return "" if close is None else f"; did you mean {close!r}?"


class FedsolveError(Exception):
    """Base of all errors raised on purpose. Its message is safe to print, whoever's words are in it."""

    def __str__(self) -> str:
        return printable(super().__str__(), MOST_SHOWN, lines=True)


class InputError(FedsolveError, ValueError):
    """What the user gave is wrong."""


class DataError(InputError):
    """Data that cannot be learned from as it is."""


class ConfigError(InputError):
    """A configuration or hyper-parameter that makes no sense."""


class UnknownName(InputError):
    """A name that stands for nothing here."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        known = self.known
        close = nearest(name, known)
        hint = f" Did you mean {close!r}?" if close else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known) or 'none'}.")


class WireError(FedsolveError):
    """Bytes that are not a message of this library."""


class Truncated(WireError):
    """Fewer bytes than declared."""


class TooLarge(WireError):
    """More bytes than allowed or declared."""


class WrongVersion(WireError):
    """A message of another version of the wire format."""


class WrongType(WireError, TypeError):
    """A value of a type that may not travel here."""


class ClientError(FedsolveError):
    """A client could not answer."""

    def __init__(self, client: str, step: str, text: str) -> None:
        self.client, self.step, self.text = client, step, text
        said = text.removeprefix(f"client {client!r}").lstrip(": ")  # not its name twice
        super().__init__(f"client {client!r}, step {step}: {said}")


class ClientInputError(ClientError, InputError):
    """A client's data, or a setting it was given, is wrong."""


class MemoryLost(ClientError):
    """The client no longer has the version of its memory that the server builds on."""


class LinkExceeded(ClientError, InputError):
    """A reply larger than the client's link allows in this round."""


class ClientRefused(ClientError, InputError):
    """A site's policy does not allow what it was asked."""


class PolicyRefusal(FedsolveError):
    """A site's policy does not allow what it was asked. The message names the rule, and says nothing of single rows."""

    def __init__(self, rule: str, text: str) -> None:
        self.rule = rule
        super().__init__(f"{text} (rule {rule!r} {OF_POLICY})")


class NotRemembered(FedsolveError, KeyError):
    """A step builds on something that this client does not remember."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return (
            f"this client remembers no {self.key!r}: the step that sets it has not been asked of it, or its memory was "
            "lost; ask that step first, or restart the run"
        )


class ProtocolMismatch(FedsolveError):
    """Server and client were not started with the same protocols."""


class ClientMismatch(ClientError, ProtocolMismatch):
    """A client was started otherwise than the server."""


class QuorumNotReached(FedsolveError):
    """Too few clients answered."""


class CheckpointError(FedsolveError):
    """A checkpoint that cannot be used."""


class StorageError(FedsolveError, OSError):
    """A file that is damaged, in use by another process, or cannot be written."""


class TransportError(FedsolveError):
    """The connection to the clients broke."""


class FedsolveWarning(UserWarning):
    """Base of all warnings of the library."""


class FewRowsWarning(FedsolveWarning):
    """A client has fewer rows than `min_rows`, or fewer than three for each parameter of the fit."""


class DivergedModelWarning(FedsolveWarning):
    """A model was read that a diverged run has left: its predictions mean nothing."""
