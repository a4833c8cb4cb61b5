"""For all tests."""

from __future__ import annotations

import pytest

import fedsolve as fs


def pytest_configure(config: pytest.Config) -> None:
    """Clients of few rows, and of one, are part of the problems that every algorithm is tested on (`problems.py`), so
    they are allowed here unless a test says otherwise. `loop/test_few_rows.py` has what a run says of them."""
    config.addinivalue_line("filterwarnings", "ignore::fedsolve.errors.FewRowsWarning")
    defaults = fs.run.__kwdefaults__
    assert defaults is not None
    defaults["min_rows"] = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Names must be the same in every process, or tests cannot be divided among several."""
    changing = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if changing:
        raise pytest.UsageError(
            f"{len(changing)} tests have an address in their name, such as {changing[0]}: give ids="
        )
