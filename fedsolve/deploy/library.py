"""NVFlare, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import version
from types import ModuleType

from fedsolve.errors import ConfigError

WANTED = "2.9."


def module(name: str) -> ModuleType:
    """A module of NVFlare. Raises ConfigError where it is not installed, or where another version of it is."""
    if importlib.util.find_spec("nvflare") is None:
        raise ConfigError("runs between organisations need NVFlare: pip install 'fedsolve[nvflare]'")
    found = version("nvflare")
    if not found.startswith(WANTED):
        raise ConfigError(f"NVFlare {WANTED}* is needed, and {found} is installed: pip install 'fedsolve[nvflare]'")
    return importlib.import_module(name)
