"""Columns are matched by name at every client and in every prediction, never by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsolve as fs
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.errors import CheckpointError, ConfigError, DataError, InputError
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.federation.transports import InProcess
from fedsolve.tables import column_names as names
from fedsolve.typing import Array
from tests.extras import optional

RNG = np.random.default_rng(5)
NAMES = ("age", "dose", "weight", "score")
X = RNG.normal(size=(90, 4)) * [10, 0.1, 200, 1] + [50, 1, 900, 0]
Y = (X[:, 0] / 10 - 50 * X[:, 1] + X[:, 3] + RNG.normal(size=90) > -45).astype(float)
FRAME = pd.DataFrame(X, columns=NAMES)
PARTS = (slice(0, 20), slice(20, 50), slice(50, 90))
LOSS = fs.Logistic(l2=0.01, intercept="free")
ORDERS = (NAMES, ("score", "age", "weight", "dose"), ("dose", "weight", "score", "age"))


def clients(orders: Sequence[Sequence[str]] = ORDERS, frame: pd.DataFrame = FRAME) -> list[fs.Client]:
    return [
        fs.Client(f"c{i}", frame.iloc[part][list(order)], Y[part])
        for i, (part, order) in enumerate(zip(PARTS, orders, strict=True))
    ]


def in_order() -> list[fs.Client]:
    return clients([NAMES] * 3)


# ── joining ──


@pytest.mark.parametrize("preprocess", [None, Preprocess()])
@pytest.mark.parametrize("transport", ["in_process", "processes"])
@pytest.mark.parametrize(
    "algorithm", [fs.Newton(LOSS), fs.SHED(LOSS), fs.Scaffold(LOSS)], ids=lambda a: type(a).__name__
)
def test_another_order_is_the_same_run(algorithm: Any, transport: str, preprocess: Any) -> None:
    expected = fs.run(algorithm, in_order(), rounds=12, preprocess=preprocess)
    found = fs.run(algorithm, clients(), rounds=12, preprocess=preprocess, transport=transport)
    assert np.array_equal(found.model.w, expected.model.w)
    assert found.model.feature_names == NAMES
    assert [row.gradient_norm for row in found.history] == [row.gradient_norm for row in expected.history]


@settings(max_examples=25, deadline=None)
@given(orders=st.tuples(*[st.permutations(NAMES)] * 3), predicted=st.permutations(NAMES), raw=st.booleans())
def test_no_order_changes_a_prediction(orders: tuple[list[str], ...], predicted: list[str], raw: bool) -> None:
    preprocess = None if raw else Preprocess()
    model = fs.run(fs.Newton(LOSS), clients(orders), preprocess=preprocess).model
    again = fs.run(fs.Newton(LOSS), clients([orders[0]] * 3), preprocess=preprocess).model
    assert np.array_equal(model.predict_proba(FRAME[predicted]), again.predict_proba(FRAME))


def test_nothing_is_sent_for_columns_that_agree() -> None:
    calls = {entry.call for entry in fs.run(fs.Newton(LOSS), in_order()).ledger.entries()}
    assert "session.align" not in calls
    assert "session.align" in {entry.call for entry in fs.run(fs.Newton(LOSS), clients()).ledger.entries()}


@pytest.mark.parametrize("preprocess", [None, Preprocess(), Preprocess(Schema(tuple(map(Numeric, NAMES))))])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (FRAME.rename(columns={"dose": "Dose"}), r"'c1'.*lacks 'dose' \(is it 'Dose'\?\) and has 'Dose'"),
        (FRAME.drop(columns="score"), "'c1'.*lacks 'score'"),
        (FRAME.assign(extra=1.0), "'c1'.*has 'extra', which is not expected"),
    ],
)
def test_other_columns_are_rejected(changed: pd.DataFrame, said: str, preprocess: Any) -> None:
    mixed = [fs.Client("c0", FRAME[:40], Y[:40]), fs.Client("c1", changed[40:], Y[40:])]
    with pytest.raises(DataError, match=said):
        fs.run(fs.Newton(LOSS), mixed, preprocess=preprocess)


@pytest.mark.parametrize("first", [True, False])
def test_names_at_some_clients_only_are_rejected(first: bool) -> None:
    named, nameless = fs.Client("named", FRAME[:40], Y[:40]), fs.Client("nameless", X[40:], Y[40:])
    with pytest.raises(DataError, match=r"'nameless' has no column names where 'named' has.*feature_names="):
        fs.run(fs.Newton(LOSS), [named, nameless] if first else [nameless, named])


def test_a_mismatch_shows_what_differs() -> None:
    wide = [f"column {i}" for i in range(40)]
    a = fs.Client("a", np.ones((2, 40)), [0, 1], feature_names=wide)
    b = fs.Client("b", np.ones((2, 40)), [0, 1], feature_names=[*wide[:-1], "last"])
    with pytest.raises(DataError, match="lacks 'column 39' and has 'last'"):
        fs.run(fs.Newton(LOSS), [a, b])
    schema = Schema(tuple(Numeric(name) for name in wide))
    with pytest.raises(InputError, match=r"'b'.*lacks 'column 39' and has 'last'"):
        fs.run(fs.Newton(LOSS), [b], preprocess=Preprocess(schema))
    many = names.difference([], wide)
    assert "'column 7' and 32 more" in many


def test_names_of_a_client() -> None:
    with pytest.raises(DataError, match=r"client 'a': column 'age' given more than once"):
        fs.Client("a", FRAME.set_axis(["age", "dose", "age", "score"], axis=1), Y)
    with pytest.raises(DataError, match="given more than once"):
        fs.Client("a", X, Y, feature_names=["a", "b", "a", "c"])
    with pytest.raises(DataError, match="one name per column, got the text 'abcd'"):
        fs.Client("a", X, Y, feature_names="abcd")
    assert fs.Client("a", pd.DataFrame(X), Y).feature_names is None  # counted, not named
    assert fs.Client("a", pd.DataFrame(X, columns=[7, 5, 6, 4]), Y).feature_names == ("7", "5", "6", "4")
    assert fs.Client("a", X, Y, feature_names=np.array(NAMES)).feature_names == NAMES


def test_counted_columns_are_places() -> None:
    plain = fs.run(fs.Newton(LOSS), [fs.Client("a", X[:50], Y[:50]), fs.Client("b", X[50:], Y[50:])])
    turned = pd.DataFrame(X)[[2, 0, 3, 1]]
    found = fs.run(fs.Newton(LOSS), [fs.Client("a", X[:50], Y[:50]), fs.Client("b", turned[50:], Y[50:])])
    assert np.array_equal(plain.model.w, found.model.w)
    assert np.array_equal(plain.model.decision_function(turned), plain.model.decision_function(X))


def test_clients_hold_their_columns_in_their_own_order() -> None:
    given = clients()
    fs.run(fs.Newton(LOSS), given)
    assert [client.feature_names for client in given] == list(ORDERS)
    again = fs.run(fs.Newton(LOSS), given[::-1])  # another first client, another order
    assert again.model.feature_names == ORDERS[2]
    alone = fs.run(fs.Newton(LOSS), given[1:2])
    assert np.array_equal(alone.model.w, fs.run(fs.Newton(LOSS), clients()[1:2]).model.w)


def test_sparse_clients() -> None:
    S = sp.random_array((60, 6), density=0.5, rng=np.random.default_rng(1), format="csr")
    order = [4, 0, 5, 1, 3, 2]
    letters = np.array(list("abcdef"))
    y = (S.sum(axis=1) > 1.3).astype(float)

    def go(turned: bool) -> Array:
        second = (S[30:][:, order], letters[order]) if turned else (S[30:], letters)
        both = [
            fs.Client("p", S[:30], y[:30], feature_names=letters),
            fs.Client("q", second[0], y[30:], feature_names=second[1]),
        ]
        return fs.run(fs.Newton(LOSS), both, preprocess=Preprocess(centre=False)).model.w

    assert np.array_equal(go(True), go(False))


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("preprocess", [None, Preprocess()])
def test_clients_of_other_libraries(library: str, preprocess: Any) -> None:
    xp, order = optional(library), [2, 0, 3, 1]
    a = fs.Client("a", xp.asarray(X[:50]), Y[:50], feature_names=NAMES)
    b = fs.Client("b", xp.asarray(X[50:][:, order]), Y[50:], feature_names=[NAMES[j] for j in order])
    found = fs.run(fs.Newton(LOSS), [a, b], preprocess=preprocess)
    numpy = [fs.Client("a", X[:50], Y[:50]), fs.Client("b", X[50:], Y[50:])]
    assert np.allclose(found.model.w, fs.run(fs.Newton(LOSS), numpy, preprocess=preprocess).model.w, rtol=1e-8)


# ── preprocessing ──

MIXED = FRAME.assign(sex=np.where(X[:, 3] > 0, "f", "m"))
SCHEMA = Schema((Categorical("sex", ("f", "m")), *map(Numeric, NAMES)))


def test_a_schema_says_the_order() -> None:
    def go(*orders: Sequence[str]) -> fs.Run:
        return fs.run(fs.Newton(LOSS), clients(orders, MIXED), preprocess=Preprocess(SCHEMA))

    declared = [column.name for column in SCHEMA.columns]
    expected = go(declared, declared, declared)
    found = go(declared[::-1], declared[2:] + declared[:2], declared)
    assert np.array_equal(found.model.w, expected.model.w)
    assert np.array_equal(found.model.predict(MIXED[declared[::-1]]), expected.model.predict(MIXED[declared]))
    with pytest.raises(DataError, match=r"lacks 'sex'"):
        found.model.predict(FRAME)


def test_a_transform_matches_a_frame() -> None:
    transform = fs.run(fs.Newton(LOSS), clients(), preprocess=Preprocess()).model.transform
    assert np.array_equal(transform.apply(FRAME[list(ORDERS[1])]), transform.apply(FRAME))
    assert np.array_equal(transform.apply(FRAME), transform.apply(X))
    with pytest.raises(DataError, match="lacks 'age'"):
        transform.apply(FRAME.drop(columns="age"))


# ── predicting ──


@pytest.mark.parametrize("preprocess", [None, Preprocess()])
@pytest.mark.parametrize("features", [None, fs.Polynomial(2)])
def test_predictions_by_name(preprocess: Any, features: Any, tmp_path: Path) -> None:
    loss = replace(LOSS, features=features)
    model = fs.run(fs.Newton(loss), in_order(), preprocess=preprocess, rounds=3).model
    model.save(tmp_path / "model.npz")
    for one in (model, fs.load_model(tmp_path / "model.npz")):
        for turned in (FRAME[list(ORDERS[1])], FRAME[list(ORDERS[2])]):
            assert np.array_equal(one.decision_function(turned), one.decision_function(X))
            assert np.array_equal(one.predict(turned), one.predict(X))
            assert np.array_equal(one.predict_proba(turned), one.predict_proba(X))
            assert np.array_equal(one.classify(turned), one.classify(X))
        for wrong, said in ((FRAME.drop(columns="age"), "lacks 'age'"), (FRAME.assign(z=0.0), "has 'z'")):
            with pytest.raises(DataError, match=said):
                one.predict(wrong)
        with pytest.raises(DataError):
            one.predict(X[:, :3])


def test_a_model_without_names_takes_places() -> None:
    for preprocess in (None, Preprocess()):
        model = fs.run(fs.Newton(LOSS), [fs.Client("a", X, Y)], preprocess=preprocess).model
        assert np.array_equal(model.predict(FRAME), model.predict(X))
        with pytest.raises(DataError):
            model.predict(FRAME[["age"]])


class Frame:
    """As much of another library's data frame as is looked at."""

    def __init__(self, order: Sequence[str]) -> None:
        self.columns = list(order)

    def to_numpy(self) -> Array:
        return FRAME[self.columns].to_numpy()


