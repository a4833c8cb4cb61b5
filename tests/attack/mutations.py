"""Ways to damage a message: from single bits to requests that are well formed and ask for the wrong thing.

A mutation takes a message, another one to borrow from, and a generator, and gives bytes. Those that know the structure
of a message (`fedsolve/wire.py`) put its lengths right again, so that what they changed is looked at and not rejected
for its length. They read the format by themselves: a fuzz that used the decoder would share its mistakes.
"""

from __future__ import annotations

import copy
import math
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

PREAMBLE, PART = 64, struct.Struct("<IIQ")
SIZES = [8, 4, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1]  # of the dtypes, by code
TUPLE, LIST, DICT, ARRAY, CSR, NAMED, PLAIN = range(7)

WHOLE = [0, 1, -1, 2, 3, 7, 31, 33, 255, 65536, 10**6, 2 * 10**8, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1]
WHOLE += [2**63, 2**64 - 1, -(2**31), -(2**63)]
REAL = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e-30, 1e30, 1e308, -1e308, math.inf, -math.inf, math.nan]
TEXT = ["", "w", "x" * 300, "TopK", "Symmetric", "LowRank", "Quantised", "os.system", "é\u20ac\U0001f600", "algorithm"]
BYTES = [0x00, 0x01, 0x7F, 0x80, 0x90, 0x9F, 0xC0, 0xC1, 0xC6, 0xCB, 0xCF, 0xD6, 0xDB, 0xDD, 0xDF, 0xFF]

Mutation = Callable[[bytes, bytes, Random], bytes]


# ── without knowledge of the format ──


