"""The stopping time of Su, Xu and Yang as a rule of a run: on the kernel min(x, z) it ends near the best round."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.loop.early_stopping import EarlyStopping, StoppingTime
from fedsolve.numerics.early_stopping import stopping_round, stopping_time
from tests.extras import optional

SIGMA, N = 0.5, 200
RNG = np.random.default_rng(3)
POINTS = np.sort(RNG.uniform(size=N))
KERNEL = np.minimum.outer(POINTS, POINTS)
FEATURES = np.linalg.cholesky(KERNEL + 1e-13 * np.eye(N))  # ΦΦᵀ = K: the kernel's own features at these rows
TRUTH = np.abs(POINTS - 0.5) - 0.5  # of norm 1 in the space of this kernel
TARGETS = TRUTH[:, None] + SIGMA * RNG.standard_normal((N, 60))  # a column for each trial
PARTS = np.split(RNG.permutation(N), [90, 150, 185])  # four clients, unbalanced
SPECTRUM = np.linalg.eigvalsh(KERNEL / N)
STEP = 0.9 / max(np.linalg.eigvalsh(KERNEL[np.ix_(part, part)] / len(part))[-1] for part in PARTS)


def clients(targets: np.ndarray = TARGETS, features: np.ndarray = FEATURES) -> list[fs.Client]:
    return [fs.Client(f"site-{i}", features[part], targets[part]) for i, part in enumerate(PARTS)]


@dataclass(frozen=True)
class Risks:
    """Writes down the error at all rows after each round."""

    found: list[float] = field(default_factory=list, compare=False)

    def prepare(self, fed: Any, algorithm: Any, state: Any) -> Risks:
        return self

    def judge(self, row: Any, state: Any) -> None:
        if row.value is None:
            self.found.append(float(np.mean((FEATURES @ state.w - TRUTH[:, None]) ** 2)))


LOSS = fs.Squared()
METHODS = {
    "FedAvg, s = 1": (fs.FedAvg(LOSS, fs.GradientSteps(1, step_size=STEP)), STEP, 1),
    "FedAvg, s = 5": (fs.FedAvg(LOSS, fs.GradientSteps(5, step_size=STEP / 4)), STEP / 4, 5),
    "FedProx": (fs.FedProx(LOSS, pull=1 / STEP), STEP, 1),
}


@pytest.mark.parametrize(("algorithm", "step", "steps"), METHODS.values(), ids=METHODS)
def test_the_error_at_the_stopping_time_is_near_the_best(algorithm: Any, step: float, steps: int) -> None:
    """At most 1.3 times the least error that any round has, over 60 draws of the noise: with the paper's rule, which
    knows σ and takes the norm for 1 as it is, and with both estimated."""
    run = fs.run(algorithm, clients(), stopping=[fs.Stopping(500, None), EarlyStopping(LOSS, SIGMA, norm=1)])
    assert run.status == "early stopping"
    assert run.rounds == stopping_round(SPECTRUM, SIGMA, N, step, steps)
    every = Risks()
    fs.run(algorithm, clients(), stopping=[fs.Stopping(150, None), every], measure=0)
    assert np.argmin(every.found) < 149
    reached = float(np.mean((FEATURES @ run.model.w - TRUTH[:, None]) ** 2))
    assert reached == every.found[run.rounds]
    assert reached <= 1.3 * min(every.found)
    # How far it went is the same for all, up to the length of a round.
    assert 0 <= stopping_time(SPECTRUM, SIGMA, N) - step * steps * run.rounds < step * steps
    usual = fs.run(algorithm, clients(), stopping=[fs.Stopping(500, None), EarlyStopping(LOSS)])
    assert usual.status == "early stopping"
    assert every.found[usual.rounds] <= 1.3 * min(every.found)


def test_the_noise_is_estimated_from_residuals() -> None:
    """Without it the features could fit every target; all trials together know it to a few per cent."""
    run = fs.run(METHODS["FedProx"][0], clients(), stopping=[fs.Stopping(500, None), EarlyStopping(LOSS)])
    found = found_for(clients(), EarlyStopping(LOSS))
    assert found.sigma == pytest.approx(SIGMA, rel=0.05)
    assert run.rounds == stopping_round(SPECTRUM, found.sigma, N, STEP, norm=found.norm)
    assert found.norm == pytest.approx(1, rel=0.1)


def found_for(parts: list[fs.Client], rule: EarlyStopping, step_size: float = 0.5) -> StoppingTime:
    with fs.Session(parts, also={"rule": rule}) as session:
        session.open({})
        session.join()
        return rule.when(session.fed, step_size)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 5.0])
def test_with_many_rows_the_noise_is_that_of_least_squares(sigma: float) -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((400, 5))
    y = X @ rng.standard_normal(5) + 1.0 + sigma * rng.standard_normal(400)
    full = np.c_[X, np.ones(400)]
    residuals = y - full @ np.linalg.lstsq(full, y)[0]
    parts = [fs.Client(f"c{i}", X[i::3], y[i::3]) for i in range(3)]
    found = found_for(parts, EarlyStopping(fs.Squared(intercept="free")))
    assert found.sigma == pytest.approx(np.sqrt(residuals @ residuals / 394), rel=1e-9)


def test_the_noise_is_recovered_on_average() -> None:
    """Features that can fit everything: over 40 smooth targets the estimate is right within two standard errors and
    the bias that smoothing leaves, 5 %."""
    y = TRUTH[:, None] + SIGMA * np.random.default_rng(1).standard_normal((N, 40))
    each = [found_for(clients(one), EarlyStopping(LOSS)).sigma for one in y.T]
    assert abs(np.mean(each) - SIGMA) <= 0.05 * SIGMA + 2 * np.std(each) / np.sqrt(40)
    assert min(each) > 0.5 * SIGMA


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 0.1, 7.0, 1e3, 1e6])
def test_the_time_is_free_of_units(unit: float) -> None:
    """Of targets, of weights, and of features with a step size in their units. The paper's rule, for norm 1, is not."""
    rule, loss = EarlyStopping(LOSS), fs.Squared(intercept="free")
    one, other = found_for(clients(), rule), found_for(clients(unit * TARGETS), rule)
    assert one.rounds == other.rounds
    assert (other.sigma, other.norm) == pytest.approx((unit * one.sigma, unit * one.norm), rel=1e-9)
    assert found_for(clients(unit * TARGETS), EarlyStopping(LOSS, norm=1)).rounds != one.rounds
    # Rows that least squares could fit often enough, and those that it could not.
    for parts, scaled in (
        (clients(TARGETS[:, 0]), clients(TARGETS[:, 0], unit * FEATURES)),
        (weighted(), [fs.Client(c.name, unit * c.X, c.y, c.sample_weight, offset=c.offset) for c in weighted()]),
    ):
        expected = found_for(parts, rule)
        assert found_for(scaled, rule, 0.5 / unit**2).rounds == expected.rounds
    expected = found_for(weighted(), EarlyStopping(loss))
    again = found_for(weighted(unit), EarlyStopping(loss))
    assert again.rounds == expected.rounds
    assert (again.sigma, again.norm) == pytest.approx((np.sqrt(unit) * expected.sigma, expected.norm), rel=1e-9)
    assert found_for(weighted(scale=unit), EarlyStopping(loss)).rounds == expected.rounds


