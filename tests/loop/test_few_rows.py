"""Clients with few rows are named; those with one are rejected, unless a run allows them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError, FedsolveWarning, FewRowsWarning
from fedsolve.federation.protocol import client_step
from fedsolve.loop.few_rows import MIN_ROWS

pytestmark = pytest.mark.filterwarnings("error::fedsolve.errors.FewRowsWarning")
LOSS = fs.Squared(l2=0.1)


def parts(*sizes: int, columns: int = 1) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    return [
        fs.Client(f"site-{i}", rng.standard_normal((n, columns)), rng.standard_normal(n)) for i, n in enumerate(sizes)
    ]


def said(clients: Any, loss: Any = LOSS, **options: Any) -> tuple[fs.Run, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = fs.run(fs.Newton(loss), clients, **{"min_rows": MIN_ROWS, **options})
    assert all(issubclass(one.category, FewRowsWarning) for one in caught)
    assert all(one.filename == __file__ for one in caught)  # the line that called fs.run
    return run, [str(one.message) for one in caught]


def test_enough_rows_are_not_worth_a_word() -> None:
    run, found = said(parts(5, 6))
    assert (run.notices, found) == ((), [])


def test_few_rows_are_named_once() -> None:
    run, found = said(parts(40, 3, 4))
    assert list(run.notices) == found
    assert len(found) == 1
    assert "clients 'site-1' (3 rows) and 'site-2' (4 rows) have fewer than 5 rows" in found[0]


@pytest.mark.parametrize(("min_rows", "warned"), [(5, True), (4, True), (3, False), (1, False), (0, False)])
def test_the_number_can_be_set(min_rows: int, warned: bool) -> None:
    assert bool(said(parts(40, 3), min_rows=min_rows)[1]) is warned


@pytest.mark.parametrize(("rows", "warned"), [(11, True), (12, False)])
def test_a_third_of_the_rows(rows: int, warned: bool) -> None:
    """Three columns and an intercept: four parameters need twelve rows."""
    loss = fs.Squared(l2=0.1, intercept="free")
    found = said(parts(60, rows, columns=3), loss)[1]
    assert bool(found) is warned
    if warned:
        assert "4 parameters, more than a third of the rows of client 'site-1' (11 rows)" in found[0]
    assert said(parts(60, rows, columns=3), loss, min_rows=0)[1] == []


def test_parameters_are_counted_after_preprocessing_and_for_all_outputs() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), np.arange(40) % 3
    clients = [fs.Client("a", X[:20], y[:20]), fs.Client("b", X[20:], y[20:])]
    run, found = said(clients, fs.Softmax(classes=3, l2=0.1, intercept="free"), preprocess=fs.data.Preprocess())
    assert run.model.w.size == 9
    assert "9 parameters" in found[0]
    indicator = fs.data.Preprocess(indicator=True)
    assert "15 parameters" in said(clients, fs.Softmax(classes=3, l2=0.1, intercept="free"), preprocess=indicator)[1][0]


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_one_row_is_rejected(transport: str) -> None:
    with pytest.raises(DataError, match=r"client 'site-1' has one row, and .* min_rows=1 .*\[run\] min_rows = 1"):
        fs.run(fs.Newton(LOSS), parts(20, 1), min_rows=5, transport=transport)
    run, found = said(parts(20, 1), min_rows=1, transport=transport)
    assert run.converged
    assert "the fit has 1 parameter, more than a third" in found[0]  # allowed, and still worth a word


def test_it_is_rejected_before_anything_is_asked_of_its_rows() -> None:
    asked: list[str] = []

    class Watched(fs.data.Preprocess):
        @client_step
        def totals(self, client: fs.Client) -> float:  # type: ignore[override]
            asked.append(client.name)
            return 0.0

    with pytest.raises(DataError, match="one row"):
        fs.run(fs.Newton(LOSS), parts(20, 1), min_rows=5, preprocess=Watched())
    assert asked == []


def test_many_are_summed_up() -> None:
    with pytest.raises(DataError, match=r"'site-0', .* and 45 others have one row each"):
        fs.run(fs.Newton(LOSS), parts(*[1] * 50), min_rows=5)
    found = said(parts(*[3] * 1000), rounds=1)[1]
    assert "and 995 others" in found[0]
    assert len(found[0]) < 500


def test_thousands_of_tiny_clients_stay_possible() -> None:
    assert said(parts(*[1] * 2000), min_rows=0, rounds=2)[1] == []


def test_the_setting_changes_no_iterate() -> None:
    runs = [said(parts(40, 3), min_rows=number)[0] for number in (0, 1, 5, 50)]
    assert all(np.array_equal(run.model.w, runs[0].model.w) and run.ledger == runs[0].ledger for run in runs)


def test_a_resumed_run_says_it_again(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    said(parts(40, 3), rounds=1, tolerance=0, checkpoint=path)
    run, found = said(parts(40, 3), rounds=2, tolerance=0, checkpoint=path, resume=True)
    assert len(found) == len(run.notices) == 1


@pytest.mark.parametrize("wrong", [-1, 2.5, "5", None])
def test_what_is_no_number_of_rows(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="min_rows"):
        fs.run(fs.Newton(LOSS), parts(20), min_rows=wrong)


def test_what_a_run_does_by_itself() -> None:
    """The tests of this repository allow one row (`conftest.py`); a program of its own does not."""
    program = (
        "import numpy as np, fedsolve as fs\n"
        "one = [fs.Client('a', np.ones((9, 1)), np.ones(9)), fs.Client('b', np.ones((1, 1)), np.ones(1))]\n"
        "try:\n    fs.run(fs.Newton(fs.Squared(l2=1.0)), one)\n"
        "except fs.errors.DataError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "client 'b' has one row" in found.stdout


def test_warnings_are_of_the_library() -> None:
    assert issubclass(FewRowsWarning, FedsolveWarning)
    assert issubclass(FedsolveWarning, UserWarning)
