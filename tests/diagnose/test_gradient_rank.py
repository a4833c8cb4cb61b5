"""The approximate rank of gradients (Jadbabaie et al., Appendix C) against closed forms and single gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.diagnose import GradientRanks, LossGradients, ModuleGradients, approximate_rank, gradient_ranks
from fedsolve.diagnose.gradient_slices import Slices, blocks
from fedsolve.diagnose.partials import Partials
from fedsolve.errors import ConfigError, DataError
from fedsolve.typing import Array
from tests.extras import optional

RNG = np.random.default_rng(7)
X = RNG.standard_normal((40, 5))
Y = X @ np.arange(1.0, 6.0) + RNG.standard_normal(40)
W = RNG.standard_normal(5)


def client(kind: str = "numpy") -> fs.Client:
    if kind == "sparse":
        return fs.Client("test", sp.csr_array(X), Y)
    return fs.Client("test", X if kind == "numpy" else optional(kind).asarray(X), Y)


def whole(source: Any, what: Slices) -> dict[int, Array]:
    """All slices by coordinate."""
    found: dict[int, Array] = {}
    for columns, slices in blocks(source, what):
        found |= dict(zip(columns.tolist(), slices, strict=True))
    return found


def same(a: GradientRanks, b: GradientRanks, tolerance: float = 0.0) -> None:
    assert a.ranks.tolist() == b.ranks.tolist()
    assert a.coordinates.tolist() == b.coordinates.tolist()
    assert np.abs(a.errors - b.errors).max() <= tolerance
    assert (a.zeros, a.eligible, a.scale) == (b.zeros, b.eligible, b.scale)


# ── the rank of a matrix ──


def of_singular_values(*squares: float) -> Array:
    left, right = (np.linalg.qr(RNG.standard_normal((6, 6)))[0] for _ in range(2))
    return (left[:, : len(squares)] * np.sqrt(squares)) @ right[: len(squares)]


@pytest.mark.parametrize("size", [1.0, 1e-160, 1e160])
def test_the_definition(size: float) -> None:
    M = size * of_singular_values(0.85, 0.1, 0.05)
    assert [int(approximate_rank(M, share)) for share in (0.5, 0.84, 0.86, 0.94, 0.96, 0.999)] == [1, 1, 2, 2, 3, 3]
    stack = np.stack([M, size * of_singular_values(1.0), size * np.eye(6)])
    assert approximate_rank(stack).tolist() == [2, 1, 6]


def test_a_share_that_is_just_reached_is_reached() -> None:
    """Equation 77 has ≥: 9 of 10 is 90 %, whatever rounding makes of it."""
    for _ in range(20):
        assert int(approximate_rank(of_singular_values(9.0, 1.0))) == 1


@pytest.mark.parametrize(
    ("M", "said"),
    [(np.zeros((3, 3)), "zeros"), (np.full((3, 3), np.nan), "NaN"), (np.ones(3), "shape")],
)
def test_matrices_without_a_rank(M: Array, said: str) -> None:
    with pytest.raises(DataError, match=said):
        approximate_rank(M)


@pytest.mark.parametrize("share", [0.0, 1.0, -1, float("nan"), "all", True])
def test_shares(share: Any) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        approximate_rank(np.eye(2), share)


# ── closed forms ──


@pytest.mark.parametrize("kind", ["numpy", "sparse", "torch", "array_api_strict"])
def test_the_tensor_of_least_squares(kind: str) -> None:
    """∂f/∂θ_q = (xᵀθ − y) x_q: the tensor from the same perturbations, in three lines."""
    what = Slices(12, seed=3)
    source = LossGradients(fs.Squared(), client(kind), W)
    found = whole(source, what)
    rows = what.samples(source)
    theta = np.stack([what.perturbed(W, np.abs(W).mean(), j) for j in range(12)])
    residual = X[rows] @ theta.T - Y[rows, None]
    assert sorted(found) == list(range(5))
    for q, M in found.items():
        assert np.allclose(M, X[rows, q, None] * residual, rtol=1e-12, atol=1e-12)


def test_ranks_of_one_column() -> None:
    """With one column M = x_i² θ_j − x_i y_i: rank 2, and 1 where y is a multiple of x or of nothing."""
    x = RNG.uniform(0.5, 2.0, (30, 1))
    y = RNG.standard_normal(30)
    almost_all = 1 - 1e-11
    for targets, rank in ((y, 2), (3.0 * x[:, 0], 1), (0.0 * y, 1)):
        source = LossGradients(fs.Squared(), fs.Client("one", x, targets), np.array([0.7]))
        found = gradient_ranks(source, 10, share=almost_all)
        assert found.ranks.tolist() == [rank]
        assert found.errors[0] < 1e-6


def test_ranks_are_at_most_one_more_than_the_columns() -> None:
    """M_q = diag(x_q) (Xθᵀ − y 1ᵀ), of rank p + 1 exactly; the errors say how much the share leaves."""
    source = LossGradients(fs.Squared(), client(), W)
    exact = gradient_ranks(source, 20, share=1 - 1e-11)
    assert exact.ranks.tolist() == [6] * 5
    usual = gradient_ranks(source, 20)
    slices = whole(source, Slices(20))
    for q, rank, error in zip(usual.coordinates.tolist(), usual.ranks, usual.errors, strict=True):
        squares = np.linalg.svd(slices[q], compute_uv=False) ** 2
        assert squares[:rank].sum() >= 0.9 * squares.sum() > squares[: rank - 1].sum()
        assert error == pytest.approx(np.sqrt(squares[rank:].sum() / squares.sum()))
        assert error <= np.sqrt(0.1)


def test_several_outputs_and_offsets() -> None:
    """Softmax weights are a matrix; their coordinates are those of the matrix laid out row by row."""
    labels = RNG.integers(0, 3, 40).astype(float)
    w = RNG.standard_normal((5, 3))
    loss = fs.Softmax(classes=3)
    found = whole(LossGradients(loss, fs.Client("c", X, labels), w), Slices(4, scale=0.1))
    what = Slices(4, scale=0.1)
    rows = what.samples(LossGradients(loss, fs.Client("c", X, labels), w))
    for j in range(4):
        theta = what.perturbed(w.reshape(-1), 0.1, j).reshape(5, 3)
        expected = loss.sample_gradients(fs.Client("c", X[rows], labels[rows]), theta)
        for q in range(15):
            assert np.allclose(found[q][:, j], expected.reshape(4, -1)[:, q], rtol=1e-12, atol=1e-15)
    shifted = fs.Client("c", X, Y, offset=np.full(40, 100.0))
    assert gradient_ranks(LossGradients(fs.Squared(), shifted, W), 10).ranks.max() <= 6


# ── draws ──


@dataclass(frozen=True)
class Made:
    """A source whose slices are known: coordinate q is zero, NaN or of rank 1 + q % 3."""

    count: int = 60
    zero: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()
    w: Array = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", np.linspace(-1.0, 1.0, self.count))

    @property
    def n_samples(self) -> int:
        return 20

    def placed(self, w: Array) -> Array:
        return w

    def of(self, rows: Array) -> Partials:
        def partials(w: Array, columns: Array) -> Array:
            found = np.zeros((len(rows), len(columns)))
            for place, q in enumerate(columns):
                for power in range(1 + q % 3):
                    found[:, place] += np.cos((power + 1) * rows) * np.sin(50 * (power + 1) * w[q])
                found[:, place] *= q not in self.zero
                found[:, place] += np.nan if q in self.wrong else 0.0
            return found

        return partials


def test_known_ranks_by_coordinate() -> None:
    found = gradient_ranks(Made(), 12, share=1 - 1e-11)
    assert sorted(found.coordinates.tolist()) == list(range(60))
    assert found.ranks.tolist() == [1 + q % 3 for q in found.coordinates]
    assert found.histogram() == {1: 20, 2: 20, 3: 20}
    assert (found.at_most(1), found.at_most(2), found.median, found.largest) == (1 / 3, 2 / 3, 2.0, 3)
    assert "60 slices of 12 × 12" in str(found)


@dataclass(frozen=True)
class OneLoud(Made):
    """Gradients of rank 3, but those of sample 4 are a hundred times as large; sample 5 has none."""

    def of(self, rows: Array) -> Partials:
        inner = replace(self, count=self.count)
        factors = np.where(rows == 4, 100.0, np.where(rows == 5, 0.0, 1.0))
        return lambda w, columns: factors[:, None] * Made.of(inner, rows)(w, columns)


def test_samples_of_equal_norm() -> None:
    """One sample has nearly everything, and its row alone makes rank 1; scaled to one norm, it is one of many."""
    alone = gradient_ranks(OneLoud(), 20)
    assert alone.ranks.tolist() == [1] * 60
    assert alone.top_sample.min() > 0.9
    assert "one sample has 100% of a slice" in str(alone)
    equal = gradient_ranks(OneLoud(), 20, equal_samples=True)
    for q, rank in zip(equal.coordinates.tolist(), equal.ranks, strict=True):
        M = whole(OneLoud(), Slices(20))[q]
        unit = M[M.any(axis=1)] / np.linalg.norm(M[M.any(axis=1)], axis=1, keepdims=True)
        assert rank == approximate_rank(unit)
    assert equal.largest > 1
    assert np.array_equal(equal.top_sample, alone.top_sample)
    row = whole(OneLoud(), Slices(20))[7]
    share = (row**2).sum(axis=1).max() / (row**2).sum()
    assert alone.top_sample[alone.coordinates == 7] == pytest.approx(share)


def test_zero_slices_are_dropped_and_replaced() -> None:
    """What is drawn are slices that are not zero, as many as asked for where there are so many."""
    zero = tuple(range(0, 60, 2))
    some = gradient_ranks(Made(zero=zero), 6, coordinates=20)
    assert some.ranks.size == 20
    assert not set(some.coordinates.tolist()) & set(zero)
    assert gradient_ranks(Made(zero=zero), 6, coordinates=31).ranks.size == 30  # there are no more
    every = gradient_ranks(Made(zero=zero), 6, coordinates=None)
    assert (every.ranks.size, every.zeros) == (30, 30)
    assert every.coordinates[:20].tolist() == some.coordinates.tolist()  # both in the drawn order


def test_draws_are_uniform() -> None:
    """Over seeds, each of 30 coordinates that are not zero is drawn as often as any other: 10 of 30, 300 times."""
    counts = np.zeros(60)
    for seed in range(300):
        counts[gradient_ranks(Made(zero=tuple(range(30))), 2, coordinates=10, seed=seed).coordinates] += 1
    assert counts[:30].sum() == 0
    assert np.abs(counts[30:] - 100).max() < 4.5 * np.sqrt(300 * (1 / 3) * (2 / 3))


def test_small_weights_are_left_out() -> None:
    found = gradient_ranks(Made(), 6, smallest=0.5)
    assert np.abs(Made().w[found.coordinates]).min() >= 0.5
    assert found.eligible == found.ranks.size == np.count_nonzero(np.abs(Made().w) >= 0.5)


@pytest.mark.parametrize("memory", [1.0, 8 * 36.0, 8 * 36 * 7.0, 1e9])
@pytest.mark.parametrize("coordinates", [None, 13])
def test_blocks_of_coordinates_change_nothing(memory: float, coordinates: int | None) -> None:
    source = Made(zero=(3, 4, 5, 17, 40, 41))
    expected = gradient_ranks(source, 6, coordinates=coordinates)
    same(gradient_ranks(source, 6, coordinates=coordinates, memory=memory), expected)


def test_no_more_than_the_memory_allowed_is_held() -> None:
    sizes = [slices.nbytes for _, slices in blocks(Made(), Slices(6, memory=3000.0))]
    assert max(sizes) <= 3000
    assert sum(sizes) == 60 * 36 * 8


def test_seeds() -> None:
    source = LossGradients(fs.Logistic(), fs.Client("c", X, (Y > 0).astype(float)), W)
    same(gradient_ranks(source, 8, seed=5), gradient_ranks(source, 8, seed=5))
    one, other = (Slices(8, seed=seed) for seed in (5, 6))
    assert one.samples(source).tolist() != other.samples(source).tolist()
    assert not np.array_equal(one.perturbed(W, 1.0, 0), other.perturbed(W, 1.0, 0))
    assert not np.array_equal(one.perturbed(W, 1.0, 0), one.perturbed(W, 1.0, 1))
    assert np.array_equal(one.perturbed(W, 1.0, 2), replace(one, k=3).perturbed(W, 1.0, 2))
    assert len(set(one.samples(source).tolist())) == 8


# ── bad input ──


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 41}, "k = 41, but there are 40 samples"),
        ({"k": 1}, "k is a whole number of at least 2"),
        ({"k": 2.5}, "k is a whole number"),
        ({"coordinates": 0}, "coordinates is a whole number of at least 1"),
        ({"smallest": 1e9}, "no coordinate is left: the largest of 5 weights"),
        ({"smallest": -1.0}, "smallest is"),
        ({"share": 90}, "share is a number between 0 and 1"),
        ({"scale": 0.0}, "scale is a positive number"),
        ({"seed": -1}, "seed"),
        ({"rows": 0}, "rows is a whole number"),
        ({"memory": 0}, "memory is a positive"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gradient_ranks(LossGradients(fs.Squared(), client(), W), **{"k": 5, **options})


@dataclass(frozen=True)
class MeanOnly:
    """Hands out one gradient for all samples, which NumPy would spread over them: a rank of 1."""

    shape: tuple[int, ...]
    w = np.ones(3)
    n_samples = 8

    def placed(self, w: Array) -> Array:
        return w

    def of(self, rows: Array) -> Partials:
        return lambda w, columns: np.ones(self.shape)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (6, 3), (5, 1)])
def test_sources_with_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"gradients of 5 samples and 3 coordinates have shape .* expected \(5, 3\)"):
        gradient_ranks(MeanOnly(shape), 5)
    assert gradient_ranks(MeanOnly((5, 3)), 5).ranks.tolist() == [1, 1, 1]


def test_what_is_no_source() -> None:
    with pytest.raises(ConfigError, match=r"source is LossGradients.*got a Squared without w"):
        gradient_ranks(fs.Squared(), 5)  # type: ignore[arg-type]


def test_bad_problems() -> None:
    with pytest.raises(ConfigError, match=r"weights have shape \(4,\); this loss has weights of shape \(5,\)"):
        LossGradients(fs.Squared(), client(), W[:4])
    with pytest.raises(ConfigError, match="NaN or infinite"):
        LossGradients(fs.Squared(), client(), np.full(5, np.nan))
    with pytest.raises(DataError, match="with targets"):
        LossGradients(fs.Squared(), fs.Client("public", X, None), W)
    with pytest.raises(ConfigError, match="a loss of the library"):
        LossGradients("squared", client(), W)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="all weights are 0"):
        gradient_ranks(LossGradients(fs.Squared(), client(), np.zeros(5)), 5)
    assert gradient_ranks(LossGradients(fs.Squared(), client(), np.zeros(5)), 5, scale=1.0).ranks.size == 5
    with pytest.raises(ConfigError, match="all 60 slices are zero"):
        gradient_ranks(Made(zero=tuple(range(60))), 5)
    with pytest.raises(DataError, match=r"the gradient of sample \d+ at perturbed parameters 0 is NaN"):
        gradient_ranks(Made(wrong=(7,)), 5)
    huge = LossGradients(fs.Squared(), fs.Client("c", 1e200 * X, np.ones(40)), W)
    with np.errstate(over="ignore"), pytest.raises(DataError, match="smaller than scale"):
        gradient_ranks(huge, 5)


# ── networks ──

IMAGES = RNG.random((30, 12))
LABELS = RNG.integers(0, 4, 30)


def network(activation: str, dtype: Any = "float64", hidden: tuple[int, ...] = (9,)) -> LossGradients:
    loss = fs.Network(fs.MLP(hidden, activation), fs.Softmax(classes=4), dtype=dtype)
    return LossGradients(loss, fs.Client("c", IMAGES, LABELS.astype(float)), loss.start_point(12, ()))


def module(activation: str, hidden: tuple[int, ...] = (9,)) -> Any:
    """The same network as a plain torch module."""
    torch = optional("torch")
    layers, inputs = [], 12
    for units in hidden:
        kind = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU}[activation]
        layers += [torch.nn.Linear(inputs, units), kind()]
        inputs = units
    made = torch.nn.Sequential(*layers, torch.nn.Linear(inputs, 4)).double()
    start = network(activation, hidden=hidden).weights
    torch.nn.utils.vector_to_parameters(torch.tensor(start), made.parameters())
    return made


def one_by_one(made: Any, source: Any, what: Slices) -> Array:
    """The tensor by k² passes of autograd, of shape (k, k, p)."""
    torch = optional("torch")
    rows, w = what.samples(source), source.w
    found = np.empty((what.k, what.k, w.size))
    for j in range(what.k):
        theta = torch.tensor(what.perturbed(w, what.deviation(w), j))
        torch.nn.utils.vector_to_parameters(theta, made.parameters())
        for i, row in enumerate(rows):
            made.zero_grad()
            outputs = made(torch.tensor(IMAGES[row : row + 1]))
            torch.nn.functional.cross_entropy(outputs, torch.tensor(LABELS[row : row + 1])).backward()
            found[i, j] = np.concatenate([one.grad.numpy().reshape(-1) for one in made.parameters()])
    return found


@pytest.mark.parametrize("hidden", [(9,), (7, 6)])
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_networks_equal_single_passes(activation: str, hidden: tuple[int, ...]) -> None:
    torch, what = optional("torch"), Slices(6, seed=2)
    source = network(activation, hidden=hidden)
    expected = one_by_one(module(activation, hidden), source, what)
    plain = ModuleGradients(module(activation, hidden), torch.nn.functional.cross_entropy, IMAGES, LABELS)
    assert np.array_equal(plain.w, source.w)
    for given in (source, plain):
        for q, M in whole(given, what).items():
            assert np.abs(M - expected[:, :, q]).max() <= 1e-13 * np.abs(expected).max()
        found = gradient_ranks(given, 6, seed=2, coordinates=None)
        nonzero = expected.any(axis=(0, 1))
        assert (found.ranks.size, found.zeros) == (nonzero.sum(), (~nonzero).sum())
        assert found.ranks.tolist() == approximate_rank(expected[:, :, found.coordinates].transpose(2, 0, 1)).tolist()


@pytest.mark.parametrize(
    ("targets", "offset"),
    [
        (LABELS.astype(float), None),
        (LABELS.astype(float), np.linspace(-1.0, 1.0, 30)),
        (RNG.standard_normal((30, 2)), None),  # a network of two outputs takes no offset
    ],
)
def test_networks_of_numbers(targets: Array, offset: Array | None) -> None:
    """One output with an offset, or two: the columns are those of the loss's own gradients."""
    optional("torch")
    loss, what = fs.Network(fs.MLP((5,), "tanh"), dtype="float64"), Slices(4, scale=0.1)
    source = LossGradients(
        loss, fs.Client("c", IMAGES, targets, offset=offset), loss.start_point(12, targets.shape[1:])
    )
    rows, found = what.samples(source), whole(source, what)
    part = fs.Client("c", IMAGES[rows], targets[rows], offset=None if offset is None else offset[rows])
    for j in range(4):
        expected = loss.sample_gradients(part, what.perturbed(source.w, 0.1, j))
        ours = np.stack([found[q][:, j] for q in range(source.w.size)], axis=1)
        assert np.abs(ours - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 100])
