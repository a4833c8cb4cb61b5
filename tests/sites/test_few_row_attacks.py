"""A server that asks where a few rows, and not one, would be the answer; for every loss (docs/decisions/057)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientRefused
from fedsolve.federation.federation import Federation
from fedsolve.sites import HeldOut, SiteTransport, Terms
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import LOSS, PREPROCESS, Hospitals, hospitals, terms
from tests.sites.tables import PREPROCESS as MORE_COLUMNS
from tests.sites.tables import Table

NEWTON = fs.Newton(LOSS)
COUNTS = fs.Newton(fs.Poisson(intercept="free"))
NUMBERS = fs.Newton(fs.Squared(intercept="free"))


def with_rows(folder: Path, *lines: str) -> Hospitals:
    """The hospitals, with more rows at arden."""
    found, file = hospitals(folder), folder / "arden.csv"
    file.write_text(file.read_text() + "".join(f"{line}\n" for line in lines))
    return found


def changed(folder: Path, table: Table, change: Callable[[int, list[str]], list[str]]) -> Hospitals:
    """A table whose rows (age, pressure, bmi, sex, outcome) at arden are others."""
    found, file = Hospitals(table.write(folder), ()), folder / "arden.csv"
    head, *lines = file.read_text().splitlines()
    edited = [",".join(change(row, line.split(","))) for row, line in enumerate(lines)]
    file.write_text("\n".join([head, *edited]) + "\n")
    return found


def gradient(fed: Federation, algorithm: fs.Newton, *w: float) -> np.ndarray:
    return np.asarray(fed.gather(algorithm.evaluate, w=np.array(w))["arden"][1])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_84_a_few_unusual_rows_by_two_moderate_points(count: int, tmp_path: Path) -> None:
    """Number 7, with more patients than one."""
    found = with_rows(tmp_path, *["400.0,140,f,no"] * count)
    with joined(found, NEWTON) as fed:
        gradient(fed, NEWTON, 0.0, 0.0, 0.0, -7.0)
        with pytest.raises(ClientRefused, match="'largest_row'"):
            gradient(fed, NEWTON, 0.9, 0.0, 0.0, -7.0)


def test_84b_rows_that_are_no_few(tmp_path: Path) -> None:
    """Ten rows are twice `min_rows`: the site answers, and what it says is a sum over ten."""
    found = with_rows(tmp_path, *["400.0,140,f,no"] * 10)
    with joined(found, NEWTON) as fed:
        before = gradient(fed, NEWTON, 0.0, 0.0, 0.0, -5.0)
        assert np.isfinite(gradient(fed, NEWTON, 0.9, 0.0, 0.0, -5.0) - before).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_85_points_that_are_alike_or_opposite_but_for_one_row(sign: int, tmp_path: Path) -> None:
    """σ(−η) = 1 − σ(η): of two opposite points the sum of the gradients is Σ (1 − 2y) x, which a server knows from the
    point zero, but for the row that is not opposite."""
    found = with_rows(tmp_path, "40000.0,140,f,no")
    point = np.array([0.0, 0.8, 0.3, 0.1])
    with joined(found, NEWTON) as fed:
        gradient(fed, NEWTON, *point)
        gradient(fed, NEWTON, *(0.5 * point))  # far from both
        with pytest.raises(ClientRefused, match="'largest_row'"):
            gradient(fed, NEWTON, *(sign * point + np.array([0.05, 0.0, 0.0, 0.0])))


def old(row: int, cells: list[str]) -> list[str]:
    return ["40000.0", *cells[1:]] if row == 7 else cells


@pytest.mark.parametrize("level", [0.0, 0.5])
def test_86_counts_at_two_levels(level: float, tmp_path: Path) -> None:
    """Of counts a change of the intercept multiplies all means by one number, which a server can undo."""
    found, point = changed(tmp_path, Table("counts"), old), np.array([0.0, 0.3, 0.1, 0.1, 0.2])
    with joined(found, COUNTS, preprocess=MORE_COLUMNS) as fed:
        gradient(fed, COUNTS, *point)
        with pytest.raises(ClientRefused, match="'largest_row'"):
            gradient(fed, COUNTS, *(point + np.array([0.05, 0.0, 0.0, 0.0, level])))


@pytest.mark.parametrize("count", [3, 4])  # of fewer rows another rule speaks, min_cell
def test_87_counts_where_few_rows_have_the_gradient(count: int, tmp_path: Path) -> None:
    """With everybody's mean near zero what is left of a gradient is the rows that have counted something."""
    found = changed(tmp_path, Table("counts"), lambda row, cells: [*cells[:4], "9" if row < count else "0"])
    with joined(found, COUNTS, preprocess=MORE_COLUMNS) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        gradient(fed, COUNTS, 0.0, 0.0, 0.0, 0.0, -6.0)


