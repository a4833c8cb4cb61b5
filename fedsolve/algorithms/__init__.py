"""One file, one algorithm of a paper or a baseline."""

from fedsolve.algorithms.dkrr import DKRR
from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.fednewton import FedNewton
from fedsolve.algorithms.fednewton_cg import FedNewtonCG
from fedsolve.algorithms.fednl import FedNL
from fedsolve.algorithms.fedprox import FedProx
from fedsolve.algorithms.newton import Newton
from fedsolve.algorithms.scaffold import Scaffold

__all__ = ["DKRR", "FedAvg", "FedNL", "FedNewton", "FedNewtonCG", "FedProx", "Newton", "Scaffold"]
