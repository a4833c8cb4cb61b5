"""Data of the server's own: steps at the server, the server as one client more, unlabelled data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError, ConfigError, DataError, WrongType
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.typing import Array
from fedsolve.wire.encoding import REQUEST, Part, Preamble
from fedsolve.wire.messages import Failure, Request
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | unbalanced"]
LOSS = PROBLEM.loss


@dataclass(frozen=True)
class State:
    w: Array
    seen: float


@dataclass(frozen=True)
class WithServer:
    """Gradient descent in which the server counts like a client, and weighs its public data by itself."""

    loss: fs.Logistic
    labelled: bool = True

    @fs.client_step
    def gradient(self, client: fs.Client, w: Array) -> Array:
        return self.loss.gradient(client, w)

    @fs.client_step(server_only=True)
    def spread(self, client: fs.Client, w: Array) -> float:
        client.memory["asked"] = client.memory.get("asked", 0) + 1
        client.count("rows of features", client.n_samples)
        return float(np.var(client.X @ w[: client.X.shape[1]])) + float(client.memory["asked"]) + client.rng.random()

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss), 0.0)

    def round(self, fed: fs.Federation, state: State) -> State:
        call = fs.Mean(self.gradient, w=state.w)
        (g,) = fed.exchange(call.with_server() if self.labelled else call)
        return State(state.w - g, state.seen + fed.here(self.spread, w=state.w))

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


def parts() -> list[fs.Client]:
    return fs.data.partition(PROBLEM.X, PROBLEM.y, fs.data.QuantitySkew(1.0), clients=4, seed=2)


def federation(server: fs.Client | None, **options: Any) -> tuple[Federation, WithServer]:
    protocol = WithServer(LOSS)
    transport = InProcess(parts()[:3])
    transport.open({"algorithm": protocol})
    fed = Federation(transport, {"algorithm": protocol}, server=server, **options)
    fed.join()
    fed.begin_round(1)
    return fed, protocol


@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_the_server_counts_like_one_client_more(kind: type) -> None:
    *three, fourth = parts()
    fourth = fs.Client("server", fourth.X, fourth.y)
    with_server = fs.run(WithServer(LOSS), kind(three, threads=1), server=fourth, rounds=5, tolerance=0)
    w = LOSS.zero(fourth)
    for _ in range(5):
        everyone = [*three, fourth]
        total = sum(client.weight for client in everyone)
        w = w - sum(client.weight / total * LOSS.gradient(client, w) for client in everyone)
    np.testing.assert_allclose(with_server.state.w, w, atol=1e-13)
    assert with_server.ledger.server_counts
    assert all(len(record.answered) == 3 for record in with_server.ledger.records)


def test_sums_and_gathers_count_it_too_and_uniform_means_do_so_alike() -> None:
    server = fs.Client("server", parts()[3].X, parts()[3].y)
    fed, protocol = federation(server)
    w = np.full(LOSS.zero(server).shape, 0.1)
    each = {client.name: LOSS.gradient(client, w) for client in [*parts()[:3], server]}
    gathered, total, mean = fed.exchange(
        fs.Gather(protocol.gradient, w=w).with_server(),
        fs.Sum(protocol.gradient, w=w).with_server(),
        fs.Mean(protocol.gradient, w=w).uniform().with_server(),
    )
    assert list(gathered) == [*fed.clients, "server"]
    np.testing.assert_allclose(total, sum(each.values()), atol=1e-13)
    np.testing.assert_allclose(mean, sum(each.values()) / 4, atol=1e-13)
    np.testing.assert_allclose(fed.here(protocol.gradient, w=w), each["server"], atol=1e-13)
    (apart,) = fed.exchange(
        fs.Gather(protocol.gradient, w=fs.PerClient({name: w * k for k, name in enumerate(each)})).with_server()
    )
    np.testing.assert_allclose(apart["server"], LOSS.gradient(server, 3 * w), atol=1e-13)


def test_what_a_step_at_the_server_is_given_and_gives_is_checked() -> None:
    server = fs.Client("server", parts()[3].X, parts()[3].y)
    fed, protocol = federation(server)
    with pytest.raises(WrongType, match=r"algorithm.gradient takes \['w'\], got \[\]"):
        fed.here(protocol.gradient)  # type: ignore[call-arg]
    with pytest.raises(WrongType, match="got w of type str"):
        fed.here(protocol.gradient, w="zero")
    with pytest.raises(ConfigError, match="by name: w"):
        fed.here(protocol.gradient, np.zeros(3))
    with pytest.raises(ConfigError, match="none for 'server'"):
        fed.exchange(fs.Sum(protocol.gradient, w=fs.PerClient({n: np.zeros(6) for n in fed.clients})).with_server())


def test_without_data_of_its_own_it_says_so() -> None:
    fed, protocol = federation(None)
    with pytest.raises(DataError, match=r"run\(…, server=Client"):
        fed.here(protocol.spread, w=np.zeros(6))
    with pytest.raises(DataError, match=r"run\(…, server=Client"):
        fed.exchange(fs.Sum(protocol.gradient, w=np.zeros(6)).with_server())


def test_a_step_for_the_server_only_is_not_asked_of_clients_and_not_answered_by_them() -> None:
    fed, protocol = federation(None)
    with pytest.raises(ConfigError, match=r"runs only at the server: fed.here\(self.spread"):
        fed.mean(protocol.spread, w=np.zeros(6))
    runtime = Runtime(parts()[0], {"algorithm": protocol})
    route = Part.plain([["algorithm", "spread", "algorithm", "gather "]])
    head = Preamble(REQUEST, 1, number=2, used=1, keep=1)
    assert isinstance(runtime.answer(Request(head, route, (Part({"w": np.zeros(6)}),))), Failure)
    assert ("algorithm", "spread") not in runtime.steps


def test_unlabelled_data_is_for_the_server_only(tmp_path: Path) -> None:
    *three, fourth = parts()
    public = fs.Client("public", fourth.X, None)
    algorithm = WithServer(LOSS, labelled=False)
    whole = fs.run(algorithm, three, server=public, rounds=6, tolerance=0)
    assert whole.state.seen > 15
    path = tmp_path / "run"
    fs.run(algorithm, three, server=public, rounds=3, tolerance=0, checkpoint=path)
    public = fs.Client("public", fourth.X, None)
    resumed = fs.run(algorithm, three, server=public, rounds=6, tolerance=0, checkpoint=path, resume=True)
    assert resumed.state.seen == whole.state.seen
    with pytest.raises(ClientError, match=r"public.*has no targets"):
        fs.run(algorithm, [*three, public], rounds=1)
    assert public.subset(np.arange(3)).y is None
    assert public.data_mark() == fs.Client("public", fourth.X, None).data_mark()


def test_names_widths_and_targets_are_checked_when_it_joins() -> None:
    *three, fourth = parts()
    algorithm = WithServer(LOSS)
    with pytest.raises(DataError, match="both named 'client-0'"):
        fs.run(algorithm, three, server=fs.Client("client-0", fourth.X, fourth.y))
    with pytest.raises(DataError, match="features where the clients have"):
        fs.run(algorithm, three, server=fs.Client("s", fourth.X[:, :2], None))
    with pytest.raises(DataError, match="targets of shape"):
        fs.run(algorithm, three, server=fs.Client("s", fourth.X, np.stack([fourth.y, fourth.y], axis=1)))
    with pytest.raises(DataError, match="'s'"):
        fs.run(algorithm, three, server=fs.Client("s", fourth.X, 7 * fourth.y))


def test_one_object_for_several_clients_is_one_request() -> None:
    fed, protocol = federation(None)
    seen: list[Any] = []
    deliver = fed.transport.deliver
    fed.transport.deliver = lambda requests, deadline: (seen.append(requests), deliver(requests, deadline))[1]  # type: ignore[method-assign, func-returns-value]
    a, b = np.zeros(6), np.ones(6)
    first, second, third = fed.clients
    g = fed.gather(protocol.gradient, w=fs.PerClient({first: a, second: b, third: a}))
    (requests,) = seen
    assert requests[first] is requests[third]
    assert requests[first] is not requests[second]
    for client, w in zip(parts(), (a, b, a), strict=False):
        np.testing.assert_array_equal(g[client.name], LOSS.gradient(client, w))
    record = fed.ledger.records[-1]
    assert record.spread(record.bytes_down).shape[1] == 3


@dataclass(frozen=True)
class Chance:
    """A protocol whose step draws by chance and remembers how often it was asked."""

    @fs.client_step
    def draw(self, client: fs.Client) -> float:
        client.memory["asked"] = client.memory.get("asked", 0) + 1
        return float(client.rng.random())

    @fs.client_step
    def asked(self, client: fs.Client) -> int:
        return int(client.memory.get("asked", 0))


def chance() -> tuple[Federation, Chance]:
    protocol, server = Chance(), fs.Client("server", parts()[3].X, parts()[3].y)
    transport = InProcess(parts()[:3])
    transport.open({"algorithm": protocol})
    fed = Federation(transport, {"algorithm": protocol}, server=server)
    fed.join()
    fed.begin_round(1)
    return fed, protocol


def test_the_server_draws_anew_after_an_exchange_that_only_measures_or_sets_up() -> None:
    fed, protocol = chance()
    drawn = [fed.here(protocol.draw)]
    fed.measure(fs.Sum(protocol.asked))
    drawn.append(fed.here(protocol.draw))
    with fed.setting_up():
        fed.sum(protocol.asked)
    drawn.append(fed.here(protocol.draw))
    fed.sum(protocol.asked)
    drawn.append(fed.here(protocol.draw))
    assert len(set(drawn)) == 4


def test_what_is_taken_back_is_taken_back_at_the_server_too() -> None:
    fed, protocol = chance()
    fed.here(protocol.draw)
    fed.exchange(fs.Sum(protocol.draw).with_server())
    fed.here(protocol.draw)
    assert fed.here(protocol.asked) == 3
    fed.take_back()
    assert fed.here(protocol.asked) == 1
    assert fed.gather(protocol.asked) == dict.fromkeys(fed.clients, 0)
