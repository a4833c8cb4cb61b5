"""The experiments of FedNewton.

Anonymous authors. Efficient Newton-type Federated Learning with Non-IID Data. Submission under double-blind review.
Results: docs/reproduce/fednewton.md.
"""

from fedsolve.reproduce.fednewton import contraction, figure3, figure4, figure5, rounds, table3

__all__ = ["contraction", "figure3", "figure4", "figure5", "rounds", "table3"]
