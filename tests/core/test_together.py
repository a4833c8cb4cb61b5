"""Marked steps run for many torch clients in one call: the same answers, the same ledger, and no silent wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError
from fedsolve.federation import stacked, together
from fedsolve.federation.calls import PerClient
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import is_client_step, runs_together
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array
from tests.algorithms.test_torch import DENSE, DEVICES, on
from tests.extras import optional
from tests.problems import PROBLEMS

torch = optional("torch")

EQUAL = 1e-8
STEP = "algorithm.local_update"


def federation(
    sizes: list[int], loss: LinearLoss | None = None, weights: bool = False, features: int = 4, library: Any = torch
) -> list[fs.Client]:
    """Clients with unequal numbers of samples."""
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(features)
    made = []
    for index, n in enumerate(sizes):
        X = rng.standard_normal((n, features))
        eta = X @ truth + 0.3
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        if isinstance(loss, fs.Squared):
            y = eta + rng.standard_normal(n)
        given = [X, y, rng.random(n) + 0.1 if weights else None]
        as_given = given if library is np else [None if one is None else torch.tensor(one) for one in given]
        made.append(fs.Client(f"c{index}", *as_given))
    return made


FIFTY = [5 + (7 * index) % 50 for index in range(50)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many clients each call of a stack served."""
    seen: list[int] = []
    call = stacked.Stack.call

    def counted(self: stacked.Stack, *arguments: Any) -> stacked.Replies:
        seen.append(len(self))
        return call(self, *arguments)

    monkeypatch.setattr(stacked.Stack, "call", counted)
    return seen


def both(algorithm: Any, clients: list[fs.Client], **arguments: Any) -> tuple[fs.Run, fs.Run, InProcess]:
    """One by one and together, with the second transport."""
    arguments = {"rounds": 6, "tolerance": 0.0, **arguments}
    alone = fs.run(algorithm, InProcess(clients), **arguments)
    transport = InProcess(clients, together=True)
    return alone, fs.run(algorithm, transport, **arguments), transport


def assert_same(alone: fs.Run, joint: fs.Run) -> None:
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=EQUAL, atol=EQUAL)
    assert joint.ledger.records == alone.ledger.records
    np.testing.assert_allclose(
        [row.value for row in joint.history], [row.value for row in alone.history], rtol=EQUAL, atol=EQUAL
    )


# ── the same answers ──


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    "local", [fs.GradientSteps(3), fs.GradientSteps(7, batch_size=4), fs.GradientSteps(3, batch_size=20)]
)
@pytest.mark.parametrize("loss", [fs.Squared(l2=1e-2, intercept="free"), fs.Logistic(l2=1e-2, intercept="penalised")])
def test_fifty_clients(loss: LinearLoss, local: fs.GradientSteps, weights: bool, calls: list[int]) -> None:
    alone, joint, transport = both(fs.FedAvg(loss, local), federation(FIFTY, loss, weights))
    assert_same(alone, joint)
    assert transport.one_by_one == {}
    assert max(calls) > 20


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    "local",
    [
        fs.Momentum(3, nesterov=True),
        fs.Momentum(5, step_size=0.05, batch_size=4, scale="client"),
        fs.Adam(5, step_size=0.01, batch_size=4),
        fs.GradientSteps(epochs=2, batch_size=4, scale="client"),
    ],
)
def test_other_local_solvers(local: fs.LocalSolver, weights: bool, calls: list[int]) -> None:
    loss = fs.Logistic(l2=1e-2, intercept="free")
    sizes = [10, 11, 12, 12] if local.epochs is None else [10, 10, 11, 11]  # an epoch's batches depend on the size
    alone, joint, transport = both(fs.FedAvg(loss, local), federation(sizes, loss, weights))
    assert_same(alone, joint)
    assert transport.one_by_one == {}
    assert calls


