"""Γ from the ledger: hand counts, every algorithm, and what must not count."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.algorithms.fedavg import State
from fedsolve.complexity import Worth, oracle_complexity
from fedsolve.errors import ConfigError
from fedsolve.federation.server_data import counted_at_server
from fedsolve.federation.transports import InProcess
from fedsolve.local import GradientSteps
from fedsolve.runfiles import registry
from fedsolve.typing import Array
from fedsolve.wire.messages import Failure, Reply, Request
from tests.extras import optional
from tests.faults.faulty import FaultyRoad
from tests.faults.test_lost import Road

P, ROWS = 4, {"a": 30, "b": 12, "c": 1}
LOSS = fs.Logistic(l2=0.1)
OWN = 9


def client(name: str, rows: int, seed: int = 0, p: int = P) -> fs.Client:
    rng = np.random.default_rng([seed, rows])
    X = rng.random((rows, p)) - 0.3
    return fs.Client(name, X, (X.sum(axis=1) + 0.3 * rng.standard_normal(rows) > 0.4).astype(float))


def clients(rows: Mapping[str, int] = ROWS) -> list[fs.Client]:
    return [client(name, count) for name, count in rows.items()]


class Watched(InProcess):
    """Notes what each client counts, exchange by exchange: the ledger keeps only the sums."""

    def __init__(self, made: list[fs.Client]) -> None:
        super().__init__(made)
        self.seen: dict[tuple[int, int], dict[str, list[dict[str, int]]]] = {}

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        for name, answer in super().deliver(requests, deadline):
            if isinstance(answer, Reply):
                when = (answer.preamble.round, answer.preamble.exchange)
                self.seen.setdefault(when, {})[name] = answer.counts
            yield name, answer


def by_hand(run: fs.Run, watched: Watched, rows: Mapping[str, int], p: int, own: int = OWN) -> float:
    """Σ over exchanges of what the busiest client computed, client by client, and what the server did."""

    def worth(counts: Mapping[str, int], n: int) -> float:
        oracle = max(counts.get("gradients", 0), counts.get("losses", 0))  # it returns both
        return oracle + counts.get("products", 0) + counts.get("hessians", 0) * n * p

    total = 0.0
    for record in run.ledger.records:
        if "algorithm" in record.purposes:
            each = [
                sum(
                    worth(counts, rows[name])
                    for counts, purpose in zip(calls, record.purposes, strict=True)
                    if purpose == "algorithm"
                )
                for name, calls in watched.seen[record.round, record.exchange].items()
            ]
            total += max(each)
    return total + sum(worth(counted_at_server([one]), own) for one in run.ledger.server_counts)


# ── the paper's formula ──


@pytest.mark.parametrize(("phi", "total"), [(10, 2408), (0, 1008), (1, 1148), (1000, 141_008)])
def test_fedlrgd_costs_what_theorem_2_says(phi: float, total: int) -> None:
    """Γ = r² + rs + rS + φmr; by hand 49 + 700 + 259 + φ·140."""
    r, s, S, m = 7, 100, 37, 20
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(6)

    def draw(name: str, n: int) -> fs.Client:
        X = rng.random((n, 6))
        return fs.Client(name, X, X @ truth + 0.1 * rng.standard_normal(n))

    made = [draw(f"c{j:02}", s) for j in range(m)]
    run = fs.run(fs.FedLRGD.literal(fs.Squared(l2=0.1), S, rank=r), made, server=draw("server", r))
    found = fs.oracle_complexity(run, phi)
    assert found.total == r**2 + r * s + r * S + phi * m * r == total
    assert (found.gradients, found.epochs, found.communication) == (1008, r, phi * m * r)
    # (25): epoch 1 and epoch r + 2 at the server, epoch 2 of type A, r − 1 of type C
    assert found.time == pytest.approx(2 * r**2 + (2 * r * s + math.log(m) + phi * m) + (r - 1) * phi * m + 2 * r * S)
    assert fs.oracle_complexity(run.ledger, phi).total == total
    # One number more than p in the first epoch: the smoothness bound. By vectors it costs its share.
    assert fs.oracle_complexity(run, phi, sending="vectors").total == pytest.approx(total + phi * m / 6)


# ── every algorithm ──

OPTIONS: dict[str, dict[str, Any]] = {
    "FFGB": {"loss": fs.Logistic(), "learner": fs.RidgeLearner()},
    "DKRR": {"loss": fs.Squared(l2=0.1)},
    "SHEDLeastSquares": {"loss": fs.Squared(l2=0.1)},
    "FedAvg": {"local": GradientSteps(steps=3, step_size=0.1)},
}
OTHERS = {"FFGBDistill", "FedAvgDistill"}  # need networks: see the test below
LOCAL_FITS = {"FedDyn", "FedProx", "FedSplit"}  # take as many steps as they need, which the ledger's sums do not show
NAMES = sorted(set(registry.names("algorithm")) - OTHERS)


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_beside_a_count_client_by_client(name: str) -> None:
    algorithm = registry.find("algorithm", name)(**{"loss": LOSS, **OPTIONS.get(name, {})})
    watched = Watched(clients())
    server = client("own", OWN, 1) if name == "FedLRGD" else None
    run = fs.run(algorithm, watched, rounds=4, server=server)
    found = oracle_complexity(run, 7.0)
    expected = by_hand(run, watched, ROWS, P)
    if name in LOCAL_FITS:
        assert found.estimated
        assert found.gradients == pytest.approx(expected, rel=0.1)
    else:
        assert found.gradients == expected > 0
        assert not found.estimated
    assert found.uncounted == ()
    ours = run.ledger.total()
    assert found.epochs == ours.exchanges
    assert found.communication == 7.0 * 3 * ours.exchanges
    assert found.total == found.curve[-1]
    assert list(found.rounds[: run.rounds + 1]) == list(range(run.rounds + 1))
    assert (np.diff(found.curve) >= 0).all()
    assert [found.exchanges[row.round] for row in run.history] == [row.exchanges for row in run.history]
    assert (oracle_complexity(run, sending="vectors", parameters=P).sent >= found.sent).all()


LOCAL = {
    "steps": GradientSteps(steps=5, step_size=0.1, batch_size=1),
    "passes": GradientSteps(epochs=2, step_size=0.1, batch_size=1),
    "all rows": GradientSteps(steps=3, step_size=0.1),
}


@pytest.mark.parametrize(("kind", "each"), [("steps", 5), ("passes", 2 * 30), ("all rows", 3 * 30)])
def test_the_busiest_client_by_hand(kind: str, each: int) -> None:
    """Of 30, 12 and 1 rows. Some number of steps is the same for all, a pass over the data is not."""
    run = fs.run(fs.FedAvg(LOSS, local=LOCAL[kind]), clients(), rounds=3)
    found = oracle_complexity(run, 1.0)
    assert found.gradients == 3 * each
    assert found.total == 3 * (each + 3)
    assert list(found.curve) == [0, each + 3, 2 * (each + 3), 3 * (each + 3)]
    assert found.time == pytest.approx(3 * (2 * each + math.log(3) + 3))


SOME = fs.Participation(fraction=0.7)
DRAWN = {
    # 3 · 15 samples are one pass over 45 rows as well, and b · m a pass wherever b is the mean number of rows
    "as many as a pass": (fs.FedAvg(LOSS, local=GradientSteps(15, 0.1, batch_size=1)), None, 15),
    "by chance": (fs.FedAvg(LOSS, local=GradientSteps(15, 0.1, batch_size=1, batches="independent")), None, 15),
    "of some clients": (fs.FedAvg(LOSS, local=GradientSteps(15, 0.1, batch_size=1)), SOME, 15),
    "batches larger than a client": (fs.FedAvg(LOSS, local=GradientSteps(7, 0.1, batch_size=5)), None, 35),
    "with a pass": (fs.Scaffold(LOSS, local=GradientSteps(15, 0.01, batch_size=1), option="I"), None, 15 + 30),
    "passes alone": (fs.FedAvg(LOSS, local=GradientSteps(epochs=1, step_size=0.1, batch_size=1)), None, 30),
    "all rows": (fs.FedAvg(LOSS, local=GradientSteps(1, 0.1)), None, 30),
}


@pytest.mark.parametrize("case", sorted(DRAWN))
def test_steps_are_not_taken_for_passes(case: str) -> None:
    """Of 30, 12 and 3 rows. Three clients that take 15 samples each compute as much as a pass over all 45 rows, which
    would be 30 at the largest client."""
    algorithm, some, each = DRAWN[case]
    rows = {"a": 30, "b": 12, "c": 3}
    watched = Watched(clients(rows))
    run = fs.run(algorithm, watched, rounds=6, participation=some)
    found = oracle_complexity(run)
    assert found.gradients == by_hand(run, watched, rows, P) == 6 * each
    assert not found.estimated


def test_a_ledger_does_not_show_whether_an_amount_is_steps_or_passes() -> None:
    rows = {"a": 30, "b": 12, "c": 3}
    run = fs.run(fs.FedAvg(LOSS, local=GradientSteps(15, 0.1, batch_size=1)), clients(rows), rounds=2)
    assert oracle_complexity(run.ledger, samples=rows).estimated
    other = fs.run(fs.FedAvg(LOSS, local=GradientSteps(14, 0.1, batch_size=1)), clients(rows), rounds=2)
    found = oracle_complexity(other.ledger, samples=rows)
    assert (found.gradients, found.estimated) == (28, False)


def test_work_that_is_neither_steps_nor_passes_is_not_underestimated() -> None:
    """Batches of 8 where a client has 1 row: 16, 16 and 2 samples. The busiest did 16, which a ledger does not show."""
    watched = Watched(clients())
    run = fs.run(fs.FedAvg(LOSS, local=GradientSteps(steps=2, step_size=0.1, batch_size=8)), watched, rounds=2)
    assert oracle_complexity(run).gradients == by_hand(run, watched, ROWS, P) == 32
    found = oracle_complexity(run.ledger, samples=ROWS)
    assert found.estimated
    assert 32 <= found.gradients <= 2 * 34 * 30 / 43


# ── what does not count, and what counts once ──


def test_measuring_and_setting_up_do_not_count() -> None:
    algorithm = fs.AGD(LOSS)
    often, never = fs.run(algorithm, clients(), rounds=5), fs.run(algorithm, clients(), rounds=5, measure=0)
    assert often.ledger.total("measure").counts
    assert often.ledger.total("setup").exchanges > 0
    for sending in ("epochs", "vectors"):
        a, b = (oracle_complexity(run, 3.0, sending=sending) for run in (often, never))
        np.testing.assert_array_equal(a.curve, b.curve)
        np.testing.assert_array_equal(a.times, b.times)


def test_a_client_that_is_asked_counts_once_whether_or_not_it_answers() -> None:
    rows = {f"c{i}": 10 for i in range(8)}
    drops = fs.Participation(fraction=0.5, dropout=0.3, retries=1, quorum=0.1)
    local = GradientSteps(steps=3, step_size=0.1)
    run = fs.run(fs.FedAvg(LOSS, local=local), clients(rows), rounds=12, participation=drops, measure=0)
    ours = [one for one in run.ledger.records if "algorithm" in one.purposes]
    assert any(one.answered != one.asked for one in ours)
    assert any((one.tries > 1).any() for one in ours)
    found = oracle_complexity(run, 2.0)
    assert found.communication == 2.0 * 4 * len(ours)  # τ = 1/2 of 8
    assert found.gradients == 30 * len(ours)


def test_a_resumed_run_costs_what_it_would_have_cost(tmp_path: Path) -> None:
    def go(rounds: int, name: str, resume: bool = False) -> fs.Run:
        algorithm = fs.Newton(LOSS)
        return fs.run(algorithm, clients(), rounds=rounds, tolerance=0.0, checkpoint=tmp_path / name, resume=resume)

    whole = go(6, "whole")
    go(3, "parts")
    parts = go(6, "parts", resume=True)
    np.testing.assert_array_equal(oracle_complexity(whole).curve, oracle_complexity(parts).curve)


def test_a_client_that_is_lost_when_a_run_is_resumed_has_the_rows_of_the_others(tmp_path: Path) -> None:
    """Nobody is left who knows how many it has. 30, 12 and 6 rows: the client with 6 counts as 21."""
    rows = {"a": 30, "b": 12, "c": 6}
    options: dict[str, Any] = {
        "participation": fs.Participation(deadline=1.0, quorum=0.5),
        "tolerance": 0,
        "checkpoint": tmp_path / "run",
        "measure": 0,
    }
    fs.run(fs.Newton(LOSS), Road(clients(rows), {}), rounds=2, **options)
    resumed = fs.run(fs.Newton(LOSS), Road(clients(rows), {"c": range(1000)}), rounds=4, resume=True, **options)
    assert set(resumed.session.fed.info) == {"a", "b"}  # type: ignore[union-attr]
    found = oracle_complexity(resumed)
    assert found.estimated
    known = oracle_complexity(resumed, samples=rows)
    assert not known.estimated
    assert found.gradients == pytest.approx(known.gradients, rel=0.1)


def test_what_is_asked_again_is_not_computed_again(tmp_path: Path) -> None:
    clean, repeated = (
        fs.run(fs.Newton(LOSS), FaultyRoad(clients(), tmp_path / str(repeat), repeat=repeat), rounds=3)
        for repeat in (False, True)
    )
    np.testing.assert_array_equal(oracle_complexity(clean).curve, oracle_complexity(repeated).curve)


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_algorithms_that_distil(name: str) -> None:
    """Networks at the clients, and one at the server, which learns from rows of its own."""
    optional("torch")
    loss = fs.Network(fs.MLP((5,)), fs.Logistic())
    adam = fs.Adam(epochs=2, batch_size=8)
    algorithm: Any = fs.FFGBDistill(loss, 1.0, adam, fs.Distil("outputs", adam))
    if name == "FedAvgDistill":
        algorithm = fs.FedAvgDistill(loss, GradientSteps(epochs=2, step_size=0.1, batch_size=8), algorithm.distil)
    watched = Watched(clients())
    run = fs.run(algorithm, watched, rounds=2, server=fs.Client("own", client("own", OWN).X, None))
    found = oracle_complexity(run, 7.0)
    assert found.gradients == by_hand(run, watched, ROWS, P)
    assert found.gradients > counted_at_server(run.ledger.server_counts)["gradients"] > 0
    assert not found.estimated


def test_transports_cost_the_same() -> None:
    runs = [fs.run(fs.SHED(LOSS), clients(), rounds=4, transport=how) for how in ("in_process", "processes")]
    np.testing.assert_array_equal(*(oracle_complexity(run).curve for run in runs))


# ── what a computation is worth ──


@dataclass(frozen=True)
class Asks(fs.FedAvg):
    """A round that computes one thing of each kind."""

    @fs.client_step
    def hessian(self, client: fs.Client, w: Array) -> float:
        self.loss.hessian(client, w)
        return 0.0

    @fs.client_step
    def product(self, client: fs.Client, w: Array) -> float:
        self.loss.row_product(client, w, w)
        return 0.0

    @fs.client_step
    def value(self, client: fs.Client, w: Array) -> float:
        return self.loss.value(client, w)

    @fs.client_step
    def both(self, client: fs.Client, w: Array) -> float:
        self.loss.gradient(client, w)
        return self.loss.value(client, w)

    @fs.client_step
    def songs(self, client: fs.Client, w: Array) -> float:
        client.count("songs", 3)
        return 0.0

    def start(self, fed: fs.Federation) -> State:
        return State(np.zeros(P), 0.0)

    def round(self, fed: fs.Federation, state: State) -> State:
        for step in (self.hessian, self.product, self.value, self.both, self.songs):
            fed.mean(step, w=state.w)
        return state


@pytest.mark.parametrize(
    ("worth", "each"),
    [
        (Worth(), 4 + 1 + 1 + 1),  # a Hessian has 4 columns; the value beside a gradient is free
        (Worth(losses=0), 4 + 1 + 0 + 1),
        (Worth(losses=0.5, products=2, hessians=10), 10 + 2 + 0.5 + 1),
        (Worth(losses=0, products=0, hessians=0), 1),
    ],
)
def test_what_computations_are_worth_by_hand(worth: Worth, each: float) -> None:
    """At the busiest client, of 30 rows; in five exchanges with three clients."""
    run = fs.run(Asks(LOSS), clients(), rounds=1, measure=0)
    found = oracle_complexity(run, 2.0, worth=worth)
    assert found.gradients == 30 * each
    assert found.communication == 2 * 3 * 5
    assert found.uncounted == ("songs",)


@pytest.mark.parametrize(("loss", "columns", "weights"), [(fs.Softmax(l2=0.1, classes=3), 12, 12), (None, 4, 8)])
def test_columns_of_a_hessian_with_several_outputs(loss: Any, columns: int, weights: int) -> None:
    """Outputs of a squared loss share a Hessian of order p; that of softmax has order pk."""
    made = clients()
    if loss is None:
        loss = fs.Squared(l2=0.1)
        made = [fs.Client(one.name, one.X, np.stack([one.y, 1 - one.y], axis=1)) for one in made]
    watched = Watched(made)
    run = fs.run(fs.Newton(loss), watched, rounds=2)
    assert oracle_complexity(run).gradients == by_hand(run, watched, ROWS, columns)
    newton, vectors = oracle_complexity(run, 1.0), oracle_complexity(run, 1.0, sending="vectors")
    sent = sum(
        np.maximum(
            one.scalars_up[[i + 1 for i, p in enumerate(one.purposes) if p == "algorithm"]].sum(0) / weights, 1
        ).sum()
        for one in run.ledger.records
        if "algorithm" in one.purposes
    )
    assert vectors.communication == pytest.approx(sent)
    assert newton.communication < sent


# ── a ledger alone, and bad input ──


def test_a_ledger_or_a_copy_does_not_know_how_large_clients_are() -> None:
    run = fs.run(fs.AGD(LOSS), clients(), rounds=3)
    known = oracle_complexity(run)
    assert not known.estimated
    lost = copy.deepcopy(run)
    for source in (run.ledger, lost):
        assert oracle_complexity(source).estimated
        assert oracle_complexity(source).gradients == pytest.approx(known.gradients * (43 / 3) / 30)
        assert oracle_complexity(source, samples=ROWS).gradients == known.gradients
        assert not oracle_complexity(source, samples=ROWS).estimated


def test_another_phi_needs_no_second_count() -> None:
    run = fs.run(fs.GIANT(LOSS), clients(), rounds=3)
    for phi in (0, 1, 12.5, 1000):
        one, other = oracle_complexity(run, phi), oracle_complexity(run).at(phi)
        assert one.total == other.total
        assert one.time == other.time


def test_bad_input() -> None:
    run = fs.run(fs.Newton(LOSS), clients(), rounds=2)
    with pytest.raises(ConfigError, match="a run or its ledger, got a list"):
        oracle_complexity([])  # type: ignore[arg-type]
    for phi in (-1, math.nan, math.inf, True, "10"):
        with pytest.raises(ConfigError, match="phi is a finite number of at least 0"):
            oracle_complexity(run, phi)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="sending is 'epochs' or 'vectors'"):
        oracle_complexity(run, sending="bytes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="of how many rows is not known"):
        oracle_complexity(run.ledger)
    with pytest.raises(ConfigError, match="how many columns they have is not known"):
        oracle_complexity(run.ledger, samples=ROWS)
    with pytest.raises(ConfigError, match=r"vectors of how many numbers\?"):
        oracle_complexity(run.ledger, samples=ROWS, sending="vectors")
    with pytest.raises(ConfigError, match="samples lacks client 'b'"):
        oracle_complexity(run, samples={"a": 30})
    with pytest.raises(ConfigError, match="rows of 'a' is a whole number of at least 1"):
        oracle_complexity(run, samples={"a": 0})
    with pytest.raises(ConfigError, match="parameters is a whole number"):
        oracle_complexity(run, parameters=0)
    with pytest.raises(ConfigError, match="the worth of losses is a finite number"):
        Worth(losses=-1)
    with pytest.raises(ConfigError, match="round is a whole number of at least 0 and below 3"):
        oracle_complexity(run).after(3)
    assert oracle_complexity(run.ledger, samples=ROWS, parameters=P).total == oracle_complexity(run).total
