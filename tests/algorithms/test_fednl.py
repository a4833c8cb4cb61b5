"""FedNL against its pseudo-code in plain NumPy, its bytes against a count by hand, and what losses must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.transports import InProcess
from fedsolve.reproduce.iterates import iterates
from tests.faults.faulty import FaultyRoad, until_done
from tests.problems import PROBLEMS, Problem

L2 = 1e-2
Compress = Callable[[np.ndarray], np.ndarray]
Parts = list[tuple[np.ndarray, np.ndarray]]


# ── the pseudo-code ──


def top(k: int) -> Compress:
    def compress(A: np.ndarray) -> np.ndarray:
        rows, columns = np.triu_indices(len(A))
        order = np.argsort(-np.abs(A[rows, columns]), kind="stable")[:k]
        i, j = rows[order], columns[order]
        S = np.zeros_like(A)
        S[i, j] = S[j, i] = A[i, j]
        return S

    return compress


def rank(r: int) -> Compress:
    def compress(A: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(A)
        order = np.argsort(-np.abs(values))[:r]
        return (vectors[:, order] * values[order]) @ vectors[:, order].T

    return compress


def spectral(A: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvalsh(A)).max())


def fednl(
    parts: list[tuple[np.ndarray, np.ndarray]],
    C: Compress,
    option: int,
    norm: Callable[[np.ndarray], float],
    zero: bool,
) -> Iterator[np.ndarray]:
    """Safaryan et al. 2021, Algorithm 1, for logistic regression; all matrices dense, the penalty in each of them."""
    n, total = parts[0][0].shape[1], sum(len(y) for _, y in parts)
    share = [len(y) / total for _, y in parts]
    x = np.zeros(n)

    def hessian(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-X @ x))
        return (X.T * (p * (1 - p))) @ X / len(y) + L2 * np.eye(n)

    def gradient(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return X.T @ (1 / (1 + np.exp(-X @ x)) - y) / len(y) + L2 * x

    H = [L2 * np.eye(n) if zero else hessian(X, y) for X, y in parts]
    while True:
        yield x
        g = sum(s * gradient(X, y) for s, (X, y) in zip(share, parts, strict=True))
        D = [hessian(X, y) - H_i for (X, y), H_i in zip(parts, H, strict=True)]
        mean = sum(s * H_i for s, H_i in zip(share, H, strict=True))
        if option == 2:
            B = mean + sum(s * norm(D_i) for s, D_i in zip(share, D, strict=True)) * np.eye(n)
        else:
            values, vectors = np.linalg.eigh(mean)
            B = (vectors * np.maximum(values, L2)) @ vectors.T
        x = x - np.linalg.solve(B, g)
        H = [H_i + C(D_i) for H_i, D_i in zip(H, D, strict=True)]


def data(p: int = 7, seed: int = 0, sparse: bool = False) -> Parts:
    rng = np.random.default_rng(seed)
    parts = []
    for n in (40, 15, 70, 5):
        X = rng.standard_normal((n, p)) * np.linspace(1.5, 0.5, p) + 0.3 * rng.standard_normal(p)
        if sparse:
            X[rng.random(X.shape) < 0.6] = 0.0
        parts.append((X, (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)))
    return parts


def as_clients(parts: Parts, sparse: bool = False) -> list[fs.Client]:
    return [fs.Client(f"c{j}", sp.csr_array(X) if sparse else X, y) for j, (X, y) in enumerate(parts)]


CASES = {
    "top-k": (fs.TopKPairs(1), top(7), {}),
    "top-2k": (fs.TopKPairs(2), top(14), {}),
    "rank-1": (fs.RankR(1), rank(1), {}),
    "rank-3": (fs.RankR(3), rank(3), {}),
    "Frobenius": (fs.TopKPairs(1), top(7), {"shift": "frobenius"}),
    "option 1": (fs.TopKPairs(2), top(14), {"option": 1}),
    "option 1, rank-1": (fs.RankR(1), rank(1), {"option": 1}),
    "from zero": (fs.TopKPairs(1), top(7), {"initial": "zero"}),
    "from zero, rank-1": (fs.RankR(1), rank(1), {"initial": "zero"}),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_iterates_are_those_of_the_pseudo_code(case: str, sparse: bool) -> None:
    compressor, C, fields = CASES[case]
    parts = data(sparse=sparse)
    algorithm = fs.FedNL(fs.Logistic(l2=L2), compressor, search=None, **fields)
    norm = np.linalg.norm if fields.get("shift") == "frobenius" else spectral
    theirs = fednl(parts, C, fields.get("option", 2), norm, fields.get("initial") == "zero")
    ours = iterates(algorithm, as_clients(parts, sparse))
    for count, (iterate, x) in enumerate(islice(zip(ours, theirs, strict=False), 13)):
        np.testing.assert_allclose(iterate.state.w, x, rtol=1e-9, atol=1e-11, err_msg=f"iterate {count}")
    assert np.linalg.norm(iterate.state.gradient) < 1e-3 * np.linalg.norm(parts[0][0].sum(axis=0))


@pytest.mark.parametrize("order_of_update", ["before the step", "after the step"])
def test_the_step_uses_h_of_before_the_corrections(order_of_update: str) -> None:
    """The other reading gives other iterates from the second step on: this is the one that is pinned."""
    algorithm = fs.FedNL(fs.Logistic(l2=L2), fs.TopKPairs(1))
    states = [one.state for one in islice(iterates(algorithm, as_clients(data())), 4)]
    for state, following in pairwise(states[1:]):
        H = state.hessian if order_of_update == "after the step" else state.learned
        B = H.full() + (L2 + state.shift) * np.eye(7)
        there = state.w - np.linalg.solve(B, state.gradient)
        assert np.allclose(following.w, there, rtol=1e-10) == (order_of_update == "after the step")


def test_with_many_features_the_shift_is_the_mean_spectral_norm_and_little_more() -> None:
    """Above order 32 the norm is proved from above by a few products, not computed."""
    p, loss = 60, fs.Logistic(l2=L2)
    parts = data(p)
    clients = as_clients(parts)
    run = islice(iterates(fs.FedNL(loss, fs.TopKPairs(1), search=None), clients), 6)
    H = [loss.hessian(client, np.zeros(p)).full() for client in clients]
    for one in run:
        state, D = one.state, [loss.hessian(c, one.state.w).full() - H_i for c, H_i in zip(clients, H, strict=True)]
        exact = sum(c.weight * spectral(D_i) for c, D_i in zip(clients, D, strict=True)) / 130
        assert exact * (1 - 1e-12) <= state.shift <= max(1.05 * exact, exact + 0.05 * L2) + 1e-12
        H = [H_i + top(p)(D_i) for H_i, D_i in zip(H, D, strict=True)] if one.round else H
    assert one.round == 5
    assert exact > 0


# ── what is sent ──


def padded(size: int) -> int:
    return -(-size // 8) * 8


# A part has 16 bytes before its header, which is msgpack: 1 for a list's head or a small number, 9 for a float, 4 for
# an array [3, type, length], 1 + n for a name of n letters.
FLOAT, VECTOR, NAME = 9, 4, 1
BEGUN = 2 + FLOAT + VECTOR + (2 + NAME + 9 + 1 + VECTOR)  # (value, gradient, Symmetric(n, packed))
TOP = 2 + FLOAT + VECTOR + FLOAT + (2 + NAME + 4 + 3 + VECTOR + VECTOR)  # (…, l, TopK((size,), indices, values))
LOW = 2 + FLOAT + VECTOR + FLOAT + (2 + NAME + 7 + 1 + VECTOR + VECTOR)  # (…, l, LowRank(vectors, values))


@pytest.mark.parametrize(
    ("compressor", "body", "numbers"),
    [
        (fs.TopKPairs(1), 16 + padded(TOP) + padded(7 * 4) + 7 * 8, 2 * 7),
        (fs.RandomKPairs(1), 16 + padded(TOP) + padded(7 * 4) + 7 * 8, 2 * 7),
        (fs.RankR(2), 16 + padded(LOW) + 7 * 2 * 8 + 2 * 8, 7 * 2 + 2),
    ],
)
def test_bytes_up_are_those_counted_by_hand(compressor: object, body: int, numbers: int) -> None:
    run = fs.run(fs.FedNL(fs.Logistic(l2=L2), compressor, search=None), as_clients(data()), rounds=3, tolerance=0)
    records = [record for record in run.ledger.records if record.purposes == ("algorithm",)]
    assert [record.calls for record in records] == [("algorithm.begin",)] + 3 * [("algorithm.evaluate",)]
    start, *rounds = (record.bytes_up[1] for record in records)  # the row before it has the envelopes
    assert start.tolist() == [16 + padded(BEGUN) + 7 * 8 + 28 * 8] * 4  # the initial Hessians are counted
    for sent in rounds:
        assert sent.tolist() == [body + 7 * 8] * 4
    assert run.history[-1].scalars_up == 4 * (1 + 7 + 28) + 3 * 4 * (1 + 7 + 1 + numbers)
    assert run.history[-1].scalars_down == 4 * 4 * 7
    assert run.ledger.total().counts["hessians"] == 4 * 4


def test_a_start_from_zero_sends_no_hessian() -> None:
    algorithm = fs.FedNL(fs.Logistic(l2=L2), fs.TopKPairs(1), initial="zero")
    run = fs.run(algorithm, as_clients(data()), rounds=0)
    assert run.history[-1].scalars_up == 4 * (1 + 7 + 1 + 2 * 7)


# ── exactness beyond the matrix of all algorithms ──


@pytest.mark.parametrize("compressor", [fs.RankR(1), fs.RandomKPairs(1), fs.TopKPairs(1)], ids=repr)
@pytest.mark.parametrize("fields", [{"initial": "zero"}, {"option": 1}, {"shift": "frobenius"}], ids=repr)
@pytest.mark.parametrize(
    "name",
    [
        "logistic, free intercept | one class at a client",
        "softmax, free intercept | weighted",
        "poisson, free intercept | label-skewed",
        "squared, two outputs | unbalanced",
    ],
)
def test_every_variant_reaches_the_pooled_solution(name: str, fields: dict[str, object], compressor: object) -> None:
    problem = PROBLEMS[name]
    run = fs.run(fs.FedNL(problem.loss, compressor, **fields), problem.clients(), rounds=150, tolerance=1e-12)
    assert run.converged, run.message
    assert problem.distance(run.model.w) <= 1e-8


def test_nothing_is_learned_at_a_point_that_is_refused() -> None:
    """From far away Newton's steps overshoot; the search refuses them, and H stays the sum of the H_i."""
    problem = PROBLEMS["poisson, free intercept | label-skewed"]
    algorithm = fs.FedNL(problem.loss, fs.RankR(1), option=1)
    run = fs.run(algorithm, problem.clients(), rounds=150, tolerance=1e-12)
    assert any(record.calls == ("algorithm.search.losses_along",) for record in run.ledger.records)
    assert problem.distance(run.model.w) <= 1e-8
    fed, clients = federation(algorithm, problem.clients())
    refused, state = 0, algorithm.start(fed)
    for round in range(1, 12):
        fed.begin_round(round)
        before = len(fed.ledger.records)
        state = algorithm.round(fed, state)
        refused += len(fed.ledger.records) - before > 1
        np.testing.assert_allclose(state.learned.packed(), remembered(fed, clients), rtol=1e-9, atol=1e-9)
    assert refused >= 1


