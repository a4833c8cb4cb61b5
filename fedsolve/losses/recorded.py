"""Networks whose gradient is recorded once and replayed: for long fits on one GPU, such as a server's distillation.

A step of a small network is a hundred kernels of a few microseconds, and launching them one by one from Python takes
longer than running them. A CUDA graph launches all of them at once, with the same numbers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields

from fedsolve.federation.client import Client
from fedsolve.losses.network import Network
from fedsolve.networks.library import torch_library
from fedsolve.networks.tensors import TensorClient
from fedsolve.typing import Array, Namespace

_log = logging.getLogger(__name__)

EAGER = 2  # calls of one kind that are not recorded: a last batch that comes once is not worth it


@dataclass(eq=False)
class _Record:
    """A graph, and the tensors that it reads from and writes to."""

    graph: Namespace
    batch: Client
    w: Array
    salt: Array | None
    gradient: Array


@dataclass(frozen=True)
class RecordedNetwork(Network):
    """A network that replays its gradient on batches of a size that it has seen before. Not for stacks of clients."""

    seen: dict[tuple[int, bool], int | _Record | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def changed_gradient(self, client: Client, w: Array, salt: Array | None) -> Array:
        own, inner = self._inside(client, w)
        if not isinstance(own, TensorClient) or own.sample_weight is not None or own.offset is not None:
            return super().changed_gradient(client, w, salt)
        kind = (own.n_samples, salt is None)
        known = self.seen.get(kind, 0)
        if isinstance(known, int) and known >= EAGER:
            known = self.seen[kind] = self._try_to_record(own, inner, salt)
        if not isinstance(known, _Record):
            if known is not None:
                self.seen[kind] = known + 1
            return super().changed_gradient(client, w, salt)
        known.batch.design.sample.copy_(own.design.sample)
        known.batch.y.copy_(own.y)
        known.w.copy_(inner)
        if known.salt is not None:
            known.salt.copy_(salt)
        known.graph.replay()
        client.count("gradients", client.n_samples)
        return known.gradient.clone()

    def _try_to_record(self, own: TensorClient, w: Array, salt: Array | None) -> _Record | None:
        """A record; None for a module that cannot be recorded, because what it does depends on numbers on the GPU."""
        try:
            return self._recorded(own, w, salt)
        except RuntimeError as error:  # noted, not hidden: what is wrong with the module itself comes again unrecorded
            _log.debug("a gradient is not recorded: %s", error)
            return None

    def _recorded(self, own: TensorClient, w: Array, salt: Array | None) -> _Record:
        torch = torch_library()
        batch = own.subset(torch.arange(own.n_samples, device=own.y.device))
        v, s = w.clone(), None if salt is None else salt.clone()
        beside = torch.cuda.Stream()  # libraries set themselves up in the first calls, which must not be recorded
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                super().changed_gradient(batch, v, s)
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gradient = super().changed_gradient(batch, v, s)
        return _Record(graph, batch, v, s, gradient)


def recorded(loss: Network, client: Client) -> Network:
    """The network with a recorded gradient where the client's tensors are on a GPU; else as it is."""
    if client.y.device.type != "cuda":
        return loss
    return RecordedNetwork(**{one.name: getattr(loss, one.name) for one in fields(Network)})
