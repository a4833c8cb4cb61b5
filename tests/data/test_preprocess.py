"""Preprocessing by federated sums equals preprocessing of the pooled data."""

import json
import math
import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import fedsolve as fs
from fedsolve.data import IID, ByGroup, Categorical, Numeric, Preprocess, Schema, Transform, load, partition
from fedsolve.errors import ClientError, ConfigError, DataError, QuorumNotReached
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.loop.checkpoint import Checkpoint
from fedsolve.wire.encoding import FILE, Part, Preamble, decode, encode

N, P, CLIENTS = 240, 5, 4


def made(n=N, p=P, seed=0):
    """Columns of different means and units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0 ** np.arange(-2, p - 2) + rng.normal(size=p) * 5
    return X, (rng.random(n) < 0.5).astype(float)


def with_gaps(X, seed=1, share=0.2):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def fit(preprocess, clients, **options):
    """The transform and the federation it was agreed in."""
    transport = InProcess(clients)
    transport.open({"preprocess": preprocess})
    fed = Federation(transport, {"preprocess": preprocess}, **options)
    fed.join()
    fed.begin_round(0)
    return preprocess.fit(fed), fed


def split(X, y=None, s=None, clients=CLIENTS):
    y = np.zeros(X.shape[0]) if y is None else y
    return partition(X, y, IID(), clients=clients, seed=3, sample_weight=s)


def table(*columns):
    X = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


# ── numbers ──


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_standardising_equals_scikit_learn_on_the_pooled_data(weighted, gaps):
    X, _ = made()
    X = with_gaps(X) if gaps else X
    s = np.random.default_rng(5).integers(0, 4, N).astype(float) if weighted else None
    transform, fed = fit(Preprocess(), split(X, s=s))
    scaler = StandardScaler().fit(X, sample_weight=s)
    np.testing.assert_allclose(transform.centre, scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(transform.scale, scaler.scale_, rtol=1e-12)
    expected = scaler.transform(X)
    expected[np.isnan(expected)] = 0.0  # the mean is 0 after standardising
    np.testing.assert_allclose(transform.apply(X), expected, rtol=1e-12, atol=1e-12)
    for client in fed.transport.clients.values():  # what the losses will see
        np.testing.assert_array_equal(client.design.X, transform.apply(client.X))


def test_a_huge_mean():
    # x = 10⁸ + N(0, 1), known to a spacing of 1.5e-8. The mean is right to that, so is what is standardised,
    # and the deviation to the square of that. A difference of Σx² and (Σx)²/n would have no digit right.
    n = 2000
    rng = np.random.default_rng(2)
    X = 1e8 + rng.normal(size=(n, 3))
    exact = [math.fsum(column) / n for column in X.T]
    deviation = [
        math.sqrt(math.fsum((value - mean) ** 2 for value in column) / n)
        for column, mean in zip(X.T, exact, strict=True)
    ]
    transform, _ = fit(Preprocess(), split(X))
    spacing = np.spacing(1e8)
    np.testing.assert_allclose(transform.centre, exact, rtol=0, atol=spacing)
    np.testing.assert_allclose(transform.scale, deviation, rtol=1e-12)
    # scikit-learn does not correct its mean: a sum of n values is right to n roundings.
    pooled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(transform.apply(X), pooled, rtol=0, atol=n * np.finfo(float).eps * 1e8)
    assert np.abs(transform.apply(X).mean(axis=0)).max() < 2 * spacing
    naive = np.sqrt(np.maximum((X**2).mean(axis=0) - X.mean(axis=0) ** 2, 0))
    assert np.abs(naive - deviation).max() > 0.1


@pytest.mark.parametrize("value", [0.0, 0.1, -3e7, 1e-30])
def test_constant_columns_get_scale_one(value):
    X = np.column_stack([np.full(N, value), made()[0][:, 0]])
    transform, _ = fit(Preprocess(), split(X))
    assert transform.scale[0] == 1.0
    np.testing.assert_allclose(transform.apply(X)[:, 0], 0.0, atol=1e-12 * max(abs(value), 1.0))


def test_imputing_equals_scikit_learn_on_the_pooled_data():
    X = with_gaps(made()[0])
    transform, fed = fit(Preprocess(standardise=False), split(X))
    np.testing.assert_allclose(transform.apply(X), SimpleImputer().fit_transform(X), rtol=1e-12)
    assert fed.ledger.total("setup").exchanges == 1 + 2  # sums, and the agreement
    transform, _ = fit(Preprocess(standardise=False, impute=-7.5, indicator=True), split(X))
    imputed = SimpleImputer(strategy="constant", fill_value=-7.5, add_indicator=True).fit_transform(X)
    order = [j + k for j in range(P) for k in (0, P)]
    np.testing.assert_array_equal(transform.apply(X), imputed[:, order])
    assert transform.feature_names()[:2] == ("x0", "x0=missing")


def test_a_constant_to_impute_is_scaled_like_the_rest():
    X = with_gaps(made()[0])
    transform, _ = fit(Preprocess(impute=1.0), split(X))
    scaler = StandardScaler().fit(X)
    expected = scaler.transform(np.where(np.isnan(X), 1.0, X))
    np.testing.assert_allclose(transform.apply(X), expected, rtol=1e-11, atol=1e-12)


def test_declared_ranges_ask_nothing():
    X = np.column_stack([np.linspace(0, 50, N), np.linspace(-1, 3, N)])
    schema = Schema(
        (
            Numeric("dose", impute=None, scaling="range", low=0, high=50),
            Numeric("t", impute=0, scaling="range", low=-1, high=3),
        )
    )
    transform, fed = fit(Preprocess(schema), split(X))
    np.testing.assert_allclose(transform.apply(X), MinMaxScaler().fit_transform(X), atol=1e-15)
    assert fed.ledger.total("setup").exchanges == 1 + 1
    assert transform.apply([[100.0, None]]).tolist() == [[2.0, 0.25]]


def test_three_exchanges_and_only_sums():
    _, fed = fit(Preprocess(), split(made()[0]))
    assert [record.calls for record in fed.ledger.records] == [
        ("session.join",),
        ("preprocess.totals",),
        ("preprocess.spread",),
        ("preprocess.adopt",),
    ]


# ── sparse ──


def sparse_data():
    rng = np.random.default_rng(4)
    X = sp.random_array((N, 8), density=0.2, rng=rng, format="csr")
    X.data = X.data * 10 + 1
    return X


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_columns_are_scaled_and_stay_sparse(weighted):
    X = sparse_data()
    s = np.random.default_rng(5).random(N) if weighted else None
    transform, fed = fit(Preprocess(centre=False), split(X, s=s))
    scaler = StandardScaler(with_mean=False).fit(sp.csr_matrix(X), sample_weight=s)
    np.testing.assert_allclose(transform.scale, scaler.scale_, rtol=1e-12)
    made = transform.apply(X)
    assert isinstance(made, sp.csr_array)
    np.testing.assert_allclose(made.toarray(), X.toarray() / scaler.scale_, rtol=1e-12)
    dense, _ = fit(Preprocess(centre=False), split(X.toarray(), s=s))
    np.testing.assert_allclose(dense.scale, transform.scale, rtol=1e-13)
    assert sp.issparse(next(iter(fed.transport.clients.values())).design.X)


def test_centring_a_sparse_matrix_is_refused():
    with pytest.raises(ClientError, match=r"client-0.*x0.*sparse.*centre=False"):
        fit(Preprocess(), split(sparse_data()))
    transform, _ = fit(Preprocess(), split(sparse_data().toarray()))
    with pytest.raises(DataError, match="centring would fill it"):
        transform.apply(sparse_data())
    with pytest.raises(ClientError, match="only numeric columns"):
        fit(Preprocess(Schema((Categorical("c", (0, 1)),))), split(sparse_data()[:, [0]]))


def test_an_array_api_matrix_stays_with_its_library():
    strict = pytest.importorskip("array_api_strict")
    X, y = made()
    transform, fed = fit(Preprocess(), split(X))
    library = fs.Client("a", strict.asarray(X), strict.asarray(y))
    other, fed = fit(Preprocess(), [library])
    np.testing.assert_allclose(other.scale, transform.scale, rtol=1e-12)
    assert type(fed.transport.clients["a"].design.X) is type(library.X)
    np.testing.assert_array_equal(np.asarray(library.design.X), other.apply(X))


# ── categories ──

COLOURS = ("red", "green", "blue")


def colours(seed=0, extra=()):
    return np.random.default_rng(seed).choice(np.array([*COLOURS, *extra], dtype=object), N)


def test_one_hot_equals_scikit_learn_with_the_same_categories():
    X = table(colours(), np.random.default_rng(1).integers(1, 4, N).astype(float))
    encoder = OneHotEncoder(categories=[list(COLOURS), [1.0, 2.0, 3.0]], sparse_output=False)
    expected = encoder.fit_transform(X)
    for unseen in ("zeros", "error"):
        schema = Schema((Categorical("c", COLOURS, unseen=unseen), Categorical("k", (1, 2, 3), unseen=unseen)))
        transform, _ = fit(Preprocess(schema), split(X))
        np.testing.assert_array_equal(transform.apply(X), expected)
    schema = Schema((Categorical("c", COLOURS), Categorical("k", (1, 2, 3))))
    transform, _ = fit(Preprocess(schema), split(X))
    assert transform.feature_names() == (
        *("c=red", "c=green", "c=blue", "c=other"),
        *("k=1", "k=2", "k=3", "k=other"),
    )
    np.testing.assert_array_equal(np.delete(transform.apply(X), [3, 7], axis=1), expected)
    first = Schema((Categorical("c", COLOURS, unseen="zeros", drop_first=True),))
    transform, _ = fit(Preprocess(first), split(X[:, [0]]))
    np.testing.assert_array_equal(transform.apply(X[:, [0]]), expected[:, 1:3])


def test_an_unseen_category_at_one_client_and_at_prediction():
    X = table(colours(extra=("violet",)))
    assert "violet" in set(X[:, 0])
    transform, _ = fit(Preprocess(Schema((Categorical("c", COLOURS),))), split(X))
    encoded = transform.apply(X)
    np.testing.assert_array_equal(encoded[:, 3], (X[:, 0] == "violet").astype(float))
    np.testing.assert_array_equal(encoded.sum(axis=1), 1.0)
    np.testing.assert_array_equal(transform.apply([["ochre"], ["blue"]]), [[0, 0, 0, 1], [0, 0, 1, 0]])
    with pytest.raises(ClientError, match=r"client '.*'.*column 'c', row \d+: missing, or none of") as error:
        fit(Preprocess(Schema((Categorical("c", COLOURS, unseen="error"),))), split(X))
    assert "violet" not in str(error.value)  # a cell is someone's: it stays where it is


def test_missing_categories():
    X = table(["red", None, math.nan, "", "blue", "?"])
    plain = Schema((Categorical("c", COLOURS),))
    np.testing.assert_array_equal(fit(Preprocess(plain), split(X, clients=2))[0].apply(X)[:, 3], [0, 1, 1, 1, 0, 1])
    apart = Schema((Categorical("c", COLOURS, indicator=True),))
    encoded = fit(Preprocess(apart), split(X, clients=2))[0].apply(table(["red", None, "ochre"]))
    np.testing.assert_array_equal(encoded, [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]])
    given = Schema((Categorical("c", COLOURS, impute="green", unseen="error"),))
    np.testing.assert_array_equal(fit(Preprocess(given), split(X, clients=2))[0].apply(X)[:, 1], [0, 1, 1, 1, 0, 1])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mode_is_that_of_all_clients(weighted):
    cells = colours()
    cells[::7] = np.nan
    s = np.where(cells == "blue", 5.0, 1.0) if weighted else None
    schema = Schema((Categorical("c", COLOURS, impute="mode", unseen="zeros"),))
    X = table(cells)
    encoded = fit(Preprocess(schema), split(X, s=s))[0].apply(X)
    filled = SimpleImputer(strategy="most_frequent").fit_transform(X)
    expected = np.where(cells == cells, cells, "blue") if weighted else filled[:, 0]
    np.testing.assert_array_equal(encoded, (expected[:, None] == np.array(COLOURS)).astype(float))


def test_sites_that_read_their_files_differently():
    schema = Schema((Numeric("age"), Categorical("k", ("1", 2))))
    numbers = np.array([[30.0, 1.0], [40.0, 2.0], [np.nan, 3.0]])
    texts = np.array([["30", "1"], ["40", "2.0"], ["", "3"]])
    octets = texts.astype("S")
    objects = table([30, 40.0, None], [True, np.int64(2), "3"])
    clients = [fs.Client(f"site-{i}", X, np.zeros(3)) for i, X in enumerate((numbers, texts, octets, objects))]
    transform, _ = fit(Preprocess(schema), clients)
    for client in clients:
        np.testing.assert_array_equal(transform.apply(client.X), [[-1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])


# ── a run ──


def pooled(X, y, l2, *steps):
    model = LogisticRegression(C=1 / (len(y) * l2), solver="newton-cholesky", tol=1e-13, max_iter=200)
    return make_pipeline(*steps, model).fit(X, y)


def close_to(model, pipeline, tolerance=1e-8):
    fitted = pipeline[-1]
    expected = np.append(fitted.coef_[0], fitted.intercept_)
    assert np.linalg.norm(model.w - expected) <= tolerance * np.linalg.norm(expected)


NEWTON = fs.Newton(fs.Logistic(l2=1e-2, intercept="free"))


def test_a_run_on_breast_cancer_is_the_pooled_pipeline(tmp_path):
    data = load("breast_cancer")
    clients = partition(data.X, data.y, fs.data.Dirichlet(0.5), clients=5, seed=0)
    result = fs.run(NEWTON, clients, preprocess=Preprocess(), tolerance=1e-10)
    pipeline = pooled(data.X, data.y, 1e-2, StandardScaler())
    close_to(result.model, pipeline)
    np.testing.assert_array_equal(result.model.predict(data.X), pipeline.predict(data.X))
    result.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(data.X), result.model.predict_proba(data.X))


HEART_LEVELS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set")


def heart():
    data = load("heart")
    schema = Schema.from_plain(
        [
            {"name": name, "categories": list(HEART_LEVELS[name]), "unseen": "zeros"}
            if name in HEART_LEVELS
            else {"name": name}
            for name in data.feature_names
        ]
    )
    return data, schema, partition(data.X, data.y, ByGroup(), groups=data.groups)


@needs_data
def test_a_run_on_four_hospitals_is_the_pooled_pipeline(tmp_path):
    data, schema, clients = heart()
    result = fs.run(NEWTON, clients, preprocess=Preprocess(schema), tolerance=1e-10)
    parts = [
        (name, OneHotEncoder(categories=[HEART_LEVELS[name]], handle_unknown="ignore"), [j])
        if name in HEART_LEVELS
        else (name, make_pipeline(StandardScaler(), SimpleImputer()), [j])
        for j, name in enumerate(data.feature_names)
    ]
    pipeline = pooled(data.X, data.y, 1e-2, ColumnTransformer(parts, sparse_threshold=0))
    close_to(result.model, pipeline)
    np.testing.assert_allclose(result.model.predict_proba(data.X), pipeline.predict_proba(data.X), rtol=1e-7)
    result.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(data.X), result.model.predict_proba(data.X))
    assert again.transform.feature_names() == result.model.transform.feature_names()


@needs_data
def test_every_transport_gives_the_same_bits():
    _, schema, clients = heart()
    here = fs.run(NEWTON, InProcess(clients, threads=1), preprocess=Preprocess(schema), rounds=4)
    there = fs.run(NEWTON, Processes(clients, workers=2), preprocess=Preprocess(schema), rounds=4)
    assert here.model.w.tobytes() == there.model.w.tobytes()
    for what in ("fill", "centre", "scale"):
        one, other = getattr(here.model.transform, what), getattr(there.model.transform, what)
        assert one.tobytes() == other.tobytes()
    assert here.history[-1].bytes_up == there.history[-1].bytes_up
    assert here.history[-1].bytes_down == there.history[-1].bytes_down


class Stop(Exception):
    pass


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_resuming_a_run_with_preprocessing(tmp_path, transport, monkeypatch):
    X, y = made()
    X[:, 0] += y
    X = with_gaps(X)
    options = {"preprocess": Preprocess(indicator=True), "rounds": 4, "transport": transport}
    whole = fs.run(NEWTON, split(X, y), **options)
    path = tmp_path / "run.ckpt"
    saves, save = [], Checkpoint.save

    def save_then_die(self, progress, ledger):
        save(self, progress, ledger)
        saves.append(progress.round)
        if progress.round == 2:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_die)
        with pytest.raises(Stop):
            fs.run(NEWTON, split(X, y), checkpoint=path, **options)
    assert saves == [0, 1, 2]
    resumed = fs.run(NEWTON, split(X, y), checkpoint=path, resume=True, **options)
    assert resumed.model.w.tobytes() == whole.model.w.tobytes()
    assert resumed.model.predict_proba(X).tobytes() == whole.model.predict_proba(X).tobytes()


@pytest.mark.parametrize(
    "loss",
    [fs.Squared(l2=1e-2), fs.Logistic(l2=1e-2)],
    ids=["squared", "logistic"],
)
def test_the_same_clients_with_and_without_preprocessing(loss):
    # What a client keeps in its cache must not outlive the columns it was computed from.
    X, y = made()
    runs = [None, Preprocess(), Preprocess(centre=False), None]
    shared = split(X, y)
    for preprocess in runs:
        # Not from zero: a predictor kept from other columns would be right there.
        options = {"preprocess": preprocess, "rounds": 3, "warm_start": np.full(X.shape[1], 0.1)}
        used = fs.run(fs.Newton(loss), shared, **options)
        fresh = fs.run(fs.Newton(loss), split(X, y), **options)
        np.testing.assert_array_equal(used.model.w, fresh.model.w)


# ── the transform as a value ──


def mixed():
    schema = Schema(
        (
            Numeric("age", indicator=True),
            Numeric("dose", impute=None, scaling=None),
            Numeric("t", impute=1 / 3, scaling="range", low=-0.1, high=0.7),
            Categorical("c", COLOURS, impute="mode", drop_first=True),
            Categorical("k", (1, 0.1), indicator=True, unseen="zeros"),
        )
    )
    ages, numbers = with_gaps(made()[0])[:, 0], made()[0]
    X = table(ages, numbers[:, 1], with_gaps(numbers)[:, 2], colours(extra=(None,)), np.repeat([1.0, 0.1], N // 2))
    return schema, X, fit(Preprocess(schema), split(X))[0]


def test_plain_and_back_is_exact():
    schema, X, transform = mixed()
    again = Transform.from_plain(json.loads(json.dumps(transform.to_plain(), allow_nan=False)))
    assert again.columns == transform.columns == schema.columns
    for what in ("fill", "centre", "scale"):
        assert getattr(again, what).tobytes() == getattr(transform, what).tobytes()
    assert again.apply(X).tobytes() == transform.apply(X).tobytes()
    assert Schema.from_plain(schema.to_plain()) == schema
    assert transform.apply(X).shape[1] == len(transform.feature_names())


def test_over_the_wire_and_back_is_exact():
    _, X, transform = mixed()
    _, (again,), _ = decode(encode(Preamble(FILE), [Part(transform)]), Preprocess.transform_types)
    assert again.columns == transform.columns
    assert again.apply(X).tobytes() == transform.apply(X).tobytes()


@pytest.mark.parametrize("plain", [{}, {"format": 2}, {"format": 1, "columns": [{"name": "a"}], "fill": []}])
def test_what_is_not_a_saved_transform(plain):
    with pytest.raises(DataError, match="transform"):
        Transform.from_plain(plain)
    whole = mixed()[2].to_plain()
    with pytest.raises(DataError, match="as many float64 numbers 'fill'"):
        Transform.from_plain({**whole, "fill": whole["fill"][1:]})


def test_wrong_inputs_at_prediction():
    transform = mixed()[2]
    with pytest.raises(DataError, match="expected 5 raw columns: age, dose, t, c, k"):
        transform.apply(np.zeros((3, 4)))
    with pytest.raises(DataError, match="column 'dose': 1 missing values"):
        transform.apply([[1, None, 1, "red", 1]])
    with pytest.raises(DataError, match="column 'dose', row 0: not a number"):
        transform.apply([[1, "much", 1, "red", 1]])
    with pytest.raises(DataError, match="column 'age', row 0: an infinite value"):
        transform.apply([[math.inf, 1, 1, "red", 1]])
    numbers, _ = fit(Preprocess(impute=None), split(made()[0]))
    with pytest.raises(DataError, match="column 'x1': 2 missing"):
        numbers.apply(np.where(np.arange(P) == 1, np.nan, np.ones((2, P))))


# ── refusals ──


def test_clients_with_different_columns():
    X, y = made()
    ragged = [fs.Client("a", X, y), fs.Client("b", X, y), fs.Client("c", X[:, :3], y)]
    with pytest.raises(DataError, match="client 'c' has 3 columns where 'a' has 5"):
        fit(Preprocess(), ragged)
    schema = Schema(tuple(Numeric(f"n{j}") for j in range(P)))
    with pytest.raises(ClientError, match=r"client 'c'.*3 columns where the schema has 5: n0, n1"):
        fit(Preprocess(schema), ragged)


def test_a_column_nobody_has_observed():
    X = made()[0]
    X[:, 2] = np.nan
    with pytest.raises(DataError, match="no client has an observed value in column 'x2'"):
        fit(Preprocess(), split(X))
    schema = Schema((Categorical("c", COLOURS, impute="mode"),))
    with pytest.raises(DataError, match="column 'c': no client has any of its categories"):
        fit(Preprocess(schema), split(table(np.repeat([None], N))))


def test_one_client_may_have_observed_nothing():
    X, y = made()
    X[:60, 2] = np.nan
    clients = partition(X, y, fs.data.Contiguous(), clients=4)
    transform, _ = fit(Preprocess(), clients)
    np.testing.assert_allclose(transform.scale, StandardScaler().fit(X).scale_, rtol=1e-12)


def test_missing_values_that_nobody_imputes():
    with pytest.raises(ClientError, match=r"client 'client-0', step preprocess.adopt: column 'x\d': \d+ missing"):
        fit(Preprocess(impute=None), split(with_gaps(made()[0])))


def test_text_where_numbers_are_declared():
    with pytest.raises(ClientError, match=r"column 'x0', row 0: not a number.*Categorical\('x0'") as error:
        fit(Preprocess(), split(table(colours())))
    assert not any(colour in str(error.value) for colour in COLOURS)


def test_values_too_large():
    with pytest.raises(DataError, match="column 'x0' has values too large"):
        fit(Preprocess(), split(made()[0] * 1e200))


def test_setting_up_loses_nobody_in_simulation():
    lossy = fs.Participation(dropout=0.9)
    sure, _ = fit(Preprocess(), split(made()[0]), participation=lossy)
    np.testing.assert_array_equal(sure.scale, fit(Preprocess(), split(made()[0]))[0].scale)


class OneIsSilent(fs.transports.InProcess):
    """A client that joins and then says no more."""

    def deliver(self, requests, deadline):
        answers = dict(super().deliver(requests, deadline))
        steps = next(iter(requests.values())).routes.value
        return [(k, v) for k, v in answers.items() if k != "client-1" or steps[0][1] == "join"]


def test_a_client_that_does_not_answer_is_not_left_out_silently():
    X, y = made()
    with pytest.raises(QuorumNotReached, match="client-1 did not answer"):
        fs.run(NEWTON, OneIsSilent(split(X, y)), preprocess=Preprocess())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Numeric(""), "a column has a name"),
        (lambda: Numeric("a", impute="median"), "impute is 'mean', a number or None"),
        (lambda: Numeric("a", impute=math.nan), "finite"),
        (lambda: Numeric("a", impute=True, indicator=1), "true or false"),
        (lambda: Numeric("a", scaling="minmax"), "scaling is"),
        (lambda: Numeric("a", scaling="range"), "declared low < high"),
        (lambda: Numeric("a", scaling="range", low=1, high=1), "declared low < high"),
        (lambda: Numeric("a", low=1), "declared together"),
        (lambda: Numeric("a", low=2, high=1), "low below high"),
        (lambda: Categorical("a", ()), "one or more different categories"),
        (lambda: Categorical("a", ("1", 1)), "one or more different categories"),
        (lambda: Categorical("a", "xyz"), "categories are a list"),
        (lambda: Categorical("a", ("x", math.inf)), "finite"),
        (lambda: Categorical("a", ("x",), unseen="new"), "unseen is"),
        (lambda: Categorical("a", ("x",), impute="y"), "impute is None, 'mode' or one of"),
        (lambda: Categorical("a", ("x",), unseen="zeros", drop_first=True), "nothing is left"),
        (lambda: Categorical("a", ("x", "other")), "would have one name"),
        (lambda: Schema(()), "at least one column"),
        (lambda: Schema((Numeric("a"), Numeric("a"))), r"given twice: \['a'\]"),
        (lambda: Schema(("a",)), "made of Numeric and Categorical"),
        (lambda: Schema.from_plain({"a": {}}), r"schema must be a list in brackets, got \{'a': \{\}\}"),
        (lambda: Schema.from_plain(["a"]), r"schema\[0\] must be a table, got 'a'"),
        (lambda: Schema.from_plain([{"impute": 1}]), r"schema\[0\] has no name"),
        (lambda: Schema.from_plain([{"name": "a", "kind": "categorical"}]), r"schema\['a'\] has no categories"),
        (
            lambda: Schema.from_plain([{"name": "a", "kind": "ordinal"}]),
            r"schema\['a'\].kind must be 'numeric' or 'categorical' or 'discrete', got 'ordinal'",
        ),
        (lambda: Preprocess(impute="median"), "impute is"),
        (lambda: Preprocess([Numeric("a")]), "schema is a Schema"),
        (lambda: Preprocess(Schema((Numeric("a"),)), impute=None), "each column says for itself"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


def test_unknown_options_are_named():
    with pytest.raises(ConfigError, match=r"schema\['a'\].scalling is not known, did you mean 'scaling'\?"):
        Schema.from_plain([{"name": "a", "scalling": "none"}])
    with pytest.raises(ConfigError, match=r"schema\['a'\].categories is not known. Numeric takes: name \(required\), "):
        Schema.from_plain([{"name": "a", "kind": "numeric", "categories": [1]}])


def test_none_in_toml():
    schema = Schema.from_plain(
        [
            {"name": "a", "impute": "none", "scaling": "none"},
            {"name": "b", "categories": ["none", "some"], "impute": "none"},
        ]
    )
    assert schema.columns == (
        Numeric("a", impute=None, scaling=None),
        Categorical("b", ("none", "some"), impute="none"),
    )
