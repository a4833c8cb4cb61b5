"""Sites on this machine, each in a process of its own with its own site file: to try a run between organisations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from fedsolve.errors import ConfigError
from fedsolve.sites.site_file import read_site_file
from fedsolve.sites.site_process import SiteProcess


class LocalCarrier:
    """Carries messages to site processes of this machine.

    Args:
        site_files: The site files; the sites' names are in them.
    """

    def __init__(self, site_files: Sequence[Path]) -> None:
        self._files = {read_site_file(path).name: path for path in site_files}
        if len(self._files) < len(site_files):
            raise ConfigError("two of these site files have the same name: each site has its own")
        self._sites: dict[str, SiteProcess] = {}
        self._pool: ThreadPoolExecutor | None = None
        self.absences: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def begin(self, terms: str) -> None:
        self.close()
        self._sites = {name: SiteProcess(path, terms) for name, path in self._files.items()}
        self._pool = ThreadPoolExecutor(len(self._sites), thread_name_prefix="site")

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        assert self._pool is not None, "begin() comes first"
        self.absences = {}
        until = None if deadline is None else time.monotonic() + deadline
        waiting: dict[Future[bytes | None], str] = {
            self._pool.submit(self._sites[name].answer, data, deadline): name for name, data in requests.items()
        }
        while waiting:
            left = None if until is None else max(0.0, until - time.monotonic()) + 1.0  # they keep the time themselves
            done, _ = wait(waiting, left, FIRST_COMPLETED)
            for one in done:
                name, answer = waiting.pop(one), one.result()
                if answer is None:
                    self.absences[name] = f"no answer within {deadline:g} s"
                else:
                    yield name, answer

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in self._sites)

    def pids(self) -> dict[str, int | None]:
        """The computing process of each site."""
        return {name: site.pid for name, site in self._sites.items()}

    def close(self) -> None:
        for site in self._sites.values():
            site.close()
        self._sites = {}
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
