"""Damaged messages to every client step and from it: nothing but errors of ours, and none that takes long.

    python -m tests.attack.fuzz_messages --count 200000 --seed 0
    python -m tests.attack.fuzz_messages --seed 0 --only 1234        the message that failed, by itself

Runs in a child process that has 64 MB of address space beyond what its libraries take. A message is a function of seed
and number, so that one that fails can be made again. What counts as a failure: an exception that is not of
`fedsolve.errors`, MemoryError included; an answer that the server could not read; more than 0.5 s of processor time;
the end of the child.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.attack.subjects import Subject

ADDRESS_SPACE = 64 * 2**20  # beyond what the libraries take
SECONDS = 0.5  # of processor time, for one message
GIVE_UP = 20.0  # of processor time: what takes longer is ended
SHOWN = 10


@dataclass
class Outcome:
    """What became of the messages."""

    count: int = 0
    requests: Counter[str] = field(default_factory=Counter)  # by what came back: "reply", or the error's name
    replies: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)  # by step: requests that got as far as the step
    slowest: float = 0.0
    slowest_number: int = -1
    faults: list[str] = field(default_factory=list)
    peak_mb: float = 0.0  # of address space


def run(count: int, seed: int, first: int = 0, networks: bool = False) -> Outcome:
    """Fuzz in a child process."""
    with tempfile.NamedTemporaryFile() as place:
        place.write(bytes(8))
        place.flush()
        command = [sys.executable, "-m", "tests.attack.fuzz_messages", "--child", place.name]
        command += ["--count", str(count), "--seed", str(seed), "--first", str(first)]
        command += ["--networks"] if networks else []
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        pool = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # its own reserves a gigabyte, where messages could hide
        done = subprocess.run(command, env={**os.environ, **threads, **pool}, capture_output=True, text=True)
        number = int.from_bytes(place.file.read() if place.file.seek(0) == 0 else b"", "little")
    if done.returncode != 0:
        ended = f"the child ended with {done.returncode} at message {number} of seed {seed}: {done.stderr[-2000:]}"
        return Outcome(number, faults=[ended])
    plain = json.loads(done.stdout)
    for name in ("requests", "replies", "reached"):
        plain[name] = Counter(plain[name])
    return Outcome(**plain)


# ── in the child ──


def fuzz(count: int, seed: int, first: int, place: Any, known: list[Subject]) -> Outcome:
    """The messages from `first` on, one after the other; `place` is told which one is looked at."""
    outcome = Outcome()
    for number in range(first, first + count):
        place[:8] = number.to_bytes(8, "little")
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP)
        try_one(known, seed, number, outcome)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return outcome


def message(known: list[Subject], seed: int, number: int) -> tuple[Subject, tuple[str, str], bool, bytes]:
    """Message `number` of a seed: to or from whom, which step it was of, whether it is a request, and its bytes."""
    from tests.attack.mutations import mutate

    # In turn by subject and route, so that every step has its share; by chance in all else.
    chance = Random(f"{seed} {number}")
    subject = known[number % len(known)]
    routes = list(subject.requests)
    route = routes[number // len(known) % len(routes)]
    is_request = chance.random() < 0.75
    stranger = chance.choice(known) if chance.random() < 0.5 else subject
    sound = (subject.requests if is_request else subject.replies)[route]
    other = chance.choice(list((stranger.requests if chance.random() < 0.7 else stranger.replies).values()))
    return subject, route, is_request, mutate(sound, other, chance)


def try_one(known: list[Subject], seed: int, number: int, outcome: Outcome) -> None:
    subject, route, is_request, data = message(known, seed, number)
    started = time.process_time()
    try:
        # One in sixteen comes to a client that has just begun.
        said = asked(subject, data, number % 16 != 0, outcome) if is_request else received(subject, route, data)
        fault = None if said in OURS else said
    except Exception as error:
        said = fault = f"{type(error).__name__}: {error}"
    seconds = time.process_time() - started
    outcome.count += 1
    (outcome.requests if is_request else outcome.replies)[said if fault is None else "fault"] += 1
    if seconds > outcome.slowest:
        outcome.slowest, outcome.slowest_number = seconds, number
    if seconds > SECONDS:
        fault = f"took {seconds:.2f} s"
    if fault is not None:
        kind = "request to" if is_request else "reply of"
        where = f"{subject.name}, {'.'.join(route)}"
        outcome.faults.append(f"message {number} of seed {seed}, a {kind} {where}: {fault}")


def _ours() -> frozenset[str]:
    from fedsolve import errors

    found = {name for name, value in vars(errors).items() if isinstance(value, type)}
    return frozenset({name for name in found if issubclass(getattr(errors, name), errors.FedsolveError)} | {"reply"})


OURS: frozenset[str] = frozenset()


def asked(subject: Subject, data: bytes, remembers: bool, outcome: Outcome) -> str:
    """What a client says to a request: the name of an error, or "reply"."""
    from fedsolve.wire.messages import Failure, decode_answer

    answer = decode_answer(subject.answer(data, remembers), subject.runtime.types)
    if not isinstance(answer, Failure):
        outcome.reached[subject.name] += 1
        return "reply"
    if answer.step != "decode":
        outcome.reached[subject.name] += 1
    return answer.kind if answer.kind in OURS else f"{answer.kind} in {answer.step}: {answer.text}"


def received(subject: Subject, route: tuple[str, str], data: bytes) -> str:
    """What the server makes of a reply: it decodes it, holds it against the contract, and adds it up."""
    from fedsolve.errors import FedsolveError, WrongType
    from fedsolve.federation.aggregation import Total
    from fedsolve.federation.protocol import signature
    from fedsolve.wire.messages import Failure, decode_answer

    try:
        answer = decode_answer(data, subject.runtime.types)
        if isinstance(answer, Failure):
            return type(answer.error("client")).__name__
        if not route[0]:
            return "reply"
        for part in answer.results:
            contract = signature(subject.runtime.steps[route][1])
            if not contract.returns(part.value):
                raise WrongType("not what the step declares")
            total = Total()
            total.add(part.value, 0.5)
            total.add(part.value, 0.5)
            total.result(2.0)
    except FedsolveError as error:
        return type(error).__name__
    return "reply"


def _status(name: str) -> float:
    """A size of this process in MB, as Linux knows it."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def child(options: argparse.Namespace) -> None:
    from tests.attack.subjects import networks, subjects

    known = networks() if options.networks else subjects()
    import scipy.interpolate  # noqa: F401  # a step imports it late: under the limit it may find no room

    begun = _status("VmSize")  # what the libraries take is not the messages' doing
    most = ADDRESS_SPACE + int(begun * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    warnings.simplefilter("ignore")  # of overflows: numbers of 1e308 are meant to
    global OURS
    OURS = _ours()
    with open(options.child, "r+b") as file, mmap.mmap(file.fileno(), 8) as place:
        outcome = fuzz(options.count, options.seed, options.first, place, known)
    outcome.peak_mb = _status("VmPeak") - begun
    json.dump(vars(outcome), sys.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Send damaged messages to every client step.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first message")
    parser.add_argument("--only", type=int, help="only this message, in this process, with its traceback")
    parser.add_argument("--networks", action="store_true", help="to the steps that need torch")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options)
        return 0
    if options.only is not None:
        return show(options.seed, options.only, options.networks)
    started = time.perf_counter()
    outcome = run(options.count, options.seed, options.first, options.networks)
    print(f"{outcome.count} messages in {time.perf_counter() - started:.0f} s, {len(outcome.faults)} faults")
    print(f"requests: {dict(outcome.requests.most_common())}")
    print(f"replies:  {dict(outcome.replies.most_common())}")
    print(f"requests that reached a step: {outcome.reached.total()}")
    print(f"slowest: {outcome.slowest:.3f} s of processor time (message {outcome.slowest_number})")
    print(f"address space: {outcome.peak_mb:.0f} MB at most, of {ADDRESS_SPACE // 2**20}")
    for fault in outcome.faults[:SHOWN]:
        print(fault)
    return 1 if outcome.faults else 0


def show(seed: int, number: int, of_networks: bool) -> int:
    """One message, as it fails."""
    from fedsolve.wire.messages import Request
    from tests.attack.subjects import networks, subjects

    subject, route, is_request, data = message(networks() if of_networks else subjects(), seed, number)
    print(f"{'request to' if is_request else 'reply of'} {subject.name}, {'.'.join(route)}, {len(data)} bytes")
    if not is_request:
        print(received(subject, route, data))
        return 0
    request = Request.decode(data, subject.runtime.types)
    print(request.routes.value, *(part.value for part in request.arguments), sep="\n")
    subject.runtime.restore(0, {0: subject.memory if number % 16 else {}})
    answer = subject.runtime.answer(request)
    cause = getattr(answer, "cause", None)
    if cause is not None:
        raise cause
    return 0


if __name__ == "__main__":
    sys.exit(main())
