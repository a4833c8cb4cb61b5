"""Many clients seen as one: their data stacked for `torch.func.vmap`, and the stand-in that a step gets as its client.

A step marked `@client_step(together=True)` is written for one client and runs unchanged for a whole stack. It may use

- `client.design`, `y`, `sample_weight`, `offset`, `weight` and `xp`, in array code: no `float()`, no `if` on values;
- `client.n_samples`, as a number: where the clients' answers to a comparison differ, the stack is split by them;
- `client.subset(index)`, `client.draw(function)`, `client.number(value)`, `client.cached(…)` and `client.count(…)`;
- `client.memory`, by key: `stacked_memory.py` says how.

Sums over rows must be weighted by `client.sample_weight` wherever it is not None: clients of unequal size are padded
with copies of their last row, of weight zero. Where their batches differ in size or number, `client.masked(index, …)`
pads them likewise. Anything else of a client (its name, its generator) raises here, and the step then runs for one
client at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any, TypeVar, cast

import array_api_compat as api
import numpy as np

from fedsolve.federation.client import Client
from fedsolve.federation.links import UNLIMITED
from fedsolve.federation.memory import Memory, SessionMemory
from fedsolve.federation.not_together import NotTogether as NotTogether
from fedsolve.federation.not_together import Split as Split
from fedsolve.federation.not_together import agreed
from fedsolve.federation.stacked_memory import StackedMemory
from fedsolve.numerics.design import DenseDesign, Design
from fedsolve.numerics.linalg import as_kind_of, namespace, to_numpy
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Counts

T = TypeVar("T")

# Work that a client does each time it is asked. Other work (Gram matrices, features, factors) is done once and kept;
# a stack keeps nothing, so it would be counted again and again.
COUNTED_EACH_TIME = frozenset({"gradients", "losses", "products"})


class Sizes:
    """The clients' numbers of samples where they differ: an int to a step, as long as all give it the same answer."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = tuple(values)

    def __add__(self, other: int | Sizes) -> Sizes:
        return Sizes([mine + theirs for mine, theirs in zip(self.values, self._like(other), strict=True)])

    def __mul__(self, other: int | Sizes) -> Sizes:
        return Sizes([mine * theirs for mine, theirs in zip(self.values, self._like(other), strict=True)])

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: int | Sizes) -> bool:
        return self._compared(lt, other)

    def __le__(self, other: int | Sizes) -> bool:
        return self._compared(le, other)

    def __gt__(self, other: int | Sizes) -> bool:
        return self._compared(gt, other)

    def __ge__(self, other: int | Sizes) -> bool:
        return self._compared(ge, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Sizes):
            return NotImplemented
        return agreed([mine == theirs for mine, theirs in zip(self.values, self._like(other), strict=True)])

    __hash__ = None  # type: ignore[assignment]  # equality may split

    def __bool__(self) -> bool:
        return agreed([bool(value) for value in self.values])

    def __index__(self) -> int:
        return agreed(self.values)

    def _like(self, other: int | Sizes) -> tuple[int, ...]:
        return other.values if isinstance(other, Sizes) else (other,) * len(self.values)

    def _compared(self, compare: Callable[[int, int], bool], other: int | Sizes) -> bool:
        return agreed([compare(mine, theirs) for mine, theirs in zip(self.values, self._like(other), strict=True)])


def _sizes(values: Sequence[int]) -> int:
    """A number of samples as a step sees it: an int where all have the same."""
    return values[0] if len(set(values)) == 1 else cast(int, Sizes(values))


