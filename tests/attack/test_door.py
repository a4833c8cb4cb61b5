"""A hostile server that talks to a client in bytes, and hostile clients that talk to a server."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedsolve as fs
from fedsolve.errors import ClientInputError, ConfigError, DataError, LinkExceeded, ProtocolMismatch
from fedsolve.federation.client_checks import ClientInfo
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.federation import Federation
from fedsolve.federation.links import Link
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.federation.transports import InProcess
from fedsolve.loop.measure_protocols import Measure
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import FAILURE, REPLY, REQUEST, Part, Preamble
from fedsolve.wire.messages import MOST_CALLS, MOST_TEXT, Failure, Reply, Request, decode_answer
from tests.core.federations import MEASURE, STEPS, join
from tests.faults.faulty import FaultyRoad, until_done

PROTOCOLS = {"algorithm": STEPS, "measure": MEASURE}
LAST = 2**32 - 1
PURPOSES = ("algorithm", "measure", "setup", "", "\x1b[2J")


@dataclass(frozen=True)
class Counting:
    """A protocol with a memory: each call answers with one more."""

    @fs.client_step
    def count(self, client: fs.Client) -> int:
        client.memory["count"] = client.memory.get("count", 0) + 1
        return int(client.memory["count"])


def make_client(link: Link | None = None) -> fs.Client:
    rng = np.random.default_rng(0)
    return fs.Client("here", rng.standard_normal((6, 2)), np.arange(6) % 2.0, link=link)


@dataclass
class Talker:
    """Sends bytes to a client, as any server can."""

    runtime: Runtime

    def ask(self, *calls: tuple[str, str, dict[str, Any]], purpose: str = "algorithm", **head: int) -> Reply | Failure:
        routes = Part.plain([[protocol, step, purpose, "gather "] for protocol, step, _ in calls])
        parts = [routes, *(Part(arguments) for _, _, arguments in calls)]
        return decode_answer(
            self.runtime.answer_bytes(wire.encode(Preamble(REQUEST, **head), parts)), self.runtime.types
        )

    def joining(self, **changed: Any) -> tuple[str, str, dict[str, Any]]:
        arguments = {"version": fs.__version__, "protocols": dict(self.runtime.serves.fingerprints)}
        return "session", "join", {**arguments, "checkpointed": False, **changed}


def joined(link: Link | None = None, protocols: Mapping[str, Any] = PROTOCOLS, store: Any = None) -> Talker:
    """A client whose server joined at attempt 1, with request 1."""
    talker = Talker(Runtime(make_client(link), protocols, store))
    assert isinstance(talker.ask(talker.joining(), attempt=1, number=1), Reply)
    return talker


def trace(runtime: Runtime) -> Any:
    return runtime.attempt, list(runtime.versions), runtime.snapshot()


NUMBERS = ("algorithm", "numbers", {"size": 100})
MEASURING = ("measure", "value_and_gradient", {"w": np.zeros(2)})


# ── the link ──


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_label_does_not_go_round_the_link(purpose: str) -> None:
    talker = joined(Link(500))
    answer = talker.ask(NUMBERS, purpose=purpose, attempt=1, number=2, used=1, keep=1, round=1)
    assert isinstance(answer, Failure)
    assert answer.kind == "LinkExceeded"


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("together", [True, False])
def test_measuring_is_not_a_way_round_the_link(purpose: str, together: bool) -> None:
    limit = 1000
    talker = joined(Link(limit))
    runtime, received = talker.runtime, 0
    if together:
        answer = talker.ask(*[MEASURING] * 40, purpose=purpose, attempt=1, number=2, used=1, keep=1, round=1)
        assert isinstance(answer, Failure)
        assert answer.kind == "LinkExceeded"
        return
    for number in range(2, 60):
        answer = talker.ask(
            MEASURING, purpose=purpose, attempt=1, number=number, used=number - 1, keep=number - 1, round=1
        )
        if isinstance(answer, Failure):
            break
        received += len(answer.encode())
    assert isinstance(answer, Failure)
    assert answer.kind == "LinkExceeded"
    free = 4 * len(Reply(Preamble(REPLY), 0.0, [{}], [Part((0.0, np.zeros(2)))]).encode())
    assert received <= limit + free + 4 * 64  # four envelopes with their counts
    # The next round has its own.
    last = list(runtime.versions)[-1]
    again = talker.ask(MEASURING, attempt=1, number=last + 1, used=last, keep=last, round=2)
    assert isinstance(again, Reply)


def test_what_the_server_says_it_did_not_use_was_sent_all_the_same() -> None:
    talker = joined(Link(3000))
    answers = [
        talker.ask(NUMBERS, attempt=1, number=number, used=1, keep=1, round=1) for number in range(2, 8)
    ]  # each builds on the joining, as if no reply had arrived
    sent = sum(len(answer.encode()) for answer in answers if isinstance(answer, Reply))
    assert sent <= 3000
    assert [type(answer) for answer in answers] == [Reply] * 3 + [Failure] * 3


def test_a_number_that_is_used_again_is_no_way_round_the_link() -> None:
    talker = joined(Link(1500))
    first = talker.ask(NUMBERS, attempt=1, number=2, used=1, keep=1, round=1)
    assert isinstance(first, Reply)
    for size in (101, 1, 100):
        other = ("algorithm", "numbers", {"size": size})
        answer = talker.ask(other, attempt=1, number=2, used=1, keep=1, round=1)
        if size == 100:  # the same request has the same reply
            assert isinstance(answer, Reply)
            assert answer.encode() == first.encode()
        else:
            assert isinstance(answer, Failure)
            assert answer.kind == "ProtocolMismatch"


def test_a_client_that_restarts_remembers_what_it_sent(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory")
    talker = joined(Link(1500), store=store)
    assert isinstance(talker.ask(NUMBERS, attempt=1, number=2, used=1, keep=1, round=1), Reply)
    again = Talker(Runtime(make_client(Link(1500)), PROTOCOLS, store))
    repeated = again.ask(NUMBERS, attempt=1, number=2, used=1, keep=1, round=1)  # its reply was lost: not charged twice
    assert isinstance(repeated, Reply)
    more = again.ask(NUMBERS, attempt=1, number=3, used=2, keep=2, round=1)
    assert isinstance(more, Failure)
    assert more.kind == "LinkExceeded"


def test_setting_up_is_free_but_not_without_end() -> None:
    """Preprocessing is not charged to the link, however narrow; a server that goes on asking for it is."""
    preprocess = fs.data.Preprocess()
    talker = joined(Link(200), protocols={"preprocess": preprocess})
    totals = ("preprocess", "totals", {})
    answers = []
    for number in range(2, 30):
        calls = [totals] * (1 if number < 6 else MOST_CALLS)
        head = {"number": number, "used": number - 1, "keep": number - 1, "round": 0}
        answers.append(talker.ask(*calls, purpose="setup", attempt=1, **head))
        if isinstance(answers[-1], Failure):
            break
    assert all(isinstance(answer, Reply) for answer in answers[:10])
    assert isinstance(answers[-1], Failure)
    assert answers[-1].kind == "LinkExceeded"


def test_a_run_over_links_with_preprocessing_and_measuring_still_converges() -> None:
    """Links just wide enough for SHED's own messages; measuring in every round does not need more."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 4))
    y = (rng.random(80) < 1 / (1 + np.exp(-X[:, 0]))) * 1.0
    parts = fs.data.partition(X, y, fs.data.IID(), clients=4, seed=0)
    sites = [fs.Client(part.name, part.X, part.y, link=Link(700)) for part in parts]
    run = fs.run(
        fs.SHED(fs.Logistic(l2=1e-2), increment="link", pipelined=False), sites, preprocess=fs.data.Preprocess()
    )
    assert run.converged
    assert run.ledger.total("measure").bytes_up > 0


