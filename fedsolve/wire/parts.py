"""One value on its way: a header (its outline, in msgpack) and the bytes of its arrays."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from fedsolve.errors import WrongType
from fedsolve.typing import Value
from fedsolve.wire.layout import DICT, PART, PLAIN, padded
from fedsolve.wire.outlines import Outline, Tally, normalised, outline, outline_array

_encode_header = msgspec.msgpack.Encoder().encode


def _encoded(found: Outline) -> bytes:
    try:
        return _encode_header(found)
    except UnicodeEncodeError as error:
        raise WrongType(f"a string that is not valid Unicode cannot travel: {error}") from None


@lru_cache(maxsize=1024)
def _array_part(dtype: np.dtype, shape: tuple[int, ...]) -> tuple[bytes, int, int]:
    """Header, size and scalars of a part that is one array."""
    tally = Tally(None)
    header = _encode_header(outline_array(dtype, shape, tally))
    return header, PART.size + padded(len(header)) + tally.nbytes, tally.scalars


# Outlines of dicts are kept where they are small: names from the other side must not fill the memory.
FEW, SHORT = 8, 64


@lru_cache(maxsize=1024)
def _arguments_part(names: tuple[str, ...], *arrays: tuple[np.dtype, tuple[int, ...]]) -> tuple[bytes, int, int]:
    """The same for a dict of arrays, as most requests carry."""
    tally = Tally(None)
    header = _encoded([DICT, list(names), *[outline_array(*array, tally) for array in arrays]])
    return header, PART.size + padded(len(header)) + tally.nbytes, tally.scalars


def _has_plain_arrays(value: dict[Value, Value]) -> bool:
    """Whether the values are arrays that travel as they lie in memory; if so, from here on nobody may change them."""
    if not 0 < len(value) <= FEW:
        return False
    for key, array in value.items():
        if type(key) is not str or len(key) > SHORT or type(array) is not np.ndarray or not array.flags.c_contiguous:
            return False
    for array in value.values():
        array.setflags(False)
    return True


class Part:
    """One value on its way: its outline is made at once, its bytes only when they are asked for."""

    __slots__ = ("checked", "header", "scalars", "size", "value")

    checked: object  # the contract this value was last found to fulfil
    header: bytes
    size: int
    scalars: int
    value: Value

    def __init__(self, value: Value) -> None:
        if type(value) is np.ndarray and value.flags.c_contiguous:  # by far the most common reply
            value.setflags(False)  # type: ignore[call-arg]  # a name would cost three times as much
            self.header, self.size, self.scalars = _array_part(value.dtype, value.shape)
            self.value, self.checked = value, None
            return
        if type(value) is dict and _has_plain_arrays(value):
            arrays = [(array.dtype, array.shape) for array in value.values()]
            self.header, self.size, self.scalars = _arguments_part(tuple(value), *arrays)
            self.value, self.checked = value, None
            return
        tally = Tally(None)
        self.header = _encoded(outline(value, tally))
        self.size = PART.size + padded(len(self.header)) + tally.nbytes
        self.scalars = tally.scalars
        self.value, self.checked = value if tally.plain else normalised(value), None

    @classmethod
    def plain(cls, value: Value) -> Part:
        """A part that msgpack knows already: numbers, strings, lists, dicts with string keys. Envelopes are such."""
        part = cls.__new__(cls)
        part.header = _encoded([PLAIN, value])
        part.size = PART.size + padded(len(part.header))
        part.scalars, part.value, part.checked = 0, value, None
        return part

    def chunks(self) -> list[bytes | memoryview]:
        """The bytes of this part, to be joined."""
        header, body = self.header, self.size - PART.size - padded(len(self.header))
        tally = Tally([])
        if body:
            outline(self.value, tally)
        out: list[bytes | memoryview] = [PART.pack(len(header), 0, body), header]
        out.append(bytes(padded(len(header)) - len(header)))
        assert tally.buffers is not None
        for array in tally.buffers:
            if array.size:
                out.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                out.append(bytes(padded(array.nbytes) - array.nbytes))
        return out


def plain_size(value: Value) -> int:
    """The size of `Part.plain(value)`, without making it."""
    return PART.size + padded(len(_encode_header([PLAIN, value])))
