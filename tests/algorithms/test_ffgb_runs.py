"""FFGB as a run: what is sent and saved does not grow with the ensemble, and nothing that goes wrong leaves a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.learners import Fitting
from fedsolve.loop.checkpoint import Checkpoint
from tests.algorithms.toy_learners import ScaleOracle, Table
from tests.faults.faulty import Crash, FaultyRoad

RIDGE = fs.RidgeLearner(0.01, fs.Polynomial(2))
LOSS = fs.Logistic()


def table(n: int = 90, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0).astype(float)


def clients(n: int = 90, count: int = 5) -> list[fs.Client]:
    X, y = table(n)
    parted = fs.data.partition(X, y, fs.data.Dirichlet(0.7), clients=count, seed=1)
    return fs.data.hold_out(parted, 0.25, seed=2)


def algorithm(**more: Any) -> fs.FFGB:
    return fs.FFGB(LOSS, RIDGE, **{"steps": 2, "step_size": 0.5, "tikhonov": 0.01, "residual": "carried", **more})


def same(one: fs.Run, two: fs.Run) -> bool:
    """Whether two runs have learned the same functions, to the bit."""
    ours, theirs = one.model.arrays(), two.model.arrays()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


# ── cost ──


@dataclass(frozen=True)
class Small(ScaleOracle):
    kind: ClassVar[str] = "test: small"


def test_a_round_costs_the_same_after_5000_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes each way and bytes written, of the last of 52 rounds with 100 functions each and of the second, which is
    the first that has something to tell."""
    written: list[int] = []
    save = Checkpoint.save

    def watched(self: Checkpoint, *given: Any) -> None:
        before = self.ledger_path.stat().st_size if self.ledger_path.exists() else 0
        save(self, *given)
        written.append(self.place.stat().st_size + self.ledger_path.stat().st_size - before)

    monkeypatch.setattr(Checkpoint, "save", watched)
    X = np.tile(np.arange(4.0), 3)[:, None]
    rng = np.random.default_rng(0)
    ten = fs.data.hold_out([fs.Client(f"c{i}", X, rng.normal(size=12)) for i in range(10)], 0.25, seed=0)
    boosted = fs.FFGB(fs.Squared(), Small(0.5, 4), steps=10, step_size=0.01)
    run = fs.run(
        boosted, ten, rounds=52, evaluation=fs.Evaluation(fs.Squared()), checkpoint=tmp_path / "run", tolerance=0
    )
    assert len(run.model) == 5200
    rows = run.history
    for name in ("bytes_up", "bytes_down", "measure_bytes_up", "measure_bytes_down"):
        of_round = np.diff([getattr(row, name) for row in rows[:-1]])  # the last row is measured by itself
        assert of_round[1] > 0
        assert of_round[-1] <= 1.1 * of_round[2], name
    assert written[-1] <= 1.1 * written[3]
    assert max(written) < 60_000  # of about 400 kB that the ensemble takes


def test_only_what_is_new_is_sent() -> None:
    """A client that is asked for the first time after ten rounds hears of all of them once, and never again."""
    five = clients()
    cohorts = {(t, 0): tuple(c.name for c in five if c.name != "client-4" or t >= 10) for t in range(1, 14)}
    run = fs.run(algorithm(), five, rounds=13, participation=fs.Replay(cohorts=cohorts), measure=0, tolerance=0)
    down = {
        (entry.round, entry.client): entry.scalars
        for entry in run.ledger.entries()
        if entry.call == "algorithm.local_steps" and entry.direction == "down"
    }
    # A function is 9 numbers of w and one of b; it comes with its coefficient, and a part with its decay.
    of_four, of_five = 4 * 2 * 11 + 1, 5 * 2 * 11 + 1
    assert down[9, "client-0"] == down[10, "client-0"] == of_four
    assert down[10, "client-4"] == 9 * of_four + 1  # and f^0
    assert down[11, "client-4"] == down[11, "client-0"] == of_five


