"""Losses against numerical differences, closed forms and other people's optimisers."""

import array_api_strict as strict
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.features import Polynomial
from fedsolve.federation.client import Client
from fedsolve.local import CG, Richardson
from fedsolve.losses import Logistic, Loss, Pointwise, Poisson, Softmax, Squared
from fedsolve.numerics.linalg import to_numpy

N, P = 30, 3
EPS = np.finfo(np.float64).eps
INTERCEPTS = ["free", "penalised", None]


def data(kind: str, outputs: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P))
    eta = X @ rng.standard_normal(P if outputs is None else (P, outputs)) + 0.5
    if kind == "squared":
        return X, eta + rng.standard_normal(eta.shape)
    return X, (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)


def weights(seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, N).astype(float)


CASES = {
    f"{kind} l2={l2} {intercept} {'weighted' if weighted else ''} {outputs or ''}": (
        kind,
        l2,
        intercept,
        weighted,
        outputs,
    )
    for kind in ("squared", "logistic")
    for l2 in (0.0, 0.1)
    for intercept in INTERCEPTS
    for weighted in (False, True)
    for outputs in ((None, 2) if kind == "squared" else (None,))
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    """A loss, a client and a point to look at."""
    kind, l2, intercept, weighted, outputs = request.param
    X, y = data(kind, outputs)
    loss = (Squared if kind == "squared" else Logistic)(l2=l2, intercept=intercept)
    client = Client("a", X, y, weights() if weighted else None)
    w = np.random.default_rng(1).standard_normal(loss.shape(P, client.y.shape[1:]))
    return loss, client, w


def differences(function, w, h):
    """Central differences of a function along every coordinate; the last axes are those of w."""
    rows = []
    for index in np.ndindex(*w.shape):
        e = np.zeros(w.shape)
        e[index] = h
        rows.append((function(w + e) - function(w - e)) / (2 * h))
    return np.moveaxis(np.array(rows), 0, -1).reshape(*np.shape(rows[0]), *w.shape)


# Central differences err by h²/6 · |f‴| + eps·|f|/h; with h = eps^⅓ ≈ 6e-6, |f| and |f‴| below 100, about 1e-8 at most.
STEP, DIFFERENCE = EPS ** (1 / 3), 1e-8


def test_gradient_is_the_derivative_of_the_value(case):
    loss, client, w = case
    expected = differences(lambda v: loss.value(client, v), w, STEP)
    np.testing.assert_allclose(loss.gradient(client, w), expected, rtol=0, atol=DIFFERENCE)


def test_hessian_is_the_derivative_of_the_gradient(case):
    loss, client, w = case
    expected = differences(lambda v: loss.gradient(client, v), w, STEP)
    H = loss.hessian(client, w).full()
    if w.ndim == 1:
        np.testing.assert_allclose(H, expected, rtol=0, atol=DIFFERENCE)
        return
    for k in range(w.shape[1]):  # one block for all outputs, and nothing between them
        for other in range(w.shape[1]):
            block = H if k == other else np.zeros_like(H)
            np.testing.assert_allclose(expected[:, k, :, other], block, rtol=0, atol=DIFFERENCE)


def objective(loss, X, y, s, w):
    """The definition, written out."""
    ones = [np.ones((len(X), 1))] if loss.intercept else []
    eta = np.hstack([X, *ones]) @ w
    if isinstance(loss, Squared):
        losses = 0.5 * (eta - y) ** 2
        losses = losses if losses.ndim == 1 else losses.sum(axis=1)
    else:
        losses = np.logaddexp(0, eta) - y * eta
    penalised = w[:-1] if loss.intercept == "free" else w
    return np.average(losses, weights=s) + 0.5 * loss.l2 * (penalised**2).sum()


def test_value_is_the_definition(case):
    loss, client, w = case
    expected = objective(loss, client.X, client.y, client.sample_weight, w)
    assert loss.value(client, w) == pytest.approx(expected, rel=1e-13)  # a mean of 30: N·eps at most


def test_weights_are_repetitions(case):
    loss, client, w = case
    s = weights().astype(int)
    weighted = Client("weighted", client.X, client.y, s)
    repeated = Client("repeated", np.repeat(client.X, s, axis=0), np.repeat(client.y, s, axis=0))
    assert weighted.weight == repeated.weight
    assert loss.value(weighted, w) == pytest.approx(loss.value(repeated, w), rel=1e-13)
    tolerance = {"rtol": 0, "atol": 1e-13}  # the same sums, added in another order
    np.testing.assert_allclose(loss.gradient(weighted, w), loss.gradient(repeated, w), **tolerance)
    np.testing.assert_allclose(loss.hessian(weighted, w).full(), loss.hessian(repeated, w).full(), **tolerance)
    assert loss.smoothness(weighted) == pytest.approx(loss.smoothness(repeated), rel=1e-13)
    # Two Hessians that differ by rounding give minimisers that differ by cond(H) ≈ 100 times that.
    np.testing.assert_allclose(loss.minimise(weighted), loss.minimise(repeated), rtol=0, atol=1e-11)


def test_sparse_inputs_are_the_same_inputs(case):
    loss, client, w = case
    sparse = Client("sparse", sp.csr_array(client.X), client.y, client.sample_weight)
    assert loss.value(sparse, w) == pytest.approx(loss.value(client, w), rel=1e-13)
    np.testing.assert_allclose(loss.gradient(sparse, w), loss.gradient(client, w), rtol=0, atol=1e-13)
    np.testing.assert_allclose(loss.hessian(sparse, w).full(), loss.hessian(client, w).full(), rtol=0, atol=1e-13)
    np.testing.assert_allclose(loss.minimise(sparse), loss.minimise(client), rtol=0, atol=1e-11)


def test_the_weighted_mean_over_clients_is_the_pooled_objective(case):
    loss, client, w = case
    s = client.sample_weight
    cut = [slice(0, 4), slice(4, 19), slice(19, N)]
    parts = [Client(str(i), client.X[c], client.y[c], None if s is None else s[c]) for i, c in enumerate(cut)]
    shares = [part.weight / client.weight for part in parts]
    assert sum(q * loss.value(p, w) for q, p in zip(shares, parts, strict=True)) == pytest.approx(
        loss.value(client, w), rel=1e-13
    )
    mean = sum(q * loss.gradient(p, w) for q, p in zip(shares, parts, strict=True))
    np.testing.assert_allclose(mean, loss.gradient(client, w), rtol=0, atol=1e-13)


def test_along_is_the_value_on_a_line(case):
    loss, client, w = case
    p = np.random.default_rng(5).standard_normal(w.shape)
    steps = np.array([0.0, 0.5, 1.0, 2.0])
    expected = [loss.value(client, w - eta * p) for eta in steps]
    np.testing.assert_allclose(loss.along(client, w, p, steps), expected, rtol=1e-13)


def test_slopes_along_are_the_gradient_s_on_a_line(case):
    loss, client, w = case
    p, steps = np.random.default_rng(3).standard_normal(w.shape), np.array([0.0, 0.3, 1.0])
    expected = [-(loss.gradient(client, w - eta * p) * p).sum() for eta in steps]
    # Sums of 30 products below 10, in another order.
    np.testing.assert_allclose(loss.slopes_along(client, w, p, steps), expected, rtol=1e-12, atol=1e-13)


def test_a_product_from_the_rows_is_one_with_the_hessian(case):
    loss, client, w = case
    v = np.random.default_rng(4).standard_normal(w.shape)
    np.testing.assert_allclose(
        loss.row_product(client, w, v), loss.hessian(client, w).full() @ v, rtol=1e-12, atol=1e-13
    )
    other = Client("sparse", sp.csr_array(client.X), client.y, client.sample_weight)
    np.testing.assert_allclose(loss.row_product(other, w, v), loss.row_product(client, w, v), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_slopes_and_products_of_the_softmax_loss(intercept):
    X, _ = data("squared")
    client = Client("a", X, np.arange(N) % 3.0, weights())
    loss = Softmax(l2=0.1, intercept=intercept, classes=3)
    w, v = np.random.default_rng(5).standard_normal((2, *loss.shape(P, ())))
    expected = (loss.hessian(client, w).full() @ v.ravel()).reshape(v.shape)
    np.testing.assert_allclose(loss.row_product(client, w, v), expected, rtol=1e-12, atol=1e-13)
    slopes = loss.slopes_along(client, w, v, np.array([0.0, 0.5]))
    expected = [-(loss.gradient(client, w - eta * v) * v).sum() for eta in (0.0, 0.5)]
    np.testing.assert_allclose(slopes, expected, rtol=1e-12, atol=1e-13)


def test_minimise_has_a_gradient_of_zero(case):
    loss, client, w = case
    best = loss.minimise(client)
    assert best.shape == w.shape
    # Rounding of the gradient itself: N terms below 10.
    assert np.abs(loss.gradient(client, best)).max() <= 1e-14 * N


def test_minimise_is_what_scipy_finds(case):
    loss, client, w = case
    found = scipy.optimize.minimize(
        lambda v: objective(loss, client.X, client.y, client.sample_weight, v.reshape(w.shape)),
        np.zeros(w.size),
        method="BFGS",
        options={"gtol": 1e-9, "xrtol": 0},
    )
    # BFGS with differences of its own stops at |g| ≈ 1e-8·few; μ ≥ 0.03 here, so |w − w*| ≤ |g|/μ is about 1e-5.
    np.testing.assert_allclose(loss.minimise(client).reshape(-1), found.x, rtol=0, atol=1e-5)


def test_squared_minimise_is_the_closed_form():
    X, y = data("squared")
    s = weights() + 0.5
    loss = Squared(l2=0.3, intercept="free")
    A = np.column_stack([X, np.ones(N)])
    H = A.T @ np.diag(s) @ A / s.sum() + 0.3 * np.diag([1, 1, 1, 0])
    expected = np.linalg.solve(H, A.T @ (s * y) / s.sum())
    # cond(H) is below 100: 100 · n·eps.
    np.testing.assert_allclose(loss.minimise(Client("a", X, y, s)), expected, rtol=1e-12)


def test_squared_minimise_with_fewer_samples_than_features_is_the_least_norm_fit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 9)), rng.standard_normal(4)
    d = np.sqrt((X**2).mean(axis=0))  # of least norm in units of the columns
    expected = np.linalg.lstsq(X / d, y, rcond=None)[0] / d
    # Through XᵀX the condition number, below 10 here, is squared: 100 · n·eps and a margin.
    np.testing.assert_allclose(Squared().minimise(Client("a", X, y)), expected, rtol=0, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 30))
