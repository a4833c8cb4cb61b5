"""What a server that lies may send to clients that train networks: every step answers with an error of the library."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.federation.protocol import collect
from fedsolve.inference.evaluation import Evaluation
from fedsolve.loop.measure_protocols import Measure
from tests.attack.subjects import Maker, Subject, dense, judged_rows, sparse, subject
from tests.attack.test_arguments import OF_ANY_LENGTH, kind_of_error, wrong_arrays
from tests.networks.problems import torch

UNANSWERED = {"proximal_step"}  # of FedProx, for losses with Hessians


def protocols() -> Iterator[tuple[str, Any, fs.Client]]:
    loss, two = fs.Network(fs.MLP((4,)), fs.Logistic()), fs.GradientSteps(epochs=2, step_size=0.1, batch_size=5)
    yield "algorithm", fs.FedAvg(loss, two), dense()
    yield "algorithm", fs.FedProx(loss, 0.5, two), dense()
    yield "algorithm", fs.FedDyn(loss, 0.5, two), dense(sample_weight=np.linspace(0.5, 2.0, 12))
    yield "algorithm", fs.Scaffold(loss, fs.Adam(steps=2, clip=1.0)), sparse()
    yield "measure", Measure(fs.Network(fs.MLP((4,)), fs.Softmax(classes=3), l2=0.1, dtype="float64")), dense()
    yield "evaluation", Evaluation(loss), judged_rows()


@cache
def calls() -> list[tuple[Subject, tuple[str, str], dict[str, Any]]]:
    found = []
    for name, protocol, client in protocols():
        made = subject(f"{type(protocol).__name__} {client.name}", dict(collect(name, protocol)), client)
        for route in made.requests:
            if route[0]:
                maker = Maker(made.runtime.steps[route][0], made.runtime.client, made.runtime.serves)
                found.append((made, route, maker.arguments(route[1])))
    return found


def test_arrays_of_another_shape_or_dtype() -> None:
    tried = 0
    for made, route, arguments in calls():
        for name, value in arguments.items():
            if not isinstance(value, np.ndarray):
                continue
            for what, wrong in wrong_arrays(value).items():
                kind = kind_of_error(made, route, {**arguments, name: wrong})
                if not (what in ("nothing", "twice as long") and name in OF_ANY_LENGTH):
                    assert kind is not None, f"{made.name}, {'.'.join(route)}, {name}: {what}"
                tried += 1
    assert tried > 100


def test_sound_requests_are_answered() -> None:
    for made, route, arguments in calls():
        kind = kind_of_error(made, route, arguments)
        assert (kind == "WrongType") if route[1] in UNANSWERED else (kind is None), (made.name, route, kind)


def test_numbers_that_are_none_end_in_errors_or_replies_that_say_so() -> None:
    """Weights of NaN, infinity and 1e300 make no other fault; the server leaves replies that are not finite out."""
    state = torch.get_rng_state()
    for made, route, arguments in calls():
        for name, value in arguments.items():
            if isinstance(value, np.ndarray):
                for number in (np.nan, np.inf, -np.inf, 1e300):
                    kind_of_error(made, route, {**arguments, name: np.full(value.shape, number)})
            if isinstance(value, float):
                for number in (0.0, -1.0, np.nan, np.inf, 1e300):
                    kind_of_error(made, route, {**arguments, name: number})
    assert torch.equal(torch.get_rng_state(), state)
