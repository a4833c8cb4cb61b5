"""Local solvers and, later, weak learners."""

from fedsolve.learners.local import GradientSteps, safe_step

__all__ = ["GradientSteps", "safe_step"]
