"""Losses: value, gradient, Hessian, local fit, and the model that weights stand for."""

from fedsolve.losses.base import LinearLoss
from fedsolve.losses.logistic import Logistic
from fedsolve.losses.poisson import Poisson
from fedsolve.losses.softmax import Softmax
from fedsolve.losses.squared import Squared

__all__ = ["LinearLoss", "Logistic", "Poisson", "Softmax", "Squared"]
