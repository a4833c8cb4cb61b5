"""Local solvers and, later, weak learners."""

from fedsolve.local.gradient_steps import GradientSteps, safe_step
from fedsolve.local.linear_systems import CG, Richardson

__all__ = ["CG", "GradientSteps", "Richardson", "safe_step"]
