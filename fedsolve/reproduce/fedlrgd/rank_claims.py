"""Sentences of Appendix C of Jadbabaie et al. (2023) about networks and histograms, beside "almost all ≤ 10"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from fedsolve.networks.modules import flat_module
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.fedlrgd.networks import CLASSES, cnn, mlp
from fedsolve.reproduce.fedlrgd.rank_runs import Ranks
from fedsolve.reproduce.result import Verdict

Found = Mapping[str, Sequence[Ranks]]
HALF = (0.25, 0.75)  # "about half"
ALIKE = 0.05  # "unchanged": shares of ranks within 10 differ by at most so much
MNIST, CIFAR = 0.98, (0.55, 0.65)  # test accuracies: "over 98%", "around 60%"
TRAINED, TRAINED_RELU = 0.99, 0.98  # training accuracies: MNIST, and CIFAR-10 with ReLU units
LEARNED = 0.2  # test accuracy from which a network has learned something: twice that of guessing
NOT_MUCH = 3  # “does not increase the approximate rank … by much”: the median rank, by at most so much
PRINTED = {784: 623_290, 3072: 1_553_220}  # weights, by inputs


def sentences(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    """What can be said of the histograms that are there."""
    if "1b" in found:
        shares = [one.at_most(5) for one in found["1b"]]
        said = ", ".join(f"{one:.1%}" for one in shares)
        holds = all(HALF[0] <= one <= HALF[1] for one in shares)
        yield "1b: about half of the ranks are at most 5 (25 % to 75 %)", stated(holds, said, quick)
    others = [name for name in found if name in ("1a", "1c", "1e", "1f", "1g", "1i")] if "1b" in found else []
    for name in others:
        pairs = zip(found[name], found["1b"], strict=False)
        apart = max(abs(one.at_most(10) - two.at_most(10)) for one, two in pairs)
        words = f"{name}: qualitatively as 1b, the share of ranks within 10 differs by at most 5 points"
        yield words, stated(apart <= ALIKE, f"{100 * apart:.1f} points", quick)
    yield from _accuracies(found, quick)
    yield from _weights()
    yield from _comparisons(found, quick)


def _comparisons(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    if "1b" in found and "1h" in found:
        one, two = (float(np.median([rank for part in found[name] for rank in part.ranks])) for name in ("1b", "1h"))
        words = f"1h: two hidden layers raise the median rank by at most {NOT_MUCH}"
        yield words, stated(two - one <= NOT_MUCH, f"{two:g} against {one:g}", quick)
    colours = [part for name, parts in found.items() if name.startswith("2") for part in parts]
    if colours:
        share = sum(part.train > part.test for part in colours) / len(colours)
        said = "; ".join(f"{part.train:.1%} against {part.test:.1%}" for part in colours)
        yield "CIFAR-10: training accuracies are usually higher than test accuracies", stated(share > 0.5, said, quick)
    if "2d" in found:
        shares, worst = [part.at_most(10) for part in found["2d"]], min(part.test for part in found["2d"])
        said = ", ".join(f"{one:.1%}" for one in shares)
        words = "2d: at least 95% of the ranks are at most 10, as for MNIST"
        yield words, stated(min(shares) >= 0.95, said, quick) if worst >= LEARNED else Verdict(None, said)
    if "2b" in found and "2d" in found:
        smooth, relu = (min(part.test for part in found[name]) for name in ("2b", "2d"))
        said = f"{relu:.1%} with ReLU units, {smooth:.1%} with sigmoid ones"
        words = "CIFAR-10: test accuracies are slightly higher with ReLU units, by at most 10 points"
        if smooth < LEARNED:
            yield words, Verdict(None, f"{said}, a network that has not learned")
        else:
            yield words, stated(0 < relu - smooth <= 0.1, said, quick)


def _accuracies(found: Found, quick: bool) -> Iterator[tuple[str, Verdict]]:
    digits = [one.test for name, parts in found.items() if name.startswith("1") for one in parts]
    if digits:
        said = f"{min(digits):.1%} to {max(digits):.1%}"
        share = sum(one > MNIST for one in digits) / len(digits)
        words = "MNIST: test accuracies are over 98 % in almost all instances (80 %)"
        yield words, stated(share >= 0.8, said, quick)
        trained = [one.train for name, parts in found.items() if name.startswith("1") for one in parts]
        share = sum(one > TRAINED for one in trained) / len(trained)
        words = "MNIST: training accuracies are over 99 % in almost all instances (80 %)"
        yield words, stated(share >= 0.8, f"{min(trained):.1%} to {max(trained):.1%}", quick)
    colours = [one.test for name, parts in found.items() if name.startswith("2") for one in parts]
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
