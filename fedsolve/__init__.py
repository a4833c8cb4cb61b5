"""fedsolve: one model from data that may not be pooled, in as few communication rounds as the mathematics allows."""

__version__ = "0.1.0"

from fedsolve import data, diagnose, errors, features, selection, transports
from fedsolve.algorithms import (
    AGD,
    DKRR,
    GIANT,
    SHED,
    FedAvg,
    FedNewton,
    FedNewtonCG,
    FedNL,
    FedProx,
    MontDec,
    Newton,
    Scaffold,
    SHEDLeastSquares,
)
from fedsolve.calls import Gather, Mean, PerClient, Sum
from fedsolve.client import Client, client_step
from fedsolve.compressors import RandomKPairs, RankR, TopKPairs
from fedsolve.features import Nystroem, Polynomial, RandomFourier
from fedsolve.federation import Federation
from fedsolve.history import Run
from fedsolve.learners import CG, GradientSteps, Richardson
from fedsolve.links import Link, Rayleigh
from fedsolve.losses import Logistic, Poisson, Softmax, Squared
from fedsolve.models import LinearModel, load_model
from fedsolve.participation import Participation, Replay
from fedsolve.rounds import Finished
from fedsolve.run import run
from fedsolve.searches import Armijo
from fedsolve.selection import cross_validate, loss_grid
from fedsolve.stopping import Stopping

__all__ = [
    "AGD",
    "CG",
    "DKRR",
    "GIANT",
    "SHED",
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
    "MontDec",
    "Newton",
    "Nystroem",
    "Participation",
    "PerClient",
    "Poisson",
    "Polynomial",
    "RandomFourier",
    "RandomKPairs",
    "RankR",
    "Rayleigh",
    "Replay",
    "Richardson",
    "Run",
    "SHEDLeastSquares",
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
    "loss_grid",
    "run",
    "selection",
    "transports",
]
