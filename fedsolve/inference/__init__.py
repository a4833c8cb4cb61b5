"""What is said about a fitted model: how good it is on rows that it was not learned from, and for whom."""

from fedsolve.inference.evaluated import ClientEvaluation, Evaluated, Figures
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain, federation_gain
from fedsolve.inference.gain_table import ClientGain, FederationGains
from fedsolve.inference.judging import evaluate

__all__ = [
    "ClientEvaluation",
    "ClientGain",
    "Evaluated",
    "Evaluation",
    "FederationGain",
    "FederationGains",
    "Figures",
    "evaluate",
    "federation_gain",
]
