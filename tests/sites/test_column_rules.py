"""Parts of the rules on columns by themselves."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.fill_log import Fill, FillLog
from fedsolve.sites.transform_rules import Coarse


def test_two_runs_that_fill_at_once(tmp_path: Path) -> None:
    """Only one of the fills is ever answered at."""
    path, told = tmp_path / "store" / "fills.json", []

    def keep(number: int) -> None:
        try:
            FillLog(path).keep({"pressure": Fill(float(number).hex(), few=True)})
            told.append(number)
        except PolicyRefusal:
            pass

    threads = [threading.Thread(target=keep, args=[number]) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told) == 1
    FillLog(path).check({"pressure": Fill(float(told[0]).hex(), few=False)})


def test_bounds_say_little_of_the_range() -> None:
    """A site that has somebody of 99 and one that has nobody over 97 refuse the same numbers: no bisection finds 99."""
    rng = np.random.default_rng(0)
    ages = rng.uniform(20, 80, 50)
    assert Coarse.of(np.append(ages, 99.0)) == Coarse.of(np.append(ages, 97.5))
    for _ in range(100):
        values = rng.normal(size=20) * 10.0 ** rng.integers(-9, 9) + 10.0 ** rng.integers(-9, 9)
        coarse = Coarse.of(values)
        assert coarse is not None
        width = values.max() - values.min()
        assert coarse.low <= values.min() - width
        assert values.max() + width <= coarse.high
        assert np.frexp(coarse.width)[0] == 0.5
        assert coarse.width < 2 * width * (1 + 1e-12)
