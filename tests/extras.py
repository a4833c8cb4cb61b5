"""Optional libraries in tests: skipped where they are missing, unless the run was asked to have them."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def optional(name: str) -> Any:
    """An optional library. A run that asks for it (FEDSOLVE_TEST_EXTRAS=torch scripts/test) fails without it."""
    if name in os.environ.get("FEDSOLVE_TEST_EXTRAS", "").split(","):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install fedsolve[{name}] runs these tests")
