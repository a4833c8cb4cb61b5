"""Weak learners: what boosting adds up (Shen, Hassani, Kale and Karbasi 2022, section 2.2).

A `WeakLearner` holds hyper-parameters that both sides know. At a client it fits a `Function` to a target; the function
travels as arrays, from which either side builds it again with the same learner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsolve.federation.federation import Federation
from fedsolve.typing import Array

Arrays = tuple[Array, ...]


class Function(ABC):
    """One fitted function: predicts, and can be taken apart into arrays."""

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """h(x) of each row of X (dense or CSR): a number each, or a row of as many numbers as there are outputs."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """The arrays it travels and is saved as. They hold no row of anybody's data."""


@dataclass(frozen=True)
class Fitting:
    """What a learner fits: a target at a client's rows.

    X       the inputs, dense or CSR, or a torch matrix at a torch client
    target  a number for each row, or a row of as many numbers as there are outputs
    weight  what each row counts; None: all the same
    agreed  what `prepare` found
    rng     for learners that draw something
    kept    what the learner may compute once per client and use in every fit, such as binned inputs
    """

    X: Array
    target: Array
    weight: Array | None
    agreed: Arrays
    rng: np.random.Generator
    kept: dict[str, object] = field(default_factory=dict)


class WeakLearner(ABC):
    """Fits one function at a time. Learners are frozen dataclasses of plain values.

    kind  the name under which an ensemble's file knows the learner again
    """

    kind: ClassVar[str]

    @abstractmethod
    def fit(self, fitting: Fitting) -> Function:
        """The function of this learner that is nearest to the target in weighted squares (equation 6)."""

    @abstractmethod
    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Function:
        """The function that `arrays` were of, for so many inputs and outputs of this shape.

        Raises WrongType for arrays that are no function of this learner: they may come from a client that lies.
        """

    def prepare(self, fed: Federation) -> Arrays:
        """What all clients must share before the first fit, such as the bins of trees; nothing by default."""
        return ()

    def importances(self, function: Function, inputs: int) -> Array | None:
        """How much each input adds to a function; None where that is not defined."""
        return None
