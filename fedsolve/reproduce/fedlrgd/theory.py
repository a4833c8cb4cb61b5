"""Jadbabaie et al. (2023): every theorem, lemma and assumption that can be computed, against what it says."""

from __future__ import annotations

from fedsolve.reproduce.fedlrgd import theory_descent, theory_linear, theory_orders, theory_smoothness, theory_times
from fedsolve.reproduce.fedlrgd.two_sided import judged_by
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CHECKS = (
    *theory_smoothness.CHECKS,
    *theory_descent.CHECKS,
    *theory_linear.CHECKS,
    *theory_times.CHECKS,
    *theory_orders.CHECKS,
)


@experiment(
    "fedlrgd-theory",
    paper="FedLRGD",
    place="Theorems 1 to 3, Propositions 1 and 2, Lemmas 1 to 4, Appendix A",
    title="The theorems, each on problems whose constants are known",
    takes="20 s",
)
def theory(seeds: Seeds, quick: bool) -> Result:
    """Smoothness and low rank, the times of an epoch, and the orders of Theorems 2 and 3."""
    found = [
        {
            **theory_smoothness.measured(seed),
            **theory_descent.measured(seed),
            **theory_linear.measured(seed),
            **theory_times.measured(seed, quick),
            **theory_orders.measured(seed),
        }
        for seed in seeds
    ]
    return judged_by(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed. “Of the bound” is the largest share of a bound that was found; 1 "
            "is the bound itself.",
            "Smoothness is measured on the logistic loss of Appendix A, 20,000 pairs of samples and of parameters; low "
            "rank on g(x; ϑ) = sin(ϑᵀx), whose derivatives are known to any order.",
            "Times are exact (integrals over the Erlang distribution), except those of the queue, which are the mean "
            "of 4,000 runs.",
            "Theorems 2 and 3 are formulas here: whether their r, S and Γ do what the proofs need. What FedLRGD and "
            "FedAve really cost is in fedlrgd-complexity.",
        ),
        quick,
    )