def test_fixed_batches_run_one_by_one_and_say_why() -> None:
    local = fs.GradientSteps(epochs=1, step_size=0.1, batch_size=4, batches="fixed")
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1), local), federation([10, 11, 12]))
    assert joint.model.w.tobytes() == alone.model.w.tobytes()
    assert transport.one_by_one == {STEP: "it takes fixed batches, which each client draws by its own seed"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", [*DENSE, "squared, free intercept | weighted"])
def test_every_loss(device: str, case: str, calls: list[int]) -> None:
    problem = PROBLEMS[case]
    algorithm = fs.FedAvg(problem.loss, fs.GradientSteps(3, step_size=0.01))
    alone, joint, transport = both(algorithm, on(device, problem))
    assert_same(alone, joint)
    assert calls
    assert STEP not in transport.one_by_one


def test_it_is_off_unless_asked_for(calls: list[int]) -> None:
    fs.run(fs.FedAvg(fs.Squared()), federation([5, 6, 7]), rounds=2)
    assert not calls


def test_preprocessed_inputs(calls: list[int]) -> None:
    clients = federation(FIFTY)
    preprocess = fs.data.Preprocess()
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), clients, preprocess=preprocess)
    assert_same(alone, joint)
    assert transport.one_by_one == {}
    # Other inputs in the next run of the same transport are stacked anew.
    again = fs.run(fs.FedAvg(fs.Logistic(l2=0.1)), transport, rounds=6, tolerance=0.0)
    plain = fs.run(fs.FedAvg(fs.Logistic(l2=0.1)), clients, rounds=6, tolerance=0.0)
    assert_same(plain, again)
    assert calls


def test_a_batch_larger_than_some_clients_splits_the_stack(calls: list[int]) -> None:
    clients = federation([4, 5, 6, 30, 31, 32])
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1), fs.GradientSteps(3, batch_size=10)), clients)
    assert_same(alone, joint)
    assert transport.one_by_one == {}
    assert 3 in calls


def test_one_client_of_float32() -> None:
    clients = federation([10, 11, 12, 13])
    odd = clients[2]
    clients[2] = fs.Client("odd", odd.X.to(torch.float32), odd.y.to(torch.float32))
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), clients)
    assert_same(alone, joint)
    assert transport.one_by_one == {}  # clients compute in float64 whatever they were given


def test_numpy_and_torch_clients(calls: list[int]) -> None:
    sizes = [10, 11, 12, 13, 14]
    mixed = [
        a if i % 2 else b for i, (a, b) in enumerate(zip(federation(sizes), federation(sizes, library=np), strict=True))
    ]
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), mixed)
    assert_same(alone, joint)
    assert list(transport.one_by_one) == ["client 'c0'", "client 'c2'", "client 'c4'"]
    assert set(calls) == {2}


def test_limited_links_and_other_widths_of_weights() -> None:
    clients = federation([10, 11, 12, 13, 14, 15])
    limited = fs.Client("limited", clients[0].X, clients[0].y, link=fs.Link(bytes_per_round=10_000))
    weighted = fs.Client("weighted", clients[1].X, clients[1].y, torch.ones(11) * 0.5)
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), [limited, weighted, *clients[2:]])
    assert_same(alone, joint)
    assert list(transport.one_by_one) == ["client 'limited'", "client 'weighted'"]


@pytest.mark.parametrize(
    "participation",
    [
        fs.Participation(fraction=0.4),
        fs.Participation(dropout=0.3, quorum=0.1),
        fs.Participation(dropout=0.3, retries=2, quorum=0.1),
    ],
)
def test_some_of_the_clients(participation: fs.Participation, calls: list[int]) -> None:
    algorithm = fs.FedAvg(fs.Logistic(l2=0.1), fs.GradientSteps(3, batch_size=4))
    alone, joint, transport = both(algorithm, federation(FIFTY), participation=participation)
    assert_same(alone, joint)
    assert transport.one_by_one == {}
    assert calls


def test_bounded_memory(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    clients = federation(FIFTY)
    monkeypatch.setattr(together, "MOST_OF_STACK", 600)
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), clients)
    assert_same(alone, joint)
    assert max(calls) < 20
    monkeypatch.setattr(together, "MOST_OF_ALL", 2000)
    assert_same(*both(fs.FedAvg(fs.Logistic(l2=0.1)), clients)[:2])
    monkeypatch.setattr(together, "MOST_ON_CPU", 4 * 20)
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1)), clients)
    assert_same(alone, joint)
    large = [client.name for client in clients if client.n_samples > 20]
    assert all("large" in transport.one_by_one[f"client {name!r}"] for name in large)


