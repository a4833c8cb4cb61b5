"""Shen et al. (2022), appendices: the lemmas and inequalities of the proofs, on supports of a few points.

Functions are their values at the points. Algorithm 2 is written out here, because the lemmas are about what happens
inside of it; the oracle is γφ with an error of any size that (10) allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from fedsolve.diagnose import wasserstein
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import lemma_ball as ball
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Within, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.square_runs import Regression, algorithm3
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

POINTS, CLIENTS, MU, K, T = 12, 5, 0.5, 4, 6
GAMMAS = (0.3, 0.7, 1.0)
G = 1.0  # of the logistic loss
LONG, SHORT = 4.0, 2.0  # numerators of the step sizes of Theorems 4.1 and 4.3

VARIATION = Check("After Theorem 4.1", "|⟨f, g⟩_αi − ⟨f, g⟩_α| is at most 2‖f‖∞ ‖g‖∞ TV(α, α_i)")
SHARP = AtLeast("After Theorem 4.1", "… and at least 0.99 of it for the worst f and g, of each of 20 pairs", most=0.99)
ENTROPY = Check("Assumption 4.1", "the gradient of the cross-entropy is bounded for all f, by √2")
DIRACS = Within("Theorem 4.2", "ω_TV is 1 in the example", most=1.0, give=1e-12, words="ω_TV is {}")
OPTIMUM = Check("Proof of Theorem 4.1, (31)", "‖f*‖∞ is at most G/μ")
ATTAINED = Within(
    "Proof of Theorem 4.1, (31)",
    "… and is G/μ with a linear loss where all labels agree, μ = 0.05 to 5",
    most=1.0,
    give=1e-9,
    words="{} of it",
)
RESIDUAL = Check("Proof of Theorem 4.1, (24) and (39)", "the residual is at most (1 − γ) G/γ, in L^∞ and in L²")
ANSWER = Check("Proof of Theorem 4.1, (25)", "the oracle's answers are at most (2 − γ) G/γ")
BOUNDED = Check("Lemma D.1", "f^t and ḡ^k,t, k ≤ K = 4, stay within 2G/(γμ), step sizes of Theorem 4.1, ‖f⁰‖ = 2G/(γμ)")
FROM_ZERO = Check("Lemma D.1", "… from f⁰ = 0, errors at random, K = 4")
SHORTER = Check("Proof of Theorem 4.3, (40)", "with the step sizes of Theorem 4.3 every g_i does, ‖f⁰‖ = 2G/(γμ)")
DRIFT = Check("Proof of Theorem 4.3", "the mean of ‖g_i − ḡ‖² is at most 64 η² K² G²/γ²")
TRANSPORT = Check("Lemma F.1", "|⟨f, g⟩_αi − ⟨f, g⟩_α| is at most (‖f‖_lip ‖g‖∞ + ‖g‖_lip ‖f‖∞) W_1(α, α_i)")
SHARP_W1 = AtLeast("Lemma F.1", "… and at least 0.99 of it for the worst f and g, 20 pairs in the plane", most=0.99)
EXTENSION = Check("Section 4.3, (13)", "u_i is L-Lipschitz and interpolates the labels")
LABELS = Check("Lemma F.2", "residual and answers are at most (1 − γ)B/γ and B/γ at a client's points")
FIRST = Check("Lemma F.3", "g_i is at most B/γ at the client's points, in the first round")
LATER = Check("Lemma F.3", "… and in later rounds, which begin with an average of all clients")
LONGER = Check("Lemma F.3", "g_i is at most B/γ with the step sizes of Theorem 4.4, too, which begin with 2")
SLOPES = Check("Proof of Theorem 4.4", "residual, answers and g_i are (1 − γ)L/γ-, L/γ- and L/γ-Lipschitz")
EVERYWHERE = Check("Lemma F.4", "g_i, ḡ and the answers are at most (LD + B)/γ at all points")
LOCAL = Check("Lemma F.5", "‖ḡ‖²_αs is at most (2L²/N Σ W_2²(α_s, α_i) + 2B²)/γ²")
LOCAL_SHARP = AtLeast(
    "Lemma F.5", "… and at least 0.98 of it, h = φ: 50 clients, all labels B, all but s at a distance of B/L", most=0.98
)
UNBIASED = Check("Appendix G", "the mean over all subsets of clients is that of all clients", "off", 1e-12)
SAMPLED = Check("Lemma G.1", "E‖f^(t+1) − ḡ‖² is at most 64 (N − m)/(N − 1) η²K²G²/(mγ²)")
CHECKS = (
    *(ENTROPY, VARIATION, SHARP, DIRACS, OPTIMUM, ATTAINED, RESIDUAL, ANSWER, BOUNDED, FROM_ZERO),
    *(*ball.CHECKS, SHORTER, DRIFT),
    *(TRANSPORT, SHARP_W1, EXTENSION, LABELS, FIRST, LATER, LONGER, SLOPES, EVERYWHERE, LOCAL),
    *(LOCAL_SHARP, UNBIASED, SAMPLED),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What a round has at step k: per client its function, the oracle's answer and the residual after it."""

    eta: float
    before: Array
    answers: Array
    residuals: Array
    after: Array


