"""Augmentation: learning from images that are changed by chance in ways that do not change what they show.

What is changed follows from a number that a client draws by its own generator once in a call, and from the places of
step and image: a hash of these, in array code, so that many clients can be augmented in one call and no generator has
a state that could differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

from fedsolve.errors import ConfigError
from fedsolve.networks.architecture import Architecture
from fedsolve.networks.library import torch_library
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

Shape = tuple[int, int, int]

_MASK = 2**32 - 1


class Augmentation(ABC):
    """Changes rows of inputs by chance. Augmentations are frozen dataclasses of plain values."""

    @abstractmethod
    def changed(self, X: Array, salt: Array, first: int, architecture: Architecture) -> Array:
        """Rows of inputs, changed; torch code that runs under vmap.

        Args:
            X: The rows, a tensor.
            salt: What to draw from: one number for each step of each client.
            first: The place of the first row among those of the step.
            architecture: What learns from them, which may know their shape.
        """

    @abstractmethod
    def check(self, inputs: int, architecture: Architecture) -> None:
        """Raise ConfigError for inputs that it is not for."""


@dataclass(frozen=True)
class FlipAndCrop(Augmentation):
    """Each image is mirrored left to right or not, and moved by up to `padding` pixels in both directions, with zeros
    where nothing is left: the usual augmentation for CIFAR.

    Args:
        padding: How many pixels an image is moved by at most. Default 4.
        flip: Whether it is mirrored with probability ½. Default True.
        shape: Channels, height and width of an image; None, the default, takes the architecture's `shape`.
    """

    padding: int = 4
    flip: bool = True
    shape: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        whole("padding", self.padding, least=0)
        if self.shape is not None and (not isinstance(self.shape, tuple) or len(self.shape) != 3):
            raise ConfigError(f"shape is (channels, height, width), got {self.shape!r}")

    def check(self, inputs: int, architecture: Architecture) -> None:
        shape = self._shape(architecture)
        if prod(shape) != inputs:
            raise ConfigError(f"FlipAndCrop is for images of shape {shape}, {prod(shape)} numbers; rows have {inputs}")

    def changed(self, X: Array, salt: Array, first: int, architecture: Architecture) -> Array:
        torch = torch_library()
        channels, height, width = self._shape(architecture)
        place = first + torch.arange(X.shape[0], device=X.device)
        # Where each pixel comes from: a row and a column of the image, which may be outside of it.
        steps = 2 * self.padding + 1
        down = hashed(salt, place, 1) % steps - self.padding
        right = hashed(salt, place, 2) % steps - self.padding
        rows = torch.arange(height, device=X.device) + down[:, None]
        columns = torch.arange(width, device=X.device).expand(X.shape[0], width)
        if self.flip:
            mirrored = hashed(salt, place, 3) % 2 == 1
            columns = torch.where(mirrored[:, None], width - 1 - columns, columns)
        columns = columns + right[:, None]
        inside = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]
        source = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]
        flat = source.reshape(X.shape[0], 1, height * width).expand(X.shape[0], channels, height * width)
        moved = torch.gather(X.reshape(X.shape[0], channels, height * width), 2, flat)
        kept = inside.reshape(X.shape[0], 1, height * width)
        return torch.where(kept, moved, torch.zeros_like(moved)).reshape(X.shape)

    def _shape(self, architecture: Architecture) -> Shape:
        found: Shape | None = self.shape or getattr(architecture, "shape", None)
        if found is None:
            raise ConfigError(f"FlipAndCrop needs the shape of an image, which {architecture!r} does not have: give it")
        return found


def hashed(salt: Array, place: Array, what: int) -> Array:
    """Whole numbers below 2³² that look drawn: MurmurHash3's finaliser of salt, place and purpose, in 64 bits."""
    h = (salt + place * 0x9E3779B1 + what * 0x85EBCA77) & _MASK
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = ((h ^ (h >> shift)) * factor) & _MASK
    return h


def _within(places: Array, size: int) -> Array:
    return (places >= 0) & (places < size)
