"""What the default policy does not stop. docs/threat-model.md says so, and these tests see that it stays true: if one
of them fails because an attempt is refused, the page has to say that instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError
from fedsolve.federation.federation import Federation
from fedsolve.inference.score_bins import GRID
from fedsolve.learners import Trees
from fedsolve.learners.base import Arrays
from fedsolve.learners.hearing import News
from fedsolve.loop.measure_protocols import Measure
from fedsolve.sites.policy import Policy
from tests.sites.altered import edited
from tests.sites.curious import joined
from tests.sites.hospitals import COLUMNS, DECLARED, LOSS, Hospitals, hospitals, site_text
from tests.sites.told_functions import BOOSTING, SHARE, begin, bins, box, part, stump

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


def test_an_evaluation_tells_where_single_scores_lie(tmp_path: Path) -> None:
    """A run of five rows is told with the cells in which its first and its last row lie, and these are single persons;
    the server chooses the model, so that the score is a column. Models along several directions give whole rows. A site
    answers it only if its policy says so."""
    judge = fs.Evaluation(LOSS, least=5, rows="own")
    refused = hospitals(tmp_path, policy='also = ["StandardErrors"]')
    with pytest.raises(FedsolveError, match=r"Evaluation.*'also'"), joined(refused, NEWTON, evaluation=judge):
        pass
    assert "Evaluation" not in Policy().also
    found = hospitals(tmp_path)
    with joined(found, NEWTON, evaluation=judge) as fed:
        masses = fed.gather(judge.held_bins, w=np.array([2.5, 0.0, 0.0, 0.0]), edges=GRID[None])["arden"][0]
    told = np.flatnonzero(masses.any(axis=1))
    ages = np.searchsorted(GRID, 2.5 * _standardised(tmp_path)[0], side="right")
    alone = [place for place in told if (ages == place).sum() == 1]
    print(len(alone), "cells of one person", len(told))
    assert len(alone) >= 10


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


def test_somebody_who_alone_has_two_categories(tmp_path: Path) -> None:
    """Neither category is rare. Of two Hessians, at moderate points that differ in the coefficients of both, the rows
    of one category differ by one factor, but for somebody who has both; what that factor makes of the others is known
    from the first one. Where one coefficient alone is changed, `largest_row` refuses the second question."""
    found = hospitals(tmp_path)
    declared = DECLARED.replace('name = "age"', 'name = "age"\ncategories = ["0", "1"]')
    for name, path in found.files.items():
        path.write_text(site_text(name, declared=declared))
        edited(tmp_path, lambda row, cells: [str(row % 2), *cells[1:]], name)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row == 19 or row % 4 == 0 else "f", cells[3]])
    two = {"name": "age", "categories": ["0", "1"], "drop_first": True, "unseen": "error"}
    made = fs.data.Preprocess(Schema.from_plain([two, *COLUMNS[1:]]))
    with joined(found, NEWTON, preprocess=made) as fed:
        with pytest.raises(ClientRefused, match="'largest_row'"):
            [fed.gather(NEWTON.evaluate, w=np.array([t, 0, 0, 0])) for t in (0.0, 0.7)]
        there, here = (
            fed.gather(NEWTON.evaluate, w=np.array(w))["arden"][2].full() for w in ([0.0] * 4, [0.7, 0.0, 0.3, 0.0])
        )
    chance = 1 / (1 + np.exp(-0.3))
    alone = here[2] - 4 * chance * (1 - chance) * there[2]
    row = alone / alone[3]
    files = sorted(tmp_path.glob("*.csv"))
    pressures = np.concatenate(
        [[float(line.split(",")[1]) for line in one.read_text().splitlines()[1:]] for one in files]
    )
    own = float((tmp_path / "arden.csv").read_text().splitlines()[20].split(",")[1])
    assert np.allclose(row, [1.0, (own - pressures.mean()) / pressures.std(), 1.0, 1.0], atol=1e-9)


def test_classes_by_combining_functions_of_the_servers_own(tmp_path: Path) -> None:
    """All are trees on the agreed bins, each with a whole mask, and none is taken back: what was told before is undone
    by the next. Around one person's age lies a leaf, and what the loss has beside the mask's part is this person."""
    found = Hospitals({"arden": hospitals(tmp_path).files["arden"]}, ())
    lines = [line.split(",") for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]]
    own = np.array([float(line[0]) for line in lines])
    age, ill = (own - own.mean()) / own.std(), np.array([line[3] == "yes" for line in lines])
    values, counts = np.unique(age, return_counts=True)
    cuts = np.concatenate([[-9.0], (values[:-1] + values[1:]) / 2, [9.0]])
    told = [stump(1, 0.0, 0.0, 0.0)]

    def ask(fed: Federation, mask: float, *inside: Arrays) -> float:
        """The sum of losses at a function that is `mask` below a pressure, and beside that in a box of the ages."""
        back = [(*one[:-1], -one[-1]) for one in told]
        told[:] = [(*one[:-1], one[-1] / SHARE) for one in (stump(1, 0.0, mask, 0.0), *inside)]
        functions = tuple((*one[:-1], one[-1] * (len(back) + len(told))) for one in told)
        undone = tuple((*one[:-1], one[-1] * (len(back) + len(told))) for one in back)
        fed.gather(BOOSTING.learn_of, news=News(asked[0], (part(*undone, *functions),)))
        asked[0] += 1
        return len(age) * float(fed.gather(BOOSTING.value, parts=asked[0])["arden"])

    asked, right, masks = [0], 0, 0.7 + 0.017 * np.arange(40)
    with joined(found, BOOSTING) as fed:
        fed.gather(BOOSTING.learn_of, news=begin(bins(cuts, [0.0])))
        sums = np.array([ask(fed, mask) for mask in (0.3, -0.5, 1.1)]) - len(age) * np.log(2)
        columns = np.array([[soft(mask) - np.log(2), -mask] for mask in (0.3, -0.5, 1.1)])
        rows, cases = np.round(np.linalg.lstsq(columns, sums, rcond=None)[0])
        persons = np.flatnonzero(counts == 1)[:25]
        for place, mask in zip(persons, masks, strict=False):
            more = ask(fed, mask, box([(0, cuts[place + 1], True), (0, cuts[place], False)], 0.9))
            more -= (len(age) - rows) * np.log(2) + rows * soft(mask) - cases * mask
            says = {
                (own, below): soft(0.9 + mask * below) - soft(mask * below) - 0.9 * own
                for own in (False, True)
                for below in (False, True)
            }
            found_class = min(says, key=lambda one: abs(says[one] - more))[0]
            right += bool(found_class == ill[age == values[place]][0])
    assert right == len(persons) == 25


def soft(value: float) -> float:
    """log(1 + e^value)."""
    return float(np.logaddexp(0.0, value))


def test_all_rows_of_a_site_are_the_solution_of_enough_gradients(tmp_path: Path) -> None:
    """A site of n rows of p columns has n·p numbers, and each gradient of a logistic loss p + 1 equations for them. At
    moderate points drawn at random nothing is refused, and least squares find the rows."""
    found = hospitals(tmp_path)
    measure, rng = Measure(LOSS), np.random.default_rng(3)
    columns = 3
    points, sums = [], []
    with joined(Hospitals({"arden": found.files["arden"]}, ()), fs.Newton(LOSS)) as fed:
        while len(points) < 150:
            w = rng.normal(size=4) * [2.5, 2.5, 1.0, 2.0]
            try:
                told = fed.gather(measure.value_and_gradient, w=w)["arden"]
            except ClientRefused:
                continue
            points.append(w)
            sums.append(60 * told[1])
    W, G = np.array(points), np.array(sums)

    def error(unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.column_stack([unknown[:-4].reshape(60, columns), np.ones(60)])
        mean = 1 / (1 + np.exp(-W @ rows.T))
        slope = (mean * (1 - mean))[:, None, :, None] * W[:, None, None, :columns] * rows.T[None, :, :, None]
        for j in range(columns):
            slope[:, j, :, j] += mean
        constant = np.tile(-np.eye(4), (len(W), 1))  # Σ y (x, 1), which is the same everywhere
        return (mean @ rows - G - unknown[-4:]).ravel(), np.hstack([slope.reshape(len(constant), -1), constant])

    start = np.concatenate([rng.normal(size=60 * columns), np.zeros(4)])
    solved = least_squares(
        lambda u: error(u)[0], start, jac=lambda u: error(u)[1], max_nfev=400, xtol=1e-15, ftol=1e-15
    )
    guessed = solved.x[:-4].reshape(60, columns)
    lines = [line.split(",") for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]]
    numbers = np.array([[float(age), float(pressure)] for age, pressure, *_ in lines])
    standardised = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    table = np.column_stack([standardised, [line[2] == "m" for line in lines]])
    missed = np.abs(guessed[:, None] - table[None]).max(axis=2).min(axis=0)
    assert (missed < 0.01).sum() >= 55
