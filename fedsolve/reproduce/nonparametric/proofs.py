"""Su, Xu and Yang (2023), appendices A to D: every step of the proofs, and sentences of the text."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.nonparametric import (
    failures,
    failures_before,
    proof_coefficients,
    proof_conditioning,
    proof_converses,
    proof_designs,
    proof_deviations,
    proof_dimensions,
    proof_finite_rank,
    proof_gain_bounds,
    proof_gain_runs,
    proof_gains,
    proof_moments,
    proof_noise_tails,
    proof_operators,
    proof_polynomial_decay,
    proof_population,
    proof_posteriors,
    proof_prediction,
    proof_ranks,
    proof_rates,
    proof_recursion,
    proof_shares,
    proof_sizes,
    proof_spectra,
    proof_subspace_risks,
    proof_tails,
    proof_unlike,
    remarks_common,
    remarks_coupons,
    remarks_estimators,
    remarks_gains,
    remarks_kernels,
    remarks_linear,
    remarks_messages,
    remarks_norms,
    remarks_orders,
    remarks_proximal,
    remarks_related,
    remarks_rows,
    remarks_steps,
    remarks_stopping,
)
from fedsolve.reproduce.nonparametric.methods import PAPER
from fedsolve.reproduce.nonparametric.quantities import Notes, quantities_result
from fedsolve.reproduce.result import Result

PROOFS = (
    *(proof_recursion, proof_spectra, proof_prediction, failures, proof_tails, proof_moments, proof_population),
    *(proof_coefficients, proof_designs, proof_gains, proof_converses),
    *(proof_operators, proof_deviations, proof_gain_bounds, proof_posteriors, failures_before, proof_unlike),
    *(proof_gain_runs, proof_sizes, proof_finite_rank, proof_polynomial_decay, proof_subspace_risks, proof_shares),
    *(proof_conditioning, proof_noise_tails, proof_rates, proof_dimensions, proof_ranks),
)  # fmt: skip
REMARKS = (
    *(remarks_kernels, remarks_linear, remarks_steps, remarks_stopping, remarks_norms, remarks_estimators),
    *(remarks_related, remarks_gains, remarks_rows, remarks_messages, remarks_coupons, remarks_orders),
    *(remarks_proximal, remarks_common),
)  # fmt: skip
NOTE = (
    "A claim holds if it holds for every case and seed; the table has the smallest and the largest value "
    "of the quantity. "
    "“As printed” marks what stands in the paper and cannot be meant, beside the line with what its proof uses."
)


QUICK = {  # draws
    **{proof_tails: 4000, proof_moments: 4000, failures: 400, proof_converses: 1000},
    **{proof_finite_rank: 5, proof_polynomial_decay: 3, proof_shares: 100, proof_noise_tails: 400},
}


def _found(parts: Sequence[ModuleType], seeds: Seeds, quick: bool) -> Result:
    found = []
    for seed in seeds:
        notes = Notes()
        for part in parts:
            part.measured(seed, notes, *((QUICK[part],) if quick and part in QUICK else ()))
        found.append(notes.ends)
    return quantities_result([one for part in parts for one in part.QUANTITIES], found, (NOTE,), quick)


@experiment(
    "nonparametric-proofs",
    paper=PAPER,
    place="Appendices A to D",
    title="Every step of the proofs, by computation",
    takes="3 min",
    seeds=3,
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Identities to 1e-10, inequalities as ratios, probabilities and means by draws."""
    return _found(PROOFS, seeds, quick)


@experiment(
    "nonparametric-remarks",
    paper=PAPER,
    place="Sections 2 to 7",
    title="Sentences of the text that no theorem or figure decides",
    takes="1 min",
)
def remarks(seeds: Seeds, quick: bool) -> Result:
    """Small computations, one for each sentence."""
    return _found(REMARKS, seeds, quick)
