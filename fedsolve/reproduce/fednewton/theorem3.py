"""FedNewton, Theorem 3 and Remark 6: when more rounds help, how Υ falls with the samples, and how fast one learns."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.diagnose import effective_dimension, upsilon
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import judged
from fedsolve.reproduce.fednewton.bounded import KAPPA, Drawn, world
from fedsolve.reproduce.fednewton.population import covariance
from fedsolve.reproduce.figures import Curve, draw_curves
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.reproduce.tally import Tally

FEATURES, ROUNDS = 50, 8
TOTALS = (512, 1024, 2048, 4096, 8192, 16384)
SHARES = (0.4, 0.5, 0.6, 0.75)  # n = |D|^share; by Theorem 3 with r = ½, γ = 1 the boundaries are 0.5 and 0.75
RATE, TOLERANCE = -0.25, 0.03  # −r / (2r + γ), and what a slope may miss it by
SIZES = (250, 1000, 4000, 16000)  # for the slope of Υ
FIXED, DELTA = 0.05, 0.1  # λ and δ of the condition of Theorem 3's proof
ENOUGH = math.ceil(29 * (KAPPA**2 + 1) * math.log(1 / DELTA) / FIXED)

Case = tuple[str, int, float]  # which part, |D|, exponent of n


def _errors(total: int, clients: int, l2: float, seed: int) -> dict[str, float]:
    """‖f − f*‖₂ of KRR, DKRR and eight rounds; the federated errors; Υ."""
    of = world(clients, FEATURES)
    locals_ = [covariance(of.phi, of.means[0])] * clients
    samples = total // clients
    drawn = Drawn.of(of.draw(samples, np.random.default_rng((seed, total, clients))), locals_, l2)
    C, path, pooled = locals_[0], drawn.rounds(ROUNDS), drawn.pooled_fit

    def size(v: np.ndarray) -> float:
        return math.sqrt(float(v @ C @ v))

    return {
        "KRR": size(pooled - of.truth),
        "DKRR": size(path[0] - of.truth),
        "#8": size(path[-1] - of.truth),
        "federated, DKRR": size(path[0] - pooled),
        "federated, #8": size(path[-1] - pooled),
        "Υ": upsilon(drawn.ops.samples, locals_, C, l2),
        "ρ": drawn.ops.rho(),
        "N(λ)": effective_dimension(np.linalg.eigvalsh(C), l2),
    }


def _upsilon(samples: int, seed: int, clients: int = 4) -> float:
    of = world(clients, FEATURES)
    locals_ = [covariance(of.phi, of.means[0])] * clients
    drawn = Drawn.of(of.draw(samples, np.random.default_rng((seed, samples))), locals_, FIXED)
    return upsilon(drawn.ops.samples, locals_, locals_[0], FIXED)


def slope(xs: list[float], ys: list[float]) -> float:
    """Of the logarithms, by least squares."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def _rates(tally: Tally[Case], totals: tuple[int, ...], seeds: int) -> list[tuple[str, Verdict]]:
    def medians(part: str, share: float, name: str) -> list[float]:
        return [tally.measured((part, total, share), name).median for total in totals]

    def falls(share: float, name: str) -> Verdict:
        found = slope(list(totals), medians("rates", share, name))
        said = f"the median error falls like |D|^{found:.3f}; the theorem's exponent is {RATE:g}"
        return judged(found <= RATE + TOLERANCE, said, seeds)

    def both(share: float) -> tuple[str, int, int, int]:
        def every(name: str) -> list[float]:
            return [value for total in totals for value in tally.measured(("rates", total, share), name).values]

        bounds, rhos = every("Υ"), every("ρ")
        better = sum(a < b for a, b in zip(every("federated, #8"), every("federated, DKRR"), strict=True))
        said = f"Υ = {min(bounds):.2g} to {max(bounds):.2g}, ρ = {min(rhos):.2g} to {max(rhos):.2g}; 8 rounds reduce "
        said += f"the federated error in {better} of {len(bounds)} draws"
        return said, sum(value < 1 for value in bounds), better, len(bounds)

    found = [
        ("KRR learns at the optimal rate", falls(0.75, "KRR")),
        _squared(list(totals), medians("rates", 0.75, "KRR"), seeds),
        ("n = |D|^0.75: DKRR learns at the optimal rate", falls(0.75, "DKRR")),
        ("n = |D|^0.5: eight rounds learn at the optimal rate", falls(0.5, "#8")),
        ("n = |D|^0.4: DKRR does not learn at the optimal rate", _not(falls(0.4, "DKRR"))),
    ]
    said, below, better, total = both(0.4)
    found.append(("n = |D|^0.4: Υ ≥ 1", judged(below == 0, said, seeds)))
    found.append(("n = |D|^0.4: more rounds hurt", judged(better < total / 2, said, seeds)))
    said, below, better, total = both(0.6)
    found.append(("n = |D|^0.6: Υ < 1", judged(below == total, said, seeds)))
    found.append(("n = |D|^0.6: more rounds help", judged(better == total, said, seeds)))
    return [*found, *_remark6(tally, totals, seeds)]


