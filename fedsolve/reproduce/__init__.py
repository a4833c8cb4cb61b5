"""Every figure and table of the papers as a named experiment: `fedsolve reproduce --list`.

An experiment is a function of the seeds, in a module per paper; `@experiment` gives it a name. See docs/reproduce.md.
"""

from fedsolve.reproduce import fednewton, shed  # each module registers its experiments
from fedsolve.reproduce.harness import Experiment, Outcome, Seeds, experiment, find, names, perform
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

__all__ = [
    "Column",
    "Experiment",
    "Measured",
    "Outcome",
    "Result",
    "Seeds",
    "Verdict",
    "experiment",
    "fednewton",
    "find",
    "names",
    "perform",
    "shed",
]
