"""Section 6 of Shen et al. (2022): the setting of our full Table 2, and what the printed table shows."""

from __future__ import annotations

from fedsolve.reproduce.ffgb import printed_claims, setting_data, setting_made
from fedsolve.reproduce.ffgb.images import FULL
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result


@experiment(
    "ffgb-setting",
    paper=PAPER,
    place="Section 6",
    title="The setting of the full Table 2, and the printed table",
    takes="10 s",
    seeds=1,
)
def setting(seeds: Seeds, quick: bool) -> Result:
    """Read from the algorithms, networks and data as the full table makes them; nothing is trained."""
    every = {name: make(seed) for seed in seeds for name, make in FULL.items()}
    found = {
        **setting_made.budgets(),
        **setting_made.networks(every),
        **setting_data.divided(every),
        **printed_claims.claims(),
    }
    return Result(
        columns=(Column("what"), Column("found")),
        rows=[(claim, verdict.said) for claim, verdict in found.items()],
        claims=list(found.items()),
        notes=(
            "Algorithms are those that `ffgb-table2 --full` makes for the paper's whole local budgets, data sets the "
            "subsets that it loads. What is “printed” is the paper's Table 2, without any run of ours; a row tells two "
            "methods apart unless both need more than 100 models.",
        ),
    )
