"""Distances between the clients' inputs: exact ones against SciPy and hand counts, bounds against known answers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm, wasserstein_distance_nd

import fedsolve as fs
from fedsolve.diagnose import exact_input_distances, input_distances, total_variation, wasserstein
from fedsolve.errors import ConfigError, DataError
from tests.extras import optional


def _clients(*rows: np.ndarray) -> list[fs.Client]:
    return [fs.Client(f"c{i}", X, np.zeros(X.shape[0])) for i, X in enumerate(rows)]


# ── exact ──


def test_diracs_by_hand() -> None:
    a, b = np.zeros((3, 2)), np.tile([3.0, 4.0], (5, 1))
    assert total_variation(a, b) == pytest.approx(1.0)
    assert wasserstein(a, b) == pytest.approx(5.0)
    assert wasserstein(a, b, power=2) == pytest.approx(5.0)
    found = exact_input_distances(_clients(a, b), standardise=False)
    assert found.tv == pytest.approx({"c0": 0.5, "c1": 0.5})  # α has half of each: 1 − 1/N at most
    assert found.omega_tv == pytest.approx(0.5)
    assert found.omega_w1 == pytest.approx(2.5)


def test_tv_counts_shared_rows_by_weight() -> None:
    A, B = np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [2.0], [-0.0]])
    # a = (1/3, 2/3, 0), b = (1/3, 1/3, 1/3)
    assert total_variation(A, B) == pytest.approx(1 / 3)
    assert total_variation(A, B, a=np.array([2.0, 1.0, 1.0]), b=np.array([0.0, 0.0, 1.0])) == pytest.approx(0.5)


@pytest.mark.parametrize("p", [1, 3])
def test_w1_against_scipy(p: int) -> None:
    rng = np.random.default_rng(p)
    A, B, C = (rng.integers(0, 3, size=(n, p)).astype(float) for n in (12, 7, 20))
    a, b = rng.random(12), rng.random(7)
    assert wasserstein(A, B, a, b) == pytest.approx(wasserstein_distance_nd(A, B, a, b), abs=1e-9)
    found = exact_input_distances(_clients(A, B, C), standardise=False)
    pooled, mass = np.vstack([A, B, C]), np.repeat([1 / 12, 1 / 7, 1 / 20], [12, 7, 20])
    for name, X in zip(found.w1, (A, B, C), strict=True):
        assert found.w1[name] == pytest.approx(wasserstein_distance_nd(pooled, X, mass), abs=1e-9)


def test_w2_is_a_permutation_of_equal_numbers_of_points() -> None:
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    best = min(np.mean(np.sum((A - B[list(order)]) ** 2, axis=1)) for order in permutations(range(5)))
    assert wasserstein(A, B, power=2) == pytest.approx(np.sqrt(best), rel=1e-9)


def test_no_shared_rows_is_as_far_as_it_goes() -> None:
    rng = np.random.default_rng(0)
    found = exact_input_distances(_clients(*rng.standard_normal((4, 10, 2))))
    assert found.omega_tv == pytest.approx(1 - 1 / 4)


def test_standardised_columns_have_no_units() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((15, 2)) + shift for shift in (0, 1)]
    metres = [X * [1000.0, 1.0] + [5e3, 0] for X in rows]
    assert exact_input_distances(_clients(*metres)).w1 == pytest.approx(exact_input_distances(_clients(*rows)).w1)
    assert exact_input_distances(_clients(*metres), standardise=False).omega_w1 > 100
    constant = [np.hstack([X, np.full((15, 1), 7.0)]) for X in rows]
    assert exact_input_distances(_clients(*constant)).w1 == pytest.approx(exact_input_distances(_clients(*rows)).w1)


def test_exact_rejects_what_it_cannot_do() -> None:
    with pytest.raises(ConfigError, match="too many for an exact W"):
        exact_input_distances(_clients(*np.random.default_rng(0).standard_normal((2, 1000, 2))))
    with pytest.raises(ConfigError, match="power is 1 or 2"):
        wasserstein(np.zeros((1, 1)), np.ones((1, 1)), power=3)
    with pytest.raises(DataError, match="different numbers of columns"):
        total_variation(np.zeros((1, 1)), np.zeros((1, 2)))
    with pytest.raises(DataError, match="NaN"):
        total_variation(np.array([[np.nan]]), np.zeros((1, 1)))
    with pytest.raises(ConfigError, match="no clients"):
        exact_input_distances([])


# ── bounds in a federation ──


@pytest.mark.parametrize("p", [1, 5, 60])
def test_gaussians_at_a_distance(p: int) -> None:
    """TV(½(P + Q), P) = ½ (2Φ(d/2) − 1) and W_1 = d/2; the bounds lose little in the direction of the means."""
    rng, d = np.random.default_rng(p), 2.0
    towards = rng.standard_normal(p)
    shift = d * towards / np.linalg.norm(towards)
    rows = [rng.standard_normal((2000, p)), rng.standard_normal((2000, p)) + shift]
    found = input_distances(_clients(*rows), standardise=False)
    for name in found.tv:
        assert found.tv[name] == pytest.approx(norm.cdf(d / 2) - 0.5, abs=4 * found.tv_error[name])
        assert found.w1[name] == pytest.approx(d / 2, abs=4 * found.w1_error[name])
        assert found.tv_error[name] < 0.02
        assert found.w1_error[name] < 0.04
    assert set(found.apart) == {"c0", "c1"}
    assert "differs most" in found.sentence()


def test_diracs_in_a_federation() -> None:
    found = input_distances(_clients(np.zeros((20, 2)), np.tile([3.0, 4.0], (30, 1))), standardise=False)
    assert found.tv == pytest.approx({"c0": 0.5, "c1": 0.5})
    assert found.w1 == pytest.approx({"c0": 2.5, "c1": 2.5})
    assert found.omega_tv_error == pytest.approx(0.0, abs=0.08)


def test_bounds_stay_below_the_exact_distance() -> None:
    """Few distinct rows, drawn often: distributions are known, and the bounds are below within their errors."""
    rng = np.random.default_rng(1)
    support = rng.standard_normal((8, 3))
    chances = rng.dirichlet(np.full(8, 0.5), size=4)
    found = input_distances(_clients(*(support[rng.choice(8, 4000, p=chance)] for chance in chances)))
    pooled = chances.mean(axis=0)
    exact = exact_input_distances(
        [fs.Client(f"c{i}", support, np.zeros(8), np.maximum(chance, 1e-12)) for i, chance in enumerate(chances)]
    )
    for i, chance in enumerate(chances):
        name = f"c{i}"
        assert exact.tv[name] == pytest.approx(0.5 * np.abs(chance - pooled).sum())
        assert found.tv[name] < exact.tv[name] + 3 * found.tv_error[name]
        assert found.w1[name] < exact.w1[name] + 3 * found.w1_error[name]
        assert found.tv[name] > 0.5 * exact.tv[name]  # and they are of use
        assert found.w1[name] > 0.4 * exact.w1[name]


def test_equal_distributions_are_0_in_expectation() -> None:
    """40 federations: the mean bound is within 3.5 standard errors of 0, and the stated error covers its spread."""
    tv, w1, spread = [], [], []
    for seed in range(40):
        rows = np.random.default_rng(seed).standard_normal((4, 60, 5))
        found = input_distances(_clients(*rows), seed=seed)
        tv.append(np.mean(list(found.tv.values())))
        w1.append(np.mean(list(found.w1.values())))
        spread.extend(found.tv[name] / found.tv_error[name] for name in found.tv)
        assert found.omega_tv >= 0
    for values in (tv, w1):
        assert abs(np.mean(values)) < 3.5 * np.std(values) / np.sqrt(40)
    assert np.std(spread) < 1.25
    assert np.mean(np.abs(spread) > 3) < 0.02


def test_nothing_is_called_different_that_is_alike() -> None:
    rows = np.random.default_rng(3).standard_normal((3, 200, 4))
    found = input_distances(_clients(*rows))
    assert found.apart == ()
    assert found.sentence().endswith("no sign that inputs differ")


def test_rounding_is_no_difference() -> None:
    rows = [np.full((n, 2), 0.1) for n in (30, 37, 61)]
    found = input_distances(_clients(*rows), standardise=False)
    assert max(map(abs, (*found.tv.values(), *found.w1.values()))) < 1e-12
    assert found.apart == ()


def test_units_of_columns() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((300, 2)) + shift for shift in (0, 1)]
    plain = input_distances(_clients(*rows))
    other = input_distances(_clients(*(X * [1e-6, 1e4] + [7.0, -1e5] for X in rows)))
    assert other.w1 == pytest.approx(plain.w1, rel=1e-6)
    assert other.tv == pytest.approx(plain.tv, abs=1e-12)
    raw = input_distances(_clients(*(10 * X for X in rows)), standardise=False)
    assert raw.omega_w1 == pytest.approx(10 * input_distances(_clients(*rows), standardise=False).omega_w1, rel=1e-9)


def test_clients_with_few_rows_are_left_out_and_named() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 2)) for n in (100, 100, 1, 19)]
    found = input_distances(_clients(*rows))
    assert found.left_out == ("c2", "c3")
    assert set(found.tv) == {"c0", "c1"}
    assert found.tv == input_distances(_clients(*rows[:2])).tv
    assert "c2, c3 left out" in found.sentence()
    with pytest.raises(DataError, match="1 of 2 clients have the 20 rows"):
        input_distances(_clients(rows[0], rows[2]))


def test_sample_weights_are_rows() -> None:
    """Integer weights count as repeated rows in the distributions, though not in the errors."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((400, 2)), rng.standard_normal((400, 2))
    favour = np.where(A[:, 0] > 0, 9.0, 1.0)
    weighted = [fs.Client("c0", A, np.zeros(400), favour), fs.Client("c1", B, np.zeros(400))]
    found = input_distances(weighted)
    # α_0 puts 0.9 on the right half plane where α_1 puts ½
    assert found.tv["c0"] == pytest.approx(0.2, abs=4 * found.tv_error["c0"])
    assert exact_input_distances(weighted[:1] + weighted[:1]).omega_tv == pytest.approx(0.0, abs=1e-12)


