"""Jadbabaie et al. (2023), Figures 1 and 2: gradients of networks have a low approximate rank."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil, inf

import numpy as np

from fedsolve.errors import UnknownName
from fedsolve.networks.library import torch_library
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.fedlrgd.networks import BATCH
from fedsolve.reproduce.fedlrgd.rank_claims import LEARNED, Found, sentences
from fedsolve.reproduce.fedlrgd.rank_runs import Ranks, Runs
from fedsolve.reproduce.fedlrgd.rank_settings import COORDINATES, SETTINGS, SMALLEST, USUAL, Setting, shortened
from fedsolve.reproduce.harness import Full, Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

QUICK = ("1a", "1i")


def in_full(seeds: Seeds, how: Full) -> Result:
    """Run what is missing of the settings, as far as time allows, and make the table of all that is there."""
    for name in how.settings:
        if name not in SETTINGS:
            raise UnknownName("setting", name, SETTINGS)
    runs = Runs("cuda" if torch_library().cuda.is_available() else "cpu", how.folder)
    deadline = inf if how.minutes is None else time.monotonic() + 60 * how.minutes
    for seed, name in seeds.over(how.settings or SETTINGS):
        if time.monotonic() < deadline:
            runs.measured(name, SETTINGS[name], seed)
    kept = {name: [one for seed in seeds.seeds if (one := runs.find(name, seed)) is not None] for name in SETTINGS}
    return _result(SETTINGS, {name: parts for name, parts in kept.items() if parts}, len(seeds), quick=False)


@experiment(
    "fedlrgd-rank",
    paper="FedLRGD",
    place="Figures 1 and 2",
    title="Approximate rank of the gradients of networks",
    takes="5 min",
    seeds=1,
    full=in_full,
)
def rank(seeds: Seeds, quick: bool) -> Result:
    """The network of Figures 1a to 1d: 784 sigmoid units, trained by Adam on MNIST."""
    settings = (
        {name: shortened(SETTINGS[name]) for name in QUICK} if quick else {name: SETTINGS[name] for name in USUAL}
    )
    found: dict[str, list[Ranks]] = {name: [] for name in settings}
    runs = Runs(few=quick)
    for seed, name in seeds.over(settings):
        found[name].append(runs.measured(name, settings[name], seed))
    return _result(settings, found, len(seeds), quick)


def _result(settings: Mapping[str, Setting], found: Found, seeds: int, quick: bool) -> Result:
    missing = seeds * len(SETTINGS) - sum(map(len, found.values()))
    return Result(
        columns=(
            Column("figure"),
            Column("network"),
            Column("k", "{:.0f}".format),
            Column("weights"),
            Column("test accuracy", "{:.3f}".format),
            Column("slices", "{:.0f}".format),
            Column("median rank", "{:.0f}".format),
            Column("largest", "{:.0f}".format),
            Column("≤ 5", "{:.1%}".format),
            Column("≤ 6", "{:.1%}".format),
            Column("≤ 10", "{:.1%}".format),
            Column("paper"),
        ),
        rows=[_row(name, settings[name], parts) for name, parts in found.items()],
        claims=[
            *(
                _claim(name, settings[name], parts, quick)
                for name, parts in found.items()
                if settings[name].least is not None
            ),
            *(
                (_words(name, one), Verdict(None, "not run yet"))
                for name, one in settings.items()
                if name not in found and one.least is not None
            ),
            *sentences(found, quick),
        ],
        notes=(
            f"Each slice has the gradients of k test samples at k perturbed parameters, in one of about {COORDINATES} "
            f"coordinates drawn at random; those with |θ*| < {SMALLEST} are left out except in 1d, and slices that are "
            "zero everywhere. The rank captures 90 % of the squared Frobenius norm (equation 77).",
            f"Training as Keras does by default: Glorot's initial weights, step size 0.001, batches of {BATCH}; MNIST "
            "25 epochs of 60,000 images, CIFAR-10 75 epochs of the 10,000 images at hand, which is as many steps as "
            "the paper's 15 epochs of 50,000.",
            "Beyond the paper: with perturbations twice as large; and with each sample's row of a slice scaled to norm "
            "1, so that the few samples that the network gets wrong do not decide alone.",
            *((f"{missing} of {seeds * len(SETTINGS)} histograms are not in this table.",) if missing else ()),
        ),
        draw=partial(_draw, settings, found),
    )


def _row(name: str, setting: Setting, parts: Sequence[Ranks]) -> tuple[Cell, ...]:
    return (
        name,
        setting.about,
        setting.k,
        "all" if setting.every else f"≥ {SMALLEST}",
        Measured(tuple(one.test for one in parts)),
        Measured(tuple(len(one.ranks) for one in parts)),
        Measured(tuple(float(np.median(one.ranks)) for one in parts)),
        Measured(tuple(max(one.ranks) for one in parts)),
        *(Measured(tuple(one.at_most(most) for one in parts)) for most in (5, 6, 10)),
        setting.said,
    )


def _claim(name: str, setting: Setting, parts: Sequence[Ranks], quick: bool) -> tuple[str, Verdict]:
    """The rule for "almost all": 95 %, with every seed; for "the bulk": 80 %. Open if a network has not learned."""
    assert setting.least is not None
    shares = [one.at_most(setting.bound) for one in parts]
    words = _words(name, setting)
    said, worst = ", ".join(f"{one:.1%}" for one in shares), min(one.test for one in parts)
    if worst < LEARNED:
        return words, Verdict(None, f"{said}, but the network has not learned: test accuracy {worst:.1%}")
    return words, stated(min(shares) >= setting.least, said, quick)


def _words(name: str, setting: Setting) -> str:
    return f"{name}: at least {setting.least:.0%} of the ranks are at most {setting.bound}"


def _draw(settings: Mapping[str, Setting], found: Found, figure: Figure) -> None:
    columns = min(3, len(found))
    axes = figure.subplots(ceil(len(found) / columns), columns, squeeze=False).ravel()
    for axis in axes[len(found) :]:
        axis.axis("off")
    for axis, (name, parts) in zip(axes, found.items(), strict=False):
        ranks = np.concatenate([one.ranks for one in parts])
        axis.hist(ranks, bins=np.arange(0.5, ranks.max() + 1.0), color="#0072B2")
        axis.axvline(settings[name].bound + 0.5, color="grey", linewidth=0.8, linestyle=":")
        axis.set_title(f"{name}: {settings[name].about}, k = {settings[name].k}", fontsize=9)
        axis.set_xlabel("approximate rank")
        axis.set_ylabel("slices")
