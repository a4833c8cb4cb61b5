"""Replies that cannot be added although each is what its step declares, where a quorum is set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import WrongType
from fedsolve.typing import Array
from tests.faults.test_absence import ENOUGH, PROBLEM, State, clients


@dataclass(frozen=True)
class Asking:
    """Asks one question in each round, and leaves the weights alone."""

    loss: fs.Logistic
    question: str
    who: tuple[str, ...] = ("client-1",)

    @fs.client_step
    def agrees(self, client: fs.Client) -> bool:
        return True

    @fs.client_step
    def counted(self, client: fs.Client) -> Array:
        return np.array([2**63 if client.name in self.who else 1], np.uint64)

    @fs.client_step
    def one(self, client: fs.Client) -> float:
        return 1.0

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: fs.Federation, state: State) -> State:
        if self.question == "agrees":
            fed.mean(self.agrees)
        else:
            ones, total = fed.exchange(fs.Sum(self.one), fs.Sum(self.counted))
            assert ones == total[0] == len(fed.cohort)  # nothing of a reply that was left out is in any sum
        return state

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


def test_replies_of_a_type_that_nobody_can_add_end_the_run_as_without_a_quorum() -> None:
    for participation in (None, ENOUGH):
        with pytest.raises(WrongType, match=r"client 'client-0': replies of type bool cannot be added; gather them"):
            fs.run(Asking(PROBLEM.loss, "agrees"), clients(), rounds=2, participation=participation)


@pytest.mark.parametrize("who", ["client-0", "client-1", "client-3"])
def test_one_reply_that_cannot_be_added_makes_its_client_missing(who: str) -> None:
    algorithm = Asking(PROBLEM.loss, "counted", (who,))
    result = fs.run(algorithm, clients(), rounds=1, tolerance=0, participation=fs.Participation(quorum=0.1))
    assert [name for name, _ in result.history[1].missing] == [who]
    assert "whole numbers of 2⁶³ and more" in result.history[1].missing[0][1]


def test_numbers_that_nobody_can_add_end_the_run() -> None:
    algorithm = Asking(PROBLEM.loss, "counted", tuple(client.name for client in clients()))
    with pytest.raises(WrongType, match=r"client-0.*2⁶³"):
        fs.run(algorithm, clients(), rounds=1, participation=ENOUGH)