# ── held-out rows ──


def test_held_out_figures_are_those_of_the_model() -> None:
    evaluation = fs.Evaluation(LOSS)
    for more in ({}, {"preprocess": fs.data.Preprocess()}):
        for rounds in (1, 6):
            run = fs.run(algorithm(initial="constant"), clients(), rounds=rounds, evaluation=evaluation, **more)
            again = fs.evaluate(run.model, clients(), LOSS)
            assert run.evaluation is not None
            assert run.evaluation.value == again.value
            assert run.evaluation.auc == again.auc
            assert run.history[-1].held_out is not None
            assert run.history[-1].held_out["value"] == again.value


def test_patience_by_auc_hands_back_the_best_model() -> None:
    evaluation = fs.Evaluation(LOSS)
    stopping = fs.Patience(rounds=4, evaluation=evaluation, metric="auc")
    run = fs.run(algorithm(), clients(400), rounds=60, stopping=stopping, evaluation=evaluation)
    assert run.status == "patience"
    assert 0 < run.model_round < run.history[-1].round
    assert len(run.model.parts) == run.model_round
    best = max(row.held_out["auc"] for row in run.history if row.held_out is not None)
    assert run.evaluation is not None
    assert run.evaluation.auc is not None
    assert run.evaluation.auc > best - 5e-3  # in the history the AUC is that of coarse bins
    assert run.evaluation.auc == fs.evaluate(run.model, clients(400), LOSS).auc


def test_an_evaluation_by_another_kind_of_loss_is_rejected() -> None:
    with pytest.raises(fs.errors.ConfigError, match="learns by Logistic and is judged by Squared"):
        fs.run(algorithm(), clients(), rounds=2, evaluation=fs.Evaluation(fs.Squared()))


# ── what goes wrong ──

WATCHED: dict[str, Any] = {"evaluation": fs.Evaluation(LOSS)}


@pytest.mark.parametrize("watched", [{}, WATCHED], ids=["", "evaluated"])
@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_a_run_resumes_to_the_bit(tmp_path: Path, kind: type, watched: dict[str, Any]) -> None:
    def stop(row: object) -> None:
        if row.round == 5:  # type: ignore[attr-defined]
            raise Crash

    path = tmp_path / "run"
    more: dict[str, Any] = {"rounds": 9, "seed": 3, "participation": fs.Participation(fraction=0.6), **watched}
    with pytest.raises(Crash):
        fs.run(algorithm(), kind(clients(), threads=1), checkpoint=path, checkpoint_every=2, on_round=stop, **more)
    resumed = fs.run(algorithm(), kind(clients(), threads=1), checkpoint=path, checkpoint_every=2, resume=True, **more)
    whole = fs.run(algorithm(), InProcess(clients(), threads=1), **more)
    assert same(resumed, whole)
    assert [row.value for row in resumed.history] == [row.value for row in whole.history]
    assert [row.bytes_down for row in resumed.history] == [row.bytes_down for row in whole.history]
    assert [row.held_out for row in resumed.history] == [row.held_out for row in whole.history]


@pytest.mark.parametrize("seed", range(3))
def test_lost_replies_restarts_and_a_dead_server(tmp_path: Path, seed: int) -> None:
    road = FaultyRoad(
        clients(), tmp_path, loss=0.3, repeat=True, late=True, restart=[(4, "client-3")], crash=8, seed=seed
    )

    def attempt(resume: bool) -> fs.Run:
        return fs.run(
            algorithm(), road, rounds=12, seed=5, checkpoint=tmp_path / "run", checkpoint_every=3, resume=resume
        )

    with pytest.raises(Crash):
        attempt(False)
    faulty = attempt(True)
    assert road.lost > 10
    assert road.restarted == 1
    clean = fs.run(algorithm(), clients(), rounds=12, seed=5, participation=fs.Replay(cohorts=faulty.ledger.cohorts()))
    assert same(faulty, clean)
    assert not same(faulty, fs.run(algorithm(), clients(), rounds=12, seed=5))


