"""A client: its data, what it remembers, what it can compute again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import array_api_compat as api
import numpy as np
import scipy.sparse as sp

from fedsolve.errors import DataError
from fedsolve.federation.array_kinds import map_arrays
from fedsolve.federation.client_checks import check_client_name
from fedsolve.federation.client_inputs import (
    checked_inputs,
    checked_offset,
    checked_targets,
    checked_weights,
    declared_classes,
    finite_inputs,
    from_series,
    labels,
)
from fedsolve.federation.links import UNLIMITED, Link
from fedsolve.federation.memory import SESSION, Memory, SessionMemory, session_memory
from fedsolve.federation.protocol import client_step
from fedsolve.numerics.design import Design, as_design
from fedsolve.numerics.linalg import like, namespace, to_numpy
from fedsolve.tables.column_names import named_matrix, order_of, take_columns
from fedsolve.tables.labels import Classes, Labels
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Counts

if TYPE_CHECKING:
    from fedsolve.federation.client_owner import Watch

__all__ = ["Client", "Memory", "client_step"]

T = TypeVar("T")

_COLUMNS, _TRANSFORM = SESSION + "columns", SESSION + "transform"  # in the memory


class Client:
    """One party's data. `X` is a NumPy, CSR or Array API matrix; raw columns (an object array, or NaN for what is
    missing) are allowed until a preprocessing protocol has made numbers of them.

    feature_names  the names of the columns; a data frame brings its own. Clients with the same names in another order
                   agree on one when they join a run, and predictions match data frames by them
    y              the targets; None for unlabelled data, which only the server may have (`run(…, server=Client(…))`)
    classes        what the labels 0, 1, … stand for, such as ("no", "yes"); needed for text labels. All clients of a
                   run declare the same, also one that has no sample of some class, and the model predicts these
    """

    # Slots, because thousands of clients are visited in turn and each visit finds the cache cold.
    __slots__ = (
        "X", "__weakref__", "_cache", "_checked", "_columns", "_design", "_generator", "_held", "_ordered", "_rows",
        "_transform", "classes", "counts", "feature_names", "fingerprints", "is_numpy", "key", "link", "memory",
        "moment", "n_samples", "name", "numbering", "offset", "protocols", "raw", "room", "sample_weight", "vectors",
        "watch", "weight", "xp", "y",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        X: Array,
        y: Array | None,
        sample_weight: Array | None = None,
        *,
        offset: Array | None = None,
        feature_names: Sequence[str] | None = None,
        classes: Sequence[object] | None = None,
        link: Link | None = None,
    ) -> None:
        self.name = check_client_name(name)
        whose = f"client {name!r}"
        X, self.feature_names = named_matrix(X, feature_names, whose)  # a data frame brings its names
        # What a loaded text target was numbered by: compared with that of the others, and no more.
        self.numbering: Classes | None = y.classes if isinstance(y, Labels) else None
        y, self.classes = (None, declared_classes(whose, classes)) if y is None else labels(whose, y, classes)
        sample_weight, offset = (from_series(each) for each in (sample_weight, offset))
        self.X, self.raw = checked_inputs(name, X)
        self.y: Array = None if y is None else checked_targets(name, y, self.X)
        # An array of this client's kind, with a row for each sample.
        self._rows = checked_targets(name, np.zeros(self.X.shape[0]), self.X) if y is None else self.y
        self.sample_weight = checked_weights(name, sample_weight, self._rows)
        self.offset = checked_offset(name, offset, self._rows)
        if self.feature_names is not None and len(self.feature_names) != self.X.shape[1]:
            raise DataError(f"client {name!r}: {len(self.feature_names)} feature names for {self.X.shape[1]} columns")
        if link is not None and not isinstance(link, Link):
            raise DataError(f"client {name!r}: link is a Link, such as Link(bytes_per_round=2000), got {link!r}")
        self.link = link or UNLIMITED
        self.is_numpy = isinstance(self._rows, np.ndarray)
        self.xp: Any = namespace(self._rows)
        self.n_samples: int = self.X.shape[0]
        self.weight: float = (
            float(self.n_samples) if self.sample_weight is None else float(to_numpy(self.sample_weight).sum())
        )
        self.memory = Memory({})
        self.counts: Counts = {}
        self.key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        # The call in progress: (seed, round, exchange, call). Set by `enter`.
        self.moment: tuple[int, int, int, int] = (0, 0, 0, 0)
        # How many bytes the reply of the step in progress may have; None: as many as it likes.
        self.room: int | None = None
        # How many vectors beside the gradient its link lets it send in this round; None: as many as it likes.
        self.vectors: int | None = None
        # Told of every point at which something is computed from the rows, and may raise; None: nobody is.
        self.watch: Watch | None = None
        self.protocols: dict[str, object] = {}
        self.fingerprints: dict[str, str] = {}
        self._cache: dict[object, tuple[Array | None, Value]] = {}
        self._transform: Value = None
        self._columns: tuple[str, ...] | None = None  # in the order the federation has agreed on; None: as given
        self._ordered: tuple[tuple[int, ...], Array] | None = None  # the inputs in another order, once asked for
        self._design: Design | None = None if self.raw else as_design(self.X)
        self._checked: Memory | None = None  # the memory that the design was last seen to follow
        self._generator: np.random.Generator | None = None
        self._held: Client | None = None

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[object, ...]]:
        # For worker processes that are spawned: the data goes along, what can be computed again does not.
        kept = (self.name, self.X, self.y, self.sample_weight, self.offset, self.feature_names, self.link)
        return _rebuild, (*kept, self.classes, self.numbering, self._held)

    def __repr__(self) -> str:
        return f"Client({self.name!r}, {self.n_samples} × {self.X.shape[1]})"

    # ── data ──

    @property
    def design(self) -> Design:
        """The inputs to learn from: as given, or as the run's preprocessing has made them."""
        memory = self.memory
        if self._design is None or memory is not self._checked or memory.changed:
            self._check_design()
        return self._design  # type: ignore[return-value]

    def _check_design(self) -> None:
        """The inputs follow what the memory says of them."""
        known = self.memory.data
        if (
            self._design is None
            or known.get(_TRANSFORM) is not self._transform
            or known.get(_COLUMNS) is not self._columns
        ):
            self._renew_design()
        self._checked = self.memory

    def _renew_design(self) -> None:
        self._transform, self._columns = self.memory.data.get(_TRANSFORM), self.memory.data.get(_COLUMNS)
        transform = self._transform
        self._cache.clear()  # what was computed from other inputs is void
        if transform is not None:
            columns = getattr(transform, "columns", None)
            names = None if columns is None else [column.name for column in columns]
            inputs = self.inputs if names is None else self.ordered(names)
            keeps_missing = getattr(transform, "keeps_missing", False)
            self._design = as_design(finite_inputs(self.name, transform.apply(inputs), keeps_missing))
        elif self.raw:
            raise DataError(
                f"client {self.name!r} has text columns or missing values, which no loss can use: "
                "encode and impute them first, with run(…, preprocess=…)"
            )
        else:
            self._design = as_design(self.inputs)

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the columns, in the order the federation has agreed on; None: they have none."""
        return self.memory.data.get(_COLUMNS) or self.feature_names

    @property
    def inputs(self) -> Array:
        """X with its columns in the order the federation has agreed on."""
        agreed = self.memory.data.get(_COLUMNS)
        return self.X if agreed is None else self.ordered(agreed)

    def ordered(self, names: Sequence[str]) -> Array:
        """X with its columns in the order of these names; as it is where it has none. Raises DataError if its columns
        are others."""
        if self.feature_names is None:
            return self.X
        expected = "give it exactly the columns that the others have, or that the schema declares, in any order"
        order = tuple(order_of(self.feature_names, names, f"client {self.name!r}", expected))
        if self._ordered is None or self._ordered[0] != order:
            self._ordered = (order, take_columns(self.X, order))
        return self._ordered[1]

    def localise(self, value: Value) -> Value:
        """An argument from the wire as this client's own kind of array."""
        return value if self.is_numpy else map_arrays(value, lambda array: like(array, self._rows))

    def globalise(self, value: Value) -> Value:
        """A reply as NumPy."""
        return value if self.is_numpy else map_arrays(value, to_numpy)

    def subset(self, index: Array) -> Client:
        """Some of this client's samples, as a client of their own (a minibatch)."""
        part = Client.__new__(Client)
        for slot in Client.__slots__:
            if slot != "__weakref__":
                setattr(part, slot, getattr(self, slot))
        where = index if self.is_numpy else self.xp.asarray(index, device=api.device(self._rows))

        def take(array: Array | None) -> Array | None:
            return None if array is None else self.xp.take(array, where, axis=0)

        part.y, part.sample_weight, part.offset = take(self.y), take(self.sample_weight), take(self.offset)
        part.n_samples = len(index)
        part.weight = float(len(index))
        if part.sample_weight is not None:  # a batch without weight has a loss of zero, not of 0/0
            part.weight = float(self.xp.sum(part.sample_weight)) or 1.0
        # Its design is final: it has no memory of its own from which a transform could be taken.
        part._design, part._transform, part._columns = self.design.rows(index), None, None
        part.memory, part.counts, part._cache = Memory({}), {}, {}
        return part

    def reweighted(self, sample_weight: Array) -> Client:
        """The same samples under other weights (of this client's kind of array), as a client of its own.

        It computes with the same inputs and counts for this client. What was computed from the inputs alone, which is
        kept under a text, it has too; what may depend on the weights is kept under a loss, and stays behind.
        """
        _ = self.design
        twin = Client.__new__(Client)
        for slot in Client.__slots__:
            if slot != "__weakref__":
                setattr(twin, slot, getattr(self, slot))
        twin.sample_weight, twin.weight = sample_weight, float(self.xp.sum(sample_weight))
        twin._cache = {
            key: kept for key, kept in self._cache.items() if isinstance(key, tuple) and isinstance(key[0], str)
        }
        return twin

    # ── held-out rows ──

    @property
    def held(self) -> Client | None:
        """Rows that are set aside to judge a model by, and never learned from (see `data.hold_out`); preprocessed as
        this client's own rows are. None: there are none."""
        if self._held is not None:
            # Not through the design, which raw columns do not have: a model with a preprocessing takes them raw.
            known = {"transform": self.memory.data.get(_TRANSFORM), "columns": self.memory.data.get(_COLUMNS)}
            if any(self._held.session.get(name) is not value for name, value in known.items()):
                kept = {name: value for name, value in known.items() if value is not None}
                self._held.memory = session_memory(kept, self.memory.types)
        return self._held

    def holding_out(self, index: Array) -> Client:
        """A client with the same name and data that learns from all rows but these, which it has in `held`."""
        chosen = np.zeros(self.n_samples, dtype=bool)
        chosen[index] = True

        def part(mask: Array, held: Client | None) -> Client:
            rows = np.flatnonzero(mask)

            def take(array: Array | None) -> Array | None:
                if array is None or isinstance(array, np.ndarray) or sp.issparse(array):
                    return None if array is None else array[rows]
                return self.xp.take(array, self.xp.asarray(rows, device=api.device(array)), axis=0)

            kept = (take(self.X), take(self.y), take(self.sample_weight), take(self.offset))
            return _rebuild(self.name, *kept, self.feature_names, self.link, self.classes, self.numbering, held)

        return part(~chosen, part(chosen, None))

    # ── what can be computed again ──

    def cached(self, key: object, compute: Callable[[], T]) -> T:
        """`compute()`, done once."""
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = (None, compute())
        return cast(T, found[1])

    def at(self, key: object, point: Array, function: Callable[[Array], T]) -> T:
        """`function(point)`, kept for the last point."""
        last = self.last(key)
        if last is not None and same_point(last[0], point):
            return last[1]  # type: ignore[no-any-return]
        return self.keep(key, point, function(point))

    def last(self, key: object) -> tuple[Array, Value] | None:
        """The point for which something is kept under a key, and what is kept."""
        return self._cache.get(key)

    def keep(self, key: object, point: Array, value: T) -> T:
        """Keep a value for the next time it is asked for at this point."""
        frozen = type(point) is np.ndarray and not point.flags.writeable  # as what was sent is
        self._cache[key] = (point if frozen else _copied(point), value)
        return value

    def data_mark(self) -> str:
        """A short hash by which this client knows its own data again: all targets, and rows from all over. Columns
        with names are taken in alphabetical order, so that another order is the same data."""
        step = 1 + self.n_samples // 1000
        rows = self.X[::step, :]
        if self.feature_names is not None:
            rows = take_columns(rows, np.argsort(self.feature_names).tolist())
        parts = (rows.data, rows.indices) if sp.issparse(rows) else (to_numpy(rows),)
        mark = hashlib.blake2b(repr(self.X.shape).encode(), digest_size=8)
        if self.feature_names is not None or self.classes is not None:
            mark.update(repr((sorted(self.feature_names or ()), self.classes)).encode())
        for part in (*parts, self.y, self.sample_weight, self.offset):
            if part is not None:
                array = to_numpy(part)
                mark.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
        if self._held is not None:
            mark.update(self._held.data_mark().encode())
        return mark.hexdigest()

    def forget(self) -> None:
        """Lose memory and cache, as a process that restarts does."""
        self.memory = Memory({})
        self._cache.clear()

    # ── chance and accounting ──

    @property
    def session(self) -> SessionMemory:
        """What the library itself remembers here, apart from what protocols remember: columns, transform, units."""
        return SessionMemory(self.memory)

    def enter(self, memory: Memory, moment: tuple[int, int, int, int], scope: str = "") -> None:
        """Begin a call: nothing of an earlier one, or of an earlier try at this one, is left. `scope` is that of the
        protocol whose step is called (`memory.scope_of`)."""
        memory.scope = scope
        self.memory, self.moment = memory, moment
        self.counts, self._generator = {}, None
        known = memory.data
        self._checked = memory
        if known.get(_TRANSFORM) is not self._transform or known.get(_COLUMNS) is not self._columns:
            self._design = None  # found anew when it is asked for
            self._cache.clear()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """While a solver goes where nobody but this client's own rows leads it, `watch` is not told."""
        watch, self.watch = self.watch, None
        try:
            yield
        finally:
            self.watch = watch

    @property
    def rng(self) -> np.random.Generator:
        """This call's own generator: a function of (seed, client, round, exchange, call) and of nothing else."""
        if self._generator is None:
            seed, *rest = self.moment
            self._generator = np.random.default_rng([seed, self.key, *rest])
        return self._generator

    def draw(self, function: Callable[[np.random.Generator, int], Array]) -> Array:
        """`function(client.rng, client.n_samples)`: how a step that may run together for many clients draws by chance.

        The array's shape must not depend on what is drawn."""
        return function(self.rng, self.n_samples)

    def number(self, value: Array) -> float:
        """An array of one entry as a number. `float(value)`, but steps that may run together can use it."""
        return float(value)

    def count(self, what: str, amount: int) -> None:
        """Note a computation: sample gradients, Hessians, loss evaluations, factorisations, rows of features."""
        self.counts[what] = self.counts.get(what, 0) + amount

    def count_as_own(self, part: Client) -> None:
        """Note what was computed on a part of this client's rows, such as the held-out ones, as its own work."""
        if part is not self:
            for what, amount in part.counts.items():
                self.count(what, amount)
            part.counts = {}


def _rebuild(
    name: str,
    X: Array,
    y: Array,
    weights: Array | None,
    offset: Array | None,
    feature_names: tuple[str, ...] | None,
    link: Link,
    classes: Classes | None,
    numbering: Classes | None,
    held: Client | None = None,
) -> Client:
    link = UNLIMITED if link == UNLIMITED else link
    client = Client(name, X, y, weights, offset=offset, feature_names=feature_names, link=link)
    client.classes, client.numbering = classes, numbering  # the labels are encoded already
    client._held = held
    return client


def _copied(point: Array) -> Array:
    return point.copy() if isinstance(point, np.ndarray) else namespace(point).asarray(point, copy=True)


def same_point(a: Array, b: Array) -> bool:
    """Whether two points are equal in every entry."""
    if a is b:
        return True
    if type(a) is np.ndarray and a.size and b.size and a.item(0) != b.item(0):
        return False  # two points that differ nearly always do so in their first entry
    return a.shape == b.shape and bool(namespace(a).all(a == b))