def test_smoothness_bounds_every_hessian(seed, scale):
    kind = "squared" if seed % 2 else "logistic"
    X, y = data(kind, seed=seed)
    loss = (Squared if seed % 2 else Logistic)(l2=0.01 * (seed % 5), intercept=INTERCEPTS[seed % 3])
    client = Client("a", X, y, weights(seed) + 0.1)
    w = scale * np.random.default_rng(seed).standard_normal(loss.shape(P, ()))
    top = np.linalg.eigvalsh(loss.hessian(client, w).full())[-1]
    assert top <= loss.smoothness(client) * (1 + 1e-12)
    if kind == "squared" and loss.intercept != "free":
        assert top == pytest.approx(loss.smoothness(client), rel=1e-12)  # for a quadratic it is no bound but the value


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_strong_convexity_bounds_every_hessian_from_below(intercept):
    loss = Logistic(l2=0.2, intercept=intercept)
    client = Client("a", *data("logistic"))
    w = 50 * np.ones(loss.shape(P, ()))  # far out the data says nothing
    bottom = np.linalg.eigvalsh(loss.hessian(client, w).full())[0]
    assert loss.strong_convexity() <= bottom + 1e-12
    assert loss.strong_convexity() == (0.0 if intercept == "free" else 0.2)


def test_a_free_intercept_is_not_penalised_and_a_penalised_one_is():
    X, y = data("squared")
    w = np.array([0.0, 0.0, 0.0, 2.0])
    client = Client("a", X, y)
    free, penalised, none = (Squared(l2=1.0, intercept=kind) for kind in INTERCEPTS)
    assert penalised.value(client, w) - free.value(client, w) == pytest.approx(2.0)  # ½ · 1 · 2²
    assert none.shape(P, ()) == (P,)
    gap = penalised.hessian(client, w).full() - free.hessian(client, w).full()
    np.testing.assert_allclose(gap, np.diag([0, 0, 0, 1.0]), rtol=0, atol=1e-15)


