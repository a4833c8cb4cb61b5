"""What a run costs in one number, and what theory says it should cost (Jadbabaie, Makur and Shah, 2023).

oracle          federated oracle complexity of any run, from its ledger (Definition 1)
worth           what Hessians, losses and others are worth in gradients
epoch_times     the expected time of an epoch (equations 21, 24 and 25)
"""

from fedsolve.complexity.epoch_times import communication_time, computation_time, epoch_time
from fedsolve.complexity.oracle import OracleComplexity, oracle_complexity
from fedsolve.complexity.worth import Worth

__all__ = [
    "OracleComplexity",
    "Worth",
    "communication_time",
    "computation_time",
    "epoch_time",
    "oracle_complexity",
]