def test_a_warm_start_leaves_less_to_learn() -> None:
    """B is the distance from the start: that of the residuals' own problem, which a start at zero would have."""
    start = np.linalg.solve(FEATURES.T @ FEATURES / N + 0.01 * np.eye(N), FEATURES.T @ TARGETS / N)
    rule = EarlyStopping(LOSS)
    run = fs.run(METHODS["FedProx"][0], clients(), stopping=[fs.Stopping(500, None), rule], warm_start=start)
    rest = found_for(clients(TARGETS - FEATURES @ start), rule)
    assert run.status == "early stopping"
    assert run.rounds == stopping_round(SPECTRUM, rest.sigma, N, STEP, norm=rest.norm)
    assert rest.norm < found_for(clients(), rule).norm / 2
    # With a start at what was learned from the same rows nothing is left.
    assert run.rounds < fs.run(METHODS["FedProx"][0], clients(), rounds=500, stopping=rule).rounds


def test_with_noise_and_norm_given_nothing_is_asked_about_targets() -> None:
    def asked(rule: EarlyStopping) -> set[str]:
        run = fs.run(METHODS["FedProx"][0], clients(), stopping=[fs.Stopping(2, None), rule])
        return {call.split(".")[-1] for call, purpose in run.ledger.by_call() if purpose == "setup"}

    assert asked(EarlyStopping(LOSS)) - asked(EarlyStopping(LOSS, SIGMA, 1.0)) == {"remaining"}
    assert asked(EarlyStopping(LOSS, SIGMA)) == asked(EarlyStopping(LOSS, norm=1)) == asked(EarlyStopping(LOSS))


