"""FedNewton, Lemmas 1, 3 and 4 for clients with distributions of their own, whose bounds have N(λ) and not N_j(λ)."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.diagnose import effective_dimension
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.bounded import KAPPA, Drawn, World, world
from fedsolve.reproduce.fednewton.lemmas import (
    CLIENTS,
    DELTA,
    FEATURES,
    LOG,
    PENALTIES,
    SIZES,
    SLACK,
    first_bound,
    spread_of,
)
from fedsolve.reproduce.fednewton.population import norm, root
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.tally import Tally

ALPHAS, BETA = (0.1, 1.0), 0.1
FIRST = "Lemma 1, right: the bound on R_Dj, clients with shifts"
THIRD = "Lemma 3, clients with shifts, N(λ) of all"
FOURTH = "Lemma 4, clients with shifts, N(λ) of all"
LIKELY = (FIRST, THIRD, FOURTH)
OWN, SHARED = "(30): ‖w_j,λ‖ ≤ κ^2r R, with the R of every f_j*", "(30): ‖w_j,λ‖ ≤ κ^2r R, with the R of f* alone"
NAMES = (*LIKELY, OWN, SHARED)

Case = tuple[float, int, float]  # α, samples of a client, λ


def ratios(of: World, drawn: Drawn, each: int) -> dict[str, float]:
    """Left side over right side for the worst client."""
    ops, l2 = drawn.ops, drawn.ops.l2
    A = spread_of(each, l2, effective_dimension(np.linalg.eigvalsh(ops.pooled), l2))
    third, fourth = 2 * of.B * KAPPA * LOG * A, 2 * KAPPA * (KAPPA + 1) * LOG * A
    found = dict.fromkeys(NAMES, 0.0)
    for own, sample, moment, target in zip(ops.locals, ops.samples, drawn.moments, of.targets, strict=True):
        inverse_root = np.linalg.inv(root(ops.ridge(own)))
        one = {
            FIRST: ops.R(sample, own) / first_bound(each, l2),
            THIRD: norm((inverse_root @ (own @ target - moment))[:, None]) / third,
            FOURTH: norm(inverse_root @ (own - sample)) / fourth,
            OWN: float(np.linalg.norm(np.linalg.solve(ops.ridge(own), own @ target))) / (KAPPA * of.R),
            SHARED: float(np.linalg.norm(np.linalg.solve(ops.ridge(own), own @ target)))
            / (KAPPA * float(np.linalg.norm(of.truth))),
        }
        found = {name: max(found[name], one[name]) for name in NAMES}
    return found


@experiment(
    "fednewton-lemmas-shifted",
    paper="FedNewton",
    place="Lemmas 1, 3 and 4",
    title="The lemmas of FedNewton for clients with different inputs and models",
    takes="30 s",
    seeds=50,
    quick_seeds=3,
)
def lemmas_shifted(seeds: Seeds, quick: bool) -> Result:
    """The bounds for clients hold with shifts, too."""
    sizes, penalties = (SIZES[:2], PENALTIES[1:3]) if quick else (SIZES, PENALTIES)
    pairs = [(alpha, n) for alpha in ALPHAS for n in sizes]
    locals_ = {alpha: world(CLIENTS, FEATURES, alpha, BETA).locals() for alpha in ALPHAS}
    tally = Tally[Case]()
    for seed, (alpha, n) in seeds.over(pairs):
        of = world(CLIENTS, FEATURES, alpha, BETA)
        parts = of.draw(n, np.random.default_rng((seed, n, 29)))
        for l2 in penalties:
            tally.add((alpha, n, l2), ratios(of, Drawn.of(parts, locals_[alpha], l2), n))
    cases: list[Case] = [(alpha, n, l2) for alpha, n in pairs for l2 in penalties]
    claims, draws = Claims(quick), len(seeds)
    allowed = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / draws)
    for name in NAMES:
        values = np.array([tally.measured(case, name).values for case in cases])
        shares = (values > SLACK).mean(axis=1)
        limit = allowed if name in LIKELY else 0.0
        said = f"wrong in at most {100 * shares.max():.0f} % of {draws} draws of a setting; left over right up to "
        claims.add(name, bool(np.all(shares <= limit)), said + f"{values.max():.3g}")
    return Result(
        columns=(Column("α, n, λ"), *(Column(name) for name in NAMES)),
        rows=[
            (
                ", ".join(f"{each:g}" for each in case),
                *(Measured((max(tally.measured(case, name).values),)) for name in NAMES),
            )
            for case in cases
        ],
        claims=claims.found,
        notes=(
            "Each cell is the largest left side over right side in all draws, for the worst of "
            f"{CLIENTS} clients: above 1 it is wrong. The problem of fednewton-lemmas with inputs N(u_j, I), u_j ~ "
            f"N(0, αI), and targets w* + N(0, {BETA}I). δ = {DELTA:g}: a bound may be wrong in a share of δ of the "
            "draws of a setting, give or take three binomial standard errors; (30), with r = ½, in none.",
        ),
    )
