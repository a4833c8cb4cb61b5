"""Weak learners: what boosting adds up (Shen, Hassani, Kale and Karbasi 2022, section 2.2).

A `WeakLearner` holds hyper-parameters that both sides know. At a client it fits a `Function` to a target; the function
travels as arrays, from which either side builds it again with the same learner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsolve.errors import ConfigError, DataError, InputError
from fedsolve.features import FeatureMap
from fedsolve.federation.client import Client
from fedsolve.federation.client_owner import Watch
from fedsolve.federation.federation import Federation
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.plain.reading import Listed
from fedsolve.typing import Array

Arrays = tuple[Array, ...]


class Function(ABC):
    """One fitted function: predicts, and can be taken apart into arrays."""

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """h(x) of each row of X (dense or CSR): a number each, or a row of as many numbers as there are outputs.
        An array of the library of X (NumPy for CSR)."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """The arrays it travels and is saved as. They hold no row of anybody's data.

        All functions of a learner have as many arrays, each of the same dtype and number of dimensions, so that an
        ensemble can be saved as a few long arrays. Their entries are finite.
        """


@dataclass(frozen=True)
class Fitting:
    """What a learner fits: a target at a client's rows.

    X       the inputs, dense or CSR, or a torch matrix at a torch client
    target  a number for each row, or a row of as many numbers as there are outputs
    weight  what each row counts; None: all the same
    agreed  what `prepare` found
    rng     for learners that draw something
    kept    what the learner may compute once per client and use in every fit, such as binned inputs
    watch   whom a learner tells which rows a number of its function is made of; None: nobody
    """

    X: Array
    target: Array
    weight: Array | None
    agreed: Arrays
    rng: np.random.Generator
    kept: dict[str, object] = field(default_factory=dict)
    watch: Watch | None = None


class WeakLearner(ABC):
    """Fits one function at a time. Learners are frozen dataclasses of plain values.

    kind    the name under which an ensemble's file knows the learner again
    reader  reads the fields of a learner from plain values; one whose fields are objects other than feature maps has
            its own
    """

    kind: ClassVar[str]
    known: ClassVar[dict[str, type[WeakLearner]]] = {}  # by kind, for ensembles that are read back
    reader: ClassVar[Reader] = Reader(Listed("feature map", FeatureMap.known))

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        before = WeakLearner.known.get(kind)
        if before is not None and (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"{cls.__qualname__}: there is a weak learner {kind!r} already, {before.__qualname__}")
        WeakLearner.known[kind] = cls

    # ── clients ──

    @abstractmethod
    def fit(self, fitting: Fitting) -> Function:
        """The function of this learner that is nearest to the target in weighted squares (equation 6)."""

    def inputs(self, client: Client) -> Array:
        """The matrix that functions of this learner take at a client, or at its held-out rows: the inputs after
        preprocessing, unless a learner says otherwise."""
        return client.design.take(slice(None))

    # ── both sides ──

    @property
    def sends(self) -> str:
        """What a client sends of its functions, in words, for reports."""
        return "functions that it fitted to its rows"

    @abstractmethod
    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Function:
        """The function that `arrays` were of, for so many inputs and outputs of this shape.

        Raises WrongType for arrays that are no function of this learner: they may come from a client that lies.
        """

    def weighted_sum(self, functions: Sequence[Function], coefficients: Sequence[float], X: Array) -> Array:
        """Σ c_j h_j(x) of each row of X, for at least one function. A learner that knows a faster way than one
        function after the other overrides it."""
        total = coefficients[0] * functions[0](X)
        for coefficient, function in zip(coefficients[1:], functions[1:], strict=True):
            total = total + coefficient * function(X)
        return total

    def importances(self, function: Function, inputs: int) -> Array | None:
        """How much each input adds to a function; None where that is not defined."""
        return None

    # ── server ──

    def prepare(self, fed: Federation) -> Arrays:
        """What all clients must share before the first fit, such as the bins of trees; nothing by default."""
        return ()

    def width(self, fed: Federation) -> int:
        """How many inputs there are: those of the clients' designs, unless a learner says otherwise."""
        return fed.features

    # ── files ──

    def to_plain(self) -> Plain:
        """Kind and hyper-parameters as JSON knows them."""
        return {"kind": self.kind, "learner": to_plain(self)}

    @staticmethod
    def from_plain(plain: object) -> WeakLearner:
        """The learner that `to_plain` described; raises DataError for anything else."""
        kind = plain.get("kind") if isinstance(plain, Mapping) else None
        if not isinstance(plain, Mapping) or not isinstance(kind, str) or kind not in WeakLearner.known:
            raise DataError(
                f"unknown weak learner {kind!r}; known: {', '.join(sorted(WeakLearner.known))}. Import the module "
                "that defines it first"
            )
        try:
            return WeakLearner.known[kind].reader.make(WeakLearner.known[kind], plain["learner"], kind)
        except (InputError, KeyError) as error:
            raise DataError(f"not a weak learner {kind!r}: {error}") from None