def test_vectors_are_for_a_round_and_not_for_a_call() -> None:
    algorithm = fs.SHED(fs.Logistic(l2=0.1), increment="link", precision="float64")
    rng = np.random.default_rng(0)
    client = fs.Client("here", rng.standard_normal((40, 6)), np.arange(40) % 2.0, link=Link(vectors_per_round=2))
    talker = Talker(Runtime(client, {"algorithm": algorithm}))
    assert isinstance(talker.ask(talker.joining(), attempt=1, number=1), Reply)
    gradient = ("algorithm", "local_gradient", {"w": np.zeros(6)})
    pairs = ("algorithm", "local_eigenpairs", {"renewal": 0, "count": None, "horizon": None})
    sent = []
    for number, calls in ((2, (gradient, pairs, pairs)), (3, (pairs,)), (4, (pairs,))):
        round = 1 if number < 4 else 2
        answer = talker.ask(*calls, attempt=1, number=number, used=number - 1, keep=number - 1, round=round)
        assert isinstance(answer, Reply), answer.text
        results = answer.results[1:] if number == 2 else answer.results
        sent.append(sum(part.value.pairs.values.size for part in results))
    assert sent == [2, 0, 2]


# ── who is answered ──


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("attempt", [0, 1, 2, LAST])
@pytest.mark.parametrize("call", [NUMBERS, MEASURING, ("algorithm", "name", {})])
def test_a_server_that_has_not_joined_is_not_answered(call: Any, attempt: int, purpose: str) -> None:
    talker = Talker(Runtime(make_client(), PROTOCOLS))
    before = trace(talker.runtime)
    answer = talker.ask(call, purpose=purpose, attempt=attempt, number=1, round=1)
    assert isinstance(answer, Failure)
    assert answer.kind == "ProtocolMismatch"
    assert "join" in answer.text
    assert trace(talker.runtime) == before