# ── extreme arguments ──


@pytest.mark.parametrize("eta", [-1000.0, -40.0, 40.0, 1000.0])
@pytest.mark.parametrize("y", [0.0, 1.0, 0.25])
def test_logistic_far_out(eta, y):
    client = Client("a", np.array([[1.0]]), np.array([y]))
    loss, w = Logistic(), np.array([eta])
    value = max(eta, 0.0) - y * eta  # log(1 + e^η) is max(η, 0) to the last bit from |η| = 40 on, but for e^−40
    assert loss.value(client, w) == pytest.approx(value, rel=1e-15, abs=1e-15)
    assert loss.gradient(client, w)[0] == pytest.approx((eta > 0) - y, rel=1e-15, abs=1e-15)
    assert 0 <= loss.hessian(client, w).full()[0, 0] <= 1e-15


@given(st.floats(-30, 30), st.floats(0, 1))
def test_logistic_between(eta, y):
    client = Client("a", np.array([[1.0]]), np.array([y]))
    loss, w = Logistic(), np.array([eta])
    p = 1 / (1 + np.exp(-eta))
    assert loss.value(client, w) == pytest.approx(np.logaddexp(0, eta) - y * eta, rel=1e-14, abs=1e-14)
    assert loss.gradient(client, w)[0] == pytest.approx(p - y, abs=4 * EPS)
    assert loss.hessian(client, w).full()[0, 0] == pytest.approx(p * (1 - p), abs=4 * EPS)


