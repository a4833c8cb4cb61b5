"""The versions of a client's memory: which of them the server may still come back to."""

from __future__ import annotations

from fedsolve.typing import Value
from fedsolve.wire.encoding import Preamble

Versions = dict[int, dict[str, Value]]  # by the number of the reply; the newest is the last

# Versions that are kept where a request names none of them to be kept.
MOST_VERSIONS = 8


def still_needed(versions: Versions, head: Preamble, joins: bool) -> Versions:
    """The versions to keep beside the one that the request with this head leads to.

    Args:
        joins: Whether the request is of a server that joins: it makes nothing forgotten but what came after the reply
            that it goes back to.
    """
    used, keep = head.used, head.keep
    if joins:
        return {earlier: version for earlier, version in versions.items() if earlier < head.number}
    if keep == used == next(reversed(versions)):  # as a rule: the reply before this one
        return {used: versions[used]}
    if keep in versions:
        # The newest too: a request that was long on its way must not cost the server the reply to a later one.
        newest = next(reversed(versions))
        return {keep: versions[keep], used: versions[used], newest: versions[newest]}
    # No version of ours to keep: nothing is forgotten for that.
    others = [other for other in versions if other != used][-MOST_VERSIONS:]
    return {other: versions[other] for other in (used, *others)}
