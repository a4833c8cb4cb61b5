"""A server that asks at points, along directions and through memories that look moderate (docs/decisions/058).

Each of these gave rows, or exact values of single persons, before sites judged them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError
from fedsolve.federation.federation import Federation
from fedsolve.loop.measure_protocols import Inspect
from fedsolve.sites import HeldOut, Terms
from tests.sites.curious import joined
from tests.sites.hospitals import LOSS, Hospitals, hospitals, site_text, terms
from tests.sites.tables import PREPROCESS as MORE_COLUMNS
from tests.sites.tables import Table

NEWTON, INSPECT = fs.Newton(LOSS), Inspect(LOSS)
BOTH_SEXES = fs.data.Preprocess(
    Schema.from_plain(
        [
            {"name": "age", "scaling": None},
            {"name": "pressure", "scaling": None},
            {"name": "sex", "categories": ["f", "m"], "unseen": "error"},
        ]
    )
)


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def with_unusual(folder: Path, line: str = "400.0,120,f,no") -> Hospitals:
    found, file = hospitals(folder), folder / "arden.csv"
    file.write_text(file.read_text() + line + "\n")
    return found


# ── digits ──


def test_92_points_whose_terms_cancel(found: Hospitals) -> None:
    """The columns of both sexes add up to one: predictions become steps of a size of the server's, at an age of the
    server's."""
    large = 2.0**52
    with joined(found, NEWTON, preprocess=BOTH_SEXES) as fed, pytest.raises(ClientRefused, match="'digits'"):
        fed.gather(NEWTON.evaluate, w=np.array([1 / 120, 0.0, large, large, -large]))


@pytest.mark.parametrize("large", [2.0**36, 2.0**26, 2.0**14])
def test_92b_points_whose_terms_cancel_have_no_steps(large: float, found: Hospitals) -> None:
    """The gradient is that of a point with the same predictions, whose terms do not cancel."""
    newton, point = fs.Newton(fs.Logistic(intercept="free")), np.array([0.003, 0.0, 0.0, 0.0, -0.5])
    with joined(found, newton, preprocess=BOTH_SEXES) as fed:
        plain = fed.gather(newton.evaluate, w=point)["arden"]
        hidden = fed.gather(newton.evaluate, w=point + large * np.array([0.0, 0.0, 1.0, 1.0, -1.0]))["arden"]
    np.testing.assert_allclose(hidden[1], plain[1], rtol=0, atol=1e-12)


def test_93_classes_whose_common_part_cancels(found: Hospitals) -> None:
    softmax, w = fs.Newton(fs.Softmax(l2=0, intercept="free", classes=2)), np.zeros((4, 2))
    w[3], w[0, 1] = 2.0**52, 0.6
    with joined(found, softmax) as fed, pytest.raises(ClientRefused, match="'digits'"):
        fed.gather(softmax.evaluate, w=w)


def test_93b_numbers_whose_terms_cancel(tmp_path: Path) -> None:
    found, squared = Hospitals(Table("numbers").write(tmp_path), ()), fs.Newton(fs.Squared(intercept="free"))
    w = np.array([1e-3, 0.0, 0.0, 0.0, 2.0**52])
    with joined(found, squared, preprocess=MORE_COLUMNS) as fed:
        fed.gather(squared.evaluate, w=np.array([0.5, 0.0, 0.0, 0.0, 2.0**20]))  # a far point, without rounding
        assert np.isfinite(fed.gather(squared.evaluate, w=w)["arden"][1]).all()  # and what it rounds drowns in it


@pytest.mark.parametrize("change", [[2.0**-1074, 0, 0, 0, 0], [2.0**-52, 0, 1, 1, -1]])
@pytest.mark.parametrize("step", ["losses_along", "slopes"])
def test_94_lines_along_which_predictions_step(change: list[float], step: str, found: Hospitals) -> None:
    asked = getattr(NEWTON.search, step)
    with joined(found, NEWTON, preprocess=BOTH_SEXES) as fed, pytest.raises(ClientRefused, match="'digits'"):
        fed.gather(asked, w=np.zeros(5), p=np.array(change), steps=np.array([2.0**52]))


@pytest.mark.parametrize("size", [1e307, 1e-310])
def test_95_products_that_overflow_for_the_largest_row(size: float, found: Hospitals) -> None:
    """Whether a product is finite would say whether the largest |x·v| is below a bound: 52 questions give it."""
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'digits'"):
        fed.gather(INSPECT.product, w=np.array([0.0, 0.0, 0.0, -4.0]), v=np.array([size, 0.0, 0.0, 0.0]))


