"""What to know of a federation before a method is chosen: would FedNewton converge, and who differs how much.

contraction     ρ of FedNewton by Lanczos on its own exchanges, with a verdict
heterogeneity   ‖C − C_j‖, the distance of local fits from the pooled one, effective dimensions
lyapunov, periodic_bound   how fast Newton's method on shared eigenvectors must converge
upsilon, regime Theorems 1 and 3 of the FedNewton paper, as functions of quantities that only a simulation knows
"""

from fedsolve.diagnose.contraction import Contraction, Contractions, contraction
from fedsolve.diagnose.heterogeneity import Heterogeneities, Heterogeneity, heterogeneity
from fedsolve.diagnose.rates import lyapunov, periodic_bound
from fedsolve.diagnose.theory import Regime, effective_dimension, regime, upsilon

__all__ = [
    "Contraction",
    "Contractions",
    "Heterogeneities",
    "Heterogeneity",
    "Regime",
    "contraction",
    "effective_dimension",
    "heterogeneity",
    "lyapunov",
    "periodic_bound",
    "regime",
    "upsilon",
]
