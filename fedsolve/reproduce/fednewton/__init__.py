"""The experiments of FedNewton.

Anonymous authors. Efficient Newton-type Federated Learning with Non-IID Data. Submission under double-blind review.
Results: docs/reproduce/fednewton.md.
"""

from fedsolve.reproduce.fednewton import (
    contraction,
    figure2,
    figure3,
    figure4,
    figure5,
    identities,
    lemmas,
    mnist,
    mnist_late,
    mnist_prox,
    penalty,
    printed,
    rounds,
    search,
    table1,
    table3,
    theorem1,
    theorem3,
    theorem4,
    theorem5,
    usps,
)

__all__ = [
    "contraction",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "identities",
    "lemmas",
    "mnist",
    "mnist_late",
    "mnist_prox",
    "penalty",
    "printed",
    "rounds",
    "search",
    "table1",
    "table3",
    "theorem1",
    "theorem3",
    "theorem4",
    "theorem5",
    "usps",
]
