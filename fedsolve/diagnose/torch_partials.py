"""Some coordinates of the gradients of single samples, by torch: of a `Network`, and of any function of parameters.

Of fully connected layers only what is asked for is computed (`dense_partials`). The parameters of other modules are
differentiated one by one, and what is asked for is taken from each. Gradients of the flat vector, as
`Network.sample_gradients` has them, are copied into one large matrix first, which takes as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from fedsolve.diagnose.dense_partials import Named, PartOf, dense_parts, is_dense
from fedsolve.diagnose.partials import Partials
from fedsolve.federation.client import Client
from fedsolve.losses.network import Network
from fedsolve.networks.library import torch_library
from fedsolve.networks.modules import flat_module
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


def network_partials(loss: Network, part: Client) -> Partials:
    """The gradients of a client's samples; `part` has tensors (`loss.computing`)."""
    net = flat_module(loss.architecture, part.design.shape[1], loss.output_count or prod(part.y.shape[1:]))
    call = torch_library().func.functional_call

    offsets = [] if part.offset is None else [part.offset]
    X, y = part.design.sample, part.y

    def total(eta: Array) -> Array:
        eta = eta if y.ndim > 1 else eta[:, 0] + sum(offsets)
        return loss.pointwise(part.xp, eta, y).sum()

    def single(named: Named, x: Array, target: Array, *offset: Array) -> Array:
        eta = call(net.module, named, (x[None],))
        eta = eta if target.ndim else eta[:, 0] + sum(offset)
        return loss.pointwise(part.xp, eta, target[None])[0]

    if is_dense(net.module):
        return taken_from(lambda named: dense_parts(net.module, named, X, total), net.shapes, len(X))
    return torch_partials(single, net.shapes, [X, y, *offsets])


def torch_partials(
    single: Callable[..., Array], shapes: Mapping[str, tuple[int, ...]], samples: list[Array]
) -> Partials:
    """The gradients of `single(named parameters, *sample)`, for each sample in the first axes of `samples`."""
    func = torch_library().func
    each = func.vmap(func.grad(single), in_dims=(None, *[0] * len(samples)))

    def parts(named: Named) -> PartOf:
        gradients = each(named, *samples)
        return lambda name, places: gradients[name].reshape(len(samples[0]), -1)[:, places]

    return taken_from(parts, shapes, len(samples[0]))


def taken_from(parts: Callable[[Named], PartOf], shapes: Mapping[str, tuple[int, ...]], count: int) -> Partials:
    """The coordinates that are asked for, from each parameter that has some of them, of `count` samples."""
    names, sizes = list(shapes), [prod(shape) for shape in shapes.values()]
    ends = np.cumsum(sizes)

    def partials(w: Array, columns: Array) -> Array:
        split = zip(shapes.items(), w.split(sizes), strict=True)
        part_of = parts({name: part.view(shape) for (name, shape), part in split})
        owner = np.searchsorted(ends, columns, side="right")  # the parameter that each coordinate belongs to
        found = w.new_empty((count, len(columns)))
        for place, name in enumerate(names):
            here = np.flatnonzero(owner == place)
            if here.size:
                found[:, here] = part_of(name, columns[here] - (ends[place] - sizes[place]))
        return to_numpy(found if found.element_size() >= 4 else found.float())  # NumPy has no bfloat16

    return partials
