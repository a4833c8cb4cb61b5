"""Losses and algorithms with features: the pooled kernel ridge solution, whoever holds the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.closed_forms.kernel_ridge import feature_ridge, kernel_ridge, local_model
from fedsolve.errors import ConfigError, DataError, InputError
from fedsolve.features import FeatureMap, Monomials, NystroemRange
from fedsolve.runfiles import registry
from tests.extras import optional

L2 = 1e-4
MAP = fs.RandomFourier(60, 0.02, seed=1)
drawn = fs.data.heterogeneous(5, 120, alpha=0.05, seed=0)
X, y = np.vstack([X for X, _ in drawn.parts]), np.concatenate([y for _, y in drawn.parts])


def clients(parts: Any = drawn.parts) -> list[fs.Client]:
    return [fs.Client(f"c{j}", *part) for j, part in enumerate(parts)]


def by_numpy(phi: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    return np.linalg.solve(phi.T @ phi / len(y) + l2 * np.eye(phi.shape[1]), phi.T @ y / len(y))


POOLED = by_numpy(MAP.block(X), y, L2)


def distance(w: np.ndarray, to: np.ndarray = POOLED) -> float:
    return float(np.linalg.norm(w - to) / np.linalg.norm(to))


LOSS = fs.Squared(l2=L2, features=MAP)


def in_both(algorithm: Any, parts: Any = drawn.parts) -> np.ndarray:
    """The model of a run in one process, which is that of worker processes to the bit, with the same accounts."""
    here, there = (
        fs.run(algorithm, clients(parts), rounds=30, tolerance=1e-12, transport=transport)
        for transport in ("in_process", "processes")
    )
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger.total() == there.ledger.total()
    return here.model.w


@pytest.mark.parametrize("algorithm", [fs.Newton(LOSS), fs.FedNewtonCG(LOSS)], ids=lambda one: type(one).__name__)
def test_exact_algorithms_reach_the_pooled_solution(algorithm: Any) -> None:
    assert distance(in_both(algorithm)) <= 1e-8


def test_dkrr_is_the_mean_of_the_local_solutions() -> None:
    alone = [by_numpy(MAP.block(X), y, L2) for X, y in drawn.parts]
    assert distance(in_both(fs.DKRR(LOSS)), np.mean(alone, axis=0)) <= 1e-8


def test_fednewton_reaches_it_where_rho_is_below_one() -> None:
    parts = fs.data.heterogeneous(4, 800, seed=0).parts
    phis = [MAP.block(X) for X, _ in parts]
    hessians = [phi.T @ phi / len(phi) + L2 * np.eye(60) for phi in phis]
    A, H = np.mean([np.linalg.inv(one) for one in hessians], axis=0), np.mean(hessians, axis=0)
    rho = np.linalg.eigvals(A @ H).real.max() - 1
    assert rho < 0.4  # so that 30 rounds leave at most 0.4³⁰ ≈ 1e-12 of the error
    pooled = by_numpy(np.vstack(phis), np.concatenate([y for _, y in parts]), L2)
    assert distance(in_both(fs.FedNewton(LOSS), parts), pooled) <= 1e-8


def test_sparse_inputs_and_sample_weights_and_an_intercept() -> None:
    sparse = [(sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), y) for X, y in drawn.parts]
    weights = [np.random.default_rng(j).random(120) for j in range(5)]
    given = [fs.Client(f"c{j}", *part, s) for j, (part, s) in enumerate(zip(sparse, weights, strict=True))]
    rows, s = np.vstack([X.toarray() for X, _ in sparse]), np.concatenate(weights)
    phi = np.hstack([MAP.block(rows), np.ones((len(rows), 1))])
    penalty = np.diag([L2] * 60 + [0.0])
    expected = np.linalg.solve(phi.T @ (s[:, None] * phi) / s.sum() + penalty, phi.T @ (s * y) / s.sum())
    for algorithm in (fs.Newton, fs.FedNewtonCG):
        run = fs.run(algorithm(fs.Squared(l2=L2, intercept="free", features=MAP)), given, rounds=40, tolerance=1e-12)
        assert distance(run.model.w, expected) <= 1e-8


@pytest.mark.parametrize("features", [Monomials(2), NystroemRange(-2, 2, 20, 0.05), fs.Polynomial(2)], ids=repr)
def test_other_losses_and_maps(features: FeatureMap) -> None:
    """A loss with features is the loss on the features."""
    label = (y > np.median(y)).astype(float)
    mapped = np.split(features.block(X), 5)
    raw = np.split(X, 5)
    targets: dict[str, np.ndarray] = {"Logistic": label, "Softmax": label, "Poisson": np.floor(np.maximum(-y, 0.0))}
    for name, target in targets.items():
        kind = getattr(fs, name)
        parts = np.split(target, 5)
        one, other = (
            fs.run(fs.Newton(loss), clients(list(zip(inputs, parts, strict=True))), tolerance=1e-10).model.w
            for loss, inputs in ((kind(l2=1e-2, features=features), raw), (kind(l2=1e-2), mapped))
        )
        assert distance(one, other) <= 1e-7


def test_torch_clients() -> None:
    torch = optional("torch")
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        given = [(torch.tensor(X, device=device), torch.tensor(y, device=device)) for X, y in drawn.parts]
        for algorithm in (fs.Newton(LOSS), fs.FedNewtonCG(LOSS)):
            run = fs.run(algorithm, clients(given), rounds=30, tolerance=1e-12)
            assert distance(run.model.w) <= 1e-8


# ── references ──


def test_centralised_references() -> None:
    assert distance(feature_ridge(MAP, X, y, L2).w) <= 1e-8
    alone = local_model(LOSS, clients()[2])
    assert distance(alone.w, by_numpy(MAP.block(drawn.parts[2][0]), drawn.parts[2][1], L2)) <= 1e-8


def test_the_exact_kernel_is_what_many_features_come_to() -> None:
    exact = kernel_ridge("gaussian", 0.02, X, y, 1e-2).predict(drawn.X_test)
    near = feature_ridge(fs.RandomFourier(4000, 0.02), X, y, 1e-2).predict(drawn.X_test)
    assert np.sqrt(np.mean((near - exact) ** 2)) < 0.1 * exact.std()
    # The kernel of a feature map is exact: Nyström on all rows.
    few, t = X[:50], y[:50]
    phi = feature_ridge(fs.Nystroem(few, 0.5), few, t, 1e-2).predict(drawn.X_test)
    np.testing.assert_allclose(phi, kernel_ridge("gaussian", 0.5, few, t, 1e-2).predict(drawn.X_test), atol=1e-9)


def test_the_exact_kernel_with_weights_is_with_repetitions() -> None:
    s = np.random.default_rng(0).integers(0, 3, 50)
    few, t = X[:50], np.stack([y[:50], -(y[:50] ** 2)], axis=1)
    one = kernel_ridge("laplace", 0.3, few, t, 1e-2, sample_weight=s)
    other = kernel_ridge("laplace", 0.3, np.repeat(few, s, axis=0), np.repeat(t, s, axis=0), 1e-2)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=1e-10)
    with pytest.raises(ConfigError, match="l2 > 0"):
        kernel_ridge("laplace", 0.3, few, t, 0.0)


# ── models ──


def test_save_load_predict(tmp_path: Path) -> None:
    for number, features in enumerate((MAP, fs.Nystroem(X[:20] + 0.01, 0.1), fs.Polynomial(2))):
        loss = fs.Squared(l2=1e-2, intercept="free", features=features)
        model = fs.run(fs.Newton(loss), clients(), preprocess=fs.data.Preprocess()).model
        model.save(tmp_path / f"{number}.npz")
        again = fs.load_model(tmp_path / f"{number}.npz")
        assert again.features == features
        assert np.array_equal(again.predict(drawn.X_test), model.predict(drawn.X_test))
        sent = model.transform.apply(drawn.X_test)
        expected = features.block(sent) @ model.coef + model.intercept_
        np.testing.assert_allclose(model.predict(drawn.X_test), expected, rtol=0, atol=1e-10)
        assert type(features).__name__ in repr(again)
        assert len(again.coefficients()) == len(again.w)


def test_wrong_inputs_to_a_model() -> None:
    model = feature_ridge(fs.Polynomial(2), X, y, 1e-2)
    with pytest.raises(DataError, match="10 columns"):
        model.predict(X[:, :4])
    with pytest.raises(DataError, match="missing"):
        model.predict(np.where(X[0, 0] == X, np.nan, X))
    with pytest.raises(DataError, match="matrix"):
        model.predict(X[0])


def test_one_hot_targets_are_classes() -> None:
    label = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    coded = fs.data.one_hot(label, 3)
    assert coded.shape == (600, 3)
    assert np.array_equal(coded.argmax(axis=1), label)
    run = fs.run(fs.FedNewtonCG(LOSS), clients(list(zip(np.split(X, 5), np.split(coded, 5), strict=True))), rounds=30)
    assert run.model.predict(X).shape == (600, 3)
    assert distance(run.model.w, by_numpy(MAP.block(X), coded, L2)) <= 1e-6
    assert np.array_equal(run.model.classify(X), run.model.predict(X).argmax(axis=1))
    assert (run.model.classify(X) == label).mean() > 0.6
    with pytest.raises(ConfigError, match="one-hot"):
        feature_ridge(MAP, X, y, L2).classify(X)


@pytest.mark.parametrize("wrong", [[0, 3], [-1, 0], [0.5, 1], [[0, 1]], ["a", "b"]])
def test_labels_that_are_none(wrong: Any) -> None:
    with pytest.raises(DataError, match="labels"):
        fs.data.one_hot(wrong, 3)


# ── names, files, errors ──


def test_from_a_table() -> None:
    table = {"name": "RandomFourier", "features": 60, "gamma": 0.02, "seed": 1}
    plain = {"name": "FedNewtonCG", "loss": {"name": "Squared", "l2": L2, "features": table}}
    assert registry.build("algorithm", plain) == fs.FedNewtonCG(LOSS)
    ranged = {"name": "nystroem_range", "low": [0, 0], "high": 1, "count": 4, "gamma": 2}
    assert registry.build("feature map", ranged) == NystroemRange([0.0, 0.0], 1.0, 4, 2.0)
    given = {"name": "Nystroem", "landmarks": [[0, 1], [1, 0]], "gamma": 1}
    assert registry.build("feature map", given) == fs.Nystroem([[0, 1], [1, 0]], 1.0)
    by_name = {"name": "Transformer", "transformer": "PolynomialFeatures", "parameters": {"degree": 3}}
    assert registry.build("feature map", by_name).dimension(2) == 10
    assert registry.build("loss", {"name": "Squared", "features": "polynomial"}).features == fs.Polynomial()
    assert registry.build("loss", {"name": "Squared", "features": "none"}).features is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "RandomFurier"}, "RandomFourier"),
        ({"name": "RandomFourier", "features": 10}, "no gamma"),
        ({"name": "RandomFourier", "features": 10, "gamma": 1, "kernel": "matern"}, "kernel"),
        ({"gamma": 1}, "no name"),
    ],
)
def test_faults_in_a_table(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        registry.build("loss", {"name": "Squared", "features": table}, "algorithm.loss")


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(ConfigError, match="feature map"):
        fs.Squared(features=200)  # type: ignore[arg-type]


def test_a_map_for_other_columns_is_refused_before_anything_is_learned() -> None:
    for algorithm in (fs.Newton, fs.DKRR):
        with pytest.raises(InputError, match="landmarks have 3 columns"):
            fs.run(algorithm(fs.Squared(l2=1.0, features=fs.Nystroem(np.eye(3), 1.0))), clients())


def test_a_model_remembers_how_many_columns_its_map_takes(tmp_path: Path) -> None:
    d = X.shape[1]
    fitted = fs.run(fs.Newton(fs.Squared(l2=L2, features=MAP)), clients()).model
    fitted.save(tmp_path / "model.npz")
    for model in (fitted, fs.load_model(tmp_path / "model.npz"), feature_ridge(MAP, X, y, L2)):
        assert model.columns == d
        assert len(model.predict(X[:2])) == 2
        with pytest.raises(DataError, match=rf"takes {d} columns, X has shape \(2, 3\)"):
            model.predict(np.ones((2, 3)))


def test_a_model_file_that_does_not_say_how_many_columns_is_read(tmp_path: Path) -> None:
    import json

    fitted = fs.run(fs.Newton(fs.Squared(l2=L2, features=MAP)), clients()).model
    fitted.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        w, rest = file["w"], json.loads(str(file["model"]))
    del rest["inputs"]
    np.savez(tmp_path / "older.npz", w=w, model=np.array(json.dumps(rest)))
    older = fs.load_model(tmp_path / "older.npz")
    assert older.columns is None
    assert np.array_equal(older.predict(X), fitted.predict(X))
