"""Files of every kind: written here, read back, and refused where they are not what they say."""

import bz2
import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsolve.data import Dataset, load
from fedsolve.errors import DataError, UnknownName

OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open}

LIBSVM = b"# a comment\n+1 1:0.5 3:2\n-1 2:-1e-3\n+1\n"
TABLE = "age,city,score,ill\n31, Oslo ,1.5,yes\n?,Rome,2,no\n44,,.5,yes\n"


def write(path: Path, content: bytes) -> Path:
    with OPENERS[path.suffix if path.suffix in OPENERS else ""](path, "wb") as file:
        file.write(content)
    return path


def idx(values: np.ndarray, code: int = 0x08) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, code, values.ndim, *values.shape) + values.tobytes()


# ── LIBSVM ──


@pytest.mark.parametrize("compression", OPENERS)
@pytest.mark.parametrize("name", ["plain", "a9a.t", "dna.scale", "rows.svm", "rows.libsvm", "rows.txt"])
def test_libsvm_is_recognised_by_name_or_first_line(tmp_path, name, compression):
    data = load(write(tmp_path / (name + compression), LIBSVM), n_features=4)
    assert isinstance(data.X, csr_array)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2, 0], [0, -1e-3, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(data.y, [1, -1, 1])
    assert (data.name, data.n_samples, data.n_features) == (name + compression, 3, 4)


def test_libsvm_from_zero(tmp_path):
    path = write(tmp_path / "zero.svm", b"1 0:5 1:6\n")
    np.testing.assert_array_equal(load(path, zero_based=True).X.toarray(), [[5, 6]])
    with pytest.raises(DataError, match=r"zero\.svm.*zero_based=True"):
        load(path)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (LIBSVM, {"n_features": 2}, "n_features"),
        (b"1 1:2\nword 1:2\n", {}, "cannot be read as LIBSVM"),
        (b"1\n2\n", {}, "without any 'index:value'"),
    ],
)
def test_libsvm_refusals(tmp_path, content, options, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "bad.svm", content), **options)


# ── tables ──


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.data"])
def test_csv_with_text_columns(tmp_path, name):
    data = load(write(tmp_path / name, TABLE.encode()), target="ill")
    assert data.feature_names == ("age", "city", "score")
    assert data.X.dtype == object
    assert data.X[0].tolist() == [31.0, "Oslo", 1.5]
    assert np.isnan(data.X[1, 0])
    assert np.isnan(data.X[2, 1])
    assert data.target_names == ("no", "yes")
    np.testing.assert_array_equal(data.y, [1, 0, 1])


def test_csv_of_numbers_is_a_float_matrix(tmp_path):
    data = load(write(tmp_path / "t.csv", TABLE.encode()), target="score", drop=["city", -1])
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, [[31], [np.nan], [44]])
    np.testing.assert_array_equal(data.y, [1.5, 2, 0.5])
    assert data.feature_names == ("age",)
    assert list(data.columns) == ["age", "city", "score", "ill"]
    assert data.columns["ill"].tolist() == ["yes", "no", "yes"]


