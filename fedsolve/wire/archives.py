"""NumPy archives with a checksum: `np.load` reads them, and `unpack` notices when they are damaged.

The archive's comment, which is the end of the file, is a BLAKE2b digest of all bytes before it; the entry `fedsolve` is
the version of the library that wrote it. An archive without either was made by `np.savez` itself, as models once were;
each of its entries has the CRC-32 of a zip file.
"""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from fedsolve import version as library
from fedsolve.errors import WireError, WrongVersion
from fedsolve.typing import Array
from fedsolve.wire.sealed_files import digest

_COMMENT = b"fedsolve-npz-1:"
_DIGITS = 64
_VERSION = "fedsolve"
# What `zipfile` and NumPy raise for archives that are none.
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    struct.error,
    tokenize.TokenError,
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def pack(**arrays: Array) -> bytes:
    """An archive of these arrays."""
    buffer = io.BytesIO()
    entries: dict[str, Array] = {_VERSION: np.array(library.__version__), **arrays}
    np.savez(buffer, **entries)
    data = buffer.getvalue()
    # The last two bytes are the length of a comment that np.savez does not write.
    data = data[:-2] + (len(_COMMENT) + _DIGITS).to_bytes(2, "little") + _COMMENT
    return data + digest(data).hex().encode()


def unpack(file: BinaryIO, size: int, names: Iterable[str]) -> dict[str, Array]:
    """These arrays of an archive; raises WireError if it is none, is damaged, or lacks one of them."""
    if file.read(2) != b"PK":  # as a zip file begins; NumPy would take anything else for a pickle
        raise WireError("it is not a NumPy archive (.npz)")
    sealed = _check_digest(file, size)
    try:
        entries = _entries(file, size)
    except _NO_ARCHIVE as error:
        raise WireError(f"it is not a NumPy archive ({error or type(error).__name__})") from error
    if _VERSION in entries and not sealed:
        raise WireError("its checksum is missing")
    found: dict[str, Array] = {}
    for name in names:
        if name not in entries:
            raise WireError(f"it has no entry {name!r}")
        try:
            found[name] = _array(entries[name])
        except _NO_ARCHIVE as error:
            raise WireError(f"its entry {name!r} is not an array ({error or type(error).__name__})") from error
    return found


def _check_digest(file: BinaryIO, size: int) -> bool:
    """Whether there is a digest; raises WireError if it is of other bytes."""
    end = len(_COMMENT) + _DIGITS
    file.seek(max(0, size - end))
    comment = file.read(end)[: len(_COMMENT)]
    if comment[:-2] != _COMMENT[:-2]:
        return False
    if comment != _COMMENT:
        raise WrongVersion("its format is one that this version of fedsolve does not know")
    file.seek(0)
    data = file.read(size)
    if digest(data[:-_DIGITS]).hex().encode() != data[-_DIGITS:]:
        raise WireError("its checksum does not match its contents")
    return True


def _entries(file: BinaryIO, size: int) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            # Stored as they are, no entry can be larger than the file, whatever it claims.
            if info.compress_type != zipfile.ZIP_STORED or not info.file_size == info.compress_size <= size:
                raise ValueError(f"the entry {info.filename!r} is compressed, or its size is wrong")
        return {info.filename.removesuffix(".npy"): archive.read(info) for info in archive.infolist()}


def _array(data: bytes) -> Array:
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"NumPy's format {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, in_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    body = data[file.tell() :]
    if math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"an array of shape {shape} is declared, {len(body)} bytes are there")
    return np.frombuffer(body, dtype).reshape(shape, order="F" if in_columns else "C").copy(order="K")
