"""Four invented hospitals, each with a file and a site file of its own, and the same rows as simulated clients."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.sites import Terms

NAMES = ("arden", "bryn", "corrie", "dale")
COLUMNS: list[dict[str, Any]] = [
    {"name": "age"},
    {"name": "pressure"},
    {"name": "sex", "categories": ["f", "m"], "drop_first": True, "unseen": "error"},
]
DECLARED = """
[[schema]]
name = "age"
[[schema]]
name = "pressure"
[[schema]]
name = "sex"
categories = ["f", "m"]
"""
PREPROCESS = fs.data.Preprocess(fs.data.Schema.from_plain(COLUMNS))
LOSS = fs.Logistic(intercept="free")


@dataclass(frozen=True)
class Hospitals:
    """The site files, and the same rows as clients."""

    files: dict[str, Path]
    clients: tuple[fs.Client, ...]

    @property
    def paths(self) -> list[Path]:
        return list(self.files.values())


def rows(name: str, count: int, seed: int) -> list[str]:
    """The lines of a hospital's file."""
    rng = np.random.default_rng([seed, *name.encode()])
    age, pressure = rng.normal(60, 12, count), rng.normal(140, 20, count)
    sex = rng.choice(["f", "m"], count)
    chance = 1 / (1 + np.exp(-(0.05 * (age - 60) + 0.02 * (pressure - 140) + 0.5 * (sex == "m") - 0.2)))
    ill = np.where(rng.uniform(size=count) < chance, "yes", "no")
    lines = [f"{a:.1f},{b:.0f},{c},{d}" for a, b, c, d in zip(age, pressure, sex, ill, strict=True)]
    return ["age,pressure,sex,ill", *lines]


# Beside the default, so that what an evaluation may ask, where it is allowed, is held to all other rules.
ALSO = 'also = ["Evaluation", "StandardErrors", "FederationGain", "EarlyStopping"]'


def site_text(name: str, policy: str = "", declared: str = DECLARED, data: str = "") -> str:
    """The text of a site file, whose policy is the default but that it answers evaluations."""
    if "also" not in policy:
        policy = f"{ALSO}\n{policy}"
    return f"""name = "{name}"
store = "store-{name}"

[data]
file = "{name}.csv"
target = "ill"
classes = ["no", "yes"]
{data}
{declared}
[policy]
{policy}
"""


def hospitals(
    folder: Path, counts: Sequence[int] = (60, 80, 50, 70), policy: str = "", seed: int = 0, numbers: bool = False
) -> Hospitals:
    """Write the files of all four; with `numbers` the target is 1 or 3 instead of "no" or "yes"."""
    files = {}
    for name, count in zip(NAMES, counts, strict=True):
        text, about = "\n".join(rows(name, count, seed)) + "\n", site_text(name, policy)
        if numbers:
            text, about = text.replace("yes", "3").replace("no", "1"), about.replace('classes = ["no", "yes"]\n', "")
        (folder / f"{name}.csv").write_text(text)
        files[name] = folder / f"{name}.toml"
        files[name].write_text(about)
    read = fs.data.load_sites(
        {name: folder / f"{name}.csv" for name in NAMES},
        target="ill",
        classes=None if numbers else ["no", "yes"],
        schema=PREPROCESS.schema,
    )
    return Hospitals(files, read.clients)


def terms() -> Terms:
    """Those of a new run."""
    return Terms(secrets.token_hex(8))