Gradient = Callable[[Array], Array]
Oracle = Callable[[Array], Array]


def rounds(start: Array, gradient: Gradient, oracle: Oracle, numerator: float, mu: float = MU) -> Iterator[Step]:
    """Algorithm 2 with all clients; rows of the arrays are clients, columns points."""
    f = start
    for t in range(T):
        g, residual = np.tile(f, (CLIENTS, 1)), np.zeros((CLIENTS, len(f)))
        for k in range(1, K + 1):
            eta = numerator / (mu * (t * K + k + 1))
            query = residual + gradient(g)
            h = oracle(query)
            residual = query - h
            after = g - eta * (h + mu * g)
            yield Step(eta, g, h, residual, after)
            g = after
        f = g.mean(axis=0)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 31])
    found = {**_inner_products(rng), **_boosting(rng), **_regression(rng)}
    in_ball = Found()
    ball.measure(in_ball)
    _sharp(np.random.default_rng([seed, 163]), in_ball)
    _attained(np.random.default_rng([seed, 173]), in_ball)
    return {check.claim: float(value) for check, value in found.items()} | in_ball.worst


def _inner_products(rng: np.random.Generator) -> dict[Check, float]:
    worst, moved = 0.0, 0.0
    for _ in range(200):
        X = rng.random((POINTS, 2))
        a = rng.dirichlet(np.full(POINTS, 0.3), 2)
        f, g = rng.uniform(-1, 1, (2, POINTS)) * rng.uniform(0.1, 3, (2, 1))
        off = abs(((a[0] - a[1]) * f * g).sum())
        bound = 2 * np.abs(f).max() * np.abs(g).max() * np.abs(a[0] - a[1]).sum() / 2
        worst = max(worst, off / bound)
        product_slopes = _slope(f, X) * np.abs(g).max() + _slope(g, X) * np.abs(f).max()
        moved = max(moved, off / (product_slopes * wasserstein(X, X, *a)))
    both = np.array([[1.0, 0.0], [0.0, 1.0]])
    logits = 10.0 ** rng.uniform(-2, 3, (2000, 1)) * rng.standard_normal((2000, 5))
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    slopes = chances / chances.sum(axis=1, keepdims=True) - np.eye(5)[rng.integers(0, 5, 2000)]
    steep = np.linalg.norm(slopes, axis=1).max() / np.sqrt(2)
    omega = np.mean([np.abs(one - both.mean(axis=0)).sum() / 2 for one in both])
    return {VARIATION: worst, TRANSPORT: moved, DIRACS: float(omega), ENTROPY: steep}


def _sharp(rng: np.random.Generator, found: Found) -> None:
    """Pairs for which the differences of inner products are as large as they can be: f that is 1 and −1 where one
    distribution has more and less mass, and f = g = 1 + εφ with φ the potential of W_1."""
    for _ in range(20):
        X, a = rng.random((POINTS, 2)), rng.dirichlet(np.full(POINTS, 0.3), 2)
        f, moved = np.sign(a[0] - a[1]), a[0] - a[1]
        found.note(SHARP, abs(float(moved @ f)) / (2 * np.abs(moved).sum() / 2))
        g = 1 + 1e-3 * potential(X, moved)
        bound = 2 * _slope(g, X) * np.abs(g).max() * wasserstein(X, X, *a)
        found.note(SHARP_W1, abs(float(moved @ (g * g))) / bound)


