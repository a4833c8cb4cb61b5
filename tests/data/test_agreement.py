"""Labels and columns of a data set, agreed by name: what run files and commands use is there for Python too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Dataset
from fedsolve.errors import DataError, UnknownName
from fedsolve.tables.column_names import chosen_columns
from fedsolve.tables.labels import same_label, with_names

X = np.arange(12.0).reshape(4, 3)


def dataset(y: Any, names: Any = None, y_test: Any = None, **more: Any) -> Dataset:
    test = {} if y_test is None else {"X_test": X[: len(y_test)], "y_test": np.asarray(y_test)}
    return Dataset("own", X, np.asarray(y), ("a", "b", "c"), names, **test, **more)


# ── labels ──


@pytest.mark.parametrize(
    ("y", "names", "positive", "expected", "classes"),
    [
        ([0, 1, 1, 0], None, None, [0, 1, 1, 0], None),
        ([0, 1, 1, 0], ("no", "yes"), None, [0, 1, 1, 0], ("no", "yes")),
        ([0, 1, 1, 0], ("no", "yes"), "no", [1, 0, 0, 1], ("yes", "no")),
        ([0, 1, 1, 0], ("no", "yes", "never"), None, [0, 1, 1, 0], None),
        ([-1, 1, 1, -1], None, None, [0, 1, 1, 0], (-1, 1)),
        ([1.5, 2.0, 2.0, 1.5], None, None, [0, 1, 1, 0], (1.5, 2)),
        ([0, 1, 2, 1], ("x", "y", "z"), "y", [0, 1, 0, 1], ("not y", "y")),
        ([0, 1, 2, 1], None, 2, [0, 0, 1, 0], ("not 2", "2")),
        ([0.0, 0.3, 1.0, 0.5], None, None, [0.0, 0.3, 1.0, 0.5], None),  # shares of the second class
    ],
)
def test_two_classes(y: Any, names: Any, positive: Any, expected: Any, classes: Any) -> None:
    found = dataset(y, names).binary(positive)
    np.testing.assert_array_equal(found.y, expected)
    assert found.target_names == classes


def test_the_test_rows_are_recoded_as_the_others() -> None:
    found = dataset([0, 1, 2, 1], ("x", "y", "z"), [2, 1]).binary("z")
    np.testing.assert_array_equal(found.y, [0, 0, 1, 0])
    assert found.y_test is not None
    np.testing.assert_array_equal(found.y_test, [1, 0])
    assert found.labels.tolist() == ["not z", "not z", "z", "not z"]


def test_what_has_not_two_classes() -> None:
    with pytest.raises(DataError, match="own: the target has 3 classes, the logistic loss takes two; set positive"):
        dataset([0, 1, 2, 1]).binary()
    with pytest.raises(UnknownName, match=r"unknown class for positive 'w'. Known: x, y, z"):
        dataset([0, 1, 2, 1], ("x", "y", "z")).binary("w")
    with pytest.raises(UnknownName, match=r"class for data.positive '7'"):
        dataset([0, 1, 2, 1]).binary(7, "data.positive")
    with pytest.raises(UnknownName, match="'y'"):  # declared, and of no row
        dataset([0, 2, 2, 0], ("x", "y", "z")).binary("y")


def test_a_python_user_learns_what_a_run_file_would() -> None:
    data = fs.data.load("iris").binary("virginica")
    clients = fs.data.partition(data.X, data.y, clients=3)
    model = fs.run(fs.Newton(fs.Logistic(l2=0.01, intercept="free")), clients).model.with_classes(data.target_names)
    assert set(model.predict(data.X)) == {"not virginica", "virginica"}
    assert np.mean(model.predict(data.X) == data.labels) > 0.9


def test_labels_that_mean_the_same() -> None:
    assert same_label("1", 1.0)
    assert same_label(np.int64(2), " 2 ")
    assert same_label("yes", "yes ")
    assert not same_label("yes", "Yes")
    assert not same_label(float("nan"), float("nan"))
    assert with_names(np.array([1, 0]), None).tolist() == [1, 0]
    assert with_names(np.eye(2), ("a", "b")).shape == (2, 2)


# ── columns ──


def test_columns_in_order() -> None:
    data = dataset([0, 1, 1, 0], y_test=[1, 0])
    found = data.in_order(["c", "a", "b"], "own", "give all")
    np.testing.assert_array_equal(found.X, X[:, [2, 0, 1]])
    np.testing.assert_array_equal(found.X_test, X[:2, [2, 0, 1]])
    assert found.feature_names == ("c", "a", "b")
    with pytest.raises(DataError, match=r"own lacks 'd' and has 'c', which is not expected; give all"):
        data.in_order(["d", "a", "b"], "own", "give all")


def test_a_table_without_a_header_is_taken_by_place() -> None:
    counted = Dataset("own", X, np.zeros(4), ("column_0", "column_1", "column_2"))
    found = counted.in_order(["c", "a", "b"], "own", "give all")
    assert found.feature_names is None
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(counted.inputs_for(["c", "a", "b"]), X)
    nameless = Dataset("own", X, np.zeros(4))
    assert nameless.in_order(["c"], "own", "give all") is nameless


def test_inputs_of_a_model() -> None:
    data = dataset([0, 1, 1, 0])
    np.testing.assert_array_equal(data.inputs_for(["b", "a"]), X[:, [1, 0]])
    np.testing.assert_array_equal(data.inputs_for(None), X)
    np.testing.assert_array_equal(data.inputs_for(["x0", "x1"]), X)  # names that only count
    with pytest.raises(DataError, match=r"own: no column 'weight', and the model takes its columns by name"):
        data.inputs_for(["weight", "b"])
    with pytest.raises(DataError, match=r"no column 'B ' \(is it 'b'\?\)"):
        data.inputs_for(["B ", "c"])


def test_columns_of_a_file() -> None:
    assert chosen_columns("f", ["y", "b", "a"], ["a", "b"], {"y"}) == ["a", "b"]
    assert chosen_columns("f", ["y", "b", "a"], None, {"y"}, 2) == ["b", "a"]
    assert chosen_columns("f", ["y", "b", "a"], ["x0", "x1"], {"y"}, 2) == ["b", "a"]
    with pytest.raises(DataError, match=r"f: 3 columns \(y, b, a\), and the model takes 2; say what is no feature"):
        chosen_columns("f", ["y", "b", "a"], None, (), 2)
    with pytest.raises(DataError, match="no column 'x9'"):  # some of the counted names are there: they are names
        chosen_columns("f", ["x0", "b"], ["x0", "x9"], ())
