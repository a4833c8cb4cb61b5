"""Federation gain: the numbers against a computation by hand, whatever the clients are, and what is said otherwise."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.federation.transports import InProcess
from fedsolve.inference import gain_table
from fedsolve.inference.compared import OWN_MODELS, Compared
from fedsolve.inference.own_best_model import ONE_CLASS, own_best_model
from fedsolve.inference.ratio_interval import ratio_of_means
from fedsolve.losses import LinearLoss
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.problem import prepare
from fedsolve.wire.messages import Reply
from fedsolve.wire.parts import Part
from tests.extras import optional
from tests.faults.faulty import FaultyRoad
from tests.loop.kinds import KMeans

P, SIZES = 4, (120, 90, 200)
LOSSES: dict[str, LinearLoss] = {
    "squared": fs.Squared(l2=0.01, intercept="free"),
    "two outputs": fs.Squared(l2=0.01, intercept="free"),
    "logistic": fs.Logistic(l2=0.01, intercept="free"),
    "softmax": fs.Softmax(classes=3, l2=0.01, intercept="free"),
    "poisson": fs.Poisson(l2=0.01, intercept="free"),
}
NAMES = tuple("abcd")


def clients(
    kind: str = "squared", sizes: Sequence[int] = SIZES, fraction: float | None = 0.4, **more: Any
) -> list[Any]:
    """Clients with unequal truths; `weights` and `offsets` add such."""
    rng = np.random.default_rng(len(kind))
    truth, found = rng.standard_normal((P, 3)) / 2, []
    for place, n in enumerate(sizes):
        X = rng.standard_normal((n, P))
        offset = rng.uniform(-1, 1, n) if more.get("offsets") else None
        eta = X @ (truth + 0.2 * rng.standard_normal((P, 3))) + (0.0 if offset is None else offset[:, None])
        y = {
            "squared": eta[:, 0] + rng.standard_normal(n),
            "two outputs": eta[:, :2] + rng.standard_normal((n, 2)),
            "logistic": (rng.random(n) < 1 / (1 + np.exp(-eta[:, 0]))).astype(float),
            "softmax": np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(float),
            "poisson": rng.poisson(np.exp(eta[:, 0])).astype(float),
        }[kind]
        s = rng.uniform(0.5, 1.5, n) if more.get("weights") else None
        found.append(fs.Client(f"client-{place}", X, y, s, offset=offset, feature_names=NAMES))
    return found if fraction is None else fs.data.hold_out(found, fraction)


def by_hand(client: fs.Client, loss: LinearLoss, model: Any) -> tuple[float, float, float, float | None]:
    """From a model's own predictor on raw rows: errors and interval."""
    transform, held = model.transform, client.held
    ready = fs.Client(client.name, transform.apply(client.X), client.y, client.sample_weight, offset=client.offset)
    own = own_best_model(ready, loss).w
    assert held is not None
    X = np.c_[transform.apply(held.X), np.ones(held.n_samples)]
    each = []
    for w in (own, model.w):
        eta = X @ w + (0.0 if held.offset is None else held.offset)
        each.append(loss.error(np, eta, loss.targets(held)))
    found = ratio_of_means(*each, held.sample_weight)
    return found.numerator, found.denominator, found.low, found.high


def check(gains: fs.inference.FederationGains, held: Sequence[fs.Client], loss: LinearLoss, model: Any) -> None:
    for client in held:
        one = gains.clients[client.name]
        expected = by_hand(client, loss, model)
        assert (one.local_error, one.federated_error, one.low, one.high) == pytest.approx(expected, rel=1e-7)
        assert one.gain == pytest.approx(expected[0] / expected[1], rel=1e-7)
        assert client.held is not None
        assert one.rows == client.held.n_samples


@pytest.mark.parametrize(
    ("kind", "more"),
    [(kind, more) for kind in LOSSES for more in ("", "weights")]
    + [(kind, "offsets") for kind in ("squared", "logistic", "poisson")],  # with one prediction per row
)
def test_the_numbers(kind: str, more: str) -> None:
    held, loss = clients(kind, **({more: True} if more else {})), LOSSES[kind]
    run = fs.run(fs.Newton(loss), held, preprocess=fs.data.Preprocess())
    gains = fs.federation_gain(run)
    check(gains, held, loss, run.model)
    assert gains.error_name == loss.error_name
    assert gains.missing == {}


