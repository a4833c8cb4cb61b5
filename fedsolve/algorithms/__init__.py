"""One file, one algorithm of a paper or a baseline."""

from fedsolve.algorithms.dkrr import DKRR
from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.newton import Newton
from fedsolve.algorithms.scaffold import Scaffold

__all__ = ["DKRR", "FedAvg", "Newton", "Scaffold"]
