"""How much travels in one message: as many questions as a client's reply may hold answers to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

REPLY_BYTES = 2**26  # 64 MiB

# What to do where a link is too narrow for a reply.
ASKING_LESS = "set a smaller reply_bytes, so that less is asked for at a time"
# What to do where Hessians of every fold are too much.
WITHOUT_SUMS = "fewer features, or runs of FedNewtonCG for each penalty, compared on rows that were set aside"

Progress = Callable[[int, int], None]  # how many fits are done, of how many


def first_that_fit(waiting: Sequence[T], numbers: Callable[[T], int], limit: int) -> list[T]:
    """The first questions whose answers have at most `limit` bytes together; always one, however large its answer."""
    asked: list[T] = []
    room = limit
    for one in waiting:
        room -= 8 * numbers(one)
        if asked and room < 0:
            break
        asked.append(one)
    return asked


def triangle(order: int) -> int:
    """How many numbers a symmetric matrix travels as."""
    return order * (order + 1) // 2
