"""Regression trees: against scikit-learn's, by hand, and against clients that lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.tree import DecisionTreeRegressor

import fedsolve as fs
from fedsolve.errors import ConfigError, WrongType
from fedsolve.learners.bins import Bins
from fedsolve.learners.tree import Tree
from fedsolve.learners.trees import Stumps, Trees
from tests.learners.agreeing import agree, divided, fitted

N = 900


def few_values(seed: int = 0, columns: int = 4) -> np.ndarray:
    """Columns of 12 values each, in units that scikit-learn can tell apart: every value has a bin of its own."""
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, 12, (N, columns)) * np.array([1.0, 0.25, 1e3, -0.5])[:columns]
        + np.array([0.0, 0.0, 0.0, 5.0])[:columns]
    )


def wavy(X: np.ndarray, seed: int = 0) -> np.ndarray:
    scaled = X / np.abs(X).max(axis=0)
    noise = np.random.default_rng(seed).standard_normal(len(X))
    return np.sin(5 * scaled[:, 0]) + 2 * (scaled[:, 1] > 0.5) * scaled[:, 2] + 0.3 * noise


def leaf_sizes(tree: Tree, X) -> np.ndarray:
    marked = Tree((*tree.arrays()[:-1], np.arange(float(len(tree.value)))))
    return np.bincount(marked(X).astype(int), minlength=len(tree.value))


def splits_of(tree: DecisionTreeRegressor) -> set[tuple[int, float]]:
    inner = tree.tree_.feature >= 0
    return set(zip(tree.tree_.feature[inner].tolist(), tree.tree_.threshold[inner].tolist(), strict=True))


@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_a_tree_is_that_of_scikit_learn(depth: int, outputs: tuple[int, ...]) -> None:
    X = few_values()
    y = wavy(X) if not outputs else np.column_stack([wavy(X, k) for k in range(3)])
    theirs = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=5, random_state=0).fit(X, y)
    ours = fitted(Trees(depth=depth, leaves=None), X, y)
    np.testing.assert_allclose(ours(X), theirs.predict(X), rtol=1e-10, atol=1e-12)
    assert len(ours.value) == theirs.get_n_leaves()
    np.testing.assert_array_equal(
        np.unique(leaf_sizes(ours, X)), np.unique(np.unique(theirs.apply(X), return_counts=True)[1])
    )
    # The same splits: as many by each column, each between the same two values.
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        mine = np.searchsorted(values, ours.threshold[ours.feature[ours.feature >= 0] == j])
        other = np.searchsorted(values, [at for column, at in splits_of(theirs) if column == j])
        assert set(mine.tolist()) == set(other.tolist())


@pytest.mark.parametrize("leaves", [2, 5, 9])
def test_the_best_leaves_first_as_scikit_learn_does(leaves: int) -> None:
    X = few_values(1)
    y = wavy(X, 1)
    theirs = DecisionTreeRegressor(max_depth=6, max_leaf_nodes=leaves, min_samples_leaf=5, random_state=0).fit(X, y)
    ours = fitted(Trees(depth=6, leaves=leaves), X, y)
    assert len(ours.value) == leaves
    np.testing.assert_allclose(ours(X), theirs.predict(X), rtol=1e-10, atol=1e-12)


def test_importances_are_gains() -> None:
    X = few_values(2)
    y = wavy(X, 2)
    theirs = DecisionTreeRegressor(max_depth=4, min_samples_leaf=5, random_state=0).fit(X, y)
    learner = Trees(depth=4, leaves=None)
    tree = fitted(learner, X, y)
    found = learner.importances(tree, 4)
    np.testing.assert_allclose(found / found.sum(), theirs.feature_importances_, atol=1e-10)
    # Together they are the squared error that the tree explains.
    explained = ((y - y.mean()) ** 2).sum() - ((y - tree(X)) ** 2).sum()
    assert found.sum() == pytest.approx(explained, rel=1e-10)


@pytest.mark.parametrize("min_rows", [1, 5, 40])
def test_no_leaf_stands_for_fewer_rows(min_rows: int) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((400, 5)), rng.standard_normal(400)
    X[:, 4] = np.where(rng.random(400) < 0.97, 0, X[:, 4])
    tree = fitted(Trees(depth=8, leaves=None, min_rows=min_rows), X, y)
    assert leaf_sizes(tree, X).min() >= min_rows
    heavy = np.where(np.arange(400) % 50 == 0, 1e6, 1.0)  # rows count, not their weights
    assert leaf_sizes(fitted(Trees(depth=8, leaves=None, min_rows=min_rows), X, y, heavy), X).min() >= min_rows


def test_five_rows_is_the_default_and_thresholds_are_no_values() -> None:
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.standard_normal(500), rng.integers(0, 5, 500), rng.standard_cauchy(500) * 1e6])
    y = rng.standard_normal(500)
    tree = fitted(Trees(depth=10, leaves=None), X, y)
    assert leaf_sizes(tree, X).min() >= 5
    for j, threshold in zip(tree.feature[tree.feature >= 0], tree.threshold, strict=True):
        assert threshold not in X[:, j]
    few = rng.standard_normal((9, 2))
    alone = fitted(Trees(), few, rng.standard_normal(9), clients=1)
    assert len(alone.value) == 1  # nine rows make no two leaves of five
    one = fitted(Trees(), few[:1], np.array([3.0]), clients=1)
    np.testing.assert_array_equal(one(few), np.full(9, 3.0))


def test_weights_count_as_repeated_rows() -> None:
    X = few_values(5)
    y, weight = wavy(X, 5), np.random.default_rng(5).integers(1, 4, N)
    bins, _ = agree(Trees(), divided(X))
    repeated = np.repeat(np.arange(N), weight)
    single = Trees(depth=4, min_rows=1)  # then a row that is there twice may be split from others no sooner than once
    one = fitted(single, X, y, weight.astype(float), bins)
    other = fitted(single, X[repeated], y[repeated], None, bins)
    np.testing.assert_allclose(one(X), other(X), rtol=1e-9, atol=1e-12)
    learner = Trees(depth=4, min_rows=20)
    theirs = DecisionTreeRegressor(max_depth=4, min_samples_leaf=20, random_state=0).fit(X, y, weight)
    np.testing.assert_allclose(
        fitted(replace(learner, leaves=None), X, y, weight.astype(float), bins)(X), theirs.predict(X), atol=1e-10
    )
    twice = fitted(learner, X, y, np.full(N, 2.0), bins)
    np.testing.assert_allclose(twice(X), fitted(learner, X, y, None, bins)(X), rtol=1e-12, atol=1e-14)
    # A row without weight says nothing, but it is a row.
    silent = np.where(np.arange(N) < 300, 0.0, 1.0)
    kept = fitted(Trees(depth=3, min_rows=1), X, y, silent, bins)
    np.testing.assert_allclose(kept(X), fitted(Trees(depth=3, min_rows=1), X[300:], y[300:], None, bins)(X), atol=1e-10)


def test_leaves_are_shrunk_by_l2() -> None:
    X = few_values(6)[:, :1]
    y = wavy(few_values(6), 6)
    tree = fitted(Stumps(l2=50.0), X, y)
    left = X[:, 0] <= tree.threshold[0]
    np.testing.assert_allclose(tree.value, [y[left].sum() / (left.sum() + 50), y[~left].sum() / ((~left).sum() + 50)])


def test_missing_values_go_the_better_way() -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 10, N).astype(float)
    absent = rng.random(N) < 0.3
    for level in (-3.0, 3.0):
        y = np.where(absent, level, np.where(x > 4, 3.0, -3.0)) + 0.1 * rng.standard_normal(N)
        X = np.where(absent, np.nan, x)[:, None]
        bins = Bins(np.arange(9) + 0.5, np.array([0, 9]), np.array([1]), np.zeros((0, 2), dtype=np.int64))
        tree = fitted(Stumps(), X, y, None, bins)
        assert tree.threshold[0] == 4.5
        assert tree.missing[0] == (level < 0)
        np.testing.assert_allclose(tree(X), np.where(np.where(absent, level, y) > 0, 3.0, -3.0), atol=0.05)
    # Alone on one side, where the missing differ from all others.
    y = np.where(absent, 5.0, 0.0)
    tree = fitted(Stumps(), X, y, None, bins)
    np.testing.assert_allclose(tree(X), y, atol=1e-12)


def brute_force(level: np.ndarray, y: np.ndarray, count: int) -> float:
    """The least squared error of two sets of levels, by trying all of them."""
    best = np.inf
    for chosen in range(1, 2 ** (count - 1)):
        left = (chosen >> level) & 1 == 1
        if 5 <= left.sum() <= len(y) - 5:
            best = min(best, len(y[left]) * y[left].var() + len(y[~left]) * y[~left].var())
    return best


def test_categories_are_split_by_the_best_set() -> None:
    rng = np.random.default_rng(8)
    level = rng.integers(0, 8, N)
    y = rng.standard_normal(8)[level] + rng.standard_normal(N)
    best = brute_force(level, y, 8)
    codes = level[:, None].astype(float)
    tree = fitted(Stumps(categories=((0, 8),)), codes, y)
    assert tree.width.tolist() == [-8]
    assert ((y - tree(codes)) ** 2).sum() == pytest.approx(best, rel=1e-10)
    one_hot = (level[:, None] == np.arange(7)).astype(float)  # the last level is none of the columns
    bins = Bins(np.full(7, 0.5), np.arange(8), np.zeros(7, dtype=np.int64), np.array([[0, 7]]))
    for X in (one_hot, sp.csr_array(one_hot)):
        again = fitted(Stumps(), X, y, None, bins)
        assert again.width.tolist() == [7]
        np.testing.assert_allclose(again(X), tree(codes), atol=1e-12)
    # Deeper trees mix both kinds of splits, and walk where they were grown.
    mixed = np.column_stack([rng.standard_normal(N), one_hot])
    bins = Bins(
        np.concatenate([[-0.5, 0.3], np.full(7, 0.5)]),
        np.arange(9) + np.r_[0, np.full(8, 1)],
        np.zeros(8),
        np.array([[1, 7]]),
    )
    deep = fitted(Trees(depth=5), mixed, y + mixed[:, 0], None, bins)
    assert leaf_sizes(deep, mixed).min() >= 5
    residual = y + mixed[:, 0] - deep(mixed)
    sizes, marked = leaf_sizes(deep, mixed), Tree((*deep.arrays()[:-1], np.arange(float(len(deep.value)))))
    np.testing.assert_allclose(np.bincount(marked(mixed).astype(int), residual) / sizes, 0, atol=1e-12)


def test_declared_categories_come_from_the_schema() -> None:
    rng = np.random.default_rng(9)
    shade = rng.choice(["red", "green", "blue", "grey"], N)
    X = np.empty((N, 2), dtype=object)
    X[:, 0], X[:, 1] = shade, rng.standard_normal(N)
    schema = fs.data.Schema(
        (fs.data.Categorical("shade", ("red", "green", "blue", "grey")), fs.data.Numeric("size", scaling=None))
    )
    clients = [fs.Client(f"c{k}", X[k::3], np.zeros(N)[k::3], feature_names=("shade", "size")) for k in range(3)]
    bins, _ = agree(Trees(), clients, fs.data.Preprocess(schema))
    assert bins.groups.tolist() == [[0, 5]]
    assert bins.starts.tolist()[:6] == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(bins.edges[:5], 0.5)


def test_sparse_is_dense() -> None:
    rng = np.random.default_rng(10)
    X = np.where(rng.random((N, 8)) < 0.8, 0.0, rng.standard_normal((N, 8)))
    y = X[:, 0] - 2 * X[:, 1] * (X[:, 2] > 0) + rng.standard_normal(N)
    dense, sparse = fitted(Trees(), X, y), fitted(Trees(), sp.csr_array(X), y)
    for one, other in zip(dense.arrays(), sparse.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(sparse(sp.csr_array(X)), sparse(X))
    np.testing.assert_array_equal(sparse(sp.csr_array(X)[:0]), np.zeros(0))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_change_no_prediction(unit: float) -> None:
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.standard_normal(N), rng.gamma(1, size=N), np.exp(4 * rng.standard_normal(N))])
    y = X[:, 0] + np.log(X[:, 2]) + rng.standard_normal(N)
    np.testing.assert_allclose(fitted(Trees(), X * unit, y)(X * unit), fitted(Trees(), X, y)(X), rtol=1e-12, atol=1e-12)
    # Each column in a unit of its own
    units = np.array([unit, 1.0, 1 / unit])
    np.testing.assert_allclose(
        fitted(Trees(), X * units, y)(X * units), fitted(Trees(), X, y)(X), rtol=1e-12, atol=1e-12
    )


def test_collinear_and_constant_columns_change_nothing() -> None:
    X = few_values(12)[:, :2]
    y = wavy(few_values(12), 12)
    more = np.column_stack([X, 3 * X[:, 0], np.full(N, 7.0), np.zeros(N)])
    np.testing.assert_allclose(fitted(Trees(), more, y)(more), fitted(Trees(), X, y)(X), atol=1e-10)
    constant = fitted(Trees(), np.ones((N, 2)), y)
    np.testing.assert_allclose(constant(np.ones((3, 2))), np.full(3, y.mean()))
    nothing = fitted(Trees(), X, np.zeros(N))
    assert len(nothing.value) == 1


def test_new_rows_with_missing_values_and_many_trees() -> None:
    X = few_values(13)
    learner = Trees(depth=4)
    trees = [fitted(learner, X, wavy(X, k)) for k in range(5)]
    c = np.array([0.5, -1.0, 2.0, 0.1, 0.0])
    np.testing.assert_allclose(
        learner.weighted_sum(trees, c, X), sum(a * tree(X) for a, tree in zip(c, trees, strict=True)), atol=1e-12
    )
    unseen = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    assert np.isfinite(learner.weighted_sum(trees, c, unseen)).all()


def lies(tree: Tree) -> list[tuple[str, tuple]]:
    feature, threshold, missing, width, levels, gain, value = tree.arrays()
    bad = value.copy()
    bad[0] = np.nan
    loop = np.full_like(feature, -1)
    loop[1 : 1 + len(threshold)] = 0  # the first split would be its own child
    far = feature.copy()
    far[0] = 99
    below = feature.copy()
    below[0] = -7
    wide = width.copy()
    wide[0] = 50
    line = np.full(2 * 9 + 1, -1, dtype=np.int32)  # nine splits below each other
    line[0], line[1::2] = 0, 0
    line[-2] = -1
    deep = (line, np.zeros(9), np.zeros(9, np.uint8), np.zeros(9, np.int32), levels, np.zeros(9), np.zeros(10))
    return [
        ("seven", tree.arrays()[:6]),
        ("int32", (feature.astype(np.int64), *tree.arrays()[1:])),
        ("odd number", (feature[:-1], *tree.arrays()[1:])),
        ("before their children", (loop, *tree.arrays()[1:])),
        ("columns", (far, *tree.arrays()[1:])),
        ("before their children", (below, *tree.arrays()[1:])),
        ("finite values", (*tree.arrays()[:6], bad)),
        ("finite values", (*tree.arrays()[:6], value[:, None])),
        ("threshold", (feature, threshold + np.inf, missing, width, levels, gain, value)),
        ("threshold", (feature, threshold.astype(np.float32), missing, width, levels, gain, value)),
        ("gain", (feature, threshold, missing, width, levels, gain - 1e9, value)),
        ("missing", (feature, threshold, missing + 2, width, levels, gain, value)),
        ("columns", (feature, threshold, missing, wide, levels, gain, value)),
        ("levels", (feature, threshold, missing, -1 * (width + 2), levels, gain, value)),
        ("levels", (feature, threshold, missing, width, np.ones(3, np.uint8), gain, value)),
        ("deep", deep),
    ]


@pytest.mark.parametrize("case", range(16))
def test_a_client_that_lies_is_found_out(case: int) -> None:
    X = few_values(14)
    learner = Trees(depth=4, leaves=None)
    tree = fitted(learner, X, wavy(X, 14))
    text, arrays = lies(tree)[case]
    with pytest.raises(WrongType, match=text):
        learner.function(arrays, 4, ())


def test_what_makes_no_learner() -> None:
    for wrong in (
        {"depth": 0},
        {"depth": 1.5},
        {"leaves": 1},
        {"bins": 1},
        {"min_rows": 0},
        {"l2": -1.0},
        {"l2": float("nan")},
        {"categories": (("a", 1),)},
    ):
        with pytest.raises(ConfigError):
            Trees(**wrong)
    with pytest.raises(ConfigError, match="use Trees"):
        Stumps(depth=2)