@pytest.mark.parametrize(
    "changed",
    [
        {"version": "9.9.9"},
        {"version": ""},
        {"protocols": {"algorithm": "0" * 16}},
        {"protocols": {"other": "0" * 16}},
        {"checkpointed": 1},
    ],
)
def test_a_server_that_joined_wrongly_is_not_answered(changed: dict[str, Any]) -> None:
    talker = Talker(Runtime(make_client(), PROTOCOLS))
    before = trace(talker.runtime)
    assert isinstance(talker.ask(talker.joining(**changed), attempt=1, number=1), Failure)
    assert trace(talker.runtime) == before
    assert isinstance(talker.ask(NUMBERS, attempt=1, number=2), Failure)
    assert trace(talker.runtime) == before


def test_only_the_protocols_named_when_joining_are_answered() -> None:
    talker = Talker(Runtime(make_client(), PROTOCOLS))
    some = {"measure": talker.runtime.serves.fingerprints["measure"]}
    assert isinstance(talker.ask(talker.joining(protocols=some), attempt=1, number=1), Reply)
    assert isinstance(talker.ask(MEASURING, attempt=1, number=2, used=1, keep=1), Reply)
    answer = talker.ask(NUMBERS, attempt=1, number=3, used=2, keep=2)
    assert isinstance(answer, Failure)
    assert answer.kind == "ProtocolMismatch"


def test_joining_and_a_step_in_one_request_is_not_joining_first() -> None:
    talker = Talker(Runtime(make_client(), PROTOCOLS))
    assert isinstance(talker.ask(talker.joining(), NUMBERS, attempt=1, number=1), Failure)
    assert talker.runtime.attempt == 0