def test_transports_agree() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((40, 3)) + shift for shift in (0, 0.5, 1)]
    here, there = (input_distances(_clients(*rows), transport=kind) for kind in ("in_process", "processes"))
    assert there.tv == here.tv
    assert there.w1 == here.w1


def test_sparse_clients() -> None:
    rng = np.random.default_rng(0)
    rows = [np.where(rng.random((60, 4)) < 0.4, rng.standard_normal((60, 4)) + shift, 0.0) for shift in (0, 1)]
    dense = input_distances(_clients(*rows))
    sparse = input_distances(_clients(*map(sp.csr_matrix, rows)))  # type: ignore[arg-type]
    assert sparse.w1 == pytest.approx(dense.w1, rel=1e-9)
    assert sparse.tv == pytest.approx(dense.tv, abs=1e-9)
    assert exact_input_distances(_clients(*map(sp.csr_matrix, rows))).omega_w1 > 0  # type: ignore[arg-type]


def test_torch_clients() -> None:
    torch = optional("torch")
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((60, 4)) + shift for shift in (0, 1)]
    there = [fs.Client(f"c{i}", torch.tensor(X), torch.zeros(60, dtype=torch.float64)) for i, X in enumerate(rows)]
    assert input_distances(there).w1 == pytest.approx(input_distances(_clients(*rows)).w1, rel=1e-9)


