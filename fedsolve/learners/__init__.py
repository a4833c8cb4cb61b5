"""Weak learners: functions that boosting adds up, fitted at clients and sent as arrays."""

from fedsolve.learners.base import Fitting, Function, WeakLearner
from fedsolve.learners.gamma import gamma
from fedsolve.learners.minimax import Minimax
from fedsolve.learners.network import NetworkLearner
from fedsolve.learners.ridge import RidgeLearner
from fedsolve.learners.sobolev import SobolevLearner
from fedsolve.learners.trees import Stumps, Trees

__all__ = [
    "Fitting",
    "Function",
    "Minimax",
    "NetworkLearner",
    "RidgeLearner",
    "SobolevLearner",
    "Stumps",
    "Trees",
    "WeakLearner",
    "gamma",
]
