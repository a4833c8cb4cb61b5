"""A server that tries to get at rows by what is no point: directions, control variates, lines, trees, other runs.

Each of these found rows before the guard was told of every point at which rows are looked at (docs/threat-model.md).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError, PolicyRefusal
from fedsolve.federation.federation import Federation
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part
from fedsolve.loop.measure_protocols import Inspect
from fedsolve.sites import HeldOut, SiteTransport, Terms
from fedsolve.sites.policy import Policy
from fedsolve.sites.row_sets import check_row_sets
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import COLUMNS, LOSS, PREPROCESS, Hospitals, hospitals, terms
from tests.sites.told_functions import stump

NEWTON = fs.Newton(LOSS)


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def test_33_a_line_search_along_a_far_direction(found: Hospitals) -> None:
    far = 1e7 * np.array([1.0, 0.0, 0.0, 0.5])
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(NEWTON.search.slopes, w=np.zeros(4), p=far, steps=np.ones(1))


def test_34_a_control_variate_that_moves_the_second_step(found: Hospitals) -> None:
    scaffold = fs.Scaffold(LOSS, fs.GradientSteps(2))
    c = 1e7 * np.array([1.0, 0.0, 0.0, 0.5])
    with joined(found, scaffold) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(scaffold.local_update, x=np.zeros(4), c=c, step_size=1.0)


def test_35_a_local_step_written_as_a_whole_number(found: Hospitals) -> None:
    averaging = fs.FedAvg(LOSS, fs.GradientSteps(2))
    with joined(found, averaging) as fed, pytest.raises(FedsolveError, match=r"'largest_step'|step_size"):
        fed.gather(averaging.local_update, w=np.zeros(fed.features + 1), step_size=10**9)


def prospects(fed: Federation, places: np.ndarray) -> np.ndarray:
    inspect = Inspect(LOSS)
    return np.array([fed.gather(inspect.prospect, step=np.array([1.0, 0, 0, -t]))["arden"] for t in places])


def test_36_the_sums_that_confirm_a_minimum(found: Hospitals) -> None:
    """The exact sums are quadratic between two rows, and give both; of their size nothing can be solved for."""
    with joined(found, NEWTON) as fed:
        sums = prospects(fed, np.linspace(-2, 2, 60))
        assert set(np.frexp(sums[sums > 0])[0]) == {0.5}
        with pytest.raises(ClientRefused, match="'directions'"):
            prospects(fed, np.linspace(-2, 2, 60))


@pytest.mark.parametrize("rows", ["own", "held"])
def test_37_a_calibration_so_steep_that_it_counts_rows(rows: str, found: Hospitals) -> None:
    judge = fs.Evaluation(LOSS, least=5, rows=rows)  # type: ignore[arg-type]
    asked = Terms(terms().run, held_out=HeldOut(0.3)) if rows == "held" else terms()
    with joined(found, NEWTON, asked, evaluation=judge) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(judge.held_recalibration, w=np.array([1.0, 0, 0, 0]), line=np.array([-1e9, 1e9]))


def test_38_a_tree_of_the_servers_own(found: Hospitals) -> None:
    """Two trees whose thresholds enclose one row: the losses differ by what this row adds."""
    boosting = fs.FFGB(fs.Logistic(), fs.Trees())

    def scan(fed: Federation) -> None:
        agreed = boosting.learner.prepare(fed)
        fed.gather(boosting.learn_of, news=News(0, (), np.zeros(()), agreed))
        edges, before = agreed[0][: agreed[1][1]], 0.0
        for place, edge in enumerate(edges):
            functions = stump(0, before, 20.0, 0.0), stump(0, edge, -20.0, 0.0)  # back to zero, and on
            told = Part(1.0, np.array([-0.05, -0.05]), functions if place else (functions[1], stump(0, edge, 0.0, 0.0)))
            fed.gather(boosting.learn_of, news=News(place, (told,)))
            fed.gather(boosting.value, parts=place + 1)
            before = edge

    with joined(found, boosting) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        scan(fed)


def test_39_a_last_batch_of_one_row(found: Hospitals) -> None:
    averaging = fs.FedAvg(LOSS, fs.GradientSteps(epochs=1, batch_size=59, step_size=0.1))
    with pytest.raises(FedsolveError, match="'min_rows'"), joined(found, averaging):
        pass


def test_40_batches_whose_rows_the_server_knows(tmp_path: Path) -> None:
    """With the seed of the run alone a server knows every batch; a site's own draws are another site's own."""
    averaging = fs.FedAvg(LOSS, fs.GradientSteps(3, batch_size=10, step_size=0.1))

    def update(folder: Path, policy: str, asked: Terms) -> np.ndarray:
        folder.mkdir(exist_ok=True)
        with joined(hospitals(folder, policy=policy), averaging, asked) as fed:
            found: np.ndarray = fed.gather(averaging.local_update, w=np.zeros(4), step_size=0.1)["arden"]
        return found

    one, other = terms(), terms()
    known = [update(tmp_path / name, "own_draws = false", asked) for name, asked in (("a", one), ("b", other))]
    assert np.array_equal(*known)
    first, second = update(tmp_path / "c", "", one), update(tmp_path / "d", "", one)
    assert not np.array_equal(first, known[0])
    assert not np.array_equal(first, second)
    # A site that starts again for the same run draws the same; for another run it does not.
    for store in (tmp_path / "c").glob("store-*"):
        shutil.rmtree(store / "runs")
    assert np.array_equal(first, update(tmp_path / "c", "", one))
    assert not np.array_equal(first, update(tmp_path / "c", "", other))


def test_41_rows_held_out_by_one_seed_after_the_other(found: Hospitals) -> None:
    def ask(share: float, seed: int) -> None:
        with joined(found, NEWTON, Terms(terms().run, held_out=HeldOut(share, seed))):
            pass

    ask(0.3, 0)
    ask(0.3, 0)
    ask(0.3, 1)
    with pytest.raises(FedsolveError, match="'row_sets'"):
        ask(0.3, 2)


def test_41b_sets_of_rows_that_leave_few(tmp_path: Path) -> None:
    everybody = np.ones(60, dtype=bool)
    most, half, rest = everybody.copy(), np.arange(60) < 30, np.arange(60) > 30
    most[7] = False
    check_row_sets(tmp_path, "a", [everybody, half], Policy())
    check_row_sets(tmp_path, "a", [everybody, half], Policy())
    for closer in (most, rest):  # everybody − half − rest is row 30
        with pytest.raises(PolicyRefusal, match="row_sets"):
            check_row_sets(tmp_path, "a", [closer], Policy())
    check_row_sets(tmp_path, "another file", [most], Policy())


def test_42_complete_cases_and_imputed_ones(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    file = tmp_path / "arden.csv"
    lines = file.read_text().splitlines()
    age, _, sex, ill = lines[8].split(",")
    file.write_text("\n".join([*lines[:8], f"{age},,{sex},{ill}", *lines[9:]]) + "\n")

    def ask(impute: str) -> None:
        columns = [COLUMNS[0], dict(COLUMNS[1], impute=impute), COLUMNS[2]]
        made = fs.data.Preprocess(Schema.from_plain(columns))
        with joined(found, NEWTON, preprocess=made) as fed:
            fed.gather(made.totals)

    ask("mean")
    with pytest.raises(FedsolveError, match="'row_sets'"):
        ask("complete")


def test_43_bins_of_one_row_because_nobody_said_otherwise(found: Hospitals) -> None:
    with pytest.raises(FedsolveError, match="'min_rows'"), joined(found, NEWTON, evaluation=fs.Evaluation(LOSS)):
        pass


def test_44_a_network_that_answers_to_one_row(found: Hospitals) -> None:
    network = fs.FedAvg(fs.Network(fs.MLP((4,)), fs.Logistic()), fs.GradientSteps(1, step_size=0.1))
    with pytest.raises(FedsolveError, match="'networks'"):
        fs.run(network, SiteTransport(Direct(found.files), terms()), rounds=1)


def test_45_an_algorithm_under_another_name(found: Hospitals) -> None:
    asked = Terms(terms().run, {"preprocess": {"kind": "Newton", "loss": {"kind": "Logistic"}}})
    carrier = Direct(found.files)
    carrier.begin(asked.to_json())
    assert all("'terms'" in str(one) for one in carrier.sites.values())


def test_46_what_was_asked_in_another_run(tmp_path: Path) -> None:
    """The points of number 7, each in a run of its own."""
    found = hospitals(tmp_path)
    file = tmp_path / "arden.csv"
    file.write_text(file.read_text() + "400.0,140,f,no\n")
    with joined(found, NEWTON) as fed:
        fed.gather(NEWTON.evaluate, w=np.array([0.0, 0.0, 0.0, -7.0]))
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_row'"):
        fed.gather(NEWTON.evaluate, w=np.array([0.9, 0.0, 0.0, -7.0]))


def test_47_more_runs_than_a_day_has(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="runs = 2")
    for _ in range(2):
        with joined(found, NEWTON):
            pass
    with pytest.raises(FedsolveError, match="'runs'"), joined(found, NEWTON):
        pass


def test_48_requests_that_fail(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="failures = 3")
    with joined(found, NEWTON) as fed:
        for _ in range(3):
            with pytest.raises(FedsolveError):
                fed.gather(NEWTON.evaluate, w=np.zeros(99))
        with pytest.raises(ClientRefused, match="'failures'"):
            fed.gather(NEWTON.evaluate, w=np.zeros(4))


def test_49_many_counts_in_one_request(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="counts = 4")
    boosting = fs.FFGB(fs.Logistic(), fs.Trees())
    learner = boosting.learner
    bounds, starts = np.linspace(-3, 3, 9), np.array([0, 9, 9, 9])
    calls = [fs.Gather(learner.cell_counts, bounds=bounds + k, starts=starts) for k in range(6)]
    with joined(found, boosting) as fed, pytest.raises(ClientRefused, match="'counts'"):
        fed.exchange(*calls)


HONEST_LOCAL = [
    fs.FedAvg(LOSS, fs.GradientSteps(epochs=2, batch_size=15, step_size=0.1)),
    fs.FedAvg(LOSS, fs.GradientSteps(20, step_size=0.5)),
    fs.Scaffold(LOSS, fs.GradientSteps(5, batch_size=10, step_size=0.1)),
]


@pytest.mark.parametrize("algorithm", HONEST_LOCAL, ids=lambda one: f"{type(one).__name__}-{one.local.batch_size}")
def test_honest_local_solvers_pass(algorithm: fs.FedAvg, tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    run = fs.run(algorithm, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS, rounds=20)
    assert all(not row.missing for row in run.history)


def test_honest_runs_one_after_the_other_pass(tmp_path: Path) -> None:
    """Points of all runs are compared with each other."""
    found = hospitals(tmp_path)
    for algorithm in (NEWTON, fs.SHED(LOSS), fs.Newton(fs.Logistic(l2=0.1, intercept="free")), fs.FedNewtonCG(LOSS)):
        run = fs.run(algorithm, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
        assert run.converged
