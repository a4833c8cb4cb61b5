"""SHED and the methods it is compared with: the figures and tables of its paper."""

from fedsolve.reproduce.shed import best, fednl, increments, logistic, newton_rounds, rates

__all__ = ["best", "fednl", "increments", "logistic", "newton_rounds", "rates"]