def test_joining_survives_a_restart_of_the_client_but_not_of_its_settings(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory")
    joined(store=store)
    again = Talker(Runtime(make_client(), PROTOCOLS, store))
    assert isinstance(again.ask(NUMBERS, attempt=1, number=2, used=1, keep=1), Reply)
    other = {"algorithm": STEPS, "measure": Measure(fs.Logistic(l2=77.0))}
    changed = Talker(Runtime(make_client(), other, store))
    assert isinstance(changed.ask(NUMBERS, attempt=1, number=3, used=2, keep=2), Reply)
    answer = changed.ask(MEASURING, attempt=1, number=4, used=3, keep=3)
    assert isinstance(answer, Failure)
    assert answer.kind == "ProtocolMismatch"


# ── attempts and versions ──


def test_an_attempt_far_ahead_does_not_lock_the_server_out() -> None:
    talker = joined()
    for call in (NUMBERS, MEASURING, talker.joining(), talker.joining(version="9.9.9")):
        before = trace(talker.runtime)
        assert isinstance(talker.ask(call, attempt=LAST, number=2, used=1, keep=1), Failure)
        assert trace(talker.runtime) == before
    assert isinstance(talker.ask(NUMBERS, attempt=1, number=2, used=1, keep=1), Reply)


def test_a_server_that_comes_back_takes_over_and_the_old_one_is_not_obeyed() -> None:
    talker = joined(protocols={"counting": Counting()})
    count = ("counting", "count", {})
    for number in (2, 3, 4):  # checkpointed at 2
        reply = talker.ask(count, attempt=1, number=number, used=number - 1, keep=min(2, number - 1))
        assert isinstance(reply, Reply)
    assert reply.results[0].value == 3
    # The new one goes back to reply 2; request 3 is its joining.
    assert isinstance(talker.ask(talker.joining(), attempt=2, number=3, used=2, keep=2), Reply)
    old = talker.ask(count, attempt=1, number=5, used=4, keep=2)
    assert isinstance(old, Failure)
    assert "taken over" in old.text
    late = talker.ask(talker.joining(), attempt=1, number=5, used=2, keep=2)  # a joining that was long on its way
    assert isinstance(late, Failure)
    new = talker.ask(count, attempt=2, number=4, used=3, keep=2)
    assert isinstance(new, Reply)
    assert new.results[0].value == 2


def test_a_request_that_was_long_on_its_way_costs_nothing() -> None:
    talker = joined(protocols={"counting": Counting()})
    count = ("counting", "count", {})
    assert isinstance(talker.ask(count, attempt=1, number=3, used=1, keep=1), Reply)
    late = talker.ask(count, attempt=1, number=2, used=1, keep=1)  # the server has given it up
    assert isinstance(late, Reply)
    following = talker.ask(count, attempt=1, number=4, used=3, keep=3)
    assert isinstance(following, Reply)
    assert following.results[0].value == 2
    stale = talker.ask(count, attempt=1, number=3, used=1, keep=1)
    assert isinstance(stale, Failure)


large = st.integers(0, 2**64 - 1)
near = st.integers(0, 8)
numbers = st.one_of(near, large, st.sampled_from([2**63, 2**64 - 1, 2**32]))


@settings(max_examples=300, deadline=None)
@given(
    attempt=st.one_of(st.integers(0, 3), st.sampled_from([10_000, 10_001, 10_002, LAST])),
    number=numbers,
    used=numbers,
    keep=numbers,
    round=st.sampled_from([0, 1, LAST]),
    exchange=st.sampled_from([0, LAST]),
    which=st.integers(0, 5),
)
@example(1, 2**63, 4, 2, 1, 0, 0)
@example(1, 2**63, 4, 2**63, 1, 0, 0)
@example(1, 3, 2, 2, 1, 0, 0)
@example(1, 4, 2, 2, 1, 0, 0)
@example(1, 5, 4, 2, 1, 0, 0)
@example(LAST, 9, 4, 4, 1, 0, 1)
def test_one_message_of_anybody_changes_no_later_answer(
    attempt: int, number: int, used: int, keep: int, round: int, exchange: int, which: int
) -> None:
    """Whatever a stranger sends once, the server that joined gets the answer it would have got, or an error: never
    another answer. An error only where the stranger wrote the very request number that is due next."""
    talker = joined(protocols={"counting": Counting()})
    count = ("counting", "count", {})
    for each in (2, 3, 4):
        talker.ask(count, attempt=1, number=each, used=each - 1, keep=min(2, each - 1))
    calls: list[list[Any]] = [
        [count],
        [talker.joining()],
        [talker.joining(version="no")],
        [count] * 2000,
        [("counting", "__init__", {})],
        [talker.joining(), count],
    ]
    talker.ask(*calls[which], attempt=attempt, number=number, used=used, keep=keep, round=round, exchange=exchange)
    if attempt > 1 and talker.runtime.attempt == attempt:
        # It joined with everything right, as a server that was restarted does. The true one is restarted, and goes on
        # from its checkpoint.
        head = {"attempt": attempt + 1, "number": 3, "used": 2, "keep": 2}
        assert isinstance(talker.ask(talker.joining(), **head), Reply)
        expected, head = 2, {"attempt": attempt + 1, "number": 4, "used": 3, "keep": 2}
    else:
        expected, head = 4, {"attempt": 1, "number": 5, "used": 4, "keep": 2}
    answer = talker.ask(count, **head)
    if isinstance(answer, Failure):
        assert (attempt, number) == (1, 5)
        assert answer.kind == "ProtocolMismatch"
    else:
        assert answer.results[0].value == expected


def test_a_client_whose_disk_is_full_says_so_and_remembers_nothing(tmp_path: Path) -> None:
    class Full(MemoryStore):
        full = False

        def write(self, attempt: int, versions: Any) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            super().write(attempt, versions)

    store = Full(tmp_path / "memory")
    talker = joined(protocols={"counting": Counting()}, store=store)
    count = ("counting", "count", {})
    before = trace(talker.runtime)
    store.full = True
    answer = talker.ask(count, attempt=1, number=2, used=1, keep=1)
    assert isinstance(answer, Failure)
    assert "No space left" in answer.text
    assert trace(talker.runtime) == before
    store.full = False
    again = talker.ask(count, attempt=1, number=2, used=1, keep=1)
    assert isinstance(again, Reply)
    assert again.results[0].value == 1


@pytest.mark.parametrize("count", [MOST_CALLS + 1, 1000, 10_000])
def test_thousands_of_calls_are_refused_before_any_work(count: int) -> None:
    calls = []

    @dataclass(frozen=True)
    class Working:
        @fs.client_step
        def work(self, client: fs.Client) -> int:
            calls.append(1)
            return 0

    talker = joined(protocols={"working": Working()})
    work = ("working", "work", {})
    answer = talker.ask(*[work] * count, attempt=1, number=2, used=1, keep=1)
    assert isinstance(answer, Failure)
    assert answer.kind == "TooLarge"
    assert str(MOST_CALLS) in answer.text
    assert calls == []
    # Nor in one process, where nothing is decoded.
    routes = Part.plain([["working", "work", "algorithm", "gather "]] * count)
    request = Request(Preamble(REQUEST, 1, number=2, used=1, keep=1), routes, (Part({}),) * count)
    assert isinstance(talker.runtime.answer(request), Failure)
    assert calls == []
    assert isinstance(talker.ask(*[work] * MOST_CALLS, attempt=1, number=2, used=1, keep=1), Reply)


def test_a_request_without_calls_is_refused_and_so_are_too_many_at_the_server() -> None:
    talker = joined()
    assert isinstance(talker.ask(attempt=1, number=2, used=1, keep=1), Failure)
    fed = join(InProcess([make_client()]))
    with pytest.raises(ConfigError, match="1 to 64 calls, got 0"):
        fed.exchange()
    with pytest.raises(ConfigError, match="got 65"):
        fed.exchange(*[fs.Gather(STEPS.name)] * 65)


# ── hostile clients ──


@dataclass
class Lying:
    """A transport whose clients say what they like."""

    inner: InProcess
    lies: dict[str, ClientInfo] = field(default_factory=dict)
    failure: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def open(self, protocols: Mapping[str, Any]) -> None:
        self.inner.open(protocols)

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Any]]:
        for name, answer in self.inner.deliver(requests, deadline):
            if self.failure is not None:
                head = requests[name].preamble._replace(kind=FAILURE)
                raw = wire.encode(head, [Part.plain([self.failure, self.failure, self.failure])])
                yield name, decode_answer(raw, ())
            elif name in self.lies and requests[name].routes.value[0][1] == "join":
                yield name, Reply(answer.preamble, 0.0, [{}], [Part(self.lies[name])])
            else:
                yield name, answer

    def memories(self) -> None:
        return None

    def close(self) -> None:
        self.inner.close()


