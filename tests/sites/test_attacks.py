"""A server that tries to get at rows: what the default policy refuses, while honest runs pass it.

docs/threat-model.md lists these attempts, and those that are not stopped.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import ClientRefused, FedsolveError
from fedsolve.federation.federation import Federation
from fedsolve.inference.sent_model import send
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.sites import HeldOut, SiteTransport, Terms
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import COLUMNS, LOSS, PREPROCESS, Hospitals, hospitals, terms

NEWTON = fs.Newton(LOSS)


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def far(fed: Federation, size: float = 1e4) -> np.ndarray:
    return size * np.random.default_rng(0).normal(size=fed.features + 1)


# ── points ──


def test_01_a_point_so_far_out_that_a_gradient_is_a_count_of_rows(found: Hospitals) -> None:
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(NEWTON.evaluate, w=far(fed))


def test_02_the_same_through_what_every_run_measures(found: Hospitals) -> None:
    measure = Measure(LOSS)
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(measure.value_and_gradient, w=far(fed))


def test_03_the_same_through_what_confirms_a_minimum(found: Hospitals) -> None:
    inspect = Inspect(LOSS)
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(inspect.hessian, w=far(fed))


def test_04_the_same_through_a_line_search(found: Hospitals) -> None:
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(NEWTON.search.losses_along, w=far(fed), p=np.ones(fed.features + 1), steps=np.zeros(1))


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_05_a_point_that_is_not_finite(odd: float, found: Hospitals) -> None:
    with joined(found, NEWTON) as fed, pytest.raises(FedsolveError, match="not finite"):
        fed.gather(NEWTON.evaluate, w=np.full(fed.features + 1, odd))


def bisect(fed: Federation, step: object, width: int) -> int:
    """The attack that got all rows of three clients from a server that nobody stopped: along a direction every row has
    its place; at two points whose thresholds enclose one row, the difference of the gradients is this row."""
    direction = np.random.default_rng(1).normal(size=width - 1)
    found, last = 0, None
    for threshold in np.linspace(-2, 2, 200):
        w = 1e6 * np.append(direction, -threshold)
        gradients = fed.gather(step, w=w)
        gradient = next(iter(gradients.values()))[1]
        if last is not None and np.linalg.norm(gradient - last) > 0:
            found += 1
        last = gradient
    return found


def test_06_bisection_finds_rows_without_a_policy_and_none_with_it(found: Hospitals) -> None:
    protocols = {"algorithm": NEWTON, "algorithm.search": NEWTON.search, "preprocess": PREPROCESS}
    with fs.Session(found.clients[:1]) as session:
        session.open(protocols)
        session.join(PREPROCESS)
        assert bisect(session.fed, NEWTON.evaluate, session.fed.features + 1) > 20
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        bisect(fed, NEWTON.evaluate, fed.features + 1)


def test_07_an_unusual_row_by_two_moderate_points(tmp_path: Path) -> None:
    """One patient is far from all others. With σ ≈ 0 for everybody else, the change of the gradient is that patient."""
    found = hospitals(tmp_path)
    file = tmp_path / "arden.csv"
    file.write_text(file.read_text() + "400.0,140,f,no\n")
    with joined(found, NEWTON) as fed:
        slope = np.array([1.0, 0.0, 0.0, 0.0])
        fed.gather(NEWTON.evaluate, w=np.array([0.0, 0.0, 0.0, -7.0]))
        with pytest.raises(ClientRefused, match="'largest_row'"):
            fed.gather(NEWTON.evaluate, w=np.append(0.9 * slope[:3], -7.0))


def test_08_a_local_step_of_any_length(found: Hospitals) -> None:
    averaging = fs.FedAvg(LOSS, fs.GradientSteps(2))
    with joined(found, averaging) as fed, pytest.raises(ClientRefused, match="'largest_step'"):
        fed.gather(averaging.local_update, w=np.zeros(fed.features + 1), step_size=1e9)


# ── terms ──


def refused(found: Hospitals, algorithm: object, rule: str, asked: Terms | None = None, **more: object) -> None:
    with pytest.raises(FedsolveError, match=rule), joined(found, algorithm, asked, **more):  # type: ignore[arg-type]
        pass


def test_09_batches_of_one_row(found: Hospitals) -> None:
    refused(found, fs.FedAvg(LOSS, fs.GradientSteps(1, batch_size=1)), "batches of 1 rows.*'min_rows'")


def test_10_bins_of_one_row(found: Hospitals) -> None:
    refused(found, NEWTON, "bins of 1 rows.*'min_rows'", evaluation=fs.Evaluation(LOSS))


def test_11_leaves_of_one_row(found: Hospitals) -> None:
    refused(found, fs.FFGB(fs.Logistic(), fs.Trees(min_rows=1)), "leaves of 1 rows.*'min_rows'")


def test_12_few_rows_held_out(found: Hospitals) -> None:
    refused(found, NEWTON, "fewer than 5 rows to judge by.*'min_rows'", Terms(terms().run, held_out=HeldOut(0.02)))


def test_13_a_category_that_nobody_declared(found: Hospitals) -> None:
    """A category that is one person's would be counted in the first exchange."""
    odd = Schema.from_plain([*COLUMNS[:2], {"name": "sex", "categories": ["f", "m", "x"]}])
    refused(found, NEWTON, "other categories.*'terms'", preprocess=fs.data.Preprocess(odd))


