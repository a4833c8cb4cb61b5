"""A torch module as a function of one flat vector: all parameters in the order in which the module names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.networks.architecture import Architecture
from fedsolve.networks.library import torch_library
from fedsolve.typing import Array

if TYPE_CHECKING:
    from torch import nn

PROBED = 3  # rows of the trial that a module is put to
ALIKE = 1e-3  # how far a row's output may depend on the rows beside it, relative to the largest: rounding of float32


@dataclass(frozen=True, eq=False)
class FlatModule:
    """A module whose parameters are given with each call.

    Attributes:
        module: The module; its own parameters are not used.
        shapes: The shape of each parameter by name.
        count: The numbers in all of them.
    """

    module: nn.Module
    shapes: dict[str, tuple[int, ...]]
    count: int

    def __call__(self, w: Array, X: Array) -> Array:
        """The outputs of each row of X, for parameters `w`, a vector. Can be differentiated, and runs under vmap."""
        # One split, whose derivative is one concatenation; slices would each be padded with zeros to all of w.
        parts = w.split([prod(shape) for shape in self.shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}
        return torch_library().func.functional_call(self.module, named, (X,))


@lru_cache(maxsize=32)
def flat_module(architecture: Architecture, inputs: int, outputs: int) -> FlatModule:
    """The module of an architecture, built once and tried out.

    Raises ConfigError for a module that cannot be trained as a function of its parameters alone.
    """
    with seeded(0):
        module = _built(architecture, inputs, outputs)
    _check_parts(architecture, module)
    shapes = {name: tuple(one.shape) for name, one in module.named_parameters()}
    made = FlatModule(module, shapes, sum(map(prod, shapes.values())))
    _check_rows(architecture, made, inputs, outputs)
    return made


def initial_weights(architecture: Architecture, inputs: int, outputs: int, seed: int) -> Array:
    """The parameters that the module begins with, as torch initialises them from this seed: a NumPy vector."""
    flat_module(architecture, inputs, outputs)
    with seeded(seed):
        module = _built(architecture, inputs, outputs)
    return np.concatenate([one.detach().cpu().numpy().reshape(-1) for _, one in module.named_parameters()])


def outputs_of(architecture: Architecture, inputs: int, count: int) -> int:
    """For how many outputs a module of so many inputs has so many parameters. Raises ConfigError if for none."""
    one, two = (flat_module(architecture, inputs, outputs).count for outputs in (1, 2))
    found = 1 + max(0, count - one) // max(1, two - one)  # an output more adds as many parameters as the one before
    if flat_module(architecture, inputs, found).count != count:
        raise ConfigError(f"{architecture!r} has no {count:,} weights for {inputs} inputs, whatever its outputs")
    return found


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Lets torch's modules initialise themselves from a seed; its global generator is as before afterwards."""
    generator = torch_library().default_generator
    before = generator.get_state()
    try:
        generator.manual_seed(seed)
        yield
    finally:
        generator.set_state(before)


def _built(architecture: Architecture, inputs: int, outputs: int) -> nn.Module:
    module = architecture.build(inputs, outputs)
    if not isinstance(module, torch_library().nn.Module):
        raise ConfigError(f"{type(architecture).__name__}.build returns a torch module, got {type(module).__name__}")
    return module


def _check_parts(architecture: Architecture, module: nn.Module) -> None:
    who = type(architecture).__name__
    buffers = [name for name, _ in module.named_buffers()]
    if buffers:
        raise ConfigError(
            f"{who} has the buffers {', '.join(buffers[:3])}, which are no parameters and so neither sent nor "
            "averaged; instead of BatchNorm use GroupNorm or LayerNorm, and keep constants out of buffers"
        )
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ConfigError(f"{who} has no parameters to learn")
    for name, one in parameters.items():
        if not one.dtype.is_floating_point:
            raise ConfigError(
                f"{who}: the parameter {name} is of type {one.dtype}; only floating-point ones are learned"
            )


def _check_rows(architecture: Architecture, made: FlatModule, inputs: int, outputs: int) -> None:
    """Try the module out: an output for each row, which neither chance nor the other rows have a part in."""
    torch, who = torch_library(), type(architecture).__name__
    X = torch.as_tensor(np.random.default_rng(0).standard_normal((PROBED, inputs)), dtype=torch.float32)
    w = torch.cat([one.detach().float().reshape(-1) for one in made.module.parameters()])
    before = torch.default_generator.get_state()
    try:
        with torch.no_grad():
            whole, single = made(w, X), [made(w, X[row : row + 1]) for row in range(PROBED)]
        drawn = not torch.equal(torch.default_generator.get_state(), before)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{who} does not take a matrix with {inputs} columns, a row for each sample: {error}"
        ) from error
    finally:
        torch.default_generator.set_state(before)
    for made_of, count in ((whole, PROBED), (single[0], 1)):
        shape = tuple(made_of.shape) if torch.is_tensor(made_of) else type(made_of).__name__
        if shape != (count, outputs):
            raise ConfigError(
                f"{who} makes outputs of shape {shape} of a matrix of shape ({count}, {inputs}), expected "
                f"({count}, {outputs}): a row for each sample"
            )
    if drawn:
        raise ConfigError(
            f"{who} draws by chance when it is applied, as Dropout does, from torch's global generator: two runs of "
            "one seed would differ; leave it out, and use l2 or an augmentation instead"
        )
    if float((torch.cat(single) - whole).abs().max()) > ALIKE * max(1.0, float(whole.abs().max())):
        raise ConfigError(
            f"what {who} makes of a row depends on the rows beside it, as with BatchNorm; use GroupNorm or LayerNorm"
        )