def flip_bits(data: bytes, other: bytes, chance: Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        place = chance.randrange(len(made))
        made[place] ^= 1 << chance.randrange(8)
    return bytes(made)


def substitute(data: bytes, other: bytes, chance: Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        start = chance.randrange(len(made))
        length = chance.choice([1, 1, 2, 4, 8])
        made[start : start + length] = bytes(chance.choice(BYTES) for _ in made[start : start + length])
    return bytes(made)


def truncate(data: bytes, other: bytes, chance: Random) -> bytes:
    made = data[: chance.randrange(len(data))]
    return _with_total(made) if chance.random() < 0.7 else made


def extend(data: bytes, other: bytes, chance: Random) -> bytes:
    made = data + chance.randbytes(chance.choice([1, 8, 64]))
    return _with_total(made) if chance.random() < 0.7 else made


def splice(data: bytes, other: bytes, chance: Random) -> bytes:
    cut, rest = 8 * chance.randrange(len(data) // 8 + 1), 8 * chance.randrange(len(other) // 8)
    return _with_total(data[:cut] + other[rest:])


# ── numbers of the preamble and of the parts ──


def edit_preamble(data: bytes, other: bytes, chance: Random) -> bytes:
    made = bytearray(data)
    place, code = chance.choice(
        [(8, "<I"), (12, "<I"), (16, "<I"), (20, "<I"), *((24 + 8 * k, "<Q") for k in range(5))]
    )
    struct.pack_into(code, made, place, chance.choice(WHOLE) % 2 ** (8 * struct.calcsize(code)))
    if chance.random() < 0.1:
        struct.pack_into("<HB", made, 4, chance.choice([0, 1, 2, 65535]), chance.choice([0, 1, 2, 3, 4, 5, 255]))
    return bytes(made)


def edit_lengths(data: bytes, other: bytes, chance: Random) -> bytes:
    made = bytearray(data)
    start = chance.choice(_starts(data))
    sizes = list(PART.unpack_from(made, start))
    which = chance.choice([0, 0, 2, 2, 1])
    near = sizes[which] + chance.choice([-8, -1, 1, 8])
    sizes[which] = (near if chance.random() < 0.5 else chance.choice(WHOLE)) % 2 ** (64 if which == 2 else 32)
    PART.pack_into(made, start, *sizes)
    return bytes(made)


def rearrange_parts(data: bytes, other: bytes, chance: Random) -> bytes:
    parts, borrowed = _parts(data), _parts(other)
    what = chance.randrange(4)
    if what == 0:
        parts.append(chance.choice(borrowed))
    elif what == 1:
        parts[chance.randrange(len(parts))] = chance.choice(borrowed)
    elif what == 2:
        chance.shuffle(parts)
    else:
        parts *= chance.choice([2, 3, 50, 300])
    return _joined(data, parts)


# ── outlines ──


def edit_outline(data: bytes, other: bytes, chance: Random) -> bytes:
    """Change a few nodes of an outline. The body stays, or becomes as long as the outline now says."""
    parts = _parts(data)
    place = chance.randrange(len(parts))
    header, body = parts[place]
    outline = [msgspec.msgpack.decode(header)]  # in a list, so that the root has a parent too
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        parent, key = chance.choice(_nodes(outline))
        _change(parent, key, other, chance)
    parts[place] = _encoded(outline[0], header), body
    if chance.random() < 0.7:
        parts[place] = parts[place][0], _fitted(outline[0], body, chance)
    return _joined(data, parts)


def edit_array(data: bytes, other: bytes, chance: Random) -> bytes:
    """An array of another dtype, shape or content: a message that is sound, and wrong."""
    parts = _parts(data)
    place = chance.randrange(len(parts))
    header, body = parts[place]
    outline = [msgspec.msgpack.decode(header)]
    arrays = [node for node in _values(outline) if isinstance(node, list) and node[:1] == [ARRAY] and len(node) > 1]
    if not arrays:
        return edit_outline(data, other, chance)
    array = chance.choice(arrays)
    what = chance.randrange(4)
    if what == 0:
        array[1] = chance.randrange(len(SIZES))
    elif what == 1:
        array[2:] = chance.choice([[], [0], [1], [3], [4], [12], [256], [1, 1], [3, 1], [3, 3], [2, 3, 2], [0, 2**40]])
    elif what == 2:
        array[2:] = chance.choice([[*array[2:], 1], [1, *array[2:]], array[:1:-1], [n + 1 for n in array[2:]]])
    made = _fitted(outline[0], body, chance)
    if what == 3 or chance.random() < 0.3:
        made = _with_reals(made, chance)
    parts[place] = _encoded(outline[0], header), made
    return _joined(data, parts)


def edit_numbers(data: bytes, other: bytes, chance: Random) -> bytes:
    """The same arrays with other numbers in them."""
    parts = _parts(data)
    full = [index for index, (_, body) in enumerate(parts) if body]
    if not full:
        return edit_outline(data, other, chance)
    place = chance.choice(full)
    parts[place] = parts[place][0], _with_reals(parts[place][1], chance)
    return _joined(data, parts)


def swap_fields(data: bytes, other: bytes, chance: Random) -> bytes:
    """Two nodes of an outline, or of two outlines, in each other's place."""
    parts = _parts(data)
    place = chance.randrange(len(parts))
    header, body = parts[place]
    outline = [msgspec.msgpack.decode(header)]
    (one, key), (two, other_key) = chance.choice(_nodes(outline)), chance.choice(_nodes(outline))
    one[key], two[other_key] = copy.deepcopy(two[other_key]), copy.deepcopy(one[key])
    parts[place] = _encoded(outline[0], header), _fitted(outline[0], body, chance)
    return _joined(data, parts)


BLIND: list[Mutation] = [flip_bits, substitute, truncate, extend, splice]
AWARE: list[Mutation] = [
    edit_preamble,
    edit_lengths,
    rearrange_parts,
    edit_outline,
    edit_array,
    edit_numbers,
    swap_fields,
]
# Those that keep a message well formed get further, and have more chances.
MUTATIONS: list[Mutation] = [*BLIND, *AWARE, *4 * [edit_array], *2 * [edit_outline], edit_numbers, swap_fields]


def mutate(data: bytes, other: bytes, chance: Random) -> bytes:
    """One mutation, now and then a second on top: of what is left whole."""
    made = chance.choice(MUTATIONS)(data, other, chance)
    if chance.random() < 0.15 and made:
        made = chance.choice(BLIND)(made, other, chance)
    return made


# ── a message and its parts ──


def _with_total(data: bytes) -> bytes:
    return data if len(data) < PREAMBLE else data[:56] + struct.pack("<Q", len(data)) + data[64:]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _starts(data: bytes) -> list[int]:
    found, position = [], PREAMBLE
    while position + PART.size <= len(data):
        found.append(position)
        header, _, body = PART.unpack_from(data, position)
        position += PART.size + header + -header % 8 + body
    return found


def _parts(data: bytes) -> list[tuple[bytes, bytes]]:
    """Header and body of each part of a sound message."""
    found = []
    for start in _starts(data):
        header, _, body = PART.unpack_from(data, start)
        first = start + PART.size
        second = first + header + -header % 8
        found.append((data[first : first + header], data[second : second + body]))
    return found


def _joined(data: bytes, parts: list[tuple[bytes, bytes]]) -> bytes:
    made = [PART.pack(len(header), 0, len(body)) + _padded(header) + body for header, body in parts]
    head = data[:20] + struct.pack("<I", len(parts)) + data[24:PREAMBLE]
    return _with_total(head + b"".join(made))


# ── an outline and its nodes ──


def _nodes(root: Any) -> list[tuple[Any, Any]]:
    """Every place in nested lists and dicts, as the container and the key."""
    found: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting:  # no recursion: some are nested deeper than Python's stack
        parent = waiting.pop()
        places = [(parent, key) for key in (range(len(parent)) if isinstance(parent, list) else parent)]
        found += places
        waiting += [parent[key] for _, key in places if isinstance(parent[key], list | dict)]
    return found


def _values(parent: Any) -> list[Any]:
    return [container[key] for container, key in _nodes(parent)]


def _change(parent: Any, key: Any, other: bytes, chance: Random) -> None:
    what = chance.randrange(10)
    if what == 0 and isinstance(parent, list) and len(parent) > 1:
        del parent[key]
    elif what == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif what == 2:
        parent[key] = copy.deepcopy(chance.choice(_values([msgspec.msgpack.decode(chance.choice(_parts(other))[0])])))
    elif what == 3:
        for _ in range(chance.choice([1, 2, 40, 200])):
            parent[key] = chance.choice([[TUPLE, parent[key]], [LIST, parent[key]], [DICT, ["k"], parent[key]]])
    elif what == 4:
        parent[key] = chance.choice([None, True, False, b"", b"abc", [], {}, [[]], {"a": []}, [PLAIN, 1]])
    elif what == 5:
        parent[key] = chance.choice(TEXT)
    elif what == 6:
        parent[key] = chance.choice(REAL)
    elif what == 7:
        parent[key] = copy.deepcopy(chance.choice(_STRANGE))
    else:
        parent[key] = chance.choice(WHOLE)


# Values that may travel, where something else is expected.
_STRANGE: list[Any] = [
    [ARRAY, 0, 2, 2],
    [ARRAY, 0, 0, 2**62],
    [ARRAY, 8, 3],
    [CSR, 2, 2, [ARRAY, 4, 3], [ARRAY, 4, 1], [ARRAY, 0, 1]],
    [NAMED, "Symmetric", 2, [ARRAY, 0, 3]],
    [NAMED, "Symmetric", 2**31, [ARRAY, 0, 3]],
    [NAMED, "TopK", [TUPLE, 2**31, "x"], [ARRAY, 8, 1], [ARRAY, 0, 1]],
    [NAMED, "TopK", [TUPLE, 2**14, 2**14], [ARRAY, 8, 1], [ARRAY, 0, 1]],
    [NAMED, "TopK", [TUPLE, 0, 2**62, 2**62], [ARRAY, 8, 0], [ARRAY, 0, 0]],
    [NAMED, "LowRank", [ARRAY, 0, 20000, 0], [ARRAY, 0, 0]],
    [NAMED, "LowRank", [ARRAY, 0, 10**9, 0], [ARRAY, 0, 0]],
    [NAMED, "Quantised", [ARRAY, 10, 8], 0.0, 1.0],
    [TUPLE, *[None] * 1000],
    [LIST, *[[ARRAY, 0, 0]] * 500],
]


def _encoded(outline: Any, instead: bytes) -> bytes:
    try:
        return msgspec.msgpack.encode(outline)
    except (TypeError, OverflowError, RecursionError):  # a key that cannot be one
        return instead


def _fitted(outline: Any, body: bytes, chance: Random) -> bytes:
    """A body as long as the arrays of an outline are, if that is not too long."""
    needed = 0
    for node in _values([outline]):
        if isinstance(node, list) and len(node) > 1 and node[0] == ARRAY and type(node[0]) is int:
            code, *shape = node[1:]
            if type(code) is int and 0 <= code < len(SIZES) and all(type(n) is int and n >= 0 for n in shape):
                size = math.prod(shape) * SIZES[code]
                needed += size + -size % 8
    if needed > 2**18:
        return body
    filled = body if body else chance.choice([bytes(8), struct.pack("<d", 1.5)])
    return (filled * (needed // len(filled) + 1))[:needed]


def _with_reals(body: bytes, chance: Random) -> bytes:
    made = bytearray(body)
    for _ in range(chance.choice([1, 1, 3])):
        if len(made) >= 8:
            place = 8 * chance.randrange(len(made) // 8)
            if chance.random() < 0.7:
                struct.pack_into("<d", made, place, chance.choice(REAL))
            else:
                struct.pack_into("<Q", made, place, chance.choice(WHOLE) % 2**64)
    return bytes(made)