def test_no_noise_no_stop() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    parts = [fs.Client(f"c{i}", X[i::3], X[i::3] @ [1.0, 2.0, 3.0]) for i in range(3)]
    run = fs.run(fs.FedAvg(LOSS), parts, rounds=3000, stopping=EarlyStopping(LOSS))
    assert run.converged
    run = fs.run(fs.FedAvg(LOSS), parts, rounds=3, stopping=EarlyStopping(LOSS))
    assert "no noise was found" in run.message


def weighted(unit: float = 1.0, kind: Any = np.asarray, scale: float = 1.0) -> list[fs.Client]:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((90, 4)) * [1.0, 0.6, 0.3, 0.1]
    s = rng.integers(1, 4, 90).astype(float)
    y = X @ [0.5, -0.5, 0.5, 0.5] + 0.3 * rng.standard_normal(90) / np.sqrt(s) + 1.0
    offset = 0.3 * X[:, 0]
    parts = np.split(np.arange(90), [60, 89])  # the last client has one row
    return [
        fs.Client(f"c{i}", kind(X[p]), scale * (y + offset)[p], unit * s[p], offset=scale * offset[p])
        for i, p in enumerate(parts)
    ]


def times(parts: list[fs.Client], rule: EarlyStopping, transport: str = "in_process") -> tuple[Any, int]:
    algorithm = fs.FedProx(rule.loss, pull=2.0)
    run = fs.run(algorithm, parts, stopping=[fs.Stopping(4000, None), rule], transport=transport)
    assert run.status == "early stopping"
    return run.model.w, run.rounds


def test_weights_offsets_and_an_intercept() -> None:
    """N is the sum of the weights, and the noise of a row of weight s is σ/√s."""
    loss = fs.Squared(intercept="free")
    _, rounds = times(weighted(), EarlyStopping(loss, 0.3, 1))
    X = np.vstack([np.c_[c.X, np.ones(c.n_samples)] for c in weighted()])
    s = np.concatenate([c.sample_weight for c in weighted()])
    spectrum = np.linalg.eigvalsh((X.T * s) @ X / s.sum())
    assert rounds == stopping_round(spectrum, 0.3, s.sum(), 0.5)
    # Residuals of rows in units of their weights, y without its offset.
    y = np.concatenate([c.y - c.offset for c in weighted()])
    root = np.sqrt(s)
    residual = root * y - (root[:, None] * X) @ np.linalg.lstsq(root[:, None] * X, root * y)[0]
    found = found_for(weighted(), EarlyStopping(loss))
    assert found.sigma == pytest.approx(np.sqrt(residual @ residual / (len(y) - 5)), rel=1e-9)


