"""FedAvg as FedPAQ has it, which Jadbabaie, Makur and Shah call FedAve: a share τ of the clients, b steps of one sample
each, step sizes 4 / (μ (k b + 1)), and uploads that are rounded by chance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, Memory
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.losses.footprint import Sizes
from fedsolve.numerics.structured_arrays import Quantised
from tests.core.federations import Recorder
from tests.extras import optional
from tests.problems import PROBLEMS

EIGHT, SIXTEEN = fs.QuantisedUploads(), fs.QuantisedUploads(bits=16)
LOSS = fs.Squared(l2=0.5)


def fedave(b: int, step_size: float = 0.1, **more: Any) -> fs.FedAvg:
    """b stochastic steps of one sample each."""
    local = fs.GradientSteps(b, step_size, 1, batches="independent", schedule=more.pop("schedule", None))
    return fs.FedAvg(more.pop("loss", LOSS), local, **more)


def federation(m: int = 8, s: int = 20, p: int = 2, skew: float = 0.0) -> list[Client]:
    """m clients of s samples each, with inputs in [0, 1]^p; `skew` moves the truth of each by itself."""
    rng = np.random.default_rng(4)
    truth = rng.standard_normal(p)
    made = []
    for index in range(m):
        X = rng.random((s, p))
        own = truth + skew * rng.standard_normal(p)
        made.append(Client(f"c{index}", X, X @ own + 0.1 * rng.standard_normal(s)))
    return made


def entered(client: Client, seed: int) -> Client:
    client.enter(Memory({}), (seed, 1, 1, 0))
    return client


def cohorts_of(run: fs.Run) -> dict[tuple[int, int], tuple[str, ...]]:
    """Who answered the calls of the algorithm, by round and exchange; what only measures asks everyone."""
    return {(one.round, one.exchange): one.answered for one in run.ledger.records if "algorithm" in one.purposes}


# ── the setting ──


@pytest.mark.parametrize(("m", "tau"), [(8, 0.25), (10, 0.3), (10, 0.5), (8, 1.0)])
def test_exactly_a_share_of_the_clients_takes_b_gradients_each(m: int, tau: float) -> None:
    run = fs.run(fedave(7), federation(m), rounds=200, measure=0, participation=fs.Participation(fraction=tau))
    cohorts = list(cohorts_of(run).values())
    assert [len(cohort) for cohort in cohorts] == [round(tau * m)] * 200
    assert run.ledger.total().counts["gradients"] == 200 * round(tau * m) * 7
    # Drawn uniformly: each as often as a binomial variable allows, six standard deviations wide.
    for name in (f"c{index}" for index in range(m)):
        often = sum(name in cohort for cohort in cohorts)
        assert abs(often - 200 * tau) <= 6 * np.sqrt(200 * tau * (1 - tau))


def test_clients_of_equally_many_samples_have_equal_weights() -> None:
    """The mean over the cohort is the plain one: weights differ by no more than the last bit of 1/(τm)."""
    clients = federation()
    run = fs.run(fedave(3), clients, rounds=1, participation=fs.Participation(fraction=0.5), seed=3)
    ((moment, cohort),) = cohorts_of(run).items()
    assert len(cohort) == 4
    each = [
        fs.run(fedave(3), clients, rounds=1, participation=fs.Replay(cohorts={moment: (name,)}), seed=3).model.w
        for name in cohort
    ]
    np.testing.assert_allclose(run.model.w, np.mean(each, axis=0), rtol=1e-14)


def test_the_bound_of_fedpaq_holds() -> None:
    """Lemma 3 of Jadbabaie et al., with the step sizes of FedPAQ's Theorem 1, and E‖θ(T₀) − θ*‖² as it is measured."""
    b, tau, m, seeds = 4, 0.5, 8, 6
    clients = federation(m, skew=0.3)
    X, y = np.concatenate([one.X for one in clients]), np.concatenate([one.y for one in clients])
    mu, L = 2.0, 2.0 + 2.0  # of every sample: x xᵀ has the eigenvalues 0 and ‖x‖² ≤ p = 2
    kappa, loss = L / mu, fs.Squared(l2=mu)
    best = np.linalg.solve(X.T @ X / len(y) + mu * np.eye(2), X.T @ y / len(y))
    T0 = int(np.ceil(4 * max(kappa, 4 + 32 * kappa**2 * (1 - tau) / (tau * (m - 1)), 4 * m / (mu**2 * b))))
    T, Tb = 2 * T0, 2 * T0 * b + 1
    settings: dict[str, Any] = {"measure": 0, "participation": fs.Participation(fraction=tau)}
    what = fedave(b, 4 / mu, loss=loss, schedule=fs.InverseTime(decay=b))
    first, early, late = (
        [fs.run(what, clients, rounds=rounds, seed=seed, **settings).model.w for seed in range(seeds)]
        for rounds in (T // 16, T0, T)
    )

    def value(w: np.ndarray) -> float:
        return 0.5 * np.mean((X @ w - y) ** 2) + 0.5 * mu * float(w @ w)

    def variance(one: Client, w: np.ndarray) -> float:
        """Of the gradient of one sample drawn at random."""
        each = (one.X @ w - one.y)[:, None] * one.X
        return float(((each - each.mean(axis=0)) ** 2).sum(axis=1).mean())

    sigma2 = max(variance(one, w) for one in clients for w in [best, *early, *late])
    begun, away, after = (float(np.mean([(w - best) @ (w - best) for w in ws])) for ws in (first, early, late))
    bound = (
        L * (T0 * b + 1) ** 2 / (2 * Tb**2) * away
        + 8 * kappa * sigma2 / (mu * m) * (1 + 8 * (1 - tau) * m / (tau * (m - 1))) * b / Tb
        + 8 * np.e * L * kappa**2 * sigma2 / m * (b - 1) ** 2 / Tb
        + 128 * np.e * kappa**3 * sigma2 / mu * (1 + 8 * (1 - tau) / (tau * (m - 1))) * (b - 1) / Tb**2
    )
    assert 0 < float(np.mean([value(w) - value(best) for w in late])) <= bound
    assert after < begun / 4  # O(1/T), so about a sixteenth


# ── quantised uploads ──


@pytest.mark.parametrize("uploads", [EIGHT, SIXTEEN])
def test_the_mean_over_many_seeds_is_the_round_without_quantisation(uploads: fs.QuantisedUploads) -> None:
    """Full-batch steps, so that chance is in the rounding alone; six standard deviations of a mean over 150 seeds."""
    exact = fs.FedAvg(LOSS, fs.GradientSteps(3, 0.3))
    clients = federation(5, p=6, skew=1.0)
    w = fs.run(exact, clients, rounds=1).model.w
    moves = [exact.local.run(LOSS, one, np.zeros(6), 0.3) for one in clients]
    steps = np.array([Quantised.of(move, uploads.bits).step for move in moves])
    found = np.array(
        [
            fs.run(replace(exact, uploads=uploads), clients, rounds=1, measure=0, seed=seed).model.w - w
            for seed in range(150)
        ]
    )
    assert (np.abs(found) <= steps.mean() + 1e-15).all()  # each client is off by less than its step
    assert found.std() > 0
    deviation = np.sqrt((steps**2).sum() / 4) / 5  # of a mean of five, each with a variance of at most step²/4
    assert (np.abs(found.mean(axis=0)) <= 6 * deviation / np.sqrt(150)).all()


@pytest.mark.parametrize("uploads", [EIGHT, SIXTEEN])
def test_the_error_is_small_beside_the_move(uploads: fs.QuantisedUploads) -> None:
    """FedPAQ's Assumption 1: E‖Q(d) − d‖² ≤ q ‖d‖² with q = p / (2 (2^bits − 1)²), for every d; its exact expectation
    is step² Σ f (1 − f), with f the place of a number between two levels."""
    rng = np.random.default_rng(0)
    for scale in (1e-200, 1e-9, 1.0, 1e150):
        for p in (3, 50):
            d = scale * rng.standard_normal(p)
            made = uploads.of(entered(federation(1)[0], 0), d)
            f = (d - d.min()) / made.step % 1.0
            q = p / (2 * (2**uploads.bits - 1) ** 2)
            steps = made.step / np.abs(d).max() / np.linalg.norm(d / np.abs(d).max())  # ‖d‖² itself would underflow
            assert steps**2 * float((f * (1 - f)).sum()) <= q


def test_a_move_is_rounded_by_the_clients_own_generator() -> None:
    one, other = federation(2)
    d = np.random.default_rng(0).standard_normal(40)
    codes = EIGHT.of(entered(one, 5), d).codes
    assert codes.tolist() == EIGHT.of(entered(one, 5), d).codes.tolist()
    assert codes.tolist() != EIGHT.of(entered(one, 6), d).codes.tolist()
    assert codes.tolist() != EIGHT.of(entered(other, 5), d).codes.tolist()


@pytest.mark.parametrize("move", [[0.0, 0.0], [3.0, 3.0], [-1e308, -1e308], [5e-324, 5e-324], [-0.5]])
def test_moves_of_one_number_are_exact(move: list[float]) -> None:
    np.testing.assert_array_equal(EIGHT.of(entered(federation(1)[0], 0), np.array(move)).dense(), move)


@pytest.mark.parametrize(
    "move", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, np.inf], [np.inf, np.inf], [-1.7e308, 1.7e308]]
)
def test_a_move_without_a_grid_comes_as_nan(move: list[float]) -> None:
    assert np.isnan(EIGHT.of(entered(federation(1)[0], 0), np.array(move)).dense()).all()


