"""The layout of a message in bytes: kinds, tags, types of arrays, and the limits for what arrives. See `encoding`."""

from __future__ import annotations

import struct

import numpy as np

VERSION = 1
MAGIC = b"fsol"
MAX_BYTES = 4 * 2**30  # a limit for strangers, not for the mathematics: pass `limit=` to allow more
MAX_DEPTH = 32
MAX_PARTS = 1024  # of one message: a request has one for its routes and one for each call
MAX_EMPTY = 4096  # arrays without entries in one part: they take memory, and no bytes but those of their outline
MAX_DIMENSIONS = 32
MAX_SIDE = 2**63 - 1  # what NumPy can count

# Kinds of messages.
REQUEST, REPLY, FAILURE, FILE = 1, 2, 3, 4

PREAMBLE = struct.Struct("<4sHBxIIIIQQQQQ")
PART = struct.Struct("<IIQ")
PREAMBLE_SIZE = PREAMBLE.size

DTYPES = tuple(np.dtype(code) for code in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
DTYPE_CODE = {dtype: code for code, dtype in enumerate(DTYPES)}
# What an item of an outline stands for.
TUPLE, LIST, DICT, ARRAY, CSR_MATRIX, NAMED, PLAIN = range(7)


def padded(size: int) -> int:
    """The next multiple of eight bytes."""
    return (size + 7) & ~7