def test_option_1_with_whole_steps_may_diverge_and_says_so() -> None:
    problem = PROBLEMS["poisson | balanced"]
    run = fs.run(fs.FedNL(problem.loss, fs.RankR(1), option=1, search=None), problem.clients(), rounds=50)
    assert run.status == "diverged"
    assert not run.converged
    assert "the value is" in run.message
    safe = fs.run(fs.FedNL(problem.loss, fs.RankR(1)), problem.clients(), rounds=50)
    assert safe.converged


@dataclass(frozen=True)
class Broken(fs.Logistic):
    """A loss that is a number at w = 0 only."""

    def pointwise(self, xp: Any, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return super().pointwise(xp, eta, y) * (np.nan if eta.any() else 1.0)

    def curvature(self, xp: Any, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return super().curvature(xp, eta, y) * (np.nan if eta.any() else 1.0)


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("p", [7, 40])
@pytest.mark.parametrize("compressor", [fs.TopKPairs(1), fs.RankR(1), fs.RandomKPairs(1)], ids=repr)
def test_what_is_not_a_number_is_never_returned_as_a_result(compressor: object, option: Any, p: int) -> None:
    whole = fs.FedNL(Broken(l2=L2), compressor, option=option, search=None)
    run = fs.run(whole, as_clients(data(p)), rounds=5)
    assert run.status == "diverged"
    assert "nan" in run.message
    searched = fs.run(replace(whole, search=fs.Armijo()), as_clients(data(p)), rounds=3)  # refuses all of it, and stays
    assert searched.status == "tolerance unattainable"
    assert not searched.model.w.any()
    assert np.isfinite(searched.state.learned.packed()).all()


def test_option_1_needs_a_penalty() -> None:
    with pytest.raises(ConfigError, match="l2"):
        fs.FedNL(fs.Logistic(), option=1)


def test_without_penalty_the_shift_makes_it_definite() -> None:
    """A free intercept and fewer samples than features at some clients: no local Hessian is definite."""
    problem = PROBLEMS["poisson | offsets"]
    assert problem.loss.l2 == 0
    run = fs.run(fs.FedNL(problem.loss, fs.TopKPairs(1)), problem.clients(), rounds=60, tolerance=1e-12)
    assert run.converged
    assert problem.distance(run.model.w) <= 1e-8


def test_a_singular_problem_gets_to_a_minimum() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X = np.hstack([X, X[:, :1]])  # a column twice: the minimum is a line
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(float)
    clients = fs.data.partition(X, y, clients=3)
    run = fs.run(fs.FedNL(fs.Logistic(), fs.TopKPairs(1)), clients, rounds=100, tolerance=1e-10)
    assert run.converged
    newton = fs.run(fs.Newton(fs.Logistic()), clients, tolerance=1e-10)
    assert run.history[-1].value == pytest.approx(newton.history[-1].value, rel=1e-12)


# ── who answers ──


def many(problem: Problem) -> list[fs.Client]:
    """The problem among more clients: a cohort that shrinks with every exchange of a round must not shrink to none."""
    return fs.data.partition(problem.X, problem.y, fs.data.QuantitySkew(1.0), clients=12, seed=2)


def federation(algorithm: fs.FedNL, clients: list[fs.Client], **policy: object) -> tuple[Federation, InProcess]:
    transport = InProcess(clients)
    protocols = dict(collect("algorithm", algorithm))
    transport.open(protocols)
    fed = Federation(transport, protocols, seed=3, participation=fs.Participation(**policy))
    fed.join()
    fed.begin_round(0)
    return fed, transport


def remembered(fed: Federation, transport: InProcess) -> np.ndarray:
    """Σ p_i H_i over all clients, as each remembers it after the reply that the server used last."""
    loss, used, total = (
        fed.protocols["algorithm"].loss,
        fed.position().used,
        sum(client.weight for client in transport.clients.values()),
    )
    H: object = 0.0
    for name, versions in transport.memories().items():
        client = transport.clients[name]
        kept = versions[used[name]].get("algorithm:H")
        if kept is not None:
            support = fed.protocols["algorithm"]._hessian(client, loss.zero(client)).support
            packed = np.zeros(support.n * (support.n + 1) // 2)
            packed[support.places] = kept
            H = H + client.weight / total * packed
    return np.asarray(H)


@pytest.mark.parametrize("compressor", [fs.TopKPairs(1), fs.RankR(1)], ids=repr)
@pytest.mark.parametrize("initial", ["hessian", "zero"])
def test_h_stays_the_sum_of_all_h_i_whoever_answers(compressor: object, initial: str) -> None:
    problem = PROBLEMS["logistic | unbalanced"]
    algorithm = fs.FedNL(problem.loss, compressor, initial=initial)
    fed, transport = federation(algorithm, many(problem), dropout=0.15)
    state = algorithm.start(fed)
    assert len(state.cohort) < 12  # someone begins late
    seen = {state.cohort}
    for round in range(1, 20):
        np.testing.assert_allclose(state.learned.packed(), remembered(fed, transport), rtol=1e-10, atol=1e-12)
        fed.begin_round(round)
        state = algorithm.round(fed, state)
        seen.add(state.cohort)
    assert len(seen) > 3


@pytest.mark.parametrize("compressor", [fs.TopKPairs(1), fs.RandomKPairs(1), fs.RankR(1)], ids=repr)
def test_a_client_that_missed_the_start_sends_all_of_its_hessian_when_it_comes(compressor: object) -> None:
    late, clients = {(0, 0): ("c0", "c1", "c2")}, as_clients(data())
    algorithm = fs.FedNL(fs.Logistic(l2=L2), compressor)
    run = fs.run(algorithm, clients, rounds=1, tolerance=0, participation=fs.Replay(cohorts=late))
    first = next(record for record in run.ledger.records if record.round == 1)
    *others, comes = first.scalars_up[1].tolist()
    whole = 7 * 7 + 7 if isinstance(compressor, fs.RankR) else 2 * 28
    assert comes == 1 + 7 + 1 + whole
    assert max(others) < comes
    zero = fs.run(replace(algorithm, initial="zero"), clients, rounds=1, participation=fs.Replay(cohorts=late))
    assert len(set(next(r for r in zero.ledger.records if r.round == 1).scalars_up[1].tolist())) == 1


def test_after_losses_it_converges_to_the_pooled_solution() -> None:
    """Ten rounds in which replies are lost, the first exchange among them; then all answer."""
    problem = PROBLEMS["logistic, free intercept | unbalanced"]
    algorithm = fs.FedNL(problem.loss, fs.TopKPairs(1))
    lossy = fs.run(algorithm, problem.clients(), rounds=10, participation=fs.Participation(dropout=0.4), seed=6)
    cohorts = lossy.ledger.cohorts()
    assert len(cohorts[0, 0]) < 4
    assert len(set(cohorts.values())) > 3
    run = fs.run(algorithm, problem.clients(), rounds=60, tolerance=1e-12, participation=fs.Replay(cohorts=cohorts))
    assert run.converged, run.message
    assert problem.distance(run.model.w) <= 1e-8


@pytest.mark.parametrize("compressor", [fs.TopKPairs(1), fs.RandomKPairs(1)], ids=repr)
def test_it_survives_everything_at_once(tmp_path: Path, compressor: object) -> None:
    """Replies lost, late and twice, a client restarted, the server killed between two checkpoints and resumed."""
    problem = PROBLEMS["logistic | unbalanced"]
    algorithm = fs.FedNL(problem.loss, compressor)
    road = FaultyRoad(many(problem), tmp_path, loss=0.15, repeat=True, late=True, restart=[(5, "client-03")], crash=9)

    def attempt(resume: bool) -> fs.Run:
        path = tmp_path / "run"
        return fs.run(
            algorithm, road, rounds=20, tolerance=0, seed=5, checkpoint=path, checkpoint_every=4, resume=resume
        )

    faulty = until_done(attempt)
    assert road.lost > 20
    assert (road.restarted, road.crash) == (1, None)
    cohorts = faulty.ledger.cohorts()
    clean = fs.run(algorithm, many(problem), rounds=20, tolerance=0, seed=5, participation=fs.Replay(cohorts=cohorts))
    assert np.array_equal(faulty.state.w, clean.state.w)
    assert np.array_equal(faulty.state.learned.packed(), clean.state.learned.packed())
    assert not np.array_equal(faulty.state.w, fs.run(algorithm, many(problem), rounds=20, tolerance=0, seed=5).state.w)


def test_a_field_of_plain_values() -> None:
    from fedsolve.runfiles import registry

    built = registry.build(
        "algorithm",
        {"name": "fednl", "loss": fs.Logistic(), "compressor": {"name": "rank_r", "rank": 2}, "search": "none"},
    )
    assert built == replace(fs.FedNL(fs.Logistic(), fs.RankR(2)), search=None)
    with pytest.raises(ConfigError, match="1 or 2"):
        registry.build("algorithm", {"name": "FedNL", "loss": fs.Logistic(), "option": 3})