def test_csv_without_header(tmp_path):
    path = write(tmp_path / "t.data", b"1;2;0\n\n3;-9;1\n")
    data = load(path, delimiter=";", na="-9")
    np.testing.assert_array_equal(data.X, [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(data.y, [0, 1])
    assert data.feature_names == ("column_0", "column_1")
    named = load(path, delimiter=";", names=["a", "b", "c"], target=0)
    assert named.feature_names == ("b", "c")
    np.testing.assert_array_equal(named.y, [1, 3])


def test_csv_groups_are_no_feature(tmp_path):
    data = load(write(tmp_path / "t.csv", TABLE.encode()), target="ill", groups="score")
    assert data.feature_names == ("age", "city")
    np.testing.assert_array_equal(data.groups, [1.5, 2, 0.5])


def test_csv_header_may_be_told(tmp_path):
    path = write(tmp_path / "t.csv", b"red,yes\nblue,no\n")
    assert load(path).n_samples == 1
    assert load(path, header=False).n_samples == 2


def test_csv_identifiers_with_underscore_are_text(tmp_path):
    data = load(write(tmp_path / "t.csv", b"id,y\n1_2,0\n12,1\n"))
    assert data.X[:, 0].tolist() == ["1_2", "12"]


def test_csv_with_byte_order_mark_and_quotes(tmp_path):
    data = load(write(tmp_path / "t.csv", b'\xef\xbb\xbfname,y\r\n"a, b",1\r\n'))
    assert data.feature_names == ("name",)
    assert data.X[0, 0] == "a, b"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "empty"),
        (b"a,b\n", {}, "no rows"),
        (b"a,b\n1,2\n1\n", {}, "line 3 has 1 cells"),
        (b"a,a\n1,2\n", {}, "one different name"),
        (b"a,b\n1,2\n", {"target": "c"}, "no column 'c'.*a, b"),
        (b"a,b\n1,2\n", {"target": 2}, "no column 2"),
        (b"a,b\n1,2\n", {"drop": ["a"]}, "no column left"),
        (b"a,b\n1,?\n3,4\n", {}, "'b' is missing in 1 of 2"),
        (b"a,b\n\x81\x8d,2\n", {}, "cannot be read as csv: line 2 has the byte 0x81"),
    ],
)
def test_csv_refusals(tmp_path, content, options, message):
    with pytest.raises(DataError, match=message) as caught:
        load(write(tmp_path / "bad.csv", content), **options)
    assert "bad.csv" in str(caught.value)


# ── npz ──


def test_npz_of_numbers(tmp_path):
    X, y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 0], dtype=np.uint8)
    np.savez(tmp_path / "a.npz", X=X, y=y, site=np.array(["a", "b", "b"]))
    data = load(tmp_path / "a.npz", groups="site")
    np.testing.assert_array_equal(data.X, X)  # a table of small integers is not an image: no scaling
    assert (data.X.dtype, data.y.dtype) == (np.float64, np.int64)
    assert data.groups.tolist() == ["a", "b", "b"]
    assert list(data.columns) == ["site"]
    assert data.X_test is None


def test_npz_of_images_with_test_part(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 2, 2)
    names = np.array(["cat", "dog"])
    np.savez(
        tmp_path / "a.npz",
        x_train=images,
        y_train=[0, 1, 1],
        x_test=images[:1],
        y_test=[1],
        class_names=names,
    )
    data = load(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.X, images.reshape(3, 8) / 255)
    np.testing.assert_array_equal(data.X_test, data.X[:1])
    np.testing.assert_array_equal(data.y_test, [1])
    assert data.target_names == ("cat", "dog")
    np.testing.assert_array_equal(load(tmp_path / "a.npz", scale=False).X, images.reshape(3, 8))


def test_npz_text_labels_are_numbered_over_both_parts(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.eye(2), y_train=["b", "c"], x_test=np.eye(2), y_test=["c", "a"])
    data = load(tmp_path / "a.npz")
    assert data.target_names == ("a", "b", "c")
    assert (data.y.tolist(), data.y_test.tolist()) == ([1, 2], [2, 0])


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"x": np.eye(2)}, {}, "no array 'y'"),
        ({"x": np.eye(2), "y": np.zeros(2)}, {"groups": "site"}, "no array 'site'"),
        ({"x": np.eye(2), "y": np.zeros(3)}, {}, "2 rows but 3 targets"),
        ({"x": np.zeros(2), "y": np.zeros(2)}, {}, "expected rows of numbers"),
        ({"x": np.array([["a"]]), "y": np.zeros(1)}, {}, "expected rows of numbers"),
        ({"x": np.array([{}], dtype=object), "y": np.zeros(1)}, {}, "cannot be read as npz"),
        (
            {"x_train": np.eye(2), "y_train": np.zeros(2), "x_test": np.eye(3), "y_test": np.zeros(3)},
            {},
            "test",
        ),
        ({"x_train": np.eye(2), "y_train": np.zeros(2), "x_test": np.eye(2)}, {}, "come together"),
    ],
)
def test_npz_refusals(tmp_path, arrays, options, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "bad.npz", **options)


# ── idx ──

