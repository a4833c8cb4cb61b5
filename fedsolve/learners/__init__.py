"""Local solvers and, later, weak learners."""

from fedsolve.learners.local import GradientSteps, safe_step
from fedsolve.learners.systems import CG, Richardson

__all__ = ["CG", "GradientSteps", "Richardson", "safe_step"]
