"""What is said about a fitted model: how good it is on rows that it was not learned from,
and for whom; and what its coefficients are worth."""

from fedsolve.inference.evaluated import ClientEvaluation, Evaluated, Figures
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain, federation_gain
from fedsolve.inference.gain_table import ClientGain, FederationGains
from fedsolve.inference.judging import evaluate
from fedsolve.inference.likelihood_ratio import LikelihoodRatio, likelihood_ratio_test
from fedsolve.inference.standard_errors import StandardErrors
from fedsolve.inference.summarised import Summary
from fedsolve.inference.summarising import summary
from fedsolve.inference.summary_rows import Coefficient

__all__ = [
    "ClientEvaluation",
    "ClientGain",
    "Coefficient",
    "Evaluated",
    "Evaluation",
    "FederationGain",
    "FederationGains",
    "Figures",
    "LikelihoodRatio",
    "StandardErrors",
    "Summary",
    "evaluate",
    "federation_gain",
    "likelihood_ratio_test",
    "summary",
]
