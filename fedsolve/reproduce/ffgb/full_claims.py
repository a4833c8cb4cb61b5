"""What the paper says of Table 2 and Figure 1, judged by the parts of the full form that are there.

A method that has not reached a target needs more models than it had rounds, and no more is known. A row that lacks a
part, or where this leaves it open, decides nothing. The rules were written when most parts were known; that most rows
must decide was added with the last ones, when one row in six would have made a "yes". "Significantly" is read as half
of the models, also a rule that was written when the counts were known. The targets are FFGB-Distill's own accuracies;
that it is better with half of the models, whatever the target, was added for the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from fedsolve.reproduce.ffgb.full_settings import ROUNDS, WARM, Case, Columns, targets
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDAVG_DISTILL, FEDDYN, FFGB, Method
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.printed import printed
from fedsolve.reproduce.result import Verdict

NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "emnist-d": "EMNIST-D", "emnist-l": "EMNIST-L"}
WITHIN = 2.0  # counts agree if neither is more than twice the other
FIRST = 0.50  # "FFGB-distill obtains a 50% testing accuracy after a single iteration"


@dataclass(frozen=True)
class Count:
    """How many models: between `least` and `most`, which is infinite if the target was not reached."""

    least: float
    most: float

    @classmethod
    def of(cls, part: Part, goal: float) -> Count:
        reached = part.trace.rounds_to(goal)
        return cls(reached, reached) if reached < inf else cls(part.trace.rounds + 1.0, inf)

    @classmethod
    def read(cls, text: str) -> Count:
        """A printed one: 19, or > 100."""
        number = float(text.removeprefix(">"))
        return cls(number + 1, inf) if text.startswith(">") else cls(number, number)

    def __str__(self) -> str:
        return f"{self.least:.0f}" if self.most < inf else f"> {self.least - 1:.0f}"

    def plus(self, more: float) -> Count:
        return Count(self.least + more, self.most + more)

    def is_below(self, other: Count) -> bool | None:
        """None if it cannot be told."""
        return True if self.most < other.least else False if self.least >= other.most else None

    def agrees(self, paper: Count) -> bool | None:
        """Whether neither is more than twice the other, as far as is known; "> 100" agrees with 51 and more."""
        near = WITHIN * min(self.least, paper.least) >= max(self.least, paper.least)
        if self.most < inf:
            return WITHIN * self.least >= paper.least if paper.most == inf else near
        if paper.most < inf:
            return False if self.least > WITHIN * paper.least else None
        return True if near else None


Rows = Mapping[tuple[str, int], Mapping[str, Count]]  # by setting and place of the target, then by column
Test = Callable[[Count, Count], bool | None]


def counts(columns: Columns, parts: Parts, settings: tuple[str, ...], seed: int = 0) -> Rows:
    """Transmitted models to both targets of every setting, as far as they are known."""
    rows = {}
    for setting in settings:
        case = Case(setting, seed)
        base = parts.find(case.part(FFGB, False))
        if base is None:
            continue
        known = {method.name + (WARM if warm else ""): parts.find(case.part(method, warm)) for method, warm in columns}
        for place, goal in enumerate(targets(base)):
            rows[setting, place] = {name: Count.of(part, goal) for name, part in known.items() if part is not None}
    return rows


def after_rounds(parts: Parts, settings: tuple[str, ...], data: str, how: str, seed: int = 0) -> Verdict:
    """Whether FedAvg-Distill is better, or worse, than FedAvg after as many rounds as both have, in every setting: what
    counts to a target leave open where the one is not given enough rounds to reach it."""
    said, found = [], []
    for setting in (one for one in settings if one.split(":")[0] == data):
        both = [parts.find(Case(setting, seed).part(method, False)) for method in (FEDAVG_DISTILL, FEDAVG)]
        if any(part is None for part in both):
            return Verdict(None, f"{setting} has not been run")
        distilled, plain = (part.trace.accuracies for part in both if part is not None)
        rounds = min(len(distilled), len(plain)) - 1
        found.append(distilled[rounds] > plain[rounds] if how == "better" else distilled[rounds] < plain[rounds])
        said.append(f"{distilled[rounds]:.3f} against {plain[rounds]:.3f} after {rounds}")
    return Verdict(all(found) if found else None, "; ".join(said))


def better_by_half(parts: Parts, settings: tuple[str, ...], other: Method, seed: int = 0) -> Verdict:
    """Whether FFGB-Distill's best accuracy is above that of another method with twice as many models: no target of
    its own choice is in this."""
    margins = {}
    for setting in settings:
        mine, its = (parts.find(Case(setting, seed).part(method, False)) for method in (FFGB, other))
        if mine is None or its is None or mine.trace.rounds < ROUNDS or its.trace.rounds < 2 * ROUNDS:
            return Verdict(None, f"{setting} has not been run")
        margins[setting] = max(mine.trace.accuracies) - max(its.trace.accuracies[: 2 * ROUNDS + 1])
    least = min(margins, key=lambda setting: margins[setting])
    wrong = [setting for setting, margin in margins.items() if margin <= 0]
    said = f"by {margins[least]:.3f} ({least}) to {max(margins.values()):.3f}"
    return Verdict(not wrong, said + (f", not at {', '.join(wrong)}" if wrong else ""))


def claims(columns: Columns, parts: Parts, settings: tuple[str, ...]) -> list[tuple[str, Verdict]]:
    """All that is said of the table and the figure."""
    rows = counts(columns, parts, settings)
    has = {method for method, _ in columns}
    found = [*_orders(rows, len(settings), has), *_warm_starts(rows, len(settings)), *_printed(rows, has)]
    for data, how in (("cifar10", "better"), ("cifar100", "worse")) if FEDAVG_DISTILL in has else ():
        words = f"FedAvg-Distill is {how} than FedAvg after equally many rounds on {NAMES[data]}"
        found.append((words, after_rounds(parts, settings, data, how)))
    for other in (FEDDYN, FEDAVG, FEDAVG_DISTILL):
        if other in has:
            words = (
                f"within {ROUNDS} rounds FFGB-Distill is better than {other.name} within {2 * ROUNDS}, in every setting"
            )
            found.append((words, better_by_half(parts, settings, other)))
    first = parts.find(Case("cifar10:0.1", 0).part(FFGB, False))
    if first is not None:
        reached = first.trace.accuracies[1]
        words = "FFGB-Distill has an accuracy of 0.50 after one round (CIFAR-10, s = 0.1)"
        found.append((words, Verdict(reached >= FIRST, f"{reached:.3f}")))
    return found


def _compared(rows: Rows, settings: int, first: str, second: str, test: Test, places: int = 2) -> Verdict:
    """Over the rows that have both. Open while rows are missing and none contradicts, and where most cannot be told."""
    known = {key: test(one[first], one[second]) for key, one in rows.items() if first in one and second in one}
    wrong = [f"{setting}, target {place + 1}" for (setting, place), holds in known.items() if holds is False]
    right, missing = sum(holds is True for holds in known.values()), places * settings - len(known)
    undecided = len(known) - right - len(wrong)
    said = f"{right} of {right + len(wrong)} rows" + (f", not at {'; '.join(wrong)}" if wrong else "")
    said += f"; in {undecided} neither is reached" if undecided else ""
    said += f"; {missing} have not been run" if missing else ""
    return Verdict(False if wrong else None if missing or right <= undecided else True, said)


def _orders(rows: Rows, settings: int, has: set[Method]) -> Iterator[tuple[str, Verdict]]:
    for other in (FEDDYN, FEDAVG, FEDAVG_DISTILL):
        if other in has:
            words = f"FFGB-Distill needs fewer models than {other.name}, in every row"
            yield words, _compared(rows, settings, FFGB.name, other.name, Count.is_below)
    words = "FedDyn needs fewer models than FedAvg, in every row"
    yield words, _compared(rows, settings, FEDDYN.name, FEDAVG.name, Count.is_below)
    pairs = (("cifar10", FEDAVG_DISTILL, FEDAVG, "fewer"), ("cifar100", FEDAVG, FEDAVG_DISTILL, "more"))
    for data, first, second, how in pairs if FEDAVG_DISTILL in has else ():
        some = {key: one for key, one in rows.items() if key[0].split(":")[0] == data}
        words = f"FedAvg-Distill needs {how} models than FedAvg on {NAMES[data]}"
        yield words, _compared(some, 3, first.name, second.name, Count.is_below)


def _warm_starts(rows: Rows, settings: int) -> Iterator[tuple[str, Verdict]]:
    for method in (FEDAVG, FEDDYN):
        words = f"one round of FFGB-Distill saves {method.name} models, its own counted, in every row"
        yield words, _compared(rows, settings, method.name + WARM, method.name, _saves)
        words = f"… {method.name} then needs at most half as many, in every row"
        found = _compared(rows, settings, method.name + WARM, method.name, _halves)
        yield words, replace(found, said=found.said + _largest_share(rows, method))
        higher = {key: one for key, one in rows.items() if key[1] == 1}
        words = f"… {method.name} then needs at most half as many, in the 12 rows whose target is not the start's own"
        found = _compared(higher, settings, method.name + WARM, method.name, _halves, places=1)
        yield words, replace(found, said=found.said + _largest_share(higher, method))


def _halves(warm: Count, cold: Count) -> bool | None:
    """Whether a start leaves at most half of the models, its own counted."""
    mine = warm.plus(1)
    return True if 2 * mine.most <= cold.least else False if 2 * mine.least > cold.most else None


def _largest_share(rows: Rows, method: Method) -> str:
    """Of the models without the start, over the rows where both are reached."""
    pairs = [(one.get(method.name + WARM), one.get(method.name)) for one in rows.values()]
    shares = [(warm.most + 1) / cold.most for warm, cold in pairs if warm and cold and max(warm.most, cold.most) < inf]
    return f"; where both are reached {min(shares):.2f} to {max(shares):.2f} times as many" if shares else ""


def _saves(warm: Count, cold: Count) -> bool | None:
    return warm.plus(1).is_below(cold)


def _printed(rows: Rows, has: set[Method]) -> Iterator[tuple[str, Verdict]]:
    for data, name in NAMES.items():
        for method in (FFGB, FEDAVG_DISTILL, FEDDYN, FEDAVG):
            if method in has:
                yield f"{name}, {method.name}: counts within twice the printed ones", _agreement(rows, data, method)


def _agreement(rows: Rows, data: str, method: Method) -> Verdict:
    said, agreeing = [], []
    for (setting, place), one in rows.items():
        paper = printed(setting, method.name, place) if setting.split(":")[0] == data else None
        if paper is None:
            continue
        ours = one.get(method.name)
        said.append(f"{'not run' if ours is None else ours} ({paper})")
        agreeing.append(None if ours is None else ours.agrees(Count.read(paper)))
    holds = False if False in agreeing else None if None in agreeing or not agreeing else True
    return Verdict(holds, ", ".join(said) or "not run")
