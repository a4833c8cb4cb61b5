"""FedNewton: the figures and tables of its paper."""

from fedsolve.reproduce.fednewton import contraction, figure3, figure4, figure5, rounds, table3

__all__ = ["contraction", "figure3", "figure4", "figure5", "rounds", "table3"]
