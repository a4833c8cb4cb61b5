"""The gradient of a function of a tensor, by torch's own tape."""

from __future__ import annotations

from collections.abc import Callable

from fedsolve.networks.library import torch_library
from fedsolve.typing import Array


def gradient_of(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The gradient of a function of a tensor, as `torch.func.grad` has it.

    For use outside `torch.func.vmap`. It is quicker than `torch.func.grad`, which also imports torch's compiler at its
    first call: two seconds, in each worker process again.
    """
    torch = torch_library()

    def gradient(w: Array) -> Array:
        with torch.enable_grad():
            v = w.detach().requires_grad_()
            return torch.autograd.grad(function(v), v)[0]

    return gradient
