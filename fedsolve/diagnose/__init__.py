"""What to know of a federation before a method is chosen: would FedNewton converge, and who differs how much.

contraction     ρ of FedNewton by Lanczos on its own exchanges, with a verdict
heterogeneity   ‖C − C_j‖, the distance of local fits from the pooled one, effective dimensions
input_distances  bounds of ω_TV and ω_W1, how far the distributions of the inputs are apart; exact_input_distances,
                total_variation and wasserstein have them from rows, in simulation
lyapunov, periodic_bound   how fast Newton's method on shared eigenvectors must converge
upsilon, regime Theorems 1 and 3 of the FedNewton paper, as functions of quantities that only a simulation knows
"""

from fedsolve.diagnose.contraction import Contraction, Contractions, contraction
from fedsolve.diagnose.heterogeneity import Heterogeneities, Heterogeneity, heterogeneity
from fedsolve.diagnose.input_distances import InputDistance, input_distances
from fedsolve.diagnose.input_distances_exact import (
    ExactDistances,
    exact_input_distances,
    total_variation,
    wasserstein,
)
from fedsolve.diagnose.input_distances_found import InputDistances
from fedsolve.diagnose.rates import lyapunov, periodic_bound
from fedsolve.diagnose.theory import Regime, effective_dimension, regime, upsilon

__all__ = [
    "Contraction",
    "Contractions",
    "ExactDistances",
    "Heterogeneities",
    "Heterogeneity",
    "InputDistance",
    "InputDistances",
    "Regime",
    "contraction",
    "effective_dimension",
    "exact_input_distances",
    "heterogeneity",
    "input_distances",
    "lyapunov",
    "periodic_bound",
    "regime",
    "total_variation",
    "upsilon",
    "wasserstein",
]