def test_96_changes_whose_squares_underflow(found: Hospitals) -> None:
    """Whether a sum of squares is zero would say the same."""
    direction = np.array([1.0, 0.3, 0.2, 0.0])
    with joined(found, NEWTON) as fed:
        whole = fed.gather(INSPECT.prospect, step=direction)["arden"]
        small = fed.gather(INSPECT.prospect, step=direction * 2.0**-300)["arden"]
        assert small == tuple(one * 2.0**-600 for one in whole)
        with pytest.raises(ClientRefused, match="'digits'"):
            fed.gather(INSPECT.prospect, step=direction * 2.0**-537)


def test_96b_changes_that_rounding_steps(found: Hospitals) -> None:
    """Zero is what rounding may have left, not what it has left of the largest age."""
    tiny = np.array([2.0**-60, 0.0, 1.0, 1.0, -1.0])
    with joined(found, NEWTON, preprocess=BOTH_SEXES) as fed:
        for size in (1.0, 4.0, 16.0, 64.0, 256.0):  # the largest age is rounded up from some size on
            assert fed.gather(INSPECT.prospect, step=tiny * np.array([size, 1, 1, 1, 1]))["arden"] == (0.0, 0.0)


def test_97_products_along_directions_that_cancel(found: Hospitals) -> None:
    with joined(found, NEWTON, preprocess=BOTH_SEXES) as fed, pytest.raises(ClientRefused, match="'digits'"):
        fed.gather(INSPECT.product, w=np.zeros(5), v=np.array([2.0**-60, 0.0, 1.0, 1.0, -1.0]))


def test_134_rows_that_cancel_beside_others_that_do_not(found: Hospitals) -> None:
    """Men are decoys: the sizes over all rows say that nothing cancels, while women's changes are nothing but steps.
    The sum over the women was the number of them above an age; now it is the sum of their ages."""
    lines = [line.split(",") for line in (found.paths[0].parent / "arden.csv").read_text().splitlines()[1:]]
    ages = np.array([float(age) for age, _, sex, _ in lines if sex == "f"])
    second, largest = np.sort(ages)[-2:]
    between = (second + largest) / 2
    with joined(found, NEWTON, preprocess=BOTH_SEXES) as fed:
        v = np.array([2.0**-53 / between, 0.0, 1.0, 3.0, -1.0])
        of_women = fed.gather(INSPECT.product, w=np.zeros(5), v=v)["arden"][2] * 4 * len(lines)
    assert of_women * 2.0**53 == pytest.approx(ages.sum() / between, rel=1e-12)  # and not 2, for one woman


def test_135_outputs_that_cancel_beside_others_that_do_not(tmp_path: Path) -> None:
    """Of two targets one is a decoy. The answer for the other one was the row of the only person above an age."""
    files, rng = {}, np.random.default_rng(3)
    for name, path in hospitals(tmp_path).files.items():
        file = tmp_path / f"{name}.csv"
        head, *lines = (line.rpartition(",")[0] for line in file.read_text().splitlines())
        outcomes = [f"{rng.normal(200, 30):.1f},{rng.normal(27, 4):.1f}" for _ in lines]
        file.write_text("\n".join([f"{head},chol,bmi", *map(",".join, zip(lines, outcomes, strict=True))]) + "\n")
        text = site_text(name).replace('target = "ill"', 'target = ["chol", "bmi"]')
        path.write_text(text.replace('classes = ["no", "yes"]\n', ""))
        files[name] = path
    loss = fs.Squared(intercept="free")
    v = np.zeros((5, 2))
    v[1, 0] = 1.0  # the pressure
    v[:, 1] = [2.0**-53 / 89.0, 0.0, 1.0, 1.0, -1.0]
    with joined(Hospitals(files, ()), fs.Newton(loss), preprocess=BOTH_SEXES) as fed:
        for one in (v, v * [0.0, 1.0]):
            with pytest.raises(ClientRefused, match="'digits'"):
                fed.gather(Inspect(loss).product, w=np.zeros((5, 2)), v=one)
        fed.gather(Inspect(loss).product, w=np.zeros((5, 2)), v=v * [1.0, 0.0])


# ── local fits ──


def test_98_a_memory_that_another_pull_stretches(found: Hospitals) -> None:
    """FedSplit keeps z as a multiple of 1/pull: a pull 10¹⁰ times weaker takes it as many times farther."""
    split, far = fs.FedSplit(LOSS), 1e4 * np.array([0.57, 0.77, 0.29, 0.1])
    zero = np.zeros(4)
    with joined(found, split) as fed:
        fed.gather(split.local_update, x=zero, origin=far / 1e10, pull=1e14, step_size=0.1, epoch=1)
        with pytest.raises(ClientRefused, match="'largest_loss'"):
            fed.gather(split.local_update, x=zero, origin=None, pull=1e4, step_size=0.1, epoch=1)


