"""Local solvers: what a client does with a model by itself."""

from fedsolve.local.base import LocalSolver
from fedsolve.local.gradient_steps import Adam, GradientSteps, Momentum
from fedsolve.local.linear_systems import CG, Richardson
from fedsolve.local.proximal_steps import ProximalSteps
from fedsolve.local.schedules import Cosine, InverseTime, StepDecay
from fedsolve.local.step_sizes import first_step, safe_step, step_in_round
from fedsolve.local.uploads import QuantisedUploads

__all__ = [
    "CG",
    "Adam",
    "Cosine",
    "GradientSteps",
    "InverseTime",
    "LocalSolver",
    "Momentum",
    "ProximalSteps",
    "QuantisedUploads",
    "Richardson",
    "StepDecay",
    "first_step",
    "safe_step",
    "step_in_round",
]