def test_padding_is_bounded() -> None:
    clients = federation([2] * 30 + [200])
    stacks = [*together.Together(_runtimes(clients))._arranged()]
    assert [len(stack) for stack in stacks] == [30]


def _runtimes(clients: list[fs.Client]) -> Any:
    transport = InProcess(clients)
    transport.open({})
    return transport._runtimes


# ── checkpoints and other transports ──


def test_a_run_resumes_to_the_bit(tmp_path: Path) -> None:
    algorithm = fs.FedAvg(fs.Logistic(l2=0.1), fs.GradientSteps(3, batch_size=4))
    clients = federation(FIFTY)
    whole = fs.run(algorithm, InProcess(clients, together=True), rounds=8, tolerance=0.0)
    file = tmp_path / "run.ckpt"
    fs.run(algorithm, InProcess(clients, together=True), rounds=4, tolerance=0.0, checkpoint=file)
    rest = fs.run(algorithm, InProcess(clients, together=True), rounds=8, tolerance=0.0, checkpoint=file, resume=True)
    np.testing.assert_array_equal(rest.model.w, whole.model.w)
    # The checkpoint is the same thing, whoever wrote it.
    other = tmp_path / "other.ckpt"
    fs.run(algorithm, clients, rounds=4, tolerance=0.0, checkpoint=other)
    rest = fs.run(algorithm, InProcess(clients, together=True), rounds=8, tolerance=0.0, checkpoint=other, resume=True)
    np.testing.assert_allclose(rest.model.w, whole.model.w, rtol=EQUAL)


def test_processes_give_what_one_by_one_gives() -> None:
    torch.set_num_threads(1)  # a child of a process whose threads have run cannot use them
    algorithm = fs.FedAvg(fs.Logistic(l2=0.1), fs.GradientSteps(3, batch_size=4))
    clients = federation([5, 9, 14, 6])
    alone, joint, _ = both(algorithm, clients)
    apart = fs.run(algorithm, Processes(clients, workers=2, start="fork"), rounds=6, tolerance=0.0)
    np.testing.assert_array_equal(apart.model.w, alone.model.w)
    assert apart.ledger.records == alone.ledger.records == joint.ledger.records


# ── steps that are not what their mark says ──


@dataclass(frozen=True)
class Marked:
    """Steps that may not run together, though they say so, and some that may."""

    loss: LinearLoss = field(default_factory=lambda: fs.Logistic(l2=0.1))

    @client_step(together=True)
    def gradient(self, client: Client, w: Array) -> Array:
        return self.loss.gradient(client, w)

    @client_step(together=True)
    def takes_a_number(self, client: Client, w: Array) -> Array:
        return w * float(client.xp.sum(client.y))

    @client_step(together=True)
    def branches(self, client: Client, w: Array) -> Array:
        return w if client.xp.any(client.y > 0.5) else -w

    @client_step(together=True)
    def forgets_the_weights(self, client: Client, w: Array) -> Array:
        return w + client.xp.mean(client.y)

    @client_step(together=True)
    def tosses(self, client: Client, w: Array) -> Array:
        return w * float(client.rng.random())

    @client_step(together=True)
    def counts_once(self, client: Client, w: Array) -> Array:
        def compute() -> Array:
            client.count("hessians", 1)
            return client.xp.sum(client.y)

        return w * client.cached("sum", compute)

    @client_step(together=True)
    def counts_rows(self, client: Client, w: Array) -> Array:
        client.count("gradients", client.y.shape[0])
        return self.loss.gradient(client, w)

    @client_step(together=True)
    def names(self, client: Client, w: Array) -> tuple[str, Array]:
        return client.name, w

    @client_step(together=True)
    def as_many(self, client: Client, w: Array) -> Array:
        return client.xp.ones(len(range(client.n_samples)), dtype=w.dtype)

    @client_step(together=True)
    def nothing(self, client: Client, w: Array) -> float:
        return 1.0

    @client_step(together=True)
    def numbers(self, client: Client, w: Array) -> tuple[float, dict[str, Array], list[int], None]:
        s = client.sample_weight
        total = client.xp.sum(client.y if s is None else s * client.y)
        return client.number(total) / client.weight, {"w": w + total}, [2], None

    @client_step(together=True)
    def draws(self, client: Client, w: Array) -> Array:
        return w + client.xp.mean(client.xp.asarray(client.draw(lambda rng, n: rng.random(n)[:3])))

    @client_step(together=True)
    def rejects(self, client: Client, w: Array) -> Array:
        self.loss.check_weights(client, w=w)
        return w + client.weight

    @client_step
    def unmarked(self, client: Client, w: Array) -> Array:
        return self.loss.gradient(client, w)


