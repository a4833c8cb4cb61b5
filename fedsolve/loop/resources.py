"""How much memory this process may still take."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def available_memory(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Bytes, by the strictest of what the machine has free, the limits of its control groups and that on this process's
    address space; None where the system does not say."""
    return min([*_of_machine(proc), *_of_groups(proc, cgroup), *_of_address_space(proc)], default=None)


def _of_machine(proc: Path) -> Iterator[int]:
    found = _kilobytes(proc / "meminfo", "MemAvailable")
    if found is not None:
        yield found
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # what is in use is not known: all of it
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(proc: Path, cgroup: Path) -> Iterator[int]:
    """What each group that this process is in leaves, up to the root: file pages that can be dropped are free."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            root, limit, usage = cgroup, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, usage = cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = root / path.lstrip("/")
        # Inside a container the path may be that of the host, and only the root be there.
        for folder in (inner, *inner.parents) if inner.is_dir() else (root,):
            most, used = _text(folder / limit).strip(), _text(folder / usage).strip()
            if most.isdigit() and used.isdigit():
                droppable = re.search(r"^inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
                yield int(most) - int(used) + (int(droppable.group(1)) if droppable else 0)
            if folder == root:
                break


def _of_address_space(proc: Path) -> Iterator[int]:
    if sys.platform == "win32":
        return
    import resource

    most, used = resource.getrlimit(resource.RLIMIT_AS)[0], _kilobytes(proc / "self" / "status", "VmSize")
    if most != resource.RLIM_INFINITY and used is not None:
        yield most - used


def _kilobytes(path: Path, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(path), re.MULTILINE)
    return None if found is None else 1024 * int(found.group(1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # another system, or not for us to read
        return ""