@pytest.mark.parametrize("transport", ["in_process", "processes"])
@pytest.mark.parametrize("still_open", [False, True], ids=["closed", "open"])
def test_by_every_transport_and_session(transport: str, still_open: bool) -> None:
    held, loss = clients("logistic"), LOSSES["logistic"]
    with fs.Session(held, transport, also={"gain": fs.FederationGain(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        algorithm = run.ledger.total("algorithm")
        if still_open:
            gains = fs.federation_gain(run)
            assert run.ledger.total("algorithm") == algorithm  # it measures
    if not still_open:
        gains = fs.federation_gain(run)
    check(gains, clients("logistic"), loss, run.model)
    again = fs.federation_gain(fs.run(fs.Newton(loss), clients("logistic"), preprocess=fs.data.Preprocess()))
    assert again == gains  # nothing random is in it, and transports change nothing


def test_as_deployed(tmp_path: Path) -> None:
    """Clients that outlive the server and answer only what they were started with."""
    held, loss = clients("squared"), LOSSES["squared"]
    road = FaultyRoad(held, tmp_path)
    with fs.Session(road, also={"gain": fs.FederationGain(loss, folds=3)}) as session:
        run = fs.run(fs.FedAvg(loss), session, rounds=5, preprocess=fs.data.Preprocess())
        gains = fs.federation_gain(run)
        assert gains == fs.federation_gain(run, fs.FederationGain(loss, folds=3))
        with pytest.raises(fs.errors.ConfigError, match=r"other settings of it: fs\.Session"):
            fs.federation_gain(run, fs.FederationGain(loss))
    assert set(gains.clients) == {one.name for one in held}
    with fs.Session(FaultyRoad(clients("squared"), None)) as session:
        run = fs.run(fs.FedAvg(loss), session, rounds=2)
        with pytest.raises(fs.errors.ConfigError, match="and there is none"):
            fs.federation_gain(run)


def test_what_leaves_a_client() -> None:
    """A few numbers, and none but the count where there are too few rows."""
    held = [*clients("squared")[:2], *clients("squared", (120, 90, 40), 0.25)[2:]]
    with fs.Session(held, also={"gain": fs.FederationGain(LOSSES["squared"])}) as session:
        run = fs.run(fs.Newton(LOSSES["squared"]), session)
        gains = fs.federation_gain(run)
        sent = [entry for entry in session.fed.ledger.entries() if entry.call == "gain.compare"]
    up = {entry.client: entry.scalars for entry in sent if entry.direction == "up"}
    assert max(up.values()) <= 6
    assert up["client-2"] <= 2
    few = gains.clients["client-2"]
    assert (few.rows, few.local_error, few.federated_error, few.gain, few.low) == (10, None, None, None, None)
    assert few.verdict == "cannot tell"
    assert gains.sentence("client-2") == "client-2: cannot tell, it has 10 held-out rows, and 30 are needed."


def test_thirty_rows_are_enough() -> None:
    held = [one.holding_out(np.arange(n)) for one, n in zip(clients(fraction=None), (29, 30, 31), strict=True)]
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), held))
    assert [one.verdict == "cannot tell" for one in gains.clients.values()] == [True, False, False]


def test_unequal_weights_count_for_less() -> None:
    (plain,) = clients("squared", (100,), None)
    s = np.ones(100)
    s[0] = 500.0
    held = fs.Client("a", plain.X, plain.y, s).holding_out(np.arange(50))
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), [held]))
    said = "a: cannot tell, the weights of its held-out rows are so unequal that they say less than 30 rows do."
    assert gains.sentence("a") == said


def test_no_held_out_rows() -> None:
    run = fs.run(fs.Newton(LOSSES["squared"]), clients("squared", fraction=None))
    with pytest.raises(
        fs.errors.DataError, match=r"no client has held-out rows .* fs\.data\.hold_out\(clients, 0\.3\)"
    ):
        fs.federation_gain(run)
    some = [clients("squared", fraction=None)[0], *clients("squared")[1:]]
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), some))
    assert gains.sentence("client-0") == "client-0: cannot tell, it has no held-out rows."
    assert gains.clients["client-1"].gain is not None


