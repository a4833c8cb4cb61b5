"""Data sets by name: scikit-learn's, small files written here, and the real files of FEDSOLVE_DATA."""

import bz2
import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsolve.data import datasets, load
from fedsolve.data.known_datasets import REGISTRY, data_folder, load_named
from fedsolve.errors import DataError, UnknownName

BUNDLED = {"breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty FEDSOLVE_DATA."""
    for name in ("libsvm", "emnist", "heart", "regression", "cifar"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("FEDSOLVE_DATA", str(tmp_path))
    return tmp_path


# ── the list ──


def test_the_list_says_what_can_be_read_here(folder):
    listed = {info.name: info for info in datasets()}
    assert list(listed) == sorted(REGISTRY)
    assert {name for name, info in listed.items() if info.available} == BUNDLED
    assert {name for name, info in listed.items() if info.source == "scikit-learn"} == BUNDLED
    assert {info.task for info in listed.values()} == {"binary", "multiclass", "regression"}
    (folder / "libsvm/a1a.bz2").write_bytes(bz2.compress(b"-1 3:1\n+1 1:1\n"))
    assert {info.name for info in datasets() if info.available} == BUNDLED | {"a1a"}


def test_the_folder(monkeypatch):
    monkeypatch.setenv("FEDSOLVE_DATA", "~/somewhere")
    assert data_folder() == Path.home() / "somewhere"
    monkeypatch.delenv("FEDSOLVE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_folder() == Path("/cache/fedsolve")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache/fedsolve"


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - BUNDLED))
def test_a_missing_file_says_where_it_was_looked_for(folder, name):
    with pytest.raises(DataError, match="Set FEDSOLVE_DATA") as caught:
        load(name)
    assert repr(name) in str(caught.value)
    assert str(folder / REGISTRY[name].files[0]) in str(caught.value)


def test_unknown_name_and_option(folder):
    with pytest.raises(UnknownName, match="Did you mean 'mnist'"):
        load_named("mnits")
    with pytest.raises(UnknownName, match="option of data set 'iris'"):
        load("iris", scale=False)


# ── scikit-learn's ──


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_bundled(name):
    data, entry = load(name), REGISTRY[name]
    assert data.X.shape == (entry.rows, entry.features)
    assert data.X.dtype == np.float64
    assert (data.name, data.description) == (name, entry.description)
    assert len(data.feature_names) == entry.features
    if entry.task == "regression":
        assert data.y.dtype == np.float64
    else:
        assert data.y.dtype == np.int64
        np.testing.assert_array_equal(np.unique(data.y), range(len(data.target_names)))


# ── small files of the same form ──


def test_binary_labels_become_0_and_1_and_the_test_part_is_as_wide(folder):
    (folder / "libsvm/a9a.bz2").write_bytes(bz2.compress(b"-1 123:1\n+1 1:1\n-1 2:1\n"))
    (folder / "libsvm/a9a.t.bz2").write_bytes(bz2.compress(b"+1 122:1\n"))
    data = load("a9a")
    assert data.y.tolist() == [0, 1, 0]
    assert data.y_test.tolist() == [1]
    assert data.target_names == ("-1", "1")
    assert (data.X.shape, data.X_test.shape) == ((3, 123), (1, 123))
    assert isinstance(data.X_test, csr_array)


def test_labels_1_and_2_become_0_and_1(folder):
    (folder / "libsvm/mushrooms.bz2").write_bytes(bz2.compress(b"2 3:1\n1 1:1\n"))
    data = load("mushrooms")
    assert data.y.tolist() == [1, 0]
    assert data.target_names == ("1", "2")


def test_emnist_is_turned_upright(folder):
    image = np.zeros((1, 28, 28), dtype=np.uint8)
    image[0, 3, 20] = 255
    header = struct.pack(">4I", 2051, 1, 28, 28)
    stem = "emnist/emnist-mnist-test"
    (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + image.tobytes()))
    (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">2IB", 2049, 1, 4)))
    data = load("emnist_digits")
    assert data.X.reshape(28, 28)[20, 3] == 1.0
    assert data.X.sum() == 1.0
    assert load("emnist_digits", scale=False).X.max() == 255.0
    assert data.target_names[data.y[0]] == "4"


def test_femnist_has_its_clients_as_groups(folder):
    images = np.full((3, 28, 28), 51, dtype=np.uint8)
    np.savez(folder / "emnist/femnist_digits_12clients.npz", x=images, y=[1, 2, 3], client=[0, 0, 1])
    data = load("femnist_digits")
    assert data.groups.tolist() == [0, 0, 1]
    np.testing.assert_allclose(data.X, 0.2)


def test_letters_have_the_natural_ones_for_test(folder):
    images = np.zeros((3, 28, 28), dtype=np.uint8)
    letters = {"x": images, "y": [0, 1, 25], "x_extra": images[:1], "y_extra": [4]}
    np.savez(folder / "emnist/nist_az_letters_subset.npz", **letters)
    data = load("nist_letters")
    assert data.X_test.shape == (1, 784)
    assert data.target_names[data.y_test[0]] == "E"


