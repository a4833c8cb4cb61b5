"""SHED, Lemmas 7 and 11, Theorems 8 and 10: statements on any period, n, μ or renewals, on a grid of them; and whether
their bounds could be smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed import proofs_rates as rates
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2
from fedsolve.reproduce.shed.renewal_sets import fibonacci_sums
from fedsolve.reproduce.shed.small_logistic import Agents, estimate, run
from fedsolve.typing import Array

WIDTHS, SQUARES = (4, 8, 12), (4, 10, 16)  # n of logistic regression and of least squares
PENALTIES = (1e-3, 1e-2, 1.0)
AGENTS, SAMPLES = rates.AGENTS, rates.SAMPLES
SAME = 1e-6  # by which a bound that is attained may be missed
FAR = 10.0 ** np.linspace(-1, 3, 9)  # distances from θ* of the points from which Theorem 8 is followed
ITERATIONS, ARRIVED = 400, 1e-8
RATIOS, ALPHAS, BETA = 10.0 ** -np.arange(1.0, 7.0), (0.01, 0.1, 0.3, 0.499), 0.999  # ρ̄/K, α and β of Lemma 11
COUNTED = (4, 8, 20, 300)  # n for which X_t is counted

SEVEN = "Lemma 7: a* ≤ ā_T for n = 4, 10, 16, two μ and every T"
SEVEN_SAME = "Lemma 7: with one agent a* = ā_T, to 1e-6, for every T"
TEN = "(36): a* ≤ ā_T at θ* for n = 4, 8, 12, three μ and every T"
TEN_SAME = "(36): with one agent a* = ā_T at θ*, to 1e-6, for every T"
LONGER = "section 5.1: ā_T at θ* falls with T, for n = 4, 8, 12 and three μ"
LONGER_OWN = "section 5.1: a* falls with T, for n = 4, 8, 12 and three μ"
REACHED = "(41) and (42) are reached with T = 1, 4, n − 1 and Fibonacci renewals, μ = 1, 0.1 and 0.01"
STAYS = "from there on they hold, in all of these runs"
ARRIVES = "Theorem 8: T = 1, n − 1 and Fibonacci renewals, μ = 0.01 and 1, from near and far"
GAMMA = "Lemma 11: γ_t is at most what the step lowers f by, for ρ̄/K from 0.1 to 1e-6 and four α"
GAMMA_ORDER = "Lemma 11: the step lowers f by at most ten times γ_t, for each of them, in one example"
ANY = "Lemma 7: ‖A_1 ⋯ A_t‖ ≤ c_1 ⋯ c_t for random increments, every T and t up to 200"
ANY_SAME = "Lemma 7: with one agent they are equal, to 1e-6"
RANDOM = "(35): random renewals and increments, the error falls at least as fast as its bound"
RANDOM_SAME = "(35): with one agent the product of these steps at θ* has the norm of its bound, to 1e-6"
QUADRATIC = "Newton's method: ‖θ^{t+1} − θ*‖ ≤ L/(2κ) ‖θ^t − θ*‖², n = 4, 8, 12, three μ"
ORDER = "Newton's method: that error grows with a power of 1.95 or more of the one before"
COUNTS = "|X_t| ≥ t/(3n) from t = 2T on, for n = 4 to 300 and T from n − 1 to 3n"
NONE = "|X_t| = 0 for T = n − 2"

CHECKS = (
    Check("Lemma 7", SEVEN),
    Check("Lemma 7", SEVEN_SAME, "off", SAME),
    Check("(36)", TEN),
    Check("(36)", TEN_SAME, "off", SAME),
    *(Check("section 5.1", name, "times", 1.0) for name in (LONGER, LONGER_OWN)),
    Check("Theorem 10", REACHED),
    Check("Theorem 10", STAYS, "failures", 0.0),
    Check("Theorem 8", ARRIVES, "times", ARRIVED),
    Check("Lemma 11", GAMMA),
    Check("Lemma 11", GAMMA_ORDER, "times", 10.0),
    Check("Lemma 7", ANY),
    Check("Lemma 7", ANY_SAME, "off", SAME),
    Check("(35)", RANDOM),
    Check("(35)", RANDOM_SAME, "off", SAME),
    Check("section 1", QUADRATIC),
    Check("section 1", ORDER),
    Check("section 5", COUNTS),
    Check("section 5", NONE, "failures", 0.0),
)


def exponents(hessians: Sequence[Array], weights: Array, period: int, middle: bool) -> tuple[float, float]:
    """a* from the product of the full steps of a period, one more eigenpair of every agent in each; and ā_T.

    middle  whether ρ is that of least squares, (λ_{q+1} + λ_n)/2, and not λ_{q+1}
    """
    n, H = len(hessians[0]), np.average(hessians, axis=0, weights=weights)
    pairs = [np.linalg.eigh(one) for one in hessians]
    whole, factors = np.eye(n), []
    for q in range(1, period + 1):
        parts, shifts = [], []
        for values, V in ((values[::-1], V[:, ::-1]) for values, V in pairs):
            rho = (values[q] + values[-1]) / 2 if middle else values[q]
            shifts.append(rho)
            parts.append((V * np.where(np.arange(n) < q, values, rho)) @ V.T)
        least = float(np.average([values[0] for values, _ in pairs], weights=weights))
        factors.append(1 - least / float(np.average(shifts, weights=weights)))
        whole = whole - np.linalg.solve(np.average(parts, axis=0, weights=weights), H @ whole)
    own = float(np.abs(np.linalg.eigvals(whole)).max())
    return own ** (1 / period), float(np.prod(factors)) ** (1 / period)


def squares(rng: np.random.Generator, n: int, sizes: Sequence[int], mu: float) -> tuple[list[Array], Array]:
    """Hessians of least squares, and the agents' weights."""
    rows = [rng.standard_normal((m, n)) * 0.7 ** np.arange(n) for m in sizes]
    return [X.T @ X / len(X) + mu * np.eye(n) for X in rows], np.array(sizes) / sum(sizes)


