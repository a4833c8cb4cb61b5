"""Stopping rules are parts: prepared before the first round, asked about each, combined, and resumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.algorithms.base import Algorithm
from fedsolve.algorithms.fedavg import State
from fedsolve.loop.history import Row
from fedsolve.typing import Array
from tests.loop.kinds import KMeans
from tests.loop.kinds import clients as clouds
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | label-skewed"]
SLOW = fs.FedAvg(PROBLEM.loss, fs.GradientSteps(1, step_size=0.3))


@dataclass(frozen=True)
class After:
    """Ends after so many rounds, and writes down what it was asked."""

    rounds: int
    asked: list[Any] = field(default_factory=list, compare=False)

    def prepare(self, fed: fs.Federation, algorithm: Algorithm, state: Any) -> After:
        self.asked.append(("prepared", fed.round, type(algorithm).__name__, state.w.shape))
        return self

    def judge(self, row: Row, state: Any) -> fs.Verdict | None:
        self.asked.append((row.round, row.value is not None, state))
        return fs.Verdict("enough", f"{self.rounds} rounds") if row.round >= self.rounds else None


def test_a_rule_is_prepared_once_and_asked_about_every_row_before_and_after_it_is_measured() -> None:
    rule = After(3)
    run = fs.run(SLOW, PROBLEM.clients(), stopping=rule)
    assert (run.status, run.message, run.rounds) == ("enough", "3 rounds", 3)
    assert run.history[-1].value is not None  # the last one is measured all the same
    assert rule.asked[0] == ("prepared", 0, "FedAvg", (6,))
    assert [one[:2] for one in rule.asked[1:]] == [(k, done) for k in range(4) for done in (False, True)]
    assert run.state is rule.asked[-1][2]


def test_rules_are_combined_and_the_first_verdict_counts() -> None:
    assert fs.run(SLOW, PROBLEM.clients(), stopping=[fs.Stopping(rounds=2), After(5)]).status == "rounds"
    assert fs.run(SLOW, PROBLEM.clients(), stopping=(After(2), fs.Stopping(rounds=5))).status == "enough"
    # Without limits of its own a run has the usual ones, or those given beside the rule.
    assert fs.run(SLOW, PROBLEM.clients(), rounds=3, stopping=After(9)).status == "rounds"
    assert fs.run(fs.Newton(PROBLEM.loss), PROBLEM.clients(), stopping=After(90)).converged


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stopping": fs.Stopping(), "rounds": 3}, "either stopping"),
        ({"stopping": [fs.Stopping(), fs.Stopping()]}, "several Stopping"),
        ({"stopping": fs.Stopping}, "stopping takes Stopping"),
        ({"stopping": 5}, "list of stopping rules"),
        ({"stopping": "converged"}, "list of stopping rules"),
        ({"stopping": [fs.Stopping(), 1e-3]}, "rules with prepare"),
        ({"stopping": [fs.Patience(), fs.Patience]}, "rules with prepare"),
    ],
)
def test_what_is_no_rule_is_rejected(given: dict[str, Any], said: str) -> None:
    with pytest.raises(fs.errors.ConfigError, match=said):
        fs.run(SLOW, PROBLEM.clients(), **given)


@dataclass(frozen=True)
class Largest:
    """A rule that asks the clients something of its own."""

    most: float

    @fs.client_step
    def largest(self, client: fs.Client, w: Array) -> float:
        return float(np.abs(w).max())

    def prepare(self, fed: fs.Federation, algorithm: Algorithm, state: Any) -> Any:
        rule = self

        class Judge:
            def judge(self, row: Row, state: Any) -> fs.Verdict | None:
                if row.value is not None:
                    return None
                ((found,), _) = fed.measure(fs.Mean(rule.largest, w=state.w))
                return fs.Verdict("large", f"a weight of {found:.3f}") if found > rule.most else None

        return Judge()


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_a_rule_may_have_client_steps(transport: str) -> None:
    run = fs.run(SLOW, PROBLEM.clients(), rounds=50, tolerance=0, stopping=Largest(0.3), transport=transport)
    assert run.status == "large"
    assert np.abs(run.model.w).max() > 0.3
    calls = {entry.call for entry in run.ledger.entries() if entry.purpose == "measure"}
    assert "stopping.1.largest" in calls


# ── patience ──


@dataclass(frozen=True)
class Zigzag(fs.FedAvg):
    """Falls for some rounds, then rises: what overfitting looks like on held-out rows."""

    turn: int = 4

    def round(self, fed: fs.Federation, state: State) -> State:
        following = super().round(fed, state)
        if fed.round <= self.turn:
            return following
        return State(0.7 * state.w, state.step_size)


def zigzag() -> Zigzag:
    return Zigzag(PROBLEM.loss, fs.GradientSteps(1, step_size=0.3))


def test_patience_hands_back_the_best_state() -> None:
    run = fs.run(zigzag(), PROBLEM.clients(), rounds=50, stopping=fs.Patience(3))
    plain = fs.run(zigzag(), PROBLEM.clients(), rounds=4)
    assert run.status == "patience"
    assert "that of round 4" in run.message
    assert run.rounds == 7  # of the history; the model is of round 4
    assert run.model.w.tobytes() == plain.model.w.tobytes()
    assert run.certificate is None  # what was certified is another State


@pytest.mark.parametrize("stop", [2, 5, 6])
def test_patience_survives_a_checkpoint(tmp_path: Path, stop: int) -> None:
    whole = fs.run(zigzag(), PROBLEM.clients(), rounds=50, stopping=fs.Patience(3))
    file = tmp_path / "run"
    first = fs.run(zigzag(), PROBLEM.clients(), rounds=stop, stopping=fs.Patience(3), checkpoint=file)
    assert first.status == "rounds"
    again = fs.run(zigzag(), PROBLEM.clients(), rounds=50, stopping=fs.Patience(3), checkpoint=file, resume=True)
    assert (again.status, again.message, again.rounds) == (whole.status, whole.message, whole.rounds)
    assert again.model.w.tobytes() == whole.model.w.tobytes()


def test_patience_needs_no_weights() -> None:
    run = fs.run(KMeans(), clouds(), rounds=60, stopping=fs.Patience(2))
    assert run.status == "patience"
    assert run.rounds < 60


def test_patience_waits_while_there_is_progress() -> None:
    run = fs.run(SLOW, PROBLEM.clients(), rounds=15, tolerance=0, stopping=fs.Patience(1))
    assert (run.status, run.rounds) == ("rounds", 15)
    small = fs.run(SLOW, PROBLEM.clients(), rounds=50, tolerance=0, stopping=fs.Patience(2, least=0.5))
    assert small.status == "patience"


@pytest.mark.parametrize("given", [{"rounds": 0}, {"rounds": 1.5}, {"least": -0.1}, {"least": 1.0}])
def test_patience_checks_its_arguments(given: dict[str, Any]) -> None:
    with pytest.raises(fs.errors.ConfigError):
        fs.Patience(**given)


# ── patience on held-out rows ──


def held(seed: int = 0) -> list[fs.Client]:
    return fs.data.hold_out(PROBLEM.clients(), 0.4, seed)


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_early_stopping_by_held_out_rows(transport: str) -> None:
    rule = fs.Patience(2, evaluation=fs.Evaluation(PROBLEM.loss))
    run = fs.run(zigzag(), held(), rounds=30, stopping=rule, transport=transport)
    assert run.status == "patience"
    assert "held-out" in run.message
    losses = []
    for rounds in range(run.rounds + 1):
        earlier = fs.run(zigzag(), held(), rounds=rounds, tolerance=0)
        losses.append(fs.evaluate(earlier.model, held(), PROBLEM.loss).value)
    best = int(np.argmin(losses))
    assert f"that of round {best}" in run.message
    assert fs.evaluate(run.model, held(), PROBLEM.loss).value == losses[best]
    assert run.rounds == best + 2


def test_early_stopping_is_resumed_and_asks_no_row_twice(tmp_path: Path) -> None:
    rule = fs.Patience(2, evaluation=fs.Evaluation(PROBLEM.loss))
    whole = fs.run(zigzag(), held(), rounds=30, stopping=rule)
    fs.run(zigzag(), held(), rounds=4, stopping=rule, checkpoint=tmp_path / "run")
    again = fs.run(zigzag(), held(), rounds=30, stopping=rule, checkpoint=tmp_path / "run", resume=True)
    assert (again.message, again.rounds) == (whole.message, whole.rounds)

    def asked(run: fs.Run) -> int:
        return sum("stopping.1.evaluation.held_sums" in record.calls for record in run.ledger.records)

    assert asked(again) == asked(whole) == whole.rounds + 1


def test_a_model_without_weights_is_judged_by_held_out_rows_too() -> None:
    """It is sent whole. The clusters' numbers stand for no target here, and soon nothing gets better."""
    held_clouds = fs.data.hold_out(clouds(), 0.3)
    run = fs.run(KMeans(), held_clouds, rounds=60, stopping=fs.Patience(2, evaluation=fs.Evaluation(fs.Squared())))
    assert run.status == "patience"


