"""What the default policy does not stop. docs/threat-model.md says so, and these tests see that it stays true: if one
of them fails because an attempt is refused, the page has to say that instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientRefused
from fedsolve.federation.federation import Federation
from fedsolve.learners import Trees
from tests.sites.curious import joined
from tests.sites.hospitals import LOSS, hospitals

NEWTON = fs.Newton(LOSS)


def approach(fed: Federation, answered: list[np.ndarray]) -> None:
    """Ask nearer and nearer to where one row has all of the curvature, until that is refused."""
    for slope in np.arange(0.0, 2.0, 0.002):
        w = np.array([slope, 0.0, 0.0, -9.0])
        answered.append(fed.gather(NEWTON.evaluate, w=w)["arden"][1])


def test_the_row_of_an_unusual_person_up_to_where_the_policy_stops(tmp_path: Path) -> None:
    """Between the last two points that were answered the unusual row is most of what changed, so the difference of
    their gradients is nearly this row."""
    found = hospitals(tmp_path)
    file = tmp_path / "arden.csv"
    file.write_text(file.read_text() + "400.0,120,f,no\n")
    answered: list[np.ndarray] = []
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused):
        approach(fed, answered)
    change = answered[-1] - answered[-2]
    row = change[:3] / change[3]  # the intercept's entry is the factor
    ages, pressures = _standardised(tmp_path)
    print(len(answered), row, ages[-1], pressures[-1])
    assert abs(row[0] - ages[-1]) < 0.1 * ages[-1]
    assert abs(row[1] - pressures[-1]) < 0.2


def _standardised(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    lines = [line.split(",") for one in sorted(folder.glob("*.csv")) for line in one.read_text().splitlines()[1:]]
    arden = [line.split(",") for line in (folder / "arden.csv").read_text().splitlines()[1:]]
    age, pressure = (np.array([float(line[j]) for line in lines]) for j in (0, 1))
    own = [np.array([float(line[j]) for line in arden]) for j in (0, 1)]
    return (own[0] - age.mean()) / age.std(), (own[1] - pressure.mean()) / pressure.std()


def test_the_largest_value_of_a_column_by_counting(tmp_path: Path) -> None:
    """Trees agree on bins by counts between bounds that the server chooses; a single row at the end can be found."""
    found = hospitals(tmp_path)
    algorithm = fs.FFGB(fs.Logistic(), Trees())
    with joined(found, algorithm) as fed:
        low, high = -10.0, 10.0
        for _ in range(10):
            bounds = np.linspace(low, high, 33)
            counts = fed.gather(algorithm.learner.cell_counts, bounds=bounds, starts=np.array([0, 33, 33, 33]))[
                "arden"
            ].rows
            last = int(np.flatnonzero(counts)[-1])
            low, high = bounds[last], bounds[last + 1]
    assert high - low < 1e-12
    assert low <= _standardised(tmp_path)[0].max() <= high