def test_torch_sparse_and_worker_processes() -> None:
    loss = fs.Squared(intercept="free")
    w, rounds = times(weighted(), EarlyStopping(loss))
    other, same = times(weighted(kind=sp.csr_array), EarlyStopping(loss))
    assert same == rounds
    np.testing.assert_allclose(other, w, rtol=1e-10)
    there, same = times(weighted(), EarlyStopping(loss), "processes")
    assert (there.tobytes(), same) == (w.tobytes(), rounds)
    torch = optional("torch")
    parts = [
        fs.Client(c.name, *map(torch.asarray, (c.X, c.y, c.sample_weight)), offset=torch.asarray(c.offset))
        for c in weighted()
    ]
    other, same = times(parts, EarlyStopping(loss))
    assert same == rounds
    np.testing.assert_allclose(other, w, rtol=1e-10)


def test_a_resumed_run_ends_at_the_same_round(tmp_path: Path) -> None:
    algorithm, rule = METHODS["FedAvg, s = 5"][0], EarlyStopping(LOSS, SIGMA)
    whole = fs.run(algorithm, clients(), stopping=[fs.Stopping(500, None), rule])
    first = fs.run(algorithm, clients(), stopping=[rule, fs.Stopping(4, None)], checkpoint=tmp_path / "run")
    assert (first.status, f"the time to stop early is round {whole.rounds}" in first.message) == ("rounds", True)
    again = fs.run(
        algorithm, clients(), stopping=[fs.Stopping(500, None), rule], checkpoint=tmp_path / "run", resume=True
    )
    assert (again.rounds, again.message) == (whole.rounds, whole.message)
    assert again.model.w.tobytes() == whole.model.w.tobytes()


def test_noise_that_hides_everything_ends_the_run_at_once() -> None:
    run = fs.run(METHODS["FedProx"][0], clients(), stopping=EarlyStopping(LOSS, sigma=100.0))
    assert (run.status, run.rounds) == ("early stopping", 0)
    assert "take a step size below" in run.message


def test_what_the_theory_does_not_cover_is_rejected() -> None:
    with pytest.raises(ConfigError, match="is for the squared loss"):
        EarlyStopping(fs.Logistic())  # type: ignore[arg-type]
    for loss in (fs.Squared(l2=0.1), fs.Squared(l1=0.1)):
        with pytest.raises(ConfigError, match="l2 = 0 and l1 = 0"):
            EarlyStopping(loss)
    for given in ({"sigma": 0.0}, {"sigma": float("nan")}, {"norm": 0.0}, {"norm": "estimated"}, {"norm": True}):
        with pytest.raises(ConfigError, match=f"{next(iter(given))} is a positive number"):
            EarlyStopping(LOSS, **given)
    for algorithm, said in (
        (fs.Newton(LOSS), "Newton does not say"),
        (fs.Scaffold(LOSS), "Scaffold does not say"),
        (fs.FedAvg(LOSS, fs.GradientSteps(2, step_size=0.1, batch_size=5)), "gradient steps on all samples"),
        (fs.FedAvg(fs.Squared(intercept="free")), "give both the same"),
    ):
        with pytest.raises(ConfigError, match=said):
            fs.run(algorithm, clients(TARGETS[:, 0]), stopping=EarlyStopping(LOSS, 0.5))


def test_on_features_of_the_kernel_itself() -> None:
    """Nyström features of all rows span what the kernel does: the same spectrum, the same time, the same error."""
    loss = fs.Squared(features=fs.Nystroem(POINTS[:, None], kernel=fs.features.Sobolev()))
    parts = [fs.Client(f"site-{i}", POINTS[part][:, None], TARGETS[part]) for i, part in enumerate(PARTS)]
    limits = fs.Stopping(500, None)
    run = fs.run(
        fs.FedAvg(loss, fs.GradientSteps(1, step_size=STEP)), parts, stopping=[limits, EarlyStopping(loss, SIGMA)]
    )
    plain = fs.run(METHODS["FedAvg, s = 1"][0], clients(), stopping=[limits, EarlyStopping(LOSS, SIGMA)])
    assert run.rounds == plain.rounds
    np.testing.assert_allclose(run.model.predict(POINTS[:, None]), FEATURES @ plain.model.w, atol=1e-8)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_numbers_that_overflow_are_named() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    for inputs, targets, said in ((1e160 * X, y, "squares of the features"), (X, 1e160 * y, "are the targets")):
        parts = [fs.Client(f"c{i}", inputs[i::3], targets[i::3]) for i in range(3)]
        with pytest.raises(DataError, match=said):
            found_for(parts, EarlyStopping(LOSS))