def honest(scale: float = 1.0, weighted: bool = True) -> list[fs.Client]:
    rng = np.random.default_rng(3)
    made = []
    for index, n in enumerate((20, 30, 50)):
        X = rng.standard_normal((n, 3))
        y = X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(n)
        weights = scale * (0.5 + rng.random(n)) if weighted else None
        made.append(fs.Client(f"c{index}", X, y, weights))
    return made


def info(**changed: Any) -> ClientInfo:
    return ClientInfo(**{"weight": 30.0, "samples": 30, "features": 3, "outputs": (), "names": None, **changed})


@pytest.mark.parametrize(
    "lie",
    [
        *({"weight": weight} for weight in (-1.0, 0.0, float("nan"), 1e300, -1e6, float("inf"), -float("inf"), 5e-324)),
        *({"weight": weight} for weight in (1e12, 1e18, -1e300, 10**18)),
        *({"samples": samples} for samples in (0, -1, -(10**6), 2**62)),
        *({"features": features} for features in (0, -3, 2**62)),
        *({"outputs": outputs} for outputs in ((0,), (-1,), (2, 2), (2**62,))),
        {"names": ("a",)},
        {"names": ("a",) * 4},
    ],
)
@pytest.mark.parametrize("who", ["c0", "c1", "c2"])
def test_what_cannot_be_true_of_a_client_is_refused_when_it_joins(lie: dict[str, Any], who: str) -> None:
    lying = Lying(InProcess(honest(weighted=False)), {who: info(**lie)})
    with pytest.raises(ClientInputError, match=rf"client '{who}', step session\.join: ") as caught:
        fs.run(fs.Newton(fs.Squared(l2=0.1)), lying)
    assert caught.value.client == who


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_a_factor_common_to_all_sample_weights_is_welcome(scale: float) -> None:
    plain = fs.run(fs.Newton(fs.Squared(l2=0.1)), honest())
    scaled = fs.run(fs.Newton(fs.Squared(l2=0.1)), honest(scale))
    assert scaled.converged
    np.testing.assert_allclose(scaled.model.w, plain.model.w, rtol=1e-10)