@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_lost_replies_in_simulation(kind: type) -> None:
    more: dict[str, Any] = {"rounds": 8, "seed": 4, **WATCHED}
    lossy = fs.run(algorithm(), kind(clients(), threads=1), participation=fs.Participation(dropout=0.3), **more)
    cohorts = lossy.ledger.cohorts()
    assert len({len(cohort) for cohort in cohorts.values()}) > 1
    replayed = fs.run(algorithm(), clients(), rounds=8, seed=4, participation=fs.Replay(cohorts=cohorts))
    assert same(lossy, replayed)


def test_the_value_is_of_the_function_that_is_asked_about() -> None:
    """Also where clients miss rounds and replies are lost: value and held-out figures of every row are those of the
    model after as many rounds, at the clients that answered."""
    more: dict[str, Any] = {"seed": 4, "participation": fs.Participation(fraction=0.8, dropout=0.2), "tolerance": 0}
    whole = fs.run(algorithm(weigh="samples"), clients(), rounds=7, **WATCHED, **more)
    for rounds in (1, 4, 7):
        part = fs.run(algorithm(weigh="samples"), clients(), rounds=rounds, **more)
        row = whole.history[rounds]
        model = part.model
        here = {client.name: client for client in clients()}
        last = [record for record in whole.ledger.records if record.round == min(rounds + 1, 7)]
        assert last
        values = {}
        for name, client in here.items():
            f = model.decision_function(client.X)
            values[name] = np.mean(np.logaddexp(0, f) - client.y * f) + 0.005 * np.mean(f**2)
        weights = {name: client.weight for name, client in here.items()}
        names = [name for name in here if _measured(whole, rounds, name)]
        expected = sum(weights[name] * values[name] for name in names) / sum(weights[name] for name in names)
        assert row.value == pytest.approx(expected, rel=1e-12)


def _measured(run: fs.Run, rounds: int, name: str) -> bool:
    """Whether a client answered the exchange in which the value after so many rounds was asked for."""
    found = [
        record
        for record in run.ledger.records
        if any(call == "algorithm.value" for call in record.calls) and record.round in (rounds, rounds + 1)
    ]
    of_next = [record for record in found if record.round == rounds + 1]
    record = of_next[0] if of_next else found[-1]
    return name in record.answered


def test_partial_participation() -> None:
    run = fs.run(algorithm(), clients(), rounds=40, seed=1, participation=fs.Participation(fraction=0.4), tolerance=0)
    assert all(len(part.functions) == 4 for part in run.state.parts)  # 2 of 5 clients, 2 steps
    everyone = fs.run(algorithm(), clients(), rounds=40, tolerance=0)
    X, y = table()
    ours, theirs = (float(np.mean((one.model.decision_function(X) > 0) == (y > 0))) for one in (run, everyone))
    assert ours > theirs - 0.1


# ── clients that lie ──


@dataclass(frozen=True)
class Lying(ScaleOracle):
    """Sends what is no function, at one client and in some rounds."""

    what: str = "shape"

    kind: ClassVar[str] = "test: lying"

    def fit(self, fitting: Fitting) -> Table:
        honest = super().fit(fitting)
        if float(fitting.X[0, 0]) != 1.0:  # only the client whose first point is another
            return honest
        wrong = {
            "shape": np.zeros(7),
            "NaN": honest.values * np.nan,
            "text": np.array(["a"] * self.points),
            "infinite": honest.values + np.inf,
        }[self.what]
        return _Sent(honest.values, wrong)


@dataclass(frozen=True, eq=False)
class _Sent(Table):
    sent: Any = None

    def arrays(self) -> Any:
        return (self.sent,)