def test_99_a_memory_that_grows(found: Hospitals) -> None:
    """FedDyn with several proximal steps in a call: what it remembers doubles in each."""
    dyn = fs.FedDyn(LOSS, local=fs.local.ProximalSteps(steps=4))
    moved: list[float] = []
    with joined(found, dyn) as fed, pytest.raises(ClientRefused, match=r"'largest_(loss|row)'"):
        _double(dyn, fed, moved)
    assert max(moved) < 8


def _double(dyn: fs.FedDyn, fed: Federation, moved: list[float]) -> None:
    for _ in range(24):
        w = np.array([0.5, 0.2, 0.1, 0.3])
        reply = fed.gather(dyn.local_update, w=w, pull=50.0, step_size=0.1, epoch=0)["arden"]
        moved.append(float(np.linalg.norm(reply[0])))


@pytest.mark.parametrize("visits", [5, 6, 7, 12])
def test_100_an_unusual_row_at_a_later_step(visits: int, tmp_path: Path) -> None:
    """Number 7, where a control variate leads to after some steps."""
    found, scaffold = with_unusual(tmp_path), fs.Scaffold(LOSS, fs.GradientSteps(visits))
    c, start = np.array([-0.9 / (0.01 * (visits - 1)), 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, -7.0])
    with joined(found, scaffold) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        fed.gather(scaffold.local_update, x=start, c=c, step_size=0.01)


def test_101_held_out_rows_at_a_point_of_the_servers(tmp_path: Path) -> None:
    """A comparison of models looks at rows that nobody learns from, where an unusual person may be."""
    found = hospitals(tmp_path, counts=(150, 80, 50, 70), policy="min_cell = 1")
    gain, seen = fs.FederationGain(LOSS), []
    with joined(found, NEWTON, Terms(terms().run, held_out=HeldOut(0.3)), gain=gain) as fed:
        fed.gather(gain.compare, w=np.array([0.4, 0.1, 0.0, 0.0]))
    points = list((tmp_path / "store-arden" / "points").glob("*.f64"))
    seen = sorted(one.stat().st_size for one in points)
    assert seen == [8 * 45, 8 * 105]  # rows to learn from, and held-out ones: both were judged


# ── few rows ──


@pytest.mark.parametrize("decoys", [0, 60])
def test_102_decoys_between_two_points(decoys: int, tmp_path: Path) -> None:
    """Points near to an earlier one, so that it is no longer among those that are read again."""
    found = hospitals(tmp_path, counts=(12000, 80, 50, 70))
    file = tmp_path / "arden.csv"
    file.write_text(file.read_text() + "4e7,140,f,no\n")
    rng, point = np.random.default_rng(1), np.array([0.0, 0.8, 0.3, 0.1])
    ages = np.concatenate([_ages(one) for one in sorted(tmp_path.glob("*.csv"))])
    usual = (60 - ages.mean()) / ages.std()
    with joined(found, NEWTON) as fed:
        fed.gather(NEWTON.evaluate, w=point)
        for _ in range(decoys):
            fed.gather(NEWTON.evaluate, w=point + 1e-3 * np.append(0.0, rng.normal(size=3)))
        with pytest.raises(ClientRefused, match="'largest_row'"):
            fed.gather(NEWTON.evaluate, w=point + np.array([0.02, 0.0, 0.0, -0.02 * usual]))


def _ages(file: Path) -> np.ndarray:
    return np.array([float(line.split(",")[0]) for line in file.read_text().splitlines()[1:]])


def wards(folder: Path, ill: float, drop_first: bool = False) -> tuple[Hospitals, fs.data.Preprocess, np.ndarray]:
    """A site with six wards, how a run declares them, and each person's age, as the run has it, and ward."""
    rng, names = np.random.default_rng(5), [f"w{k}" for k in range(6)]
    age, pressure, ward = rng.normal(60, 12, 240).round(1), rng.normal(140, 20, 240).round(), rng.integers(0, 6, 240)
    found = rng.uniform(size=240) < ill
    lines = [f"{a},{b},w{k},{'yes' if one else 'no'}" for a, b, k, one in zip(age, pressure, ward, found, strict=True)]
    (folder / "arden.csv").write_text("\n".join(["age,pressure,ward,ill", *lines]) + "\n")
    listed = ", ".join(f'"{one}"' for one in names)
    declared = f'[[schema]]\nname="age"\n[[schema]]\nname="pressure"\n[[schema]]\nname="ward"\ncategories=[{listed}]\n'
    (folder / "arden.toml").write_text(site_text("arden", declared=declared))
    category = {"name": "ward", "categories": names, "unseen": "error", "drop_first": drop_first}
    made = fs.data.Preprocess(Schema.from_plain([{"name": "age"}, {"name": "pressure"}, category]))
    return Hospitals({"arden": folder / "arden.toml"}, ()), made, np.c_[(age - age.mean()) / age.std(), ward]