def test_any_data_frame_will_do() -> None:
    model = fs.run(fs.Newton(LOSS), [fs.Client("a", Frame(ORDERS[1]), Y), fs.Client("b", Frame(NAMES), Y)]).model
    assert np.array_equal(model.predict_proba(Frame(ORDERS[2])), model.predict_proba(FRAME))


# ── going on ──


def test_resuming_with_columns_in_another_order(tmp_path: Path) -> None:
    algorithm = fs.Scaffold(LOSS)
    for preprocess, name in ((None, "raw"), (Preprocess(), "preprocessed")):
        whole = fs.run(algorithm, in_order(), rounds=9, preprocess=preprocess)
        path = tmp_path / name
        fs.run(algorithm, clients(), rounds=5, preprocess=preprocess, checkpoint=path)
        turned = clients(ORDERS[::-1])
        found = fs.run(algorithm, turned, rounds=9, preprocess=preprocess, checkpoint=path, resume=True)
        assert np.array_equal(found.model.w, whole.model.w)
        assert found.model.feature_names == whole.model.feature_names
        renamed = [["Age" if one == "age" else one for one in order] for order in ORDERS]
        other = clients(renamed, FRAME.rename(columns={"age": "Age"}))
        with pytest.raises(InputError, match=r"lacks 'age'|not what the run began with"):
            fs.run(algorithm, other, rounds=12, preprocess=preprocess, checkpoint=path, resume=True)


