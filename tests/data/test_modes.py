"""The mode of a column of numbers: the most frequent of declared choices, counted over all clients by sums."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Discrete, Numeric, Preprocess, Schema
from fedsolve.errors import ConfigError, FedsolveError

COLUMN = Discrete("vessels", choices=(0, 1, 2, 3), scaling=None)
RIDGE = fs.Newton(fs.Squared(l2=0.1))


def clients() -> list[fs.Client]:
    """2 is the mode of all rows, though no client's own: the clients have 0 and 3."""
    first = np.array([0.0, 0, 0, 2, 2, np.nan])
    second = np.array([3.0, 3, 3, 2, 2, np.nan, 7])
    return [
        fs.Client(name, values[:, None], np.arange(len(values), dtype=float), feature_names=("vessels",))
        for name, values in (("a", first), ("b", second))
    ]


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_the_mode_over_all_clients(transport: str) -> None:
    run = fs.run(RIDGE, clients(), preprocess=Preprocess(Schema((COLUMN,))), transport=transport)
    assert run.model.transform.fill.tolist() == [2.0]
    assert run.model.transform.apply(np.array([[np.nan], [7.0]])).tolist() == [[2.0], [7.0]]
    assert run.model.coefficients().keys() == {"vessels"}


def test_weights_count() -> None:
    weighted = [fs.Client("a", np.array([[0.0], [1.0], [np.nan]]), np.arange(3.0), np.array([1.0, 5.0, 1.0]))]
    run = fs.run(RIDGE, weighted, preprocess=Preprocess(Schema((COLUMN,))))
    assert run.model.transform.fill.tolist() == [1.0]


def test_it_is_standardised_and_saved_as_any_number(tmp_path) -> None:  # type: ignore[no-untyped-def]
    column = Discrete("vessels", indicator=True, choices=(3, 2, 1, 0))
    run = fs.run(RIDGE, clients(), preprocess=Preprocess(Schema((column,))))
    seen = np.concatenate([client.X[:, 0] for client in clients()])
    assert run.model.transform.centre[0] == pytest.approx(np.nanmean(seen))
    assert run.model.transform.feature_names() == ("vessels", "vessels=missing")
    run.model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    assert again.transform.columns == (column,)
    assert np.array_equal(again.predict(seen[:, None]), run.model.predict(seen[:, None]))


def test_from_a_run_file() -> None:
    plain = [{"name": "vessels", "choices": [0, 1, 2, 3], "scaling": "none"}, {"name": "age"}]
    schema = Schema.from_plain(plain)
    assert schema.columns == (COLUMN, Numeric("age"))
    assert Schema.from_plain(schema.to_plain()) == schema


@pytest.mark.parametrize("choices", [(), (1, 1), "12", (1, float("nan"))])
def test_choices_are_different_numbers(choices: object) -> None:
    with pytest.raises(ConfigError, match=r"'vessels': (choices|a choice)"):
        Discrete("vessels", choices=choices)  # type: ignore[arg-type]


def test_a_mode_needs_choices() -> None:
    with pytest.raises(ConfigError, match=r"Discrete\(name, choices=…\)"):
        Numeric("vessels", impute="mode")  # type: ignore[arg-type]
    with pytest.raises(FedsolveError, match="no client has any of its choices"):
        fs.run(RIDGE, clients(), preprocess=Preprocess(Schema((Discrete("vessels", choices=(8, 9)),))))
