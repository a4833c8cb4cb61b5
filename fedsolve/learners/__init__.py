"""Local solvers and, later, weak learners."""

from fedsolve.learners.local import GradientSteps

__all__ = ["GradientSteps"]