def test_a_client_that_restarts_knows_the_agreed_order(tmp_path: Path) -> None:
    """Its memory says it, so that a new process with the data as it lies answers as the old one did."""

    class Restarting(InProcess):
        def deliver(self, requests: Any, deadline: float | None) -> Any:
            assert self._served is not None
            for name, request in requests.items():
                self._runtimes[name] = Runtime(clients()[int(name[1:])], self._served, MemoryStore(tmp_path / name))
                yield name, self._runtimes[name].answer(request)

    found = fs.run(fs.Scaffold(LOSS), Restarting(clients()), rounds=5)
    assert np.array_equal(found.model.w, fs.run(fs.Scaffold(LOSS), in_order(), rounds=5).model.w)


# ── warm starts ──


def test_a_warm_start_is_matched_by_name() -> None:
    fitted = fs.run(fs.Newton(LOSS), in_order()).model
    for orders in (ORDERS, ORDERS[1:] + ORDERS[:1]):
        again = fs.run(fs.Newton(LOSS), clients(orders), warm_start=fitted, rounds=0)
        assert again.model.coefficients() == {name: fitted.coefficients()[name] for name in (*orders[0], "intercept")}
    targets = np.stack([Y, 1 - Y], axis=1)
    squared = fs.Squared(l2=0.1)
    both = fs.run(fs.Newton(squared), [fs.Client("a", FRAME, targets)]).model
    turned = fs.run(fs.Newton(squared), [fs.Client("a", FRAME[list(ORDERS[1])], targets)], warm_start=both, rounds=0)
    assert turned.model.coefficients() == {name: both.coefficients()[name] for name in ORDERS[1]}


