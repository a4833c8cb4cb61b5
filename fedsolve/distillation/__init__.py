"""Distillation: one network that does what several functions do together, learned at the server from public rows."""

from fedsolve.distillation.distil import Distil

__all__ = ["Distil"]
