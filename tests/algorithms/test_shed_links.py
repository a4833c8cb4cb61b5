"""SHED over links of every capacity, and with clients and servers that come and go."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsolve as fs
from fedsolve.curvature.eigenpairs import lanczos_pays
from fedsolve.curvature.renewals import Fibonacci, Periodic
from fedsolve.federation.links import Link
from fedsolve.federation.participation import Replay
from fedsolve.federation.transports import InProcess, Processes
from tests.algorithms.test_shed import MU, make_clients, pooled
from tests.core.federations import Recorder
from tests.faults.faulty import Crash, FaultyRoad, until_done

LOSS = fs.Logistic(l2=MU)
N = 12
# The least a client says in a round: value and gradient, an increment without vectors, and a line search, each with its
# envelope. What is left of a link goes to eigenvectors.
LEAST = 1000


@settings(max_examples=25, deadline=None)
@given(
    budgets=st.lists(st.integers(LEAST, 3 * LEAST), min_size=4, max_size=4),
    start=st.floats(0.0, 10.0),
    precision=st.sampled_from(["float16", "float64"]),
    increment=st.sampled_from(["link", 3]),
    pipelined=st.booleans(),
)
def test_a_byte_budget_is_never_exceeded(
    budgets: list[int], start: float, precision: str, increment: object, pipelined: bool
) -> None:
    clients = make_clients(N, seed=3)
    for client, budget in zip(clients, budgets, strict=True):
        client.link = Link(budget)
    algorithm = fs.SHED(LOSS, increment=increment, precision=precision, pipelined=pipelined)
    road_start = np.full(N, start)  # from far away some steps are cut short, and a round has a search too
    road = Recorder(InProcess(clients))
    run = fs.run(algorithm, road, rounds=12, tolerance=0, measure=0, warm_start=road_start)
    sizes: dict[tuple[str, int], int] = defaultdict(int)
    replies = iter(road.up)
    for record in run.ledger.records:
        for name in record.answered:
            who, data = next(replies)
            assert who == name
            if "algorithm" in record.purposes:
                sizes[name, record.round] += len(data)
    allowed = {client.name: budget for client, budget in zip(clients, budgets, strict=True)}
    assert {key: size for key, size in sizes.items() if size > allowed[key[0]]} == {}
    assert next(replies, None) is None


def test_a_budget_is_used_and_the_run_still_converges() -> None:
    clients = make_clients(N)
    for client, budget in zip(clients, (LEAST, LEAST + 400, 2 * LEAST, 4 * LEAST), strict=True):
        client.link = Link(budget)
    algorithm = fs.SHED(LOSS, Fibonacci(), increment="link", precision="float64")
    run = fs.run(algorithm, clients, rounds=500, tolerance=1e-10)
    assert run.converged
    assert np.linalg.norm(run.model.w - pooled(clients, LOSS)) <= 1e-10 / MU


def test_wider_links_send_more() -> None:
    clients = make_clients(N)
    for client, budget in zip(clients, (LEAST, LEAST + 400, LEAST + 800, 4 * LEAST), strict=True):
        client.link = Link(budget)
    run = fs.run(fs.SHED(LOSS, increment="link", precision="float64"), clients, rounds=1, tolerance=0)
    sizes = [one.values.size for one in run.state.point.curvature.spectra.clients.values()]
    assert sizes == sorted(sizes)
    assert sizes[-1] == N - 1
    assert sizes[0] < sizes[2] < sizes[3]


def test_a_link_without_vectors_still_takes_part() -> None:
    clients = make_clients(N)
    for client in clients[1:]:
        client.link = Link(vectors_per_round=0)
    run = fs.run(fs.SHED(LOSS, increment="link"), clients, rounds=1000, tolerance=1e-10)
    assert run.converged
    sizes = {name: one.values.size for name, one in run.state.point.curvature.spectra.clients.items()}
    assert sizes == {"client-0": N - 1, "client-1": 0, "client-2": 0, "client-3": 0}


def test_a_link_too_narrow_for_the_gradient_says_so() -> None:
    clients = make_clients(N)
    clients[2].link = Link(100)
    with pytest.raises(fs.errors.LinkExceeded, match=r"client-2.*bytes"):
        fs.run(fs.SHED(LOSS), clients)


def test_rayleigh_is_equation_38() -> None:
    """The share of rounds with at least k vectors is P(γ ≥ (2^{k/d₀} − 1)/Γ) = exp(−ν (2^{k/d₀} − 1)/Γ)."""
    rng = np.random.default_rng(0)

    class Anyone:
        def __init__(self) -> None:
            self.rng = rng

    link = fs.Rayleigh()
    drawn = np.array([link.vectors(1, Anyone()) for _ in range(20_000)])  # type: ignore[arg-type]
    for k in range(1, 9):
        expected = np.exp(-(2 ** (k / 2) - 1) / 5)
        # Five standard deviations of a share of 20,000.
        assert (drawn >= k).mean() == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / 20_000))
    assert drawn.min() == 0


@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_rayleigh_links_converge_and_are_seeded(kind: type) -> None:
    def fading() -> list[fs.Client]:
        clients = make_clients(N)
        for client in clients:
            client.link = fs.Rayleigh()
        return clients

    algorithm = fs.SHED(LOSS, increment="link")
    runs = [fs.run(algorithm, kind(fading(), threads=1), rounds=200, tolerance=1e-10, seed=seed) for seed in (1, 1, 2)]
    assert all(run.converged for run in runs)
    assert np.array_equal(runs[0].model.w, runs[1].model.w)
    counts = [[row.bytes_up for row in run.history] for run in runs]
    assert counts[0] == counts[1] != counts[2]


# ── coming and going ──


def test_a_client_that_was_away_goes_on_where_it_was() -> None:
    """No renewal in between: its next pairs follow on, nothing is skipped or sent twice."""
    clients = make_clients(N)
    everyone = tuple(client.name for client in clients)
    away = tuple(name for name in everyone if name != "client-1")
    cohorts = {(round, 0): away if 3 <= round <= 5 else everyone for round in range(1, 9)}
    run = fs.run(
        fs.SHED(LOSS, Periodic(50)), clients, rounds=8, tolerance=0, measure=0, participation=partly(clients, cohorts)
    )
    sizes = {name: one.values.size for name, one in run.state.point.curvature.spectra.clients.items()}
    # Iterations are begun at the start and in each round; client-1 missed three of the nine.
    assert {sizes[name] for name in away} == {sizes["client-0"]}
    assert sizes["client-1"] == sizes["client-0"] - 3
    truth = np.linalg.eigh(_hessian_of(clients[1], np.zeros(N)))
    # What the server knows are the first eigenvectors in order, each once (half precision: three digits).
    known = run.state.point.curvature.spectra.clients["client-1"]
    overlaps = np.abs(truth[1][:, ::-1][:, : known.values.size].T @ known.vectors)
    np.testing.assert_allclose(overlaps, np.eye(known.values.size), atol=2e-3)


def test_pairs_of_lbfgs_are_of_one_cohort() -> None:
    """Differences of gradients that different clients gave say nothing of any curvature."""
    clients = make_clients(N)
    everyone = tuple(client.name for client in clients)
    cohorts = {(4, 0): everyone[1:]}
    run = fs.run(fs.SHED(LOSS), clients, rounds=5, tolerance=0, measure=0, participation=partly(clients, cohorts))
    before = fs.run(fs.SHED(LOSS), clients, rounds=3, tolerance=0, measure=0)
    assert len(before.state.point.curvature.pairs) == 3
    assert len(run.state.point.curvature.pairs) <= 1


def test_a_client_that_missed_a_renewal_begins_anew_when_it_returns() -> None:
    clients = make_clients(N)
    everyone = tuple(client.name for client in clients)
    away = tuple(name for name in everyone if name != "client-1")
    cohorts = {(round, 0): away if 3 <= round <= 5 else everyone for round in range(1, 7)}
    run = fs.run(
        fs.SHED(LOSS, Periodic(5), lbfgs=0),
        clients,
        rounds=6,
        tolerance=0,
        measure=0,
        participation=partly(clients, cohorts),
    )
    spectra = run.state.point.curvature.spectra.clients
    assert len({one.renewal for one in spectra.values()}) == 1
    assert spectra["client-1"].values.size < spectra["client-0"].values.size


def partly(clients: list[fs.Client], cohorts: dict[tuple[int, int], tuple[str, ...]]) -> Replay:
    everyone = tuple(client.name for client in clients)
    whole = {(round, exchange): everyone for round in range(0, 20) for exchange in range(4)}
    for (round, _), names in cohorts.items():
        whole.update({(round, exchange): names for exchange in range(4)})
    return Replay(cohorts=whole)


def _hessian_of(client: fs.Client, w: np.ndarray) -> np.ndarray:
    return LOSS.hessian(client, w).full()


@pytest.mark.parametrize("seed", range(3))
def test_losses_restarts_and_a_crash_leave_no_trace(tmp_path: Path, seed: int) -> None:
    """Replies lost, late and repeated, a client restarted, the server killed between two renewals: as a clean run with
    the same cohorts, to the bit."""
    algorithm = fs.SHED(LOSS, Fibonacci(), increment=1)
    road = FaultyRoad(
        make_clients(N), tmp_path, loss=0.15, repeat=True, late=True, restart=[(9, "client-3")], crash=16, seed=seed
    )

    def attempt(resume: bool) -> fs.Run:
        return fs.run(
            algorithm, road, rounds=24, tolerance=0, checkpoint=tmp_path / "run", checkpoint_every=3, resume=resume
        )

    faulty = until_done(attempt)
    assert road.lost > 5
    assert road.restarted == 1
    assert road.crash is None
    clean = fs.run(
        algorithm, make_clients(N), rounds=24, tolerance=0, participation=Replay(cohorts=faulty.ledger.cohorts())
    )
    assert np.array_equal(faulty.state.w, clean.state.w)
    assert faulty.state.point.curvature.spectra.t == clean.state.point.curvature.spectra.t
    for name, one in faulty.state.point.curvature.spectra.clients.items():
        assert np.array_equal(one.vectors, clean.state.point.curvature.spectra.clients[name].vectors)


@pytest.mark.parametrize("kind", [InProcess, Processes])
@pytest.mark.parametrize("algorithm", [fs.SHED(LOSS), fs.MontDec(LOSS)], ids=["SHED", "MontDec"])
def test_a_server_restarted_between_two_renewals_goes_on_to_the_bit(
    tmp_path: Path, kind: type, algorithm: object
) -> None:
    def stop(row: object) -> None:
        if row.round == 16:  # type: ignore[attr-defined]  # renewals are at 12 and 20
            raise Crash

    path = tmp_path / "run"
    with pytest.raises(Crash):
        fs.run(algorithm, kind(make_clients(), threads=1), rounds=22, tolerance=0, checkpoint=path, on_round=stop)
    resumed = fs.run(algorithm, kind(make_clients(), threads=1), rounds=22, tolerance=0, checkpoint=path, resume=True)
    whole = fs.run(algorithm, kind(make_clients(), threads=1), rounds=22, tolerance=0)
    assert np.array_equal(resumed.model.w, whole.model.w)
    # Numbers, not bytes: clients that restarted compute their eigenvectors again, and say so in the envelope.
    assert [row.scalars_up for row in resumed.history] == [row.scalars_up for row in whole.history]


def test_a_restart_goes_on_to_the_bit_where_eigenvectors_come_from_lanczos(tmp_path: Path) -> None:
    """n ≥ 250, and the next renewal near: only the few pairs that will be sent are computed."""
    scales = np.linspace(1, 0.05, 260)

    def clients() -> list[fs.Client]:
        draw = np.random.default_rng(1)
        return [
            fs.Client(f"client-{j}", draw.standard_normal((300, 260)) * scales, draw.integers(0, 2, 300).astype(float))
            for j in range(2)
        ]

    assert lanczos_pays(8 + 1, 300, 260)
    algorithm, path = fs.SHED(fs.Logistic(l2=1e-3), Periodic(8)), tmp_path / "run"

    def stop(row: object) -> None:
        if row.round == 5:  # type: ignore[attr-defined]
            raise Crash

    with pytest.raises(Crash):
        fs.run(algorithm, clients(), rounds=12, tolerance=0, checkpoint=path, on_round=stop)
    resumed = fs.run(algorithm, clients(), rounds=12, tolerance=0, checkpoint=path, resume=True)
    whole = fs.run(algorithm, clients(), rounds=12, tolerance=0)
    assert np.array_equal(resumed.model.w, whole.model.w)


def test_the_history_says_whose_weight_took_part() -> None:
    """The share of a row is that of its round's last exchange, whoever was measured later."""
    clients = make_clients(N)
    weight = {client.name: client.n_samples for client in clients}
    policy = fs.Participation(dropout=0.15)
    run = fs.run(fs.SHED(LOSS), clients, rounds=12, tolerance=0, participation=policy, seed=3)
    shares = set()
    for row in run.history[1:]:
        records = [one for one in run.ledger.records if one.round == row.round and "algorithm" in one.purposes]
        answered = sum(weight[name] for name in records[-1].answered)
        assert row.share == pytest.approx(answered / sum(weight.values()))
        shares.add(row.share)
    assert len(shares) > 1
