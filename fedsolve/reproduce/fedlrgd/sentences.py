"""Jadbabaie et al. (2023): parts of sentences and lines of proofs that the other experiments leave out."""

from __future__ import annotations

from fedsolve.reproduce.fedlrgd import (
    sentences_accuracy,
    sentences_classes,
    sentences_clients,
    sentences_data,
    sentences_distances,
    sentences_epochs,
    sentences_fedave,
    sentences_growth,
    sentences_kernels,
    sentences_limits,
    sentences_loss,
    sentences_quantiles,
    sentences_queues,
    sentences_reached,
    sentences_risks,
    sentences_theorem_2,
    sentences_times,
)
from fedsolve.reproduce.fedlrgd.two_sided import judged_by
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

MODULES = (
    sentences_clients,
    sentences_data,
    sentences_loss,
    sentences_theorem_2,
    sentences_quantiles,
    sentences_growth,
    sentences_kernels,
    sentences_times,
    sentences_classes,
    sentences_accuracy,
    sentences_fedave,
    sentences_reached,
    sentences_queues,
    sentences_epochs,
    sentences_risks,
    sentences_distances,
    sentences_limits,
)
CHECKS = tuple(check for module in MODULES for check in module.CHECKS)


@experiment(
    "fedlrgd-sentences",
    paper="FedLRGD",
    place="Sections I to VI, Appendices A, B, D and E",
    title="Parts of sentences and lines of proofs that the other experiments leave out",
    takes="50 s",
)
def sentences(seeds: Seeds, quick: bool) -> Result:
    """On draws, grids of constants and small runs; the quick form is the same with one seed."""
    found = []
    for seed in seeds:
        here: dict[str, float] = {}
        for module in MODULES:
            here |= module.measured(seed)
        found.append(here)
    return judged_by(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed. “Of the bound” is the largest share of a bound that was found.",
            "Where a claim is about necessity (“only holds when”, “need to ensure”), what is measured is how often, or "
            "how far, it holds without the condition.",
        ),
        quick,
    )
