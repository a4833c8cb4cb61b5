"""Weak learners: functions that boosting adds up, fitted at clients and sent as arrays."""

from fedsolve.learners.base import Fitting, Function, WeakLearner
from fedsolve.learners.ridge import RidgeLearner

__all__ = ["Fitting", "Function", "RidgeLearner", "WeakLearner"]