def test_weights_that_differ_by_much_are_still_weights() -> None:
    made = honest(weighted=False)
    heavy = made[0]
    made[0] = fs.Client("c0", heavy.X, heavy.y, np.full(heavy.n_samples, 1e5))
    assert fs.run(fs.Newton(fs.Squared(l2=0.1)), made).converged


def test_a_client_that_changes_its_weight_after_preprocessing_is_refused() -> None:
    @dataclass
    class Changing(Lying):
        joins: int = 0

        def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Any]]:
            self.joins += any(request.routes.value[0][1] == "join" for request in requests.values())
            self.lies = {"c1": info(weight=31.0)} if self.joins == 2 else {}
            yield from super().deliver(requests, deadline)

    changing = Changing(InProcess(honest(weighted=False)))
    with pytest.raises(ClientInputError, match=r"c1.*must not change"):
        fs.run(fs.Newton(fs.Squared(l2=0.1)), changing, preprocess=fs.data.Preprocess())


@pytest.mark.parametrize("weights", [np.zeros(4), np.full(4, 1e308), np.full(4, 1e-300)])
def test_sample_weights_that_cannot_be_summed_are_refused_by_the_client(weights: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"client 'a'.*weights"):
        fs.Client("a", np.eye(4), np.ones(4), weights)


HOSTILE = "\x1b[2J\x1b[31m[red]boom\r\n\x07\x9b5n\u202e<script>" + "x" * 100_000


def safe(text: str) -> bool:
    return not any(character in text for character in "\x1b\r\x07\x9b\u202e")


def test_the_words_of_a_failure_are_safe_to_print() -> None:
    lying = Lying(InProcess(honest()), failure=HOSTILE)
    with pytest.raises(fs.errors.ClientError) as caught:
        fs.run(fs.Newton(fs.Squared(l2=0.1)), lying)
    error = caught.value
    for text in (str(error), error.text, error.step):
        assert safe(text)
        assert len(text) <= MOST_TEXT + 500
    assert "\\x1b[31m[red]boom" in str(error)


@dataclass(frozen=True)
class Shouting:
    """A step whose error holds what a client's data holds."""

    @fs.client_step
    def shout(self, client: fs.Client) -> float:
        raise ValueError(HOSTILE)


