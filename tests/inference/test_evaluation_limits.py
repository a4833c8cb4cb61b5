"""Where figures are not defined, replies are no sums over rows, scores are equal, or weights have odd units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.inference import evaluation as steps
from fedsolve.inference.evaluated import HeldSums
from fedsolve.inference.score_bins import FIRST, area, binned, refined
from fedsolve.report.evaluation import lines, page_section, terminal

LOSS = fs.Logistic()
ONE = np.array([1.0])


def scored(eta: Any, y: Any, s: Any = None, parts: int = 2) -> list[fs.Client]:
    """Clients whose scores are these, at the weight 1."""
    groups = np.array_split(np.arange(len(y)), parts)
    return [
        fs.Client(f"c{k}", np.asarray(eta, dtype=float)[g, None], np.asarray(y)[g], None if s is None else s[g])
        for k, g in enumerate(groups)
    ]


def judged(clients: list[fs.Client], loss: Any = LOSS, *, by_client: bool = True, **given: Any) -> fs.Evaluated:
    return fs.evaluate(ONE, clients, fs.Evaluation(loss, rows="own", **given), by_client=by_client)


def draw(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    eta = 2 * rng.standard_normal(n)
    return eta, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)


# ── equal targets ──


@pytest.mark.parametrize("by_client", [True, False])
@pytest.mark.parametrize(
    ("loss", "value"),
    [
        (fs.Squared(), 0.1), (fs.Squared(), 1e8 / 3), (fs.Squared(), 1e-9 / 7), (fs.Logistic(), 1.0),
        (fs.Logistic(), 0.3), (fs.Poisson(), 3.0), (fs.Poisson(), 1e6), (fs.Poisson(), 0.0),
    ],
)  # fmt: skip
def test_equal_targets_have_no_share_explained(loss: Any, value: float, by_client: bool) -> None:
    rng = np.random.default_rng(0)
    for s in (None, rng.random(90) + 0.1):
        found = judged(scored(0.1 * rng.standard_normal(90), np.full(90, value), s, 3), loss, by_client=by_client)
        assert found.d2 is None
        assert all(one.d2 is None for one in found.clients.values())


def test_targets_that_differ_between_clients_only_have_a_share_explained() -> None:
    y = np.repeat([0.1, 0.3], 30)
    found = judged(scored(np.linspace(0, 1, 60), y), fs.Squared())
    assert found.d2 == pytest.approx(1 - ((np.linspace(0, 1, 60) - y) ** 2).sum() / ((y - 0.2) ** 2).sum(), rel=1e-12)
    assert [one.d2 for one in found.clients.values()] == [None, None]


def test_one_of_several_outputs_is_constant() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    clients = [fs.Client(f"c{k}", X[k::2], np.stack([X[k::2, 0], np.full(30, 0.1)], axis=1)) for k in range(2)]
    assert fs.evaluate(np.zeros((2, 2)), clients, fs.Evaluation(fs.Squared(), rows="own")).r2 is None


def test_softmax_of_one_class() -> None:
    rng = np.random.default_rng(2)
    clients = [fs.Client(f"c{k}", rng.standard_normal((30, 2)), np.full(30, 1.0)) for k in range(2)]
    found = fs.evaluate(rng.standard_normal((2, 3)), clients, fs.Evaluation(fs.Softmax(classes=3), rows="own"))
    assert found.d2 is None


# ── replies that are no sums over rows ──

Change = Callable[[HeldSums], HeldSums]


def with_total(place: int, value: float) -> Change:
    def change(sums: HeldSums) -> HeldSums:
        totals = sums.totals.copy()
        totals[place] = value
        return replace(sums, totals=totals)

    return change


LIES: dict[str, Change] = {
    "weight NaN": with_total(0, np.nan),
    "loss infinite": with_total(1, np.inf),
    "hits": lambda sums: replace(sums, totals=sums.totals * [1, 1, 1, 1, 1e6, 1]),
    "samples": lambda sums: replace(sums, samples=-(10**6)),
    "negative masses": lambda sums: replace(sums, masses=-sums.masses),
    "too much in bins": lambda sums: replace(sums, masses=2 * sums.masses),
    "starts and ends": lambda sums: replace(sums, masses=sums.masses * [1.0, 0.5, 1.0, 1.0]),
    "confusion": lambda sums: replace(sums, confusion=sums.confusion[:, ::-1].copy()),
    "table": lambda sums: replace(sums, table=sums.table * [1.0, 9.0, 1.0]),
    "shape": lambda sums: replace(sums, targets=np.zeros(7)),
    "targets": lambda sums: replace(sums, targets=9 * sums.targets),
    "negative targets": lambda sums: replace(sums, targets=-sums.targets),
    "bins": lambda sums: replace(sums, masses=sums.masses[:, :-1].copy()),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("who", ["c0", "c2"])
def test_a_client_whose_reply_is_no_sum_is_named_and_left_out(monkeypatch: Any, lie: str, who: str) -> None:
    clients = scored(*draw(), parts=3)
    honest = judged([one for one in clients if one.name != who])
    true = steps.summed

    def lying(loss: Any, held: fs.Client, *rest: Any) -> HeldSums:
        found = true(loss, held, *rest)
        return LIES[lie](found) if held.name == who else found

    monkeypatch.setattr(steps, "summed", lying)
    found = judged(clients)
    assert found.missing == (who,)
    assert "no sums over rows" in found.reasons[who]
    assert who not in found.clients
    without = {name: value for name, value in found.plain().items() if name != "missing"}
    assert without == honest.plain()
    assert found.plain()["missing"] == found.reasons
    with pytest.raises((DataError, fs.errors.FedsolveError)):
        judged(clients, by_client=False)


@pytest.mark.parametrize("lie", ["masses", "null", "own null"])
def test_later_replies_are_checked_too(monkeypatch: Any, lie: str) -> None:
    clients = scored(*draw(), parts=3)
    honest = judged(clients[1:])
    true = steps.spread

    def lying(loss: Any, held: fs.Client, *rest: Any) -> Any:
        null, own, masses = true(loss, held, *rest)
        if held.name == "c0":
            return {"masses": (null, own, 3 * masses), "null": (-null, own, masses), "own null": (null, -own, masses)}[
                lie
            ]
        return null, own, masses

    monkeypatch.setattr(steps, "spread", lying)
    found = judged(clients)
    assert (found.missing, found.auc, found.value) == (("c0",), honest.auc, honest.value)


def test_if_nobody_says_anything_usable(monkeypatch: Any) -> None:
    true = steps.summed
    monkeypatch.setattr(steps, "summed", lambda *given: LIES["hits"](true(*given)))
    with pytest.raises(DataError, match=r"no rows to judge by; missing: c0 \(the reply has hits"):
        judged(scored(*draw()))


def test_reports_name_who_is_missing() -> None:
    found = replace(judged(scored(*draw())), missing=("c9",), reasons={"c9": "lost in round 3: no answer"})
    assert "c9 (lost in round 3: no answer)" in str(page_section(found, None))
    assert "c9 (lost in round 3: no answer)" in str(terminal(found).caption)


# ── the AUC ──


@pytest.mark.parametrize("values", [(0.1, 0.7, 1.3), (-2.1, -0.3, 0.4, 0.41, 0.7, 1.9, 3.3, -1.7, 0.123, 40.0)])
def test_ties_are_resolved(values: tuple[float, ...]) -> None:
    """Equal scores end in bins of one number, where nothing is open."""
    rng = np.random.default_rng(0)
    eta = rng.choice(values, 400)
    y = (rng.random(400) < 1 / (1 + np.exp(-eta))).astype(float)
    found = judged(scored(eta, y), exchanges=20, auc_error=0)
    assert found.auc_error == 0.0
    assert found.auc == pytest.approx(roc_auc_score(y, eta), abs=1e-14)


@pytest.mark.parametrize("unit", [1e-170, 1e-300, 1e155, 2.0**-500])
def test_the_auc_is_free_of_the_unit_of_weights(unit: float) -> None:
    eta, y = draw()
    s = np.random.default_rng(3).random(200) + 0.1
    masses = [binned(eta, u * s * y, u * s * (1 - y), FIRST) for u in (1.0, unit)]
    assert area(masses[1], FIRST) == pytest.approx(area(masses[0], FIRST), rel=1e-12)
    np.testing.assert_array_equal(refined(masses[1], FIRST, 64), refined(masses[0], FIRST, 64))


@pytest.mark.parametrize("exchanges", [1, 2, 3])
def test_no_more_exchanges_are_spent_on_bins(exchanges: int) -> None:
    eta, y = draw(2000)
    evaluation = fs.Evaluation(LOSS, rows="own", exchanges=exchanges, auc_error=0)
    widths = []
    with fs.Session(scored(eta, y), also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        ask = session.fed.exchange

        def watched(*calls: Any) -> Any:
            widths.extend(call.arguments["edges"].shape[1] for call in calls if "edges" in call.arguments)
            return ask(*calls)

        session.fed.exchange = watched  # type: ignore[method-assign]
        found = fs.evaluate(ONE, session, evaluation)
    assert len(set(widths)) == exchanges
    assert abs(found.auc - roc_auc_score(y, eta)) <= found.auc_error + 1e-12


def test_refining_ends_before_clients_reject_it() -> None:
    eta, y = draw()
    found = judged(scored(np.round(eta, 1), y), exchanges=14, bins=100_000, auc_error=0)
    assert found.auc == pytest.approx(roc_auc_score(y, np.round(eta, 1)), abs=found.auc_error + 1e-12)


@pytest.mark.parametrize(("bound", "said"), [(0.0614, "0.07"), (0.2, "0.3"), (0.00021, "0.0003"), (0.95, "1")])
def test_a_printed_bound_is_one(bound: float, said: str) -> None:
    found = replace(judged(scored(*draw())), auc=0.66284, auc_error=bound, clients={})
    headings, rows = lines(found)
    shown = rows[-1][headings.index("AUC")]
    assert shown == f"0.6628 ± {said}"
    assert float(said) >= bound + abs(0.66284 - 0.6628)


# ── calibration ──


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0, 1e4, 1e6])
@pytest.mark.parametrize("power", [1, 3])
def test_the_line_of_an_over_confident_model_is_found_in_few_exchanges(scale: float, power: int) -> None:
    rng = np.random.default_rng(4)
    t = rng.standard_normal(2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-t))).astype(float)
    eta = scale * (np.sign(t) * np.abs(t) ** power + 0.3 * rng.standard_normal(2000) + 0.5)
    evaluation = fs.Evaluation(LOSS, rows="own")
    with fs.Session(scored(eta, y), also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        found = fs.evaluate(ONE, session, evaluation)
        asked = sum("evaluation.held_recalibration" in record.calls for record in session.fed.ledger.records)
    z = eta / eta.std()
    line = minimize(
        lambda p: np.mean(np.logaddexp(0, p[0] + p[1] * z) - y * (p[0] + p[1] * z)), [0, 0], options={"gtol": 1e-9}
    ).x
    assert (found.calibration_intercept, found.calibration_slope) == pytest.approx(
        (line[0], line[1] / eta.std()), rel=1e-5
    )
    assert asked <= 10
    assert all(one.calibration_slope is not None for one in found.clients.values())


@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4, 1e-5])
def test_the_line_of_scores_that_lie_close_together(spread: float) -> None:
    eta, y = draw(400)
    wide, narrow = judged(scored(eta, y)), judged(scored(1 + spread * eta, y))
    assert narrow.calibration_slope == pytest.approx(wide.calibration_slope / spread, rel=1e-4)


def test_equal_scores_have_no_line() -> None:
    _, y = draw()
    assert judged(scored(np.full(200, 0.7), y)).calibration_slope is None


# ── what is not judged ──


def test_weights_that_are_not_finite_are_rejected() -> None:
    clients = scored(*draw())
    model = fs.LinearModel(np.array([np.inf]), False, "logistic")
    for given in (np.array([np.inf]), np.array([np.nan]), model):
        with pytest.raises(ConfigError, match="not finite"):
            fs.evaluate(given, clients, fs.Evaluation(LOSS, rows="own"))


def test_counts_that_overflow_are_no_gain() -> None:
    """The loss of a mean beyond all numbers is huge, not negative."""
    found = fs.evaluate(np.array([1e200]), scored(np.ones(20), np.ones(20)), fs.Evaluation(fs.Poisson(), rows="own"))
    assert found.value is not None
    assert found.value > 1e100


@pytest.mark.parametrize("rows", ["held", "own"])
def test_fewer_rows_than_least_is_said(rows: Any) -> None:
    clients = fs.data.hold_out(scored(*draw()), 0.2)
    with pytest.raises(DataError, match="no client has 1000 rows to judge by, which least = 1000 asks for"):
        fs.evaluate(ONE, clients, fs.Evaluation(LOSS, rows=rows, least=1000))


# ── what leaves a client ──


def test_replies_of_one_evaluation_cannot_be_subtracted() -> None:
    """Every exchange, and the calibration table, tell of the same runs of at least 5 rows."""
    evaluation = fs.Evaluation(LOSS, rows="own", least=5, auc_error=0, exchanges=12)
    replies: dict[str, list[np.ndarray]] = {}
    clients = scored(*draw(1200), parts=40)
    with fs.Session(clients, also={"evaluation": evaluation}) as session:
        session.open({})
        session.join()
        ask = session.fed.exchange

        def watched(*calls: Any) -> Any:
            results = ask(*calls)
            for result in results:
                for name, one in result.items() if isinstance(result, dict) else ():
                    counts = replies.setdefault(name, [])
                    if isinstance(one, HeldSums):
                        counts += [one.masses[0], one.table]
                    elif isinstance(one, tuple) and one and isinstance(one[-1], np.ndarray):
                        counts.append(one[-1][0])
            return results

        session.fed.exchange = watched  # type: ignore[method-assign]
        found = fs.evaluate(ONE, session, evaluation)
        edges = np.sort(draw(1200)[0])[None, ::7].copy()
        for name, one in session.fed.gather(evaluation.held_bins, w=ONE, edges=edges).items():
            replies[name].append(one[0])
    assert found.auc_error is not None
    assert len(replies) == 40
    for told in replies.values():
        ends = {0.0}
        for one in told:
            columns = [one[:, 0]] if one.shape[1] == 3 else [one[:, 0] + one[:, 2], one[:, 1] + one[:, 3]]
            ends |= {float(round(count)) for column in columns for count in np.cumsum(column)}
        assert np.diff(sorted(ends)).min() >= 5