def test_103_in_each_ward_another_person(tmp_path: Path) -> None:
    """Of all rows no few have nearly all of the curvature; of those of each ward one has, and the Hessian's row of the
    ward is a sum over these."""
    found, made, people = wards(tmp_path, 0.12)
    newton = fs.Newton(fs.Logistic(intercept=None))
    tops = [-16 * people[people[:, 1] == k, 0].max() - 0.3 for k in range(6)]
    with joined(found, newton, preprocess=made) as fed, pytest.raises(ClientRefused, match="within a category"):
        fed.gather(newton.evaluate, w=np.array([16.0, 0.0, *tops]))


def test_107_a_person_in_the_ward_without_a_column(tmp_path: Path) -> None:
    """The Hessian's row of the intercept less those of all other wards. In these many are in doubt."""
    found, made, people = wards(tmp_path, 0.12, drop_first=True)
    of_ward = [20 * people[people[:, 1] == k, 0] for k in range(6)]
    level = -of_ward[0].max() - 0.3
    others = [-np.quantile(one, 0.7) - level for one in of_ward[1:]]
    with joined(found, NEWTON, preprocess=made) as fed, pytest.raises(ClientRefused, match="within a category"):
        fed.gather(NEWTON.evaluate, w=np.array([20.0, 0.0, *others, level]))


def test_108_products_of_scores_within_a_ward(tmp_path: Path) -> None:
    """One person of a ward is ill. Of the gradient there this is two thirds, of its squares nearly all."""
    found, made, _ = wards(tmp_path, 0.06)
    loss = fs.Logistic(intercept=None)
    newton, summary, w = fs.Newton(loss), fs.StandardErrors(loss), np.array([0.0, 0.0, *[-4.5] * 6])
    with joined(found, newton, preprocess=made, summary=summary) as fed:
        fed.gather(newton.evaluate, w=w)
        with pytest.raises(ClientRefused, match="products of the scores within a category"):
            fed.gather(summary.sums, w=w)


@pytest.mark.parametrize("option", ["I", "II"])
def test_109_an_unusual_row_at_the_last_step(option: Literal["I", "II"], tmp_path: Path) -> None:
    """Number 100 after so many steps that not every one is judged: 31 steps less 30 are the gradient at the last one.
    By option I another point is looked at after that."""
    found, scaffold = with_unusual(tmp_path), fs.Scaffold(LOSS, fs.GradientSteps(31), option)
    one = Hospitals({"arden": found.files["arden"]}, ())
    with joined(one, scaffold) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        fed.gather(scaffold.local_update, x=np.array([0, 0, 0, -5.0]), c=np.array([-2.0, 0, 0, 0]), step_size=0.01)


@pytest.mark.parametrize("mask", [0.0, 6.0])
def test_104_an_unusual_row_behind_a_mask(mask: float, tmp_path: Path) -> None:
    """Number 7 with another coefficient for men, so that many rows change: the rows of the intercept and of men, one
    subtracted from the other, are sums over women alone."""
    found = with_unusual(tmp_path)
    with joined(found, NEWTON) as fed:
        fed.gather(NEWTON.evaluate, w=np.array([0.0, 0.0, 0.0, -7.0]))
        with pytest.raises(ClientRefused, match="'largest_row'"):
            fed.gather(NEWTON.evaluate, w=np.array([0.9, 0.0, mask, -7.0]))


@pytest.mark.parametrize("heavy", [1, 3])
def test_105_rows_with_nearly_all_of_the_weight(heavy: int, tmp_path: Path) -> None:
    """Means and second moments are asked for at no point: they would be those of these rows."""
    found, file = Hospitals(Table("numbers", weights=True).write(tmp_path), ()), tmp_path / "arden.csv"
    head, *lines = file.read_text().splitlines()
    place = head.split(",").index("wt")
    cells = [line.split(",") for line in lines]
    for row in range(heavy):
        cells[row][place] = "100000"
    file.write_text("\n".join([head, *map(",".join, cells)]) + "\n")
    with (
        pytest.raises(FedsolveError, match="'largest_row'"),
        joined(found, fs.Newton(fs.Squared(intercept="free")), preprocess=MORE_COLUMNS),
    ):
        pass
