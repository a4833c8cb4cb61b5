"""Jadbabaie et al. (2023): the proofs and appendices, equation by equation."""

from __future__ import annotations

from fedsolve.reproduce.fedlrgd import (
    proofs_algorithm,
    proofs_covers,
    proofs_cubic,
    proofs_entropy,
    proofs_fedave,
    proofs_gradients,
    proofs_growth,
    proofs_kernels,
    proofs_ledger,
    proofs_monomials,
    proofs_pieces,
    proofs_quantiles,
    proofs_rank,
    proofs_rounds,
    proofs_scaling,
    proofs_steps,
    proofs_times,
)
from fedsolve.reproduce.fedlrgd.two_sided import judged_by
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

MODULES = (
    proofs_kernels,
    proofs_covers,
    proofs_pieces,
    proofs_algorithm,
    proofs_ledger,
    proofs_monomials,
    proofs_gradients,
    proofs_steps,
    proofs_rank,
    proofs_entropy,
    proofs_quantiles,
    proofs_rounds,
    proofs_fedave,
    proofs_cubic,
    proofs_scaling,
    proofs_growth,
)
CHECKS = (*proofs_times.CHECKS, *(check for module in MODULES for check in module.CHECKS))


@experiment(
    "fedlrgd-proofs",
    paper="FedLRGD",
    place="Sections II to V, Appendices A, B, D and E",
    title="The proofs, equation by equation",
    takes="30 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Every step that can be computed: on draws, on grids of constants, or on small runs."""
    found = []
    for seed in seeds:
        here = proofs_times.measured(seed, quick)
        for module in MODULES:
            here |= module.measured(seed)
        found.append(here)
    return judged_by(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed. “Of the bound” is the largest share of a bound that was found; 1 "
            "is the bound itself. Of a chain of lines it is the largest ratio of a line to the next.",
            "(53) to (62) are computed with one piece, where (61) and (8) can hold together: d = 1 with r = 2 and 3, "
            "and d = 2 with r = 3 and 6.",
            "Appendix E is computed in logarithms, up to log n = 10¹⁰⁰, because its factors below any power of n are "
            "large for any n that exists.",
        ),
        quick,
    )
