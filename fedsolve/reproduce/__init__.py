"""Every figure and table of the papers as a named experiment: `fedsolve reproduce --list`.

Each paper has a package: `fedlrgd`, `fednewton`, `ffgb`, `nonparametric` and `shed`. An experiment is a function of the
seeds that returns a `Result`, and `@experiment` registers it under a name. docs/reproduce/ has the results and
explains how to write an experiment.
"""

from fedsolve.reproduce import fedlrgd, fednewton, ffgb, nonparametric, shed  # each module registers its experiments
from fedsolve.reproduce.harness import Experiment, Full, Outcome, Seeds, experiment, find, names, perform
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

__all__ = [
    "Column",
    "Experiment",
    "Full",
    "Measured",
    "Outcome",
    "Result",
    "Seeds",
    "Verdict",
    "experiment",
    "fedlrgd",
    "fednewton",
    "ffgb",
    "find",
    "names",
    "nonparametric",
    "perform",
    "shed",
]