# ── patience by other figures, and where something else ends the run ──


@pytest.mark.parametrize("metric", ["accuracy", "auc", "brier", "deviance", "calibration_error"])
def test_patience_judges_by_any_figure(metric: str) -> None:
    rule = fs.Patience(3, evaluation=fs.Evaluation(PROBLEM.loss), metric=metric)
    run = fs.run(zigzag(), held(), rounds=30, tolerance=0, stopping=rule, evaluation=fs.Evaluation(PROBLEM.loss))
    seen = [row.held_out[metric] for row in run.history if row.held_out]
    if metric == "auc":  # the history has it in the coarse bins of one exchange
        earlier = [fs.run(zigzag(), held(), rounds=rounds, tolerance=0).model for rounds in range(run.rounds + 1)]
        seen = [fs.evaluate(one, held(), PROBLEM.loss).auc for one in earlier]
    best = int(np.argmax(seen) if metric in ("accuracy", "auc") else np.argmin(seen))
    assert (run.status, run.rounds) == ("patience", best + 3)
    assert f"that of round {best}" in run.message
    assert f"{metric} on held-out rows has not {'risen' if metric in ('accuracy', 'auc') else 'fallen'}" in run.message


def test_a_figure_that_there_is_not_is_rejected() -> None:
    for given, said in (
        ({"evaluation": fs.Evaluation(fs.Squared()), "metric": "auc"}, "one of value, error, deviance"),
        ({"evaluation": fs.Evaluation(fs.Logistic()), "metric": "speed"}, "metric is one of"),
        ({"metric": "auc"}, "is of held-out rows"),
    ):
        with pytest.raises(fs.errors.ConfigError, match=said):
            fs.Patience(**given)


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_budget_hands_back_the_best_state_too(evaluated: bool) -> None:
    rule = fs.Patience(30, evaluation=fs.Evaluation(PROBLEM.loss) if evaluated else None)
    run = fs.run(zigzag(), held(), rounds=9, tolerance=0, stopping=rule)
    runs = [fs.run(zigzag(), held(), rounds=rounds, tolerance=0) for rounds in range(10)]
    values = [
        fs.evaluate(one.model, held(), PROBLEM.loss).value if evaluated else one.history[-1].value for one in runs
    ]
    best = int(np.argmin(values))
    assert best < 9
    assert (run.status, run.rounds) == ("rounds", 9)
    assert f"the model is that of round {best}" in run.message
    assert run.model.w.tobytes() == runs[best].model.w.tobytes()
    assert run.certificate is None


