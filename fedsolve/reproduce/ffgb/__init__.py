"""The experiments of Shen, Hassani, Kale and Karbasi (2022).

Z. Shen, H. Hassani, S. Kale, A. Karbasi. Federated Functional Gradient Boosting. AISTATS 2022, PMLR 151. Results:
docs/reproduce/ffgb.md.
"""

from fedsolve.reproduce.ffgb import (
    augmentation,
    choices,
    distilling,
    divergence,
    fitted_oracles,
    lemmas,
    participation,
    passing,
    proofs,
    remarks,
    rules_grid,
    rules_motives,
    rules_wider,
    sentences,
    setting,
    settings_capacity,
    settings_facts,
    settings_local,
    square_proof,
    table2,
    theory,
    warm_starts,
)

__all__ = [
    "augmentation",
    "choices",
    "distilling",
    "divergence",
    "fitted_oracles",
    "lemmas",
    "participation",
    "passing",
    "proofs",
    "remarks",
    "rules_grid",
    "rules_motives",
    "rules_wider",
    "sentences",
    "setting",
    "settings_capacity",
    "settings_facts",
    "settings_local",
    "square_proof",
    "table2",
    "theory",
    "warm_starts",
]
