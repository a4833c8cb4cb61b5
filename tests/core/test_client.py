"""A client's chance, minibatches and arrays of its own kind."""

from dataclasses import dataclass

import array_api_strict as strict
import numpy as np
import pytest

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.losses import Squared
from fedsolve.numerics.structured_arrays import LowRank, Symmetric
from fedsolve.typing import Array
from tests.core.federations import STEPS, clients, join


def test_a_draw_depends_on_seed_client_round_exchange_and_call_only():
    def draws(seed):
        fed = join(InProcess(made), seed=seed)
        return [fed.gather(STEPS.draw) for _ in range(2)]

    made = clients()
    first = draws(0)
    assert draws(0) == first  # the same clients in a second run: nothing is left of the first
    assert draws(1) != first
    flat = [value for one in first for value in one.values()]
    assert len(set(flat)) == 6  # no two clients, no two exchanges alike


class Scaled:
    def apply(self, X):
        return X * 3.0


def test_a_subset_of_preprocessed_inputs_is_preprocessed():
    client = Client("a", np.arange(8.0).reshape(4, 2), np.ones(4))
    client.session["transform"] = Scaled()
    part = client.subset(np.array([3, 1]))
    np.testing.assert_array_equal(part.design.matvec(np.ones(2)), [3 * 13.0, 3 * 5.0])
    np.testing.assert_array_equal(client.design.matvec(np.ones(2)), 3 * np.array([1.0, 5.0, 9.0, 13.0]))


@dataclass(frozen=True)
class Point:
    w: Array
    pair: tuple[Array, float]


@dataclass(frozen=True)
class Kinds:
    """Says of each argument whether it is of the client's own kind, and sends it back."""

    loss: Squared

    @client_step
    def echo(self, client: Client, w: Array) -> Array:
        assert type(w) is type(client.y)
        return w * 2.0

    @client_step
    def containers(self, client: Client, items: dict[str, Array], pair: tuple[Array, float]) -> list[Array]:
        assert type(items["a"]) is type(pair[0]) is type(client.y)
        return [items["a"], pair[0]]

    @client_step
    def dataclass(self, client: Client, point: Point) -> Point:
        assert type(point.w) is type(point.pair[0]) is type(client.y)
        return Point(point.w + 1.0, (point.pair[0], point.pair[1]))

    @client_step
    def matrix(self, client: Client, H: Symmetric) -> Symmetric:
        assert type(H.full()) is type(client.y)
        return H.add_diagonal(client.y)

    @client_step
    def low_rank(self, client: Client, H: LowRank) -> LowRank:
        assert type(H.vectors) is type(client.y)
        return H


@pytest.fixture
def strict_federation():
    client = Client("s", strict.asarray(np.eye(3)), strict.asarray(np.ones(3)))
    kinds = Kinds(Squared())
    transport = InProcess([client])
    transport.open({"algorithm": kinds})
    fed = Federation(transport, {"algorithm": kinds})
    fed.join()
    return fed, kinds


def test_arrays_are_converted_both_ways(strict_federation):
    fed, kinds = strict_federation
    w = np.arange(3.0)
    np.testing.assert_array_equal(fed.mean(kinds.echo, w=w), 2 * w)
    assert type(fed.mean(kinds.echo, w=w)) is np.ndarray
    a, b = fed.gather(kinds.containers, items={"a": w}, pair=(w, 1.0))["s"]
    assert type(a) is type(b) is np.ndarray


def test_dataclasses_are_converted_both_ways(strict_federation):
    fed, kinds = strict_federation
    w = np.arange(3.0)
    answer = fed.gather(kinds.dataclass, point=Point(w, (w, 1.0)))["s"]
    assert type(answer) is Point
    np.testing.assert_array_equal(answer.w, w + 1)
    assert type(answer.pair[0]) is np.ndarray


@pytest.mark.parametrize("packed", [False, True])
def test_symmetric_matrices_are_converted_both_ways(strict_federation, packed):
    fed, kinds = strict_federation
    A = np.arange(9.0).reshape(3, 3)
    A = A + A.T
    H = Symmetric.from_packed(3, A[np.triu_indices(3)]) if packed else Symmetric(A)
    answer = fed.gather(kinds.matrix, H=H)["s"]
    assert type(answer.full()) is np.ndarray
    np.testing.assert_array_equal(answer.full(), A + np.eye(3))


def test_low_rank_matrices_are_converted_both_ways(strict_federation):
    fed, kinds = strict_federation
    answer = fed.gather(kinds.low_rank, H=LowRank(np.ones((3, 1)), np.ones(1)))["s"]
    np.testing.assert_array_equal(answer.dense(), np.ones((3, 3)))
