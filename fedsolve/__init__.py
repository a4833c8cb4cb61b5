"""fedsolve: one model from data that may not be pooled, in as few communication rounds as the mathematics allows."""

from fedsolve import complexity, data, diagnose, errors, features, loggers, selection
from fedsolve.algorithms import (
    AGD,
    DKRR,
    FFGB,
    GIANT,
    SHED,
    FedAvg,
    FedAvgDistill,
    FedDyn,
    FedLRGD,
    FedNewton,
    FedNewtonCG,
    FedNL,
    FedProx,
    FedSplit,
    FFGBDistill,
    MontDec,
    Newton,
    Scaffold,
    SHEDLeastSquares,
)
from fedsolve.algorithms.base import Finished
from fedsolve.complexity import OracleComplexity, oracle_complexity
from fedsolve.curvature.compressors import RandomKPairs, RankR, TopKPairs
from fedsolve.descent import Armijo
from fedsolve.distillation import Distil
from fedsolve.features import Nystroem, Polynomial, RandomFourier
from fedsolve.federation import transports
from fedsolve.federation.calls import Gather, Mean, PerClient, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.links import Link, Rayleigh
from fedsolve.federation.participation import Participation, Replay
from fedsolve.federation.session import Session
from fedsolve.inference import (
    Evaluation,
    FederationGain,
    StandardErrors,
    Summary,
    evaluate,
    federation_gain,
    likelihood_ratio_test,
    summary,
)
from fedsolve.learners import Minimax, NetworkLearner, RidgeLearner, Stumps, Trees
from fedsolve.local import (
    CG,
    Adam,
    Cosine,
    GradientSteps,
    InverseTime,
    LocalSolver,
    Momentum,
    ProximalSteps,
    QuantisedUploads,
    Richardson,
    StepDecay,
)
from fedsolve.loop.early_stopping import EarlyStopping
from fedsolve.loop.history import Run
from fedsolve.loop.patience import Patience
from fedsolve.loop.run import run
from fedsolve.loop.stopping import Stopping, StoppingRule, Verdict
from fedsolve.losses import Logistic, Loss, Network, Pointwise, Poisson, Softmax, Squared
from fedsolve.models import Ensemble, KernelExpansion, LinearModel, Model, NetworkModel, load_model
from fedsolve.networks import CNN, MLP, Architecture, FlipAndCrop
from fedsolve.selection import cross_validate, loss_grid
from fedsolve.version import __version__

__all__ = [
    "AGD",
    "CG",
    "CNN",
    "DKRR",
    "FFGB",
    "GIANT",
    "MLP",
    "SHED",
    "Adam",
    "Architecture",
    "Armijo",
    "Client",
    "Cosine",
    "Distil",
    "EarlyStopping",
    "Ensemble",
    "Evaluation",
    "FFGBDistill",
    "FedAvg",
    "FedAvgDistill",
    "FedDyn",
    "FedLRGD",
    "FedNL",
    "FedNewton",
    "FedNewtonCG",
    "FedProx",
    "FedSplit",
    "Federation",
    "FederationGain",
    "Finished",
    "FlipAndCrop",
    "Gather",
    "GradientSteps",
    "InverseTime",
    "KernelExpansion",
    "LinearModel",
    "Link",
    "LocalSolver",
    "Logistic",
    "Loss",
    "Mean",
    "Minimax",
    "Model",
    "Momentum",
    "MontDec",
    "Network",
    "NetworkLearner",
    "NetworkModel",
    "Newton",
    "Nystroem",
    "OracleComplexity",
    "Participation",
    "Patience",
    "PerClient",
    "Pointwise",
    "Poisson",
    "Polynomial",
    "ProximalSteps",
    "QuantisedUploads",
    "RandomFourier",
    "RandomKPairs",
    "RankR",
    "Rayleigh",
    "Replay",
    "Richardson",
    "RidgeLearner",
    "Run",
    "SHEDLeastSquares",
    "Scaffold",
    "Session",
    "Softmax",
    "Squared",
    "StandardErrors",
    "StepDecay",
    "Stopping",
    "StoppingRule",
    "Stumps",
    "Sum",
    "Summary",
    "TopKPairs",
    "Trees",
    "Verdict",
    "__version__",
    "client_step",
    "complexity",
    "cross_validate",
    "data",
    "diagnose",
    "errors",
    "evaluate",
    "features",
    "federation_gain",
    "likelihood_ratio_test",
    "load_model",
    "loggers",
    "loss_grid",
    "oracle_complexity",
    "run",
    "selection",
    "summary",
    "transports",
]
