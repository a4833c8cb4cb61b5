"""How much of each column is missing or was not declared: learned from sums, kept with the transform, said."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Categorical, Numeric, Preprocess, Schema, Transform

SCHEMA = Schema((Numeric("age"), Numeric("dose", impute=0.0, scaling=None), Categorical("sex", ("f", "m"))))
ROWS = [
    [50.0, None, "f"],
    [60.0, 1.0, "x"],
    [np.nan, 2.0, "m"],
    [70.0, 1.0, ""],
    [40.0, 3.0, "x"],
    [55.0, 2.0, "f"],
]
WEIGHTS = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0])


def clients() -> list[fs.Client]:
    X, y = np.array(ROWS, dtype=object), np.arange(6.0)
    return [fs.Client(name, X[part], y[part], WEIGHTS[part]) for name, part in (("a", slice(0, 2)), ("b", slice(2, 6)))]


def fitted(preprocess: Preprocess, parts: list[fs.Client], transport: str = "in_process") -> fs.Run:
    return fs.run(fs.Newton(fs.Squared(l2=0.1)), parts, preprocess=preprocess, transport=transport)


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_shares_are_those_of_the_weight_of_all_clients(transport: str) -> None:
    transform = fitted(Preprocess(SCHEMA), clients(), transport).model.transform
    assert transform.missing == pytest.approx([0.3, 0.1, 0.1])
    assert transform.unseen == pytest.approx([0.0, 0.0, 0.3])
    assert transform.gaps() == [
        ("age", pytest.approx(0.3), 0.0),
        ("dose", pytest.approx(0.1), 0.0),
        ("sex", pytest.approx(0.1), pytest.approx(0.3)),
    ]
    assert transform.notice() == (
        "Look at the data: 30% of age missing, 10% of dose missing, 30% of sex in no declared category, "
        "10% of sex missing."
    )
    assert transform.notice(above=0.3) == ""


def test_where_nothing_is_learned_it_is_noticed_all_the_same_and_costs_no_exchange() -> None:
    X = np.array([["f"], ["x"], ["m"], ["x"]], dtype=object)
    parts = [fs.Client(name, X[part], np.arange(2.0)) for name, part in (("a", slice(0, 2)), ("b", slice(2, 4)))]
    run = fitted(Preprocess(Schema((Categorical("sex", ("f", "m")),))), parts)
    assert run.model.transform.unseen.tolist() == [0.5]
    calls = [call for record in run.ledger.records for call in record.calls if call.startswith("preprocess")]
    assert calls == ["preprocess.adopt"]


def test_no_more_exchanges_than_before() -> None:
    records = fitted(Preprocess(SCHEMA), clients()).ledger.records
    calls = [call for record in records for call in record.calls if call.startswith("preprocess")]
    assert calls == ["preprocess.totals", "preprocess.spread", "preprocess.adopt"]


def test_whole_columns_have_no_gaps() -> None:
    data = fs.data.load("diabetes")
    run = fitted(Preprocess(), fs.data.partition(data.X, data.y, clients=3))
    assert run.model.transform.gaps() == []
    assert run.model.transform.notice() == ""


def test_the_shares_are_saved_and_older_files_are_read() -> None:
    transform = fitted(Preprocess(SCHEMA), clients()).model.transform
    plain = transform.to_plain()
    assert Transform.from_plain(plain).gaps() == transform.gaps()
    older = {key: value for key, value in plain.items() if key not in ("missing", "unseen")}
    assert Transform.from_plain(older).gaps() == []
    with pytest.raises(fs.errors.DataError, match="numbers 'missing'"):
        Transform.from_plain({**plain, "missing": [0.5]})


def test_a_resumed_run_still_knows(tmp_path: object) -> None:
    path = f"{tmp_path}/run.ckpt"
    loss = fs.Squared(l2=0.1)
    fs.run(fs.FedAvg(loss), clients(), preprocess=Preprocess(SCHEMA), rounds=3, checkpoint=path)
    again = fs.run(fs.FedAvg(loss), clients(), preprocess=Preprocess(SCHEMA), rounds=5, checkpoint=path, resume=True)
    assert again.model.transform.missing == pytest.approx([0.3, 0.1, 0.1])
