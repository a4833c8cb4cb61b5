"""What a step is asked with is bounded by what its client has: wrong sizes, shapes and dtypes are errors of ours."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve import errors
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.data.fitted_transform import Transform
from fedsolve.federation.client import Client
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.protocol import collect
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.wire.messages import Failure, decode_answer
from tests.attack.subjects import Maker, Subject, joined, request, subjects

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # some numbers are meant to overflow


def kind_of_error(subject: Subject, route: tuple[str, str], arguments: dict[str, Any]) -> str | None:
    """The name of the error that a call ends in; it must be one of ours."""
    answer = decode_answer(subject.answer(request({route: arguments})), subject.runtime.types)
    if not isinstance(answer, Failure):
        return None
    assert issubclass(getattr(errors, answer.kind, int), errors.FedsolveError), f"{subject.name}, {route}: {answer}"
    return answer.kind


@cache
def calls() -> list[tuple[Subject, tuple[str, str], dict[str, Any]]]:
    """A call of every step, with every loss."""
    found = {}
    for subject in subjects():
        for route in subject.requests:
            if route[0]:
                protocol = subject.runtime.steps[route][0]
                arguments = Maker(protocol, subject.runtime.client, subject.runtime.serves).arguments(route[1])
                found[type(protocol), type(getattr(protocol, "loss", None)), route[1]] = subject, route, arguments
    return list(found.values())


# What has no one length: steps of a grid, folds, columns of a sketch; cut points have a row for each class, or none.
OF_ANY_LENGTH = {"edges", "steps", "grid", "questions", "fits", "V", "vectors", "values"}


def wrong_arrays(array: np.ndarray) -> dict[str, Any]:
    return {
        "whole numbers": np.zeros(array.shape, dtype=np.int64) if array.dtype.kind == "f" else array.astype(float),
        "half precision": array.astype(np.float16),
        "true and false": array.astype(bool),
        "one more dimension": array[..., None],
        "one dimension in front": array[None],
        "three dimensions": np.zeros((2, 3, 4)),
        "no dimension": np.array(1.0),
        "nothing": np.zeros((0, *array.shape[1:])),
        "twice as long": np.concatenate([array, array]),
        "100,000 more": np.concatenate([array.reshape(-1), np.ones(100_000)]),
    }


def test_arrays_of_another_shape_or_dtype_are_rejected_by_every_step():
    tried = 0
    for subject, route, arguments in calls():
        for name, value in arguments.items():
            if not isinstance(value, np.ndarray) or not value.size:
                continue
            for what, wrong in wrong_arrays(value).items():
                kind = kind_of_error(subject, route, {**arguments, name: wrong})
                where = f"{subject.name}, {'.'.join(route)}, {name}: {what}"
                if not (what in ("nothing", "twice as long") and name in OF_ANY_LENGTH):
                    assert kind is not None, where
                tried += 1
    assert tried > 1000


def test_numbers_that_are_no_sizes_are_rejected_or_harmless():
    """Nothing but errors of ours, whatever number comes: the sizes of what is computed are the client's own."""
    numbers = [-1, -(2**63), 2**31, 2**63 - 1, 2**64 - 1, math.nan, math.inf, -1.0, 0.0, 1e300]
    for subject, route, arguments in calls():
        for name, value in arguments.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                for number in numbers:
                    kind_of_error(subject, route, {**arguments, name: number})


@pytest.mark.parametrize("name", ["count", "horizon"])
def test_numbers_of_eigenpairs_are_not_negative(name):
    for subject, route, arguments in calls():
        if route[1] == "local_eigenpairs":
            assert kind_of_error(subject, route, {**arguments, name: -1}) == "WrongType"


@pytest.mark.parametrize("step_size", [0.0, -1.0, math.nan, math.inf])
def test_a_step_size_is_positive(step_size):
    for subject, route, arguments in calls():
        if "step_size" in arguments:
            assert kind_of_error(subject, route, {**arguments, "step_size": step_size}) == "WrongType"


def test_a_weight_vector_does_not_broadcast():
    """A column of p weights gave n² predictions of n samples, and a value that was wrong without a word."""
    client = Client("a", np.eye(4), np.ones(4))
    for loss in (fs.Squared(l2=1.0), fs.Logistic(l2=1.0)):
        with pytest.raises(errors.WrongType, match="shape"):
            loss.value(client, np.zeros((4, 1)))
        with pytest.raises(errors.WrongType, match="shape"):
            loss.gradient(client, np.zeros((4, 1)))


def test_width_allocates_what_the_client_has():
    """The number of clients was an argument: `of=2e8` made a client allocate 1.6 GB."""
    preprocess = Preprocess()
    runtime = joined(Runtime(Client("a", np.eye(3), np.ones(3)), dict(collect("preprocess", preprocess))))
    route = ("preprocess", "width")
    answer = decode_answer(runtime.answer_bytes(request({route: {"place": 0, "of": 2 * 10**8}})), runtime.types)
    assert isinstance(answer, Failure)
    assert answer.kind == "WrongType"
    assert decode_answer(runtime.answer_bytes(request({route: {}}, 2)), runtime.types).results[0].value == 3