def test_heart_is_four_hospitals(folder):
    row = ",".join(["?"] + ["1"] * 12)
    for hospital, diagnosis in zip(("cleveland", "hungarian", "switzerland", "va"), (0, 1, 4, 0), strict=True):
        (folder / f"heart/processed.{hospital}.data").write_text(f"{row},{diagnosis}\n")
    data = load("heart")
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.columns["diagnosis"].tolist() == [0, 1, 4, 0]
    assert data.groups.tolist() == ["cleveland", "hungarian", "switzerland", "va"]
    assert np.isnan(data.X[:, 0]).all()
    assert data.X.shape == (4, 13)


def test_tables_know_their_target(folder):
    header = "url, timedelta, n_tokens_title, shares\n"
    (folder / "regression/OnlineNewsPopularity_part.csv.gz").write_bytes(
        gzip.compress(f"{header}http://a,730,12,593\n".encode())
    )
    data = load("news")
    assert data.feature_names == ("n_tokens_title",)
    assert (data.X.tolist(), data.y.tolist()) == ([[12.0]], [593.0])


# ── the real files ──

real = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data here")

# rows of each class in the part to learn from, where the files' own documentation states them
CLASS_COUNTS = {
    "a1a": [1210, 395],
    "a9a": [24720, 7841],
    "dna": [464, 485, 1051],
    "emnist_digits": [1000] * 10,
    "fashion_mnist": [6000] * 10,
    "heart": [164 + 188 + 8 + 51, 139 + 106 + 115 + 149],
    "cifar100": [100] * 100,
    "mushrooms": [3916, 4208],
    "nist_letters": [115] * 26,
    "phishing": [4898, 6157],
    "satimage": [1072, 479, 961, 415, 470, 1038],
    "sensorless": [200] * 11,
    "shuttle": [34108, 37, 132, 6748, 2458, 6, 11],
    "w8a": [48270, 1479],
}
CLASSES = {"letter": 26, "pendigits": 10, "usps": 10, "mnist": 10, "femnist_digits": 10, "cifar10": 10}
TEST_ROWS = {
    "a9a": 16281,
    "cifar10": 2000,
    "cifar100": 2000,
    "dna": 1186,
    "fashion_mnist": 10000,
    "letter": 5000,
    "mnist": 10000,
    "nist_letters": 2973,
    "pendigits": 3498,
    "satimage": 2000,
    "shuttle": 14500,
    "usps": 2007,
    "w8a": 14951,
}
TEST_COUNTS = {
    "a9a": [12435, 3846],
    "cifar100": [20] * 100,
    "dna": [303, 280, 603],
    "satimage": [461, 224, 397, 211, 237, 470],
    "shuttle": [11478, 13, 39, 2155, 809, 4, 2],
    "w8a": [14497, 454],
}


@real
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - BUNDLED))
def test_real_shapes_and_classes(name):
    data, entry = load(name), REGISTRY[name]
    assert data.X.shape == (entry.rows, entry.features)
    if name in TEST_ROWS:
        assert data.X_test.shape == (TEST_ROWS[name], entry.features)
    else:
        assert data.X_test is None
    if entry.task == "regression":
        return
    counts = np.bincount(data.y)
    assert len(counts) == len(data.target_names)
    assert (len(counts) == 2) == (entry.task == "binary")
    if name in CLASS_COUNTS:
        assert counts.tolist() == CLASS_COUNTS[name]
    else:
        assert len(counts) == CLASSES[name]
    if name in TEST_COUNTS:
        assert np.bincount(data.y_test).tolist() == TEST_COUNTS[name]
    if entry.features in (784, 3072):
        assert (data.X.min(), data.X.max()) == (0.0, 1.0)


@real
def test_real_heart():
    data = load("heart")
    hospitals, sizes = np.unique(data.groups, return_counts=True)
    assert dict(zip(hospitals.tolist(), sizes.tolist(), strict=True)) == {
        "cleveland": 303,
        "hungarian": 294,
        "switzerland": 123,
        "va": 200,
    }
    cleveland = data.columns["diagnosis"][data.groups == "cleveland"]
    assert np.bincount(cleveland).tolist() == [164, 55, 36, 35, 13]
    assert np.isnan(data.X).any()


@real
def test_real_femnist_clients():
    sizes = np.bincount(load("femnist_digits").groups)
    assert (len(sizes), sizes.min(), sizes.max()) == (12, 454, 544)


@real
def test_real_tables():
    housing = load("california_housing")
    assert housing.X.dtype == object
    bedrooms = housing.columns["total_bedrooms"]
    assert np.isnan(bedrooms).sum() == 207
    assert set(housing.X[:, housing.feature_names.index("ocean_proximity")]) >= {"NEAR BAY", "ISLAND"}
    songs = load("msd_songs")
    assert (songs.y.min(), songs.y.max()) == (1926, 2010)
    assert np.isfinite(songs.X).all()


@real
def test_real_emnist_is_upright():
    data = load("emnist_digits")
    ones = data.X[data.y == 1].reshape(-1, 28, 28)
    # a one is a tall stroke: its ink spreads over more rows than columns
    assert (ones.max(axis=2) > 0.5).sum() > 1.5 * (ones.max(axis=1) > 0.5).sum()


@real
def test_real_cifar100_has_its_coarse_classes():
    assert len(np.unique(load("cifar100").columns["coarse_train"])) == 20
