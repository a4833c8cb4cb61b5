"""Appendices B.4 and C.1 of Su, Xu and Yang (2023), Lemmas 27 to 30 and Theorem 12: each step, d = 12."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.numerics.early_stopping import rademacher, stopping_round
from fedsolve.reproduce.nonparametric.proof_recursion import Local, clients
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D, Rounds
from fedsolve.typing import Array

UNROLLED = identity("Proof of Lemma 27, (61)", "f_t − f = 𝓛^t(f_0 − f) + Σ 𝓛^τ((ξ + Δ_f)·Ψ), for any f")
CENTRED = identity("Proof of Theorem 12, (66)", "f_t − f̄ = 𝓛(f_{t−1} − f̄) + ξ·Ψ = 𝓛^t(f_0 − f̄) + Σ 𝓛^τ(ξ·Ψ)")
SHORTER = bound("Proof of Lemma 27, (62)", "‖𝓛^t(f_0 − f)‖ ≤ ‖f_0 − f‖")
QUADRATIC = identity("Proof of Lemma 27, (67)", "‖Σ 𝓛^τ(a·Ψ)‖² = aᵀΣa, for any a")
SIGMA_NORM = bound("Proof of Lemma 27", "‖Σ‖ ≤ (sη/N) ‖Σ 𝓛^τ(I − 𝓛^t)‖ ≤ sηt/N")
APART = bound("Proof of Lemma 27, (63)", "‖Σ 𝓛^τ(Δ_f·Ψ)‖ = √(Δ_fᵀΣΔ_f) ≤ √(ηst/N) ‖Δ_f‖")
SMALL = bound("Proof of Lemma 27, (64)", "E[ξᵀΣξ] ≤ σ² Tr Σ ≤ (σηtsR)² ≤ 1/(2e) for t ≤ T")
TAIL = bound(
    "Proof of Lemma 27, (65)",
    "‖Σ‖_F² ≤ ‖Σ‖ Tr Σ, so that with δ = 1/(2e) the exponent of Hanson and Wright is at least N/(2σ²eηst)",
)
INNER = identity(
    "Proof of Lemma 28", "⟨f, 𝓣(a·Ψ)⟩ = ⟨𝓣f, a·Ψ⟩ = (η/N) aᵀPg(x), and aᵀAa = ‖𝓣(a·Ψ)‖², with g = 𝓣f, for three 𝓣"
)
SQUARED = bound("Proof of Lemma 28", "⟨f, 𝓣(a·Ψ)⟩² ≤ (η/N)²‖Pg(x)‖² ≤ (sη²/N²) g(x)ᵀPg(x), ‖a‖ = 1")
REWRITTEN = identity("Proof of Lemma 28", "(sη²/N²) g(x)ᵀPg(x) = (sη/N) ⟨g, g − 𝓛g⟩ = (sη/N) ⟨f, 𝓣(I − 𝓛)𝓣f⟩")
TRACES = identity("Proof of Lemma 28", "Tr A = Σ_j ‖𝓣Ψ_j‖² = Σ_i ‖(η/N) P f_i(x)‖², f_i = 𝓣φ_i")
TRACE_BOUND = bound("Lemma 28", "‖A‖ ≤ (sη/N) ‖𝓣(I − 𝓛)𝓣‖ and Tr A ≤ (sη/N) Tr 𝓣(I − 𝓛)𝓣, for three 𝓣")
ORDER = Quantity(
    "Proof of Lemma 29, (69)",
    "I − s(I − 𝓛_i) ⪯ 𝓛_i^s ⪯ I − s(I − 𝓛_i)/κ: no negative eigenvalue of the differences",
    "least eigenvalue",
    least=-1e-10,
)
BETWEEN = Quantity("Proof of Lemma 29", "0 ≤ λ_j ≤ γ = 0.9 for the eigenvalues of I − 𝓛_i", "λ_j", -1e-10, 0.9)
SCALARS = bound(
    "Proof of Lemma 29",
    "1 − sλ ≤ (1 − λ)^s ≤ 1 − sλ/κ for λ ≤ γ, and x/(1 − (1 − x)^s) increases on [0, 1]",
    "largest ratio of both sides",
)
SAME = identity("Lemma 29", "the eigenvalues of 𝓟 are those of φ(x)ᵀφ(x)/N: the positive ones of K_x")
FACTS = bound("Proof of Lemma 30", "1 − x^t ≤ min{1, t(1 − x)} and min{1/x, t²x} ≤ min{t, t²x} for x in [0, 1]")
STEPS = bound(
    "Proof of Lemma 30",
    "Tr Σ ≤ (sη/N) Tr(Σ 𝓛^τ(I − 𝓛^t)) = (sη/N) Σ (1 − λ̃^t)²/(1 − λ̃) ≤ (sη/N) Σ min{t, t²(1 − λ̃)} ≤ "
    "(sη/N) Σ min{t, t²sηλ} = (ηts)²R²",
)
EACH = bound("Proof of Lemma 30", "1 − λ̃_i ≤ sηλ_i for every i, both in order")
CONTRACTS = bound("Proof of Theorem 12, (70)", "‖𝓛‖ ≤ 1 − sηρ_N/κ")
VARIANCE = bound("Proof of Theorem 12, (71)", "σ²(ηs/N) Σ (1 − λ̃^t)²/(1 − λ̃) ≤ σ²κd/(Nρ_N), since sηρ_N/κ ≤ 1 − λ̃ ≤ 1")
CENTRE = identity("Proof of Theorem 12", "f̄ − f_j* = (I − 𝓛)⁻¹(Δ_f_j*·Ψ), and ‖f̄ − f_j*‖² = ΔᵀSΔ")
SPREAD = bound("Proof of Theorem 12", "ΔᵀSΔ ≤ ‖Δ‖²‖S‖ and ‖S‖ ≤ (sη/N) ‖(I − 𝓛)⁻¹‖ ≤ κ/(Nρ_N)")
NO_DIFFERENCE = Quantity(
    "After Proposition 7", "at f̄ Δ_f = 0 although f_i* differ, as printed", "‖Δ_f‖ over ‖(f_i*(x_i))‖", most=1e-10
)
NO_INTERPOLANT = Quantity(
    "After Proposition 7", "… or at any other f of the RKHS", "least ‖Δ_f‖ over ‖(f_i*(x_i))‖", most=1e-10
)
NO_DIFFERENCE_SAME = Quantity(
    "After Proposition 7", "with one truth Δ_f* = 0, and f̄ = f*", "largest difference", most=1e-10
)
SINGULAR = Quantity(
    "Footnotes 4 and 5",
    "φ(x)φ(x)ᵀ has rank d, so that its least eigenvalue is 0 as N > d, that of φ(x)ᵀφ(x)/N is not",
    "largest of the other N − d eigenvalues over ρ_N",
    most=1e-10,
)
QUANTITIES = (
    *(UNROLLED, CENTRED, SHORTER, QUADRATIC, SIGMA_NORM, APART, SMALL, TAIL, INNER, SQUARED, REWRITTEN, TRACES),
    *(TRACE_BOUND, ORDER, BETWEEN, SCALARS, SAME, FACTS, STEPS, CONTRACTS, VARIANCE, CENTRE, SPREAD, NO_DIFFERENCE),
    *(NO_INTERPOLANT, NO_DIFFERENCE_SAME, SINGULAR, EACH),
)  # fmt: skip
ROUNDS = (1, 3, 10, 100)


def measured(seed: int, notes: Notes) -> None:
    """The steps for four methods with γ = 0.9."""
    _scalars(notes)
    for X, method, rng in clients(seed):
        made = Rounds.of(X, method)
        truths = rng.standard_normal(D) + 0.5 * rng.standard_normal((len(X), D))
        _unrolled(made, truths, rng, notes)
        for t in ROUNDS:
            _sums(made, t, rng, notes)
        inverse, other = np.linalg.inv(np.eye(D) - made.A), rng.standard_normal((D, D))
        for T in (made.summed(7), inverse, other + other.T):
            _lemma_28(made, T, rng, notes)
        if isinstance(method, LocalSteps):
            for rows in X:
                _client(Local(rows, method), made.kappa, notes)
        _centre(made, truths, notes)


def _scalars(notes: Notes) -> None:
    x = np.linspace(1e-6, 1 - 1e-6, 2001)
    for t in (1, 2, 7, 50):
        notes.add(FACTS, (1 - x**t) / np.minimum(1, t * (1 - x)))
        notes.add(FACTS, np.minimum(1 / x, t**2 * x) / np.minimum(t, t**2 * x))
    for s in (1, 2, 5, 10):
        below, kappa = x[x <= 0.9], LocalSteps(1.0, s).kappa(0.9)
        notes.add(SCALARS, (1 - s * below) / (1 - below) ** s, (1 - below) ** s / (1 - s * below / kappa))
        rising = x / (1 - (1 - x) ** s)
        notes.add(SCALARS, rising[:-1] / rising[1:])


def _unrolled(made: Rounds, truths: Array, rng: np.random.Generator, notes: Notes) -> None:
    pooled, means, t = np.vstack(made.X), made.means(truths), 12
    noise, f, centre = SIGMA * rng.standard_normal(made.samples), rng.standard_normal(D), made.centre(truths)
    start = rng.standard_normal(D)
    theta = start
    for _ in range(t):
        before = theta
        theta = made.A @ theta + made.C @ (means + noise)
    power = np.linalg.matrix_power(made.A, t)
    notes.same(UNROLLED, theta - f, power @ (start - f) + made.summed(t) @ made.C @ (noise + means - pooled @ f))
    notes.same(CENTRED, theta - centre, made.A @ (before - centre) + made.C @ noise)
    notes.same(CENTRED, theta - centre, power @ (start - centre) + made.summed(t) @ made.C @ noise)
    notes.add(SHORTER, np.linalg.norm(power @ (start - f)) / np.linalg.norm(start - f))


def _sums(made: Rounds, t: int, rng: np.random.Generator, notes: Notes) -> None:
    pace, N, eye = made.method.step_size * made.method.steps, made.samples, np.eye(D)
    moved, a = made.summed(t) @ made.C, rng.standard_normal(N)
    Sigma, step = moved.T @ moved, np.zeros(D)
    for _ in range(t):
        step = made.A @ step + made.C @ a
    notes.same(QUADRATIC, step @ step, a @ Sigma @ a)
    inner = made.summed(t) @ (eye - np.linalg.matrix_power(made.A, t))
    size, trace = np.linalg.norm(moved, 2) ** 2, np.square(moved).sum()
    middle = pace / N * float(np.linalg.norm(inner, 2))
    notes.add(SIGMA_NORM, size / middle, middle / (pace * t / N))
    notes.add(APART, np.linalg.norm(step) / (math.sqrt(pace * t / N) * np.linalg.norm(a)))
    lam, values = np.linalg.eigvalsh(made.G), np.linalg.eigvalsh(made.A)
    u, rest = pace * t, 1 - values
    notes.add(EACH, np.sort(rest) / (pace * lam))
    chain = [trace, pace / N * np.trace(inner), pace / N * np.minimum(t, t**2 * rest).sum()]
    chain += [pace / N * np.minimum(t, t**2 * pace * lam).sum(), u**2 * rademacher(lam, u**-0.5, N) ** 2]
    notes.add(STEPS, np.array(chain[:-1]) / np.array(chain[1:]))
    total = pace / N * np.sum((1 - values**t) ** 2 / rest)
    notes.same(TRACES, total, chain[1])
    unequal = float(SIGMA**2 * rng.random(N) @ np.diag(Sigma))  # E[ξᵀΣξ] with variances between 0 and σ²
    notes.add(VARIANCE, unequal / (SIGMA**2 * trace), trace / total)
    notes.add(
        VARIANCE, total / (made.kappa * D / (N * made.rho)), rest.max(), pace * made.rho / made.kappa / rest.min()
    )
    notes.add(CONTRACTS, values[-1] / (1 - pace * made.rho / made.kappa))
    if t <= (stopping_round(lam, SIGMA, N, made.method.step_size, made.method.steps) or 0):
        level = (SIGMA * u * rademacher(lam, u**-0.5, N)) ** 2
        notes.add(SMALL, unequal / (SIGMA**2 * trace), SIGMA**2 * trace / level, level * 2 * math.e)
        frobenius, delta = np.linalg.norm(Sigma), 1 / (2 * math.e)
        notes.add(TAIL, frobenius**2 / (size * trace))
        notes.add(
            TAIL,
            N / (2 * SIGMA**2 * math.e * u) / min(delta / (SIGMA**2 * size), (delta / (SIGMA**2 * frobenius)) ** 2),
        )


def _lemma_28(made: Rounds, T: Array, rng: np.random.Generator, notes: Notes) -> None:
    pooled, N, eta, s = np.vstack(made.X), made.samples, made.method.step_size, made.method.steps
    P = np.zeros((N, N))
    ends = np.cumsum([len(rows) for rows in made.X])
    for rows, end in zip(made.X, ends, strict=True):
        P[end - len(rows) : end, end - len(rows) : end] = Local(rows, made.method).P
    f, a = rng.standard_normal(D), rng.standard_normal(N)
    a, g = a / np.linalg.norm(a), T @ f
    A = (T @ made.C).T @ (T @ made.C)
    value, at_rows = f @ T @ made.C @ a, pooled @ g
    notes.same(INNER, value, eta / N * a @ P @ at_rows)
    notes.same(INNER, a @ A @ a, np.square(T @ made.C @ a).sum())
    middle, last = (eta / N) ** 2 * np.square(P @ at_rows).sum(), s * (eta / N) ** 2 * at_rows @ P @ at_rows
    notes.add(SQUARED, value**2 / middle, middle / last)
    rest = np.eye(D) - made.A
    notes.same(REWRITTEN, last, s * eta / N * g @ rest @ g)
    notes.same(REWRITTEN, last, s * eta / N * f @ T @ rest @ T @ f)
    notes.same(TRACES, np.trace(A), np.square(eta / N * P @ pooled @ T).sum())
    whole = s * eta / N * T @ rest @ T
    notes.add(TRACE_BOUND, np.linalg.norm(A, 2) / np.linalg.norm(whole, 2), np.trace(A) / np.trace(whole))


def _client(local: Local, kappa: float, notes: Notes) -> None:
    rest, s = np.eye(D) - local.forward, local.method.steps
    notes.add(BETWEEN, np.linalg.eigvalsh(rest))
    notes.add(ORDER, np.linalg.eigvalsh(local.whole - np.eye(D) + s * rest)[0])
    notes.add(ORDER, np.linalg.eigvalsh(np.eye(D) - s * rest / kappa - local.whole)[0])


def _centre(made: Rounds, truths: Array, notes: Notes) -> None:
    pooled, means, N = np.vstack(made.X), made.means(truths), made.samples
    pace, inverse = made.method.step_size * made.method.steps, np.linalg.inv(np.eye(D) - made.A)
    centre, moved = made.centre(truths), inverse @ made.C
    S = moved.T @ moved
    size = np.linalg.norm(moved, 2) ** 2
    for own in truths:
        delta = means - pooled @ own
        notes.same(CENTRE, centre - own, moved @ delta)
        notes.same(CENTRE, np.square(centre - own).sum(), delta @ S @ delta)
        notes.add(SPREAD, delta @ S @ delta / (delta @ delta * size))
    most = pace / N * np.linalg.norm(inverse, 2)
    notes.add(SPREAD, size / most, most / (made.kappa / (N * made.rho)))
    notes.add(NO_DIFFERENCE, np.linalg.norm(means - pooled @ centre) / np.linalg.norm(means))
    nearest = np.linalg.lstsq(pooled, means, rcond=None)[0]
    notes.add(NO_INTERPOLANT, np.linalg.norm(means - pooled @ nearest) / np.linalg.norm(means))
    one = np.tile(truths[0], (len(truths), 1))
    notes.add(NO_DIFFERENCE_SAME, np.abs(made.centre(one) - truths[0]).max())
    notes.add(NO_DIFFERENCE_SAME, np.abs(made.means(one) - pooled @ truths[0]).max())
    values = np.linalg.eigvalsh(pooled @ pooled.T / N)
    notes.add(SINGULAR, np.abs(values[: N - D]).max() / made.rho)
    notes.same(SAME, values[N - D :], np.linalg.eigvalsh(made.G))