@pytest.mark.parametrize("count", [3, 4])
def test_88_numbers_where_few_rows_do_not_fit(count: int, tmp_path: Path) -> None:
    """Whoever knows what nearly everybody's number is, makes all residuals vanish but those of the others."""
    found = changed(tmp_path, Table("numbers"), lambda row, line: [*line[:4], "31.5" if row < count else "20.25"])
    with joined(found, NUMBERS, preprocess=MORE_COLUMNS) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        gradient(fed, NUMBERS, 0.0, 0.0, 0.0, 0.0, 20.25)


def test_89_products_of_scores_in_which_one_row_is_large(tmp_path: Path) -> None:
    """A count of 200 has three quarters of the gradient at zero, which many others hide; of the squares it has all."""
    found = changed(tmp_path, Table("counts"), lambda row, cells: [*cells[:4], "200"] if row == 3 else cells)
    summary, start = fs.StandardErrors(COUNTS.loss), np.zeros(5)
    with joined(found, COUNTS, preprocess=MORE_COLUMNS, summary=summary) as fed:
        assert np.isfinite(gradient(fed, COUNTS, *start)).all()
        with pytest.raises(ClientRefused, match="'largest_row'"):
            fed.gather(summary.sums, w=start)


def test_90_models_judged_again_and_again(tmp_path: Path) -> None:
    """Each answer counts rows on either side of a threshold."""
    found = hospitals(tmp_path, policy="evaluations = 3\nmin_cell = 1")
    asked, evaluation = Terms(terms().run, held_out=HeldOut(0.3)), fs.Evaluation(LOSS, least=5)
    with joined(found, NEWTON, asked, evaluation=evaluation) as fed:
        for size in (0.1, 0.2, 0.3):
            fed.gather(evaluation.held_sums, w=np.full(4, size))
        with pytest.raises(ClientRefused, match="'evaluations'"):
            fed.gather(evaluation.held_sums, w=np.full(4, 0.4))


def test_91_a_gradient_and_a_gradient_of_a_batch(tmp_path: Path) -> None:
    """Where a local solver looks at a batch, all rows are judged, not only those of the batch."""
    found = with_rows(tmp_path, "40000.0,140,f,no")
    averaging = fs.FedAvg(LOSS, fs.GradientSteps(1, batch_size=30))
    with joined(found, averaging) as fed:
        fed.gather(averaging.local_update, w=np.array([0.0, 0.0, 0.0, -5.0]), step_size=0.1)
        with pytest.raises(ClientRefused, match="'largest_row'"):
            fed.gather(averaging.local_update, w=np.array([0.4, 0.0, 0.0, -5.0]), step_size=0.1)


def test_honest_fits_with_somebody_far_from_all_others(tmp_path: Path) -> None:
    """One age is written in days. A fit does not go where this row is all there is."""
    found = with_rows(tmp_path, "23000.0,140,f,no")
    for algorithm in (NEWTON, fs.SHED(LOSS), fs.FedNewtonCG(LOSS)):
        run = fs.run(algorithm, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
        assert run.converged, run.message
