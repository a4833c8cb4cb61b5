"""Losses: value, gradient, Hessian, local fit, and the model that weights stand for."""

from fedsolve.losses.base import Loss
from fedsolve.losses.linear import LinearLoss
from fedsolve.losses.logistic import Logistic
from fedsolve.losses.network import Network
from fedsolve.losses.pointwise import Pointwise
from fedsolve.losses.poisson import Poisson
from fedsolve.losses.softmax import Softmax
from fedsolve.losses.squared import Squared

__all__ = ["LinearLoss", "Logistic", "Loss", "Network", "Pointwise", "Poisson", "Softmax", "Squared"]
