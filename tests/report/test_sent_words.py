"""What left each site, in words: every step of the library has some, and the numbers are those of the ledger."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.preprocessing import Preprocess
from fedsolve.federation.joining import Joining
from fedsolve.federation.protocol import is_server_only, steps, what_it_sends
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain
from fedsolve.learners.lipschitz import LipschitzLearner
from fedsolve.loop.early_stopping import EarlyStopping
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.losses import LinearLoss
from fedsolve.report import run_page as pages
from fedsolve.report import summarise
from fedsolve.report.sent_words import Replies, phrases, section_parts, sentence
from fedsolve.report.tables import size
from fedsolve.runfiles import registry
from fedsolve.typing import Array

LOSS = fs.Logistic(l2=0.1, intercept="free")
OTHERS = (Joining, Measure, Inspect, Preprocess, Evaluation, FederationGain, EarlyStopping)
KINDS = [*(registry.find("algorithm", name) for name in registry.names("algorithm")), *OTHERS]


def clients(count: int = 3, rows: int = 60, columns: int = 13) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        X = rng.standard_normal((rows, columns))
        made.append(fs.Client(f"site-{i}", X, (X[:, 0] + rng.standard_normal(rows) > 0).astype(float)))
    return made


def words(run: fs.Run) -> list[str]:
    text = "".join(section_parts(run))
    return [re.sub("<[^>]*>", "", one) for one in re.findall(r"<li>.*?</li>", text)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_step_says_what_it_sends(kind: type) -> None:
    for name in dir(kind):
        step = getattr(kind, name, None)
        if getattr(step, "__client_step__", False) and not is_server_only(step):
            said = what_it_sends(step)
            assert said, f"{kind.__name__}.{name}"
            assert "_" not in said.replace("{self.learner.sends}", "")


def test_a_gradient_of_14_numbers_8_times() -> None:
    run = fs.run(fs.FedNewton(LOSS), clients(), rounds=8, tolerance=0)
    found = words(run)
    assert "A gradient of 14 numbers, 8 times, to fit the model" in found
    assert "A direction by its own Hessian (14 numbers), 8 times, to fit the model" in found
    assert not any(word in " ".join(found) for word in ("local_gradient", "algorithm.", "evaluate"))


def test_the_numbers_are_the_ledgers() -> None:
    """A loss, 14 numbers of the gradient, and 14 · 15 / 2 of the Hessian, each time."""
    run = fs.run(fs.Newton(LOSS), clients(), preprocess=fs.data.Preprocess())
    (line,) = [one for one in words(run) if "Hessian" in one]
    times = sum("algorithm.evaluate" in record.calls for record in run.ledger.records)
    assert line == f"Its loss, gradient and Hessian ({1 + 14 + 105} numbers), {times} times, to fit the model"


def test_all_that_was_sent_is_told_from_what_the_fit_took() -> None:
    run = fs.run(fs.Newton(LOSS), clients(), preprocess=fs.data.Preprocess())
    every, fit = run.ledger.total(None), run.ledger.total("algorithm")
    assert fit.bytes_up < every.bytes_up
    text = pages.run_page(pages.About("t", "d", "c"), run, summarise(run, "Newton"))
    assert f"the sites sent {size(every.bytes_up)}, and received {size(every.bytes_down)}; to fit" in text
    assert f"{size(fit.bytes_up)} and {size(fit.bytes_down)} of it." in text
    assert f"<dt>sent up, to fit</dt><dd>{size(fit.bytes_up)}</dd>" in text


def test_sites_that_sent_other_things_are_named() -> None:
    away = fs.Replay(cohorts={(1, 0): ("site-0", "site-1"), (1, 1): ("site-0", "site-1")})
    run = fs.run(fs.FedNewton(LOSS), clients(), rounds=2, tolerance=0, participation=away)
    text = "".join(section_parts(run))
    assert "Each site sent" in text
    assert "site-0 and site-1 also sent" in text
    assert "site-2 also sent" in text
    assert text.count("to join") == 1  # what all sent alike is said once
    assert text.count("A gradient of 14 numbers") == 2  # site-2 missed one


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Own:
    """Somebody's own method."""

    loss: LinearLoss

    @fs.client_step
    def my_reply(self, client: fs.Client, w: Array) -> Array:
        return self.loss.gradient(client, w)

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: fs.Federation, state: State) -> State:
        return State(state.w - fed.mean(self.my_reply, w=state.w))

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


def test_a_step_of_ones_own_falls_back_to_its_name() -> None:
    run = fs.run(Own(LOSS), clients(), rounds=2, tolerance=0)
    assert "The reply of the step “my_reply” (14 numbers), twice, to fit the model" in words(run)


def test_a_learner_that_sends_rows_says_so() -> None:
    run = fs.run(fs.FFGB(fs.Squared(), LipschitzLearner()), clients(2, 20, 2), rounds=1)
    assert any("contain its rows" in one for one in words(run))
    assert not any(
        "contain its rows" in one
        for one in words(fs.run(fs.FFGB(fs.Squared(), fs.RidgeLearner()), clients(2, 20, 2), rounds=1))
    )


def test_a_run_without_its_session_knows_the_librarys_words() -> None:
    held = fs.data.hold_out(clients(), 0.3)
    run = fs.run(fs.Newton(LOSS), held, preprocess=fs.data.Preprocess(), evaluation=fs.Evaluation(LOSS))
    alone = replace(run, session=None)
    assert words(alone) == words(run)
    assert set(phrases(run)) >= {f"algorithm.{name}" for name in steps(run.algorithm)}


@pytest.mark.parametrize(
    ("phrase", "replies", "expected"),
    [
        ("a gradient", Replies(8, 14, 14), "A gradient of 14 numbers, 8 times"),
        ("a gradient", Replies(1, 1, 1), "A gradient (one number), once"),
        ("its loss and gradient", Replies(2, 3, 1500), "Its loss and gradient (3 to 1,500 numbers), twice"),
        ("a confirmation of the units", Replies(1, 0, 0), "A confirmation of the units, once"),
        ("the errors", Replies(2, 0, 0), "In place of the errors: a reply without them, twice"),
    ],
)
def test_sentences(phrase: str, replies: Replies, expected: str) -> None:
    assert sentence(phrase, replies) == expected


def test_the_page_says_who_was_missing_and_why() -> None:
    broken = clients()

    @dataclass(frozen=True)
    class Failing(Own):
        @fs.client_step
        def my_reply(self, client: fs.Client, w: Array) -> Array:
            if client.name == "site-1":
                raise ValueError("no power")
            return self.loss.gradient(client, w)

    run = fs.run(Failing(LOSS), broken, rounds=2, tolerance=0, participation=fs.Participation(quorum=0.5))
    text = pages.run_page(pages.About("t", "d", "c"), run, summarise(run, "Own", broken))
    assert "1 of them was missing from some round" in text
    assert "no power" in text
    assert "0 of 1" in text or "0 of 2" in text


def test_a_run_with_notices_shows_them() -> None:
    run = fs.run(fs.Newton(LOSS), clients(2, 20), min_rows=5)
    assert run.notices
    assert 'class="warning">The fit has 14 parameters' in pages.run_page(
        pages.About("t", "d", "c"), run, summarise(run, "Newton")
    )
