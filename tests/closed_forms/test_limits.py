"""Limiting points: where runs of FedAvg and FedProx end, and that noiseless data leave no error there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.closed_forms.limits import fixed_point, limit_point, linear_limit
from fedsolve.closed_forms.linear_path import gradient_norm, linear_path, map_limit, round_map
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep, method_of
from fedsolve.errors import ConfigError, DataError
from tests.extras import optional
from tests.problems import PROBLEMS

SQUARED = [name for name, problem in PROBLEMS.items() if isinstance(problem.loss, fs.Squared)]
METHODS: list[Method] = [
    LocalSteps(0.1),
    LocalSteps(0.1, 5),
    LocalSteps(0.1, 10),
    ProximalStep(0.1),
    ProximalStep(20.0),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


def far(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def linear_data(
    sizes: Any, d: int, sigma: float, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(d)
    X = [rng.standard_normal((n, d)) for n in sizes]
    return X, [rows @ truth + sigma * rng.standard_normal(len(rows)) for rows in X], truth


# ── what runs converge to ──


@pytest.mark.parametrize("name", SQUARED)
def test_fedavg_ends_at_its_limit(name: str) -> None:
    problem = PROBLEMS[name]
    algorithm = fs.FedAvg(problem.loss, fs.GradientSteps(steps=5))
    step_size = fs.run(algorithm, problem.clients(), rounds=0).state.step_size
    found = limit_point(problem.loss, problem.clients(), method_of(algorithm, step_size))
    # From the limit a run does not move, and from elsewhere it comes back.
    still = fs.run(algorithm, problem.clients(), rounds=2, warm_start=found, measure=0)
    assert far(still.model.w, found) <= 1e-13
    run = fs.run(algorithm, problem.clients(), rounds=250, measure=0, tolerance=0.0)
    assert far(run.model.w, found) <= 1e-10
    # It is another point than the pooled solution, so that the test above can fail.
    assert problem.distance(found) > 1e-4


@pytest.mark.parametrize("name", SQUARED)
def test_fedprox_ends_at_its_limit(name: str) -> None:
    problem = PROBLEMS[name]
    algorithm = fs.FedProx(problem.loss, pull=0.2)
    run = fs.run(algorithm, problem.clients(), rounds=250, measure=0, tolerance=0.0)
    found = limit_point(problem.loss, problem.clients(), method_of(algorithm))
    assert far(run.model.w, found) <= 1e-10
    assert problem.distance(found) > 1e-4


@pytest.mark.parametrize("name", SQUARED)
def test_with_one_step_the_limit_is_the_pooled_solution(name: str) -> None:
    problem = PROBLEMS[name]
    assert problem.distance(limit_point(problem.loss, problem.clients(), LocalSteps(0.1))) <= 1e-10


def test_features_offsets_and_torch_clients() -> None:
    rng = np.random.default_rng(3)
    parts = [(rng.standard_normal((n, 2)), *rng.standard_normal((2, n)), rng.random(n)) for n in (30, 9)]
    loss = fs.Squared(l2=0.05, intercept="free", features=fs.RandomFourier(6, 0.5))

    def clients(convert: Any) -> list[fs.Client]:
        arrays = [[convert(array) for array in part] for part in parts]
        return [fs.Client(f"c{j}", X, y, s, offset=o) for j, (X, y, o, s) in enumerate(arrays)]

    algorithm = fs.FedAvg(loss, fs.GradientSteps(4, 0.3))
    run = fs.run(algorithm, clients(np.asarray), rounds=600, measure=0, tolerance=0.0)
    found = limit_point(loss, clients(np.asarray), method_of(algorithm))
    assert far(run.model.w, found) <= 1e-10
    torch = optional("torch")
    assert far(limit_point(loss, clients(torch.asarray), method_of(algorithm)), found) <= 1e-13


# ── section 7.1 ──


@each_method
def test_noiseless_data_leave_no_error(method: Method) -> None:
    """However many local steps, and with clients that have fewer rows than there are features."""
    X, y, truth = linear_data((100, 40, 4, 1), 10, sigma=0.0)
    assert far(linear_limit(X, y, method), truth) <= 1e-10
    clients = [fs.Client(f"c{j}", *part) for j, part in enumerate(zip(X, y, strict=True))]
    assert far(limit_point(fs.Squared(), clients, method), truth) <= 1e-10


UNITS = {
    "a column of small numbers": lambda Z: Z * [1, 1, 1e-7],
    "columns of very small and very large numbers": lambda Z: Z * [1e8, 1, 1e-12],
    "an intercept and years": lambda Z: np.c_[np.ones(len(Z)), 2000 + Z[:, 1], Z[:, 2]],
}


@pytest.mark.parametrize("steps", [1, 5, None], ids=["s = 1", "s = 5", "FedProx"])
@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_noiseless_data_leave_no_error_in_any_units(units: Any, steps: int | None) -> None:
    """Each coefficient to 1e-10 of what its column adds to the predictions; a step size below 1/‖H_i‖."""
    rng = np.random.default_rng(8)
    X = [units(rng.standard_normal((n, 3))) for n in (30, 50, 2)]
    size = np.abs(np.concatenate(X)).max(axis=0)
    truth = np.array([1.0, -2.0, 3.0]) / size
    y = [rows @ truth for rows in X]
    eta = 0.5 / max(np.linalg.norm(rows, 2) ** 2 / len(rows) for rows in X)
    method = ProximalStep(eta) if steps is None else LocalSteps(eta, steps)
    assert np.abs((linear_limit(X, y, method) - truth) * size).max() <= 1e-10
    clients = [fs.Client(f"c{j}", *part) for j, part in enumerate(zip(X, y, strict=True))]
    assert np.abs((limit_point(fs.Squared(), clients, method) - truth) * size).max() <= 1e-10


def test_with_noise_the_limit_does_not_depend_on_how_it_is_computed() -> None:
    """Of an intercept and a column of a million ± 1 the Gram matrices lose all but a few digits. From the rows it is
    as good as least squares: with s = 1 its slope is that of the centred column."""
    rng = np.random.default_rng(9)
    columns = [rng.standard_normal(n) for n in (40, 25)]
    y = [2 * one + rng.standard_normal(len(one)) for one in columns]
    far_off = [np.c_[np.ones(len(one)), 1e6 + one] for one in columns]
    slope = linear_limit(far_off, y, LocalSteps(1e-13))[1]
    pooled = np.polyfit(np.concatenate(columns), np.concatenate(y), 1)[0]
    assert slope == pytest.approx(pooled, rel=1e-8)
    # Without noise the intercept has what 10⁶ · 10⁶ · 2e-16 leaves of its digits, with local steps as well.
    truth = np.array([1.0, 2.0])
    found = linear_limit(far_off, [rows @ truth for rows in far_off], LocalSteps(1e-13, 5))
    assert np.abs(found - truth).max() <= 4e-4


def test_hessians_that_rounding_has_emptied_are_rejected() -> None:
    X, y, _ = linear_data((30, 12), 3, sigma=0.5)
    X = [rows * [1, 1, 1e-8] for rows in X]
    H = np.stack([rows.T @ rows / len(rows) for rows in X])
    b = np.stack([(rows.T @ t / len(rows))[:, None] for rows, t in zip(X, y, strict=True)])
    with pytest.raises(DataError, match="standardise"):
        fixed_point(H, b, np.array([30.0, 12.0]), LocalSteps(0.1, 6))


def test_a_client_whose_own_steps_overshoot_may_be_outweighed() -> None:
    """Two steps of ηh = 3 turn back, p(h) = −1; with 99 rows against 1 the average converges all the same."""
    X, y = [np.array([[30.0**0.5]]), np.ones((99, 1))], [np.array([1.0]), np.linspace(0, 1, 99)]
    method = LocalSteps(0.1, 2)
    path = linear_path(X, y, method, 600)
    assert far(linear_limit(X, y, method), path[-1]) <= 1e-12


def test_where_nobody_sees_anything_nothing_moves() -> None:
    X, y = [np.zeros((4, 2)), np.zeros((3, 2))], [np.ones(4), np.ones(3)]
    np.testing.assert_array_equal(linear_limit(X, y, LocalSteps(0.1, 3), np.array([1.0, 2.0])), [1.0, 2.0])


@each_method
def test_the_limit_is_the_end_of_the_path(method: Method) -> None:
    X, y, _ = linear_data((60, 20, 5), 4, sigma=0.5)
    path = linear_path(X, y, method, 3000)
    assert far(path[-1], linear_limit(X, y, method)) <= 1e-12
    assert far(map_limit(*round_map(X, y, method)), linear_limit(X, y, method)) <= 1e-12


def test_the_paper_s_formula() -> None:
    """θ_Fed of section 7.1, with its powers of I − η_i XᵢᵀXᵢ written out."""
    X, y, _ = linear_data((60, 20, 5), 4, sigma=0.5)
    eta, s, left, right = 0.1, 7, np.zeros((4, 4)), np.zeros(4)
    for rows, targets in zip(X, y, strict=True):
        gram = rows.T @ rows
        powers = sum(np.linalg.matrix_power(np.eye(4) - eta / len(rows) * gram, power) for power in range(s))
        left += gram @ powers
        right += powers @ rows.T @ targets
    assert far(linear_limit(X, y, LocalSteps(eta, s)), np.linalg.solve(left, right)) <= 1e-12


def test_many_trials_at_once_and_columns_as_trials() -> None:
    data = [linear_data((30, 12, 5), 3, sigma=0.5, seed=seed) for seed in range(4)]
    H = np.stack([[rows.T @ rows / len(rows) for rows in X] for X, _, _ in data])
    b = np.stack([[(rows.T @ t / len(rows))[:, None] for rows, t in zip(X, y, strict=True)] for X, y, _ in data])
    together = fixed_point(H, b, np.array([30.0, 12.0, 5.0]), LocalSteps(0.1, 6))
    for (X, y, _), one in zip(data, together, strict=True):
        assert far(one[:, 0], linear_limit(X, y, LocalSteps(0.1, 6))) <= 1e-13
    X = data[0][0]
    targets = [np.stack([y[place] for _, y, _ in data], axis=1) for place in range(3)]
    wide = linear_limit(X, targets, ProximalStep(0.1))
    for column in range(4):
        alone = linear_limit(X, [one[:, column] for one in targets], ProximalStep(0.1))
        assert far(wide[:, column], alone) <= 1e-13


def test_directions_that_no_client_sees_stay_where_they_began() -> None:
    X, y, _ = linear_data((30, 12), 5, sigma=0.5)
    X = [np.hstack([rows[:, :4], rows[:, :1]]) for rows in X]  # the last column repeats the first
    start = np.arange(5.0)
    for method in METHODS:
        found = linear_limit(X, y, method, start)
        np.testing.assert_allclose(linear_path(X, y, method, 4000, start)[-1], found, rtol=0, atol=1e-10)
        assert found[4] - found[0] == pytest.approx(4.0, abs=1e-12)
    clients = [fs.Client(f"c{j}", *part) for j, part in enumerate(zip(X, y, strict=True))]
    again = limit_point(fs.Squared(), clients, METHODS[1], start)
    np.testing.assert_allclose(again, linear_limit(X, y, METHODS[1], start), rtol=0, atol=1e-12)


def test_a_step_that_is_too_long_has_no_limit() -> None:
    X, y, _ = linear_data((60, 20), 4, sigma=0.5)
    for method in (LocalSteps(3.0), LocalSteps(3.0, 2), LocalSteps(3.0, 3), LocalSteps(9.0, 2000)):
        with pytest.raises(ConfigError, match="diverges here"):
            linear_limit(X, y, method)
    with pytest.raises(DataError, match="finite"):
        linear_limit([X[0], np.full((20, 4), np.nan)], y, METHODS[0])
    assert np.isfinite(linear_limit(X, y, ProximalStep(1e6))).all()  # FedProx never diverges


# ── minibatches ──


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("method", [LocalSteps(0.1, 3), ProximalStep(0.5)], ids=str)
def test_minibatches_by_hand(method: Method, shuffled: bool) -> None:
    """Each step written out, on the parameters."""
    X, y, _ = linear_data((25, 7), 4, sigma=0.5)
    size, theta = 10, np.zeros(4)
    path = linear_path(X, y, method, 6, batch_size=size, shuffled=shuffled, seed=5)
    for t in range(6):
        total = np.zeros(4)
        for client, (rows, targets) in enumerate(zip(X, y, strict=True)):
            own, n = theta.copy(), len(rows)
            for step in range(method.steps):
                order = np.arange(n)
                if shuffled and n > size:
                    order = np.random.default_rng((5, client, t, step)).permutation(n)
                for at in range(0, n, size):
                    A, b = rows[order[at : at + size]], targets[order[at : at + size]]
                    if isinstance(method, LocalSteps):
                        own = own - method.step_size / n * A.T @ (A @ own - b)
                    else:  # the gradient of ‖Av − b‖²/(2n) + ‖v − own‖²/(2η) is zero
                        own = np.linalg.solve(
                            A.T @ A / n + np.eye(4) / method.step_size, A.T @ b / n + own / method.step_size
                        )
            total += n / 32 * own
        theta = total
        np.testing.assert_allclose(path[t + 1], theta, rtol=1e-12, atol=1e-14)


def test_one_batch_is_no_batch() -> None:
    X, y, _ = linear_data((25, 7), 4, sigma=0.5)
    for method in METHODS:
        whole, one = (linear_path(X, y, method, 5, batch_size=size) for size in (None, 25))
        np.testing.assert_array_equal(whole, one)


def test_minibatches_move_the_stationary_point_of_one_step() -> None:
    """Section 7.1: with minibatches FedAvg of one step no longer ends where the gradient vanishes."""
    X, y, _ = linear_data((100, 100, 100), 10, sigma=0.5)
    full, batched = (map_limit(*round_map(X, y, LocalSteps(0.1), size)) for size in (None, 20))
    assert gradient_norm(X, y, full) < 1e-12
    assert gradient_norm(X, y, batched) > 1e-4
    both = gradient_norm(X, y, np.stack([full, batched]))
    assert both.shape == (2,)
    slow = sum(rows.T @ (rows @ batched - targets) for rows, targets in zip(X, y, strict=True))
    assert both[1] == pytest.approx(2 * np.linalg.norm(slow) / 300, rel=1e-10)  # without ½: a factor 2


def test_a_map_that_ends_nowhere() -> None:
    X, y, _ = linear_data((60, 20), 4, sigma=0.5)
    for method in (LocalSteps(3.0), LocalSteps(3.0, 3)):
        with pytest.raises(ConfigError, match="this map diverges"):
            map_limit(*round_map(X, y, method))
    with pytest.raises(ConfigError, match="not finite"):
        map_limit(np.full((2, 2), np.inf), np.ones(2))
    with pytest.raises(DataError, match="d × d"):
        map_limit(np.eye(2), np.ones(3))
    for small in (1e-5, 1e-7, 1e-12):  # 1 − A has no digits left of these columns
        with pytest.raises(DataError, match="hardly moves"):
            map_limit(*round_map([rows * [1, 1, 1, small] for rows in X], y, LocalSteps(0.1, 3)))
    none = [rows * [1, 1, 1, 0] for rows in X]
    found = map_limit(*round_map(none, y, LocalSteps(0.1, 3)))
    assert found[3] == 0
    assert far(found, linear_limit(none, y, LocalSteps(0.1, 3))) <= 1e-12


def test_gradient_norms_of_several_outputs() -> None:
    X, y, _ = linear_data((30, 12), 3, sigma=0.5)
    two = [np.stack([one, one[::-1] ** 2], axis=1) for one in y]
    path = linear_path(X, two, LocalSteps(0.1, 3), 5)
    rows, targets = np.concatenate(X), np.concatenate(two)
    expected = [2 * np.linalg.norm(rows.T @ (rows @ theta - targets)) / 42 for theta in path]
    np.testing.assert_allclose(gradient_norm(X, two, path), expected, rtol=1e-12)
    assert gradient_norm(X, two, path[2]) == pytest.approx(expected[2], rel=1e-12)
    with pytest.raises(DataError, match=r"theta ends in the shape \(3, 2\)"):
        gradient_norm(X, two, path[:, :, 0])
    for start in (np.zeros(3), 1.0, np.zeros((3, 1))):
        with pytest.raises(DataError, match="start is θ_0"):
            linear_path(X, two, LocalSteps(0.1), 3, start)


# ── methods ──


def test_filters_are_the_sums_they_stand_for() -> None:
    h = np.array([0.0, 1e-18, 1e-9, 0.3, 4.9999, 5.0, 7.0, 12.0])
    for s in (1, 2, 10):
        powers = sum((1 - 0.1 * h) ** tau for tau in range(s))
        np.testing.assert_allclose(LocalSteps(0.1, s).filter(h), powers, rtol=1e-14)
    np.testing.assert_allclose(ProximalStep(0.1).filter(h), 1 / (1 + 0.1 * h), rtol=1e-15)


def test_methods_of_algorithms() -> None:
    loss = fs.Squared()
    assert method_of(fs.FedProx(loss, pull=4.0)) == ProximalStep(0.25)
    assert method_of(fs.FedAvg(loss, fs.GradientSteps(3, 0.2))) == LocalSteps(0.2, 3)
    assert method_of(fs.FedAvg(loss), 0.5) == LocalSteps(0.5, 2)
    with pytest.raises(ConfigError, match="no step size of its own"):
        method_of(fs.FedAvg(loss))
    for wrong in (fs.FedAvg(fs.Logistic(), fs.GradientSteps(3, 0.2)), fs.FedProx(fs.Squared(l1=0.1))):
        with pytest.raises(ConfigError, match="squared loss without l1"):
            method_of(wrong)
    other: Any = fs.Scaffold(loss)
    with pytest.raises(ConfigError, match="known for FedAvg and FedProx, got Scaffold"):
        method_of(other)
    with pytest.raises(ConfigError, match="only full gradient steps"):
        method_of(fs.FedAvg(loss, fs.GradientSteps(3, 0.2, batch_size=5)))


def test_what_does_not_fit_is_said() -> None:
    X, y, _ = linear_data((30, 12), 3, sigma=0.5)
    with pytest.raises(ConfigError, match="l1"):
        limit_point(fs.Squared(l1=0.1), [fs.Client("a", X[0], y[0])], LocalSteps(0.1))
    with pytest.raises(DataError, match="at least one client"):
        limit_point(fs.Squared(), [], LocalSteps(0.1))
    with pytest.raises(DataError, match="same clients"):
        linear_limit(X, y[:1], LocalSteps(0.1))
    with pytest.raises(DataError, match=r"client 1 .* rows of shape \(12, 3\)"):
        linear_limit(X, [y[0], y[1][:-1]], LocalSteps(0.1))
    mixed = [y[0], y[1][:, None]]
    for rows, targets in (([X[0], X[1][:, :2]], y), (X, mixed)):
        with pytest.raises(DataError, match=r"client 1 .* they should agree"):
            linear_limit(rows, targets, LocalSteps(0.1))
    with pytest.raises(DataError, match=r"client 0 .*: the rows are not an array of numbers, got list"):
        linear_limit([[["a", "b"]], X[1]], y, LocalSteps(0.1))
    with pytest.raises(DataError, match="one column"):
        linear_limit([rows[:, :0] for rows in X], y, LocalSteps(0.1))
    np.testing.assert_array_equal(
        linear_limit([rows.tolist() for rows in X], y, METHODS[1]), linear_limit(X, y, METHODS[1])
    )
    clients = [fs.Client(f"c{j}", *part) for j, part in enumerate(zip(X, y, strict=True))]
    for start in (np.zeros(4), np.zeros((3, 1)), 1.0):
        with pytest.raises(DataError, match=r"start has the shape of the result, \(3,\)"):
            linear_limit(X, y, LocalSteps(0.1), start)
        with pytest.raises(DataError, match=r"start has the shape of the result, \(3,\)"):
            limit_point(fs.Squared(), clients, LocalSteps(0.1), start)
    for wrong in (0.0, -1.0, np.nan, np.inf, "0.1", True, None):
        with pytest.raises(ConfigError, match="step_size"):
            LocalSteps(wrong)
        with pytest.raises(ConfigError, match="step_size"):
            ProximalStep(wrong)
    with pytest.raises(ConfigError, match="steps"):
        LocalSteps(0.1, 0)
    with pytest.raises(ConfigError, match="batch_size"):
        linear_path(X, y, LocalSteps(0.1), 3, batch_size=0)
    with pytest.raises(ConfigError, match="need a batch_size"):
        linear_path(X, y, LocalSteps(0.1), 3, shuffled=True)


def test_a_limit_does_not_depend_on_what_was_run_before_and_follows_the_runs_preprocessing() -> None:
    rng = np.random.default_rng(3)
    X, y = 7 * rng.standard_normal((60, 3)) + 3, rng.standard_normal(60)
    clients = [fs.Client(f"c{j}", X[j * 20 : (j + 1) * 20], y[j * 20 : (j + 1) * 20]) for j in range(3)]
    loss, steps = fs.Squared(l2=0.1, intercept="free"), fs.GradientSteps(steps=3, step_size=0.1)
    short = LocalSteps(1e-3, 3)
    before = limit_point(loss, clients, short)
    run = fs.run(
        fs.FedAvg(loss, steps),
        clients,
        preprocess=fs.data.Preprocess(),
        stopping=fs.Stopping(rounds=2000, tolerance=0),
    )
    assert limit_point(loss, clients, short).tobytes() == before.tobytes()
    limit = limit_point(loss, clients, method_of(run.algorithm), transform=run.model.transform)
    np.testing.assert_allclose(run.model.w, limit, atol=1e-10)


def test_columns_are_matched_by_name() -> None:
    rng = np.random.default_rng(4)
    X, y, names = rng.standard_normal((40, 3)), rng.standard_normal(40), ("a", "b", "c")
    first = fs.Client("first", X[:25], y[:25], feature_names=names)
    turned = fs.Client("second", X[25:, ::-1], y[25:], feature_names=names[::-1])
    straight = fs.Client("second", X[25:], y[25:], feature_names=names)
    loss, method = fs.Squared(l2=0.1), LocalSteps(0.1, 3)
    expected = limit_point(loss, [first, straight], method)
    np.testing.assert_allclose(limit_point(loss, [first, turned], method), expected, rtol=0, atol=1e-13)