def test_a_run_that_diverges_says_so() -> None:
    plain = fs.run(fedave(5, 1e30), federation(), rounds=30)
    rounded = fs.run(fedave(5, 1e30, uploads=EIGHT), federation(), rounds=30)
    assert rounded.status == plain.status == "diverged"


def test_without_a_move_the_model_stays() -> None:
    """At a minimum that all clients share, in one dimension less than there are features."""
    clients = [Client(f"c{i}", np.eye(3), np.zeros(3)) for i in range(3)]
    assert fs.run(fs.FedAvg(LOSS, uploads=EIGHT), clients, rounds=3).model.w.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("case", sorted(PROBLEMS))
def test_full_steps_with_16_bits_come_near_the_pooled_solution(case: str) -> None:
    """One step on all samples is gradient descent: what rounding adds shrinks with the steps. Weights, offsets, several
    outputs, sparse inputs and clients of one sample among them."""
    problem = PROBLEMS[case]
    if problem.loss.l1:
        pytest.skip("no gradient")
    local = fs.GradientSteps(1, 0.05 if isinstance(problem.loss, fs.Poisson) else None)
    plain = fs.run(fs.FedAvg(problem.loss, local), problem.clients(), rounds=60, tolerance=0)
    found = fs.run(fs.FedAvg(problem.loss, local, SIXTEEN), problem.clients(), rounds=60, tolerance=0)
    assert found.model.w.shape == plain.model.w.shape
    # The errors of a round are below 2 ‖d‖ · √p / (2^16 − 1), and d is no longer than the way there.
    p = plain.model.w.size
    way = float(np.linalg.norm(problem.pooled()))
    assert np.linalg.norm(found.model.w - plain.model.w) <= 60 * 2 * np.sqrt(p) / (2**16 - 1) * 2 * way


