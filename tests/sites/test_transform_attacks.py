"""A server that gets at rows by what it has the columns transformed by: fills, centres, scales and knots.

Each of these gave rows away before sites judged what a server writes (docs/threat-model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_factors import BSplines
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError, PolicyRefusal
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.sites import SiteTransport, Terms
from tests.sites.altered import NEWTON, begins, edited, gaps, schema
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import COLUMNS, PREPROCESS, Hospitals, hospitals, terms


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def learned(found: Hospitals, preprocess: fs.data.Preprocess = PREPROCESS) -> Transform:
    """What an honest server would have the columns transformed by."""
    files = {name: path.with_suffix(".csv") for name, path in found.files.items()}
    read = fs.data.load_sites(files, target="ill", classes=["no", "yes"], schema=preprocess.schema)
    with fs.Session(read.clients) as session:
        session.open({"preprocess": preprocess})
        transform = session.join(preprocess)
    assert isinstance(transform, Transform)
    return replace(transform, missing=None, unseen=None)


@contextmanager
def asking(
    found: Hospitals, preprocess: fs.data.Preprocess = PREPROCESS, asked: Terms | None = None
) -> Iterator[Federation]:
    """A server that has joined, and now says itself what the columns are transformed by."""
    protocols = dict(collect("algorithm", NEWTON)) | {"preprocess": preprocess}
    with fs.Session(SiteTransport(Direct(found.files), asked or terms())) as session:
        session.open(protocols)
        session.fed.join()
        session.fed.begin_round(0)
        yield session.fed


def rewritten(transform: Transform, place: int = 0, **changed: Any) -> Transform:
    """The transform with other numbers for one column."""
    numbers = {what: getattr(transform, what).copy() for what in ("fill", "centre", "scale")}
    for what, value in changed.items():
        numbers[what][place] = value
    return replace(transform, **numbers)


def test_75_a_fill_that_is_far_away(tmp_path: Path) -> None:
    """H[j] / H[j, intercept] at w = 0 is then the row that has the missing cell."""
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    transform = learned(found)
    with asking(found) as fed, pytest.raises(ClientRefused, match=r"column 'pressure'.*rule 'fills'"):
        fed.gather(PREPROCESS.adopt, transform=rewritten(transform, 1, fill=1e12))
    with asking(found) as fed:
        fed.gather(PREPROCESS.adopt, transform=transform)


def test_75b_a_number_to_impute_that_is_far_away(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'fills'"):
        begins(found, schema(pressure={"impute": 1e5}))
    begins(found, schema(pressure={"impute": 140}))
    gaps(tmp_path, *range(10))  # an indicator of these would be allowed as well
    begins(found, schema(pressure={"impute": 1e5}))


def asked_once(fed: Federation) -> None:
    """The first question that depends on what stands for missing cells; before, nothing was told of it."""
    fed.gather(NEWTON.evaluate, w=fed.start_point(NEWTON.loss))


def test_76f_a_run_that_ends_while_sites_agree(tmp_path: Path) -> None:
    """One site's unit was wrong, and its refusal ended the run: the others had adopted a mean that nobody used, and the
    next run has another one."""
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    with joined(found, NEWTON, preprocess=schema(pressure={"impute": 120})):
        pass
    with joined(found, NEWTON, preprocess=schema(pressure={"impute": 140})) as fed:
        asked_once(fed)
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'fills'"):
        begins(found, schema(pressure={"impute": 120}))


def test_76g_two_runs_that_agree_at_once(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    with (
        joined(found, NEWTON, preprocess=schema(pressure={"impute": 120})) as one,
        joined(found, NEWTON, preprocess=schema(pressure={"impute": 140})) as other,
    ):
        asked_once(one)
        asked_once(one)
        with pytest.raises(ClientRefused, match=r"column 'pressure'.*rule 'fills'"):
            asked_once(other)


def test_76_another_fill_in_another_run(tmp_path: Path) -> None:
    """Both are in the range of the column, and the difference is the row."""
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    for _ in range(2):
        with joined(found, NEWTON) as fed:  # the mean over all sites, twice the same
            asked_once(fed)
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'fills'"):
        begins(found, schema(pressure={"impute": 140}))
    mean = float(learned(found).fill[1])
    begins(found, schema(pressure={"impute": mean}))
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'fills'"):
        begins(found, schema(pressure={"impute": float(np.nextafter(mean, np.inf))}))


def test_76b_another_category_in_another_run(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7, column=2)
    with joined(found, NEWTON, preprocess=schema(sex={"impute": "f"})) as fed:
        asked_once(fed)
    other = schema(sex={"impute": "m"})
    with pytest.raises(FedsolveError, match=r"column 'sex'.*rule 'fills'"), joined(found, NEWTON, preprocess=other):
        pass


def test_76e_all_columns_are_named_at_once(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7)
    gaps(tmp_path, 9, column=0)
    both = "column 'age', column 'pressure'.*rule 'fills'"
    with pytest.raises(PolicyRefusal, match=both):
        begins(found, schema(age={"impute": 1e5}, pressure={"impute": 1e5}))
    far = rewritten(rewritten(learned(found), 0, fill=1e9), 1, fill=1e9)
    with asking(found) as fed, pytest.raises(ClientRefused, match=both):
        fed.gather(PREPROCESS.adopt, transform=far)
    with joined(found, NEWTON) as fed:
        asked_once(fed)
    with pytest.raises(PolicyRefusal, match=both):
        begins(found, schema(age={"impute": 60}, pressure={"impute": 140}))


def test_76c_gaps_that_differ_from_others_in_one_row(tmp_path: Path) -> None:
    """Ten rows lack the age, nine of them the pressure: with two fills of each their difference is one row."""
    found = hospitals(tmp_path)
    gaps(tmp_path, *range(10), column=0)
    gaps(tmp_path, *range(9), column=1)
    with joined(found, NEWTON, preprocess=schema(age={"impute": 60}, pressure={"impute": 140})) as fed:
        asked_once(fed)
    for column in ("age", "pressure"):
        with pytest.raises(PolicyRefusal, match=rf"column '{column}'.*rule 'fills'"):
            begins(found, schema(**{"age": {"impute": 60}, "pressure": {"impute": 140}, column: {"impute": 100}}))


def test_76d_few_gaps_in_the_next_run(tmp_path: Path) -> None:
    """By themselves ten gaps are many; in a later run a column comes along that nine of them have."""
    found = hospitals(tmp_path)
    gaps(tmp_path, *range(10))
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row < 9 else "f", cells[3]])
    alone = [dict(COLUMNS[0]), dict(COLUMNS[1])]
    for number in (140, 130):
        made = fs.data.Preprocess(Schema.from_plain([alone[0], {**alone[1], "impute": number}]))
        with joined(found, NEWTON, preprocess=made) as fed:
            asked_once(fed)
    with pytest.raises(PolicyRefusal, match=r"column 'pressure'.*rule 'fills'"):
        begins(found, schema(pressure={"impute": 140}))


def test_77_a_second_transform(found: Hospitals) -> None:
    asked, transform = terms(), learned(found)
    moved = rewritten(transform, centre=float(transform.centre[0]) + 1.0)
    with asking(found, asked=asked) as fed:
        fed.gather(PREPROCESS.adopt, transform=transform)
        with pytest.raises(ClientRefused, match="rule 'transform'"):
            fed.gather(PREPROCESS.adopt, transform=moved)
        fed.gather(PREPROCESS.adopt, transform=transform)
    for name in found.files:  # also by a site that has forgotten what it remembered of the run
        (found.files[name].parent / f"store-{name}" / "runs" / asked.run / "memory").unlink()
    with asking(found, asked=asked) as fed, pytest.raises(ClientRefused, match="rule 'transform'"):
        fed.gather(PREPROCESS.adopt, transform=moved)


ODD: dict[str, dict[str, Any]] = {
    "a scale that overflows for the largest value": {"centre": 0.0, "scale": 90 / np.finfo(float).max},
    "a scale that underflows for the smallest": {"scale": 1e300},
    "a centre that rounds to a few values": {"centre": 2.0**60},
    "a fill where none is declared": {"fill": 60.0},
}


@pytest.mark.parametrize("what", ODD)
def test_78_numbers_that_are_thresholds(what: str, found: Hospitals) -> None:
    """Whether a value is above a threshold of the server's choosing, by an error or by rounding."""
    made = schema(age={"impute": None})
    evil = rewritten(learned(found, made), **ODD[what])
    with asking(found, made) as fed, pytest.raises(ClientRefused, match="rule 'transform'"):
        fed.gather(made.adopt, transform=evil)


