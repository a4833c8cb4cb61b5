"""Ways in which a file comes to harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def damaged(good: bytes, other: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many damaged forms of a file, none like it; `other` is a whole file of the same kind, to splice from."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        way, bad = WAYS[number % len(WAYS)], good
        while bad in (good, other):
            bad = way(good, other, rng)
        yield way.__name__, bad


def _place(data: bytes, rng: np.random.Generator) -> int:
    """Anywhere, but often in the head or at the end, where sizes and checksums are."""
    where = rng.random()
    if where < 0.25:
        return int(rng.integers(0, min(len(data), 128)))
    if where < 0.4:
        return int(rng.integers(max(0, len(data) - 128), len(data)))
    return int(rng.integers(0, len(data)))


def flipped_bit(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good, rng)
    return good[:place] + bytes([good[place] ^ (1 << int(rng.integers(8)))]) + good[place + 1 :]


def changed_byte(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good, rng)
    return good[:place] + rng.bytes(1) + good[place + 1 :]


def changed_bytes(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    bad = bytearray(good)
    for _ in range(int(rng.integers(2, 30))):
        bad[_place(good, rng)] = int(rng.integers(256))
    return bytes(bad)


def truncated(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    return good[: _place(good, rng)]


def inserted(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good, rng)
    return good[:place] + rng.bytes(int(rng.integers(1, 40))) + good[place:]


def deleted(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good, rng)
    return good[:place] + good[place + int(rng.integers(1, 40)) :]


def zeroed(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good, rng)
    piece = good[place : place + int(rng.integers(1, 512))]
    return good[:place] + bytes(len(piece)) + good[place + len(piece) :]


def swapped(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    size = int(rng.integers(1, max(2, len(good) // 4)))
    a, b = sorted(int(one) for one in rng.integers(0, len(good) - size, 2))
    if b - a < size:
        return good[::-1]
    return good[:a] + good[b : b + size] + good[a + size : b] + good[a : a + size] + good[b + size :]


def spliced(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place = _place(good[: min(len(good), len(other))], rng)
    return good[:place] + other[place:]


def spliced_piece(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    place, size = _place(good[: min(len(good), len(other))], rng), int(rng.integers(1, 256))
    return good[:place] + other[place : place + size] + good[place + size :]


def followed(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    return good + (rng.bytes(int(rng.integers(1, 200))) if rng.random() < 0.5 else other)


def something_else(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    size = int(rng.integers(0, 300))
    return (good[: int(rng.integers(0, 12))] if rng.random() < 0.5 else b"") + rng.bytes(size)


WAYS = (
    flipped_bit,
    changed_byte,
    changed_bytes,
    truncated,
    inserted,
    deleted,
    zeroed,
    swapped,
    spliced,
    spliced_piece,
    followed,
    something_else,
)