def test_a_run_without_a_loss() -> None:
    run = fs.run(KMeans(), clients("squared"), rounds=2)
    with pytest.raises(fs.errors.ConfigError, match="KMeans has no loss of a linear model"):
        fs.federation_gain(run)
    with pytest.raises(fs.errors.ConfigError, match="has no weights"):
        fs.federation_gain(run, fs.FederationGain(LOSSES["squared"]))
    with pytest.raises(fs.errors.ConfigError, match=r"takes the result of fs\.run, got LinearModel"):
        fs.federation_gain(fs.LinearModel(np.zeros(2), False, "identity"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"folds": 1}, {"folds": 2.5}, {"folds": 51}, {"level": 1.0}, {"level": True}, {"seed": -1}]
)
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(fs.errors.ConfigError):
        fs.FederationGain(LOSSES["squared"], **wrong)
    with pytest.raises(fs.errors.ConfigError, match="compares linear models"):
        fs.FederationGain(None)  # type: ignore[arg-type]


def test_settings_of_numpy_are_the_same() -> None:
    run = fs.run(fs.Newton(LOSSES["squared"]), clients("squared"), transport="processes")
    a, b = (fs.federation_gain(run, fs.FederationGain(LOSSES["squared"], folds=n)) for n in (3, np.int64(3)))
    assert a == b


def test_a_diverged_run_is_judged_as_it_is() -> None:
    run = fs.run(fs.FedAvg(LOSSES["squared"], fs.GradientSteps(5, 50.0)), clients("squared"), rounds=100)
    assert run.status == "diverged"
    assert {one.verdict for one in fs.federation_gain(run).clients.values()} == {"joining does not pay"}


def test_errors_beyond_all_numbers() -> None:
    run = fs.run(fs.Newton(LOSSES["squared"]), clients("squared"))
    gains = fs.federation_gain(replace(run, model=replace(run.model, w=1e200 * run.model.w)))
    assert gains.sentence("client-0") == (
        "client-0: cannot tell, an error is not finite: give the columns a smaller scale."
    )


def test_classes_with_names() -> None:
    plain = clients("logistic", fraction=None)
    named = [fs.Client(c.name, c.X, np.where(c.y > 0, "yes", "no"), classes=("no", "yes")) for c in plain]
    a, b = (
        fs.federation_gain(fs.run(fs.Newton(LOSSES["logistic"]), fs.data.hold_out(each, 0.4)))
        for each in (plain, named)
    )
    assert a == b


def test_columns_by_name() -> None:
    """One client has its columns in another order."""
    plain = clients("squared")
    run = fs.run(fs.Newton(LOSSES["squared"]), plain, preprocess=fs.data.Preprocess())
    turned, order = clients("squared", fraction=None), [2, 0, 3, 1]
    turned[1] = fs.Client(
        turned[1].name, turned[1].X[:, order], turned[1].y, feature_names=tuple(NAMES[place] for place in order)
    )
    other = fs.run(fs.Newton(LOSSES["squared"]), fs.data.hold_out(turned, 0.4), preprocess=fs.data.Preprocess())
    a, b = fs.federation_gain(run), fs.federation_gain(other)
    for name in a.clients:
        assert b.clients[name].gain == pytest.approx(a.clients[name].gain, rel=1e-9)


@pytest.mark.parametrize("kind", ["sparse", "torch"])
def test_other_arrays(kind: str) -> None:
    plain, loss = clients("logistic", fraction=None), LOSSES["logistic"]
    if kind == "torch":
        torch = optional("torch")
        other = [fs.Client(c.name, torch.asarray(c.X), torch.asarray(c.y), feature_names=NAMES) for c in plain]
    else:
        other = [fs.Client(c.name, sp.csr_array(c.X), c.y, feature_names=NAMES) for c in plain]
    a, b = (
        fs.federation_gain(fs.run(fs.Newton(loss), fs.data.hold_out(each, 0.4), preprocess=prepared))
        for each, prepared in ((plain, fs.data.Preprocess(centre=False)), (other, fs.data.Preprocess(centre=False)))
    )
    for name, one in a.clients.items():
        for field in ("local_error", "federated_error", "low", "high"):
            assert getattr(b.clients[name], field) == pytest.approx(getattr(one, field), rel=1e-6)


