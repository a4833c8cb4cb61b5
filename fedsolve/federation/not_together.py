"""Why clients in a stack cannot go on together: never, or not all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class NotTogether(Exception):
    """A step asked for something that clients in a stack do not have."""


class Split(Exception):
    """The clients of a stack answer a question differently; those with equal answers can go on together.

    answers  one for each client
    lasting  whether they will answer so in every round, as they do about their number of samples
    """

    def __init__(self, answers: Sequence[object], *, lasting: bool = True) -> None:
        super().__init__("the step does something else for its number of samples")
        self.answers, self.lasting = tuple(answers), lasting


def agreed(answers: Sequence[T]) -> T:
    """The one answer of all clients. Raises Split if there are several."""
    if any(answer != answers[0] for answer in answers):
        raise Split(answers)
    return answers[0]
