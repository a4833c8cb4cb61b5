"""The experiments of SHED and the methods it is compared with.

Nicolò Dal Fabbro, Subhrakanti Dey, Michele Rossi, Luca Schenato. SHED: A Newton-type algorithm for federated learning
based on incremental Hessian eigenvector sharing. Automatica, 2024; arXiv:2202.05800. Results: docs/reproduce/shed.md.
"""

from fedsolve.reproduce.shed import (
    best,
    conditioning,
    convex_theory,
    determinantal,
    fednl,
    increments,
    intervals,
    learning_rate,
    link_model,
    logistic,
    many_agents,
    messages,
    newton_rounds,
    one_agent,
    other_gaps,
    proofs_convex,
    proofs_least_squares,
    proofs_rates,
    proofs_unequal,
    rates,
    renewal_sets,
    setting,
    superlinear,
    sweeps,
)

__all__ = [
    "best",
    "conditioning",
    "convex_theory",
    "determinantal",
    "fednl",
    "increments",
    "intervals",
    "learning_rate",
    "link_model",
    "logistic",
    "many_agents",
    "messages",
    "newton_rounds",
    "one_agent",
    "other_gaps",
    "proofs_convex",
    "proofs_least_squares",
    "proofs_rates",
    "proofs_unequal",
    "rates",
    "renewal_sets",
    "setting",
    "superlinear",
    "sweeps",
]
