"""Labels mean the same everywhere: classes are declared, never numbered by one site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsolve as fs
from fedsolve.data import Dirichlet, partition
from fedsolve.errors import DataError, InputError
from fedsolve.tables.labels import Labels

RNG = np.random.default_rng(8)
X = RNG.normal(size=(90, 3))
CODES = np.where(X[:, 0] > 0.6, 2, np.where(X[:, 1] > 0, 1, 0))
CODES = np.sort(CODES)  # the first client has no sample of the last class, the last client none of the first
KINDS = ("mild", "none", "severe")
TEXT = np.array(KINDS)[CODES]
PARTS = (slice(0, 25), slice(25, 60), slice(60, 90))
SOFTMAX = fs.Softmax(l2=0.1, intercept="free", classes=3)


def clients(y: Any, classes: Any) -> list[fs.Client]:
    return [fs.Client(f"c{i}", X[part], y[part], classes=classes) for i, part in enumerate(PARTS)]


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_text_labels_are_declared(transport: str, tmp_path: Path) -> None:
    assert set(TEXT[PARTS[0]]) != set(KINDS)
    numbers = fs.run(fs.Newton(SOFTMAX), clients(CODES, None))
    found = fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS), transport=transport)
    assert np.array_equal(found.model.w, numbers.model.w)
    assert found.model.classes == KINDS
    assert np.array_equal(found.model.predict(X), np.array(KINDS)[numbers.model.predict(X)])
    found.model.save(tmp_path / "model.npz")
    assert np.array_equal(fs.load_model(tmp_path / "model.npz").predict(X), found.model.predict(X))
    turned = fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS[::-1]))
    assert np.allclose(turned.model.predict_proba(X)[:, ::-1], found.model.predict_proba(X), atol=1e-8)


def test_a_site_with_one_class_only() -> None:
    yes = np.where(CODES > 0, "yes", "no")
    assert set(yes[PARTS[2]]) == {"yes"}
    found = fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients(yes, ("no", "yes")))
    numbers = fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients((CODES > 0).astype(float), None))
    assert np.array_equal(found.model.w, numbers.model.w)
    assert set(found.model.predict(X)) <= {"no", "yes"}


@pytest.mark.parametrize("given", [(-1, 1), ("-1", "1"), (-1.0, np.float64(1))])
def test_classes_can_be_numbers(given: tuple[Any, ...]) -> None:
    signs = np.where(CODES > 0, 1, -1)
    model = fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients(signs, given)).model
    assert set(model.predict(X).astype(int)) == {-1, 1}


def test_text_without_classes_is_rejected() -> None:
    with pytest.raises(DataError, match=r"client 'c0': y has dtype .*classes="):
        clients(TEXT, None)
    with pytest.raises(DataError, match=r"client 'c0': row 0 has the label 'mild'.*none of the declared classes"):
        clients(TEXT, ("none", "severe"))
    with pytest.raises(DataError, match="a missing label"):
        fs.Client("a", X[:2], np.array(["mild", None], dtype=object), classes=KINDS)
    for wrong in ("ab", ["a"], ["a", "a"], ["1", 1], ["a", None], [("a",), "b"]):
        with pytest.raises(DataError, match="classes"):
            fs.Client("a", X[:2], ["a", "a"], classes=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [("none", "mild", "severe"), ("mild", "none", "severe", "worse"), None])
def test_clients_that_declare_otherwise_are_rejected(other: Any) -> None:
    mixed = clients(TEXT, KINDS)
    y = CODES if other is None else TEXT
    mixed[1] = fs.Client("c1", X[PARTS[1]], y[PARTS[1]], classes=other)
    for given in (mixed, mixed[1:]):
        with pytest.raises(InputError, match=r"'c1'.*classes"):
            fs.run(fs.Newton(SOFTMAX), given)


def test_the_loss_has_as_many_classes() -> None:
    with pytest.raises(InputError, match=r"3 classes are declared .*Logistic has 2"):
        fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients(TEXT, KINDS))
    with pytest.raises(InputError, match=r"3 classes are declared .*Softmax has 4"):
        fs.run(fs.Newton(fs.Softmax(l2=0.1, classes=4)), clients(TEXT, KINDS))
    with pytest.raises(InputError, match="Squared is a regression"):
        fs.run(fs.Newton(fs.Squared(l2=0.1)), clients(TEXT, KINDS))


def test_partition_numbers_labels_once() -> None:
    for y in (TEXT, TEXT.astype(object), list(TEXT), pd.Series(TEXT)):
        for client in partition(X, y, Dirichlet(0.3), clients=4):
            assert client.classes == KINDS
    text = partition(X, TEXT, clients=4, seed=2)
    numbers = partition(X, CODES, clients=4, seed=2)
    for a, b in zip(text, numbers, strict=True):
        assert np.array_equal(a.y, b.y)
    declared = partition(X, TEXT, clients=4, seed=2, classes=("severe", "none", "mild"))
    assert np.array_equal(declared[0].y, 2 - numbers[0].y)
    assert numbers[0].classes is None


def test_the_top_class_may_be_missing_at_a_client() -> None:
    assert CODES[PARTS[0]].max() < 2
    assert fs.run(fs.Newton(SOFTMAX), clients(CODES, None)).model.coef.shape == (3, 3)


def test_columns_of_targets_have_names_too() -> None:
    one_hot = pd.DataFrame(np.eye(3)[CODES], columns=KINDS)
    squared = fs.Squared(l2=0.1)
    found = fs.run(fs.Newton(squared), clients(one_hot, None))
    assert found.model.classes == KINDS
    assert set(found.model.classify(X)) <= set(KINDS)
    mixed = clients(one_hot, None)
    mixed[1] = fs.Client("c1", X[PARTS[1]], one_hot[["none", "mild", "severe"]][PARTS[1]])
    with pytest.raises(DataError, match="'c1' declares the classes"):
        fs.run(fs.Newton(squared), mixed)
    mixed[1] = fs.Client("c1", X[PARTS[1]], one_hot[["none", "mild", "severe"]][PARTS[1]], classes=KINDS)
    assert np.array_equal(fs.run(fs.Newton(squared), mixed).model.w, found.model.w)


def test_a_warm_start_of_other_classes_is_rejected() -> None:
    model = fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS)).model
    with pytest.raises(InputError, match="the warm start's classes"):
        fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS[::-1]), warm_start=model)


def test_nothing_more_is_sent_without_classes() -> None:
    """What a client without declared classes answers is what it always was."""
    plain = fs.run(fs.Newton(SOFTMAX), clients(CODES, None)).ledger
    named = fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS)).ledger
    assert plain.total("setup").bytes_up < named.total("setup").bytes_up
    assert plain.total("algorithm") == named.total("algorithm")


def test_resuming_with_other_classes_is_rejected(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    fs.run(fs.Newton(SOFTMAX), clients(TEXT, KINDS), rounds=1, checkpoint=saved)
    with pytest.raises(InputError, match="not what the run began with"):
        fs.run(fs.Newton(SOFTMAX), clients(CODES, None), rounds=2, checkpoint=saved, resume=True)


def test_rows_of_labels_know_their_classes() -> None:
    labels = Labels.of(np.array([0, 1, 1]), ("no", "yes"))
    for same in (labels[1:], labels[labels == 1], labels.copy(), labels.astype(float), labels.reshape(3, 1)):
        assert same.classes == ("no", "yes")
    for other in (labels == 1, 1 - labels, np.asarray(labels), np.where(labels, 1, 0), np.array([1, 0])[labels]):
        assert type(other) is np.ndarray
    assert np.concatenate([labels, labels]).tolist() == [0, 1, 1, 0, 1, 1]
    assert getattr(np.concatenate([labels, labels[:1]]), "classes", None) is None
    labels += 1
    assert labels.tolist() == [1, 2, 2]


def test_labels_of_one_table_agree() -> None:
    labels = Labels.of(CODES, KINDS)
    found = fs.run(fs.Newton(SOFTMAX), clients(labels, None))
    assert found.model.classes is None  # numbers were given, and numbers are predicted
    assert np.array_equal(found.model.w, fs.run(fs.Newton(SOFTMAX), clients(CODES, None)).model.w)
    mixed = clients(labels, None)
    mixed[1] = clients(CODES, None)[1]  # nothing is known of these
    assert fs.run(fs.Newton(SOFTMAX), mixed).status == "converged"
    mixed[2] = fs.Client("c2", X[PARTS[2]], Labels.of(CODES[PARTS[2]], ("none", "mild", "severe")))
    with pytest.raises(DataError, match="'c2' were numbered"):
        fs.run(fs.Newton(SOFTMAX), mixed)
