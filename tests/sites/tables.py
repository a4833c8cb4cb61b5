"""Sites with tables for all kinds of outcome: counts, numbers, two classes or five, with offsets and weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import fedsolve as fs
from tests.sites.hospitals import COLUMNS, DECLARED, NAMES, site_text

Outcome = Literal["classes", "counts", "numbers", "five classes"]
PREPROCESS = fs.data.Preprocess(fs.data.Schema.from_plain([*COLUMNS, {"name": "bmi"}]))
FIVE = [f"c{j}" for j in range(5)]


@dataclass(frozen=True)
class Table:
    """What a site's rows are like.

    outcome   what is predicted
    rows      at each of the four sites
    rate      the typical count
    distinct  how much the columns say of the outcome
    collinear the third column is that of two others, but for a thousandth
    """

    outcome: Outcome
    rows: tuple[int, int, int, int] = (60, 80, 50, 70)
    rate: float = 1.0
    distinct: float = 1.0
    weights: bool = False
    offsets: bool = False
    collinear: bool = False

    def write(self, folder: Path, policy: str = "") -> dict[str, Path]:
        """The site files."""
        files = {}
        for name, rows in zip(NAMES, self.rows, strict=True):
            (folder / f"{name}.csv").write_text(self._lines(name, rows))
            files[name] = folder / f"{name}.toml"
            files[name].write_text(self._about(name, policy))
        return files

    def _lines(self, name: str, rows: int) -> str:
        rng = np.random.default_rng([3, *name.encode()])
        age, pressure = rng.normal(60, 12, rows).round(1), rng.normal(140, 20, rows).round(0)
        bmi, sex = np.exp(rng.normal(3.2, 0.25, rows)).round(1), np.arange(rows) % 2
        if self.collinear:
            bmi = (2 * pressure - age + np.random.default_rng([4, *name.encode()]).normal(0, 1e-3, rows)).round(4)
        offset = rng.normal(0, 0.5, rows).round(2) if self.offsets else np.zeros(rows)
        eta = self.distinct * (0.05 * (age - 60) + 0.02 * (pressure - 140) + 0.5 * sex - 0.2) + offset
        columns = [age, pressure, bmi, np.array(["f", "m"])[sex]]
        if self.weights:
            columns.append(rng.integers(1, 6, rows))
        if self.offsets:
            columns.append(offset)
        columns.append(self._outcomes(rng, eta, np.c_[(age - 60) / 12, (pressure - 140) / 20, sex, np.ones(rows)]))
        heads = ["age", "pressure", "bmi", "sex", *["wt"] * self.weights, *["off"] * self.offsets, "ill"]
        return "\n".join(",".join(map(str, line)) for line in [heads, *zip(*columns, strict=True)]) + "\n"

    def _outcomes(self, rng: np.random.Generator, eta: np.ndarray, X: np.ndarray) -> np.ndarray:
        match self.outcome:
            case "classes":
                return np.where(rng.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta)), "yes", "no")
            case "counts":
                return rng.poisson(self.rate * np.exp(0.5 * eta))
            case "numbers":
                return (10 + 3 * eta + 2 * rng.normal(size=len(eta))).round(2)
            case "five classes":
                scores = self.distinct * X @ np.random.default_rng(9).normal(size=(4, 5))
                return np.array(FIVE)[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)]

    def _about(self, name: str, policy: str) -> str:
        more = ['weight = "wt"'] * self.weights + ['offset = "off"'] * self.offsets
        text = site_text(name, policy, DECLARED + '[[schema]]\nname = "bmi"\n', "\n".join(more))
        classes = 'classes = ["no", "yes"]\n'
        if self.outcome == "five classes":
            return text.replace(classes, f"classes = {FIVE!r}\n".replace("'", '"'))
        return text if self.outcome == "classes" else text.replace(classes, "")
