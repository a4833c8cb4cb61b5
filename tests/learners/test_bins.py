"""Shared bins: quantiles of all rows from counts alone, in any units, and never a value of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.learners.bin_grid import FINENESS, SMALLEST, Grid, floats, keys, per_bin
from fedsolve.learners.bins import Table
from fedsolve.learners.shared_bins import EXCHANGES, SharedBins
from fedsolve.learners.trees import Trees
from tests.learners.agreeing import agree, divided

N = 6000


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(N)
    outlier = normal.copy()
    outlier[7] = 1e12
    mostly_zero = np.where(rng.random(N) < 0.95, 0.0, rng.gamma(2.0, size=N))
    signed = np.where(rng.random(N) < 0.9, 0.0, normal)
    return {
        "normal": normal,
        "tiny unit": normal * 1e-9,
        "huge unit": normal * 1e12,
        "far from zero": 1e9 + normal,
        "cauchy": rng.standard_cauchy(N),
        "outlier": outlier,
        "lognormal": np.exp(5 * normal),
        "mostly zero": mostly_zero,
        "mostly zero, both signs": signed,
        "extremes": np.where(rng.random(N) < 0.5, 1e-300, 1e300) * (1 + rng.random(N)),
    }


COLUMNS = columns()


def shares(edges: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("most", [16, 255])
def test_no_bin_holds_more_than_its_share(name: str, most: int) -> None:
    x = COLUMNS[name]
    bins, fed = agree(Trees(bins=most), divided(x[:, None]))
    edges = bins.column(0)
    assert len(fed.ledger.records) <= EXCHANGES + 4
    assert len(edges) <= most - 1
    assert (np.diff(edges) > 0).all()
    assert not np.isin(edges, x).any()
    # A value that many rows have counts for two bins; all others share what is left.
    values, counts = np.unique(x, return_counts=True)
    single = counts > N / most
    share = per_bin(counts, most, single)
    found = shares(edges, x)
    alone = np.array([len(np.unique(x[np.searchsorted(edges, x) == k])) == 1 for k in range(len(found))])
    assert (found[~alone] <= share + max(share / FINENESS, SMALLEST - 1)).all()
    # A value with more than its share is alone in its bin.
    for value in values[counts > 2 * N / most]:
        assert alone[np.searchsorted(edges, value)]


def test_numbers_that_lie_as_close_as_numbers_can() -> None:
    x = COLUMNS["normal"] * 5e-320
    bins, _ = agree(Trees(), divided(x[:, None]))
    assert 100 < len(bins.column(0)) <= 254
    assert (np.diff(bins.column(0)) > 0).all()
    assert not np.isin(bins.column(0), x).any()


def test_values_that_few_columns_have_are_separated() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack(
        [
            rng.integers(0, 90, N),
            rng.integers(-3, 4, N) * 1e-9,
            rng.random(N) < 0.02,
            rng.choice([0.1, 0.1001, 0.2], N),
            np.full(N, 3.7),
        ]
    ).astype(float)
    bins, _ = agree(Trees(), divided(X))
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        np.testing.assert_array_equal(np.searchsorted(bins.column(j), values), np.arange(len(values)))
    assert len(bins.column(4)) == 0


def test_many_bins() -> None:
    x = np.random.default_rng(4).standard_normal(60_000)
    bins, _ = agree(Trees(bins=1000), divided(x[:, None]))
    assert len(bins.column(0)) == 999
    assert shares(bins.column(0), x).max() <= 60 * (1 + 1 / FINENESS)


@pytest.mark.parametrize("unit", [1e-9, 1e9, 3.0])
def test_units_change_no_bin(unit: float) -> None:
    X = np.column_stack([COLUMNS[name] for name in ("normal", "cauchy", "mostly zero", "lognormal")])
    one, _ = agree(Trees(bins=40), divided(X))
    other, _ = agree(Trees(bins=40), divided(X * unit))
    for j in range(X.shape[1]):
        np.testing.assert_array_equal(
            np.searchsorted(one.column(j), X[:, j]), np.searchsorted(other.column(j), X[:, j] * unit)
        )


def test_an_edge_that_is_a_value_is_moved() -> None:
    x = COLUMNS["normal"].copy()
    first, _ = agree(Trees(bins=16), divided(x[:, None]))
    x[3] = first.column(0)[5]  # the counts stay the same, or the edge is another one anyway
    bins, _ = agree(Trees(bins=16), divided(x[:, None]))
    assert not np.isin(bins.column(0), x).any()
    learner = Trees(bins=16)
    clients = divided(x[:, None])
    with fs.federation.session.opened(clients, {"algorithm": learner}) as fed, fed.setting_up():
        moved = learner._moved(fed, [np.array([-1.0, x[3], 1.0])], {})
    assert moved[0][1] != x[3]
    assert abs(moved[0][1] - x[3]) < 1e-12
    assert not np.isin(moved[0], x).any()


def test_sparse_clients_agree_on_the_same_bins_and_entries() -> None:
    rng = np.random.default_rng(2)
    X = np.where(rng.random((N, 6)) < 0.9, 0.0, rng.standard_normal((N, 6)))
    X[:, 5] = 0.0
    dense, _ = agree(Trees(bins=32), divided(X))
    sparse, _ = agree(Trees(bins=32), divided(sp.csr_array(X)))
    np.testing.assert_array_equal(dense.edges, sparse.edges)
    one, other = Table.of(X, dense), Table.of(sp.csr_array(X), sparse)
    assert len(other.rows) < np.count_nonzero(X) + 1
    for j in range(6):
        a, b = (np.full(N, t.usual[j]) for t in (one, other))
        for filled, t in ((a, one), (b, other)):
            part = slice(t.ends[j], t.ends[j + 1])
            filled[t.rows[part]] = t.bins[part]
        np.testing.assert_array_equal(a, b)


def test_only_sums_are_asked_for_and_the_ledger_lists_them() -> None:
    X = np.column_stack([COLUMNS["normal"], COLUMNS["mostly zero"]])
    _, fed = agree(Trees(), divided(X))
    steps = [call for record in fed.ledger.records for call in record.calls]
    assert {step for step in steps if step.startswith("algorithm")} == {
        "algorithm.column_sizes",
        "algorithm.cell_counts",
        "algorithm.values_at",
    }
    assert all(purpose == "setup" for record in fed.ledger.records for purpose in record.purposes)
    assert steps.count("algorithm.cell_counts") <= 7


def test_clients_of_one_row() -> None:
    x = np.arange(12.0)[:, None]
    bins, _ = agree(Trees(), [fs.Client(f"c{i}", x[i : i + 1], np.zeros(1)) for i in range(12)])
    assert 1 <= len(bins.column(0)) <= 11


def test_missing_cells_have_a_bin_of_their_own() -> None:
    X = np.column_stack([COLUMNS["normal"], COLUMNS["normal"]])
    X[::3, 1] = np.nan
    keep = fs.data.Preprocess(standardise=False, impute="keep")
    bins, _ = agree(Trees(bins=8), divided(X), keep)
    assert bins.missing.tolist() == [0, 1]
    assert bins.counts.tolist() == [8, 9]
    table = Table.of(X, bins)
    part = slice(table.ends[1], table.ends[2])
    assert (table.rows[part][table.bins[part] == table.missing_bin[1]] % 3 == 0).all()


def test_codes_are_cut_between_whole_numbers_and_fractions_rejected() -> None:
    codes = np.random.default_rng(3).integers(0, 4, (N, 1)).astype(float)
    bins, _ = agree(Trees(categories=((0, 4),)), divided(codes))
    np.testing.assert_array_equal(bins.column(0), [0.5, 1.5, 2.5])
    codes[5] = 1.5
    with pytest.raises(DataError, match="whole numbers"):
        agree(Trees(categories=((0, 4),)), divided(codes))
    with pytest.raises(ConfigError, match="no column 'hue'"):
        agree(Trees(categories=(("hue", 4),)), divided(codes))


def test_a_client_answers_no_bounds_that_are_none() -> None:
    client = divided(np.ones((20, 2)))[0]
    learner = Trees()
    for bounds, starts in (
        (np.zeros(3), np.array([0, 3])),
        (np.zeros(3), np.array([0, 2, 5])),
        (np.zeros(3), np.array([0, 4, 3])),
        (np.zeros(3, dtype=np.float32), np.array([0, 1, 3])),
        (np.array([0.0, np.nan, 1.0]), np.array([0, 1, 3])),
        (np.zeros(10_000), np.array([0, 10_000, 10_000])),
    ):
        with pytest.raises(WrongType):
            SharedBins.cell_counts(learner, client, bounds, starts)
        with pytest.raises(WrongType):
            SharedBins.values_at(learner, client, bounds, starts)


class Lying(fs.Client):
    """A client whose answers are changed before they are sent."""

    __slots__ = ("lie",)

    def globalise(self, value):
        return self.lie(super().globalise(value))


@pytest.mark.parametrize(
    "lie",
    [
        lambda reply: replace(reply, others=reply.others + 10_000) if hasattr(reply, "others") else reply,
        lambda reply: replace(reply, logs=reply.logs + 1e9) if hasattr(reply, "logs") else reply,
        lambda reply: replace(reply, rows=reply.rows - 1_000) if hasattr(reply, "mixed") else reply,
        lambda reply: replace(reply, rows=reply.rows + 10_000) if hasattr(reply, "mixed") else reply,
        lambda reply: replace(reply, rows=reply.rows + 0.5) if hasattr(reply, "mixed") else reply,
    ],
)
def test_sums_that_no_rows_have_are_rejected(lie) -> None:
    clients = divided(COLUMNS["normal"][:, None])
    liar = Lying("c0", clients[0].X, clients[0].y)
    liar.lie, liar.is_numpy = lie, False
    with pytest.raises(DataError, match="true of no rows"):
        agree(Trees(), [liar, *clients[1:]])


def test_a_column_that_nobody_has() -> None:
    X = np.column_stack([COLUMNS["normal"], np.full(N, np.nan)])
    bins, _ = agree(Trees(bins=8), divided(X), fs.data.Preprocess(standardise=False, impute="keep"))
    assert bins.counts.tolist() == [8, 2]


def test_keys_are_in_the_order_of_numbers() -> None:
    values = np.array([-1e300, -2.0, -5e-324, 0.0, 5e-324, 1.0, np.nextafter(1.0, 2), 1e300])
    assert (np.diff(keys(values)) > 0).all()
    np.testing.assert_array_equal(floats(keys(values)), values)
    assert keys(np.array([np.nextafter(1.0, 2)]))[0] - keys(np.array([1.0]))[0] == 1
    assert (np.diff(Grid.first(1.0).bounds) > 0).all()
