"""What a run costs in one number, and what theory says it should cost (Jadbabaie, Makur and Shah, 2023).

oracle          federated oracle complexity of any run, from its ledger (Definition 1)
worth           what Hessians, losses and others are worth in gradients
epoch_times     the expected time of an epoch (equations 21, 24 and 25)
fedlrgd_theory  what FedLRGD needs at most (Theorem 2, equations 47 and 48)
fedave_theory   what FedAve needs at most (Theorem 3, Lemma 3, equation 79), and Proposition 1
low_rank        how near a smooth latent variable model is to a matrix of low rank (Lemma 1, Theorem 1)
suboptimality   how far a run is above the minimum after each round
costs           Γ to reach an accuracy, for several algorithms
"""

from fedsolve.complexity.epoch_times import communication_time, computation_time, epoch_time
from fedsolve.complexity.fedave_theory import (
    Comparison,
    FedAveBound,
    FedAveProblem,
    compare_bounds,
    fedave_bound,
    fedave_error,
    fedave_optimum,
    fedave_order,
)
from fedsolve.complexity.fedlrgd_theory import (
    FedLRGDBound,
    SmoothProblem,
    fedlrgd_bound,
    fedlrgd_complexity,
    fedlrgd_rank,
    fedlrgd_steps,
)
from fedsolve.complexity.low_rank import least_rank, low_rank_bound, low_rank_errors, piecewise_polynomial_bound
from fedsolve.complexity.oracle import OracleComplexity, oracle_complexity
from fedsolve.complexity.worth import Worth

__all__ = [
    "Comparison",
    "FedAveBound",
    "FedAveProblem",
    "FedLRGDBound",
    "OracleComplexity",
    "SmoothProblem",
    "Worth",
    "communication_time",
    "compare_bounds",
    "computation_time",
    "epoch_time",
    "fedave_bound",
    "fedave_error",
    "fedave_optimum",
    "fedave_order",
    "fedlrgd_bound",
    "fedlrgd_complexity",
    "fedlrgd_rank",
    "fedlrgd_steps",
    "least_rank",
    "low_rank_bound",
    "low_rank_errors",
    "oracle_complexity",
    "piecewise_polynomial_bound",
]