def _attained(rng: np.random.Generator, found: Found) -> None:
    """(31) with a linear loss, f* by gradient descent; Lemma F.5 where the others are B/L away, by Algorithm 3."""
    slopes = rng.choice([-1.0, 1.0], (CLIENTS, POINTS))
    slopes[:, 0] = 1.0
    for mu in (0.05, 0.5, 5.0):
        best = np.zeros(POINTS)
        for _ in range(100):
            best = best - 0.5 / mu * (slopes.mean(axis=0) + mu * best)
        found.note(ATTAINED, np.abs(best).max() / (G / mu))
    B, L, many = rng.uniform(0.5, 2), rng.uniform(0.5, 2), 50
    X = np.zeros((many, 2))
    X[1:, 0] = B / L
    one = Regression(X, np.full(many, B), np.arange(many), L)
    *_, last = algorithm3(one, np.asarray, 4.0, 4, 6)
    bound = 2 * L**2 * np.square(one.apart[0]).mean() + 2 * B**2
    found.note(LOCAL_SHARP, last.after.mean(axis=0)[0] ** 2 / bound)


def potential(X: Array, moved: Array) -> Array:
    """φ with slopes of at most 1 for which ∫φ d(α − β) is largest, which is W_1."""
    from scipy.optimize import linprog

    i, j = np.array([(i, j) for i in range(len(X)) for j in range(len(X)) if i != j]).T
    rows = np.zeros((len(i), len(X)))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1.0, -1.0
    apart = np.linalg.norm(X[i] - X[j], axis=1)
    return np.asarray(linprog(-moved, A_ub=rows, b_ub=apart, bounds=[(-2, 2)] * len(X)).x)


def _slope(f: Array, X: Array) -> float:
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    return float((np.abs(f[:, None] - f[None])[apart > 0] / apart[apart > 0]).max())


def _noisy(gamma: float, rng: np.random.Generator) -> Oracle:
    """An answer that is off by at most (1 − γ) ‖φ‖∞ everywhere, as (10) allows."""

    def answer(query: Array) -> Array:
        size = np.abs(query).max(axis=1, keepdims=True)
        return query - (1 - gamma) * size * rng.uniform(-1, 1, query.shape)

    return answer


def _boosting(rng: np.random.Generator) -> dict[Check, float]:
    """Logistic loss, the same points at every client, labels of their own."""
    found = dict.fromkeys((OPTIMUM, RESIDUAL, ANSWER, BOUNDED, FROM_ZERO, SHORTER, DRIFT, UNBIASED, SAMPLED), 0.0)
    labels = (rng.random((CLIENTS, POINTS)) < 0.5).astype(float)
    labels[:, 0] = 0.0  # there all clients push the same way

    def gradient(g: Array) -> Array:
        return 1 / (1 + np.exp(-g)) - labels

    best = np.zeros(POINTS)
    for _ in range(500):
        best = best - (gradient(np.tile(best, (CLIENTS, 1))).mean(axis=0) + MU * best)
    found[OPTIMUM] = np.abs(best).max() / (G / MU)
    for gamma, numerator, size in product(GAMMAS, (LONG, SHORT), (0.0, 1.0)):
        most = 2 * G / (gamma * MU)
        which = SHORTER if numerator == SHORT else BOUNDED if size else FROM_ZERO
        for step in rounds(np.full(POINTS, size * most), gradient, _noisy(gamma, rng), numerator):
            if gamma < 1:
                found[RESIDUAL] = max(found[RESIDUAL], np.abs(step.residuals).max() / ((1 - gamma) * G / gamma))
            found[ANSWER] = max(found[ANSWER], np.abs(step.answers).max() / ((2 - gamma) * G / gamma))
            averaged = step.after if which is SHORTER else step.after.mean(axis=0)
            found[which] = max(found[which], np.abs(averaged).max() / most)
            if numerator == SHORT:
                spread = np.square(step.after - step.after.mean(axis=0)).mean(axis=1).mean()
                bound = 64 * step.eta**2 * K**2 * G**2 / gamma**2
                found[DRIFT] = max(found[DRIFT], spread / bound)
                off, variance = _subsets(step.after, 2)
                found[UNBIASED] = max(found[UNBIASED], off)
                share = (CLIENTS - 2) / (CLIENTS - 1) / 2
                found[SAMPLED] = max(found[SAMPLED], variance / (share * bound))
    return found


