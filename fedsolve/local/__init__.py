"""Local solvers: what a client does with a model by itself."""

from fedsolve.local.base import LocalSolver
from fedsolve.local.gradient_steps import GradientSteps, safe_step
from fedsolve.local.linear_systems import CG, Richardson

__all__ = ["CG", "GradientSteps", "LocalSolver", "Richardson", "safe_step"]
