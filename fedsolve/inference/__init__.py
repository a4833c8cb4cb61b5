"""What is said about a fitted model: how good it is on rows that it was not learned from."""

from fedsolve.inference.evaluation import ClientEvaluation, Evaluated, Evaluation, evaluate

__all__ = ["ClientEvaluation", "Evaluated", "Evaluation", "evaluate"]