def test_a_line_search_tries_its_own_number_of_steps():
    search = fs.Armijo(halvings=3).of(fs.Squared())
    runtime = joined(Runtime(Client("a", np.eye(2), np.ones(2)), {"search": search}))
    for length, fits in ((5, True), (6, False), (10**6, False)):
        arguments = {"w": np.zeros(2), "p": np.ones(2), "steps": np.zeros(length)}
        answer = decode_answer(runtime.answer_bytes(request({("search", "losses_along"): arguments}, length)), ())
        assert isinstance(answer, Failure) is not fits


def test_a_question_of_a_cross_validation_is_asked_once():
    for subject, route, arguments in calls():
        for name in ("questions", "fits"):
            if name in arguments and route[1] != "held_out":
                for wrong in ([0, 0], [-1, 0], [0, 3], [0, 2**40]):
                    assert kind_of_error(subject, route, {**arguments, name: np.array(wrong)}) == "WrongType"


def test_a_step_that_builds_on_what_nobody_said():
    """A KeyError before."""
    for subject, route, arguments in calls():
        if route[1] in ("local_eigenpairs", "local_direction", "local_newton_step", "parabola"):
            data = request({route: arguments})
            answer = decode_answer(subject.answer(data, remembers=False), subject.runtime.types)
            assert isinstance(answer, Failure)
            assert answer.kind == "NotRemembered"
            assert "ask that step first" in answer.text


# ── preprocessing ──

COLUMNS = (Numeric("age"), Categorical("sex", ("f", "m")))


def adopt(transform: Any) -> Failure | None:
    client = Client("a", np.array([[1.0, "f"], [2.0, "m"]], dtype=object), [0, 1], feature_names=["age", "sex"])
    runtime = joined(Runtime(client, dict(collect("preprocess", Preprocess(Schema(COLUMNS))))))
    answer = decode_answer(
        runtime.answer_bytes(request({("preprocess", "adopt"): {"transform": transform}})), runtime.types
    )
    return answer if isinstance(answer, Failure) else None


def test_a_transform_is_of_the_columns_declared_here():
    zero, one = np.zeros(2), np.ones(2)
    assert adopt(Transform(COLUMNS, zero, zero, one)) is None
    many = Categorical("sex", tuple(map(str, range(5000))))
    failure = adopt(Transform((COLUMNS[0], many), zero, zero, one))
    assert failure is not None
    assert failure.kind == "ProtocolMismatch"
    more = (*COLUMNS, *(Numeric(f"x{j}") for j in range(5000)))
    failure = adopt(Transform(more, np.zeros(5002), np.zeros(5002), np.ones(5002)))
    assert failure is not None
    assert failure.kind == "ProtocolMismatch"


@pytest.mark.parametrize(
    ("fill", "centre", "scale"),
    [
        ([0.0], [0.0, 0.0], [1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0]),
        ([0.0, 0.0], [[0.0, 0.0]], [1.0, 1.0]),
        ([0.0, 0.0], [math.nan, 0.0], [1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0], [0.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0], [-1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0], [math.inf, 1.0]),
        ([math.inf, 0.0], [0.0, 0.0], [1.0, 1.0]),
        ([0.0, 2.0], [0.0, 0.0], [1.0, 1.0]),
        ([0.0, 0.5], [0.0, 0.0], [1.0, 1.0]),
        ([0.0, 1e300], [0.0, 0.0], [1.0, 1.0]),
    ],
)
def test_a_transform_has_sound_numbers(fill, centre, scale):
    with pytest.raises(errors.DataError):
        Transform(COLUMNS, np.array(fill), np.array(centre), np.array(scale))


def test_a_scale_that_overflows_is_rejected_when_it_is_adopted():
    client = Client("a", np.array([[1e10], [2e10]]), [0, 1])
    runtime = joined(Runtime(client, dict(collect("preprocess", Preprocess()))))
    tiny = Transform((Numeric("x0"),), np.zeros(1), np.zeros(1), np.array([1e-305]))
    data = request({("preprocess", "adopt"): {"transform": tiny}})
    answer = decode_answer(runtime.answer_bytes(data), runtime.types)
    assert isinstance(answer, Failure)
    assert answer.kind == "DataError"


# ── diagnosis ──


def test_matrices_of_another_order_or_not_finite():
    for subject, route, arguments in calls():
        for name, value in arguments.items():
            if isinstance(value, Symmetric):
                for wrong in (Symmetric(np.eye(value.n + 1)), Symmetric(np.full((value.n, value.n), np.nan))):
                    assert kind_of_error(subject, route, {**arguments, name: wrong}) == "WrongType"
