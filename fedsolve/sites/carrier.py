"""What an engine must do for a run between organisations: carry bytes there and back. It understands none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Carrier(Protocol):
    """Carries terms and encoded messages between a server and its sites."""

    @property
    def absences(self) -> Mapping[str, str]:
        """Why sites are missing from the last exchange, by name, as far as the carrier knows."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The sites, in the order in which sums are taken."""
        ...

    def begin(self, terms: str) -> None:
        """Give the terms of a run to every site, as JSON."""

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterable[tuple[str, bytes]]:
        """Each site's answer, in any order, as it comes; who has not answered in time is missing. Requests that are one
        object are the same request, and can travel as one."""
        ...

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of these sites that could be asked now, without asking them or waiting."""
        ...

    def close(self) -> None:
        """End the run at every site. Safe to call twice."""