def _squared(totals: list[int], medians: list[float], seeds: int) -> tuple[str, Verdict]:
    """The rate that the paper means by O(1/√|D|): of the squared norm, −2r/(2r + γ) = −½."""
    found = slope(list(totals), [one**2 for one in medians])
    said = f"the squared median error falls like |D|^{found:.3f}; −2r/(2r + γ) = {2 * RATE:g}"
    return "KRR: the squared error falls at least like |D|^-½", judged(found <= 2 * (RATE + TOLERANCE), said, seeds)


def _remark6(tally: Tally[Case], totals: tuple[int, ...], seeds: int) -> list[tuple[str, Verdict]]:
    """The bound of Remark 6 with ten clients; and why the error over it grows: N(λ) has not reached M yet."""

    def median(size: int, name: str) -> float:
        return tally.measured(("remark", size, 0.0), name).median

    over = [median(size, "#8") / (100 * size**-0.5 + math.sqrt(FEATURES / size)) for size in totals]
    said = f"error over bound from {over[0]:.2g} at |D| = {totals[0]} to {over[-1]:.2g} at {totals[-1]}"
    sizes = [median(size, "N(λ)") for size in totals]
    own = [median(size, "#8") / math.sqrt(N / size) for size, N in zip(totals, sizes, strict=True)]
    reason = f"N(λ) rises from {sizes[0]:.1f} to {sizes[-1]:.1f} of {FEATURES}; the error over √(N(λ)/|D|) goes from "
    reason += f"{own[0]:.3g} to {own[-1]:.3g}"
    return [
        ("Remark 6: the error over its bound does not grow", judged(over[-1] <= over[0], said, seeds)),
        ("Remark 6: the error is below its bound with the constant 1", judged(max(over) <= 1, said, seeds)),
        (
            "the error over √(N(λ)/|D|) does not grow by more than a tenth",
            judged(own[-1] <= 1.1 * own[0], reason, seeds),
        ),
    ]


def _not(one: Verdict) -> Verdict:
    return Verdict(None if one.holds is None else not one.holds, one.said)


