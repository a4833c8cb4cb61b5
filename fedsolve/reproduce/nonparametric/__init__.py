"""The experiments of Su, Xu and Yang (2023).

L. Su, J. Xu, P. Yang. A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points. Journal of Machine
Learning Research 24(203), 2023. Results: docs/reproduce/nonparametric.md.
"""

from fedsolve.reproduce.nonparametric import (
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    proofs,
    ranges,
    sentences,
    theory,
)

__all__ = ["figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "proofs", "ranges", "sentences", "theory"]
