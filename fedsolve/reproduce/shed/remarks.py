"""SHED, two remarks of section 6.7: GIANT suffers more from a small μ, and FedNL's learning rate is best left at 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedsolve.algorithms import FedNL
from fedsolve.curvature.compressors import RankR
from fedsolve.federation.client import Client
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, Symmetric, TopK
from fedsolve.reproduce.claims import at_least, spread, stated
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.best import skewed
from fedsolve.reproduce.shed.comparison import Make, compare
from fedsolve.reproduce.shed.gaps import Optimum
from fedsolve.reproduce.shed.logistic import MOST, MOST_QUICK, PATIENT, posed
from fedsolve.reproduce.shed.methods import FIB, Method
from fedsolve.typing import Array

MILD, HARD = "iid, μ = 1e-5", "iid, μ = 1e-6"


@experiment(
    "shed-conditioning",
    paper="SHED",
    place="section 6.7.2",
    title="Logistic regression on Fashion-MNIST, iid: what μ = 1e-6 costs GIANT and Fib-SHED",
    takes="5 min",
)
def conditioning(seeds: Seeds, quick: bool) -> Result:
    """GIANT suffers more from ill-conditioning, also where agents are alike."""
    problems: dict[str, Make] = {
        name: partial(posed, dataset="fashion_mnist", mu=mu, iid=True, quick=quick)
        for name, mu in ((MILD, 1e-5), (HARD, 1e-6))
    }
    found = compare(seeds, problems, [FIB, PATIENT], MOST_QUICK if quick else MOST)
    shed, giant = (found.between(HARD, MILD, one.name, "rounds") for one in (FIB, PATIENT))
    said = f"GIANT {spread(giant, 3)} times the rounds, Fib-SHED {spread(shed, 3)}"
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[("GIANT suffers more", stated(giant.median > shed.median, said, quick))],
        notes=found.notes,
        draw=found.draw,
    )


# ── FedNL's learning rate ──

RATES = (0.5, 0.75, 1.25, 1.5)
BETTER = 0.95  # of the rounds with rate 1: less would be an improvement
SKEWED = "one other class per agent"


@dataclass(frozen=True)
class Rated(RankR):
    """`rate` times the rank-r part: H_i ← H_i + rate · C(∇²f_i(x) − H_i)."""

    rate: float = 1.0

    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        sent, _ = super().compress(A, client)
        assert isinstance(sent, LowRank)
        scaled = LowRank(sent.vectors, self.rate * sent.values)
        return scaled, Symmetric(scaled.dense()).packed()


class _FedNL(Method):
    """A method whose runs depend on this file."""

    def told(self, best: Optimum, seed: int) -> str:
        return f"{super().told(best, seed)} {Path(__file__).read_text(encoding='utf-8')}"


def _named(rate: float) -> str:
    return f"FedNL, rate {rate:g}"


def _rated(rate: float) -> Method:
    return _FedNL(_named(rate), lambda loss: FedNL(loss, Rated(1, rate), option=1))


@experiment(
    "shed-fednl-rate",
    paper="SHED",
    place="section 6.7",
    title="FedNL with other learning rates for its Hessians",
    takes="3 min",
)
def fednl_rate(seeds: Seeds, quick: bool) -> Result:
    """Rates other than 1 do not improve FedNL."""
    found = compare(seeds, {SKEWED: skewed(100, 1e-5, quick)}, [_rated(rate) for rate in (1.0, *RATES)], 600)
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=[
            (
                f"rate {rate:g} takes at least {BETTER} times the rounds",
                at_least(found.ratio(SKEWED, _named(rate), _named(1.0), "rounds"), BETTER, quick),
            )
            for rate in RATES
        ],
        notes=(*found.notes, "Rounds are exchanges, in which FedNL's search rides along."),
        draw=found.draw,
    )
