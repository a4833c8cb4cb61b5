"""Su, Xu and Yang (2023), sections 5 and 6: theorems, lemmas and remarks against what can be computed."""

from __future__ import annotations

from fedsolve.reproduce.checks import checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.nonparametric import (
    theory_coefficients,
    theory_decay,
    theory_kernels,
    theory_rates,
    theory_subspaces,
)
from fedsolve.reproduce.nonparametric.methods import PAPER
from fedsolve.reproduce.result import Result

CHECKS = (
    *(*theory_kernels.CHECKS, *theory_coefficients.CHECKS, *theory_rates.CHECKS),
    *(*theory_subspaces.CHECKS, *theory_decay.CHECKS),
)


@experiment(
    "nonparametric-theory",
    paper=PAPER,
    place="Propositions 1 to 7, Theorems 8 to 16, Lemmas 18 to 30",
    title="The theorems, each against exact expectations or draws",
    takes="50 s",
)
def theory(seeds: Seeds, quick: bool) -> Result:
    """Exact expectations of kernel and linear regression against the bounds, FedAvg with 1, 5 and 10 steps, FedProx."""
    found = [
        {
            **theory_kernels.measured(seed),
            **theory_coefficients.measured(seed),
            **theory_subspaces.measured(seed),
            **theory_rates.measured(seed, quick),
            **theory_decay.measured(seed),
        }
        for seed in seeds
    ]
    return checked(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed. “Of the bound” is the largest share of a bound that was found, "
            "over kernels, methods, step sizes and rounds; 1 is the bound itself.",
            f"Kernels: Gaussian, Matérn, min(x, y) and a polynomial; clients with {theory_kernels.SIZES} rows; γ = 0.5 "
            f"and 0.95. Coefficients: d = {theory_coefficients.D}, γ = 0.9, clients whose covariances and truths "
            "differ.",
            "Expectations over the noise are exact. Corollaries 23 and 24 have constants without a value; there the "
            "mean of 50 draws of the noise is taken, and the rule is one about the order. Their bounds with one "
            "constant, and with which probability, are in nonparametric-proofs.",
            "κ of FedAvg is γs/(1 − (1 − γ)^s), as in Lemma 29.",
        ),
        quick,
    )
