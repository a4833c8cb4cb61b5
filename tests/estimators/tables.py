"""One table for the tests of this room: columns in different units, sites that differ in size and in their rows."""

from __future__ import annotations

import numpy as np

NAMES = ("age", "pressure", "dose", "lab", "noise")
ROWS = 160

_rng = np.random.default_rng(7)
SITES = np.sort(_rng.choice(["arden", "bryn", "corrie"], size=ROWS, p=[0.6, 0.3, 0.1]))
X = _rng.normal(size=(ROWS, 5)) * [10.0, 20.0, 0.1, 1.0, 1.0] + [50.0, 120.0, 1.0, 0.0, 0.0]
X[:, 0] += 8.0 * (SITES == "bryn")
ETA = (X - X.mean(axis=0)) @ [0.05, 0.02, 4.0, -0.7, 0.0]
WEIGHTS = _rng.uniform(0.2, 3.0, size=ROWS)
NUMBERS = ETA + _rng.normal(size=ROWS)
SEVERAL = np.stack([NUMBERS, 3.0 - ETA + _rng.normal(size=ROWS)], axis=1)
TWO = np.where(ETA + _rng.logistic(size=ROWS) > 0, "yes", "no")
THREE = np.array(["low", "mid", "top"])[np.digitize(ETA + _rng.logistic(size=ROWS), [-1.0, 1.0])]
COUNTS = _rng.poisson(np.exp(0.4 * ETA))
