"""Three hospitals with a binary, a counted and a measured outcome, for formulas.

At one of them a level never occurs, and its cholesterol lies within a narrower range than that of the others.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import fedsolve as fs
from fedsolve.data import Categorical, Numeric, Schema

SITES = {
    "arden": (260, 120.0, 380.0, (1, 2, 3)),
    "bryn": (180, 180.0, 240.0, (1, 2)),
    "corrie": (140, 130.0, 300.0, (1, 2, 3)),
}
SCHEMA = Schema(
    (
        Numeric("age"),
        Numeric("chol", low=100, high=400),
        Categorical("sex", ("f", "m"), unseen="error"),
        Categorical("cp", (1, 2, 3), unseen="error"),
        Categorical("ward", ("red",)),  # of which the formulas say nothing, and no site has that category
    )
)


def tables() -> dict[str, pd.DataFrame]:
    """The table of each site."""
    rng = np.random.default_rng(7)
    found = {}
    for site, (n, low, high, levels) in SITES.items():
        table = pd.DataFrame(
            {
                "age": rng.normal(55, 9, n).round(1),
                "chol": rng.uniform(low, high, n).round(1),
                "sex": rng.choice(["f", "m"], n),
                "cp": rng.choice(levels, n),
                "ward": rng.choice(["blue", "green"], n),
            }
        )
        z = (table.chol - 230) / 60
        eta = 0.03 * (table.age - 55) + 0.5 * z - 0.3 * z**2 + 0.4 * (table.sex == "m") + 0.3 * (table.cp == 3)
        table["ill"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        table["stay"] = rng.poisson(np.exp(0.5 + 0.3 * eta)).astype(float)
        table["pressure"] = 120 + 5 * eta + rng.normal(0, 4, n)
        found[site] = table
    return found


def pooled() -> pd.DataFrame:
    """All rows, with the site of each."""
    return pd.concat([table.assign(site=site) for site, table in tables().items()], ignore_index=True)


def clients(target: str = "ill", given: dict[str, pd.DataFrame] | None = None) -> list[fs.Client]:
    """A client for each site."""
    columns = [column.name for column in SCHEMA.columns]
    return [fs.Client(site, one[columns], one[target]) for site, one in (given or tables()).items()]
