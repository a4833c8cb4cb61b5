"""Some coordinates of the gradients of single samples of fully connected layers, without the gradients themselves.

A layer z = W a + b has ∂f/∂W_oi = (∂f/∂z_o) a_i and ∂f/∂b = ∂f/∂z for each sample. One pass over all samples gives the
inputs a and the derivatives ∂f/∂z of every layer, and whichever coordinates are wanted are products of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedsolve.networks.architecture import ACTIVATIONS
from fedsolve.networks.library import torch_library
from fedsolve.typing import Array

if TYPE_CHECKING:
    from torch import nn

Named = dict[str, Array]
PartOf = Callable[[str, Array], Array]  # the name of a parameter and places in it ↦ (samples, places)


def is_dense(module: nn.Module) -> bool:
    """Whether a module is fully connected layers and activations, one after the other, each layer once, and nothing
    else happens in it (hooks, weights that are made of others)."""
    nn = torch_library().nn
    if type(module) is not nn.Sequential:
        return False
    activations = {getattr(nn, name) for name in ACTIVATIONS.values()}
    layers = [layer for layer in module if type(layer) not in activations]
    once = len({id(layer) for layer in layers}) == len(layers)
    return once and all(map(_is_plain, layers)) and not any(map(_is_hooked, [module, *module]))


def _is_plain(layer: nn.Module) -> bool:
    names = {name for name, _ in layer.named_parameters()}
    return type(layer) is torch_library().nn.Linear and "weight" in names <= {"weight", "bias"}


def _is_hooked(layer: nn.Module) -> bool:
    return any(getattr(layer, f"_forward_{kind}") for kind in ("hooks", "pre_hooks"))


def dense_parts(module: nn.Module, named: Named, X: Array, total: Callable[[Array], Array]) -> PartOf:
    """The gradients of the samples in the rows of X, to take coordinates from.

    named  parameters; those that are not there are the module's own
    total  the sum of the samples' losses, a function of the module's outputs
    """
    torch = torch_library()
    given = {name: one.detach() for name, one in module.named_parameters()} | named
    inputs: list[Array] = []
    outputs: list[Array] = []
    names: list[str] = []
    with torch.enable_grad():
        a = X
        for name, layer in module.named_children():
            if type(layer) is not torch.nn.Linear:
                a = layer(a)
                continue
            inputs.append(a.detach())
            a = torch.nn.functional.linear(a, given[f"{name}.weight"], given.get(f"{name}.bias"))
            a = a if a.requires_grad else a.requires_grad_()  # the first layer's; parameters are constants here
            outputs.append(a)
            names.append(name)
        errors = torch.autograd.grad(total(a), outputs)
    known = {name: (one, error) for name, one, error in zip(names, inputs, errors, strict=True)}

    def part_of(name: str, places: Array) -> Array:
        layer, _, kind = name.rpartition(".")
        one, error = known[layer]
        if kind == "bias":
            return error[:, places]
        return error[:, places // one.shape[1]] * one[:, places % one.shape[1]]

    return part_of
