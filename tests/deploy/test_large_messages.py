"""What NVFlare would do with every byte of a large message, only to write a debug line."""

from __future__ import annotations

from tests.extras import optional


def test_a_received_message_is_shown_by_its_size() -> None:
    optional("nvflare")
    from nvflare.fuel.utils.buffer_list import BufferList, ConsumableBufferList

    from fedsolve.deploy.large_messages import show_sizes_only

    show_sizes_only()
    show_sizes_only()
    received = ConsumableBufferList([b"\x00" * 1000, b"\xff" * 24])
    assert f"{received}" == f"{received!r}" == "<1024 bytes>"
    # What it holds is as before.
    assert BufferList(received).read_bytes(998, 1002) == b"\x00\x00\xff\xff"
    assert repr([b"a"]) == "[b'a']"
