"""Smooth losses beside the cross-entropy, for Appendix C of Jadbabaie et al. (2023): of outputs and labels."""

from __future__ import annotations

from fedsolve.networks.library import torch_library
from fedsolve.typing import Array


def squared_loss(outputs: Array, labels: Array) -> Array:
    """The squared distance of the softmax from the label's unit vector, mean over the rows."""
    functional = torch_library().nn.functional
    apart = functional.softmax(outputs, dim=1) - functional.one_hot(labels, outputs.shape[1])
    return (apart**2).sum(dim=1).mean()


def logistic_loss(outputs: Array, labels: Array) -> Array:
    """A logistic regression of each class against the others, added up; mean over the rows."""
    functional = torch_library().nn.functional
    signs = 1 - 2 * functional.one_hot(labels, outputs.shape[1])
    return functional.softplus(signs * outputs).sum(dim=1).mean()