def _condition(tally: Tally[Case], sizes: tuple[int, ...], seeds: int) -> list[tuple[str, Verdict]]:
    values = {n: tally.measured(("Υ", n, 0.0), "Υ") for n in sizes}
    found = slope(list(sizes), [one.median for one in values.values()])
    said = f"Υ falls like n^{found:.2f} at λ = {FIXED}"
    many, half = (tally.measured(("Υ", n, 0.0), "Υ").values for n in (ENOUGH, ENOUGH // 2))
    wrong, below = sum(value >= 1 for value in many), sum(value < 1 for value in half)
    return [
        ("Υ falls like 1/n, as Theorem 3 prints", judged(found <= -0.95, said, seeds)),
        ("Υ falls like 1/√n, as (42) has it", judged(-0.55 <= found <= -0.45, said, seeds)),
        (
            "Υ < 1 if n > 29 (κ² + 1) log(1/δ) / λ",
            judged(wrong <= DELTA * len(many), f"Υ ≥ 1 in {wrong} of {len(many)} draws with n = {ENOUGH}", seeds),
        ),
        (
            "Υ ≥ 1 if n ≤ 29 (κ² + 1) log(1/δ) / λ",
            judged(below == 0, f"Υ < 1 in {below} of {len(half)} draws with n = {ENOUGH // 2}", seeds),
        ),
    ]


@experiment(
    "fednewton-theorem3",
    paper="FedNewton",
    place="Theorem 3, Remark 6",
    title="Learning rates of FedNewton on clients with the same distribution",
    takes="3 min",
    seeds=10,
)
def theorem3(seeds: Seeds, quick: bool) -> Result:
    """How the error falls with all samples, and Υ with those of a client."""
    totals, sizes = (TOTALS[:2], SIZES[:2]) if quick else (TOTALS, SIZES)
    cases: list[Case] = [("rates", total, share) for total in totals for share in SHARES]
    cases += [("remark", total, 0.0) for total in totals]
    cases += [("Υ", n, 0.0) for n in (*sizes, ENOUGH // 2, ENOUGH)]
    tally = Tally[Case]()
    for seed, case in seeds.over(cases):
        part, size, share = case
        if part == "Υ":
            tally.add(case, {"Υ": _upsilon(size, seed)})
        else:
            clients = round(size ** (1 - share)) if part == "rates" else 10
            tally.add(case, _errors(size, clients, size**-0.5 if part == "rates" else 1 / size, seed))
    names = ("Υ", "ρ", "KRR", "DKRR", "#8")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for axis, name in zip(axes, ("DKRR", "#8"), strict=True):
            curves = {"KRR": ("KRR", 0.75), **{f"n = |D|^{share:g}": (name, share) for share in SHARES}}
            found = {}
            for label, (which, share) in curves.items():
                rows = np.transpose([tally.measured(("rates", total, share), which).values for total in totals])
                found[label] = Curve([list(totals)] * len(rows), rows.tolist())
            draw_curves(axis, found, over="|D|", band=False)
            top = max(float(np.median(ys)) for curve in found.values() for ys in zip(*curve.ys, strict=True))
            rate = [top * (total / totals[0]) ** RATE for total in totals]
            axis.plot(totals, rate, color="grey", linestyle="--", linewidth=1, label=f"like |D|^{RATE:g}")
            axis.set_xscale("log")
            axis.set_title("DKRR" if name == "DKRR" else "FedNewton after 8 rounds")
        axes[0].set_ylabel("‖f − f*‖ in L²")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)

    def cell(case: Case, name: str) -> Measured | None:
        measured = tally.measured(case, name)
        return measured if measured.values else None

    return Result(
        columns=(Column("part"), Column("|D|, n"), *(Column(name) for name in names)),
        rows=[(case[0], _sizes(case), *(cell(case, name) for name in names)) for case in cases],
        claims=[*_rates(tally, totals, len(seeds)), *_condition(tally, sizes, len(seeds))],
        notes=(
            f"The problem of fednewton-lemmas with M = {FEATURES}: f* = ⟨w*, φ⟩, so that r = ½, and γ = 1 is the "
            "general case. λ = |D|^-½ in the rows “rates”, 1/|D| (γ = 0) in “remark”, 0.05 in “Υ”. Errors are exact "
            "norms in L²(ρ). Slopes are of the logarithms of the medians, by least squares.",
            f"A rate holds if the slope is at most the theorem's exponent plus {TOLERANCE:g}. The theorem leaves out "
            "its constants; n = |D|^share takes them as 1. Remark 6 has |D_j|^-2 |D|^1.5 + √(M/|D|) with 10 clients.",
        ),
        draw=draw,
    )


def _sizes(case: Case) -> str:
    part, size, share = case
    if part == "Υ":
        return f"{4 * size}, {size}"
    return f"{size}, {size // (round(size ** (1 - share)) if part == 'rates' else 10)}"
