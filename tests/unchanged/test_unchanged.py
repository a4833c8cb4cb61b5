"""Moving and renaming changed no iterate and no account: compared with what the library computed before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.unchanged.runs import CASES, TRANSPORTS, compute, machine

VERB = 8  # bytes: "mean", "sum" or "gather", padded
MODULE = 8  # bytes: "client_checks" instead of "runtime", padded
SAVED = json.loads((Path(__file__).parent / "saved.json").read_text())
# Iterates that rounding may choose, by run. A client of five rows has the eigenvalue l2 three times and a smaller one
# below it, so the fourth eigenvector that it sends is any one of a space of three dimensions.
CHOSEN_BY_ROUNDING = {"SHEDLeastSquares | squared, free intercept | weighted": [2]}


def _same_processor() -> bool:
    with threadpool_limits(1):
        return machine() == SAVED["machine"]


def _accounts(run: dict[str, Any], purpose: str) -> list[Any]:
    """What one purpose sent and computed, exchange by exchange: calls, scalars, counts."""
    kept = []
    for exchange in run["exchanges"]:
        chosen = [index for index, each in enumerate(exchange["purposes"]) if each == purpose]
        if chosen:
            up, down = exchange["scalars"]
            kept.append(
                (
                    exchange["round"],
                    exchange["answered"],
                    [exchange["calls"][index] for index in chosen],
                    [(up[1 + index], down[1 + index], exchange["counts"][index]) for index in chosen],
                )
            )
    return kept


def _check_bytes(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Routes name the verb of each call, 8 bytes per call and client; a client's own description, its module."""
    (up, down), (up_now, down_now) = old["bytes"], new["bytes"]
    assert down_now[0] - down[0] == VERB * len(old["calls"]) * old["answered"]
    assert down_now[1:] == down[1:]
    joins = [MODULE * old["answered"] if call == "session.join" else 0 for call in old["calls"]]
    assert [after - earlier for earlier, after in zip(up, up_now, strict=True)] == [0, *joins]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("name", "problem"), CASES, ids=[f"{name} | {problem}" for name, problem in CASES])
def test_iterates_and_accounts_are_those_of_before(name: str, problem: str, transport: str) -> None:
    before, now = SAVED["runs"][f"{name} | {problem}"], compute(name, problem, transport)
    assert now["status"] == before["status"]
    for purpose in ("algorithm", "measure", "setup"):
        assert _accounts(now, purpose) == _accounts(before, purpose)
    for old, new in zip(before["exchanges"], now["exchanges"], strict=True):
        _check_bytes(old, new)
    if _same_processor():
        assert now["checksum"] == before["checksum"]
    else:
        # Another BLAS, or other kernels of it, rounds otherwise: each operation by at most a few units in the last
        # place, which these well-conditioned problems (l2 = 1e-2, 10 rounds) amplify by less than 1e6.
        unique = np.delete(np.arange(len(before["norms"])), CHOSEN_BY_ROUNDING.get(f"{name} | {problem}", []))
        np.testing.assert_allclose(np.array(now["norms"])[unique], np.array(before["norms"])[unique], rtol=1e-9)
        np.testing.assert_allclose(now["w"], before["w"], rtol=0, atol=1e-9 * np.linalg.norm(before["w"]))
