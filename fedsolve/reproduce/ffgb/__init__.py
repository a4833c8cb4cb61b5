"""Shen, Hassani, Kale and Karbasi (2022): Federated Functional Gradient Boosting."""

from fedsolve.reproduce.ffgb import table2, warm_starts

__all__ = ["table2", "warm_starts"]