def test_warm_starts_that_do_not_fit_are_rejected() -> None:
    model = fs.run(fs.Newton(LOSS), in_order()).model
    standardised = fs.run(fs.Newton(LOSS), in_order(), preprocess=Preprocess()).model
    renamed = [fs.Client("a", FRAME.rename(columns={"age": "Age"}), Y)]

    def start(of: Any, given: list[fs.Client], **more: Any) -> None:
        fs.run(fs.Newton(more.pop("loss", LOSS)), given, warm_start=of, rounds=1, **more)

    with pytest.raises(ConfigError, match=r"other columns: it lacks 'Age' \(is it 'age'\?\) and has 'age'"):
        start(model, renamed)
    with pytest.raises(ConfigError, match="has a preprocess=, and the model of the warm start was fitted without"):
        start(model, in_order(), preprocess=Preprocess())
    with pytest.raises(ConfigError, match="no preprocess=, and the model of the warm start was fitted behind one"):
        start(standardised, in_order())
    with pytest.raises(ConfigError, match="the warm start has an intercept and this loss has none"):
        start(model, in_order(), loss=fs.Logistic(l2=0.01))
    maps = [replace(LOSS, features=fs.RandomFourier(8, 0.1, seed=seed)) for seed in (1, 2)]
    mapped = fs.run(fs.Newton(maps[0]), in_order(), preprocess=Preprocess()).model
    start(mapped, in_order(), loss=maps[0], preprocess=Preprocess())
    with pytest.raises(ConfigError, match=r"for the features RandomFourier\(.*seed=1"):
        start(mapped, in_order(), loss=maps[1], preprocess=Preprocess())
    with pytest.raises(ConfigError, match="in another order"):
        start(mapped, clients([ORDERS[1]] * 3), loss=maps[0], preprocess=Preprocess())
    start(model.w, renamed)  # an array is taken by place


# ── the server's own data ──


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class AtServer:
    """Gradient steps on the server's own data."""

    loss: fs.Logistic

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: fs.Federation, state: State) -> State:
        return State(state.w - 0.1 * self.loss.gradient(fed.server, state.w))

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