class Absent(InProcess):
    """One client stops answering when its gain is asked for."""

    def deliver(self, requests: Any, deadline: float | None) -> Any:
        asked = next(iter(requests.values())).routes.value[0]
        for name, answer in super().deliver(requests, deadline):
            if not ("compare" in str(asked) and name == "client-1"):
                yield name, answer


def test_an_absent_client_is_listed() -> None:
    loss = LOSSES["squared"]
    for participation in (fs.Participation(quorum=0.5), None):
        with fs.Session(Absent(clients("squared")), also={"gain": fs.FederationGain(loss)}) as session:
            run = fs.run(fs.Newton(loss), session, participation=participation)
            gains = fs.federation_gain(run)
        assert set(gains.clients) == {"client-0", "client-2"}
        assert list(gains.missing) == ["client-1"]
        assert gains.rows()[-1]["verdict"] == "missing"
        assert "client-1: missing, " in str(gains)


@pytest.mark.parametrize("quorum", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("still_open", [False, True], ids=["closed", "open"])
def test_a_failing_client_is_listed_whatever_the_quorum(quorum: float, still_open: bool) -> None:
    loss = LOSSES["logistic"]
    held = clients("logistic")
    held[1]._held.y[0] = 5.0
    with fs.Session(held, also={"gain": fs.FederationGain(loss)}) as session:
        run = fs.run(fs.Newton(loss), session, participation=fs.Participation(quorum=quorum))
        gains = fs.federation_gain(run) if still_open else None
        assert session.fed.participation.quorum == quorum
    gains = gains or fs.federation_gain(run)
    assert "labels of the logistic loss" in gains.missing["client-1"]
    assert gains.clients["client-0"].gain is not None
    assert gains.clients["client-2"].gain is not None


def test_a_resumed_run(tmp_path: Path) -> None:
    loss, saved = LOSSES["squared"], tmp_path / "run"
    whole = fs.run(fs.FedAvg(loss), clients("squared"), rounds=6, preprocess=fs.data.Preprocess())
    fs.run(fs.FedAvg(loss), clients("squared"), rounds=3, preprocess=fs.data.Preprocess(), checkpoint=saved)
    for still_open in (True, False):
        with fs.Session(clients("squared"), also={"gain": fs.FederationGain(loss)}) as session:
            run = fs.run(
                fs.FedAvg(loss), session, rounds=6, preprocess=fs.data.Preprocess(), checkpoint=saved, resume=True
            )
            gains = fs.federation_gain(run) if still_open else None
        assert (gains or fs.federation_gain(run)) == fs.federation_gain(whole)


def test_a_client_with_one_class() -> None:
    held = clients("logistic")
    held[0] = fs.Client(held[0].name, held[0].X, np.ones(held[0].n_samples), feature_names=NAMES)
    held[0]._held = clients("logistic")[0]._held
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["logistic"]), held))
    assert gains.clients["client-0"].local_model == OWN_MODELS[ONE_CLASS]
    assert gains.clients["client-0"].gain is not None


def test_a_client_with_one_row_to_learn_from() -> None:
    held = clients("squared")
    held[0] = clients("squared", fraction=None)[0].holding_out(np.arange(1, 120))
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), held))
    assert gains.clients["client-0"].verdict == "joining pays"


def test_models_without_error() -> None:
    """Without noise both models are as good as rounding lets them be, and nobody gains by that."""
    held = [replaced(one, one.X @ np.arange(4.0) + 1e6) for one in clients("squared", fraction=None)]
    for loss in (fs.Squared(intercept="free"), fs.Squared(l2=1e-14, intercept="free")):
        for whose in (held, held[:1]):
            gains = fs.federation_gain(fs.run(fs.Newton(loss), fs.data.hold_out(whose, 0.4)))
            assert {one.verdict for one in gains.clients.values()} == {"no clear difference"}
    zero = [replaced(one, 0.0 * one.y) for one in held]
    gains = fs.federation_gain(fs.run(fs.Newton(loss), fs.data.hold_out(zero, 0.4)))
    assert gains.sentence("client-0") == (
        "client-0: no clear difference. Neither model makes an error on its 48 held-out rows."
    )


