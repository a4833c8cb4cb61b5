"""Every scheme: each sample to exactly one client, the same for the same seed, and refusals that explain."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fedsolve.data import (
    IID,
    ByColumn,
    ByGroup,
    ClassesPerClient,
    Contiguous,
    Dirichlet,
    Given,
    Homogeneity,
    QuantitySkew,
    partition,
    split_indices,
)
from fedsolve.errors import ConfigError, DataError

SCHEMES = st.one_of(
    st.just(IID()),
    st.just(Contiguous()),
    st.builds(Dirichlet, st.floats(0.5, 100)),
    st.builds(QuantitySkew, st.floats(0.5, 100)),
    st.builds(ClassesPerClient, st.integers(1, 6)),
    st.builds(Homogeneity, st.floats(0, 1)),
)
LABELS = st.lists(st.integers(-2, 4), min_size=1, max_size=80).map(np.array)
SEEDS = st.integers(0, 2**32)


def assert_every_sample_once(parts, n_samples):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_samples))
    for part in parts:
        assert len(part) >= 1
        assert (np.diff(part) > 0).all()


# ── what holds for every scheme ──


@settings(deadline=None)
@given(scheme=SCHEMES, y=LABELS, seed=SEEDS, data=st.data())
def test_every_sample_goes_to_one_client_and_the_seed_decides(scheme, y, seed, data):
    clients = data.draw(st.integers(1, len(y)))
    try:
        parts = split_indices(y, scheme, clients=clients, seed=seed)
    except DataError:
        few_classes = isinstance(scheme, ClassesPerClient) and clients * scheme.k < len(np.unique(y))
        unlucky = isinstance(scheme, Dirichlet | QuantitySkew) and clients > 2
        assert few_classes or unlucky
        return
    assert len(parts) == clients
    assert_every_sample_once(parts, len(y))
    again = split_indices(y, scheme, clients=clients, seed=seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize(
    "scheme", [IID(), Dirichlet(1.0), QuantitySkew(1.0), ClassesPerClient(2), Homogeneity(0.5)], ids=str
)
def test_another_seed_gives_another_division(scheme):
    y = np.arange(200) % 5
    one, other = (split_indices(y, scheme, clients=4, seed=seed) for seed in (0, 1))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("scheme", [Dirichlet(1.0), ClassesPerClient(2), Homogeneity(0.5)], ids=str)
@pytest.mark.parametrize("kind", [float, bool, str, object])
def test_labels_of_any_kind(scheme, kind):
    y = (np.arange(60) % 2).astype(kind)
    assert_every_sample_once(split_indices(y, scheme, clients=3), 60)


@pytest.mark.parametrize("scheme", [IID(), Contiguous(), QuantitySkew(1.0), Homogeneity(0.2)], ids=str)
def test_schemes_for_regression(scheme):
    assert_every_sample_once(split_indices(np.linspace(0, 1, 50), scheme, clients=7), 50)


# ── what each scheme promises ──


@settings(deadline=None)
@given(n=st.integers(1, 200), data=st.data())
def test_even_schemes_differ_by_one_sample_at_most(n, data):
    clients = data.draw(st.integers(1, n))
    share = data.draw(st.floats(0, 1))
    for scheme in (IID(), Contiguous(), Homogeneity(share)):
        sizes = [len(part) for part in split_indices(np.arange(n) % 3, scheme, clients=clients)]
        assert max(sizes) - min(sizes) <= 1


def test_contiguous_blocks_of_w8a_size():
    parts = split_indices(np.zeros(142 * 350), Contiguous(), clients=142)
    assert all(np.array_equal(part, np.arange(350 * i, 350 * (i + 1))) for i, part in enumerate(parts))


def class_shares(y, scheme, clients, seeds):
    """Average share of each class that each client gets: an array of (classes, clients)."""
    counts = [
        [[np.sum(y[part] == label) for part in split_indices(y, scheme, clients=clients, seed=seed)]
         for label in np.unique(y)]
        for seed in range(seeds)
    ]  # fmt: skip
    shares = np.array(counts, dtype=float)
    return shares / shares.sum(axis=2, keepdims=True)


def test_dirichlet_has_the_moments_of_its_distribution():
    y, clients, alpha, seeds = np.repeat([0, 1, 2], [400, 600, 1000]), 4, 1.5, 1500
    shares = class_shares(y, Dirichlet(alpha), clients, seeds)
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    # the mean share is 1/clients exactly; five standard errors of the mean
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, atol=5 * np.sqrt(variance / seeds))
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.2)


def test_dirichlet_rounding_favours_no_client():
    # with few samples in a class, cutting by plain rounding would give the last client more than the first
    y, clients, seeds = np.repeat([0, 1], [3, 400]), 5, 3000
    counts = 3 * class_shares(y, Dirichlet(50.0), clients, seeds)[:, 0]
    standard_error = counts.std(axis=0) / np.sqrt(seeds)
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) - 3 / clients), 5 * standard_error)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1000.0])
def test_dirichlet_concentrates_as_it_should(alpha):
    y, clients = np.repeat(np.arange(40), 200), 4
    squares = (class_shares(y, Dirichlet(alpha), clients, seeds=25) ** 2).sum(axis=2)
    expected = (alpha + 1) / (clients * alpha + 1)  # from 1, a class with one client, to 1/clients, all alike
    standard_error = squares.std() / np.sqrt(squares.size)
    assert squares.mean() == pytest.approx(expected, abs=5 * standard_error + 1 / 200)  # counts are whole


def test_min_samples_is_kept():
    y = np.arange(1000) % 10
    for scheme in (Dirichlet(0.3, min_samples=20), QuantitySkew(0.8, min_samples=20)):
        for seed in range(10):
            assert min(len(part) for part in split_indices(y, scheme, clients=10, seed=seed)) >= 20


def test_quantity_skew_keeps_the_mixture_of_labels():
    y = np.arange(20000) % 4
    parts = split_indices(y, QuantitySkew(1.0), clients=5, seed=1)
    sizes = np.array([len(part) for part in parts])
    assert sizes.max() > 2 * sizes.min()
    for part in parts:
        shares = np.bincount(y[part], minlength=4) / len(part)
        np.testing.assert_allclose(shares, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / len(part)))


@settings(deadline=None)
@given(y=LABELS, k=st.integers(1, 6), seed=SEEDS, data=st.data())
def test_classes_per_client(y, k, seed, data):
    classes = len(np.unique(y))
    clients = data.draw(st.integers(1, len(y)))
    if clients * k < classes:
        with pytest.raises(DataError, match="cannot hold"):
            split_indices(y, ClassesPerClient(k), clients=clients, seed=seed)
        return
    parts = split_indices(y, ClassesPerClient(k), clients=clients, seed=seed)
    assert max(len(np.unique(y[part])) for part in parts) <= k
    assert_every_sample_once(parts, len(y))


def test_classes_per_client_are_balanced():
    y = np.arange(1000) % 10
    parts = split_indices(y, ClassesPerClient(2), clients=20, seed=0)
    assert all(len(np.unique(y[part])) == 2 for part in parts)
    assert {len(part) for part in parts} == {50}  # four holders of each class, 25 samples each


def test_homogeneity_ends():
    y = np.random.default_rng(0).permutation(np.arange(100) % 10)
    sorted_blocks = split_indices(y, Homogeneity(0.0), clients=10)
    assert [np.unique(y[part]).tolist() for part in sorted_blocks] == [[label] for label in range(10)]
    half = split_indices(np.arange(4000) % 10, Homogeneity(0.5), clients=10)
    counts = np.bincount((np.arange(4000) % 10)[half[0]], minlength=10)
    assert counts[0] > 200  # its block, and a tenth of what is shared
    assert counts[1:].min() > 0
    mixed = split_indices(np.arange(4000) % 10, Homogeneity(1.0), clients=10)
    assert all(np.bincount((np.arange(4000) % 10)[part], minlength=10).max() < 80 for part in mixed)


@pytest.mark.parametrize(("s", "clients", "n"), [(0.1, 50, 5000), (0.2, 7, 1000), (0.3, 100, 4934)])
def test_homogeneity_by_counts(s: float, clients: int, n: int):
    """Of s·n rows at random each client has its equal part; the rest goes to the clients in the order of the labels."""
    y = np.random.default_rng(1).integers(0, 26, n)
    parts = split_indices(y, Homogeneity(s), clients=clients, seed=4)
    shared = set(np.random.default_rng(4).permutation(n)[: round(s * n)].tolist())
    at_random = [[row for row in part.tolist() if row in shared] for part in parts]
    assert max(map(len, at_random)) - min(map(len, at_random)) <= 1
    assert sum(map(len, at_random)) == round(s * n)
    by_label = [y[[row for row in part.tolist() if row not in shared]] for part in parts]
    for before, after in itertools.pairwise(by_label):
        assert before.max() <= after.min()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_by_group():
    groups = np.array(["b", "a", "b", "c"])
    parts = split_indices(np.zeros(4), ByGroup(), groups=groups)
    assert [part.tolist() for part in parts] == [[1], [0, 2], [3]]
    assert ByColumn is ByGroup


def test_given():
    parts = split_indices(np.zeros(4), Given([[2, 0], np.array([1, 3])]))
    assert [part.tolist() for part in parts] == [[0, 2], [1, 3]]


# ── refusals ──


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dirichlet(0), "alpha"),
        (lambda: Dirichlet(float("nan")), "alpha"),
        (lambda: Dirichlet(1.0, min_samples=0), "min_samples"),
        (lambda: QuantitySkew(-1.0), "alpha"),
        (lambda: QuantitySkew(float("inf")), "alpha"),
        (lambda: ClassesPerClient(0), "k = 0"),
        (lambda: Homogeneity(1.5), "between 0 and 1"),
        (lambda: Homogeneity(-0.1), "between 0 and 1"),
        (lambda: split_indices([0, 1], IID()), "Give clients="),
        (lambda: split_indices([0, 1], IID(), clients=0), "clients = 0"),
        (lambda: split_indices([0, 1], IID(), clients=2, seed=-1), "seed"),
    ],
)
def test_settings_that_make_no_sense(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


Y = np.arange(6) % 3
GAPS = np.array(["a", float("nan")] * 3, dtype=object)


@pytest.mark.parametrize(
    ("y", "scheme", "options", "message"),
    [
        (Y, IID(), {"clients": 7}, "7 clients for 6 samples"),
        (Y, Contiguous(), {"clients": 7}, "take fewer clients"),
        (Y, ClassesPerClient(1), {"clients": 2}, "take k >= 2"),
        (Y + 0.5, Dirichlet(1.0), {"clients": 2}, "continuous.*use IID"),
        (Y + 0.5, ClassesPerClient(1), {"clients": 3}, "continuous.*use IID"),
        (np.array([0, np.nan]), Homogeneity(0.5), {"clients": 2}, "NaN"),
        (np.eye(6), Dirichlet(1.0), {"clients": 2}, "y has shape"),
        (np.eye(6), Homogeneity(0.5), {"clients": 2}, "y has shape"),
        (np.zeros(1000), Dirichlet(0.001), {"clients": 100}, "larger alpha"),
        (Y, QuantitySkew(1.0, min_samples=4), {"clients": 2}, "fewer min_samples"),
        (Y, ByGroup(), {}, "pass groups="),
        (Y, ByGroup(), {"groups": ["a"] * 5}, "5 groups for 6 samples"),
        (Y, ByGroup(), {"groups": GAPS}, "3 samples have no group, the first is row 1"),
        (Y, ByGroup(), {"groups": np.array([None] * 6)}, "6 samples have no group"),
        (Y, ByGroup(), {"groups": np.eye(6)}, "expected one value"),
        (Y, ByGroup(), {"groups": Y, "clients": 4}, "3 groups for clients=4"),
        (Y, Given([[0, 1], [2, 3]]), {}, "2 of 6 rows given to no client, the first is row 4"),
        (Y, Given([[0, 1, 2], [2, 3, 4, 5]]), {}, "given more than once, the first is row 2"),
        (Y, Given([range(5), [6]]), {}, r"client 1 has rows 6\.\.6; expected 0\.\.5"),
        (Y, Given([range(6), [-1]]), {}, "client 1 has rows -1"),
        (Y, Given([range(6), []]), {}, "at least one row number"),
        (Y, Given([[True] * 6]), {}, "type bool"),
        (Y, Given([]), {}, "given to no client"),
        (Y, Given([range(6)]), {"clients": 2}, "clients=2"),
    ],
)
def test_divisions_that_cannot_be_done(y, scheme, options, message):
    with pytest.raises(DataError, match=message):
        split_indices(y, scheme, **options)


# ── clients ──

X = np.arange(24, dtype=float).reshape(12, 2)
TARGETS = np.arange(12) % 3


def test_clients_of_a_dense_matrix():
    clients = partition(X, TARGETS, clients=11, seed=2)
    assert [client.name for client in clients] == [f"client-{i:02}" for i in range(11)]
    for client, part in zip(clients, split_indices(TARGETS, IID(), clients=11, seed=2), strict=True):
        assert client.n_samples == len(part)
        np.testing.assert_array_equal(client.X, X[part])
        np.testing.assert_array_equal(client.y, TARGETS[part])


def test_consecutive_rows_are_not_copied():
    assert all(np.shares_memory(client.X, X) for client in partition(X, TARGETS, Contiguous(), clients=3))


def test_clients_of_a_sparse_matrix():
    for client, dense in zip(
        partition(csr_array(X), TARGETS, ClassesPerClient(1), clients=3),
        partition(X, TARGETS, ClassesPerClient(1), clients=3),
        strict=True,
    ):
        assert isinstance(client.X, csr_array)
        np.testing.assert_array_equal(client.X.toarray(), dense.X)
        np.testing.assert_array_equal(client.y, dense.y)


def test_clients_of_a_raw_table():
    table = np.array([[1.0, "a"], [float("nan"), "b"], [2.0, "a"]], dtype=object)
    first, second = partition(table, [0, 1, 0], Given([[0, 2], [1]]))
    assert first.X.tolist() == [[1.0, "a"], [2.0, "a"]]
    assert second.X[0, 1] == "b"


def test_sample_weights_go_with_their_rows():
    weights = np.arange(12) + 1.0
    clients = partition(X, TARGETS, Homogeneity(0.3), clients=4, sample_weight=weights)
    for client in clients:
        np.testing.assert_array_equal(client.sample_weight, client.X[:, 0] / 2 + 1)
    assert sum(client.weight for client in clients) == weights.sum()


def test_names():
    hospitals = np.array(["va", "cleveland", "va"] * 4)
    assert [c.name for c in partition(X, TARGETS, ByGroup(), groups=hospitals)] == ["cleveland", "va"]
    numbers = [2, 10, 2] * 4
    assert [c.name for c in partition(X, TARGETS, ByGroup(), groups=numbers)] == ["client-02", "client-10"]
    assert [c.name for c in partition(X, TARGETS, clients=2, names=["north", "south"])] == ["north", "south"]
    for names in (["north"], ["north", "north"]):
        with pytest.raises(ConfigError, match="expected 2 different ones"):
            partition(X, TARGETS, clients=2, names=names)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": TARGETS[:5]}, "y has shape"),
        ({"X": X[0]}, "expected a matrix"),
        ({"sample_weight": np.ones(3)}, "sample_weight has shape"),
        ({"groups": ["a"]}, "groups has shape"),
    ],
)
def test_arrays_that_do_not_fit_together(changed, message):
    with pytest.raises(DataError, match=message):
        partition(**{"X": X, "y": TARGETS, "clients": 2} | changed)
