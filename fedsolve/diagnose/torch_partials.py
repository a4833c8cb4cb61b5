"""Some coordinates of the gradients of single samples, by torch: of a `Network`, and of any function of parameters.

The parameters of a module are differentiated one by one, and what is asked for is taken from each. Gradients of the
flat vector, as `Network.sample_gradients` has them, are copied into one large matrix first, which takes as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from fedsolve.diagnose.partials import Partials
from fedsolve.federation.client import Client
from fedsolve.losses.network import Network
from fedsolve.networks.library import torch_library
from fedsolve.networks.modules import flat_module
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

Named = dict[str, Array]


def network_partials(loss: Network, part: Client) -> Partials:
    """The gradients of a client's samples; `part` has tensors (`loss.computing`)."""
    net = flat_module(loss.architecture, part.design.shape[1], loss.output_count or prod(part.y.shape[1:]))
    call = torch_library().func.functional_call

    def single(named: Named, x: Array, target: Array, *offset: Array) -> Array:
        eta = call(net.module, named, (x[None],))
        eta = eta if target.ndim else eta[:, 0] + sum(offset)
        return loss.pointwise(part.xp, eta, target[None])[0]

    samples = [part.design.sample, part.y, *([] if part.offset is None else [part.offset])]
    return torch_partials(single, net.shapes, samples)


def torch_partials(
    single: Callable[..., Array], shapes: Mapping[str, tuple[int, ...]], samples: list[Array]
) -> Partials:
    """The gradients of `single(named parameters, *sample)`, for each sample in the first axes of `samples`."""
    func = torch_library().func
    each = func.vmap(func.grad(single), in_dims=(None, *[0] * len(samples)))
    sizes = [prod(shape) for shape in shapes.values()]
    ends = np.cumsum(sizes)

    def partials(w: Array, columns: Array) -> Array:
        parts = zip(shapes.items(), w.split(sizes), strict=True)
        gradients = each({name: part.view(shape) for (name, shape), part in parts}, *samples)
        owner = np.searchsorted(ends, columns, side="right")  # the parameter that each coordinate belongs to
        found = w.new_empty((len(samples[0]), len(columns)))
        for place, g in enumerate(gradients.values()):
            here = np.flatnonzero(owner == place)
            if here.size:
                found[:, here] = g.reshape(len(g), -1)[:, columns[here] - (ends[place] - sizes[place])]
        return to_numpy(found if found.element_size() >= 4 else found.float())  # NumPy has no bfloat16

    return partials