def test_samples_at_once_change_nothing(rows: int) -> None:
    optional("torch")
    same(gradient_ranks(network("sigmoid"), 7, rows=rows), gradient_ranks(network("sigmoid"), 7), 1e-12)


def test_float32_is_kept_and_ranks_are_those_of_float64() -> None:
    optional("torch")
    single, double = network("sigmoid", "float32"), network("sigmoid")
    assert next(blocks(single, Slices(4)))[1].dtype == np.float32
    a, b = gradient_ranks(single, 8, seed=1), gradient_ranks(double, 8, seed=1)
    assert a.coordinates.tolist() == b.coordinates.tolist()
    assert np.mean(a.ranks == b.ranks) >= 0.99  # but for ties


def test_a_module_is_left_as_it_was() -> None:
    torch = optional("torch")
    made = torch.nn.Sequential(
        torch.nn.Linear(12, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)
    )
    made[1].eval()
    made[3].bias.requires_grad_(False)
    before = {name: one.clone() for name, one in made.state_dict().items()}
    state = torch.default_generator.get_state()
    source = ModuleGradients(made, torch.nn.functional.cross_entropy, IMAGES, LABELS)
    assert source.w.size == 12 * 8 + 8 + 8 + 8 + 8 * 4
    same(gradient_ranks(source, 6, rows=2), gradient_ranks(source, 6), 1e-4)
    assert [part.training for part in made] == [True, False, True, True]
    assert all(torch.equal(one, before[name]) for name, one in made.state_dict().items())
    assert all(one.grad is None for one in made.parameters())
    assert torch.equal(torch.default_generator.get_state(), state)


