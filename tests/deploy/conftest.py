"""What all tests of runs between organisations share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.deploy.federation import Federation, federation


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_works() -> None:
    """Let the processes that tests start end by Ctrl-C. A shell starts commands in the background with it ignored, and
    whatever they start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A server and its four sites, started for the tests of one file."""
    with federation(tmp_path_factory.mktemp("federation")) as found:
        yield found
