"""After Theorem 4.2 of Shen et al. (2022): whether the output knows the labels, by all labellings of the example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import ClassVar

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.learners import Fitting, WeakLearner
from fedsolve.losses import Softmax
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same
from fedsolve.reproduce.ffgb.oracles import Honest, OnTables, Table, places
from fedsolve.reproduce.ffgb.theory_problems import two_diracs
from fedsolve.reproduce.ffgb.theory_runs import functions
from fedsolve.typing import Array

PLACE = "After Theorem 4.2"
LABELS = Same(PLACE, "fs.run: f^t is the same for all four labellings of the two points, t = 0 to 30")
HONEST = AtLeast(
    PLACE, "… while with an oracle that is exact and 0 elsewhere it moves by at least 0.1 between any two", most=0.1
)
OTHER = AtLeast(PLACE, "… while f* moves by at least 1 at every point whose label is another", most=1.0)
CHECKS = (LABELS, HONEST, OTHER)
MU, ROUNDS = 0.1, 30
LABELLINGS = tuple(product((0, 1), repeat=2))


@dataclass(frozen=True)
class Told(OnTables):
    """The oracle of Appendix C for any labels, which it is told: exact at its client's own point, and minus the other
    client's gradient at the other's, as long as f^t is 0. (`Adversary` takes the labels to be opposite.)"""

    labels: tuple[int, ...]

    kind: ClassVar[str] = "theory: adversary of all labels"

    def fit(self, fitting: Fitting) -> Table:
        values = np.eye(2)[list(self.labels)] - 0.5
        values[places(fitting.X)] = fitting.target
        return Table(values)


def measure(found: Found) -> None:
    """Each pair of labellings, with the oracle of Appendix C and with one that does not know of it."""
    told = [relabelled(Told(labels), labels) for labels in LABELLINGS]
    honest = [relabelled(Honest(), labels) for labels in LABELLINGS]
    for a, b in combinations(range(len(LABELLINGS)), 2):
        found.same(LABELS, told[a], told[b], 1.0)
        found.note(HONEST, np.abs(honest[a] - honest[b]).max())
    found.note(OTHER, 2 * np.sqrt(two_diracs(MU)[1]))  # f* at a point is turned round with its label


def relabelled(learner: WeakLearner, labels: Sequence[int]) -> Array:
    """f⁰, …, f^T of FFGB at both points, for clients with these labels."""
    points = np.array([[0.0], [1.0]])
    clients = [Client(f"c{i}", points[[i]], np.array([float(label)])) for i, label in enumerate(labels)]
    return functions(Softmax(classes=2), learner, clients, points, ROUNDS, K=1, mu=MU, rule=0.5)
