"""Ensembles: what they predict, and that files, names and transforms are those of every other model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.learners.parts import Part
from fedsolve.models.base import from_parts, to_parts
from tests.algorithms.toy_learners import ScaleOracle, ToyStump

RIDGE = fs.RidgeLearner(0.1)


def ensemble(link: str = "identity", outputs: tuple[int, ...] = (), **more: Any) -> fs.Ensemble:
    """f(x) = 0.5 (2 · 1 + 3 h₁(x)) − h₂(x) with ridge functions of two columns."""
    rng = np.random.default_rng(0)
    functions = [(rng.normal(size=(2, *outputs)), rng.normal(size=outputs)) for _ in range(2)]
    parts = (
        Part(2.0, np.array([3.0]), (functions[0],)),
        Part(0.5, np.array([-1.0]), (functions[1],)),
    )
    return fs.Ensemble(RIDGE, np.ones(outputs), parts, 2, link, **more)


def by_hand(model: fs.Ensemble, X: Any) -> Any:
    (w1, b1), (w2, b2) = (part.functions[0] for part in model.parts)
    return 0.5 * (2.0 * 1.0 + 3.0 * (X @ w1 + b1)) - (X @ w2 + b2)


X = np.random.default_rng(1).normal(size=(7, 2))


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_it_is_the_sum_of_its_parts(outputs: tuple[int, ...]) -> None:
    model = ensemble(outputs=outputs)
    np.testing.assert_allclose(model.predict(X), by_hand(model, X), rtol=1e-14)
    np.testing.assert_allclose(model.predict(sp.csr_array(X)), by_hand(model, X), rtol=1e-13)
    np.testing.assert_allclose(model.weights(), [1.5, -1.0])
    assert len(model) == 2
    assert model.outputs == outputs
    assert model.columns == 2


def test_what_it_says_of_classes() -> None:
    two = ensemble("logistic", classes=("no", "yes"))
    f = by_hand(two, X)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], 1 / (1 + np.exp(-f)), rtol=1e-13)
    np.testing.assert_allclose(two.predict_proba(X).sum(axis=1), 1.0)
    assert two.predict(X).tolist() == ["yes" if one > 0 else "no" for one in f]
    assert two.class_codes(X).tolist() == (f > 0).astype(int).tolist()
    assert two.positive_probability(X) is not None
    assert two.score(X, (f > 0).astype(float)) == 1.0
    three = ensemble("softmax", (3,), classes=("a", "b", "c"))
    f = by_hand(three, X)
    np.testing.assert_allclose(three.predict_proba(X), np.exp(f) / np.exp(f).sum(axis=1, keepdims=True), rtol=1e-12)
    assert three.predict(X).tolist() == ["abc"[place] for place in f.argmax(axis=1)]
    assert three.n_classes == 3
    counts = ensemble("exponential")
    np.testing.assert_allclose(counts.predict(X, offset=np.full(7, 0.3)), np.exp(by_hand(counts, X) + 0.3), rtol=1e-12)
    with pytest.raises(ConfigError, match="regression"):
        counts.predict_proba(X)


def test_a_file_without_thousands_of_entries(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    parts = tuple(
        Part(
            float(rng.normal()),
            rng.normal(size=40),
            tuple((rng.normal(size=2), rng.normal(size=())) for _ in range(40)),
        )
        for _ in range(50)
    )
    model = fs.Ensemble(RIDGE, np.array(0.3), parts, 2, "logistic", ("no", "yes"), feature_names=("age", "dose"))
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert len(file.files) < 12
    again = fs.load_model(tmp_path / "model.npz")
    assert type(again) is fs.Ensemble
    assert again.learner == RIDGE
    assert again.feature_names == ("age", "dose")
    assert len(again) == 2000
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def test_an_empty_ensemble_and_functions_of_unequal_size(tmp_path: Path) -> None:
    nothing = fs.Ensemble(RIDGE, np.array([1.0, 2.0]), (), 2)
    nothing.save(tmp_path / "model.npz")
    assert fs.load_model(tmp_path / "model.npz").predict(X).tolist() == [[1.0, 2.0]] * 7
    assert nothing.importances() is None
    features = fs.RidgeLearner(0.1, fs.RandomFourier(features=6, gamma=0.5, seed=3))
    part = Part(1.0, np.ones(1), ((np.arange(6.0), np.array(0.5)),))
    mapped = fs.Ensemble(features, np.array(0.0), (part,), 2)
    mapped.save(tmp_path / "mapped.npz")
    assert np.array_equal(fs.load_model(tmp_path / "mapped.npz").predict(X), mapped.predict(X))
    assert fs.load_model(tmp_path / "mapped.npz").learner == features


def test_a_file_that_is_no_ensemble() -> None:
    text, arrays = to_parts(ensemble())
    wrong: list[tuple[str, dict[str, Any]]] = [
        (text.replace("ridge", "os.system"), arrays),
        (text.replace('"link": "identity"', '"link": "tanh"'), arrays),
        (text, {**arrays, "coefficients": np.zeros(5)}),
        (text, {**arrays, "counts": np.array([1, -1])}),
        (text, {**arrays, "counts": np.array([1, 7])}),
        (text, {**arrays, "functions0": arrays["functions0"][:-1]}),
        (text, {**arrays, "functions0": arrays["functions0"] * np.nan}),
        (text, {**arrays, "shapes0": np.array([[-2], [2]])}),
        (text, {**arrays, "shapes0": np.array([[1], [3]])}),
        (text, {name: one for name, one in arrays.items() if not name.startswith(("functions", "shapes"))}),
    ]
    assert from_parts(text, arrays).predict(X).shape == (7,)
    for said, given in wrong:
        with pytest.raises(DataError):
            from_parts(said, given)


def test_columns_are_matched_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    model = ensemble(feature_names=("age", "dose"))
    frame = pandas.DataFrame(X, columns=["age", "dose"])
    assert np.array_equal(model.predict(frame[["dose", "age"]]), model.predict(X))
    with pytest.raises(DataError, match="dose"):
        model.predict(frame[["age"]])
    with pytest.raises(DataError, match="2 columns"):
        model.predict(X[:, :1])
    missing = X.copy()
    missing[3, 1] = np.nan
    with pytest.raises(DataError, match="'dose', row 3"):
        model.predict(missing)


def test_it_follows_the_run(tmp_path: Path) -> None:
    """Raw columns go in, classes come out: names, transform and classes are filled in by the run."""
    rng = np.random.default_rng(0)
    given = [
        fs.Client(f"c{i}", rng.normal(50.0, 9.0, (40, 2)), rng.integers(0, 2, 40).astype(float),
                  feature_names=("age", "dose"), classes=("no", "yes"))
        for i in range(3)
    ]  # fmt: skip
    run = fs.run(fs.FFGB(fs.Logistic(), RIDGE, step_size=0.5), given, rounds=4, preprocess=fs.data.Preprocess())
    model = run.model
    assert model.classes == ("no", "yes")
    assert model.feature_names == ("age", "dose")
    assert model.transform is not None
    run.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    raw = given[0].X
    assert set(again.predict(raw).tolist()) <= {"no", "yes"}
    assert np.array_equal(again.predict_proba(raw), model.predict_proba(raw))
    shares = model.importances()
    assert shares is not None
    assert list(shares) == ["age", "dose"]
    assert sum(shares.values()) == pytest.approx(1.0)
    said = model.described()
    assert "12 functions from 4 rounds" in said.sentences[0]
    assert {row[0] for row in said.rows} == {"age", "dose"}


def test_importances_count_functions_by_their_part_in_f() -> None:
    model = ensemble()
    (w1, _), (w2, _) = (part.functions[0] for part in model.parts)
    total = 1.5 * np.abs(w1) + 1.0 * np.abs(w2)
    assert model.importances() == pytest.approx({"x0": total[0] / total.sum(), "x1": total[1] / total.sum()})
    erased = replace(model, parts=(*model.parts[:1], replace(model.parts[1], decay=0.0)))
    assert erased.importances() == pytest.approx(dict(zip(("x0", "x1"), np.abs(w2) / np.abs(w2).sum(), strict=True)))
    table = fs.Ensemble(ScaleOracle(1.0, 3), np.array(0.0), (), 1)
    assert table.importances() is None
    assert table.described().rows == ()


def test_functions_that_are_not_alike_cannot_be_saved() -> None:
    parts = (
        Part(
            1.0,
            np.ones(2),
            ((np.array([0]), np.array([0.5]), np.zeros(2)), (np.array([0.0]), np.array([0.5]), np.zeros(2))),
        ),
    )
    model = fs.Ensemble(ToyStump(3), np.array(0.0), parts, 1)
    with pytest.raises(ConfigError, match="arrays of one kind"):
        to_parts(model)


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    ensemble().save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="damaged"):
        fs.load_model(path)