def test_the_words_of_an_error_at_a_client_are_safe_on_both_sides() -> None:
    protocols = {"shouting": Shouting()}
    talker = joined(protocols=protocols)
    data = talker.runtime.answer_bytes(
        wire.encode(
            Preamble(REQUEST, 1, number=2, used=1, keep=1),
            [Part.plain([["shouting", "shout", "algorithm", "gather "]]), Part({})],
        )
    )
    assert len(data) < 3 * MOST_TEXT  # bounded where it leaves
    transport = InProcess([make_client()])
    transport.open(protocols)
    fed = Federation(transport, protocols)
    fed.join()
    with pytest.raises(fs.errors.ClientError) as caught:
        fed.gather(protocols["shouting"].shout)
    assert safe(str(caught.value))
    assert len(str(caught.value)) < 2 * MOST_TEXT


@pytest.mark.parametrize(
    "counts",
    [
        {"\x1b[2J": 1},
        {"x" * 10_000: 1},
        {"gradients": -1},
        {"gradients": 2**63},
        {str(index): 1 for index in range(1000)},
        {3: 1},
    ],
)
def test_a_reply_with_accounts_that_no_ledger_should_hold(counts: dict[Any, int]) -> None:
    data = wire.encode(Preamble(REPLY), [Part.plain([0.0, [counts]]), Part(1.0)])
    with pytest.raises(fs.errors.WireError):
        decode_answer(data, ())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_a_reply_that_took_no_time_there_is(seconds: float) -> None:
    with pytest.raises(fs.errors.WireError):
        decode_answer(wire.encode(Preamble(REPLY), [Part.plain([seconds, [{}]]), Part(1.0)]), ())


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "\u202eright to left", "x" * 1000, "\x9bm", "\ud800"])
def test_a_client_name_can_be_shown_or_is_refused(name: str) -> None:
    with pytest.raises(DataError) as caught:
        fs.Client(name, np.eye(2), np.ones(2))
    assert safe(str(caught.value))
    assert len(str(caught.value)) < 300
    inner = InProcess(honest())

    class Named(Lying):
        @property
        def names(self) -> tuple[str, ...]:
            return (name,)

    with pytest.raises(DataError):
        Federation(Named(inner), {})


@pytest.mark.parametrize("name", ["Zürich", "病院", "St. Mary's", "a-1", "a b", "بيمارستان", "site [3]", "=x", "-3"])
def test_names_of_sites_are_names(name: str) -> None:
    assert fs.Client(name, np.eye(2), np.ones(2)).name == name


# ── where text is shown ──

FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "[red]site[/red]", "<b>bold</b>")


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run file whose sites have the names above."""
    rng = np.random.default_rng(0)
    lines = ["a,b,y,site"]
    for name in FORMULAS:
        for _ in range(12):
            a, b = rng.standard_normal(2)
            lines.append(f'{a:.4f},{b:.4f},{a - b:.4f},"{name}"')
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.toml").write_text(
        """
[data]
file = "data.csv"
target = "y"
split_by = "site"

[loss]
name = "Squared"
l2 = 0.01