def test_14_a_number_taken_for_a_category(found: Hospitals) -> None:
    odd = Schema.from_plain([{"name": "age", "categories": [83.2, 61.0]}, *COLUMNS[1:]])
    refused(found, NEWTON, "categorical in the run and numeric.*'terms'", preprocess=fs.data.Preprocess(odd))


def test_15_a_column_that_the_site_does_not_give(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='columns = ["age", "sex"]')
    refused(found, NEWTON, "asks for column 'pressure'.*'columns'")


def test_16_landmarks_to_look_for_a_person(found: Hospitals) -> None:
    known = fs.Nystroem(np.array([[0.3, 0.1, 1.0]]), gamma=1e6)
    refused(found, fs.Newton(fs.Logistic(l2=0.1, features=known)), "Nystroem.*'features'")


def test_16b_a_spline_that_looks_at_one_row(found: Hospitals) -> None:
    looking = fs.data.Preprocess(
        PREPROCESS.schema, formula="bs(age, knots=[83.1, 83.2, 83.3], lower_bound=0, upper_bound=120)"
    )
    refused(found, NEWTON, "'formulas'", preprocess=looking)


def test_17_more_parameters_than_rows_can_hide(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='features = ["RandomFourier"]')
    wide = fs.Newton(fs.Logistic(l2=0.1, features=fs.RandomFourier(40, gamma=0.1)))
    with joined(found, wide) as fed, pytest.raises(ClientRefused, match="'parameters_per_row'"):
        fed.gather(wide.evaluate, w=np.zeros(40))


def test_17b_boosting_is_refused_for_its_columns(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="parameters_per_row = 0.01")
    boosting, said = fs.FFGB(fs.Logistic(), fs.Stumps()), "so many columns counts as 3 parameters.*'parameters_per_row'"
    with joined(found, boosting) as fed, pytest.raises(ClientRefused, match=said):
        boosting.start(fed)


def test_18_an_algorithm_that_is_not_on_the_list(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='algorithms = ["FedNewtonCG"]')
    refused(found, NEWTON, "uses Newton, and this site answers only FedNewtonCG.*'algorithms'")


def test_19_what_a_site_answers_only_if_it_says_so(found: Hospitals) -> None:
    refused(found, NEWTON, "Heterogeneity.*'also'", heterogeneity=fs.diagnose.Heterogeneity(LOSS))


def test_20_a_step_that_is_never_answered(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='refuse = ["local_minimiser"]')
    refused(found, fs.DKRR(fs.Squared(l2=0.1)), "DKRR.local_minimiser.*'refuse'")


