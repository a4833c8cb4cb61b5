"""What other clients say beside the one whose error ends a run.

Four sites may each refuse a run for a column of their own. Whoever started it is told of all four at once, and need not
come back for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from fedsolve.errors import ClientError, ClientMismatch, InputError, TransportError
from fedsolve.federation.answers import Answer
from fedsolve.wire.messages import Failure

MOST_TOLD = 10  # different things that are told; of the clients that say more, the number


def with_others(error: ClientError, rest: Iterable[tuple[str, Answer]]) -> ClientError:
    """The error, and after it what those who have not been heard yet have to say, if they cannot answer either.

    Only for errors that somebody has to mend: a memory that was lost, say, is nobody's fault.
    """
    if not isinstance(error, InputError | ClientMismatch):
        return error
    own = error.step, error.text
    said: dict[tuple[str, str], list[str]] = {own: []}
    for one in _errors(rest):
        said.setdefault((one.step, one.text), []).append(one.client)
    alike, others = said.pop(own), list(said.items())
    text = error.text
    if alike:
        text += f"; so {'says' if len(alike) == 1 else 'say'} {_names(alike)}"
    for (step, words), names in others[:MOST_TOLD]:
        text += f"; {_names(names)}, step {step}: {words}"
    if len(others) > MOST_TOLD:
        text += f"; and {sum(len(names) for _, names in others[MOST_TOLD:])} more clients cannot answer"
    return type(error)(error.client, error.step, text)


def _errors(rest: Iterable[tuple[str, Answer]]) -> Iterator[ClientError]:
    with suppress(TransportError):  # what was heard before the connection broke is told all the same
        for name, answer in rest:
            if isinstance(answer, Failure):
                error = answer.error(name)
                if isinstance(error, InputError | ClientMismatch):
                    yield error


def _names(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_TOLD])) + (" and more" if len(names) > MOST_TOLD else "")
    return f"client{'s' * (len(names) > 1)} {shown}"
