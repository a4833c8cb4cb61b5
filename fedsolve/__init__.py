"""fedsolve: one model from data that may not be pooled, in as few communication rounds as the mathematics allows."""

from fedsolve import data, diagnose, errors, features, selection
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
from fedsolve.algorithms.base import Finished
from fedsolve.curvature.compressors import RandomKPairs, RankR, TopKPairs
from fedsolve.descent import Armijo
from fedsolve.features import Nystroem, Polynomial, RandomFourier
from fedsolve.federation import transports
from fedsolve.federation.calls import Gather, Mean, PerClient, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.links import Link, Rayleigh
from fedsolve.federation.participation import Participation, Replay
from fedsolve.local import CG, GradientSteps, Richardson
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.loop.stopping import Stopping
from fedsolve.losses import Logistic, Poisson, Softmax, Squared
from fedsolve.models.linear import LinearModel, load_model
from fedsolve.selection import cross_validate, loss_grid
from fedsolve.version import __version__

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
    "__version__",
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
