"""FedNewton: the settings of Table 2 and the printed accuracies of Table 3, for the available data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.data import Dataset
from fedsolve.features.base import dense
from fedsolve.reproduce.fednewton.methods import Setting
from fedsolve.typing import Array

FEATURES = 2000  # M, for real data
HELD_OUT = 0.2  # of a data set that has no test rows of its own

# Table 3 as printed; it has no column for KRR.
HEADINGS = ("DKRR", "FedAvg", "FedProx", "#1", "#2", "#4", "#8")
TABLE_3 = """
dna         90.91±0.50  91.09±0.42  89.42±6.98  92.23±0.53  91.96±0.48  92.02±0.40  88.19±11.58
letter      77.18±0.12  77.11±0.17  77.17±0.12  77.30±0.12  77.30±0.12  77.30±0.12  77.30±0.12
pendigits   97.12±0.09  97.12±0.11  97.12±0.10  97.29±0.13  97.31±0.10  97.31±0.11  97.23±0.31
satimage    87.70±0.17  87.84±0.08  87.74±0.11  88.49±0.19  88.26±0.17  88.31±0.14  88.31±0.15
sensorless  96.81±0.12  96.87±0.14  96.84±0.13  97.32±0.11  96.87±0.14  96.44±0.17  84.43±1.20
shuttle     98.46±0.06  98.53±0.08  98.51±0.07  98.54±0.07  98.51±0.07  98.50±0.07  98.44±0.16
usps        92.95±0.10  92.95±0.12  92.95±0.12  93.49±0.18  93.24±0.13  93.28±0.14  93.30±0.15
mnist       95.38±0.12  95.40±0.13  95.46±0.11  95.53±0.13  95.48±0.13  95.49±0.13  95.48±0.12
"""


@dataclass(frozen=True)
class Printed:
    """An accuracy of Table 3, in per cent."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.deviation:.2f}"


def _printed() -> dict[str, dict[str, Printed]]:
    lines = [line.split() for line in TABLE_3.strip().splitlines()]
    return {
        name: {heading: Printed(*map(float, cell.split("±"))) for heading, cell in zip(HEADINGS, cells, strict=True)}
        for name, *cells in lines
    }


PRINTED = _printed()


@dataclass(frozen=True)
class Case:
    """A line of Table 2.

    `std` is the table's σ². It must be read as the standard deviation of Ω: with the printed N(0, 1/σ²) nothing is
    learned on pendigits, usps and the synthetic data. `alpha` is its Dir_K(α); section 7.2 says 0.5 for all.
    """

    data: str
    std: float
    setting: Setting
    alpha: float = 0.5
    label: str = ""

    def __str__(self) -> str:
        return self.label or self.data

    @property
    def printed(self) -> dict[str, Printed]:
        """The printed accuracies; none where the setting is not the paper's."""
        return {} if self == OWN_STD else PRINTED[self.data]

    @property
    def compared(self) -> bool:
        """Whether our rows are the paper's; of Sensorless there are 2,200 of 58,509."""
        return self.data != "sensorless"


OWN_STD = Case("sensorless", 1.0, Setting(1e-6, 1e-7, 0.001), 1.0, "sensorless (2,200 rows), std(Ω) = 1")
CASES = (
    Case("dna", 0.001, Setting(1e-7, 1e-8, 0.001), 1.0),
    Case("letter", 1.0, Setting(0.001, 0.001, 0.001)),
    Case("pendigits", 0.01, Setting(0.0001, 0.0001, 0.0001), 1.0),
    Case("satimage", 1.0, Setting(0.001, 0.001, 0.001), 1.0),
    Case("sensorless", 10.0, OWN_STD.setting, 1.0, "sensorless (2,200 of 58,509 rows)"),
    OWN_STD,
    Case("shuttle", 10.0, Setting(0.001, 0.001, 0.001)),
    Case("usps", 0.1, Setting(0.0001, 0.0001, 0.001)),
    Case("mnist", 0.1, Setting(1e-5, 7e-7, 0.001)),
)


@dataclass(frozen=True, eq=False)
class Rows:
    """Training and test rows, with labels 0 … classes − 1."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @property
    def classes(self) -> int:
        return int(max(self.y.max(), self.y_test.max())) + 1

    @property
    def commonest(self) -> float:
        """The accuracy, in per cent, of always predicting the commonest class of the test rows."""
        return 100 * float(np.bincount(self.y_test.astype(np.int64)).max()) / len(self.y_test)


def rows_of(data: Dataset, seed: int) -> Rows:
    """Training and test rows, with features as in the files (pendigits raw, images divided by 255).

    Our rows of Sensorless are not scaled and none is for tests: a fifth is held out at random, and columns are scaled
    to [0, 1] by the ranges of the rest.
    """
    X = np.asarray(dense(data.X), dtype=np.float64)
    if data.X_test is not None and data.y_test is not None:
        return Rows(X, data.y, np.asarray(dense(data.X_test), dtype=np.float64), data.y_test)
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [round(HELD_OUT * len(X))])
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    X = (X - low) / (high - low)
    return Rows(X[train], data.y[train], X[test], data.y[test])
