"""The experiments of Jadbabaie, Makur and Shah (2023).

A. Jadbabaie, A. Makur, D. Shah. Federated Optimization of Smooth Loss Functions. IEEE Transactions on Information
Theory 69(12), 2023. https://arxiv.org/abs/2201.01954. Results: docs/reproduce/fedlrgd.md.
"""

from fedsolve.reproduce.fedlrgd import (
    complexity,
    dimensions,
    laws,
    proofs,
    rank,
    rank_colours,
    rank_losses,
    rank_steps,
    rank_tuned,
    rank_variants,
    readings,
    remarks,
    samples,
    sentences,
    theory,
)

__all__ = [
    "complexity",
    "dimensions",
    "laws",
    "proofs",
    "rank",
    "rank_colours",
    "rank_losses",
    "rank_steps",
    "rank_tuned",
    "rank_variants",
    "readings",
    "remarks",
    "samples",
    "sentences",
    "theory",
]
