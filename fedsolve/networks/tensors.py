"""A client's rows as torch tensors of one type on one device, for losses that compute with them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import log2
from typing import Any

import array_api_compat as api
import numpy as np

from fedsolve.features.base import dense
from fedsolve.federation.array_kinds import map_arrays
from fedsolve.federation.client import Client
from fedsolve.federation.memory import Memory
from fedsolve.networks.library import torch_library
from fedsolve.numerics.design import DenseDesign, Design
from fedsolve.numerics.linalg import namespace, to_numpy
from fedsolve.typing import Array, Value


class TensorClient(Client):
    """A client, or a batch of one, whose rows are tensors. Chance and accounts are those of the client that owns it."""

    __slots__ = ("_owner",)
    _owner: weakref.ref[Client]

    @classmethod
    def of(cls, client: Client, y: Array, dtype: str, device: str | None) -> TensorClient:
        """The rows of a client, with these targets: copied once, unless they are such tensors already."""
        torch = torch_library()
        kind, place = getattr(torch, dtype), torch.device(device or _own_device(client))
        rows = client.design.take(slice(0, client.n_samples))

        def tensor(array: Array | None) -> Array | None:
            if array is None:
                return None
            given = array if torch.is_tensor(array) else torch.as_tensor(writable(to_numpy(dense(array))))
            return given.to(device=place, dtype=kind)

        made = cls.__new__(cls)
        made._owner = weakref.ref(client)
        made._design = DenseDesign(tensor(rows))
        made.y, made.offset = tensor(y), tensor(client.offset)
        s, made.n_samples, made.weight = client.sample_weight, client.n_samples, client.weight
        if s is not None:
            scale = weight_scale(client.weight, client.n_samples)
            s, made.weight = s * scale, client.weight * scale
        made.sample_weight = tensor(s)
        made.name, made.key, made.link = client.name, client.key, client.link
        made.protocols, made.fingerprints = client.protocols, client.fingerprints
        made._set_up(namespace(made.y))
        made.follow()
        return made

    def _set_up(self, xp: Any) -> None:
        self.xp, self.is_numpy = xp, False
        self.room = self.vectors = self.watch = None
        self.counts, self._cache, self.memory = {}, {}, Memory({})

    @property
    def owner(self) -> Client:
        """The client that it stands for."""
        found = self._owner()
        assert found is not None, "a client outlives its tensors, which it keeps"
        return found

    def follow(self) -> TensorClient:
        """Take part in the call that the owner is in. Returns itself."""
        owner = self.owner
        self.moment, self.counts, self.memory = owner.moment, owner.counts, owner.memory
        return self

    def enter(self, memory: Memory, moment: tuple[int, int, int, int], scope: str = "") -> None:
        self.owner.enter(memory, moment, scope)
        self.follow()

    @property
    def design(self) -> Design:
        assert self._design is not None
        return self._design

    @property
    def rng(self) -> np.random.Generator:
        return self.owner.rng

    def draw(self, function: Callable[[np.random.Generator, int], Array]) -> Array:
        # On the device at once: an index for each batch would be a transfer each.
        drawn = function(self.rng, self.n_samples)
        return self.xp.asarray(drawn, device=api.device(self.y))

    def localise(self, value: Value) -> Value:
        return map_arrays(value, self._tensor)

    def _tensor(self, array: Array) -> Array:
        torch, y = torch_library(), self.y
        # A copy, because what comes from the wire is read-only and torch has no read-only tensors.
        given = array if torch.is_tensor(array) else torch.as_tensor(np.array(to_numpy(array)))
        return given.to(device=y.device, dtype=y.dtype) if given.dtype.is_floating_point else given.to(device=y.device)

    def subset(self, index: Array) -> Client:
        part, take = TensorClient.__new__(TensorClient), self.xp.take
        part._owner, part.name, part.key, part.moment = self._owner, self.name, self.key, self.moment
        where = self.xp.asarray(index, device=api.device(self.y))
        part._set_up(self.xp)
        part._design, part.y = DenseDesign(take(self.design.sample, where, axis=0)), take(self.y, where, axis=0)
        part.offset = None if self.offset is None else take(self.offset, where, axis=0)
        part.n_samples, part.sample_weight, part.weight = int(where.shape[0]), None, float(where.shape[0])
        if self.sample_weight is not None:  # a batch without weight has a loss of zero, not of 0/0
            part.sample_weight = take(self.sample_weight, where, axis=0)
            part.weight = float(part.sample_weight.sum()) or 1.0
        return part


def writable(array: Array) -> Array:
    """A NumPy array as torch takes it without a warning: contiguous, and a copy where it is read-only."""
    flat = np.ascontiguousarray(array)
    return flat if flat.flags.writeable else flat.copy()


def weight_scale(total: float, samples: int) -> float:
    """What to multiply sample weights by before they become float32, whose largest is 3e38: near 1 over their mean, and
    a power of two, so that weighted means keep their bits."""
    return 2.0 ** -round(log2(total / samples))


def _own_device(client: Client) -> str:
    return str(client.y.device) if api.is_torch_array(client.y) else "cpu"