def test_78b_squares_about_a_far_mean(found: Hospitals) -> None:
    with asking(found) as fed, pytest.raises(ClientRefused, match="rule 'transform'"):
        fed.gather(PREPROCESS.spread, mean=np.array([2.0**56, 0.0, 0.0]))


def test_79_knots_of_the_servers_own(tmp_path: Path) -> None:
    """A formula that the site has read, with knots that are learned: they come from the server."""
    pytest.importorskip("formulaic")
    formula = "sex + pressure + bs(age, df=6)"
    found = hospitals(tmp_path, (200, 180, 150, 170), policy=f'formulas = ["{formula}"]')
    columns = [{**COLUMNS[0], "low": 0, "high": 130}, *COLUMNS[1:]]
    made = fs.data.Preprocess(Schema.from_plain(columns), formula=formula)
    with joined(found, NEWTON, preprocess=made) as fed:
        fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))
    transform = learned(found, made)
    assert transform.design is not None
    ages = np.sort([float(line.split(",")[0]) for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]])
    one = next(age for a, age, b in zip(ages[50:], ages[51:], ages[52:], strict=False) if a + 0.1 < age < b - 0.1)
    knots = (one - 0.08, one - 0.04, one + 0.04)
    factors = [replace(each, knots=knots) if isinstance(each, BSplines) else each for each in transform.design.factors]
    narrow = replace(transform, design=replace(transform.design, factors=tuple(factors), centre=(), scale=()))
    with asking(found, made) as fed, pytest.raises(ClientRefused, match="rule 'min_cell'"):
        fed.gather(made.made_totals, transform=narrow)


# ── honest federations keep within the bounds ──


def test_sites_that_are_very_unlike(tmp_path: Path) -> None:
    """One weighs in grams and has a few gaps, one has a constant column, one lacks a column altogether."""
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [str(1000 * float(cells[0])), *cells[1:]], "bryn")
    edited(tmp_path, lambda row, cells: [cells[0], "120", *cells[2:]], "corrie")
    gaps(tmp_path, *range(70), site="dale")
    gaps(tmp_path, 3, 4, column=0, site="arden")
    transport = SiteTransport(Direct(found.files), terms())
    with pytest.raises(ClientRefused, match=r"arden.*column 'age'.*rule 'fills'"):  # 16 kg: nobody is that old
        fs.run(NEWTON, transport, preprocess=PREPROCESS)
    gaps(tmp_path, *range(6), column=0, site="arden")
    assert fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS).converged


def test_a_run_that_is_repeated_with_gaps(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    gaps(tmp_path, 7, 9)
    first, second = (fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS) for _ in "ab")
    assert first.converged
    assert np.array_equal(first.model.w, second.model.w)
