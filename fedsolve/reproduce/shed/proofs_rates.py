"""SHED, Appendix A: the steps in the proof of Theorem 10, (43) to (46), on a small logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import off
from fedsolve.reproduce.shed.small_logistic import ALPHA, Agents, Step, estimate, run
from fedsolve.typing import Array

N, AGENTS, SAMPLES, MU = 8, 4, 30, 0.01
PERIOD, ITERATIONS = 4, 400  # T: no iteration has all n − 1 eigenpairs
PERIODS = {0.003: range(1, 7), 0.01: range(1, 6), 0.03: range(1, 5)}  # T of part 2), by μ
LAST = 3  # periods that stand for the limit
ROUNDING = 1e-11  # errors below are rounding
SEEN = 1e-9  # errors below are not looked at in part 1)
STRONG = 1.0  # μ for which (41) and (42) are reached soon
TIMES = 10.0 ** np.arange(2, 9)

STEP_43, TRIANGLE = "(43): ‖θ^{t+1} − θ*‖ ≤ c_t ‖θ^t − θ*‖ where η = 1", "(43): its second line"
BELOW_ONE, STAYS = "(42) gives c_t < 1", "M(t + 1) ≤ M(t) from there on"
REACHED, ONCE = "with periodic renewals (41) and (42) are reached", "without Assumption 3 (one renewal) they are not"
GEOMETRIC, DELAYED = "2): ‖θ^t − θ*‖ ≤ C a*^t with one C, later at most twice earlier", "(44): c_t ≤ 1 − λ̄_n/ρ̄ + B a*^t"
SPLIT, LOG = "log(1 − x + y) = log(1 − x) + log(1 + y/(1 − x))", "log(1 + x) ≤ x"
B_BAR, B_BAR_OWN = "B̄ = max 1/(1 − λ̄_n/ρ̄), as printed", "B̄ = B max 1/(1 − λ̄_n/ρ̄)"
SUM, TO_ZERO = "Σ a^k = (1 − a^{t+1})/(1 − a) − 1", "its mean over t tends to 0, at t = 1e8"
FORTY_FIVE = "(45): log ā is the mean of log(1 − λ̄_n,k/ρ̄_k), to 1 %"
WEYL, CHAIN = "|λ_k(θ) − λ_k(θ*)| ≤ L̄ ‖θ − θ*‖", "the inequality after (45)"
ONE, FOURTH, TWO = "(1) after (45), to 1 %", "the last inequality after (45)", "(2) after (45), to 1 %"
THIRTY_FIVE, ABOVE = "(35), (36): a* ≤ ā_T at the optimum", "a* ≤ ā"
SQUARES, FALLS = "(46): C_4 |X_t|² ≤ Σ k over X_t, C_4 = ½", "(46): it tends to −∞ for |X_t| = √t log t"
INDICES = "(46) for renewals every n − 1: √t h(t) ≤ |X_t| with h = √t/(3n), from t = 2n on"
CHAIN_PRINTED = "before (45), as printed: the second logarithm outside of the sum, k = t"
CHAIN_OWN = "before (45): the sum over both logarithms"
PRINTED_46, LINE_46 = "(46): its third line equals the second", "(46): its third line is at most the second"
BOUND_46 = "(46): the third line is at most 2 C_3 + log a (1/t) Σ k over X_t"
MORE, ONLY_LINEAR = (
    "section 5.1: renewals make |X_t| grow faster",
    "one renewal: |X_t| grows, the rate stays linear, to 2 %",
)
LONGER, LONGER_OWN = "ā_T of (36) falls with T", "a* falls with T"
BOUNDED = "c̄_t is bounded"
OVER_ONE, NOT_LATER = "c̄_t is above 1 before t̄", "c̄_t is at most 1 from t̄ on"
ANY_STEP = "‖θ^{t+1} − θ*‖ ≤ c̄_t ‖θ^t − θ*‖ at every t"
SETTLES = "(45): t times the distance of its two means settles, to 1 % in the second half of the run"
SETTLES_1 = "(1) after (45): so does t times the distance of its means"
SETTLES_2 = "(2) after (45): so does t times the distance of its means"

CHECKS = (
    *(Check("(43)", name) for name in (STEP_43, TRIANGLE)),
    Check("(43)", BELOW_ONE, most=0.999),
    Check("after (43)", STAYS),
    Check("after (43)", REACHED),
    Check("after (43)", ONCE),
    Check("(44)", GEOMETRIC, "times", 2.0),
    Check("(44)", DELAYED),
    Check("after (44)", SPLIT, "off", 1e-9),
    *(Check("after (44)", name) for name in (LOG, B_BAR, B_BAR_OWN)),
    Check("before (45)", SUM, "off", 1e-9),
    Check("before (45)", TO_ZERO, "off", 1e-6),
    Check("(45)", FORTY_FIVE, "off", 0.01),
    *(Check("after (45)", name) for name in (WEYL, CHAIN, FOURTH)),
    *(Check("after (45)", name, "off", 0.01) for name in (ONE, TWO)),
    *(Check("(35), (36)", name) for name in (THIRTY_FIVE, ABOVE)),
    *(Check("(46)", name) for name in (SQUARES, INDICES)),
    Check("(46)", FALLS, "times", 0.5),
    *(Check("before (45)", name, "off", 1e-9) for name in (CHAIN_PRINTED, CHAIN_OWN)),
    Check("(46)", PRINTED_46, "off", 1e-9),
    *(Check("(46)", name, "failures", 0.0) for name in (LINE_46, BOUND_46)),
    Check("section 5.1", MORE),
    Check("section 5.1", ONLY_LINEAR, "off", 0.02),
    *(Check("section 5.1", name, "times", 1.0) for name in (LONGER, LONGER_OWN)),
    *(Check("after (44)", name) for name in (BOUNDED, NOT_LATER, ANY_STEP)),
    Check("after (44)", OVER_ONE, most=0.999),
    *(Check("(45)", name, "off", 0.01) for name in (SETTLES, SETTLES_1, SETTLES_2)),
)


def contraction(of: Agents, one: Step) -> tuple[float, float]:
    """c_t of (43): its first line and its second."""
    e, e_k, since = norm(one.w - of.best), norm(one.renewed - of.best), norm(one.w - one.renewed)
    base = 1 - one.least / one.rho
    return base + of.L / one.rho * (since + e / 2), base + of.L / one.rho * (e_k + 1.5 * e)


def any_step(of: Agents, one: Step) -> float:
    """c̄_t: c_1 + c_2 ‖θ^t − θ*‖ of (32)."""
    top = float(np.linalg.eigvalsh(of.hessian(one.w))[-1])
    first = 1 - one.least / one.rho + of.L / one.rho * norm(one.w - one.renewed) + (1 - one.eta) * top / one.rho
    return float(first + one.eta * of.L / (2 * one.rho) * norm(one.w - of.best))


def near(of: Agents, one: Step) -> tuple[float, float]:
    """(41) and (42), left side over right side."""
    e, e_k = norm(one.w - of.best), norm(one.renewed - of.best)
    M, kappa = max(e, e_k), of.mu
    first = (3 * kappa * (M + e) + of.K * e) / (3 * kappa**2 / of.L * (1 - 2 * ALPHA))
    return first, of.L * (1.5 * e + M) / kappa


def exponent(of: Agents, period: int = PERIOD) -> tuple[float, float]:
    """a* of periodic renewals, from the product of the steps of a period at the optimum; and ā_T of (36)."""
    (values, vectors), H = of.spectra(of.best), of.hessian(of.best)
    whole, bounds = np.eye(of.n), []
    for q in range(1, period + 1):
        parts, rho = estimate(values, vectors, np.full(len(of.rows), q))
        whole = (np.eye(of.n) - np.linalg.solve(of.mean(parts), H)) @ whole
        bounds.append(1 - float(of.mean(values[:, -1])) / float(of.mean(rho)))
    return float(np.abs(np.linalg.eigvals(whole)).max() ** (1 / period)), float(np.prod(bounds) ** (1 / period))


def mean_factor(of: Agents, period: int) -> float:
    """ā: the geometric mean of c_t over the last periods of a run with periodic renewals."""
    steps = run(of, lambda t: t == 1 or t % period == 0, ITERATIONS, np.ones(AGENTS, dtype=int), np.zeros(N))
    full = [one for one in steps if norm(one.w - of.best) > ROUNDING and one.eta == 1.0]
    return float(np.exp(np.mean([np.log(contraction(of, one)[0]) for one in full[-LAST * period :]])))


def first_part(of: Agents, worst: Worst) -> None:
    """1): where (41) and (42) hold, at μ = 1, with periodic renewals and with one only."""
    start = of.best + 5 * np.ones(N)
    one_each = np.ones(AGENTS, dtype=int)
    periodic = run(of, lambda t: t % PERIOD == 1, 60, one_each, start)
    inside = [one for one in periodic if max(near(of, one)) <= 1]
    worst.add(REACHED, min(max(near(of, one)) for one in periodic))
    worst.add(BELOW_ONE, max(contraction(of, one)[0] for one in inside))
    radii = [max(norm(one.w - of.best), norm(one.renewed - of.best)) for one in inside]
    worst.add(STAYS, max(b / a for a, b in pairwise(radii) if b > ROUNDING))
    radius = float(np.sqrt(2 * (of.value(start) - of.value(of.best)) / of.mu))  # no iterate is farther away: f falls
    most = 1 + (2.5 * of.L * radius + of.K) / of.mu
    sizes = [any_step(of, one) for one in periodic]
    worst.add(BOUNDED, max(sizes) / most)
    first = periodic.index(inside[0])  # t̄
    worst.add(OVER_ONE, 1 / max(sizes[:first], default=ROUNDING))
    worst.add(NOT_LATER, max(sizes[first:]))
    for size, one in zip(sizes, periodic, strict=True):
        e = norm(one.w - of.best)
        worst.add(ANY_STEP, norm(one.after - of.best) / (size * e) if e > SEEN else 0.0)
    once = run(of, lambda t: t == 1, 60, one_each, start)
    worst.add(ONCE, 1 / min(max(near(of, one)) for one in once))


def settles(differences: Array) -> float:
    """Which share of the sum of some differences comes in its second half: 0 if the means differ by a number over t."""
    sums = np.cumsum(differences)
    return float(abs(sums[-1] - sums[len(sums) // 2]) / abs(sums[-1]))


def second_part(of: Agents, worst: Worst, period: int = PERIOD) -> None:
    """2): (43) to (45) along a run with periodic renewals."""
    steps = run(of, lambda t: t == 1 or t % period == 0, ITERATIONS, np.ones(AGENTS, dtype=int), np.zeros(N))
    a, bound = exponent(of, period)
    errors = np.array([norm(one.w - of.best) for one in steps])
    seen = [t for t, e in enumerate(errors) if e > ROUNDING]
    full = [t for t in seen if steps[t].eta == 1.0]
    for t in full:
        one, two = contraction(of, steps[t])
        worst.add(STEP_43, norm(steps[t].after - of.best) / (one * errors[t]) if errors[t] > 10 * ROUNDING else 0.0)
        worst.add(TRIANGLE, one / two)
    ratios = errors[seen] / a ** (1 + np.array(seen))
    half = len(ratios) // 2
    worst.add(GEOMETRIC, ratios[half:].max() / ratios[:half].max())
    C = float(ratios.max())
    base = np.array([1 - steps[t].least / steps[t].rho for t in full])
    rho = np.array([steps[t].rho for t in full])
    delay = period - 1
    B = of.L / rho * C * a**-delay + 1.5 * of.L / rho * C
    powers = a ** (1 + np.array(full))
    c = np.array([contraction(of, steps[t])[0] for t in full])
    later = np.array(full) >= seen[half]  # C is that of the first half: here (44) may fail
    worst.add(DELAYED, float(np.max(((c - base) / (B * powers))[later])) * C / float(ratios[:half].max()))
    worst.add(SETTLES, settles(np.log(c) - np.log(base)))
    ratio = B * powers / base
    worst.add(SPLIT, off(np.log(base) + np.log1p(ratio), np.log(base + B * powers)))
    worst.add(LOG, float(np.max(np.log1p(ratio) / ratio)))
    worst.add(B_BAR, float(np.max(np.log1p(ratio) / (np.max(1 / base) * powers))))
    worst.add(B_BAR_OWN, float(np.max(np.log1p(ratio) / (B.max() * np.max(1 / base) * powers))))
    means = np.cumsum(np.log(base)) / np.arange(1, len(base) + 1)  # (1/t) Σ of the first logarithm
    seconds = np.cumsum(np.log1p(ratio)) / np.arange(1, len(base) + 1)
    both = np.cumsum(np.log(base + B * powers)) / np.arange(1, len(base) + 1)
    worst.add(CHAIN_PRINTED, off(means + np.log1p(ratio), both))
    worst.add(CHAIN_OWN, off(means + seconds, both))
    last = full[-LAST * period :]
    mean = float(np.mean([np.log(contraction(of, steps[t])[0]) for t in last]))
    own = float(np.mean([np.log(1 - steps[t].least / steps[t].rho) for t in last]))
    worst.add(FORTY_FIVE, abs(mean / own - 1))
    worst.add(THIRTY_FIVE, a / bound)
    _at_the_optimum(of, [steps[t] for t in full], [steps[t] for t in last], worst)


def below_the_mean(of: Agents, worst: Worst) -> None:
    """a* ≤ ā for every T below n − 1, where both are 0."""
    for period in range(1, N - 1):
        worst.add(ABOVE, exponent(of, period)[0] / mean_factor(of, period))


def _at_the_optimum(of: Agents, full: Sequence[Step], last: Sequence[Step], worst: Worst) -> None:
    """The chain after (45)."""
    values, _ = of.spectra(of.best)
    least, L = float(of.mean(values[:, -1])), float(of.L_i.max())

    def terms(one: Step) -> tuple[float, float, float, float, float]:
        e = norm(one.renewed - of.best)
        rho = float(of.mean(np.array([row[q] for row, q in zip(values, one.counts, strict=True)])))  # ρ̄_k^o
        now = 1 - one.least / one.rho
        first, second = 1 - (least - L * e) / (rho + L * e), 1 - least / (rho + L * e)
        return now, first, second, 1 - least / rho + L * e / rho, 1 - least / rho

    for one in full:
        now, first, second, fourth, _ = terms(one)
        worst.add(CHAIN, now / first)
        worst.add(FOURTH, second / fourth)
        moved, _ = of.spectra(one.w)
        gaps = np.abs(moved - values).max(axis=1) / (of.L_i * max(norm(one.w - of.best), ROUNDING))
        worst.add(WEYL, float(gaps.max()) if norm(one.w - of.best) > 1e-6 else 0.0)
    means = np.mean([np.log(terms(one)) for one in last], axis=0)
    logs = np.log([terms(one) for one in full])
    worst.add(SETTLES_1, settles(logs[:, 1] - logs[:, 2]))
    worst.add(SETTLES_2, settles(logs[:, 3] - logs[:, 4]))
    worst.add(ONE, abs(means[1] / means[2] - 1))
    worst.add(TWO, abs(means[3] / means[4] - 1))


def third_part(rng: np.random.Generator, worst: Worst) -> None:
    """3): sums over X_t."""
    for _ in range(200):
        chosen = np.flatnonzero(rng.random(400) < rng.random()) + 1
        if chosen.size:
            worst.add(SQUARES, 0.5 * chosen.size**2 / chosen.sum())
    values = [0.5 * (np.sqrt(t) * np.log(t)) ** 2 / t * np.log(0.9) for t in TIMES]
    worst.add(FALLS, max(a / b for a, b in pairwise(values[::3])))
    a = 0.93
    sums = [sum(a**k for k in range(1, t + 1)) for t in (10, 100)]
    worst.add(SUM, max(off((1 - a ** (t + 1)) / (1 - a) - 1, one) for t, one in zip((10, 100), sums, strict=True)))
    worst.add(TO_ZERO, ((1 - a**1e8) / (1 - a) - 1) / 1e8)


def whole(steps: Sequence[Step]) -> Array:
    """In which iterations ρ̄_k = λ̄_n,k: those of X_t."""
    return np.array([one.rho <= one.least * (1 + 1e-12) for one in steps])


def on_the_set(of: Agents, worst: Worst) -> None:
    """X_t with renewals every n − 1 iterations and with one alone; (46) along the first run."""
    each, start = np.ones(AGENTS, dtype=int), np.zeros(N)
    every = run(of, lambda t: t == 1 or t % (N - 1) == 0, ITERATIONS, each, start)
    once = run(of, lambda t: t == 1, ITERATIONS, each, start)
    counts, t = np.cumsum(whole(every)), np.arange(1, ITERATIONS + 1)
    late = t >= 2 * N
    worst.add(INDICES, float(np.max(np.sqrt(t[late]) * (np.sqrt(t[late]) / (3 * N)) / counts[late])))
    worst.add(MORE, float(whole(once).sum() / counts[-1]))
    errors = np.array([norm(one.w - of.best) for one in once])
    end = int(np.flatnonzero(errors > 1e3 * ROUNDING)[-1])
    factors = [np.log(errors[end - k * PERIOD] / errors[end - (k + 1) * PERIOD]) for k in (0, 1)]
    worst.add(ONLY_LINEAR, abs(factors[0] / factors[1] - 1))
    seen = [k for k, one in enumerate(every) if norm(one.w - of.best) > ROUNDING and one.eta == 1.0]
    steps, inside = [every[k] for k in seen], whole(every)[seen]
    distances = np.array([norm(one.w - of.best) for one in steps])
    k = 1 + np.array(seen)
    a = float((distances[-1] / distances[0]) ** (1 / (k[-1] - k[0])))
    C = float(np.max(distances / a**k))
    B = np.array([of.L / one.rho * C * a ** -(N - 2) + 1.5 * of.L / one.rho * C for one in steps])
    c = np.array([contraction(of, one)[0] for one in steps])
    base = np.array([1 - one.least / one.rho for one in steps])
    second = float(np.log(base + B * a**k).sum())
    third = float(np.log(c[~inside]).sum() + np.log((B * a**k)[inside]).sum())
    worst.add(PRINTED_46, off(third, second))
    worst.add(LINE_46, float(third > second))
    C_3 = max(0.0, float(np.log(c).max()), float(np.log(B).max()))
    worst.add(BOUND_46, float(third / len(k) > 2 * C_3 + np.log(a) * float(k[inside].sum()) / len(k)))


def on_periods(of: Agents, worst: Worst) -> None:
    """a* and ā_T at the optimum, by T up to n − 1, where both are 0."""
    pairs = pairwise([exponent(of, period) for period in range(1, N)])
    for (own, bound), (own_longer, bound_longer) in pairs:
        worst.add(LONGER, bound_longer / bound)
        worst.add(LONGER_OWN, own_longer / own)


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    first_part(Agents(seed, N, AGENTS, SAMPLES, STRONG), worst)
    for mu, periods in PERIODS.items():
        of = Agents(seed, N, AGENTS, SAMPLES, mu)
        for period in periods:
            second_part(of, worst, period)
    below_the_mean(Agents(seed, N, AGENTS, SAMPLES, MU), worst)
    third_part(np.random.default_rng((seed, 33)), worst)
    on_the_set(Agents(seed, N, AGENTS, SAMPLES, MU), worst)
    on_periods(Agents(seed, N, AGENTS, SAMPLES, MU), worst)
    return worst.found


@experiment(
    "shed-proofs-rates",
    paper="SHED",
    place="Appendix A, proof of Theorem 10",
    title="SHED's rates: the steps in the proof of Theorem 10",
    takes="5 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """The Lyapunov exponent from the steps of a period at the optimum, beside what the proof bounds it by."""
    notes = (
        f"Random logistic regression, n = {N}, {AGENTS} agents of {SAMPLES} samples, μ = {MU}; Algorithm 4 with "
        f"renewals at 1, T, 2T, …, T = {PERIOD}, one eigenpair an iteration; “a* ≤ ā” has T of 1 to {N - 2}, part 2) T "
        "of 1 to 6, 5 and 4 at μ = 0.003, 0.01 and 0.03: beyond, errors are rounding within a few periods. a* is the "
        "spectral radius of the product of the steps of a period at θ*. Limits are means over the last "
        f"{LAST} periods whose errors are above {ROUNDING:g}. Part 1) has μ = {STRONG:g} and starts far away. "
        "“Reached” is the least of (41) and (42), left over right; “not reached” its inverse. X_t is counted in runs "
        "with renewals every n − 1 iterations and with one alone; (46) has C_1 = C_2 and a from the errors of the "
        "first of these.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
