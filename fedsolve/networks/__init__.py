"""Networks: architectures as plain values, their weights as one flat vector (torch)."""

from fedsolve.networks.architecture import Architecture
from fedsolve.networks.augmentation import Augmentation, FlipAndCrop
from fedsolve.networks.layers import CNN, MLP

__all__ = ["CNN", "MLP", "Architecture", "Augmentation", "FlipAndCrop"]
