"""What to know of a federation before a method is chosen: would FedNewton converge, and who differs how much.

contraction     ρ of FedNewton by Lanczos on its own exchanges, with a verdict
heterogeneity   ‖C − C_j‖, the distance of local fits from the pooled one, effective dimensions
input_distances  bounds of ω_TV and ω_W1, how far the distributions of the inputs are apart; exact_input_distances,
                total_variation and wasserstein have them from rows, in simulation
gradient_ranks  the approximate rank of gradients over samples and parameters, of losses and torch modules
lyapunov, periodic_bound   how fast Newton's method on shared eigenvectors must converge
upsilon, regime Theorems 1 and 3 of the FedNewton paper, as functions of quantities that only a simulation knows
"""

from fedsolve.diagnose.contraction import Contraction, Contractions, contraction
from fedsolve.diagnose.gradient_rank import GradientRanks, approximate_rank, gradient_ranks
from fedsolve.diagnose.heterogeneity import Heterogeneities, Heterogeneity, heterogeneity
from fedsolve.diagnose.input_distances import InputDistance, input_distances
from fedsolve.diagnose.input_distances_exact import (
    ExactDistances,
    exact_input_distances,
    total_variation,
    wasserstein,
)
from fedsolve.diagnose.input_distances_found import InputDistances
from fedsolve.diagnose.module_gradients import ModuleGradients
from fedsolve.diagnose.rates import lyapunov, periodic_bound
from fedsolve.diagnose.sample_gradients import LossGradients, SampleGradients
from fedsolve.diagnose.theory import Regime, effective_dimension, regime, upsilon

__all__ = [
    "Contraction",
    "Contractions",
    "ExactDistances",
    "GradientRanks",
    "Heterogeneities",
    "Heterogeneity",
    "InputDistance",
    "InputDistances",
    "LossGradients",
    "ModuleGradients",
    "Regime",
    "SampleGradients",
    "approximate_rank",
    "contraction",
    "effective_dimension",
    "exact_input_distances",
    "gradient_ranks",
    "heterogeneity",
    "input_distances",
    "lyapunov",
    "periodic_bound",
    "regime",
    "total_variation",
    "upsilon",
    "wasserstein",
]
