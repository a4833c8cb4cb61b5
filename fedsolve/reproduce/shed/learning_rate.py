"""SHED, section 6.7: whether FedNL does better with another Hessian learning rate than 1."""

from __future__ import annotations

from dataclasses import dataclass

from fedsolve.algorithms import FedNL
from fedsolve.curvature.compressors import RankR
from fedsolve.federation.client import Client
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, TopK
from fedsolve.reproduce.claims import Claims, spread
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.best import skewed
from fedsolve.reproduce.shed.comparison import compare
from fedsolve.reproduce.shed.methods import Method
from fedsolve.typing import Array

RATES = (0.5, 0.75, 1.0, 1.25, 1.5)
FEATURES, MU, MOST = 50, 1e-4, 2000
BETTER = 0.9  # of the rounds: an improvement


@dataclass(frozen=True)
class Scaled(RankR):
    """α C(A): with it H_i ← H_i + α C(∇²f_i − H_i), the update of FedNL with the learning rate α."""

    rate: float = 1.0

    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        sent, kept = super().compress(A, client)
        if not isinstance(sent, LowRank):
            raise TypeError("a rank-r compressor sends eigenpairs")
        return LowRank(sent.vectors, self.rate * sent.values), self.rate * kept


def with_rate(rate: float) -> Method:
    return Method(f"FedNL, rate {rate:g}", lambda loss: FedNL(loss, Scaled(1, rate), option=1))


@experiment(
    "shed-fednl-rate",
    paper="SHED",
    place="section 6.7",
    title="FedNL with other Hessian learning rates",
    takes="10 min",
    seeds=3,
)
def fednl_rate(seeds: Seeds, quick: bool) -> Result:
    """Rounds to 1e-10 with rates from 1/2 to 3/2."""
    case = f"n = {FEATURES}, μ = {MU:g}"
    methods = [with_rate(rate) for rate in RATES]
    found = compare(seeds, {case: skewed(FEATURES, MU, quick)}, methods, 200 if quick else MOST)
    rounds = {rate: found.measured(case, one.name, "rounds") for rate, one in zip(RATES, methods, strict=True)}
    claims = Claims(quick)
    best = min(rounds, key=lambda rate: rounds[rate].median)
    said = ", ".join(f"{spread(one)} with {rate:g}" for rate, one in rounds.items())
    holds = rounds[best].median >= BETTER * rounds[1.0].median
    claims.add(f"no other rate takes less than {BETTER} times the rounds of rate 1", holds, f"rounds: {said}")
    return Result(
        columns=found.columns,
        rows=found.rows(),
        claims=claims.found,
        notes=(
            *found.notes,
            "FedNL-LS with rank-1 corrections α C(∇²f_i − H_i); exchanges as they are, search included.",
        ),
        draw=found.draw,
    )
