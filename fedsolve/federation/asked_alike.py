"""Answers of many clients that are asked one and the same thing, as nearly always in one process.

What `Runtime` does client by client is done here for all of them in each of its three parts, and what follows from the
request is worked out once. Whoever is not in the usual state is left to `Runtime`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from fedsolve.errors import FedsolveError
from fedsolve.federation.client_runtime import Runtime, failure_of
from fedsolve.federation.joining import JOINED
from fedsolve.federation.links import UNLIMITED
from fedsolve.federation.memory import Memory
from fedsolve.typing import Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import MOST_CALLS, Counts, Failure, Reply, Request, overhead

Step = tuple[Callable[..., Value], object, Mapping[str, Value], tuple[int, int, int, int], str]


class AskedAlike:
    """One request to many clients, whose answers are given in portions."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._agreed: object = None  # the steps for which `_steps` was worked out
        self._steps: list[Step] = []

    def answers(self, runtimes: Sequence[Runtime], most: int) -> list[Reply | Failure]:
        """The answers of the first of these clients, as many as can be given in this way; often all, sometimes none.

        Args:
            runtimes: Of clients that got the request.
            most: No further answers are given once they hold so many bytes.
        """
        memories = _memories(runtimes, self.request)
        if not memories:
            return []
        if runtimes[0].agreed is not self._agreed:
            try:
                self._steps = _steps(runtimes[0], self.request)
            except FedsolveError:
                return []  # `Runtime` says so, for each client
            self._agreed = runtimes[0].agreed
        answers = _answers(self._steps, runtimes, memories, self.request, most)
        _commit(runtimes, memories, self.request, answers)
        return answers


def _steps(runtime: Runtime, request: Request) -> list[Step]:
    """What to run, with which arguments and when. Raises FedsolveError if the server may not ask for it."""
    head, found = request.preamble, []
    for index, (route, arguments) in enumerate(zip(request.routes.value, request.arguments, strict=True)):
        call, moment = runtime.call(route, arguments), (head.seed, head.round, head.exchange, index)
        found.append((call.function, call.protocol, arguments.value, moment, call.scope))
    return found


def _memories(runtimes: Sequence[Runtime], request: Request) -> list[Memory]:
    """What the first clients start from: those that agreed to the same, build on their latest reply, and have NumPy
    arrays, a link without limit and no guard."""
    _, attempt, _, _, number, used, _, _ = request.preamble
    memories: list[Memory] = []
    if not 0 < len(request.arguments) <= MOST_CALLS:
        return memories
    agreed = runtimes[0].agreed
    for runtime in runtimes:
        versions, client = runtime.versions, runtime.client
        if attempt != runtime.attempt or not next(reversed(versions), -1) == used < number:
            break
        known = versions[used]
        if known.get(JOINED) is not runtime.joined or runtime.agreed is not agreed:
            break
        if not client.is_numpy or client.link is not UNLIMITED or runtime.guard is not None:
            break
        memories.append(Memory(known, runtime.types))
    return memories


def _answers(
    steps: Sequence[Step], runtimes: Sequence[Runtime], memories: Sequence[Memory], request: Request, most: int
) -> list[Reply | Failure]:
    """Run the calls for one client after the other."""
    head, held = request.preamble, 0
    answers: list[Reply | Failure] = []
    for runtime, memory in zip(runtimes, memories, strict=False):
        client = runtime.client
        client.vectors = client.room = None
        results: list[Part] = []
        counts: list[Counts] = []
        started = perf_counter()
        try:
            for function, protocol, arguments, moment, scope in steps:
                client.enter(memory, moment, scope)
                part = Part(function(protocol, client, **arguments))
                results.append(part)
                counts.append(client.counts)
                held += part.size
        except Exception as error:  # reported, not hidden: the server raises it with the client's name
            answers.append(failure_of(head, ".".join(request.routes.value[len(results)][:2]), error))
            continue
        if counts != runtime.counts:  # as a rule they are those of the last reply
            runtime.counts, runtime.around = counts, overhead(counts)
        answers.append(Reply(head, perf_counter() - started, counts, results, runtime.around))
        if held > most:
            break
    return answers


def _commit(
    runtimes: Sequence[Runtime], memories: Sequence[Memory], request: Request, answers: list[Reply | Failure]
) -> None:
    """Remember what the calls remembered. Where that fails, the answer is that."""
    _, _, _, _, number, used, keep, _ = request.preamble
    for place, answer in enumerate(answers):
        runtime, memory = runtimes[place], memories[place]
        if type(answer) is not Reply:
            continue
        if keep == used and runtime.store is None and not runtime.serves.remember:
            runtime.versions = {used: runtime.versions[used], number: memory.data}  # the one before, and this one
        else:
            answers[place] = runtime.finish(request, memory, answer)