def test_values_too_large_to_square() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="too large to square"):
        input_distances(_clients(1e200 * rng.standard_normal((30, 2)), rng.standard_normal((30, 2))))


def test_standard_errors_hold_with_heavy_tails() -> None:
    """t with 3 degrees: the spread over federations is that of the stated errors of W_1."""
    scores = []
    for seed in range(60):
        rows = np.random.default_rng(seed).standard_t(3, (3, 200, 2))
        found = input_distances(_clients(*rows), seed=seed)
        scores.extend(found.w1[name] / found.w1_error[name] for name in found.w1)
    assert 0.7 < np.std(scores) < 1.3


def test_many_clients_share_their_directions() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((40, 3)) + np.array([2.0 * (i % 2), 0, 0]) for i in range(70)]
    found = input_distances(_clients(*rows))
    assert len(found.tv) == 70
    assert found.omega_tv > 0.2  # TV(½(P + Q), P) = 0.34


def test_what_the_server_sees() -> None:
    """Two unit vectors and four numbers of each client; everything else is a sum."""
    rng = np.random.default_rng(0)
    found = input_distances(_clients(*rng.standard_normal((3, 50, 2))))
    asked = [call for record in found.ledger.records for call in record.calls]
    steps = ["means", "squares", "own_directions", "spreads", "histograms", "compare"]
    assert [call.rpartition(".")[2] for call in asked] == steps
    up = dict(zip(steps, (record.scalars_up.tolist() for record in found.ledger.records), strict=True))
    assert up["own_directions"][1] == [4, 4, 4]  # beside the envelope: two vectors, of two columns
    assert up["compare"][1] == [4, 4, 4]


@pytest.mark.parametrize("given", [{"bins": 1}, {"directions": 0}, {"seed": -1}, {"bins": 2.5}])
def test_wrong_settings(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        fs.diagnose.InputDistance(**given)  # type: ignore[arg-type]
