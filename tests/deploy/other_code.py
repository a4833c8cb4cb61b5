"""What a site runs that does not run fedsolve as it is: it answers nonsense, late, or is of another version.

The test writes what to do into a file; the computing process of the site, which imports this module first, reads it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ORDER = "FEDSOLVE_TEST_ORDER"  # the file
LATE = 16.0  # seconds, more than the deadline of any run here
OTHER_VERSION = "0.0.1"


def environment(folder: Path, python_path: str) -> dict[str, str]:
    """For a site that shall do what the file `order` in a folder says."""
    (folder / "sitecustomize.py").write_text(  # which Python imports when it starts
        "import sys\n"
        "if any('fedsolve.sites.child' in one for one in sys.orig_argv):\n"
        "    from tests.deploy import other_code\n"
        "    other_code.install()\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder), python_path]), ORDER: str(folder / "order")}


def ordered() -> str:
    path = Path(os.environ[ORDER])
    return path.read_text() if path.is_file() else ""


def install() -> None:
    """Called in the computing process, before it has imported anything of fedsolve."""
    if ordered() == "version":
        other = ModuleType("fedsolve.version")
        other.__dict__["__version__"] = OTHER_VERSION
        sys.modules["fedsolve.version"] = other
    from fedsolve.sites.site import Site

    honest = Site.answer

    def answer(self: Site, data: bytes) -> bytes:
        return spoiled(self, honest(self, data), ordered())

    setattr(Site, "answer", answer)  # noqa: B010


def spoiled(site: Any, answer: bytes, how: str) -> bytes:
    import numpy as np

    if how == "garbage":
        return b"garbage" * 40
    if how == "cut":
        return answer[: len(answer) // 2]
    if how == "long":
        return answer + b"\x00" * 64
    if how == "late":
        time.sleep(LATE)
    if how == "nan":
        return _with_arrays(site, answer, lambda x: np.full_like(x, np.nan))
    if how == "shape":
        return _with_arrays(site, answer, lambda x: np.zeros(x.size + 1))
    return answer


def _with_arrays(site: Any, answer: bytes, change: Callable[[Any], Any]) -> bytes:
    """The reply with other arrays in it."""
    import numpy as np

    from fedsolve.wire.encoding import Part
    from fedsolve.wire.messages import Reply, decode_answer

    def other(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return change(value)
        if isinstance(value, dict):
            return {name: other(one) for name, one in value.items()}
        return type(value)(map(other, value)) if type(value) in (list, tuple) else value

    reply = decode_answer(answer, site.runtime.types)
    if not isinstance(reply, Reply):
        return answer
    results = [Part(other(part.value)) for part in reply.results]
    return Reply(reply.preamble, reply.seconds, reply.counts, results).encode()