def test_the_last_state_may_be_the_best() -> None:
    run = fs.run(zigzag(), held(), rounds=3, tolerance=0, stopping=fs.Patience(30))
    assert "the model is that of" not in run.message
    assert run.model.w.tobytes() == fs.run(zigzag(), held(), rounds=3, tolerance=0).model.w.tobytes()


def test_a_resumed_run_knows_its_rules_by_what_they_are(tmp_path: Path) -> None:
    """Their order may change, and the limits; a rule that kept a State may not be left out or changed."""
    short, long = fs.Patience(3), fs.Patience(20, least=0.4)
    whole = fs.run(zigzag(), PROBLEM.clients(), stopping=[fs.Stopping(50), short, long])
    file = tmp_path / "run"
    fs.run(zigzag(), PROBLEM.clients(), stopping=[fs.Stopping(5), short, long], checkpoint=file)

    def again(*rules: Any) -> fs.Run:
        return fs.run(zigzag(), PROBLEM.clients(), stopping=[*rules], checkpoint=file, resume=True)

    for rules in ((fs.Stopping(50),), (fs.Stopping(50), short), (fs.Stopping(50), fs.Patience(3, least=0.1), long)):
        with pytest.raises(fs.errors.ConfigError, match=r"stopping rule .*Patience.*which this run does not have"):
            again(*rules)
    resumed = again(long, fs.Patience(7), short, fs.Stopping(60))
    assert (resumed.status, resumed.message, resumed.rounds) == (whole.status, whole.message, whole.rounds)
    assert resumed.model.w.tobytes() == whole.model.w.tobytes()
