"""torch, where a network needs it: `import fedsolve` does without."""

from __future__ import annotations

from fedsolve.errors import ConfigError
from fedsolve.typing import Namespace


def torch_library() -> Namespace:
    """The torch module. Raises ConfigError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise ConfigError("networks need PyTorch: pip install fedsolve[torch]") from None
    return torch


def checked_device(name: str) -> str:
    """A device that this process has. Raises ConfigError for one that it has not."""
    torch = torch_library()
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda', but torch finds no GPU here; use device='cpu' or leave it out")
    return name