def odd_terms(found: Hospitals, change: object) -> str:
    """What a site says to terms that no library wrote."""
    carrier = Direct({"arden": found.files["arden"]})
    plain = json.loads(terms().asking({"algorithm": NEWTON}).to_json())
    plain["protocols"]["algorithm"] |= change  # type: ignore[operator]
    carrier.begin(json.dumps(plain))
    site = carrier.sites["arden"]
    assert isinstance(site, FedsolveError)
    return str(site)


def test_21_code_by_its_import_path(found: Hospitals) -> None:
    assert "import paths are followed only" in odd_terms(found, {"name": "os:system"})


def test_22_a_class_that_is_no_protocol(found: Hospitals) -> None:
    assert "unknown protocol" in odd_terms(found, {"name": "Client"})


def test_23_hyperparameters_that_are_none(found: Hospitals) -> None:
    assert "eval" in odd_terms(found, {"eval": "1"})


# ── questions ──


def ask_often(fed: Federation, times: int) -> None:
    for k in range(times):
        fed.gather(NEWTON.evaluate, w=np.full(fed.features + 1, 0.01 * k))


def test_24_more_questions_than_a_run_needs(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="requests = 20")
    asked = terms()
    with joined(found, NEWTON, asked) as fed, pytest.raises(ClientRefused, match="'requests'"):
        ask_often(fed, 30)
    with pytest.raises(ClientRefused, match="'requests'"), joined(found, NEWTON, asked):  # also after a restart
        pass


def test_25_one_question_many_times(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="questions = 3")
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'questions'"):
        ask_often(fed, 5)


def test_26_more_bytes_than_allowed(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="bytes = 2000")
    with joined(found, NEWTON) as fed, pytest.raises(ClientRefused, match="'bytes'"):
        ask_often(fed, 10)


def test_27_a_reply_as_large_as_the_table(tmp_path: Path) -> None:
    policy = 'features = ["RandomFourier"]\nshare_of_cells = 0.01\nparameters_per_row = 1'
    found = hospitals(tmp_path, (16, 16, 16, 16), policy=policy)
    wide = fs.Newton(fs.Logistic(l2=0.1, features=fs.RandomFourier(12, gamma=0.1)))
    with joined(found, wide) as fed, pytest.raises(ClientRefused, match="'share_of_cells'"):
        fed.gather(wide.evaluate, w=np.zeros(12))


def test_28_probes_far_out(found: Hospitals) -> None:
    lowrank = fs.FedLRGD(LOSS)
    probes = 1e4 * np.random.default_rng(0).normal(size=(5, 4))
    with joined(found, lowrank) as fed, pytest.raises(ClientRefused, match="'largest_loss'"):
        fed.gather(lowrank.local_weights, points=probes, bases=np.ones((4, 5, 5)), rows=1)


def test_29_a_protocol_that_was_not_agreed(found: Hospitals) -> None:
    other = replace(NEWTON, loss=replace(LOSS, l2=0.5))
    with joined(found, NEWTON) as fed:
        fed.protocols["algorithm"] = other  # the server's own copy
        answer = fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))
        assert set(answer) == set(found.files)  # the sites compute with what they agreed to, l2 = 0
        assert np.isclose(next(iter(answer.values()))[0], np.log(2))
    prepared = Inspect(fs.Squared())
    with joined(found, NEWTON) as fed, pytest.raises(FedsolveError):
        fed.gather(prepared.hessian, w=np.zeros(fed.features + 1))


def test_30_words_of_an_error_that_hold_a_cell(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    file = tmp_path / "bryn.csv"
    file.write_text(file.read_text() + "61.0,Mrs Jones,f,no\n")
    with pytest.raises(FedsolveError) as said, joined(found, NEWTON):
        pass
    assert "Jones" not in str(said.value)


def test_31_refusals_as_answers(tmp_path: Path) -> None:
    """Whether something is refused depends on the rows, so that it cannot be asked for ever."""
    found = hospitals(tmp_path, policy="refusals = 3")
    with joined(found, NEWTON) as fed:
        for k in range(3):
            with pytest.raises(ClientRefused, match="'largest_loss'"):
                fed.gather(NEWTON.evaluate, w=far(fed, 1e4 + k))
        with pytest.raises(ClientRefused, match="'refusals'"):
            fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))