@pytest.mark.parametrize("preprocess", [None, Preprocess(), Preprocess(Schema(tuple(map(Numeric, ORDERS[1]))))])
def test_the_server_s_data_has_the_clients_columns(preprocess: Any, tmp_path: Path) -> None:
    def go(order: Sequence[str], rounds: int = 4, **more: Any) -> fs.Run:
        server = fs.Client("server", FRAME[list(order)], Y)
        return fs.run(AtServer(LOSS), clients(), server=server, preprocess=preprocess, rounds=rounds, **more)

    expected = go(NAMES)
    assert np.array_equal(go(ORDERS[2]).model.w, expected.model.w)
    go(ORDERS[1], rounds=2, checkpoint=tmp_path / "saved")
    resumed = go(ORDERS[2], checkpoint=tmp_path / "saved", resume=True)
    assert np.array_equal(resumed.model.w, expected.model.w)
    server = fs.Client("server", FRAME.rename(columns={"age": "years"}), Y)
    with pytest.raises(DataError, match=r"server's data .'server'. lacks 'age'"):
        fs.run(AtServer(LOSS), clients(), server=server, preprocess=preprocess)
    with pytest.raises(DataError, match="no column names"):
        fs.run(AtServer(LOSS), clients(), server=fs.Client("server", X, Y), preprocess=preprocess)


def test_the_server_s_data_is_preprocessed_and_checked() -> None:
    server = fs.Client("server", X, Y)
    nameless = [fs.Client("a", X[:50], Y[:50]), fs.Client("b", X[50:], Y[50:])]
    found = fs.run(AtServer(LOSS), nameless, server=server, preprocess=Preprocess(), rounds=1)
    Z = found.model.transform.apply(X)
    expected = -0.1 * np.append(Z.T @ (0.5 - Y), np.sum(0.5 - Y)) / len(Y)
    assert np.allclose(found.model.w, expected, rtol=1e-12)
    plain = fs.run(AtServer(LOSS), nameless, server=server, rounds=1)  # nothing is left of the run before
    assert np.allclose(plain.model.w, -0.1 * np.append(X.T @ (0.5 - Y), np.sum(0.5 - Y)) / len(Y), rtol=1e-12)
    schema = Preprocess(Schema(tuple(map(Numeric, NAMES))))  # by place, as at the clients
    by_place = fs.run(AtServer(LOSS), nameless, server=server, preprocess=schema, rounds=1)
    assert np.array_equal(by_place.model.w, found.model.w)
    with pytest.raises(DataError, match="3 features where the clients have 4"):
        fs.run(AtServer(LOSS), nameless, server=fs.Client("server", X[:, :3], Y))
    with pytest.raises(DataError, match="labels of the logistic loss"):
        fs.run(AtServer(LOSS), nameless, server=fs.Client("server", X, 7 * Y))


# ── choosing and diagnosing ──


def test_cross_validation_by_name() -> None:
    for grid in (
        [fs.Squared(l2=l2, intercept="free") for l2 in (0.1, 1.0)],
        [replace(LOSS, l2=l2) for l2 in (0.1, 1.0)],
    ):
        for preprocess in (None, Preprocess()):
            expected = fs.cross_validate(grid, in_order(), preprocess=preprocess)
            found = fs.cross_validate(grid, clients(), preprocess=preprocess)
            assert [one.error for one in found.candidates] == [one.error for one in expected.candidates]
    with pytest.raises(DataError, match="lacks 'age'"):
        fs.cross_validate(grid, [*in_order(), fs.Client("d", FRAME.rename(columns={"age": "Age"}), Y)])


def test_diagnosis_by_name() -> None:
    expected, found = (fs.diagnose.contraction(LOSS, given) for given in (in_order(), clients()))
    assert found.rho == expected.rho


def test_names_given_for_a_frame() -> None:
    turned = fs.Client("a", FRAME, Y, feature_names=ORDERS[1])
    assert np.array_equal(turned.X, FRAME[list(ORDERS[1])].to_numpy())
    assert fs.data.partition(FRAME, Y, clients=2, feature_names=ORDERS[1])[0].feature_names == ORDERS[1]
    renamed = fs.Client("a", FRAME, Y, feature_names=list("abcd"))
    assert np.array_equal(renamed.X, X)


def test_a_checkpoint_of_another_run_says_what_differs(tmp_path: Path) -> None:
    def go(names: Sequence[str], **more: Any) -> None:
        schema = Schema(tuple(Numeric(name) for name in names))
        client = fs.Client("a", np.hstack([X, X, X]), Y, feature_names=names)
        fs.run(
            fs.Newton(LOSS), [client], preprocess=Preprocess(schema), rounds=1, checkpoint=tmp_path / "saved", **more
        )

    wide = [f"column {i}" for i in range(12)]
    go(wide)
    with pytest.raises(CheckpointError, match=r"was .*column 11.*is .*another"):
        go([*wide[:-1], "another"], resume=True)
