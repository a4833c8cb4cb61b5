"""`fedsolve compare --phi`: what several algorithms cost to reach an accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedsolve.algorithms.base import includes_server
from fedsolve.complexity.costs import EPSILONS, Contestant
from fedsolve.complexity.oracle import Sending, oracle_complexity
from fedsolve.complexity.suboptimality import Minimum, Suboptimality
from fedsolve.errors import ConfigError
from fedsolve.loop.history import Run
from fedsolve.losses import LinearLoss
from fedsolve.report.costs import CostComparison
from fedsolve.runfiles import keys
from fedsolve.runfiles.problem import Entry
from fedsolve.text import shortened

LEAST = EPSILONS[-1]


@dataclass(frozen=True)
class Wanted:
    """What `--phi` and `--sending` ask for.

    phis     what sending a vector may cost
    sending  what counts as sending one: a message, or every p numbers in it
    """

    phis: tuple[float, ...]
    sending: Sending = "epochs"

    @property
    def arguments(self) -> list[str]:
        """As they are given to the command."""
        said = ["--phi", ",".join(f"{phi:g}" for phi in self.phis)]
        return said if self.sending == "epochs" else [*said, "--sending", self.sending]


def wanted(phi: str | None, sending: str | None) -> Wanted | None:
    """What is asked for, if anything. Raises ConfigError for what makes no sense."""
    if phi is None and sending is not None:
        raise ConfigError("--sending says what costs φ: give --phi too, such as --phi 1,10,100,1000")
    if phi is None:
        return None
    if sending not in (None, "epochs", "vectors"):
        raise ConfigError(f"--sending is epochs or vectors, got {shortened(sending)}")
    return Wanted(parse_phis(phi), "vectors" if sending == "vectors" else "epochs")


def parse_phis(text: str) -> tuple[float, ...]:
    """The numbers of `--phi`. Raises ConfigError for what are none."""
    said = "--phi takes numbers of at least 0, separated by commas, such as 1,10,100,1000"
    found: list[float] = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            raise ConfigError(f"{said}; got {shortened(part.strip() or text)}") from None
        if not (math.isfinite(number) and number >= 0):
            raise ConfigError(f"{said}; got {shortened(part.strip())}")
        found.append(number)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Judging:
    """Judges the runs of a comparison by what an accuracy costs.

    loss    what all algorithms minimise
    asks    whether clients are asked for the objective after each round; see `Suboptimality`
    """

    wanted: Wanted
    loss: LinearLoss
    asks: bool
    known: dict[bool, Minimum] = field(default_factory=dict)
    contestants: list[Contestant] = field(default_factory=list)
    own: list[str] = field(default_factory=list)  # algorithms that learn from the server's samples
    blind: dict[str, int] = field(default_factory=dict)  # rounds in which some client did not say its objective

    @classmethod
    def of(cls, wanted: Wanted, what: keys.Config, entries: Mapping[str, Entry]) -> Judging:
        """For the algorithms of a run file. Raises ConfigError unless all minimise the same, of a linear model."""
        losses = list(dict.fromkeys(getattr(one.algorithm, "loss", None) for one in entries.values()))
        if len(losses) > 1:
            raise ConfigError(f"--phi compares on one objective, and the algorithms have {len(losses)} losses")
        if not isinstance(losses[0], LinearLoss) or losses[0].l1:
            raise ConfigError(
                f"--phi needs the minimum, which is known of losses of linear models without l1, got {losses[0]!r}"
            )
        some = what.participants()
        partial = some is not None and (some.fraction < 1 or some.simulates_losses)
        return cls(wanted, losses[0], partial or what.run.measure != 1)

    def rule(self, entry: Entry) -> Suboptimality:
        """What watches the run of an entry; of the points of a grid, no more than the table needs is run."""
        return Suboptimality(self.loss, self.asks, LEAST if entry.values else None, self.known)

    def note(self, label: str, entry: Entry, run: Run, rule: Suboptimality) -> None:
        """Take a finished run in."""
        found = oracle_complexity(run, 0.0, sending=self.wanted.sending)
        self.contestants.append(Contestant(entry.entry, label, entry.values, found, dict(rule.shares)))
        if includes_server(entry.algorithm) and entry.entry not in self.own:
            self.own.append(entry.entry)
        blind = sum(round not in rule.shares for round in range(run.rounds))  # a last one that diverged is not judged
        if blind:
            self.blind[entry.entry] = self.blind.get(entry.entry, 0) + blind

    def comparison(self) -> CostComparison:
        """All runs, and what has to be said of them."""
        said = [*self._sent(), *self._whose(), *self._doubts(), *_ends(self)]
        return CostComparison(self.contestants, self.wanted.phis, said)

    def _sent(self) -> list[str]:
        if self.wanted.sending == "epochs":
            return []
        return ["A client that sends more than p numbers in a message pays φ for every p of them (--sending vectors)."]

    def _whose(self) -> list[str]:
        """Whose samples the objective has."""
        if not self.own:
            return []
        others = {one.algorithm for one in self.contestants} - set(self.own)
        said = f"{' and '.join(self.own)} minimise{'s' if len(self.own) == 1 else ''} the mean over the clients' and "
        if not others:
            return [f"{said}the server's samples."]
        return [
            f"{said}the server's samples, the others over the clients' alone. Each is judged by the objective that it "
            "minimises, relative to the minimum of that."
        ]

    def _doubts(self) -> list[str]:
        estimated = sorted({one.algorithm for one in self.contestants if one.complexity.estimated})
        unknown = sorted({name for one in self.contestants for name in one.complexity.uncounted})
        names = " and ".join(estimated)
        said = [f"Γ of {names} is estimated: clients did not all compute the same, and only their sum is known."]
        blind = ", ".join(f"{rounds} of {name}" for name, rounds in self.blind.items())
        lost = (
            f"Some clients did not say their objective, so rounds could not be judged: {blind}. ε may be reached there."
        )
        return [
            *(said if estimated else []),
            *([lost] if blind else []),
            *([f"Not in Γ, because nobody knows what it is worth: {', '.join(unknown)}."] if unknown else []),
        ]


def _ends(judging: Judging) -> list[str]:
    """A best value at the end of its list says that the list may end too early."""
    said: dict[str, None] = {}
    for one in CostComparison(judging.contestants, judging.wanted.phis).costs:
        for name, value in one.values.items():
            tried = [run.values[name] for run in judging.contestants if run.algorithm == one.algorithm]
            word = _end(value, tried)
            if word is not None:
                said[f"{one.algorithm}: {name} = {value:g} is the {word} of its list, and the best in some places."] = (
                    None
                )
    return list(said)


def _end(value: object, tried: Sequence[object]) -> str | None:
    """ "smallest" or "largest", of several numbers; else None."""
    numbers = [each for each in tried if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) < len(tried) or min(numbers) == max(numbers):
        return None
    return "smallest" if value == min(numbers) else "largest" if value == max(numbers) else None
