"""The fields of the messages between controller and executor: bytes that only fedsolve understands, and a few words."""

from __future__ import annotations

TASK = "ask"  # the one task of a job
REQUEST = "request"  # to a site: an encoded request
TERMS = "terms"  # to a site: the terms of the run, in the first message, and again to a process that does not know them
MARK = "mark"  # to a site: a hash of the terms, so that it knows whether it has them
LIMIT = "limit"  # to a site: seconds after which nobody waits for the answer any more
ANSWER = "answer"  # from a site: an encoded answer
UNKNOWN = "unknown"  # from a site: it has not got these terms
LATE = "late"  # from a site: the computation is still going on
TROUBLE = "trouble"  # from a site: what went wrong outside the computation, class and place only

PROGRESS = "fedsolve.progress"  # the command by which `fedsolve submit` asks how far a run is
STOP = "fedsolve.stop"  # the command that ends a run in order
DEADLINE = 300.0  # seconds for an exchange, unless [participation] says otherwise
LONGEST = 7 * 86400.0  # seconds for which a site computes at most, whatever the limit
