"""Damaged messages end in errors of ours, at every client step and at the server."""

import pytest

from fedsolve.runfiles import registry
from fedsolve.wire.messages import Failure, decode_answer
from tests.attack.fuzz_messages import ADDRESS_SPACE, run
from tests.attack.subjects import protocols_with_steps, steps_of, subjects


def test_every_step_has_a_sound_request():
    """What is damaged was sound: each request is answered, and every step of the library is asked by one."""
    for subject in subjects():
        for route, reply in subject.replies.items():
            answer = decode_answer(reply, subject.runtime.types)
            assert not isinstance(answer, Failure), f"{subject.name}, {route}: {answer}"
    asked = {each for subject in subjects() for each in subject.steps()}
    there_are = {(kind, step) for kind in protocols_with_steps() for step in steps_of(kind)}
    assert there_are <= asked, "give tests/attack/subjects.py a protocol, or arguments, for these"
    algorithms = {kind for kind, _ in asked}
    assert set(registry.names("algorithm").values()) <= algorithms


def _fuzz(count: int, seed: int) -> None:
    outcome = run(count, seed)
    assert not outcome.faults, "\n".join(outcome.faults[:10])
    assert outcome.count == count
    # The rest of the suite would not notice a fuzz that no longer gets past the first check.
    assert outcome.requests["reply"] > count / 50
    assert outcome.reached.total() > count / 10
    assert outcome.replies["reply"] > count / 100
    assert outcome.peak_mb <= ADDRESS_SPACE / 2**20


def test_damaged_messages_end_in_errors_of_ours():
    _fuzz(5000, seed=0)


@pytest.mark.slow
def test_200_000_damaged_messages_end_in_errors_of_ours():
    _fuzz(200_000, seed=1)
