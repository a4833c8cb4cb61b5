"""Kernels by themselves, for simulation: exact kernel matrices (`exact`) and centralised references (`ridge`)."""

from fedsolve.kernels.exact import KERNELS, kernel_matrix

__all__ = ["KERNELS", "kernel_matrix"]