# ── bytes ──


@pytest.mark.parametrize(("uploads", "bytes_each"), [(None, 8), (EIGHT, 1), (SIXTEEN, 2)])
def test_the_ledger_has_the_bytes_that_are_encoded(uploads: fs.QuantisedUploads | None, bytes_each: int) -> None:
    p = 1000
    transport = Recorder(InProcess(federation(3, p=p)))
    run = fs.run(fedave(4, 1e-4, uploads=uploads), transport, rounds=2, measure=0)
    counted = run.ledger.total(None)
    assert counted.bytes_up == sum(len(data) for _, data in transport.up)
    assert counted.bytes_down == sum(len(data) for _, data in transport.down)
    step = "local_update" if uploads is None else "quantised_update"
    sent = run.ledger.by_call()[f"algorithm.{step}", "algorithm"].bytes_up / (2 * 3)
    # Beside the codes: the header of a part, and offset and step as numbers.
    assert 0 <= sent - bytes_each * p <= 100
    assert fedave(4, uploads=uploads).footprint(Sizes(p, p, 20)).sent == pytest.approx(sent / 8, abs=13)


# ── transports, stacks and files ──


@pytest.mark.parametrize("uploads", [None, EIGHT])
def test_processes_give_the_same_bits(uploads: fs.QuantisedUploads | None) -> None:
    settings: dict[str, Any] = {"rounds": 5, "participation": fs.Participation(fraction=0.5), "seed": 2}
    ours = fs.run(fedave(6, uploads=uploads), federation(p=5), **settings)
    theirs = fs.run(fedave(6, uploads=uploads), Processes(federation(p=5), workers=2), **settings)
    assert ours.model.w.tobytes() == theirs.model.w.tobytes()
    assert ours.ledger.records == theirs.ledger.records


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    what, where = fedave(6, uploads=EIGHT), tmp_path / "checkpoint"
    settings: dict[str, Any] = {"participation": fs.Participation(fraction=0.5), "seed": 2}
    whole = fs.run(what, federation(p=5), rounds=8, **settings)
    fs.run(what, federation(p=5), rounds=3, checkpoint=where, **settings)
    resumed = fs.run(what, federation(p=5), rounds=8, checkpoint=where, resume=True, **settings)
    assert resumed.model.w.tobytes() == whole.model.w.tobytes()
    with pytest.raises(fs.errors.CheckpointError):
        fs.run(replace(what, uploads=SIXTEEN), federation(p=5), rounds=9, checkpoint=where, resume=True, **settings)


