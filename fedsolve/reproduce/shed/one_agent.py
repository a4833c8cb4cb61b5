"""SHED, section 3.1 and Figure 2: one agent, where everything about a step follows from the eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from fedsolve.report.figures import Figure, style
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.shed.problems import songs
from fedsolve.typing import Array

SHARES = (0.0, 0.1, 0.3, 0.5, 0.8)  # of the n eigenpairs that are known
GRID = 60  # values of ρ and of η
ROUNDING = 1e-12
LEAST = 1e-12  # relative errors below are rounding
ALPHAS = (0.001, 0.01, 0.1, 0.3, 0.49)


def spectrum(seed: int) -> Array:
    """The eigenvalues of the pooled Hessian of half the songs, the largest first."""
    clients = songs(iid=True, seed=seed, distinct=True).clients[:10]
    X = np.concatenate([one.X for one in clients])
    return np.linalg.eigvalsh(X.T @ X / len(X))[::-1] + 1e-5


def known(values: Array, q: int, rho: float) -> Array:
    """Λ̂(ρ, q)."""
    return np.where(np.arange(len(values)) < q, values, rho)


def factor(values: Array, q: int, rho: float, eta: float) -> float:
    """r(ρ, η, q), the largest |1 − η λ_j/λ̂_j|."""
    return float(np.abs(1 - eta * values / known(values, q, rho)).max())


def best(values: Array, q: int) -> tuple[float, float]:
    """ρ* and r* of (7) and (8)."""
    rho = (values[q] + values[-1]) / 2
    return rho, 1 - values[-1] / rho


def least_factor(values: Array, q: int, rho: float) -> float:
    """min over η of r(ρ, η, q), exactly: |1 − ηa| over a in [low, high] is least at η = 2/(low + high)."""
    ratios = values / known(values, q, rho)
    low, high = ratios.min(), ratios.max()
    return float((high - low) / (high + low))


# ── Theorem 1 and Corollary 2 ──


def _counts(values: Array) -> list[int]:
    return [int(share * len(values)) for share in SHARES]


def _smallest(values: Array) -> float:
    """The smallest r(ρ, η, q) − r*(q) on a grid of ρ and η around S*."""
    found = np.inf
    for q in _counts(values):
        rho_best, r_best = best(values, q)
        for rho in np.geomspace(values[-1] / 10, 10 * values[q], GRID):
            for eta in np.linspace(0.05, 2.5, GRID) * rho / rho_best:
                found = min(found, factor(values, q, rho, eta) - r_best)
    return found


def _inside(values: Array) -> float:
    """The largest distance from r* of a pair of S*."""
    return max(
        abs(factor(values, q, rho, rho / best(values, q)[0]) - best(values, q)[1])
        for q in _counts(values)
        for rho in np.linspace(values[-1], values[q], GRID)
    )


def _outside(values: Array, counts: Sequence[int]) -> float:
    """The smallest excess over r* of the best step for a ρ outside of [λ_n, λ_{q+1}]."""
    return min(
        least_factor(values, q, rho) - best(values, q)[1]
        for q in counts
        for rho in (values[-1] / 10, values[-1] / 1.1, 1.1 * values[q], 10 * values[q])
    )


def _never_better(values: Array, rng: np.random.Generator) -> float:
    """The largest ratio of the error after a step with (ρ*, 1) to that of another pair of S*, from random errors."""
    worst = 0.0
    for q in _counts(values):
        rho_best, _ = best(values, q)
        errors = rng.standard_normal((len(values), 20))
        ours = np.linalg.norm((1 - values / known(values, q, rho_best))[:, None] * errors, axis=0)
        for rho in np.linspace(values[-1], values[q], 20):
            scale = 1 - rho / rho_best * values / known(values, q, rho)
            worst = max(worst, float((ours / np.linalg.norm(scale[:, None] * errors, axis=0)).max()))
    return worst


# ── Remark 6 ──


def _remark(values: Array) -> tuple[float, bool]:
    """Of its counter-example: |decrease − λ_n/2|, and whether Armijo's test passes for exactly those α ≤ λ_n/(λ_{q+1} +
    λ_n); for every q."""
    off, right = 0.0, True
    for q in range(len(values) - 1):
        rho, _ = best(values, q)
        slope, curvature = rho, values[q]  # pᵀg = pᵀĤp and pᵀHp for p = e_{q+1}
        decrease = slope - curvature / 2
        off = max(off, abs(decrease - values[-1] / 2) / values[-1])
        bound = values[-1] / (values[q] + values[-1])
        tests = [(alpha, alpha <= bound) for alpha in (*ALPHAS, bound * (1 - 1e-9), bound * (1 + 1e-9))]
        right &= all((decrease >= alpha * slope) == passes for alpha, passes in tests)
    return off, right


# ── Figure 2 ──


def _paths(values: Array) -> dict[str, list[float]]:
    """‖θ − θ*‖ with one more eigenpair a round, from the same random error."""
    start = np.random.default_rng(0).standard_normal(len(values))
    found: dict[str, list[float]] = {}
    for name, middle in (("ρ*, η = 1", True), ("λ_{q+1}, η*", False)):
        error, norms = start, [float(np.linalg.norm(start))]
        for q in range(1, len(values)):
            rho_best, _ = best(values, q)
            rho = rho_best if middle else values[q]
            error = (1 - rho / rho_best * values / known(values, q, rho)) * error
            norms.append(float(np.linalg.norm(error)))
        found[name] = norms
    return found


def _draw(values: Array, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    paths = _paths(values)
    looks = {name: style(j) | {"linestyle": ("-", "--")[j]} for j, name in enumerate(paths)}  # they nearly coincide
    draw_curves(left, {name: over_rounds([path]) for name, path in paths.items()}, over="iterations", looks=looks)
    left.set_ylabel("‖θ − θ*‖")
    left.set_ylim(bottom=LEAST)
    q = len(values) // 3
    rho_best, _ = best(values, q)
    rhos, etas = np.linspace(values[-1] / 2, 1.3 * values[q], GRID), np.linspace(0.05, 2.5, GRID)
    factors = [[min(factor(values, q, rho, eta), 1.0) for rho in rhos] for eta in etas]
    shades = right.contourf(rhos, etas, factors, levels=12, cmap="Greys_r")
    inside = np.array([values[-1], values[q]])
    right.plot(inside, inside / rho_best, color="#0072B2", linewidth=2, label="S*")
    right.plot(rho_best, 1, "o", color="#D55E00", label="LSs: (ρ*, 1)")
    right.plot(values[q], 1, "s", color="#CC79A7", label="CVX: (λ_{q+1}, 1)")
    right.set_xlabel("ρ")
    right.set_ylabel("η")
    right.figure.colorbar(shades, ax=right, label="r(ρ, η, q), at most 1 shown")
    legend_below(figure, [left, right])


def _on_theorem(spectra: Sequence[Array], claims: Claims) -> None:
    below = min(_smallest(one) for one in spectra)
    inside = max(_inside(one) for one in spectra)
    outside = min(_outside(one, [q for q in _counts(one) if q]) for one in spectra)
    nothing = min(_outside(one, [0]) for one in spectra)
    worse = max(_never_better(one, np.random.default_rng(seed)) for seed, one in enumerate(spectra))
    falls = [[best(one, q)[1] for q in range(len(one))] for one in spectra]
    falling = all(b <= a for one in falls for a, b in pairwise(one)) and all(abs(one[-1]) <= ROUNDING for one in falls)
    claims.add("Theorem 1: no ρ and η have a smaller factor than r*", below >= -ROUNDING, f"r − r* ≥ {below:.1g}")
    claims.add("Theorem 1: r* is attained everywhere on S*", inside <= 1e-9, f"|r − r*| ≤ {inside:.1g}")
    claims.add("Theorem 1: and nowhere else, q ≥ 1", outside > 0, f"r − r* ≥ {outside:.2g} outside of [λ_n, λ_{{q+1}}]")
    claims.add(
        "Theorem 1: and nowhere else, q = 0", nothing > ROUNDING, f"r − r* = {max(0.0, nothing):.1g} outside too"
    )
    claims.add("r* falls with q to 0 at q = n − 1", falling, f"from {falls[0][0]:.5f} to {falls[0][-1]:g}")
    said = f"at most {worse:.6f} times the other's error"
    claims.add("Corollary 2: (ρ*, 1) is never worse than another pair of S*", worse <= 1 + 1e-9, said)


def _on_figure(spectra: Sequence[Array], claims: Claims) -> None:
    ratios = []
    for one in spectra:
        ours, theirs = _paths(one).values()
        ratios.append(max(a / b for a, b in zip(ours, theirs, strict=True) if min(a, b) > LEAST * ours[0]))
    convex = min(factor(one, q, one[q], 1.0) - best(one, q)[1] for one in spectra for q in _counts(one))
    said = f"at most {max(ratios):.6f} times the other's error"
    claims.add("Figure 2: ρ* is never worse along a whole run", max(ratios) <= 1 + 1e-9, said)
    claims.add("Figure 2: (λ_{q+1}, 1) is not in S*", convex > 0, f"its factor is larger by at least {convex:.2g}")


def _on_remark(spectra: Sequence[Array], claims: Claims) -> None:
    off, passes = zip(*(_remark(one) for one in spectra), strict=True)
    printed = min(one[len(one) // 2] / best(one, len(one) // 2)[0] for one in spectra)
    claims.add("Remark 6: the step lowers f by λ_n/2", max(off) <= 1e-6, f"to a relative {max(off):.1g}")
    said = f"for every q and {len(ALPHAS) + 2} values of α"
    claims.add("Remark 6: Armijo's test passes only for α ≤ λ_n/(λ_{q+1} + λ_n)", all(passes), said)
    said = f"p = {number(printed, 3)} e_{{q+1}} or more, for q = n/2"
    claims.add("Remark 6: the gradient in brackets gives p = e_{q+1}", printed <= 1 + 1e-9, said)


@experiment(
    "shed-fig2",
    paper="SHED",
    place="Theorem 1, Corollary 2, Remark 6, Figure 2",
    title="One agent: the best ρ and η, and Armijo's test",
    takes="10 s",
)
def fig2(seeds: Seeds, quick: bool) -> Result:
    """r* is the least factor, S* is where it is attained, and (ρ*, 1) is best among S*."""
    spectra = [spectrum(seed) for seed, _ in seeds.over(["songs"])]
    claims = Claims(quick)
    _on_theorem(spectra, claims)
    _on_figure(spectra, claims)
    _on_remark(spectra, claims)
    columns = (Column("q"), Column("ρ*"), Column("r*", "{:.5f}".format), Column("r of (λ_{q+1}, 1)", "{:.5f}".format))
    rows = [
        (
            q,
            Measured(tuple(best(one, q)[0] for one in spectra)),
            Measured(tuple(best(one, q)[1] for one in spectra)),
            Measured(tuple(factor(one, q, one[q], 1.0) for one in spectra)),
        )
        for q in _counts(spectra[0])
    ]
    return Result(
        columns=columns,
        rows=rows,
        claims=claims.found,
        notes=(
            "The eigenvalues are of half of the songs, drawn by the seed, with the 54 distinct columns; μ = 1e-5.",
            f"Theorem 1 on {GRID}² pairs (ρ, η) for {len(SHARES)} values of q. In Remark 6 the gradient that "
            "gives p = e_{q+1} is ρ* e_{q+1}.",
        ),
        draw=partial(_draw, spectra[0]),
    )