def test_one_model_without_error() -> None:
    held = clients("squared", fraction=None)
    held = [replaced(held[0], 0.0 * held[0].y).holding_out(np.arange(60)), *fs.data.hold_out(held[1:], 0.4)]
    alone = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), held))
    assert alone.clients["client-0"].verdict == "joining does not pay"
    assert "Its own model makes no error on its 60 held-out rows" in alone.sentence("client-0")
    other = fs.run(fs.Newton(LOSSES["squared"]), clients("squared"))
    silent = [replaced(one, 0.0 * one.y) for one in clients("squared", fraction=None)]
    silent = [replace_held(one, rows) for one, rows in zip(clients("squared"), silent, strict=True)]
    run = fs.run(fs.Newton(LOSSES["squared"]), silent)
    gains = fs.federation_gain(replace(run, model=replace(other.model, w=0 * other.model.w)))
    assert gains.clients["client-0"].verdict == "joining pays"
    assert "The federated model makes no error" in gains.sentence("client-0")


def replace_held(one: fs.Client, rows: fs.Client) -> fs.Client:
    one._held = rows
    return one


def replaced(one: fs.Client, y: np.ndarray) -> fs.Client:
    return fs.Client(one.name, one.X, y, feature_names=NAMES)


def test_feature_maps_and_too_many_weights() -> None:
    loss = fs.Squared(l2=0.01, intercept="free", features=fs.RandomFourier(20, gamma=0.2, seed=3))
    gains = fs.federation_gain(fs.run(fs.Newton(loss), clients("squared")))
    assert all(one.gain is not None for one in gains.clients.values())
    wide = replace(loss, features=fs.RandomFourier(5000, gamma=0.2, seed=3))
    run = fs.run(fs.FedAvg(wide, fs.GradientSteps(1, 0.1)), clients("squared"), rounds=1, tolerance=0)
    with pytest.raises(fs.errors.ConfigError, match=r"order 5,001 .* 4,096 is the most"):
        fs.federation_gain(run)


def test_thresholds_and_sentences() -> None:
    held, loss = clients("squared"), LOSSES["squared"]
    run = fs.run(fs.Newton(loss), held, preprocess=fs.data.Preprocess())
    gains = fs.federation_gain(run)
    told = list(gains.clients.values())
    variance = np.median([min(one.local_error, one.federated_error) for one in told])  # type: ignore[type-var]
    assert 0.7 < variance < 1.4  # of noise of variance 1
    total, norm = sum(one.n_samples for one in held), float(np.linalg.norm(run.model.coef))
    for one in held:
        expected = np.sqrt(min(variance * P / one.n_samples, norm**2) - variance * P / total)
        assert gains.clients[one.name].threshold == pytest.approx(expected)
        said = gains.threshold_sentence(one.name)
        assert said == f"{one.name}: joining pays while model heterogeneity stays below about {expected:.3g}."
        assert said in str(gains)
    assert gain_table.ASSUMES in str(gains)
    other = fs.federation_gain(fs.run(fs.Newton(LOSSES["logistic"]), clients("logistic")))
    assert other.threshold_sentence("client-0") is None
    assert "Theorem 16" not in str(other)


def test_why_there_is_no_threshold() -> None:
    held, loss, prepared = clients("squared"), LOSSES["squared"], fs.data.Preprocess()
    alone = fs.federation_gain(fs.run(fs.Newton(loss), held[:1], preprocess=prepared))
    assert (alone.threshold_sentence("client-0") or "").endswith("heterogeneity: it has all rows.")
    rng = np.random.default_rng(0)
    noisy = [replaced(one, 1e3 * rng.standard_normal(len(one.y))) for one in clients("squared", fraction=None)]
    run = fs.run(fs.Newton(fs.Squared(l2=100.0, intercept="free")), fs.data.hold_out(noisy, 0.4), preprocess=prepared)
    said = fs.federation_gain(run).threshold_sentence("client-0") or ""
    assert "so small against the noise" in said
    assert "all rows" not in said.split("noise")[0]