def test_clients_that_do_not_answer_are_left_out() -> None:
    some = fs.Participation(dropout=0.3, quorum=0.1)
    run = fs.run(fedave(6, uploads=EIGHT), federation(p=5), rounds=30, participation=some, seed=1)
    assert run.rounds == 30
    assert len({len(cohort) for cohort in run.ledger.cohorts().values()}) > 1


def tensors(clients: list[Client], weighted: bool = False) -> list[Client]:
    torch = optional("torch")
    weights = [np.random.default_rng(i).random(one.n_samples) + 0.1 for i, one in enumerate(clients)]
    return [
        Client(one.name, torch.tensor(one.X), torch.tensor(one.y), torch.tensor(weight) if weighted else None)
        for one, weight in zip(clients, weights, strict=True)
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("uploads", [None, EIGHT])
def test_torch_clients_alone_and_together(uploads: fs.QuantisedUploads | None, weighted: bool) -> None:
    """Stacked where nothing stands against it. A quantised reply and samples drawn by their weights are computed one
    client at a time, so that the bits are the same."""
    what = fedave(6, uploads=uploads)
    alone = fs.run(what, InProcess(tensors(federation(p=5), weighted)), rounds=5)
    together = fs.run(what, InProcess(tensors(federation(p=5), weighted), together=True), rounds=5)
    np.testing.assert_allclose(together.model.w, alone.model.w, rtol=1e-12 if uploads is None else 0)
    assert together.ledger.records == alone.ledger.records
    if not weighted and uploads is None:
        np.testing.assert_allclose(alone.model.w, fs.run(what, federation(p=5), rounds=5).model.w, rtol=1e-12)


def test_a_stack_draws_what_each_client_would() -> None:
    """Clients of unequal sizes, which a stack pads."""
    clients = [Client(one.name, one.X[: 3 + i], one.y[: 3 + i]) for i, one in enumerate(federation(p=5))]
    what = fedave(6)
    stacked = fs.run(what, InProcess(tensors(clients), together=True), rounds=5)
    np.testing.assert_allclose(stacked.model.w, fs.run(what, clients, rounds=5).model.w, rtol=1e-12)


RUN_FILE = """
[data]
dataset = "breast_cancer"

[partition]
scheme = "iid"
clients = 8

[preprocess]

[participation]
fraction = 0.5

[algorithm]
name = "FedAvg"
loss = {{ name = "Logistic", l2 = 0.1 }}
{uploads}

[algorithm.local]
steps = 5
step_size = 0.05
batch_size = 1
batches = "independent"
schedule = {{ name = "InverseTime", decay = 0.1 }}

[run]
rounds = 5

[output]
folder = "{folder}"
figures = false
"""


def written(tmp_path: Path, uploads: str) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(RUN_FILE.format(uploads=uploads, folder=(tmp_path / "out").as_posix()))
    return file


@pytest.mark.parametrize(
    ("uploads", "expected"),
    [
        ("uploads = { bits = 16 }", SIXTEEN),
        ('uploads = "QuantisedUploads"', EIGHT),
        ('uploads = { name = "quantised-uploads", bits = 8 }', EIGHT),
        ('uploads = "none"', None),
        ("", None),
    ],
)
def test_from_a_run_file(tmp_path: Path, uploads: str, expected: fs.QuantisedUploads | None) -> None:
    from fedsolve.runfiles import problem, run_file

    file = written(tmp_path, uploads)
    (built,) = problem.prepare(run_file.read(file), file).algorithms.values()
    assert built.uploads == expected
    assert built.local.batches == "independent"


@pytest.mark.parametrize("bits", ["12", "8.0", '"8"', "true"])
def test_wrong_bits_in_a_run_file(tmp_path: Path, bits: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["run", str(written(tmp_path, f"uploads = {{ bits = {bits} }}"))])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "algorithm.uploads.bits must be 8 or 16" in said


# ── what makes no sense ──


@pytest.mark.parametrize("bits", [0, 4, 12, 32, 8.0, True, "8"])
def test_bits_are_8_or_16(bits: Any) -> None:
    with pytest.raises(ConfigError, match="bits is 8 or 16, got"):
        fs.QuantisedUploads(bits)


def test_uploads_are_uploads() -> None:
    with pytest.raises(ConfigError, match="uploads is QuantisedUploads"):
        fs.FedAvg(LOSS, uploads=8)  # type: ignore[arg-type]


def test_the_theory_of_early_stopping_has_no_quantisation() -> None:
    with pytest.raises(ConfigError, match="sent as they are"):
        fs.FedAvg(LOSS, uploads=EIGHT).pace(None)  # type: ignore[arg-type]