def test_logistic_minimise_on_large_features():
    X, y = data("logistic")
    loss = Logistic(l2=1e-3)
    client = Client("a", 1e4 * X, y)
    best = loss.minimise(client)
    assert np.isfinite(best).all()
    # Gradients here are sums of features of 1e4: rounding alone is N·eps·1e4.
    assert np.abs(loss.gradient(client, best)).max() <= 1e-9


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_separable_samples_without_penalty_have_no_minimiser(intercept):
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    with pytest.raises(DataError, match="no finite minimiser"):
        Logistic(intercept=intercept).minimise(Client("a", X, np.array([0.0, 0.0, 1.0, 1.0])))


def test_one_class_with_a_free_intercept_has_no_minimiser():
    X = np.random.default_rng(0).standard_normal((5, 2))
    with pytest.raises(DataError, match="only one class"):
        Logistic(l2=1.0, intercept="free").minimise(Client("a", X, np.ones(5)))


@pytest.mark.parametrize("y", [np.array([-1.0, 1.0]), np.array([0.0, 2.0]), np.eye(2)])
def test_labels_outside_the_domain(y):
    with pytest.raises(DataError, match="'a'"):
        Logistic().check(Client("a", np.eye(2), y))


@pytest.mark.parametrize(
    "arguments", [{"l2": -1.0}, {"l2": np.nan}, {"l2": np.inf}, {"intercept": "yes"}, {"intercept": True}]
)
def test_hyper_parameters_that_make_no_sense(arguments):
    with pytest.raises(ConfigError):
        Squared(**arguments)


# ── what is kept between calls ──


def test_what_was_computed_at_another_point_is_not_used(case):
    loss, client, w = case
    fresh = Client("fresh", client.X, client.y, client.sample_weight)
    loss.value(client, w), loss.gradient(client, w), loss.hessian(client, w), loss.hessian_factor(client, w)
    other = w + 1.0
    g = loss.gradient(client, other)
    np.testing.assert_array_equal(g, loss.gradient(fresh, other))
    np.testing.assert_array_equal(loss.hessian(client, other).full(), loss.hessian(fresh, other).full())
    np.testing.assert_array_equal(
        loss.hessian_factor(client, other).solve(g), loss.hessian_factor(fresh, other).solve(g)
    )


def test_two_losses_on_one_client_do_not_share_what_differs():
    client = Client("a", *data("squared"))
    w = np.ones(P + 1)
    hessians = [
        loss.hessian(client, w).full()
        for loss in (
            Squared(l2=1.0, intercept="free"),
            Squared(l2=2.0, intercept="free"),
            Squared(intercept="penalised"),
        )
    ]
    np.testing.assert_allclose(hessians[1] - hessians[0], np.diag([1.0, 1, 1, 0]), rtol=0, atol=1e-14)
    np.testing.assert_allclose(hessians[0] - hessians[2], np.diag([1.0, 1, 1, 0]), rtol=0, atol=1e-14)


