"""What a header would take in memory, found before anything of it is allocated.

One byte of msgpack can stand for an empty map, which takes 64 bytes of memory and a place in a list: a message of
little more than such bytes would take ninety times its own length. So headers are walked through first, and what is out
of proportion is rejected. Ordinary headers, of a hundred bytes, are decoded at once: see `HeaderBudget`.
"""

from __future__ import annotations

from fedsolve.errors import TooLarge, WireError

EXPANSION = 40  # bytes of memory that each byte of a header may take

# What Python's objects take: a place in each of the outline and the value, and the object itself.
_PLACE, _NUMBER, _TEXT, _CONTAINER, _ENTRY = 16, 32, 56, 64, 100

# Bytes that follow the first one of each item of a fixed length, and bytes of a length that is spelled out.
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4}
_FIXED |= {0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_ITEMS = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}


class HeaderBudget:
    """What the headers of one message may have together.

    `limit` is the longest message accepted. Headers may have 1/64 of it, and always 64 KiB. The first 1/65,536 (64 KiB
    of 4 GiB) is decoded as it is, whatever it may take; the rest only if that is at most `EXPANSION` times its length.
    """

    __slots__ = ("left", "unseen")

    def __init__(self, limit: int) -> None:
        self.left, self.unseen = max(limit >> 6, 2**16), limit >> 16

    def admit(self, header: memoryview) -> None:
        """Raise TooLarge for a header that is too long or would take too much."""
        size = len(header)
        self.left -= size
        if self.left < 0:
            raise TooLarge(f"the headers of a message are {-self.left} bytes too long: send numbers in arrays")
        if size <= self.unseen:
            self.unseen -= size
            return
        if memory_of(bytes(header), EXPANSION * size) > EXPANSION * size:
            raise TooLarge(
                f"a header of {size} bytes came that would take more than {EXPANSION} times its length of memory: send "
                "arrays instead of many small values"
            )


def memory_of(header: bytes, enough: int) -> int:
    """About the bytes that the outline of a header and its value take; where they are more than `enough`, some of them.

    Raises WireError for a header that ends too early, or is no msgpack.
    """
    size, position, waiting, taken = len(header), 0, 1, 0
    while waiting:
        if position >= size:
            raise WireError("a header ends before its last item")
        first = header[position]
        position += 1
        waiting -= 1
        taken += _PLACE
        if first < 0x80 or first >= 0xE0:  # a small number
            continue
        if first < 0xA0 or first >= 0xDC:  # a map or a list
            width = _ITEMS.get(first, 0)
            length = int.from_bytes(header[position : position + width]) if width else first & 0x0F
            position += width
            pairs = first < 0x90 or first >= 0xDE
            waiting += 2 * length if pairs else length
            taken += _CONTAINER + (_ENTRY * length if pairs else 0)
            if waiting > size - position:  # each item that is still to come has a byte at least
                raise WireError("a header ends before its last item")
            if taken > enough:
                break
        elif first in _FIXED:
            position += _FIXED[first]
            taken += _NUMBER if first > 0xC3 else 0
        elif first < 0xC0 or first in _BYTES:
            width = _BYTES.get(first, 0)
            length = int.from_bytes(header[position : position + width]) if width else first & 0x1F
            position += width + length + (0xC7 <= first <= 0xC9)  # an extension has a type
            taken += _TEXT + 4 * min(length, size)  # a character may take four bytes for one
        else:
            raise WireError(f"a header came with the byte {first:#x}, which begins no item")
    if position > size:
        raise WireError("a header ends within its last item")
    return taken
