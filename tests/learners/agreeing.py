"""Clients that agree on bins, and single fits on them."""

from __future__ import annotations

import numpy as np

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.federation.session import opened
from fedsolve.learners.base import Fitting
from fedsolve.learners.bins import Bins
from fedsolve.learners.tree import Tree
from fedsolve.learners.trees import Trees


def divided(X, y=None, clients: int = 3) -> list[fs.Client]:
    """Rows dealt out in turn."""
    y = np.zeros(X.shape[0]) if y is None else y
    return [fs.Client(f"c{k}", X[k::clients], y[k::clients]) for k in range(clients)]


def agree(learner: Trees, clients: list[fs.Client], preprocess=None) -> tuple[Bins, Federation]:
    """The bins that these clients agree on, and the federation, whose ledger says what it took."""
    protocols = {"algorithm": learner} if preprocess is None else {"algorithm": learner, "preprocess": preprocess}
    with opened(clients, protocols, preprocess=preprocess) as fed:
        agreed = learner.prepare(fed)
        return Bins.of(agreed, fed.features), fed


def fitted(learner: Trees, X, target, weight=None, bins: Bins | None = None, clients: int = 3) -> Tree:
    """A tree on all rows at once, on bins that clients with parts of the rows have agreed on."""
    if bins is None:
        bins, _ = agree(learner, divided(X, clients=clients))
    fitting = Fitting(X, target, weight, bins.arrays(), np.random.default_rng(0))
    tree = learner.fit(fitting)
    again = learner.function(tree.arrays(), X.shape[1], np.shape(target)[1:])
    np.testing.assert_array_equal(again(X), tree(X))  # whatever is fitted passes its own checks
    return tree
