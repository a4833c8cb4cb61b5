"""Sentences of Appendix C of Jadbabaie et al. (2023) about networks and histograms, beside "almost all ≤ 10"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from fedsolve.networks.modules import flat_module
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.fedlrgd.networks import CLASSES, cnn, mlp
from fedsolve.reproduce.fedlrgd.rank_runs import Ranks
from fedsolve.reproduce.fedlrgd.rank_settings import SETTINGS
from fedsolve.reproduce.result import Verdict

Found = Mapping[str, Sequence[Ranks]]
HALF = (0.25, 0.75)  # "about half"
ALIKE = 0.05  # "unchanged": shares of ranks within 10 differ by at most so much
MNIST, CIFAR = 0.98, (0.55, 0.65)  # test accuracies: "over 98%", "around 60%"
TRAINED, TRAINED_RELU = 0.99, 0.98  # training accuracies: MNIST, and CIFAR-10 with ReLU units
LEARNED = 0.2  # test accuracy from which a network has learned something: twice that of guessing
NOT_MUCH = 2  # times: “does not increase the approximate rank … by much”, of the median rank
ALMOST_ALL = 0.95
PRINTED = {784: 623_290, 3072: 1_553_220}  # weights, by inputs
LIKE_1B, LIKE_2B = ("1a", "1c", "1d", "1e", "1f", "1g", "1i"), ("2a", "2c", "2d")


def sentences(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    """What can be said of the histograms that are there."""
    if "1b" in found:
        shares = [one.at_most(5) for one in found["1b"]]
        said = ", ".join(f"{one:.1%}" for one in shares)
        holds = all(HALF[0] <= one <= HALF[1] for one in shares)
        yield "1b: about half of the ranks are at most 5 (25 % to 75 %)", stated(holds, said, quick)
    yield from _alike(found, "1b", LIKE_1B, quick)
    yield from _alike(found, "2b", LIKE_2B, quick)
    if "1d" in found:
        largest = max(max(one.ranks) for one in found["1d"])
        yield "1d: no rank is above 10", stated(largest <= 10, f"the largest is {largest}", quick)
    yield from _accuracies(found, quick)
    yield from _weights()
    yield from _comparisons(found, quick)
    yield from _medians(found, quick)


def _alike(found: Found, base: str, names: Sequence[str], quick: bool) -> Iterator[tuple[str, Verdict]]:
    """Whether as many ranks as in the base are within what the paper says of it; open if a network has not learned."""
    if base not in found:
        return
    bound = SETTINGS[base].bound
    for name in names:
        words = f"{name}: qualitatively as {base}, the share of ranks within {bound} differs by at most 5 points"
        if name not in found:
            if base == "2b":
                yield words, Verdict(None, "not run yet")
            continue
        pairs = list(zip(found[name], found[base], strict=False))
        apart = max(abs(one.at_most(bound) - two.at_most(bound)) for one, two in pairs)
        worst, said = min(part.test for pair in pairs for part in pair), f"{100 * apart:.1f} points"
        if worst < LEARNED:
            yield words, Verdict(None, f"{said}, but a network has not learned: test accuracy {worst:.1%}")
        else:
            yield words, stated(apart <= ALIKE, said, quick)


def median_claim(name: str) -> str:
    return f"{name}: the median rank is at most {NOT_MUCH} times that of 1b, and at least half of it"


def _medians(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    """Whether ranks are multiplied, which shares at 100 % do not show; open if a network has not learned."""
    if "1b" not in found:
        return
    for name in LIKE_1B:
        if name not in found:
            continue
        own, base = (float(np.median([rank for part in found[one] for rank in part.ranks])) for one in (name, "1b"))
        holds = base / NOT_MUCH <= own <= NOT_MUCH * base
        learned = min(part.test for one in (name, "1b") for part in found[one]) >= LEARNED
        yield median_claim(name), Verdict(holds if learned and not quick else None, f"{own:g} against {base:g}")


def networks(found: Found, figure: str) -> list[Ranks]:
    """Of a figure, one setting of each network: those that share a network count once."""
    chosen: dict[object, Sequence[Ranks]] = {}
    for name, parts in found.items():
        if name.startswith(figure):
            chosen.setdefault(SETTINGS[name].training, parts)
    return [part for parts in chosen.values() for part in parts]


def _comparisons(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    if "1b" in found and "1h" in found:
        one, two = (float(np.median([rank for part in found[name] for rank in part.ranks])) for name in ("1b", "1h"))
        words = f"1h: with two hidden layers the median rank is at most {NOT_MUCH} times that of 1b"
        yield words, stated(two <= NOT_MUCH * one, f"{two:g} against {one:g}", quick)
        shares = [part.at_most(SETTINGS["1b"].bound) for part in found["1h"]]
        said = ", ".join(f"{share:.1%}" for share in shares)
        yield "1h: at least 95% of the ranks are at most 10, as of 1b", stated(min(shares) >= ALMOST_ALL, said, quick)
    colours = networks(found, "2")
    if colours:
        share = sum(part.train > part.test for part in colours) / len(colours)
        said = "; ".join(f"{part.train:.1%} against {part.test:.1%}" for part in colours)
        words = "CIFAR-10: training accuracies are usually higher than test accuracies"
        if min(part.test for part in colours) < LEARNED:
            yield words, Verdict(None, f"{said}; a network has not learned")
        else:
            yield words, stated(share > 0.5, said, quick)
    if "2d" in found:
        shares, worst = [part.at_most(10) for part in found["2d"]], min(part.test for part in found["2d"])
        said = ", ".join(f"{one:.1%}" for one in shares)
        words = "2d: at least 95% of the ranks are at most 10, as for MNIST"
        yield words, stated(min(shares) >= ALMOST_ALL, said, quick) if worst >= LEARNED else Verdict(None, said)
    if "2b" in found and "2d" in found:
        smooth, relu = (min(part.test for part in found[name]) for name in ("2b", "2d"))
        said = f"{relu:.1%} with ReLU units, {smooth:.1%} with sigmoid ones"
        words = "CIFAR-10: test accuracies are slightly higher with ReLU units, by at most 10 points"
        if smooth < LEARNED:
            yield words, Verdict(None, f"{said}, a network that has not learned")
        else:
            yield words, stated(0 < relu - smooth <= 0.1, said, quick)


def _accuracies(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    digits = networks(found, "1")
    for words, tested, least in (
        ("MNIST: test accuracies are over 98 % in almost all instances (80 %)", True, MNIST),
        ("MNIST: training accuracies are over 99 % in almost all instances (80 %)", False, TRAINED),
    ):
        if digits:
            each = [one.test if tested else one.train for one in digits]
            above = sum(one > least for one in each)
            said = f"{above} of {len(each)} networks, {min(each):.1%} to {max(each):.1%}"
            yield words, stated(above >= 0.8 * len(each), said, quick)
    colours = [one.test for one in networks(found, "2")]
    if colours:
        holds = all(CIFAR[0] <= one <= CIFAR[1] for one in colours)
        said = ", ".join(f"{one:.1%}" for one in colours)
        yield "CIFAR-10: test accuracies are around 60 % (55 % to 65 %)", stated(holds, said, quick)
    if "2d" in found:
        least = min(one.train for one in found["2d"])
        words = "2d: the training accuracy is over 98 %"
        yield words, stated(least > TRAINED_RELU, f"{least:.1%}", quick)


def _weights() -> Iterator[tuple[str, Verdict]]:
    counts = {
        inputs: sum(prod(shape) for shape in flat_module(made, inputs, CLASSES).shapes.values())
        for inputs, made in ((784, mlp(784)), (3072, cnn()))
    }
    said = " and ".join(f"{one:,}" for one in counts.values())
    yield "the networks have p = 623,290 and 1,553,220 weights", Verdict(counts == PRINTED, said)
