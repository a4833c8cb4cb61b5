"""Damaged messages end in errors of ours, at every client step and at the server."""

import importlib.util

import pytest

import fedsolve as fs
from fedsolve.runfiles import registry
from fedsolve.wire.messages import Failure, decode_answer
from tests.attack.fuzz_messages import ADDRESS_SPACE, run
from tests.attack.subjects import networks, protocols_with_steps, steps_of, subjects
from tests.extras import optional


def test_every_step_has_a_sound_request():
    """What is damaged was sound: each request is answered, and every step of the library is asked by one."""
    known = subjects() if importlib.util.find_spec("torch") is None else subjects() + networks()
    for subject in known:
        for route, reply in subject.replies.items():
            answer = decode_answer(reply, subject.runtime.types)
            assert not isinstance(answer, Failure), f"{subject.name}, {route}: {answer}"
    asked = {each for subject in known for each in subject.steps()}
    there_are = {(kind, step) for kind in protocols_with_steps() for step in steps_of(kind)}
    if importlib.util.find_spec("torch") is None:  # networks need it
        there_are = {each for each in there_are if each[0] not in (fs.FFGBDistill, fs.FedAvgDistill)}
    assert there_are <= asked, "give tests/attack/subjects.py a protocol, or arguments, for these"
    algorithms = {kind for kind, _ in there_are}
    assert set(registry.names("algorithm").values()) - algorithms <= {fs.FFGBDistill, fs.FedAvgDistill}


def _fuzz(count: int, seed: int, networks: bool = False) -> None:
    outcome = run(count, seed, networks=networks)
    assert not outcome.faults, "\n".join(outcome.faults[:10])
    assert outcome.count == count
    # The rest of the suite would not notice a fuzz that no longer gets past the first check.
    assert outcome.requests["reply"] > count / 50
    assert outcome.reached.total() > count / 10
    assert outcome.replies["reply"] > count / 100
    assert outcome.peak_mb <= ADDRESS_SPACE / 2**20


def test_damaged_messages_end_in_errors_of_ours():
    _fuzz(5000, seed=0)


def test_damaged_messages_to_networks_end_in_errors_of_ours():
    optional("torch")
    _fuzz(1000, seed=0, networks=True)


@pytest.mark.slow
def test_200_000_damaged_messages_end_in_errors_of_ours():
    _fuzz(200_000, seed=1)