@pytest.mark.parametrize("what", ["shape", "NaN", "infinite", "text"])
def test_a_client_that_lies_is_missing_and_named(what: str) -> None:
    points = np.arange(4.0)[:, None]
    given = [fs.Client(f"c{i}", points, np.arange(4.0) + i) for i in range(3)]
    liar = fs.Client("liar", points[[1, 0, 2, 3]], np.zeros(4))
    boosted = fs.FFGB(fs.Squared(), Lying(1.0, 4, what), step_size=1.0, tikhonov=0.5)
    run = fs.run(boosted, [*given, liar], rounds=30, participation=fs.Participation(quorum=0.5), tolerance=0)
    np.testing.assert_allclose(run.model.decision_function(points), (np.arange(4.0) + 1) / 1.5, atol=1e-8)
    missing = dict(run.history[2].missing)
    assert list(missing) == ["liar"]
    assert missing["liar"]
    with pytest.raises(fs.errors.FedsolveError, match="liar"):
        fs.run(boosted, [*given, liar], rounds=3)


# ── other data ──


def test_sparse_and_torch_clients_learn_the_same() -> None:
    torch = pytest.importorskip("torch")
    X, y = table(60)
    X = np.where(np.abs(X) < 0.6, 0.0, X)

    def run(kind: Any, learner: Any) -> fs.Run:
        halves = [
            fs.Client(f"c{i}", kind(X[i::2]), y[i::2] if kind is not torch.tensor else torch.tensor(y[i::2]))
            for i in (0, 1)
        ]
        boosted = fs.FFGB(LOSS, learner, steps=2, step_size=0.5, tikhonov=0.1, initial="constant")
        return fs.run(boosted, fs.data.hold_out(halves, 0.2, seed=0), rounds=5, evaluation=fs.Evaluation(LOSS))

    for learner in (fs.RidgeLearner(0.1), fs.RidgeLearner(0.1, fs.RandomFourier(20, gamma=0.3, seed=1))):
        dense = run(np.asarray, learner)
        for kind in (sp.csr_array, torch.tensor):
            other = run(kind, learner)
            np.testing.assert_allclose(other.model.decision_function(X), dense.model.decision_function(X), atol=1e-10)
            assert other.history[-1].value == pytest.approx(dense.history[-1].value, rel=1e-10)
            assert other.evaluation is not None
            assert dense.evaluation is not None
            assert other.evaluation.value == pytest.approx(dense.evaluation.value, rel=1e-10)


def test_offsets_are_part_of_the_predictor() -> None:
    """With counts and exposures: a constant offset is the same as a constant taken off the function."""
    points = np.arange(5.0)[:, None]
    rng = np.random.default_rng(0)
    y = rng.poisson(4.0, size=(2, 5)).astype(float)
    boosted = fs.FFGB(fs.Poisson(), ScaleOracle(1.0, 5), step_size=0.1)
    plain = [fs.Client(f"c{i}", points, y[i]) for i in range(2)]
    shifted = [fs.Client(f"c{i}", points, y[i], offset=np.full(5, 0.7)) for i in range(2)]
    one, two = (fs.run(boosted, some, rounds=400, tolerance=0, measure=0) for some in (plain, shifted))
    f = one.model.decision_function(points)
    np.testing.assert_allclose(f, np.log(y.mean(axis=0)), atol=1e-8)
    np.testing.assert_allclose(two.model.decision_function(points) + 0.7, f, atol=1e-8)
    np.testing.assert_allclose(two.model.predict(points, offset=np.full(5, 0.7)), y.mean(axis=0), atol=1e-6)


def test_a_client_of_one_row() -> None:
    X, y = table(30)
    some = [fs.Client("one", X[:1], y[:1]), fs.Client("many", X[1:], y[1:])]
    run = fs.run(algorithm(), some, rounds=5)
    assert np.isfinite(run.model.predict_proba(X)).all()