def test_32_a_crafted_model_to_be_judged(found: Hospitals) -> None:
    """A kernel expansion with a narrow kernel is large where one person is, and zero elsewhere."""
    looking = fs.KernelExpansion(np.array([[61.0, 140.0, 1.0]]), np.array([1e6]), fs.features.Gaussian(1e9))
    evaluation = fs.Evaluation(LOSS, least=5)
    asked = Terms(terms().run, held_out=HeldOut(0.3))
    with joined(found, NEWTON, asked, evaluation=evaluation) as fed, pytest.raises(ClientRefused, match="'models'"):
        fed.gather(evaluation.held_figures, w=send(looking), edges=np.array([0.0]))


# ── honest runs pass ──

HONEST = [
    NEWTON,
    fs.FedNewtonCG(LOSS),
    fs.SHED(LOSS),
    fs.FedAvg(LOSS),
    fs.Scaffold(LOSS),
    fs.FedNL(fs.Logistic(l2=1e-3, intercept="free")),
    fs.GIANT(LOSS),
    fs.AGD(fs.Logistic(l2=1e-3, intercept="free")),
    fs.FFGB(fs.Logistic(), fs.Trees()),
    fs.Newton(fs.Softmax(l2=1e-3, intercept="free", classes=2)),
    fs.FedProx(LOSS),
    fs.FedDyn(LOSS),
    fs.FedSplit(LOSS),
    fs.FedNewton(fs.Logistic(l2=0.1, intercept="free")),
    fs.MontDec(fs.Logistic(l2=1e-3, intercept="free")),
    fs.DKRR(fs.Squared(l2=0.1, intercept="free")),
    fs.SHEDLeastSquares(fs.Squared(l2=0.1, intercept="free")),
    fs.Newton(fs.Poisson(intercept="free")),
]


@pytest.mark.parametrize("algorithm", HONEST, ids=lambda one: f"{type(one).__name__}-{type(one.loss).__name__}")
def test_honest_runs_pass_the_default_policy(algorithm: Any, tmp_path: Path) -> None:
    found = hospitals(tmp_path, numbers=not algorithm.loss.classifies)
    run = fs.run(algorithm, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS, rounds=30)
    assert run.status in ("converged", "settled", "rounds", "finished", "tolerance unattainable"), run.message
    assert all(not row.missing for row in run.history)


def test_a_site_that_allows_a_formula_answers_it(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='formulas = ["age * sex + pressure"]')
    made = fs.data.Preprocess(PREPROCESS.schema, formula="age * sex + pressure")
    there = fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=made)
    here = fs.run(NEWTON, found.clients, preprocess=made)
    assert np.array_equal(here.model.w, there.model.w)


def test_counts_far_from_one_overshoot_to_few_rows(tmp_path: Path) -> None:
    """The first Newton step of a Poisson fit to counts of 30 and 90 leads to where few rows have the curvature: the
    gradient would be these rows. A site that accepts this says so; with an offset near log 60 nobody has to."""
    found = hospitals(tmp_path, numbers=True)
    for name in found.files:
        file = tmp_path / f"{name}.csv"
        file.write_text(file.read_text().replace(",1\n", ",30\n").replace(",3\n", ",90\n"))
    counts = fs.Newton(fs.Poisson(intercept="free"))
    with pytest.raises(ClientRefused, match=r"an offset near the logarithm of their mean \(rule 'largest_(loss|row)'"):
        fs.run(counts, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
    for name in found.files:
        file = tmp_path / f"{name}.csv"
        head, *lines = file.read_text().splitlines()
        file.write_text("\n".join([f"{head},typical", *(f"{line},4.1" for line in lines)]) + "\n")
        about = found.files[name].read_text().replace('target = "ill"', 'target = "ill"\noffset = "typical"')
        found.files[name].write_text(about)
    assert fs.run(counts, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS).converged
