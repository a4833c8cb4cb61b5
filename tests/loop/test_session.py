"""A session outlives a run: the same clients answer evaluation and diagnosis afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.diagnose import Contraction, contraction
from fedsolve.federation.session import opened
from fedsolve.federation.transports import InProcess
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic, penalised intercept | unbalanced"]
LOSS = PROBLEM.loss


class Watched(InProcess):
    """Counts how often it is opened and closed."""

    def __init__(self, clients: Sequence[fs.Client]) -> None:
        super().__init__(clients)
        self.log: list[str] = []

    def open(self, protocols: Any) -> None:
        super().open(protocols)
        self.log.append("open")  # which closes what was open before
        del self.log[: self.log.index("open")]

    def close(self) -> None:
        super().close()
        self.log.append("close")


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_a_run_in_a_session_is_the_run_without(transport: str) -> None:
    alone = fs.run(fs.FedNewton(LOSS), PROBLEM.clients(), rounds=5, seed=3)
    with fs.Session(PROBLEM.clients(), transport) as session:
        inside = fs.run(fs.FedNewton(LOSS), session, rounds=5, seed=3)
    assert inside.model.w.tobytes() == alone.model.w.tobytes()
    assert inside.ledger.total("algorithm") == alone.ledger.total("algorithm")


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_the_same_clients_are_asked_after_the_run(transport: str) -> None:
    held = fs.data.hold_out(PROBLEM.clients(), 0.25)
    also = {"evaluation": fs.Evaluation(LOSS), "contraction": Contraction(LOSS, 4, 0)}
    with fs.Session(held, transport, also=also) as session:
        run = fs.run(fs.Newton(LOSS), session, preprocess=fs.data.Preprocess())
        joins = sum("session.join" in record.calls for record in session.fed.ledger.records)
        of_the_run = run.ledger.total(None)
        found = fs.evaluate(run.model, session, LOSS)
        rho = contraction(LOSS, session, 4, 0, w=run.model.w)
        assert sum("session.join" in record.calls for record in session.fed.ledger.records) == joins
        assert run.ledger.total(None) == of_the_run  # what is asked later is not the run's
        assert session.fed.ledger.total(None).exchanges > of_the_run.exchanges
    assert found.samples == sum(one.held.n_samples for one in held)
    assert found.accuracy > 0.5
    assert rho.rho > 0


def test_it_is_opened_once_and_closed_at_the_end_of_the_block() -> None:
    road = Watched(PROBLEM.clients())
    with fs.Session(road, also={"evaluation": fs.Evaluation(LOSS)}) as session:
        fs.run(fs.Newton(LOSS), session, rounds=2)
        assert road.log == ["open"]
    assert road.log == ["open", "close"]
    road = Watched(PROBLEM.clients())
    fs.run(fs.Newton(LOSS), road, rounds=2)
    assert road.log == ["open", "close"]


def test_it_is_closed_when_something_fails() -> None:
    road = Watched(PROBLEM.clients())

    def fail() -> None:
        with fs.Session(road) as session:
            fs.run(fs.Newton(LOSS), session, rounds=2)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert road.log == ["open", "close"]


def test_what_a_session_does_not_do_is_said() -> None:
    session = fs.Session(PROBLEM.clients(), also={"evaluation": fs.Evaluation(LOSS)})
    with pytest.raises(fs.errors.ConfigError, match="not open"):
        fs.evaluate(np.zeros(6), session, LOSS)
    with session:
        run = fs.run(fs.Newton(LOSS), session, rounds=2)
        with pytest.raises(fs.errors.ConfigError, match="served its run"):
            fs.run(fs.Newton(LOSS), session, rounds=2)
        # Equal protocols are the same one; others were not agreed on.
        with pytest.raises(fs.errors.ConfigError, match="not one of this run's protocols"):
            fs.evaluate(run.model, session, fs.Logistic(l2=9.0, intercept="penalised"))
    with pytest.raises(fs.errors.ConfigError, match="one of the run's own"):
        fs.run(fs.Newton(LOSS), fs.Session(PROBLEM.clients(), also={"algorithm": fs.Evaluation(LOSS)}))
    with pytest.raises(fs.errors.ConfigError, match="is the class Evaluation"):
        fs.Session(PROBLEM.clients(), also={"evaluation": fs.Evaluation})
    for clients, transport in ((PROBLEM.clients()[0], "in_process"), (PROBLEM.clients(), "by post")):
        with pytest.raises(fs.errors.ConfigError):
            fs.Session(clients, transport)


def test_opened_closes_whatever_happens() -> None:
    road = Watched(PROBLEM.clients())

    def fail() -> None:
        with opened(road, {"evaluation": fs.Evaluation(LOSS)}) as fed:
            assert set(fed.info) == {one.name for one in PROBLEM.clients()}
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert road.log[-1] == "close"
    with pytest.raises(fs.errors.ConfigError, match="seed"), opened(road, {}, seed=-1):
        pass


def test_a_session_can_be_resumed_into(tmp_path: Any) -> None:
    whole = fs.run(fs.FedAvg(LOSS), PROBLEM.clients(), rounds=6, seed=2)
    fs.run(fs.FedAvg(LOSS), PROBLEM.clients(), rounds=3, seed=2, checkpoint=tmp_path / "run")
    with fs.Session(PROBLEM.clients()) as session:
        again = fs.run(fs.FedAvg(LOSS), session, rounds=6, seed=2, checkpoint=tmp_path / "run", resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
