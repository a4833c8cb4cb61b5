"""What NVFlare does with each large message, made cheap.

Its cells put every streamed message, all its bytes escaped, into the text of a debug line, whether or not anybody reads
debug lines. For 32 MB that is a text of 95 MB and 0.3 s, in which no other thread of the process runs: with four sites,
more than all the rest that the server does with their answers.
"""

from __future__ import annotations

from nvflare.fuel.utils import buffer_list


def show_sizes_only() -> None:
    """From now on a received message shows its size in texts instead of its bytes. Safe to call twice."""
    received = getattr(buffer_list, "ConsumableBufferList", None)  # new in NVFlare 2.9, where messages are so shown
    if received is not None:
        received.__repr__ = _size


def _size(chunks: list[bytes]) -> str:
    return f"<{sum(map(len, chunks))} bytes>"