MARKED = Marked()


def opened(transport: InProcess) -> Federation:
    protocols = {"algorithm": MARKED}
    transport.open(protocols)
    fed = Federation(transport, protocols, seed=5)
    fed.join()
    fed.begin_round(1)
    return fed


def asked(
    step: Callable[..., Any], clients: list[fs.Client], w: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Two exchanges, one by one and together: the last replies of both, and what was not run together."""
    found = []
    for joint in (False, True):
        transport = InProcess(clients, together=joint)
        fed = opened(transport)
        fed.gather(step, w=w)
        found.append((fed.gather(step, w=w), fed.ledger))
    assert found[0][1].records == found[1][1].records
    return found[0][0], found[1][0], transport.one_by_one


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (MARKED.takes_a_number, "item"),
        (MARKED.branches, "data-dependent control flow"),
        (MARKED.forgets_the_weights, "answers otherwise"),
        (MARKED.tosses, "client.rng"),
        (MARKED.counts_once, "hessians"),
        (MARKED.counts_rows, "counts"),
        (MARKED.names, "name"),
        (MARKED.nothing, "no arrays"),
    ],
)
def test_steps_that_cannot_run_together_say_so(step: Any, reason: str) -> None:
    alone, joint, why = asked(step, federation([9, 10, 11, 12]), np.ones(4))
    for name, reply in alone.items():
        np.testing.assert_equal(joint[name], reply)  # to the bit
    assert list(why) == [f"algorithm.{step.__name__}"]
    assert reason in why[f"algorithm.{step.__name__}"]


@pytest.mark.parametrize("step", [MARKED.gradient, MARKED.numbers, MARKED.draws, MARKED.rejects])
@pytest.mark.parametrize("weights", [False, True])
def test_steps_that_can(step: Any, weights: bool, calls: list[int]) -> None:
    alone, joint, why = asked(step, federation([9, 10, 11, 12], weights=weights), np.ones(4))
    assert why == {}
    assert calls == [4, 4]
    for name, reply in alone.items():
        assert type(joint[name]) is type(reply)
        _assert_close(joint[name], reply)


def _assert_close(a: Any, b: Any) -> None:
    if isinstance(a, tuple | list):
        for x, y in zip(a, b, strict=True):
            assert type(x) is type(y)
            _assert_close(x, y)
    elif isinstance(a, dict):
        _assert_close([*a.values()], [*b.values()])
    elif a is not None:
        np.testing.assert_allclose(a, b, rtol=EQUAL)


def test_clients_of_equal_size_go_on_together_where_sizes_matter(calls: list[int]) -> None:
    alone, joint, why = asked(MARKED.as_many, federation([9, 9, 12, 12, 12, 15]), np.ones(4))
    for name, reply in alone.items():
        np.testing.assert_array_equal(joint[name], reply)
    assert list(why) == ["client 'c5'"]
    assert calls == [6, 2, 3, 2, 3]


def test_a_feature_map_runs_one_by_one() -> None:
    loss = fs.Logistic(l2=0.1, features=fs.RandomFourier(8, gamma=0.5))
    alone, joint, transport = both(fs.FedAvg(loss), federation([9, 10, 11]))
    assert_same(alone, joint)
    assert "features" in transport.one_by_one[STEP]


def test_unmarked_steps_are_left_alone(calls: list[int]) -> None:
    _, _, why = asked(MARKED.unmarked, federation([9, 10, 11]), np.ones(4))
    assert why == {}
    assert not calls


def test_calls_after_one_that_is_not_marked_wait_for_their_turn(calls: list[int]) -> None:
    fed = opened(InProcess(federation([9, 10, 11]), together=True))
    w = np.ones(4)
    fed.exchange(fs.Gather(MARKED.unmarked, w=w), fs.Gather(MARKED.gradient, w=w))
    assert not calls
    fed.exchange(fs.Gather(MARKED.gradient, w=w), fs.Gather(MARKED.unmarked, w=w), fs.Gather(MARKED.gradient, w=w))
    assert calls == [3]


def test_arguments_that_differ_by_client(calls: list[int]) -> None:
    clients = federation([9, 10, 11])
    each = PerClient({client.name: index * np.ones(4) for index, client in enumerate(clients)})
    replies = [opened(InProcess(clients, together=on)).gather(MARKED.gradient, w=each) for on in (False, True)]
    np.testing.assert_equal(*replies)
    assert not calls


# ── failures ──


def test_a_client_whose_reply_is_not_finite_is_asked_by_itself(calls: list[int]) -> None:
    clients = federation([9, 10, 11, 12], fs.Squared())
    clients[2] = fs.Client("far", clients[2].X * 1e200, clients[2].y * 1e200)
    marked = Marked(fs.Squared())
    replies = []
    for joint in (False, True):
        transport = InProcess(clients, together=joint)
        transport.open({"algorithm": marked})
        fed = Federation(transport, {"algorithm": marked})
        fed.join()
        fed.begin_round(1)
        replies.append(fed.gather(marked.gradient, w=np.full(4, 1e200)))
    assert calls == [4]
    np.testing.assert_array_equal(replies[0]["far"], replies[1]["far"])
    assert not np.isfinite(replies[1]["far"]).all()
    for name in ("c0", "c1", "c3"):
        np.testing.assert_allclose(replies[1][name], replies[0][name], rtol=EQUAL)


def test_replies_of_which_none_is_finite(calls: list[int]) -> None:
    transport = InProcess(federation([9, 10, 11]), together=True)
    fed = opened(transport)
    assert np.isnan(fed.mean(MARKED.gradient, w=np.full(4, np.nan))).all()
    assert np.isfinite(fed.mean(MARKED.gradient, w=np.ones(4))).all()
    assert calls == [3, 3]
    assert transport.one_by_one == {}


def test_an_error_names_the_client_it_names_one_by_one() -> None:
    clients = federation([9, 10, 11])
    messages = []
    for joint in (False, True):
        with pytest.raises(ClientError) as caught:
            opened(InProcess(clients, together=joint)).gather(MARKED.rejects, w=np.ones(5))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "c0" in messages[0]


def test_an_error_of_the_library_does_not_last(calls: list[int]) -> None:
    transport = InProcess(federation([9, 10, 11]), together=True)
    fed = opened(transport)
    with pytest.raises(ClientError):
        fed.gather(MARKED.rejects, w=np.ones(5))
    fed.gather(MARKED.rejects, w=np.ones(4))
    assert calls == [3, 3]
    assert transport.one_by_one == {}


def test_an_argument_of_the_wrong_type_is_rejected() -> None:
    messages = []
    for joint in (False, True):
        with pytest.raises(ClientError) as caught:
            opened(InProcess(federation([9, 10]), together=joint)).gather(MARKED.gradient, w="w")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# ── small parts ──


def test_marks() -> None:
    @client_step
    def bare(self: Any, client: Client) -> float:
        return 0.0

    @client_step()
    def called(self: Any, client: Client) -> float:
        return 0.0

    assert is_client_step(bare)
    assert is_client_step(called)
    assert not runs_together(bare)
    assert not runs_together(called)
    assert runs_together(fs.FedAvg.local_update)


def test_sizes() -> None:
    sizes = stacked.Sizes([3, 5])
    assert (2 * sizes + 1).values == (7, 11)
    assert (sizes + sizes).values == (6, 10)
    assert sizes > 2
    assert not sizes <= 2
    assert sizes
    assert sizes != "3"
    for question in (
        lambda: sizes > 3,
        lambda: sizes <= 4,
        lambda: sizes == 3,
        lambda: range(sizes),
        lambda: float(sizes),
    ):
        with pytest.raises(stacked.Split) as caught:
            question()
        assert caught.value.answers[0] != caught.value.answers[1]