def test_a_module_of_few_bits() -> None:
    """NumPy has no bfloat16; ranks there are those of gradients rounded to 8 bits."""
    torch = optional("torch")
    made = module("sigmoid").to(torch.bfloat16)
    found = gradient_ranks(ModuleGradients(made, torch.nn.functional.cross_entropy, IMAGES, LABELS), 6)
    assert found.ranks.size + found.zeros == found.eligible == 12 * 9 + 9 + 9 * 4 + 4


def test_features_of_a_loss() -> None:
    """A kernel method has a weight for each feature."""
    loss = fs.Squared(features=fs.RandomFourier(7, 1.0))
    w = RNG.standard_normal(loss.shape(5, ()))
    found = gradient_ranks(LossGradients(loss, client(), w), 20, share=1 - 1e-11)
    assert found.ranks.tolist() == [8] * 7


def test_dead_units_give_zero_slices() -> None:
    """A ReLU unit that no sample reaches has a slice of zeros for each weight into and out of it."""
    torch = optional("torch")
    made = module("relu")
    with torch.no_grad():
        made[0].bias[0] = -1e3
    found = gradient_ranks(
        ModuleGradients(made, torch.nn.functional.cross_entropy, IMAGES, LABELS), 6, coordinates=None, scale=0.01
    )
    assert found.zeros >= 12 + 1 + 4
    assert found.ranks.size + found.zeros == found.eligible == 12 * 9 + 9 + 9 * 4 + 4


def test_bad_modules() -> None:
    torch = optional("torch")
    entropy = torch.nn.functional.cross_entropy
    with pytest.raises(DataError, match="X has 30 samples and y has 29"):
        ModuleGradients(module("relu"), entropy, IMAGES, LABELS[:29])
    with pytest.raises(ConfigError, match="module is a torch module, got str"):
        ModuleGradients("net", entropy, IMAGES, LABELS)
    with pytest.raises(ConfigError, match="loss is a function"):
        ModuleGradients(module("relu"), "cross_entropy", IMAGES, LABELS)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no parameters that are learned"):
        ModuleGradients(torch.nn.ReLU(), entropy, IMAGES, LABELS)
    images = IMAGES.copy()
    images[:, 0] = np.nan
    with pytest.raises(DataError, match="are its inputs finite"):
        gradient_ranks(ModuleGradients(module("relu"), entropy, images, LABELS), 5)