@pytest.mark.parametrize("kind", ["no targets", "no features", "nothing left", "more columns than rows"])
def test_problems_with_nothing_to_learn(kind: str) -> None:
    """Without noise or features there is nothing to stop for; where only noise is left the run does not begin."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 200 if kind == "more columns than rows" else 4))
    y, start = rng.standard_normal(30), None
    if kind == "nothing left":
        start = np.linalg.lstsq(X, y)[0]
    X, y = (0 if kind == "no features" else 1) * X, (0 if kind == "no targets" else 1) * y
    parts = [fs.Client(f"c{i}", X[i::3], y[i::3]) for i in range(3)]
    stopping = [fs.Stopping(5, None), EarlyStopping(LOSS)]
    run = fs.run(fs.FedProx(LOSS), parts, stopping=stopping, warm_start=start)
    expected = ("early stopping", 0) if kind in ("nothing left", "more columns than rows") else ("rounds", 5)
    assert (run.status, run.rounds) == expected


def test_a_run_that_never_stops_early_can_be_resumed(tmp_path: Path) -> None:
    """T beyond what a checkpoint holds is no T."""
    loss = fs.Squared()
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{k}", rng.standard_normal((30, 3)), rng.standard_normal(30)) for k in range(2)]
    rule = fs.EarlyStopping(loss, sigma=1e-14, norm=1.0)
    algorithm = fs.FedAvg(loss, fs.GradientSteps(1, step_size=0.1))
    fs.run(algorithm, clients, rounds=3, tolerance=0, stopping=rule, checkpoint=tmp_path / "run")
    run = fs.run(algorithm, clients, rounds=6, tolerance=0, stopping=rule, checkpoint=tmp_path / "run", resume=True)
    assert (run.status, run.rounds) == ("rounds", 6)
    assert "no noise was found" in run.message


def asked_for_gram(run: fs.Run) -> int:
    return sum(any(call.endswith(".gram") for call in record.calls) for record in run.ledger.records)


def test_a_resumed_run_does_not_ask_for_the_gram_matrix_again(tmp_path: Path) -> None:
    loss = fs.Squared()
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{k}", rng.standard_normal((30, 3)), rng.standard_normal(30)) for k in range(2)]
    algorithm, rule = fs.FedAvg(loss, fs.GradientSteps(1, step_size=1e-3)), fs.EarlyStopping(loss)
    given: Any = {"tolerance": 0, "stopping": rule, "checkpoint": tmp_path / "run"}
    first = fs.run(algorithm, clients, rounds=3, **given)
    again = fs.run(algorithm, clients, rounds=6, resume=True, **given)
    whole = fs.run(algorithm, clients, rounds=6, tolerance=0, stopping=rule)
    assert (again.message, again.rounds) == (whole.message, whole.rounds)
    assert (asked_for_gram(first), asked_for_gram(again), asked_for_gram(whole)) == (1, 1, 1)


def test_a_part_of_the_clients_is_remarked_on() -> None:
    loss = fs.Squared()
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{k}", rng.standard_normal((30, 3)), rng.standard_normal(30)) for k in range(4)]
    run = fs.run(
        fs.FedAvg(loss, fs.GradientSteps(1, step_size=1.0)), clients, rounds=30, tolerance=0,
        stopping=fs.EarlyStopping(loss), participation=fs.Participation(fraction=0.5),
    )  # fmt: skip
    assert run.status == "early stopping"
    assert "50% of them were asked" in run.message
