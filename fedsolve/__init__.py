"""fedsolve: one model from data that may not be pooled, in as few communication rounds as the mathematics allows."""

__version__ = "0.1.0"

from fedsolve import data, diagnose, errors, features, transports
from fedsolve.algorithms import DKRR, FedAvg, FedNewton, FedNewtonCG, FedNL, FedProx, Newton, Scaffold
from fedsolve.calls import Gather, Mean, PerClient, Sum
from fedsolve.client import Client, client_step
from fedsolve.compressors import RandomKPairs, RankR, TopKPairs
from fedsolve.features import Nystroem, Polynomial, RandomFourier
from fedsolve.federation import Federation
from fedsolve.history import Run
from fedsolve.learners import GradientSteps
from fedsolve.links import Link
from fedsolve.losses import Logistic, Poisson, Softmax, Squared
from fedsolve.models import LinearModel, load_model
from fedsolve.participation import Participation, Replay
from fedsolve.rounds import Finished
from fedsolve.run import run
from fedsolve.searches import Armijo
from fedsolve.selection import cross_validate
from fedsolve.stopping import Stopping

__all__ = [
    "DKRR",
    "Armijo",
    "Client",
    "FedAvg",
    "FedNL",
    "FedNewton",
    "FedNewtonCG",
    "FedProx",
    "Federation",
    "Finished",
    "Gather",
    "GradientSteps",
    "LinearModel",
    "Link",
    "Logistic",
    "Mean",
    "Newton",
    "Nystroem",
    "Participation",
    "PerClient",
    "Poisson",
    "Polynomial",
    "RandomFourier",
    "RandomKPairs",
    "RankR",
    "Replay",
    "Run",
    "Scaffold",
    "Softmax",
    "Squared",
    "Stopping",
    "Sum",
    "TopKPairs",
    "client_step",
    "cross_validate",
    "data",
    "diagnose",
    "errors",
    "features",
    "load_model",
    "run",
    "transports",
]
