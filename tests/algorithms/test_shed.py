"""SHED against what its paper proves of it, and against NumPy written from its pseudo-code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.curvature.increments import Increment, next_increment
from fedsolve.curvature.renewals import Always, Fibonacci, GradientNorm, Once, Periodic
from fedsolve.curvature.spectra import Spectrum
from fedsolve.federation.memory import Memory
from fedsolve.numerics.structured_arrays import LowRank
from fedsolve.reproduce.iterates import Iterate, iterates

MU = 1e-4
SIZES = [40, 90, 25, 60]  # unequal, so that an unweighted average shows


def make_clients(n: int = 12, seed: int = 0, squared: bool = False, sizes: list[int] = SIZES) -> list[fs.Client]:
    """Features on scales from 1 to 0.03: a spectrum that falls by a thousand."""
    rng = np.random.default_rng(seed)
    scales, truth = np.logspace(0, -1.5, n), 3 * rng.standard_normal(n)
    clients = []
    for j, size in enumerate(sizes):
        X = (rng.standard_normal((size, n)) + rng.standard_normal(n)) * scales
        eta = X @ truth
        y = eta + rng.standard_normal(size) if squared else (rng.random(size) < 1 / (1 + np.exp(-eta))).astype(float)
        clients.append(fs.Client(f"client-{j}", X, y))
    return clients


def pooled(clients: list[fs.Client], loss: Any) -> np.ndarray:
    return fs.run(fs.Newton(loss), clients, rounds=50, tolerance=1e-14).model.w


def weights(clients: list[fs.Client]) -> np.ndarray:
    return np.array([one.n_samples for one in clients]) / sum(one.n_samples for one in clients)


def walk(algorithm: Any, clients: list[fs.Client], rounds: int) -> list[Iterate]:
    return list(islice(iterates(algorithm, clients), rounds + 1))


# ── the pseudo-code, by itself ──


def hessian(client: fs.Client, w: np.ndarray, squared: bool, mu: float = MU) -> np.ndarray:
    p = 1 / (1 + np.exp(-client.X @ w))
    c = np.ones(client.n_samples) if squared else p * (1 - p)
    return (client.X * c[:, None]).T @ client.X / client.n_samples + mu * np.eye(w.size)


def value(clients: list[fs.Client], w: np.ndarray) -> float:
    terms = [np.logaddexp(0, c.X @ w) - c.y * (c.X @ w) for c in clients]
    return float(np.concatenate(terms).mean() + MU / 2 * w @ w)


def gradient(clients: list[fs.Client], w: np.ndarray, squared: bool) -> np.ndarray:
    X, y = np.vstack([c.X for c in clients]), np.concatenate([c.y for c in clients])
    r = X @ w - y if squared else 1 / (1 + np.exp(-X @ w)) - y
    return X.T @ r / y.size + MU * w


def literal(clients: list[fs.Client], renewals: set[int], d: int, squared: bool) -> Iterator[dict[str, Any]]:
    """Algorithms 1 and 4, line by line."""
    n, p = clients[0].X.shape[1], weights(clients)
    w, t = np.zeros(n), 0
    while True:
        t += 1
        if t in renewals:
            at, q = w, 0
            spectra = [np.linalg.eigh(hessian(one, w, squared)) for one in clients]
        q = min(q + d, n - 1)
        H, rho, least = np.zeros((n, n)), 0.0, 0.0
        for p_i, (values, vectors) in zip(p, spectra, strict=True):
            falling, V = values[::-1], vectors[:, ::-1][:, :q]
            r = (falling[q] + falling[-1]) / 2 if squared else falling[q]
            H += p_i * ((V * (falling[:q] - r)) @ V.T + r * np.eye(n))
            rho, least = rho + p_i * r, least + p_i * falling[-1]
        g = gradient(clients, w, squared)
        step, eta = np.linalg.solve(H, g), 1.0
        noise = 16 * np.finfo(float).eps * value(clients, w)  # a smaller difference of two values means nothing
        while not squared and value(clients, w - eta * step) > value(clients, w) - 1e-4 * eta * step @ g + noise:
            eta /= 2
        w = w - eta * step
        yield {"w": w, "H": H, "at": at, "c": 1 - least / rho, "eta": eta}


LITERALLY = {"lbfgs": 0, "precision": "float64", "solve": "factor"}


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("pipelined", [False, True])
def test_shed_is_algorithm_4(d: int, pipelined: bool) -> None:
    clients = make_clients()
    renewals = {1, 2, 4, 7, 12, 23, 34}  # Fibonacci; 12 ≥ n − 1, and from there on every n − 1 = 11
    algorithm = fs.SHED(fs.Logistic(l2=MU), increment=d, pipelined=pipelined, **LITERALLY)
    expected = list(islice(literal(clients, renewals, d, squared=False), 24))
    assert min(one["eta"] for one in expected) == 1.0  # then a round is an iteration either way
    for ours, theirs in zip(walk(algorithm, clients, 24)[1:], expected, strict=True):
        # Both solve systems of condition 1e3 with errors of rounding.
        np.testing.assert_allclose(ours.state.w, theirs["w"], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("renewals", [Once(), Periodic(5)], ids=["algorithm 1", "algorithm 3"])
def test_shed_least_squares_is_algorithms_1_and_3(renewals: Any) -> None:
    clients = make_clients(squared=True)
    times = {1} if isinstance(renewals, Once) else {1, 5, 10, 15}
    walked = walk(fs.SHEDLeastSquares(fs.Squared(l2=MU), renewals), clients, 11)
    for ours, theirs in zip(walked[1:], literal(clients, times, 1, squared=True), strict=False):
        np.testing.assert_allclose(ours.state.w, theirs["w"], rtol=1e-9, atol=1e-11)
        assert ours.state.contraction == pytest.approx(theirs["c"], rel=1e-9, abs=1e-12)


def test_a_step_that_is_cut_short_is_the_same_with_and_without_the_pipeline() -> None:
    """A start from far away, where full steps overshoot, and a renewal at an iterate that was not the trial."""
    clients = make_clients(seed=3)
    far = np.full(12, 8.0)
    runs = [
        fs.run(
            fs.SHED(fs.Logistic(l2=MU), pipelined=pipelined, lbfgs=3, solve="factor", precision="float64"),
            clients,
            rounds=80,
            tolerance=1e-11,
            warm_start=far,
        )
        for pipelined in (False, True)
    ]
    assert all(run.converged for run in runs)
    paper, ours = ([row.value for row in run.history if row.value is not None] for run in runs)
    steps = [one for one, following in pairwise(ours) if one != following]  # a visit is no step
    assert len(steps) < len(ours) - 1  # some step was cut short, or this test shows nothing
    np.testing.assert_allclose(steps[:20], paper[:20], rtol=1e-9)
    exchanges = [run.history[-1].exchanges for run in runs]
    assert exchanges[1] < 0.75 * exchanges[0]


# ── theorems ──


def test_least_squares_is_exact_after_n_minus_1_increments_and_not_before() -> None:
    clients = make_clients(squared=True)
    solution = pooled(clients, fs.Squared(l2=MU))
    errors = [
        np.linalg.norm(one.state.w - solution) for one in walk(fs.SHEDLeastSquares(fs.Squared(l2=MU)), clients, 11)
    ]
    assert errors[11] < 1e-11
    assert errors[10] > 1e-6


def test_the_largest_shift_has_the_factor_of_theorem_1_and_for_one_client_is_never_better() -> None:
    clients, loss = make_clients(squared=True, sizes=[80]), fs.Squared(l2=MU)
    best = pooled(clients, loss)
    spectrum = np.linalg.eigvalsh(hessian(clients[0], best, squared=True))[::-1]
    middle = walk(fs.SHEDLeastSquares(loss), clients, 10)
    largest = fs.SHEDLeastSquares(loss, shift="largest")
    for t, (before, after) in enumerate(pairwise(walk(largest, clients, 10)), start=1):
        factor = 1 - 2 * spectrum[-1] / (spectrum[t] + spectrum[-1])  # (7)
        assert after.state.contraction == pytest.approx(factor, rel=1e-9)
        assert np.linalg.norm(after.state.w - best) <= (1 + 1e-9) * factor * np.linalg.norm(before.state.w - best)
        assert np.linalg.norm(middle[t].state.w - best) <= (1 + 1e-9) * np.linalg.norm(after.state.w - best)
    with pytest.raises(fs.errors.ConfigError, match="'middle' or 'largest', got 'least'"):
        fs.SHEDLeastSquares(loss, shift="least")  # type: ignore[arg-type]


def test_theorem_3_bounds_every_step_and_lemma_7_every_period() -> None:
    clients, period = make_clients(squared=True), 5
    solution = pooled(clients, fs.Squared(l2=MU))
    walked = walk(fs.SHEDLeastSquares(fs.Squared(l2=MU), Periodic(period)), clients, 44)
    errors = np.array([np.linalg.norm(one.state.w - solution) for one in walked])
    c = np.array([one.state.contraction for one in walked[1:]])
    assert (errors[1:] <= c * errors[:-1] * (1 + 1e-9)).all()  # (14)
    # Periods begin with iteration 1 and then with every multiple of T, as I = {1, T, 2T, …} says.
    for start in range(period, 40, period):
        inside = slice(start - 1, start - 1 + period)
        assert errors[start - 1 + period] <= np.prod(c[inside]) * errors[start - 1] * (1 + 1e-9)  # (24)
    bound = fs.diagnose.periodic_bound(clients, fs.Squared(l2=MU), solution, period)
    assert bound == pytest.approx(np.prod(c[4:9]) ** (1 / period), rel=1e-9)
    assert fs.diagnose.lyapunov(c[4:9])[-1] == pytest.approx(bound, rel=1e-9)
    assert (errors[44] / errors[4]) ** (1 / 40) <= bound


def test_the_bound_36_holds_in_the_end() -> None:
    clients, period, loss = make_clients(), 6, fs.Logistic(l2=MU)
    solution = pooled(clients, loss)
    walked = walk(fs.SHED(loss, Periodic(period), **LITERALLY), clients, 60)
    errors = np.array([np.linalg.norm(one.state.w - solution) for one in walked])
    spectra = [np.linalg.eigvalsh(hessian(one, solution, squared=False))[::-1] for one in clients]
    rho = weights(clients) @ np.array(spectra)[:, 1 : period + 1]  # q = 1 … T
    least = weights(clients) @ np.array(spectra)[:, -1]
    bound = float(np.prod(1 - least / rho) ** (1 / period))
    assert fs.diagnose.periodic_bound(clients, loss, solution, period) == pytest.approx(bound, rel=1e-9)
    late = slice(30, 61, period)
    assert errors[late][-1] > 1e-12  # still above rounding
    assert (errors[late][-1] / errors[late][0]) ** (1 / 30) <= bound


def test_h_hat_is_above_the_hessian_and_the_unit_step_passes_near_the_optimum() -> None:
    clients = make_clients()
    steps = list(islice(literal(clients, {1, 2, 4, 7, 12, 23}, 1, squared=False), 24))
    for one in steps:
        H = sum(p * hessian(c, one["at"], False) for p, c in zip(weights(clients), clients, strict=True))
        assert np.linalg.eigvalsh(one["H"] - H)[0] >= -1e-12
    run = fs.run(fs.SHED(fs.Logistic(l2=MU)), clients, rounds=60, tolerance=1e-10)
    # With the pipeline a step that passes is one exchange; one that does not is three.
    late = [b.exchanges - a.exchanges for a, b in zip(run.history[-10:-1], run.history[-9:], strict=True)]
    assert run.converged
    assert set(late) == {1}


# ── what is sent ──


def test_messages_by_hand() -> None:
    """An iteration sends one gradient, one value, d vectors with d values, λ_{q+1} and λ_n; all but the last in I."""
    n, d, rounds = 12, 2, 3
    clients = make_clients(n)
    algorithm = fs.SHED(fs.Logistic(l2=MU), Once(), increment=d)
    run = fs.run(algorithm, clients, rounds=rounds, tolerance=0, measure=0)
    visits = rounds + 1
    numbers = visits * (n + 1 + d * n + d + 2)
    plain = visits * 2  # renewal and first, which are whole numbers
    by_client = {name: total.scalars_up for name, total in run.ledger.by_client().items()}
    assert set(by_client.values()) <= {numbers, numbers + plain}
    assert len(set(by_client.values())) == 1


def test_half_precision_sends_a_quarter_of_the_vectors_bytes() -> None:
    n = 200
    clients = make_clients(n, sizes=[250, 300])
    sent = {}
    for precision in ("float64", "float16"):
        algorithm = fs.SHED(fs.Logistic(l2=MU), increment=10, precision=precision)
        sent[precision] = fs.run(algorithm, clients, rounds=2, tolerance=0, measure=0).ledger.total().bytes_up
    saved = sent["float64"] - sent["float16"]
    assert saved == pytest.approx(3 * 2 * 10 * n * 6, rel=0.01)  # visits × clients × vectors × entries × 6 bytes


def test_nothing_is_sent_that_says_nothing() -> None:
    """A client with 5 samples has 5 eigenvalues above the penalty: after 5 vectors its Hessian is known."""
    clients = make_clients(sizes=[5, 5, 80])
    run = fs.run(fs.SHED(fs.Logistic(l2=MU), Once()), clients, rounds=14, tolerance=0)
    known = {name: one.values.size for name, one in run.state.point.curvature.spectra.clients.items()}
    assert known == {"client-0": 5, "client-1": 5, "client-2": 11}


def test_increments_by_client_and_none_at_all() -> None:
    clients = make_clients()
    shares = {"client-0": 3, "client-1": 1, "client-2": 0, "client-3": 0}
    run = fs.run(fs.SHED(fs.Logistic(l2=MU), increment=shares), clients, rounds=1000, tolerance=1e-10)
    assert run.converged
    assert run.state.point.curvature.spectra.clients["client-2"].values.size == 0
    assert run.state.point.curvature.spectra.clients["client-3"].values.size == 0


def test_hessians_are_computed_at_renewals_only() -> None:
    clients = make_clients()
    run = fs.run(fs.SHED(fs.Logistic(l2=MU), Fibonacci()), clients, rounds=19, tolerance=0)
    # Iterations 1 … 20, of which 1, 2, 4, 7 and 12 renew.
    assert run.ledger.total().counts["hessians"] == 5 * len(clients)


# ── options that keep the optimum ──


@pytest.mark.parametrize(
    "options",
    [
        {"renewals": GradientNorm(), "lbfgs": 0},
        {"renewals": Periodic(7)},
        {"renewals": Once()},
        {"pipelined": False},
        {"precision": "float32", "solve": "factor"},
        {"increment": "link"},
        {"increment": 4, "lbfgs": 20},
    ],
    ids=str,
)
def test_every_option_keeps_the_optimum(options: dict[str, Any]) -> None:
    clients, loss = make_clients(), fs.Logistic(l2=MU)
    run = fs.run(fs.SHED(loss, **options), clients, rounds=400, tolerance=1e-11)
    assert run.converged
    assert np.linalg.norm(run.model.w - pooled(clients, loss)) <= 1e-11 / MU


def test_lbfgs_saves_rounds() -> None:
    clients = make_clients(40, sizes=[120, 150, 130])
    rounds = {
        lbfgs: fs.run(fs.SHED(fs.Logistic(l2=1e-6), lbfgs=lbfgs), clients, rounds=500, tolerance=1e-9).rounds
        for lbfgs in (0, 5)
    }
    assert rounds[5] < rounds[0] / 1.3


def test_mont_dec_is_shed_with_a_renewal_in_every_round() -> None:
    clients, loss = make_clients(), fs.Logistic(l2=MU)
    mont_dec = walk(fs.MontDec(loss, increment=2), clients, 8)
    shed = walk(fs.SHED(loss, Always(), increment=2, pipelined=False, **LITERALLY), clients, 8)
    for one, other in zip(mont_dec, shed, strict=True):
        np.testing.assert_allclose(one.state.w, other.state.w, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"increment": -1}, "increment is a number.*-1"),
        ({"increment": "often"}, "'often'"),
        ({"increment": True}, "True"),
        ({"increment": {"client-0": "link"}}, "numbers by client"),
        ({"precision": "int8"}, "'float16'.*'int8'"),
        ({"renewals": 5}, "Fibonacci.*5"),
        ({"renewals": Fibonacci}, "a rule such as"),
        ({"lbfgs": -1}, "lbfgs is a number of pairs.*-1"),
        ({"solve": "chol"}, "'chol'"),
    ],
    ids=str,
)
def test_bad_options_say_what_is_wrong(options: dict[str, Any], said: str) -> None:
    with pytest.raises(fs.errors.ConfigError, match=said):
        fs.SHED(fs.Logistic(), **options)


def test_increments_are_for_all_clients_there_are() -> None:
    algorithm = fs.SHED(fs.Logistic(l2=MU), increment={f"client-{j}": 1 for j in range(4)} | {"typo": 2})
    with pytest.raises(fs.errors.UnknownName, match="typo"):
        fs.run(algorithm, make_clients())
    with pytest.raises(fs.errors.ConfigError, match="says nothing of client-1, client-2, client-3"):
        fs.run(fs.SHED(fs.Logistic(l2=MU), increment={"client-0": 1}), make_clients())


def test_what_does_not_follow_on_is_refused() -> None:
    first = Increment(3, 0, LowRank(np.eye(4)[:, :2], np.ones(2)), 0.5, 0.1)
    known = Spectrum.grown(None, "a", first)
    following = Increment(3, 2, LowRank(np.eye(4)[:, 2:3], np.ones(1)), 0.4, 0.1)
    assert Spectrum.grown(known, "a", following).values.size == 3
    for wrong in (replace(following, first=1), replace(following, renewal=4), replace(following, first=3), first):
        with pytest.raises(fs.errors.WrongType, match="'a'"):
            Spectrum.grown(known, "a", wrong)
    with pytest.raises(fs.errors.WrongType, match="knows nothing"):
        Spectrum.grown(None, "a", following)
    assert Spectrum.grown(known, "a", replace(first, renewal=4)).values.size == 2  # a renewal begins anew


def test_a_round_without_a_step_says_nothing_of_the_rate() -> None:
    run = fs.run(
        fs.SHED(fs.Logistic(l2=MU)), make_clients(seed=3), rounds=40, tolerance=1e-10, warm_start=np.full(12, 8.0)
    )
    visits = [row for row in run.history[1:] if row.change == 0]
    assert visits
    assert all(row.contraction is None for row in visits)
    assert all(0 <= row.contraction <= 1 for row in run.history[1:] if row.change)  # type: ignore[operator]


def test_more_pairs_than_were_thought_to_be_needed() -> None:
    """`horizon` is a forecast. A client that is asked for more has all of them."""
    (client,) = make_clients(260, sizes=[300])
    loss = fs.Logistic(l2=MU)
    client.memory = Memory({}, frozenset({Increment}))
    w = np.zeros(260)
    sent = [next_increment(loss, client, w, 1, count, 4, "float64") for count in (3, 3)]
    values = np.linalg.eigvalsh(loss.hessian(client, w).full())[::-1]
    np.testing.assert_allclose(np.concatenate([one.pairs.values for one in sent]), values[:6], rtol=1e-9)
    assert sent[1].following == pytest.approx(values[6], rel=1e-9)


def test_least_squares_needs_a_quadratic_loss() -> None:
    with pytest.raises(fs.errors.ConfigError, match="quadratic"):
        fs.run(fs.SHEDLeastSquares(fs.Logistic()), make_clients())