IMAGES = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
LABELS = np.array([7, 2], dtype=np.uint8)


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_idx_pair(tmp_path, compression):
    images = write(tmp_path / f"train-images-idx3-ubyte{compression}", idx(IMAGES))
    write(tmp_path / f"train-labels-idx1-ubyte{compression}", idx(LABELS))
    data = load(images)
    np.testing.assert_array_equal(data.X, IMAGES.reshape(2, 9) / 255)
    np.testing.assert_array_equal(data.y, [7, 2])
    upright = load(images, transpose=True, scale=False)
    np.testing.assert_array_equal(upright.X.reshape(2, 3, 3), IMAGES.transpose(0, 2, 1))


def test_idx_is_recognised_by_its_first_bytes_and_of_any_type(tmp_path):
    values = np.array([[1.5, -2.0]])
    images = write(tmp_path / "measurements", idx(values.astype(">f4"), code=0x0D))
    labels = write(tmp_path / "labels", idx(np.array([300], dtype=">i2"), code=0x0B))
    data = load(images, labels=labels)
    np.testing.assert_array_equal(data.X, values)
    assert data.y.tolist() == [300]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(IMAGES)[:-1], "declares .2, 3, 3., 18 bytes, but has 17"),
        (idx(IMAGES) + b"!", "but has 19"),
        (idx(IMAGES, code=0x07), "type 0x07"),
        (idx(IMAGES)[:7], "cannot be read as idx"),
        (b"", "cannot be read as idx"),
        (idx(LABELS), "expected rows of numbers"),
        (idx(IMAGES[:1]), "1 rows but 2 targets"),
    ],
)
def test_idx_refusals(tmp_path, content, message):
    write(tmp_path / "a-labels-idx1-ubyte", idx(LABELS))
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "a-images-idx3-ubyte", content))


def test_idx_needs_labels(tmp_path):
    with pytest.raises(DataError, match="labels="):
        load(write(tmp_path / "a-images-idx3-ubyte", idx(IMAGES)))
    wrong = write(tmp_path / "b-images-idx3-ubyte", idx(IMAGES))
    with pytest.raises(DataError, match="one label per image"):
        load(tmp_path / "a-images-idx3-ubyte", labels=wrong)


# ── what to read, and how ──


def test_format_overrides_the_name(tmp_path):
    assert load(write(tmp_path / "rows.csv", LIBSVM), format="libsvm").n_features == 3
    with pytest.raises(UnknownName, match="Did you mean 'csv'"):
        load(tmp_path / "rows.csv", format="cvs")


def test_unknown_names_files_and_options(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'iris'"):
        load("irsi")
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file"):
        load("nowhere.csv")
    with pytest.raises(DataError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(UnknownName, match="Did you mean 'target'"):
        load(write(tmp_path / "t.csv", TABLE.encode()), targt="ill")
    with pytest.raises(DataError, match="pass format="):
        load(write(tmp_path / "t.unknown", b"hello\n"))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.svm.gz", "a.npz", "a-images-idx3-ubyte.gz", "a.csv.bz2"])
def test_damaged_files(tmp_path, name):
    write(tmp_path / "a-labels-idx1-ubyte.gz", idx(LABELS))
    (tmp_path / name).write_bytes(b"not what the name says")
    with pytest.raises(DataError, match="cannot be read as"):
        load(tmp_path / name)


def test_truncated_gzip(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TABLE.encode())[:-12])
    with pytest.raises(DataError, match="cannot be read as csv"):
        load(tmp_path / "a.csv.gz")


def test_a_dataset_checks_itself_and_is_short_to_print():
    data = Dataset("d", np.eye(3), np.zeros(3), X_test=np.eye(3)[:1], y_test=np.zeros(1))
    assert repr(data) == "Dataset('d', 3 x 3, float64, 1 test rows)"
    with pytest.raises(DataError, match="no rows"):
        Dataset("d", np.empty((0, 2)), np.empty(0))
    with pytest.raises(DataError, match="3 rows but 2 groups"):
        Dataset("d", np.eye(3), np.zeros(3), groups=np.zeros(2))
