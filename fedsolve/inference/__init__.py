"""What is said about a fitted model: how good it is on rows that it was not learned from, and for whom."""

from fedsolve.inference.evaluation import ClientEvaluation, Evaluated, Evaluation, evaluate
from fedsolve.inference.federation_gain import FederationGain, federation_gain
from fedsolve.inference.gain_table import ClientGain, FederationGains

__all__ = [
    "ClientEvaluation",
    "ClientGain",
    "Evaluated",
    "Evaluation",
    "FederationGain",
    "FederationGains",
    "evaluate",
    "federation_gain",
]
