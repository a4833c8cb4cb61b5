"""Who is missing from an exchange, why, and whether those who are there are enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedsolve.errors import ClientError, FedsolveError, QuorumNotReached
from fedsolve.federation.answers import Answers
from fedsolve.federation.intake import Fault
from fedsolve.federation.participation import Participation
from fedsolve.federation.transports.base import absences

SILENT = "no answer"
SIMULATED = "its reply was lost, in simulation"


def reasons(answers: Answers, faults: Mapping[str, Fault], missing: Iterable[str]) -> dict[str, str]:
    """Why each of these clients is missing."""
    known, lost = absences(answers.transport), set(answers.lost)
    silent = SILENT if answers.deadline is None else f"{SILENT} within {answers.deadline:g} s"
    found: dict[str, str] = {}
    for name in missing:
        if name in faults:
            found[name] = faults[name].reason
        else:
            found[name] = known.get(name) or (SIMULATED if name in lost else silent)
    return found


def check_faults(answered: int, faults: Mapping[str, Fault]) -> None:
    """Raise the error of the first client, if nobody answered and all who tried failed alike: that is a fault of the
    run, and not of its clients."""
    if answered or not faults:
        return
    first = next(iter(faults.values()))
    if any(one.kind != first.kind for one in faults.values()):
        return
    error: FedsolveError = first.error
    if len(faults) > 1 and isinstance(error, ClientError):
        error = type(error)(error.client, error.step, f"{error.text}. All {len(faults)} clients failed alike")
    raise error from first.cause


def check_everyone(missing: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Raise QuorumNotReached if anyone is missing while a run is set up."""
    if missing:
        raise QuorumNotReached(
            f"everyone must take part in setting up a run, and {in_words(missing, known)} did not answer; start again "
            "when all are there, or leave these clients out"
        )


def check_quorum(
    policy: Participation, round: int, answered: int, asked: int, share: float, missing: Mapping[str, str],
    known: Mapping[str, str],
) -> None:  # fmt: skip
    """Raise QuorumNotReached if those who answered, with this share of the total weight, are not enough.

    Args:
        missing: The reason for each client that is missing.
        known: Those of the reasons that are worth telling: silence and simulated losses are not.
    """
    if policy.quorum == 1.0 and missing:
        raise QuorumNotReached(
            f"round {round}: everyone must answer, and {in_words(missing, known)} did not; start again when all are "
            "there, or leave these clients out"
        )
    if not answered or share < policy.quorum:
        said = f". Missing: {in_words(missing, known)}" if known else ""
        raise QuorumNotReached(
            f"round {round}: {answered} of {asked} clients answered, with {share:.0%} of the total weight; the quorum "
            f"is {policy.quorum:.0%}. Wait for more clients, or lower it{said}"
        )


def in_words(missing: Iterable[str], known: Mapping[str, str]) -> str:
    """Names of clients, with the reason where it is known."""
    by_reason: dict[str, list[str]] = {}
    for name in missing:
        by_reason.setdefault(known.get(name, ""), []).append(name)
    return "; ".join(", ".join(names) + (f" ({reason})" if reason else "") for reason, names in by_reason.items())
