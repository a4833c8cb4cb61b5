"""For all tests."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Names must be the same in every process, or tests cannot be divided among several."""
    changing = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if changing:
        raise pytest.UsageError(
            f"{len(changing)} tests have an address in their name, such as {changing[0]}: give ids="
        )


def pytest_configure(config: pytest.Config) -> None:
    """Tests use clients of a few rows everywhere; those of the warning itself ask for it."""
    config.addinivalue_line("filterwarnings", "ignore::fedsolve.errors.FewRowsWarning")