def _subsets(functions: Array, size: int) -> tuple[float, float]:
    """By how much the mean over all subsets misses that of all clients, and the variance of a subset's mean."""
    from itertools import combinations

    means = np.array([functions[list(chosen)].mean(axis=0) for chosen in combinations(range(CLIENTS), size)])
    centre = functions.mean(axis=0)
    return float(np.abs(means.mean(axis=0) - centre).max()), float(np.square(means - centre).mean(axis=1).mean())


def _regression(rng: np.random.Generator) -> dict[Check, float]:
    """Square loss in the form of Algorithm 3: labels of slope at most L at each client's own points."""
    L, own = 1.0, POINTS // 3
    X = rng.random((CLIENTS * own, 2))
    owner = np.repeat(np.arange(CLIENTS), own)
    y = 0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1])
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    u = np.array([(y[owner == i] + L * apart[:, owner == i]).min(axis=1) for i in range(CLIENTS)])
    B = float(np.abs(y).max())
    nearest = [apart[owner == i][:, owner == j].min(axis=1).max() for i in range(CLIENTS) for j in range(CLIENTS)]
    D = float(max(nearest))
    found = dict.fromkeys((LABELS, FIRST, LATER, LONGER, SLOPES, EVERYWHERE, LOCAL), 0.0)
    inside = np.array([owner == i for i in range(CLIENTS)])
    squares = [[wasserstein(X[a], X[b], power=2) ** 2 for b in inside] for a in inside]

    def gradient(g: Array) -> Array:
        return np.broadcast_to(-u, g.shape)  # the other part of g − u_i is known, and not approximated

    for gamma in GAMMAS:

        def oracle(query: Array, gamma: float = gamma) -> Array:
            return gamma * query  # satisfies (14) and (15)

        for step in rounds(np.zeros(len(X)), gradient, oracle, LONG, 1.0):
            at = max(np.abs(one[mine]).max() for one, mine in zip(step.after, inside, strict=True))
            found[LONGER] = max(found[LONGER], at / (B / gamma))
        for place, step in enumerate(rounds(np.zeros(len(X)), gradient, oracle, LONG / 4, 1.0)):
            parts = [(step.after, 1 / gamma, FIRST if place < K else LATER), (step.answers, 1 / gamma, LABELS)]
            parts += [(step.residuals, (1 - gamma) / gamma, LABELS)] if gamma < 1 else []
            for values, times, check in parts:
                at = max(np.abs(one[mine]).max() for one, mine in zip(values, inside, strict=True))
                found[check] = max(found[check], at / (times * B))
                found[SLOPES] = max(found[SLOPES], max(_slope(one, X) for one in values) / (times * L))
            reach = max(np.abs(step.answers).max(), np.abs(step.after).max())
            found[EVERYWHERE] = max(found[EVERYWHERE], reach / ((L * D + B) / gamma))
            mean = np.square(step.after.mean(axis=0))
            for mine, row in zip(inside, squares, strict=True):
                bound = (2 * L**2 * np.mean(row) + 2 * B**2) / gamma**2
                found[LOCAL] = max(found[LOCAL], mean[mine].mean() / bound)
    fits = max(np.abs(one[mine] - y[mine]).max() for one, mine in zip(u, inside, strict=True))
    slopes = max(_slope(one, X) for one in u) / L
    return {**found, EXTENSION: slopes if fits <= 1e-12 else np.inf}


@experiment(
    "ffgb-lemmas",
    paper=PAPER,
    place="Lemmas D.1, F.1 to F.5 and G.1",
    title="The lemmas of the proofs, inside of Algorithms 2 and 3",
    takes="10 s",
)
def lemmas(seeds: Seeds, quick: bool) -> Result:
    """Residuals, answers and iterates against the bounds that the proofs use."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{CLIENTS} clients, {POINTS} points, logistic loss (G = 1), μ = {MU}, K = {K}, T = {T}, γ = 0.3, 0.7 and "
            "1; the oracle's errors are random and as large as (10) allows. A claim holds if it holds in every seed.",
            "Lemma D.1 by K: one client, one point, |f| and the logistic loss, γ = 0.3, 0.5, 0.7 and 1, T = 3, and all "
            "directions of the oracle's errors in turn.",
            "The square loss is Algorithm 3 with h = γφ, which satisfies (14) and (15) with equality, and step sizes "
            "of at most 1/2.",
        ),
        quick,
    )
