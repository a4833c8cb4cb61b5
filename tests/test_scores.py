"""One score for predictions, wherever they are scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsolve.errors import DataError
from fedsolve.models.linear import LinearModel
from fedsolve.models.scores import score, score_name


def model(link: str, classes: Any = None) -> LinearModel:
    shape = (2, len(classes) if classes is not None else 3) if link == "softmax" else (2,)
    return LinearModel(np.zeros(shape), False, link, classes)


@pytest.mark.parametrize(
    ("of", "predictions", "truth", "expected"),
    [
        (model("logistic"), [1, 0, 1, 1], [1.0, 0.0, 0.0, 1.0], 0.75),
        (model("logistic"), [1, 0], [1, -1], 1.0),  # whatever is not the second class is the first
        (model("logistic", ("no", "yes")), ["yes", "no", "no"], ["yes", "no", "yes"], 2 / 3),
        (model("logistic", ("not b", "b")), ["b", "not b", "not b"], ["b", "a", "c"], 1.0),
        (model("logistic", (-1, 1)), [-1, 1], ["-1", "1"], 1.0),  # as a file has them
        (model("softmax"), [0, 1, 2, 2], [0, 1, 2, 0], 0.75),
        (model("softmax"), [0, 1, 2], np.eye(3), 1.0),
        (model("softmax", ("a", "b", "c")), ["a", "b", "c"], ["a", "c", "c"], 2 / 3),
        (model("softmax", ("a", "b", "c")), ["a", "b"], ["z", "b"], 0.5),  # no class of the model's
        (model("identity"), [1.0, 2.0, 3.0], [1, 2, 3], 1.0),
        (model("identity"), [2.0, 2.0, 2.0], [1, 2, 3], 0.0),
        (model("identity"), [2.0, 2.0], ["2", "2"], None),  # no spread to explain
        (model("exponential"), [1.0, 3.0], [1, 2], -1.0),
    ],
)
def test_scores(of: LinearModel, predictions: Any, truth: Any, expected: float | None) -> None:
    found = score(of, np.asarray(predictions), np.asarray(truth))
    assert found == (None if expected is None else pytest.approx(expected))


def test_text_for_a_regression() -> None:
    with pytest.raises(DataError, match="the targets are text, and this model is a regression"):
        score(model("identity"), np.zeros(2), np.array(["a", "b"], dtype=object))


@pytest.mark.parametrize("of", [model("logistic"), model("logistic", ("dead", "alive")), model("softmax")])
def test_targets_that_are_called_otherwise_are_no_score_of_zero(of: LinearModel) -> None:
    with pytest.raises(DataError, match=r"the targets are \['no', 'yes'\], and this model calls its classes"):
        score(of, np.zeros(3, dtype=int), np.array(["yes", "no", "yes"], dtype=object))


def test_a_file_without_the_class_that_is_told_from_the_rest_has_a_score() -> None:
    assert score(model("logistic", ("not b", "b")), np.array(["not b", "b"]), np.array(["a", "c"])) == 0.5


def test_names() -> None:
    assert score_name(model("softmax")) == "accuracy"
    assert score_name(model("exponential")) == score_name(None) == "R²"
