"""One file, one algorithm of a paper or a baseline."""

from fedsolve.algorithms.agd import AGD
from fedsolve.algorithms.dkrr import DKRR
from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.fedavg_distill import FedAvgDistill
from fedsolve.algorithms.feddyn import FedDyn
from fedsolve.algorithms.fedlrgd import FedLRGD
from fedsolve.algorithms.fednewton import FedNewton
from fedsolve.algorithms.fednewton_cg import FedNewtonCG
from fedsolve.algorithms.fednl import FedNL
from fedsolve.algorithms.fedprox import FedProx
from fedsolve.algorithms.fedsplit import FedSplit
from fedsolve.algorithms.ffgb import FFGB
from fedsolve.algorithms.ffgb_distill import FFGBDistill
from fedsolve.algorithms.giant import GIANT
from fedsolve.algorithms.mont_dec import MontDec
from fedsolve.algorithms.newton import Newton
from fedsolve.algorithms.scaffold import Scaffold
from fedsolve.algorithms.shed import SHED
from fedsolve.algorithms.shed_least_squares import SHEDLeastSquares

__all__ = [
    "AGD",
    "DKRR",
    "FFGB",
    "GIANT",
    "SHED",
    "FFGBDistill",
    "FedAvg",
    "FedAvgDistill",
    "FedDyn",
    "FedLRGD",
    "FedNL",
    "FedNewton",
    "FedNewtonCG",
    "FedProx",
    "FedSplit",
    "MontDec",
    "Newton",
    "SHEDLeastSquares",
    "Scaffold",
]
