"""What a run asks before it says "converged", and that asking disturbs nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.federation.federation import Federation
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))
Y = (RNG.random(300) < 1 / (1 + np.exp(-X @ RNG.standard_normal(5)))).astype(float)


def clients(k: int = 3, **options: Any) -> list[fs.Client]:
    return [fs.Client(f"c{i}", X[i::k], Y[i::k], **options) for i in range(k)]


@pytest.mark.parametrize("algorithm", [fs.FedNewtonCG, fs.GIANT, fs.Newton])
@pytest.mark.parametrize("options", [{"dropout": 0.1}, {"fraction": 0.5}])
def test_a_round_without_someone_is_no_standstill(algorithm: type, options: dict[str, float]) -> None:
    for seed in range(6):
        run = fs.run(
            algorithm(fs.Logistic(l2=1e-2)), clients(), participation=fs.Participation(**options), seed=seed, rounds=40
        )
        assert run.status != "tolerance unattainable", run.message


def quasi_separable(p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1500, p))
    y = (rng.random(1500) < 1 / (1 + np.exp(-features[:, :80] @ rng.standard_normal(80) * 0.2))).astype(float)
    level = (np.arange(1500) % 50 == 0).astype(float)
    return np.c_[features, level], np.where(level > 0, 1.0, y)


@pytest.mark.parametrize("p", [80, 260])  # below and above the order of a Hessian that is asked for whole
@pytest.mark.parametrize("algorithm", [fs.GIANT, fs.SHED, fs.FedNewtonCG])
def test_no_minimum_in_many_columns(algorithm: type, p: int) -> None:
    features, y = quasi_separable(p)
    parts = [fs.Client(f"c{i}", features[i::3], y[i::3]) for i in range(3)]
    run = fs.run(algorithm(fs.Logistic()), parts, rounds=100, tolerance=1e-6)
    assert run.status != "converged", run.message


@pytest.mark.parametrize("algorithm", [fs.AGD, fs.Newton, fs.GIANT, fs.FedNewtonCG])
def test_no_minimum_where_even_the_curvature_is_rounding(algorithm: type) -> None:
    y = (X[:, 0] > 0).astype(float)
    parts = [fs.Client(f"c{i}", X[i::3], y[i::3]) for i in range(3)]
    run = fs.run(algorithm(fs.Logistic()), parts, warm_start=np.array([1000.0, 0, 0, 0, 0]))
    assert run.status == "diverged"
    assert run.certificate is None


def test_a_link_just_wide_enough_for_the_algorithm_is_enough() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 100))
    y = (rng.random(2000) < 1 / (1 + np.exp(-features @ rng.standard_normal(100) * 0.2))).astype(float)

    def run(link: fs.Link | None) -> fs.Run:
        parts = [fs.Client(f"c{i}", features[i::3], y[i::3], link=link) for i in range(3)]
        return fs.run(fs.AGD(fs.Logistic(l2=1e-2, intercept="free")), parts)

    free = run(None)
    per_round = max(b.bytes_up - a.bytes_up for a, b in zip(free.history, free.history[1:], strict=False)) // 3 + 1
    narrow = run(fs.Link(bytes_per_round=per_round + 64))
    assert free.converged
    assert narrow.converged
    assert np.array_equal(free.model.w, narrow.model.w)


def test_a_free_intercept_is_confirmed_by_one_product() -> None:
    features = np.random.default_rng(0).standard_normal((600, 300))
    y = (features[:, 0] > 0.3 * np.random.default_rng(1).standard_normal(600)).astype(float)
    parts = [fs.Client(f"c{i}", features[i::3], y[i::3]) for i in range(3)]
    run = fs.run(fs.SHED(fs.Logistic(l2=1e-2, intercept="free")), parts)
    assert run.converged
    calls = {call for call, purpose in run.ledger.by_call() if purpose == "measure"}
    assert "inspect.product" in calls
    assert not calls & {"inspect.hessian", "inspect.diagonal"}


def test_what_was_asked_for_is_honoured() -> None:
    by_gap = fs.run(fs.GIANT(fs.Logistic(l2=1e-2)), clients(), stopping=fs.Stopping(tolerance=None, gap=1e-2))
    assert by_gap.converged
    assert by_gap.history[-2].gap > 1e-2 >= by_gap.history[-1].gap
    loose = fs.run(fs.FedAvg(fs.Logistic(l2=1e-3)), clients(), tolerance=1e-2)
    assert loose.converged
    assert loose.history[-2].relative_gradient > 1e-2 >= loose.history[-1].relative_gradient


def test_no_convergence_after_a_missed_quorum() -> None:
    y = (X[:, 0] > 0).astype(float)
    cuts = ((0, 200), (200, 250), (250, 300))
    parts = [fs.Client(f"c{i}", X[a:b], y[a:b]) for i, (a, b) in enumerate(cuts)]
    policy = fs.Participation(fraction=0.67, quorum=0.5)
    start = np.array([500.0, 0, 0, 0, 0])
    run = fs.run(fs.AGD(fs.Logistic()), parts, tolerance=1e-3, warm_start=start, participation=policy)
    assert run.status != "converged"


class RealLosses(fs.Participation):
    """Losses that no seed decides."""

    chance = random.Random(0)

    @property
    def simulates_losses(self) -> bool:
        return True

    def arrives(self, *_: Any) -> bool:
        return self.chance.random() > 0.04


@pytest.mark.parametrize("algorithm", [fs.FedNewton, fs.Scaffold, fs.AGD])
def test_a_replay_of_the_cohorts_gives_the_run_with_its_questions(algorithm: type) -> None:
    for seed in range(8):
        RealLosses.chance = random.Random(seed)
        options: dict[str, Any] = {"tolerance": 3e-3, "seed": seed, "rounds": 30}
        run = fs.run(algorithm(fs.Logistic()), clients(5), participation=RealLosses(), **options)
        again = fs.run(
            algorithm(fs.Logistic()), clients(5), participation=fs.Replay(cohorts=run.ledger.cohorts()), **options
        )
        assert np.array_equal(run.model.w, again.model.w)
        assert run.status == again.status


def test_on_round_sees_the_rows_of_the_history() -> None:
    seen: list[Any] = []
    run = fs.run(fs.GIANT(fs.Logistic()), clients(), on_round=seen.append)
    assert seen == run.history


@dataclass(frozen=True)
class Known:
    gradient: Array
    point: Array


@dataclass(frozen=True)
class WithoutW:
    """An algorithm whose state has no `w`, and that knows how good it is."""

    loss: fs.Logistic

    def start(self, fed: Federation) -> Known:
        return Known(np.ones(5), np.zeros(5))

    def round(self, fed: Federation, state: Known) -> Known:
        return Known(0.1 * state.gradient, state.point + 1)

    def measured(self, state: Known) -> Measurement:
        return Measurement(1.0, state.gradient)

    def model(self, state: Known) -> LinearModel:
        return self.loss.model(state.point)


def test_a_state_without_w_is_measured_and_ends() -> None:
    assert fs.run(WithoutW(fs.Logistic()), clients(), rounds=3).status == "rounds"
    assert fs.run(WithoutW(fs.Logistic()), clients(), rounds=50).status == "converged"


@pytest.mark.parametrize("wrong", [{"rounds": 4.5}, {"rounds": True}, {"tolerance": "1e-8"}, {"rounds": "5"}])
def test_limits_are_numbers(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients(), **wrong)
    with pytest.raises(ConfigError):
        fs.Stopping(**wrong)


def test_one_client_given_by_itself() -> None:
    with pytest.raises(ConfigError, match="list"):
        fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients()[0])