def test_thresholds_do_not_depend_on_units() -> None:
    """After standardising only; and of rows that count alike."""
    loss, prepared = LOSSES["squared"], fs.data.Preprocess()
    plain = clients("squared", fraction=None)
    large = [fs.Client(one.name, one.X * [1e3, 1, 1e-3, 1], one.y, feature_names=NAMES) for one in plain]
    a, b = (
        fs.federation_gain(fs.run(fs.Newton(loss), fs.data.hold_out(each, 0.4), preprocess=prepared))
        for each in (plain, large)
    )
    assert a.clients["client-0"].threshold == pytest.approx(b.clients["client-0"].threshold, rel=1e-6)
    unscaled = (None, fs.data.Preprocess(standardise=False))
    for preprocess in unscaled:
        gains = fs.federation_gain(fs.run(fs.Newton(loss), fs.data.hold_out(large, 0.4), preprocess=preprocess))
        assert gains.clients["client-0"].threshold is None
        assert "Theorem 16" not in str(gains)
    masked = [fs.Client(one.name, one.X, one.y, np.arange(one.n_samples) % 2.0) for one in plain]
    masked = [one.holding_out(np.arange(70)) for one in masked]
    gains = fs.federation_gain(fs.run(fs.Newton(loss), masked, preprocess=prepared))
    assert gains.clients["client-0"].gain is not None
    assert gains.clients["client-0"].threshold is None


def test_verdicts() -> None:
    def verdict(low: float | None, high: float | None, few: bool = False) -> str:
        return gain_table.ClientGain(50, 1.0, 1.0, 1.0, low, high, "", few_cases=few).verdict

    assert verdict(1.1, 2.0) == verdict(1.1, None) == "joining pays"
    assert verdict(0.5, 0.9) == "joining does not pay"
    assert verdict(0.5, 1.1) == verdict(0.5, None) == "no clear difference"
    assert verdict(1 + 1e-12, 1 + 3e-12) == verdict(1 - 3e-12, 1 - 1e-12) == "no clear difference"
    assert verdict(1.1, 2.0, few=True) == "cannot tell"


# ── a client that joins nobody ──


