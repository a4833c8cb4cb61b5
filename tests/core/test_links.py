"""A link carries what it says, in encoded bytes, of what the algorithm sends."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedsolve.errors import ConfigError, LinkExceeded
from fedsolve.federation.calls import Gather, Mean
from fedsolve.federation.links import Link
from tests.core.federations import MEASURE, STEPS, TRANSPORTS, Recorder, clients, join

EVERY_TRANSPORT = pytest.mark.parametrize("kind", TRANSPORTS)


def federation(link, kind="in process"):
    made = clients()
    made[1].link = link  # the others are unlimited
    transport = Recorder(TRANSPORTS[kind](made))
    return join(transport), transport


def reply_size(size: int) -> int:
    """The bytes of a reply of `size` numbers, as it is sent without a limit."""
    fed, transport = federation(Link())
    fed.gather(STEPS.numbers, size=size)
    return next(len(data) for name, data in reversed(transport.up) if name == "c1")


@EVERY_TRANSPORT
def test_a_reply_of_exactly_the_budget_passes_and_one_byte_more_does_not(kind):
    limit = reply_size(100)
    fed, transport = federation(Link(limit), kind)
    fed.gather(STEPS.numbers, size=100)
    transport.close()
    fed, transport = federation(Link(limit - 1), kind)
    with pytest.raises(LinkExceeded, match=r"'c1'.*bytes") as caught:
        fed.gather(STEPS.numbers, size=100)
    assert caught.value.client == "c1"
    transport.close()


def test_the_budget_is_for_a_round_and_not_for_an_exchange():
    fed, _ = federation(Link(2 * reply_size(100)))
    for round in (1, 2, 3):
        fed.begin_round(round)
        fed.gather(STEPS.numbers, size=100)
        fed.gather(STEPS.numbers, size=100)
    with pytest.raises(LinkExceeded):
        fed.gather(STEPS.numbers, size=0)


def test_joining_a_run_is_not_charged():
    fed, _ = federation(Link(reply_size(1)))
    assert fed.info["c1"].samples == 3
    fed.begin_round(0)
    fed.gather(STEPS.numbers, size=1)


@EVERY_TRANSPORT
def test_measuring_is_not_charged(kind):
    fed, transport = federation(Link(reply_size(2)), kind)
    w = np.zeros(2)
    for _ in range(3):
        fed.measure(Mean(MEASURE.value_and_gradient, w=w))
    fed.gather(STEPS.numbers, size=2)
    transport.close()


def test_what_travels_along_to_measure_leaves_room_for_the_algorithm():
    # The envelope names one more call and its counts; that, and not the measured numbers, is charged.
    fed, _ = federation(Link(reply_size(2) + 64))
    fed.attach((Mean(MEASURE.value_and_gradient, w=np.zeros(2)),), lambda results: None)
    fed.gather(STEPS.numbers, size=2)


def test_room_is_none_without_a_limit():
    fed, _ = federation(Link())
    assert fed.gather(STEPS.room) == {"c0": None, "c1": None, "c2": None}


def test_room_is_what_is_left():
    fed, _ = federation(Link(10_000))
    first = fed.gather(STEPS.room)["c1"]
    assert 9_000 < first < 10_000
    fed.gather(STEPS.numbers, size=100)
    assert fed.gather(STEPS.room)["c1"] < first - 800
    fed.begin_round(2)
    assert fed.gather(STEPS.room)["c1"] == first


@pytest.mark.parametrize("limit", [1000, 1001, 1007, 5000, 100_000])
def test_what_room_promises_fits(limit):
    made = clients(link=Link(limit))
    transport = Recorder(TRANSPORTS["in process"](made))
    fed = join(transport)
    sent = fed.gather(STEPS.as_much_as_fits)
    for name, data in transport.up[-3:]:
        assert len(data) <= limit
        # And it is not far from what would fit: the reserve for the envelope and a rounding to whole numbers.
        assert len(data) > limit - 300
        assert sent[name].size > 0


def test_two_steps_in_one_message_share_the_room():
    fed, _ = federation(Link(10_000))
    numbers, room = fed.exchange(Gather(STEPS.numbers, size=100), Gather(STEPS.room))
    alone, _ = federation(Link(10_000))
    assert room["c1"] == alone.gather(STEPS.room)["c1"] - (100 * 8 + 24)
    assert numbers["c1"].size == 100


def test_an_exceeded_link_leaves_no_trace():
    fed, _ = federation(Link(reply_size(100)))
    with pytest.raises(LinkExceeded):
        fed.gather(STEPS.numbers, size=200)
    assert len(fed.ledger.records) == 1  # the joining
    fed.gather(STEPS.numbers, size=100)  # nothing was charged for what was not sent


def test_no_one_sends_more_than_the_link_in_any_round():
    limit = 3 * reply_size(20)
    fed, transport = federation(Link(limit))
    transport.up.clear()
    for _ in range(3):
        fed.gather(STEPS.numbers, size=20)
    with pytest.raises(LinkExceeded):
        fed.gather(STEPS.numbers, size=20)
    sent = [len(data) for name, data in transport.up if name == "c1"][:-1]  # the last says that it failed
    assert sum(sent) == limit


@dataclass(frozen=True)
class Fading(Link):
    """A link whose capacity is left to chance, and some rounds without a limit."""

    def allowance(self, round, client):
        return None if round == 3 else int(5_000 + 100_000 * client.rng.random())


@EVERY_TRANSPORT
def test_the_capacity_of_a_round_is_drawn_once(kind):
    fed, transport = federation(Fading(), kind)
    rooms = []
    for round in (1, 2):
        fed.begin_round(round)
        first, second = fed.gather(STEPS.room)["c1"], fed.gather(STEPS.room)["c1"]
        # The second is smaller by the reply of the first: a whole number and its envelope.
        assert 0 < first - second < 200
        rooms.append(first)
    assert rooms[0] != rooms[1]
    transport.close()


def test_a_round_without_a_limit_has_none():
    fed, _ = federation(Fading())
    assert fed.gather(STEPS.room)["c1"] is not None
    fed.begin_round(3)
    assert fed.gather(STEPS.room)["c1"] is None
    fed.gather(STEPS.numbers, size=10**6)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_link_carries_something(limit):
    with pytest.raises(ConfigError):
        Link(limit)


@EVERY_TRANSPORT
def test_what_exceeds_a_link_is_named_and_says_what_to_do(kind):
    """The step is the largest of the algorithm's, not what travels along to measure."""
    fed, transport = federation(Link(500), kind)
    fed.attach((Mean(MEASURE.value_and_gradient, w=np.zeros(2)),), lambda results: None)
    with pytest.raises(LinkExceeded, match=r"least \d+ bytes per round, or use an algorithm that sends less") as caught:
        fed.exchange(Gather(STEPS.numbers, size=100), Gather(STEPS.name))
    assert caught.value.step == "algorithm.numbers"
    needed = int(str(caught.value).split("at least ")[1].split()[0])
    transport.close()
    fed, transport = federation(Link(needed), kind)
    fed.attach((Mean(MEASURE.value_and_gradient, w=np.zeros(2)),), lambda results: None)
    fed.exchange(Gather(STEPS.numbers, size=100), Gather(STEPS.name))
    transport.close()
