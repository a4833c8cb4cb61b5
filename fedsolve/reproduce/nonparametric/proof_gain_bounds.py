"""Section 6.3 and Appendix D of Su, Xu and Yang (2023): the gain of Definition 15 and Theorem 16, with a lower bound on
the local risk that no estimator can beat.

Expectations over the noise are exact, those over the rows are means of draws. The federated risk is that of the limit,
in the worst direction of the truths' difference; the infimum over t in (33) is at most that, so that gains are not
overstated.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.gain import gain_bound
from fedsolve.reproduce.nonparametric.gain_risks import Federated, bayes_risk, least_risk, methods, unlike_rows
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, SIGMA
from fedsolve.typing import Array

WHERE = "n_j = d/3 to 5 d, d = 12 and 40, B = 0.3, 1 and 5"
LOCAL = Quantity(
    "Proof of Theorem 16",
    "the best estimator for Gaussian truths of mean square B² has at least a tenth of min{σ²d/n_j, B²} + "
    f"max{{1 − n_j/d, 0}}B²: {WHERE}",
    "error over it",
    least=0.1,
)
ANY = Quantity(
    "Proof of Theorem 16",
    "… and a bound from below for any estimator (van Trees, or what the rows do not see) has at least a twentieth",
    "bound over it",
    least=0.05,
)
FANO_BELOW = bound(
    "Proof of Theorem 16",
    "δ²(1 − (32n_jβδ²/σ² + log 2)/(d log 2)) is at most R_Loc for every δ with 4δ ≤ B: it is below a bound from below "
    "on R_Loc",
    "largest of it over that bound",
)
EXPLODES = Quantity(
    "Footnote 6",
    "n_j < d: without a bound B the best estimator's risk is unbounded: at least 50 times as large for truths 10 times "
    "as large, and again",
    "next over last",
    least=50.0,
)
STAYS = Quantity("Footnote 6", "… and with n_j ≥ 2.5 d it is not: at most 1.1 times", "next over last", most=1.1)
TOGETHER = Quantity(
    "Proof of Theorem 16",
    "the federated risk is at most twice κ(σ²d/(Nα) + Γ²), s = 1 to 100 and FedProx, Γ = 0 to 10",
    "risk over κ(σ²d/(Nα) + Γ²)",
    most=2.0,
)
GAIN = Quantity(
    "Theorem 16, (34)",
    f"the best estimator's over the federated risk is at least a tenth of the bound with c_1 = 1, {WHERE}, Γ = 0 to 10",
    "gain over bound",
    least=0.1,
)
GAIN_ANY = Quantity(
    "Theorem 16, (34)",
    "… and a bound from below for any estimator over the federated risk at least a fiftieth",
    "gain over bound",
    least=0.02,
)
SCARCE = Quantity(
    "After Theorem 16",
    "n_j < d: the gain is at least of the order (1 − n_j/d)B²/Γ², here a tenth, Γ = 0.3 to 10",
    "gain over it",
    least=0.1,
)
RICH = Quantity(
    "After Theorem 16",
    "n_j ≥ d: the gain is at least of the order min{σ²d/n_j, B²}/Γ², here a tenth, Γ = 0.3 to 10",
    "gain over it",
    least=0.1,
)
ORDER = Quantity(
    "After Theorem 16",
    "with Γ = 0 the gain is at least of the order min{N/n_j, N/d}, here a tenth, B = 0.3, 1 and 5",
    "gain over it",
    least=0.1,
)
ORDER_LARGE = Quantity("After Theorem 16", "… for B = 1 and 5, which is above σ = 0.5", "gain over it", least=0.1)
ORDER_B = Quantity(
    "After Theorem 16", "… and for every B it is of the order min{N/n_j, B²N/(σ²d)}", "gain over it", least=0.1
)
FALLS = Quantity(
    "After Theorem 16",
    "the gain is largest with Γ = 0 and falls as Γ grows",
    "gain over that with the next smaller Γ",
    most=1.0 - 1e-9,
)
QUANTITIES = (
    *(LOCAL, ANY, FANO_BELOW, EXPLODES, STAYS, TOGETHER, GAIN, GAIN_ANY, SCARCE, RICH, ORDER, ORDER_LARGE,
    ORDER_B, FALLS),
)  # fmt: skip
GAPS, NORMS, DRAWS = (0.0, 0.3, 1.0, 3.0, 10.0), (0.3, 1.0, 5.0), 4


def measured(seed: int, notes: Notes) -> None:
    """A client with n_j rows among nine with 40 d/12; the others' common truth is Γ away."""
    rng = np.random.default_rng([seed, 44])
    for d in (12, 40):
        for own in (d // 3, 3 * d // 4, 5 * d // 4, 5 * d // 2, 5 * d):
            _gains(own, d, rng, notes)


def _gains(own: int, d: int, rng: np.random.Generator, notes: Notes) -> None:
    drawn = [[unlike_rows(rng, n, d) for n in (own, *(40 * d // 12,) * 9)] for _ in range(DRAWS)]
    total = sum(map(len, drawn[0]))
    far = [np.mean([bayes_risk(X[0], norm) for X in drawn]) for norm in (10.0, 100.0, 1000.0)]
    if own < d:
        notes.add(EXPLODES, far[1] / far[0], far[2] / far[1])
    elif own >= 5 * d // 2:
        notes.add(STAYS, far[1] / far[0], far[2] / far[1])
    local: dict[float, tuple[float, float]] = {}
    for norm in NORMS:
        best = float(np.mean([bayes_risk(X[0], norm) for X in drawn]))
        local[norm] = best, (least := least_risk([X[0] for X in drawn], norm))
        order = min(SIGMA**2 * d / own, norm**2) + max(1 - own / d, 0) * norm**2
        notes.add(LOCAL, best / order)
        notes.add(ANY, least / order)
        delta = np.geomspace(1e-3, norm / 4, 50)
        fano = delta**2 * (1 - (32 * own * delta**2 / SIGMA**2 + math.log(2)) / (d * math.log(2)))
        notes.add(FANO_BELOW, fano.max() / least)
    for place in range(len(methods(drawn[0]))):
        found = [(methods(X)[place], Federated.of(X, methods(X)[place])) for X in drawn]
        kappa = found[0][0].kappa(0.9)
        risks = np.array([np.mean([one.risk(gap) for _, one in found]) for gap in GAPS])
        notes.add(TOGETHER, risks / (kappa * (SIGMA**2 * d / (total * LOW) + np.square(GAPS))))
        for norm, (best, least) in local.items():
            _one(own, d, total, norm, best / risks, least / risks, notes)


def _one(own: int, d: int, total: int, norm: float, gains: Array, surely: Array, notes: Notes) -> None:
    """Gains by Γ, with the best estimator for Gaussian truths, and with the bound for any."""
    bounds = np.array([gain_bound(own, d, total, SIGMA, norm, gap) for gap in GAPS])
    notes.add(GAIN, gains / bounds)
    notes.add(GAIN_ANY, surely / bounds)
    alone = (1 - own / d) * norm**2 if own < d else min(SIGMA**2 * d / own, norm**2)
    notes.add(SCARCE if own < d else RICH, gains[1:] / (alone / np.square(GAPS[1:])))
    notes.add(ORDER, gains[0] / min(total / own, total / d))
    if norm > SIGMA:
        notes.add(ORDER_LARGE, gains[0] / min(total / own, total / d))
    notes.add(ORDER_B, gains[0] / min(total / own, norm**2 * total / (SIGMA**2 * d)))
    notes.add(FALLS, gains[1:] / gains[:-1])