def test_the_next_run_may_preprocess_otherwise() -> None:
    given = clients()
    evaluation = fs.Evaluation(LOSS)
    scaled = [fs.Client(c.name, 10.0 * c.X + 5.0, c.y) for c in given]
    given = fs.data.hold_out(scaled, 0.25, seed=2)
    for more in ({}, {"preprocess": fs.data.Preprocess()}, {}):
        run = fs.run(algorithm(), given, rounds=3, evaluation=evaluation, **more)
        assert run.evaluation is not None
        assert run.evaluation.value == fs.evaluate(run.model, clients_like(given), LOSS).value


def clients_like(given: list[fs.Client]) -> list[fs.Client]:
    """The same rows, as clients that have taken part in nothing."""
    return [
        one if one.held is None else fs.data.with_test_rows(fs.Client(one.name, one.X, one.y), one.held.X, one.held.y)
        for one in given
    ]


# ── bad settings ──


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fs.FFGB(fs.Logistic(l2=0.1), RIDGE), "tikhonov="),
        (lambda: fs.FFGB(fs.Logistic(l1=0.1), RIDGE), "tikhonov="),
        (lambda: fs.FFGB(fs.Logistic(intercept="free"), RIDGE), 'initial="constant"'),
        (lambda: fs.FFGB(fs.Squared(features=fs.Polynomial(2)), RIDGE), "learner"),
        (lambda: fs.FFGB(fs.Logistic, RIDGE), "takes a loss"),  # type: ignore[arg-type]
        (lambda: fs.FFGB(LOSS, "trees"), "weak learner"),  # type: ignore[arg-type]
        (lambda: fs.FFGB(LOSS, RIDGE, steps=0), "steps is a whole number"),
        (lambda: fs.FFGB(LOSS, RIDGE, step_size=0.0), "positive number"),
        (lambda: fs.FFGB(LOSS, RIDGE, step_size=float("nan")), "positive number"),
        (lambda: fs.FFGB(LOSS, RIDGE, step_size="theorem 4.1"), "needs tikhonov"),
        (lambda: fs.FFGB(LOSS, RIDGE, step_size="theorem 5"), "theorem 4.1"),  # type: ignore[arg-type]
        (lambda: fs.FFGB(LOSS, RIDGE, tikhonov=-1.0), "at least 0"),
        (lambda: fs.FFGB(LOSS, RIDGE, residual="all"), "residual is one of"),  # type: ignore[arg-type]
        (lambda: fs.FFGB(LOSS, RIDGE, initial="mean"), "initial is one of"),  # type: ignore[arg-type]
        (lambda: fs.FFGB(LOSS, RIDGE, weigh="rows"), "weigh is one of"),  # type: ignore[arg-type]
        (lambda: fs.RidgeLearner(-1.0), "l2 is a finite penalty"),
        (lambda: fs.RidgeLearner(features="rbf"), "feature map"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_mean_nothing(make: Any, words: str) -> None:
    with pytest.raises(fs.errors.ConfigError, match=words):
        make()


def test_a_warm_start_is_rejected() -> None:
    with pytest.raises(fs.errors.ConfigError, match="leave warm_start out"):
        fs.run(algorithm(), clients(), rounds=1, warm_start=np.zeros(3))
    model = fs.run(algorithm(), clients(), rounds=1).model
    with pytest.raises(fs.errors.ConfigError, match="no weights"):
        fs.run(fs.Newton(LOSS), clients(), rounds=1, warm_start=model)
    with pytest.raises(fs.errors.ConfigError, match="no weights"):
        fs.run(algorithm(), clients(), rounds=1, warm_start=model)


def test_a_run_begins_anew() -> None:
    """What a client keeps of one run is not taken for another's."""
    given = clients()
    first, other, again = (fs.run(algorithm(steps=k), given, rounds=4) for k in (2, 3, 2))
    assert same(first, again)
    assert not same(first, other)
