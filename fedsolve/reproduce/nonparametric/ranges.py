"""Su, Xu and Yang (2023): theorems and sentences over wide ranges of t, N, n_i, d, σ, γ and s, and what is said of
others."""

from __future__ import annotations

from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.nonparametric import (
    ranges_kernels,
    ranges_linear,
    ranges_networks,
    ranges_others,
    ranges_spectra,
)
from fedsolve.reproduce.nonparametric.methods import PAPER
from fedsolve.reproduce.nonparametric.quantities import Notes, quantities_result
from fedsolve.reproduce.result import Result

PARTS = (ranges_kernels, ranges_spectra, ranges_linear, ranges_others, ranges_networks)


@experiment(
    "nonparametric-ranges",
    paper=PAPER,
    place="Sections 2 to 6",
    title="Theorems and sentences over wide ranges of t, N, n_i, d, σ, γ and s",
    takes="3 min",
    seeds=2,
)
def ranges(seeds: Seeds, quick: bool) -> Result:
    """The bounds where other experiments have one N, d or few t; other methods, networks and images."""
    found = []
    for seed in seeds:
        notes = Notes()
        ranges_kernels.measured(seed, notes, (20,) if quick else ranges_kernels.TOTALS)
        ranges_linear.measured(seed, notes, 1 if quick else ranges_linear.DRAWS)
        ranges_others.measured(seed, notes, 20 if quick else ranges_others.RUNS)
        ranges_spectra.measured(seed, notes)
        ranges_networks.measured(seed, notes)
        found.append(notes.ends)
    return quantities_result(
        [one for part in PARTS for one in part.QUANTITIES],
        found,
        (
            "Expectations over the noise are exact, but for local SGD (400 runs of one client, fewer of more). "
            "Kernels: Gaussian, Matérn, min(x, y), a polynomial of degree 2, 15 random Fourier features and a "
            "neural tangent kernel.",
            "Digits of 8 × 8 pixels stand for collections of images.",
        ),
        quick,
    )