def every_period(seed: int, worst: Worst) -> None:
    """a* beside ā_T for every T up to n − 2, after which both are 0."""
    rng = np.random.default_rng((seed, 91))
    for n in SQUARES:
        for mu in (1e-3, 0.1):
            many, one = squares(rng, n, (n // 2, n, 3 * n, 6 * n), mu), squares(rng, n, (3 * n,), mu)
            for T in range(1, n - 1):
                own, bound = exponents(*many, T, middle=True)
                worst.add(SEVEN, own / bound)
                own, bound = exponents(*one, T, middle=True)
                worst.add(SEVEN_SAME, abs(own / bound - 1))
    for n in WIDTHS:
        for mu in PENALTIES:
            of, alone = Agents(seed, n, AGENTS, SAMPLES, mu), Agents(seed, n, 1, SAMPLES, mu)
            found = [exponents(of.hessians(of.best), of.weights, T, middle=False) for T in range(1, n - 1)]
            for T, (own, bound) in enumerate(found, 1):
                worst.add(TEN, own / bound)
                single, least = exponents(alone.hessians(alone.best), alone.weights, T, middle=False)
                worst.add(TEN_SAME, abs(single / least - 1))
            for (own, bound), (own_longer, bound_longer) in pairwise(found):
                worst.add(LONGER, bound_longer / bound)
                worst.add(LONGER_OWN, own_longer / own)


def random_increments(rng: np.random.Generator, worst: Worst) -> None:
    """Lemma 7 as it is before (24): any increments, renewals every T, least squares."""
    n = 10
    for sizes in ((n // 2, n, 3 * n, 6 * n), (3 * n,)):
        hessians, weights = squares(rng, n, sizes, 0.01)
        pairs = [(values[::-1], V[:, ::-1]) for values, V in map(np.linalg.eigh, hessians)]
        H, least = np.average(hessians, axis=0, weights=weights), [values[-1] for values, _ in pairs]
        for T in range(1, n):
            product, log, bound, counts = np.eye(n), 0.0, 0.0, np.zeros(len(sizes), dtype=int)
            for t in range(200):
                counts = np.minimum((0 if t % T == 0 else 1) * counts + rng.integers(0, 3, len(sizes)), n - 2)
                rho = np.array([(values[q] + values[-1]) / 2 for (values, _), q in zip(pairs, counts, strict=True)])
                parts = [
                    (V * np.where(np.arange(n) < q, values, r)) @ V.T
                    for (values, V), q, r in zip(pairs, counts, rho, strict=True)
                ]
                product = product - np.linalg.solve(np.average(parts, axis=0, weights=weights), H @ product)
                size = norm_2(product)
                product, log = product / size, log + float(np.log(size))
                bound += float(np.log1p(-(weights @ least) / (weights @ rho)))
                worst.add(ANY, float(np.exp((log - bound) / (t + 1))))
            if len(sizes) == 1:
                worst.add(ANY_SAME, abs(log / bound - 1))


def random_renewals(of: Agents, rng: np.random.Generator, worst: Worst) -> None:
    """(35) from an error of 1e-4 to 1e-11, in a run in which each agent sends 0 to 2 pairs, drawn anew in each
    iteration, and one of three iterations renews, at least every third: at most n − 2 pairs."""
    count = 1000
    renews = set(np.flatnonzero(rng.random(count) < 1 / 3) + 1) | set(range(1, count + 1, 3))
    steps = run(
        of, renews.__contains__, count, rng.integers(0, 2, (count, len(of.rows)), endpoint=True), np.zeros(of.n)
    )
    values, vectors = of.spectra(of.best)
    H, least = of.hessian(of.best), float(of.mean(values[:, -1]))
    errors = np.array([norm(one.w - of.best) for one in steps])
    seen = np.flatnonzero((errors < 1e-4) & (errors > rates.ROUNDING))
    first, last = int(seen[0]), int(seen[-1])
    log, bound, product = 0.0, 0.0, np.eye(of.n)
    for one in steps[first:last]:
        parts, rho = estimate(values, vectors, one.counts)
        bound += float(np.log1p(-least / float(of.mean(rho))))
        product = product - np.linalg.solve(of.mean(parts), H @ product)
        size = norm_2(product)
        product, log = product / size, log + float(np.log(size))
    if len(of.rows) == 1:
        worst.add(RANDOM_SAME, abs(log / bound - 1))
    else:
        worst.add(RANDOM, bound / float(np.log(errors[last] / errors[first])))


def newton(of: Agents, rng: np.random.Generator, worst: Worst) -> None:
    """One full step of Newton's method from 1e-1 to 1e-4 of κ/L away, and for its order from 1e-2 to 1e-4 away at most,
    in five directions."""

    def left(far: float, direction: Array) -> float:
        w = of.best + far * direction / norm(direction)
        return norm(w - np.linalg.solve(of.hessian(w), of.gradient(w)) - of.best)

    scales = 10.0 ** -np.arange(1.0, 5.0)
    near = min(of.mu / of.L, 0.1) * scales[:3]
    for _ in range(5):
        direction = rng.standard_normal(of.n)
        for far in of.mu / of.L * scales:
            worst.add(QUADRATIC, left(far, direction) * 2 * of.mu / (of.L * far**2))
        found = [left(far, direction) for far in near]
        worst.add(ORDER, 1.95 / float(np.polyfit(np.log(near), np.log(found), 1)[0]))


def rules(n: int) -> dict[str, Callable[[int], bool]]:
    """Whether t = 1, 2, … renews."""
    return {
        "T = 1": lambda t: True,
        "T = 4": lambda t: t % 4 == 1,
        "T = n − 1": lambda t: t % (n - 1) == 1,
        "Fibonacci": set(fibonacci_sums(n, ITERATIONS)).__contains__,
    }


def reaching(of: Agents, worst: Worst) -> None:
    """Where (41) and (42) hold, from θ* + 5 in each coordinate."""
    for rule in rules(of.n).values():
        steps = run(of, rule, 100, np.ones(len(of.rows), dtype=int), of.best + 5 * np.ones(of.n))
        sizes = np.array([max(rates.near(of, one)) for one in steps])
        worst.add(REACHED, float(sizes.min()))
        first = int(np.argmax(sizes <= 1))
        worst.add(STAYS, float(np.mean(sizes[first:] > 1)))


def arriving(of: Agents, rng: np.random.Generator, worst: Worst) -> None:
    """Theorem 8: the error after 400 iterations over the first one."""
    for name, rule in rules(of.n).items():
        if name == "T = 4":  # that of shed-proofs-rest
            continue
        for far in FAR:
            direction = rng.standard_normal(of.n)
            start = of.best + far * direction / norm(direction)
            with np.errstate(over="ignore"):  # exp of a large margin is inf, and its weight 0
                steps = run(of, rule, ITERATIONS, np.ones(len(of.rows), dtype=int), start)
            worst.add(ARRIVES, norm(steps[-1].after - of.best) / float(far))


def lowered(ratio: float, alpha: float, share: float, K: float = 3.0, beta: float = BETA) -> float:
    """What a step of Algorithm 2 lowers f by, over γ_t of (40): f = K ‖θ‖²/2 in two coordinates around θ^t, and
    Ĥ = diag(K, ρ̄), ρ̄ = `ratio` K, since f was that flat at θ^k in the second one.

    share  of gᵀĤ⁻¹g that is in the second coordinate, over that in the first
    """
    rho = ratio * K
    g = np.array([1.0, np.sqrt(share * ratio)])
    p = g / np.array([K, rho])
    sigma, curved = float(p @ g), K * float(p @ p)
    eta = 1.0
    while eta * sigma - eta**2 * curved / 2 < alpha * eta * sigma:
        eta *= beta
    return (eta * sigma - eta**2 * curved / 2) / (alpha * beta * rho * float(g @ g) / K**2)


def scaling(worst: Worst) -> None:
    """Lemma 11 for many ρ̄/K and α: the least of 41 directions of g."""
    for ratio in RATIOS:
        for alpha in ALPHAS:
            found = [lowered(float(ratio), alpha, float(share)) for share in 10.0 ** np.linspace(-2, 2, 41)]
            worst.add(GAMMA, 1 / min(found))
            worst.add(GAMMA_ORDER, min(found))


def known(n: int, period: int, iterations: int) -> Array:
    """|X_t| of t = 1, 2, …: in how many iterations all n − 1 eigenpairs are known, with renewals at 1, T, 2T, …"""
    t = np.arange(1, iterations + 1)
    last = np.where(t < period, 1, t - t % period)
    return np.cumsum(t - last + 1 >= n - 1)


def counting(worst: Worst) -> None:
    for n in COUNTED:
        for period in sorted({n - 1, n, n + 1, 2 * n, 3 * n}):
            counts, t = known(n, period, 50 * period), np.arange(1, 50 * period + 1)
            late = t >= 2 * period
            worst.add(COUNTS, float(np.max(t[late] / (3 * n) / counts[late])))
        worst.add(NONE, float(known(n, n - 2, 50 * n)[-1] > 0))


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    every_period(seed, worst)
    for mu in (1.0, 0.1, 0.01):
        reaching(Agents(seed, rates.N, AGENTS, SAMPLES, mu), worst)
    for mu in (0.01, 1.0):
        arriving(Agents(seed, rates.N, AGENTS, SAMPLES, mu), np.random.default_rng((seed, 92)), worst)
    rng = np.random.default_rng((seed, 93))
    random_increments(rng, worst)
    for mu in (0.003, 0.01):
        random_renewals(Agents(seed, rates.N, AGENTS, SAMPLES, mu), rng, worst)
        random_renewals(Agents(seed, rates.N, 1, SAMPLES, mu), rng, worst)
    for n in WIDTHS:
        for mu in PENALTIES:
            newton(Agents(seed, n, AGENTS, SAMPLES, mu), rng, worst)
    scaling(worst)
    counting(worst)
    return worst.found


@experiment(
    "shed-grids",
    paper="SHED",
    place="Lemmas 7 and 11, Theorems 8 and 10, sections 1 and 5",
    title="SHED's bounds for many periods, n and μ, and whether they could be smaller",
    takes="60 s",
)
def grids(seeds: Seeds, quick: bool) -> Result:
    """What is said of any period, any renewals or any constants, on a grid of them."""
    notes = (
        f"Lemma 7: random least squares, n = {', '.join(map(str, SQUARES))}, four agents of n/2 to 6n samples or one, "
        "μ = 1e-3 and 0.1; with random increments, 0 to 2 pairs, n = 10 and μ = 0.01. (36): logistic regression at θ*, "
        f"n = {', '.join(map(str, WIDTHS))}, {AGENTS} agents of {SAMPLES} samples or one, μ = 1e-3, 0.01 and 1. Both "
        f"for every T from 1 to n − 2. (35): from an error of 1e-4 to {rates.ROUNDING:g}. (41) and (42) from θ* + 5 in "
        f"each coordinate, 100 iterations, n = {rates.N}. Theorem 8 from {len(FAR)} points 0.1 to 1,000 away, "
        f"{ITERATIONS} iterations. Lemma 11: Ĥ = diag(K, ρ̄) where f has the curvature K in both coordinates, the "
        f"least of 41 directions of g, β = {BETA:g}. Newton's step from 0.1 to 1e-4 of κ/L away, and of 0.1 where κ/L "
        "is larger, for its order. X_t is counted up to t = 50 T.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
