"""Clients whose arrays are torch tensors, on the CPU or on a GPU: the same solution, no change in any algorithm."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from tests.algorithms.test_matrix import ALL, EXACT
from tests.extras import optional
from tests.problems import PROBLEMS, Problem

torch = optional("torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
DENSE = [
    "squared, two outputs | unbalanced",
    "squared, free intercept | one sample at a client",
    "logistic, free intercept | label-skewed",
    "logistic | weighted",
    "softmax, free intercept | unbalanced",
    "poisson, free intercept | unbalanced",
    "poisson | offsets",
]


def on(device: str, problem: Problem) -> list[fs.Client]:
    """The same clients with tensors on a device."""

    def tensor(array: np.ndarray | None) -> object:
        return None if array is None else torch.tensor(array, dtype=torch.float64, device=device)

    return [
        fs.Client(c.name, tensor(c.X), tensor(c.y), tensor(c.sample_weight), offset=tensor(c.offset))
        for c in problem.clients()
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "name",
    [
        "Newton",
        "FedNewtonCG",
        "FedNewtonCG, diagonal",
        "FedNL",
        "SHED",
        "GIANT",
        "AGD",
        "Scaffold",
        "FedDyn",
        "FedSplit",
    ],
)
@pytest.mark.parametrize("case", DENSE)
def test_exact_algorithms_reach_the_pooled_solution(device: str, name: str, case: str) -> None:
    problem = PROBLEMS[case]
    make, rounds = EXACT[name]
    result = fs.run(
        make(problem), on(device, problem), rounds=rounds, tolerance=1e-11, measure=1 if rounds < 100 else 20
    )
    assert problem.distance(result.model.w) <= 1e-8


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_takes_the_same_steps(device: str, name: str) -> None:
    problem = PROBLEMS["logistic, penalised intercept | unbalanced"]
    make, _ = ALL[name]
    theirs = fs.run(make(problem), on(device, problem), rounds=4, tolerance=0.0)
    ours = fs.run(make(problem), problem.clients(), rounds=4, tolerance=0.0)
    np.testing.assert_allclose(theirs.model.w, ours.model.w, rtol=1e-9, atol=1e-12)
    assert theirs.ledger.total().bytes_up == ours.ledger.total().bytes_up


def test_clients_of_different_kinds_work_together() -> None:
    problem = PROBLEMS["logistic, free intercept | label-skewed"]
    mixed = [
        a if index % 2 else b for index, (a, b) in enumerate(zip(on("cpu", problem), problem.clients(), strict=True))
    ]
    result = fs.run(fs.Newton(problem.loss), mixed, tolerance=1e-11)
    assert problem.distance(result.model.w) <= 1e-8
