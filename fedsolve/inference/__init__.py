"""What is said about a fitted model: how good it is on rows that it was not learned from."""

from fedsolve.inference.evaluated import ClientEvaluation, Evaluated, Figures
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.judging import evaluate

__all__ = ["ClientEvaluation", "Evaluated", "Evaluation", "Figures", "evaluate"]