@pytest.mark.parametrize("seed", range(3))
def test_l1_is_compared_with_l1(seed: int) -> None:
    """Few columns of many count: a lasso is no reason to join if the client's own lasso is as good."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((370, 60))
    y = 2 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] + rng.standard_normal(370)
    alone = fs.Client("a", X, y).holding_out(np.arange(70, 370))
    one = fs.federation_gain(fs.run(fs.Newton(fs.Squared(l1=0.15, intercept="free")), [alone])).clients["a"]
    assert one.verdict != "joining pays"
    assert one.gain is not None
    assert one.gain < 1.05


def test_the_same_model_is_no_gain() -> None:
    """Where cross-validation chooses the run's own penalty, the two models differ by the tolerance of the run."""
    equal = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((160, 3))
        y = (rng.random(160) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
        alone = fs.Client("a", X, y).holding_out(np.arange(100, 160))
        loss = fs.Logistic(l2=0.02, intercept="free")
        one = fs.federation_gain(fs.run(fs.Newton(loss), [alone])).clients["a"]
        assert one.low is not None
        assert one.gain is not None
        assert one.low <= one.gain <= (one.high or np.inf)
        if abs(one.gain - 1) < 1e-7:
            equal += 1
            assert one.verdict == "no clear difference"
    assert equal >= 3


# ── clients that are opened again ──


def test_the_models_own_preprocessing_is_used_again() -> None:
    """One client's columns change after the run: that is its own affair, and not that of the others."""
    loss = LOSSES["squared"]
    before = fs.federation_gain(fs.run(fs.Newton(loss), clients("squared"), preprocess=fs.data.Preprocess()))
    held = clients("squared")
    run = fs.run(fs.Newton(loss), held, preprocess=fs.data.Preprocess())
    held[2].X[:] = 50 * held[2].X + 30
    after = fs.federation_gain(run)
    for name in ("client-0", "client-1"):
        assert after.clients[name].gain == before.clients[name].gain


def test_other_rows_than_in_the_run_are_rejected() -> None:
    loss = LOSSES["squared"]
    run = fs.run(fs.Newton(loss), clients("squared"))
    assert run.session is not None
    run.session.transport = InProcess(clients("squared", (120, 80, 200)))
    with pytest.raises(fs.errors.DataError, match=r"'client-1' has 48 rows .* and had 54"):
        fs.federation_gain(run)


def test_what_was_sent_is_in_a_ledger() -> None:
    gains = fs.federation_gain(fs.run(fs.Newton(LOSSES["squared"]), clients("squared")))
    assert gains.ledger is not None
    assert {entry.client for entry in gains.ledger.entries() if entry.call == "gain.compare"} == set(gains.clients)
    assert gains.ledger.total("algorithm").bytes_up == 0


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_a_run_can_be_pickled_and_copied_without_its_clients(transport: str) -> None:
    held = clients("squared")
    run = fs.run(fs.Newton(LOSSES["squared"]), held, transport=transport)
    text = pickle.dumps(run)
    again, shallow, deep = pickle.loads(text), copy.copy(run), copy.deepcopy(run)
    assert held[0].X[:1].tobytes() not in text
    for one in (again, shallow, deep):
        assert one.session is None
        np.testing.assert_array_equal(one.model.w, run.model.w)
        assert one.status == run.status
        with pytest.raises(fs.errors.ConfigError, match="it was copied or pickled"):
            fs.federation_gain(one)
    assert replace(run, seed=run.seed).session is run.session
    assert fs.federation_gain(run).clients


def test_another_loss_than_the_models() -> None:
    run = fs.run(fs.Newton(LOSSES["logistic"]), clients("logistic"))
    with pytest.raises(fs.errors.ConfigError, match="the link 'logistic' and Squared is for 'identity'"):
        fs.federation_gain(run, fs.FederationGain(LOSSES["squared"]))


# ── what a client says ──


class Liar(InProcess):
    """One client says something else than it found."""

    lie: ClassVar[dict[str, Any]] = {}

    def deliver(self, requests: Any, deadline: float | None) -> Any:
        for name, answer in super().deliver(requests, deadline):
            parts = getattr(answer, "results", ())
            if name == "client-1" and parts and isinstance(parts[0].value, Compared):
                told = replace(parts[0].value, **self.lie)
                answer = Reply(answer.preamble, answer.seconds, answer.counts, [Part(told)])
            yield name, answer


LIES: list[dict[str, Any]] = [
    {"local_error": float("nan")},
    {"local_error": float("inf")},
    {"low": float("-inf")},
    {"federated_error": -100.0},
    {"local_error": -1.0},
    {"federated_error": 0.0},
    {"local_error": 1e300, "federated_error": 1e-300},
    {"low": 5.0, "high": 7.0},
    {"low": 2.0, "high": 0.5},
    {"local_error": None},
    {"low": None},
    {"rows": 3},
    {"rows": -1},
    {"rows": 10**18},
    {"how": "x" * 5_000_000},
    {"how": "\x1b[31mred\n"},
    {"how": "few rows"},
    {"how": "few rows", "local_error": None, "federated_error": None, "low": None, "high": None, "few_cases": True},
]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
@pytest.mark.parametrize("quorum", [0.0, 0.5])
def test_what_cannot_be_true_is_nobody_elses_loss(lie: dict[str, Any], quorum: float) -> None:
    loss = fs.FederationGain(LOSSES["squared"], folds=2)

    def asked(told: dict[str, Any]) -> fs.inference.FederationGains:
        transport = Liar(clients("squared", (60, 60, 60), 0.5))
        transport.lie = told  # type: ignore[misc]
        run = fs.run(fs.Newton(loss.loss), transport, participation=fs.Participation(quorum=quorum))
        return fs.federation_gain(run, loss)

    gains, honest = asked(lie), asked({})
    assert list(gains.missing) == ["client-1"]
    assert "answered " in gains.missing["client-1"]
    assert len(str(gains)) < 2000
    assert "\x1b" not in str(gains)
    for name in ("client-0", "client-2"):
        assert gains.clients[name].gain == honest.clients[name].gain
    assert honest.missing == {}


@pytest.mark.parametrize("lie", [{"rows": 2**50}, {"local_error": 1e200, "federated_error": 1e200}])
def test_one_client_does_not_move_the_thresholds_of_all(lie: dict[str, Any]) -> None:
    """What can be true though it is not: σ² is the median over the clients, and five have about the same."""
    thresholds = []
    for told in (lie, {}):
        transport = Liar(clients("squared", (90,) * 5, 0.5))
        transport.lie = told and {**told, "low": 0.0, "high": None}  # type: ignore[misc]
        run = fs.run(fs.Newton(LOSSES["squared"]), transport, preprocess=fs.data.Preprocess())
        gains = fs.federation_gain(run, fs.FederationGain(LOSSES["squared"], folds=2))
        assert gains.missing == {}
        thresholds.append(gains.clients["client-0"].threshold)
    assert thresholds[0] == pytest.approx(thresholds[1], rel=0.3)


def test_weights_do_not_leave_a_client_of_few_rows() -> None:
    """The worth of two rows of weights 3 and 7 would tell their ratio."""
    (plain,) = clients("squared", (40,), None)
    one = fs.Client("a", plain.X, plain.y, np.r_[3.0, 7.0, np.ones(38)]).holding_out(np.arange(2))
    found = fs.FederationGain(LOSSES["squared"]).compare(one, np.zeros(5))
    assert found == Compared(2, "few rows")


@pytest.mark.parametrize("kind", ["logistic", "softmax", "poisson"])
def test_few_cases_are_no_verdict(kind: str) -> None:
    """Errors and interval are told, and that so few cases do not say who gains."""
    held, loss = clients(kind), LOSSES[kind]
    y = held[0]._held.y
    y[:] = 0.0
    y[:4] = 1.0
    gains = fs.federation_gain(fs.run(fs.Newton(loss), held))
    one = gains.clients["client-0"]
    assert one.verdict == "cannot tell"
    assert None not in (one.gain, one.low)
    which = "have a count above zero" if kind == "poisson" else "are of another class than most"
    assert gains.sentence("client-0") == f"client-0: cannot tell, fewer than 5 of its 48 held-out rows {which}."
    held = clients(kind)
    y = held[0]._held.y
    y[:] = 0.0
    y[:5] = 1.0
    assert fs.federation_gain(fs.run(fs.Newton(loss), held)).clients["client-0"].verdict != "cannot tell"


def test_targets_too_small_to_square() -> None:
    held = [replaced(one, 1e-170 * one.y) for one in clients("squared", fraction=None)]
    run = fs.run(fs.Newton(LOSSES["squared"]), fs.data.hold_out(held, 0.4))
    assert fs.federation_gain(run).sentence("client-0") == (
        "client-0: cannot tell, the targets are too small to square their errors: give them a larger scale."
    )


def test_a_small_client_gains_and_one_of_another_kind_loses() -> None:
    """Where the answer is known: few rows of the same truth, and many rows of another."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(20)

    def client(name: str, rows: int, sign: float) -> fs.Client:
        X = rng.standard_normal((rows + 100, 20))
        y = sign * X @ truth + 0.5 * rng.standard_normal(rows + 100)
        return fs.Client(name, X, y).holding_out(np.arange(rows, rows + 100))

    held = [client("small", 15, 1.0), client("large", 2000, 1.0), client("other", 300, -1.0)]
    gains = fs.federation_gain(fs.run(fs.Newton(fs.Squared(l2=1e-3)), held))
    assert gains.clients["small"].verdict == "joining pays"
    assert gains.clients["other"].verdict == "joining does not pay"


@pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")
def test_four_hospitals() -> None:
    file = Path(__file__).parents[2] / "examples/heart.toml"
    problem = prepare(config.read(file), file)
    (algorithm,) = problem.algorithms.values()
    run = fs.run(algorithm, fs.data.hold_out(problem.clients, 0.3), preprocess=problem.preprocess)
    gains = fs.federation_gain(run)
    assert list(gains.clients) == ["cleveland", "hungarian", "switzerland", "va"]
    assert [one.rows for one in gains.clients.values()] == [91, 88, 37, 60]
    for one in gains.clients.values():
        assert one.low is not None
        assert one.high is not None
        assert one.gain is not None
        assert 0 < one.low < one.gain < one.high < 3