class Scaled:
    """A preprocessing that multiplies."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(self, X):
        return X * self.factor


@pytest.mark.parametrize("loss", [Squared(l2=0.1), Squared(intercept="free"), Logistic(l2=0.1)], ids=repr)
def test_another_preprocessing_makes_everything_anew(loss):
    """The same clients in a second run, with other preprocessing: nothing of the first may be left."""
    X, y = data("logistic")
    client = Client("a", X, y)
    w = np.ones(loss.shape(P, ()))
    for scale in (1.0, 3.0):
        client.session["transform"] = Scaled(scale)
        fresh = Client("fresh", X * scale, y)
        assert loss.value(client, w) == loss.value(fresh, w)
        np.testing.assert_array_equal(loss.gradient(client, w), loss.gradient(fresh, w))
        np.testing.assert_array_equal(loss.hessian(client, w).full(), loss.hessian(fresh, w).full())
        assert loss.smoothness(client) == loss.smoothness(fresh)
        np.testing.assert_array_equal(loss.minimise(client), loss.minimise(fresh))


def test_a_subset_is_a_client_of_its_own(case):
    loss, client, w = case
    loss.hessian(client, w), loss.value(client, w)
    index = np.array([0, 5, 5, 7])
    s = client.sample_weight
    expected = Client("b", client.X[index], client.y[index], None if s is None else s[index])
    part = client.subset(index)
    assert loss.value(part, w) == pytest.approx(loss.value(expected, w), rel=1e-14)
    np.testing.assert_allclose(loss.gradient(part, w), loss.gradient(expected, w), rtol=0, atol=1e-14)
    np.testing.assert_allclose(loss.hessian(part, w).full(), loss.hessian(expected, w).full(), rtol=0, atol=1e-14)


# ── counting ──


def test_what_is_counted():
    client = Client("a", *data("logistic"))
    loss, w = Logistic(l2=0.1), np.zeros(P)
    loss.value(client, w)
    loss.gradient(client, w)
    loss.hessian_factor(client, w)
    loss.hessian_factor(client, w)  # kept: not computed again, not counted again
    loss.along(client, w, w, np.arange(3.0))
    assert client.counts == {"losses": N + 3 * N, "gradients": N, "hessians": 1, "factorisations": 1}


def test_a_quadratic_hessian_is_computed_once():
    client = Client("a", *data("squared"))
    loss = Squared(l2=0.1)
    for k in range(3):
        loss.hessian(client, np.full(P, float(k)))
    assert client.counts == {"hessians": 1}


# ── another array library ──


@pytest.mark.parametrize("device", [None, "device1"])
def test_array_api_strict_gives_the_same(case, device):
    loss, client, w = case
    where = strict.Device(device) if device else None

    def own(array):
        return strict.asarray(np.array(array), device=where)

    s = client.sample_weight
    other = Client("strict", own(client.X), own(client.y), None if s is None else own(s))
    steps, p = np.array([0.0, 1.0]), np.ones(w.shape)
    tolerance = {"rtol": 1e-12, "atol": 1e-12}
    assert loss.value(other, own(w)) == pytest.approx(loss.value(client, w), rel=1e-12)
    for mine, theirs in [
        (loss.gradient(client, w), loss.gradient(other, own(w))),
        (loss.hessian(client, w).full(), loss.hessian(other, own(w)).full()),
        (loss.minimise(client), loss.minimise(other)),
        (loss.along(client, w, p, steps), loss.along(other, own(w), own(p), own(steps))),
        (loss.slopes_along(client, w, p, steps), loss.slopes_along(other, own(w), own(p), own(steps))),
        (loss.row_product(client, w, p), loss.row_product(other, own(w), own(p))),
        (loss.data_product(client, w, p), loss.data_product(other, own(w), own(p))),
        (loss.data_diagonal(client, w), loss.data_diagonal(other, own(w))),
        (CG(2).solve(loss, client, w, p), CG(2).solve(loss, other, own(w), own(p))),
        (Richardson(2).solve(loss, client, w, p), Richardson(2).solve(loss, other, own(w), own(p))),
        (loss.gradient(client.subset(np.array([1, 2])), w), loss.gradient(other.subset(np.array([1, 2])), own(w))),
        (loss.hessian_factor(client, w).solve(w), loss.hessian_factor(other, own(w)).solve(own(w))),
    ]:
        assert type(theirs) is type(own(w))
        np.testing.assert_allclose(to_numpy(theirs) if device is None else _home(theirs), mine, **tolerance)
    assert loss.smoothness(other) == pytest.approx(loss.smoothness(client), rel=1e-12)


def _home(array):
    return to_numpy(array.to_device(strict.Device("CPU_DEVICE")))


# ── the two layers ──


def _poisson_client(sparse: bool = False) -> Client:
    X, _ = data("squared")
    y = np.random.default_rng(3).poisson(1.5, N).astype(float)
    return Client("a", sp.csr_array(X) if sparse else X, y, weights(), offset=0.1 * X[:, 0])


def _softmax_client() -> Client:
    X, _ = data("squared")
    return Client("a", X, np.random.default_rng(4).integers(0, 3, N).astype(float), weights())


OTHER_LOSSES = {
    "poisson": (lambda: Poisson(l2=0.1, intercept="free"), _poisson_client),
    "poisson, sparse": (lambda: Poisson(l2=0.1, intercept="free"), lambda: _poisson_client(sparse=True)),
    "softmax": (lambda: Softmax(l2=0.1, intercept="free", classes=3), _softmax_client),
    "softmax, no penalty": (lambda: Softmax(classes=3), _softmax_client),
    "softmax, l1 only": (lambda: Softmax(l1=0.1, intercept="free", classes=3), _softmax_client),
    "features": (lambda: Poisson(l2=0.1, features=Polynomial(degree=2)), _poisson_client),
}


def _mean_of_samples(loss: Loss, client: Client, w: np.ndarray) -> np.ndarray:
    """The gradient as the sum of the samples' own, with their weights, and of the penalty's."""
    each = to_numpy(loss.sample_gradients(client, w))
    assert each.shape == (client.n_samples, *w.shape)
    s = np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
    return np.tensordot(s, each, axes=1) / s.sum() + to_numpy(loss.penalty_gradient(w))


def test_gradients_per_sample_add_up_to_the_gradient(case):
    loss, client, w = case
    np.testing.assert_allclose(_mean_of_samples(loss, client, w), loss.gradient(client, w), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("made", "client"), OTHER_LOSSES.values(), ids=OTHER_LOSSES.keys())
def test_gradients_per_sample_of_other_losses_too(made, client):
    loss, client = made(), client()
    w = 0.3 * np.random.default_rng(1).standard_normal(loss.shape(P, ()))
    np.testing.assert_allclose(_mean_of_samples(loss, client, w), loss.gradient(client, w), rtol=1e-12, atol=1e-14)
    expected = differences(lambda v: loss.value(client, v), w, STEP)
    np.testing.assert_allclose(loss.gradient(client, w), expected, rtol=0, atol=DIFFERENCE)


def test_each_gradient_is_that_of_its_own_sample(case):
    loss, client, w = case
    each = loss.sample_gradients(client, w)
    for index in (0, 7, N - 1):
        alone = Client("one", client.X[[index]], client.y[[index]])
        expected = differences(lambda v, one=alone: loss.value(one, v) - loss.penalty(v), w, STEP)
        np.testing.assert_allclose(each[index], expected, rtol=0, atol=DIFFERENCE)


def test_penalty_gradient_is_the_derivative_of_the_penalty(case):
    loss, _, w = case
    np.testing.assert_allclose(loss.penalty_gradient(w), differences(loss.penalty, w, STEP), rtol=0, atol=DIFFERENCE)


def test_gradients_per_sample_in_the_array_api():
    X, y = data("logistic")
    loss = Logistic(l2=0.1, intercept="free")
    w = np.random.default_rng(1).standard_normal(P + 1)
    client = Client("a", strict.asarray(X), strict.asarray(y))
    found = loss.sample_gradients(client, strict.asarray(w))
    np.testing.assert_allclose(to_numpy(found), loss.sample_gradients(Client("a", X, y), w), rtol=1e-14)


def test_weights_of_a_wrong_shape_are_rejected_per_sample_too(case):
    loss, client, w = case
    with pytest.raises(WrongType, match="shape"):
        loss.sample_gradients(client, np.zeros((w.shape[0] + 1, *w.shape[1:])))


RESPONSES = {
    "squared": (Squared(), lambda model, X: model.predict(X)),
    "logistic": (Logistic(), lambda model, X: model.predict_proba(X)[:, 1]),
    "poisson": (Poisson(), lambda model, X: model.predict(X)),
    "softmax": (Softmax(classes=3), lambda model, X: model.predict_proba(X)),
}


@pytest.mark.parametrize(("loss", "predicted"), RESPONSES.values(), ids=RESPONSES.keys())
def test_responses_are_what_the_model_predicts(loss, predicted):
    X, _ = data("squared")
    w = np.random.default_rng(5).standard_normal(loss.shape(P, ()))
    np.testing.assert_allclose(loss.responses(np, X @ w), predicted(loss.model(w), X), rtol=1e-13)


@pytest.mark.parametrize("loss", [one for one, _ in RESPONSES.values()], ids=RESPONSES.keys())
def test_linear_losses_are_of_both_layers(loss):
    assert isinstance(loss, Pointwise)
    assert isinstance(loss, Loss)
    assert loss.start_point(P, ()).shape == loss.shape(P, ())
    assert not loss.start_point(P, ()).any()


def test_a_layer_that_lacks_something_cannot_be_made():
    class Half(Pointwise):
        def pointwise(self, xp, eta, y):
            return eta

    with pytest.raises(TypeError, match="abstract"):
        Half()
