"""Weak learners: functions that boosting adds up, fitted at clients and sent as arrays."""

from fedsolve.learners.base import Fitting, Function, WeakLearner
from fedsolve.learners.ridge import RidgeLearner
from fedsolve.learners.trees import Stumps, Trees

__all__ = ["Fitting", "Function", "RidgeLearner", "Stumps", "Trees", "WeakLearner"]