@dataclass(frozen=True, eq=False)
class Stack:
    """The data of several torch clients, with a leading axis for the clients, padded to the longest."""

    clients: tuple[Client, ...]
    designs: tuple[DenseDesign, ...]  # what was stacked; a client whose design is another by now must be stacked anew
    arrays: dict[str, Array]  # X, y, weight, client (its place) and, where there are any, sample_weight and offset
    weighted: bool  # whether sample_weight is the clients' own, and not only there for padded rows

    @classmethod
    def of(cls, clients: Sequence[Client]) -> Stack:
        """Copy the data of clients that fit together: see `kind`."""
        designs = [cast(DenseDesign, client.design) for client in clients]
        first, rows = clients[0], [client.n_samples for client in clients]
        weighted, xp, place = first.sample_weight is not None, namespace(first.y), api.device(first.y)
        arrays = {
            "X": _padded([design.X for design in designs], max(rows)),
            "y": _padded([client.y for client in clients], max(rows)),
            "weight": xp.asarray([client.weight for client in clients], dtype=first.y.dtype, device=place),
            "client": xp.arange(len(clients), device=place),
        }
        if first.offset is not None:
            arrays["offset"] = _padded([client.offset for client in clients], max(rows))
        if weighted or min(rows) < max(rows):
            ones = xp.ones(max(rows), dtype=first.y.dtype, device=place)
            weights = [client.sample_weight if weighted else ones[: client.n_samples] for client in clients]
            arrays["sample_weight"] = _padded(weights, max(rows), 0.0)
        return cls(tuple(clients), tuple(designs), arrays, weighted)

    def take(self, places: Sequence[int]) -> Stack:
        """Some of the clients, without padding that only the others needed."""
        xp, y = namespace(self.arrays["y"]), self.arrays["y"]
        clients, designs = [self.clients[place] for place in places], [self.designs[place] for place in places]
        rows = [client.n_samples for client in clients]
        where = xp.asarray(list(places), device=api.device(y))
        arrays = {name: xp.take(array, where, axis=0) for name, array in self.arrays.items()}
        for name in ("X", "y", "sample_weight", "offset"):
            if name in arrays and max(rows) < arrays[name].shape[1]:
                arrays[name] = arrays[name][:, : max(rows), ...]
        if not self.weighted and min(rows) == max(rows):
            arrays.pop("sample_weight", None)
        arrays["client"] = xp.arange(len(places), device=api.device(y))
        return Stack(tuple(clients), tuple(designs), arrays, self.weighted)

    def __len__(self) -> int:
        return len(self.clients)

    def current(self) -> bool:
        """Whether the clients still learn from the inputs that were stacked."""
        return all(client.design is design for client, design in zip(self.clients, self.designs, strict=True))

    def call(self, step: Callable[..., Value], arguments: dict[str, Value], fits: Callable[[Value], bool]) -> Replies:
        """Run a step for all clients; `fits` checks a reply against its annotation.

        Raises what the step raises, `Split`, or what vmap raises of a step that is not array code throughout."""
        return Replies(self.outputs(step, arguments), fits)

    def outputs(self, step: Callable[..., Value], arguments: dict[str, Value]) -> Outputs:
        """What a step comes to for all clients, where the tensors are. The clients are in the call that is run: their
        memories are read. Raises MemoryError if the device has too little memory for all of them."""
        import torch

        own = {name: self.clients[0].localise(value) for name, value in arguments.items()}
        made: list[Outputs] = []

        def one(arrays: dict[str, Array]) -> tuple[Array, ...]:
            client, leaves = StandIn(self, arrays), list[Array]()
            reply, memory = _flattened(step(client, **own), leaves), cast(StackedMemory, client.memory)
            sent = len(leaves)
            if not sent:
                raise NotTogether("its reply has no arrays")
            written = {key: _flattened(value, leaves) for key, value in memory.written.data.items()}
            made.append(Outputs(reply, sent, written, frozenset(memory.looked_up.items()), client.counts))
            return tuple(leaves)

        try:
            leaves = torch.func.vmap(one)(self.arrays)
        except torch.OutOfMemoryError as error:
            raise MemoryError(f"{len(self)} clients at once do not fit: {error}") from error
        return replace(made[0], leaves=leaves)


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a step came to for all clients of a stack, its arrays taken out of it."""

    reply: Value  # its form
    sent: int  # how many of the arrays are the reply's; the others are remembered
    written: dict[str, Value]  # the form of what is remembered, by key
    looked_up: frozenset[tuple[str, bool]]  # in the memory, and whether it was there
    counts: Counts
    leaves: tuple[Array, ...] = ()  # with an axis for the clients


def _padded(parts: Sequence[Array], rows: int, value: float | None = None) -> Array:
    """Arrays stacked, each with its last row repeated, or `value`, to so many rows."""
    stacked = parts[0].new_empty((len(parts), rows, *parts[0].shape[1:]))
    for place, part in enumerate(parts):
        n = part.shape[0]
        stacked[place, :n] = part
        if n < rows:
            stacked[place, n:] = part[-1] if value is None else value
    return stacked


def kind(client: Client, design: Design) -> tuple[object, ...] | None:
    """What clients must have in common to be stacked; None for one that cannot be."""
    if type(design) is not DenseDesign or not api.is_torch_array(design.X):
        return None
    X, y = design.X, client.y
    return X.device, X.dtype, X.shape[1], y.dtype, y.shape[1:], client.sample_weight is None, client.offset is None


class Replies:
    """What a step answered for each client of a stack, as NumPy. Raises NotTogether unless that fits its annotation."""

    def __init__(self, outputs: Outputs, fits: Callable[[Value], bool]) -> None:
        self._form, self._counts, sent = outputs.reply, outputs.counts, outputs.sent
        self.looked_up, self._written = outputs.looked_up, outputs.written
        clients = outputs.leaves[0].shape[0]
        # Of each client the largest entry, where the tensors are: passes over all of them are dear on the way home.
        most = np.stack([to_numpy(_largest_entries(one)) for one in outputs.leaves], axis=1)
        finite = np.isfinite(most).all(axis=1)
        self.finite: list[int] = np.flatnonzero(finite).tolist()  # the places of clients without NaN and infinities
        self.largest = float(most[finite, :sent].max(initial=0.0))
        self.largest_written = float(most[finite, sent:].max(initial=0.0))
        self._kept = outputs.leaves[sent:]  # as they are: a client with tensors remembers tensors
        self._kept_numpy: list[Array] = []
        leaves = [to_numpy(one) for one in outputs.leaves[:sent]]
        self._parts: list[list[Value]] = [[leaf[place, ...] for place in range(clients)] for leaf in leaves]
        if not fits(self.value(0)):  # an entry without axes is a number, if that is what the step declares
            self._parts = [
                leaf.tolist() if leaf.ndim == 1 else part for leaf, part in zip(leaves, self._parts, strict=True)
            ]
        if not fits(self.value(0)):
            raise NotTogether("its reply is not what it declares")

    def value(self, place: int) -> Value:
        """The reply of one client."""
        return _rebuilt(self._form, self._parts, place)

    def written(self, place: int, client: Client) -> dict[str, Value]:
        """What one client remembers, by key, as `client`'s kind of array. Copies: the memory of one client must not
        hold on to what was computed for all."""
        if not self._written:
            return {}
        if client.is_numpy and not self._kept_numpy:
            self._kept_numpy = [to_numpy(leaf) for leaf in self._kept]  # one transfer for all clients
        sent = len(self._parts)
        if client.is_numpy:
            own = [leaf[place, ...].copy() for leaf in self._kept_numpy]
        else:
            own = [as_kind_of(leaf[place, ...].clone(), client.y) for leaf in self._kept]
        parts: list[list[Value]] = [[]] * sent + [[leaf] for leaf in own]
        return {key: _rebuilt(form, parts, 0) for key, form in self._written.items()}

    def counts(self, place: int) -> Counts:
        """The work of one client."""
        return {
            what: amount.values[place] if isinstance(amount, Sizes) else amount for what, amount in self._counts.items()
        }


def _largest_entries(stacked: Array) -> Array:
    """The largest entry of each client, NaN where it has one."""
    flat = stacked.reshape(stacked.shape[0], -1)
    empty = flat.new_zeros((flat.shape[0], 1), dtype=namespace(flat).float64)
    if flat.shape[1] == 0 or not flat.dtype.is_floating_point:
        return empty[:, 0]
    return flat.abs().amax(dim=1).double()


@dataclass(frozen=True)
class _Leaf:
    place: int


def _flattened(value: Value, leaves: list[Array]) -> Value:
    """A reply with its arrays taken out of it."""
    if api.is_torch_array(value):
        leaves.append(value)
        return _Leaf(len(leaves) - 1)
    if type(value) in (tuple, list):
        return type(value)(_flattened(item, leaves) for item in value)
    if type(value) is dict:
        return {key: _flattened(item, leaves) for key, item in value.items()}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise NotTogether(f"it replies with a {type(value).__name__}, or remembers one")


def _rebuilt(form: Value, parts: list[list[Value]], place: int) -> Value:
    """The reply of one client with its arrays put back."""
    if type(form) is _Leaf:
        return parts[form.place][place]
    if type(form) in (tuple, list):
        return type(form)([_rebuilt(item, parts, place) for item in form])
    if type(form) is dict:
        return {key: _rebuilt(item, parts, place) for key, item in form.items()}
    return form


class StandIn(Client):
    """The clients of a stack as one, inside vmap. What it does not set is out of a step's reach, and raises."""

    __slots__ = ("_place", "_stack", "active")

    def __init__(self, stack: Stack, arrays: dict[str, Array]) -> None:
        first = stack.clients[0]
        self._stack: Stack | None = stack
        self.active: Array | None = None  # of a batch: which clients have it at all; None: every one
        self._place = arrays["client"]
        self._design = DenseDesign(arrays["X"])
        self.y, self.weight = arrays["y"], arrays["weight"]
        self.sample_weight, self.offset = arrays.get("sample_weight"), arrays.get("offset")
        self.n_samples = _sizes([client.n_samples for client in stack.clients])
        self.xp, self.is_numpy = first.xp, False
        self.link, self.room, self.vectors, self.watch = UNLIMITED, None, None, None
        self.protocols, self.fingerprints = first.protocols, first.fingerprints
        self.memory = StackedMemory(stack.clients, self._each)
        self.counts, self._cache = {}, {}

    @property
    def design(self) -> Design:
        assert self._design is not None
        return self._design

    @property
    def session(self) -> SessionMemory:
        raise NotTogether("it uses client.session")

    @property
    def rng(self) -> np.random.Generator:
        raise NotTogether("it uses client.rng: client.draw(function) draws for each client by its own generator")

    def draw(self, function: Callable[[np.random.Generator, int], Array]) -> Array:
        if self._stack is None:
            raise NotTogether("it draws by chance from a part of a client")
        drawn = [np.asarray(function(client.rng, client.n_samples)) for client in self._stack.clients]
        agreed([array.shape for array in drawn])
        return self._each(self.xp.asarray(np.stack(drawn), device=api.device(self.y)))

    def of_each(self, function: Callable[[Client], float | None]) -> Array | float | None:
        """A number that follows from what a client is: one for all, or an array where it differs; None if none has."""
        if self._stack is None:
            raise NotTogether("it asks a part of a client for a number of the client's own")
        values = [function(client) for client in self._stack.clients]
        agreed([value is None for value in values])
        if all(value == values[0] for value in values):
            return values[0]
        return self._each(self.xp.asarray(values, dtype=self.y.dtype, device=api.device(self.y)))

    def _each(self, whole: Array) -> Array:
        """Each client's own part of an array with an axis for the clients: looked up by the client's place, which is
        how an array gets a value per client inside vmap."""
        return self.xp.take(whole, self.xp.reshape(self._place, (1,)), axis=0)[0, ...]

    @property
    def unequal(self) -> tuple[int, ...]:
        """The clients' numbers of samples where they differ; empty where they are the same, and in a batch."""
        return self.n_samples.values if self._stack is not None and isinstance(self.n_samples, Sizes) else ()

    def number(self, value: Array) -> float:
        return cast(float, value)  # a number for each client: floats once the step is done

    def masked(self, index: Array, sizes: Sequence[int]) -> StandIn:
        """A batch that has another size at each client: `index` is padded with −1 to one length, `sizes` are what it
        has without. Padding has no weight; a client with nothing else in it has a loss of zero."""
        xp, valid = self.xp, index >= 0
        part = self.subset(xp.where(valid, index, xp.zeros_like(index)))
        counted = xp.astype(valid, self.y.dtype)
        part.sample_weight = counted if part.sample_weight is None else part.sample_weight * counted
        total = xp.sum(part.sample_weight)
        part.weight = xp.where(total > 0, total, xp.ones_like(total))
        part.n_samples = _sizes(sizes)
        return part

    def subset(self, index: Array) -> StandIn:
        part = StandIn.__new__(StandIn)
        take = self.xp.take
        for name in ("xp", "is_numpy", "link", "room", "vectors", "watch", "protocols", "fingerprints"):
            setattr(part, name, getattr(self, name))
        part.memory = Memory({})  # a batch remembers nothing
        stack, part._stack, part._place, part.active = self._stack, None, self._place, None
        part._design, part.y = DenseDesign(take(self.design.sample, index, axis=0)), take(self.y, index, axis=0)
        part.offset = None if self.offset is None else take(self.offset, index, axis=0)
        part.n_samples = index.shape[0]
        part.sample_weight, part.weight = None, float(index.shape[0])
        # Weights that are only there for padded rows are 1 in every row that can be drawn.
        if self.sample_weight is not None and (stack is None or stack.weighted):
            part.sample_weight = take(self.sample_weight, index, axis=0)
            total = self.xp.sum(part.sample_weight)
            part.weight = self.xp.where(total > 0, total, self.xp.ones_like(total))
        part.counts, part._cache = {}, {}
        return part

    def at(self, key: Any, point: Array, function: Callable[[Array], T]) -> T:
        return function(point)

    def last(self, key: Any) -> tuple[Array, Any] | None:
        """Nothing is kept: whether a point is the last one would be a branch on values."""
        return None

    def keep(self, key: Any, point: Array, value: T) -> T:
        return value

    def count(self, what: str, amount: int) -> None:
        if what not in COUNTED_EACH_TIME:
            raise NotTogether(f"it counts {what}, which a client computes once and keeps")
        super().count(what, amount)