[algorithm]
name = "Newton"
"""
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> tuple[int, str]:
    from typer.testing import CliRunner

    from fedsolve.cli.main import app

    outcome = CliRunner().invoke(app, list(arguments))
    return outcome.exit_code, outcome.output


def test_no_formula_in_the_ledger_and_no_markup_in_the_report(run_folder: Path) -> None:
    status, output = command("run", "run.toml", "--output", "out")
    assert status == 0, output
    rows = list(csv.DictReader(io.StringIO((run_folder / "out/ledger.csv").read_text())))
    names = {row["client"] for row in rows}
    assert names == {"'=1+1", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "[red]site[/red]", "<b>bold</b>"}
    for row in rows:
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row.values())
        int(row["bytes"])
    page = (run_folder / "out/report.html").read_text()
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_markup_in_a_name_is_shown_and_not_obeyed(run_folder: Path) -> None:
    status, output = command("diagnose", "run.toml")
    assert status == 0, output
    assert "[red]site[/red]" in output


def test_control_characters_in_a_file_do_not_reach_the_terminal(run_folder: Path) -> None:
    data = (run_folder / "data.csv").read_text()
    (run_folder / "data.csv").write_text(data.replace("=1+1", "\x1b[31m\x9bsite"))
    for arguments in (("run", "run.toml", "--output", "out"), ("run", "run.toml", "--output", "out", "--json")):
        status, output = command(*arguments)
        assert status == 2, output
        assert safe(output)
        assert "\\x1b[31m" in output
    (run_folder / "data.csv").write_text(data.replace("a,b,y,site", '"a\x1b[31m\x9b",b,y,site'))
    for arguments in (("run", "run.toml", "--output", "out"), ("run", "run.toml", "--output", "other", "--json")):
        status, output = command(*arguments)
        assert status == 0, output
        assert safe(output)
    found = json.loads((run_folder / "other/summary.json").read_text())
    assert "a\x1b[31m\x9b" in found["feature_names"]
    for file in ("summary.json", "report.html", "ledger.csv"):
        assert safe((run_folder / "out" / file).read_text())


def test_errors_of_ours_are_safe_to_print_whatever_is_in_them() -> None:
    for kind in (fs.errors.DataError, fs.errors.WireError, ProtocolMismatch):
        said = str(kind(HOSTILE))
        assert safe(said)
        assert len(said) <= 10_000
    assert str(DataError("two\nlines")) == "two\nlines"
    assert safe(str(LinkExceeded("c", "step", HOSTILE)))
    assert safe(str(fs.errors.UnknownName("kind", HOSTILE, ["a"])))


# ── a whole run beside a stranger ──


class Shouted(FaultyRoad):
    """Clients that live on by themselves, to whom a stranger sends something before every request of the server."""

    shouts = 0

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Any:
        for name, request in requests.items():
            talker, head = Talker(self.runtimes[name]), request.preamble
            step = next(route for route in self.runtimes[name].steps if route[0] != "session")
            call = (*step, {})
            here = {"used": head.used, "keep": head.keep, "round": head.round}
            for answer in (
                talker.ask(call, attempt=LAST, number=2**63, **here),
                talker.ask(talker.joining(), attempt=LAST, number=2**63, **here),
                talker.ask(talker.joining(version="0"), attempt=head.attempt, number=2**63, **here),
                talker.ask(call, purpose="measure", attempt=head.attempt + 1, number=head.number + 1, **here),
                talker.ask(call, attempt=head.attempt, number=head.number + 7, used=2**63, keep=2**63),
                talker.ask(*[call] * 500, attempt=head.attempt, number=head.number, **here),
                talker.ask(("algorithm", "no such step", {}), attempt=head.attempt, number=head.number, **here),
                talker.ask(attempt=head.attempt, number=head.number, **here),
            ):
                assert isinstance(answer, Failure)
                self.shouts += 1
        return super().deliver(requests, deadline)


def test_a_run_beside_a_stranger_is_the_run_without(tmp_path: Path) -> None:
    """Replies lost, a client restarted, the server killed and resumed, and somebody shouting all the while."""
    from tests.algorithms.test_shed import make_clients

    algorithm = fs.SHED(fs.Logistic(l2=1e-3))
    road = Shouted(make_clients(12), tmp_path, loss=0.1, repeat=True, restart=[(5, "client-1")], crash=8)

    def attempt(resume: bool) -> fs.Run:
        return fs.run(
            algorithm, road, rounds=12, tolerance=0, checkpoint=tmp_path / "run", checkpoint_every=3, resume=resume
        )

    shouted = until_done(attempt)
    assert road.shouts > 300
    clean = fs.run(
        algorithm, make_clients(12), rounds=12, tolerance=0, participation=fs.Replay(cohorts=shouted.ledger.cohorts())
    )
    assert np.array_equal(shouted.model.w, clean.model.w)


def test_a_diagnosis_is_not_charged_to_the_link() -> None:
    sites = [fs.Client(one.name, one.X, one.y, link=Link(100)) for one in honest(weighted=False)]
    found = fs.diagnose.contraction(fs.Squared(l2=0.1), sites)
    assert found.rho == fs.diagnose.contraction(fs.Squared(l2=0.1), honest(weighted=False)).rho
