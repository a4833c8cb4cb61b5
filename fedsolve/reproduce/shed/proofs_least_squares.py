"""SHED, sections 2 to 4: the equations and the steps in the proofs of Theorems 1 and 3, Lemmas 4 and 7, one by one."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import scipy.linalg

from fedsolve.algorithms import SHEDLeastSquares
from fedsolve.curvature.renewals import Periodic
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.one_agent import best, factor, known, least_factor
from fedsolve.typing import Array

N, SIZES, MU = 10, (6, 15, 30, 60, 120), 1e-3  # unknowns, samples of the agents (one has fewer than N), penalty
EXACT = 1e-9
ALPHA = 0.499
PERIOD, PERIODS = 5, 200  # T of Algorithm 3, and how many periods are followed
NEAR = 0.01  # by which a* is missed, above and below

FOUR, LOW_RANK = "(4): V Λ̂ Vᵀ = Σ (λ_k − ρ) v vᵀ + ρI", "(4): with ρ = 0 the rank is q"
TWO, QUADRATIC = "(2): H and g are the means of the agents'", "f = f* + ½(θ − θ*)ᵀH(θ − θ*), g = H(θ − θ*)"
FIVE, TEN = "(5): the error is multiplied by I − η Ĥ^-1 H", "(10): A = V(I − η Λ̂^-1 Λ)Vᵀ"
BELOW, ABOVE = "Theorem 1: η* and the factor for ρ < λ_n", "Theorem 1: η* and the factor for ρ > λ_{q+1}"
BETWEEN, CROSS = "Theorem 1: (11) and the factor in between", "Corollary 2: ‖Bz‖² = ‖B*z‖² + ‖δBz‖²"
COMPLETE, IMPROVES = "Ĥ = H with n − 1 eigenpairs", "‖Ĥ − H‖ never rises with q"
LEAST, GAP = "Theorem 3 (i): ρ̄ ≤ λ_min(Ĥ)", "Theorem 3 (ii): ‖Ĥ − H‖ ≤ ρ̄ − λ̄_n"
OWN_GAP, CHAIN = "(16), (17): ‖Ĥ_i − H_i‖ = ρ_i − λ_n,i", "Theorem 3: ‖I − Ĥ^-1 H‖ ≤ ‖Ĥ^-1‖ ‖Ĥ − H‖"
TWENTY, ORDER = "(20): both equalities", "(21): Ĥ − ηH ≥ 0 with the step of (19)"
ARMIJO, EQUIVALENT = "(21) implies Armijo's test, α = 0.499", "(21): twice its difference is Ĥ − ηH"
DESCENT = "−p is a descent direction: ρ̄ ‖p‖² ≤ pᵀg"
PRODUCT, STEPS = "(22), (23): ‖A_1 ⋯ A_t‖ ≤ c_1 ⋯ c_t", "before (23): ‖A_k‖ ≤ c_k"
VANISHES, DIVERGES = "a = 1.01 a*: (θ^t − θ*)a^-t vanishes", "a = 0.99 a*: it diverges"
PERIODIC, PERIODIC_LATE = "(25): c_{k+T} = c_k from k = 1", "(25): c_{k+T} = c_k from k = T"
MEAN, MEAN_LATE = "(25): log ā is the mean of log c_1 … log c_T", "(25): log ā is the mean over a whole period"
SIX, RATE = "(6): ‖θ^{t+1} − θ*‖ ≤ r ‖θ^t − θ*‖", "(10): r is the largest |eigenvalue| of A"
PARTS, DIAGONAL = "(21): Ĥ − ηH = Σ p_i V(Λ̂_i − ηΛ_i)Vᵀ", "(21): no element of Λ̂_i − ηΛ_i is negative"
ONE_MORE = "one more pair of one agent alone lowers c_t, unless λ_{q+1} stays"
LIMIT = "(22): ‖A_1 ⋯ A_t‖^{1/t} is a* of (5), to 1 %"
BOUND_24, NEVER = "(24) with c_1 … c_T as printed", "Algorithm 3: λ̄_n/ρ̄_t < 1, so that c_t > 0, for every t"

OFF = (
    FOUR,
    LOW_RANK,
    TWO,
    QUADRATIC,
    FIVE,
    TEN,
    BELOW,
    ABOVE,
    BETWEEN,
    CROSS,
    COMPLETE,
    OWN_GAP,
    TWENTY,
    EQUIVALENT,
    *(RATE, PARTS),
)
BOUNDS = (IMPROVES, LEAST, GAP, CHAIN, STEPS, PRODUCT, BOUND_24, ORDER, ARMIJO, DESCENT, SIX)
CHECKS = (
    *(Check("sections 2 to 4", name, "off", EXACT) for name in OFF),
    *(Check("(25)", name, "off", EXACT) for name in (PERIODIC, PERIODIC_LATE)),
    *(Check("(25)", name, "off", 0.01) for name in (MEAN, MEAN_LATE)),
    *(Check("sections 3 and 4", name) for name in BOUNDS),
    Check("section 4.2", VANISHES, "times", 0.01),
    Check("section 4.2", DIVERGES, "times", 0.01),
    Check("section 4.2", NEVER, most=0.999),
    Check("(22)", LIMIT, "off", 0.01),
    Check("(21)", DIAGONAL, "off", EXACT),
    Check("section 3.2", ONE_MORE, "failures", 0.0),
)


class Agents:
    """Least squares among agents of unequal size, in matrices."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng((seed, 21))
        scale = 0.6 ** np.arange(N)
        self.parts = [(rng.standard_normal((m, N)) * scale, rng.standard_normal(m)) for m in SIZES]
        self.p = np.array(SIZES) / sum(SIZES)
        self.hessians = [X.T @ X / len(y) + MU * np.eye(N) for X, y in self.parts]
        self.H = np.asarray(np.tensordot(self.p, np.stack(self.hessians), 1))
        X, y = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        self.X, self.y, self.best = X, y, np.linalg.solve(self.H, X.T @ y / len(y))
        pairs = [np.linalg.eigh(one) for one in self.hessians]
        self.values = [values[::-1] for values, _ in pairs]
        self.vectors = [vectors[:, ::-1] for _, vectors in pairs]

    def value(self, w: Array) -> float:
        return float(np.mean((self.X @ w - self.y) ** 2) / 2 + MU / 2 * w @ w)

    def gradient(self, w: Array) -> Array:
        return np.asarray(self.X.T @ (self.X @ w - self.y) / len(self.y) + MU * w)

    def local_gradient(self, agent: int, w: Array) -> Array:
        X, y = self.parts[agent]
        return np.asarray(X.T @ (X @ w - y) / len(y) + MU * w)

    def shifts(self, q: int, middle: bool = True) -> Array:
        """ρ_i with q eigenpairs known."""
        return np.array([(one[q] + one[-1]) / 2 if middle else one[q] for one in self.values])

    def estimates(self, q: int, middle: bool = True) -> list[Array]:
        """Ĥ_i of (13)."""
        pairs = zip(self.vectors, self.values, self.shifts(q, middle), strict=True)
        return [V[:, :q] * (values[:q] - rho) @ V[:, :q].T + rho * np.eye(N) for V, values, rho in pairs]

    def estimate(self, q: int, middle: bool = True) -> Array:
        return np.asarray(np.tensordot(self.p, np.stack(self.estimates(q, middle)), 1))

    def contraction(self, q: int) -> float:
        """c of Theorem 3."""
        return 1 - float(self.p @ [one[-1] for one in self.values]) / float(self.p @ self.shifts(q))


def off(one: Array | float, other: Array | float) -> float:
    """The relative distance."""
    return norm(np.atleast_1d(np.asarray(one) - other)) / norm(np.atleast_1d(np.asarray(other)))


def one_agent(of: Agents, rng: np.random.Generator) -> dict[str, float]:
    """(4) and the proofs of Theorem 1 and Corollary 2, for the largest agent and every q ≥ 1."""
    V, values, H = of.vectors[-1], of.values[-1], of.hessians[-1]
    found = dict.fromkeys((FOUR, LOW_RANK, TEN, BELOW, ABOVE, BETWEEN, CROSS, SIX, RATE), 0.0)

    def more(name: str, value: float) -> None:
        found[name] = max(found[name], value)

    z = rng.standard_normal(N)
    for q in range(1, N):
        low, high, (rho, r) = values[-1], values[q], best(values, q)
        more(FOUR, off(of.estimates(q)[-1], (V * known(values, q, of.shifts(q)[-1])) @ V.T))
        flat = V[:, :q] * values[:q] @ V[:, :q].T
        kept = np.linalg.svd(flat, compute_uv=False)
        more(LOW_RANK, float(kept[q] / kept[q - 1]))
        A = np.eye(N) - 0.7 * np.linalg.solve((V * known(values, q, rho)) @ V.T, H)
        more(TEN, off(V @ np.diag(1 - 0.7 * values / known(values, q, rho)) @ V.T, A))
        r_now = factor(values, q, rho, 0.7)
        more(SIX, norm(A @ z) / (r_now * norm(z)))
        more(RATE, abs(float(np.abs(np.linalg.eigvals(A)).max()) - r_now))
        for tried in (low / 3, low / 1.1):  # ρ < λ_n
            eta = 2 * tried / (tried + high)
            more(
                BELOW,
                max(abs(factor(values, q, tried, eta) - (1 - eta)), abs(least_factor(values, q, tried) - (1 - eta))),
            )
        for tried in (1.1 * high, 3 * high):  # ρ > λ_{q+1}
            eta, said = 2 * tried / (tried + low), 1 - 2 * low / (tried + low)
            more(ABOVE, max(abs(factor(values, q, tried, eta) - said), abs(least_factor(values, q, tried) - said)))
        for tried in np.linspace(low, high, 5):
            eta = 2 * tried / (high + low)
            least = least_factor(values, q, tried)  # no other step has a smaller factor
            more(BETWEEN, max(abs(factor(values, q, tried, eta) - r), abs(1 - eta * low / tried - r), abs(least - r)))
            B, B_best = 1 - eta * values / known(values, q, tried), 1 - values / known(values, q, rho)
            delta = np.where(np.arange(N) < q, 1 - eta, 0.0)
            more(CROSS, abs(norm(B * z) ** 2 - norm(B_best * z) ** 2 - norm(delta * z) ** 2) / norm(z) ** 2)
    return found


def many_agents(of: Agents, rng: np.random.Generator) -> dict[str, float]:
    """(2), (5) and the proofs of Theorem 3 and Lemma 4, for every q."""
    w = rng.standard_normal(N)
    g, e, H = of.gradient(w), w - of.best, of.H
    gap = of.value(w) - of.value(of.best)
    found = dict.fromkeys((FIVE, LEAST, GAP, OWN_GAP, CHAIN, TWENTY, ORDER, EQUIVALENT, ARMIJO, DESCENT, STEPS), 0.0)
    found |= dict.fromkeys((PARTS, DIAGONAL), 0.0)
    found[TWO] = off(np.tensordot(of.p, np.stack([of.local_gradient(j, w) for j in range(len(SIZES))]), 1), g)
    found[TWO] = max(found[TWO], off(of.X.T @ of.X / len(of.y) + MU * np.eye(N), H))
    found[QUADRATIC] = max(off(0.5 * float(e @ H @ e), gap), off(H @ e, g))
    found[COMPLETE] = off(of.estimate(N - 1), H)
    sizes = [norm_2(of.estimate(q) - H) for q in range(N)]
    found[IMPROVES] = max(b / a for a, b in pairwise(sizes[:-1]))
    least = float(of.p @ [one[-1] for one in of.values])

    def more(name: str, value: float) -> None:
        found[name] = max(found[name], value)

    for q in range(N - 1):
        Ĥ, rho = of.estimate(q), float(of.p @ of.shifts(q))
        p, A = np.linalg.solve(Ĥ, g), np.eye(N) - np.linalg.solve(Ĥ, H)
        more(FIVE, off((np.eye(N) - 0.7 * np.linalg.solve(Ĥ, H)) @ e, w - 0.7 * p - of.best))
        more(LEAST, rho / float(np.linalg.eigvalsh(Ĥ)[0]))
        more(GAP, norm_2(Ĥ - H) / (rho - least))
        own = zip(of.estimates(q), of.hessians, of.shifts(q), of.values, strict=True)
        more(OWN_GAP, max(abs(norm_2(one - two) - (r - values[-1])) / values[0] for one, two, r, values in own))
        more(CHAIN, norm_2(A) / (norm_2(np.linalg.inv(Ĥ)) * norm_2(Ĥ - H)))
        more(STEPS, norm_2(A) / of.contraction(q))
        more(DESCENT, rho * float(p @ p) / float(p @ g))
        eta = min(r / values[q] for r, values in zip(of.shifts(q), of.values, strict=True))  # (19)
        inside = [known(one, q, r) - eta * one for one, r in zip(of.values, of.shifts(q), strict=True)]
        parts = np.stack([(V * one) @ V.T for V, one in zip(of.vectors, inside, strict=True)])
        more(PARTS, off(np.tensordot(of.p, parts, 1), Ĥ - eta * H))
        more(
            DIAGONAL,
            max(max(0.0, -float(one.min() / values[0])) for one, values in zip(inside, of.values, strict=True)),
        )
        moved = of.value(w - eta * p) - of.value(of.best)
        first, second = gap + 0.5 * eta**2 * p @ H @ p - eta * p @ g, gap - eta * p @ (Ĥ - eta * H / 2) @ p
        more(TWENTY, max(abs(moved - first), abs(moved - second)) / gap)
        more(ORDER, eta * float(scipy.linalg.eigh(H, Ĥ, eigvals_only=True)[-1]))
        more(ARMIJO, ALPHA * eta * float(p @ g) / (gap - moved))
        more(EQUIVALENT, off(2 * (Ĥ - eta * H / 2 - Ĥ / 2), Ĥ - eta * H))
    return found


def one_more(of: Agents) -> float:
    """How often c_t is not lower with one more eigenpair of one agent alone, where its λ_{q+1} falls."""
    least, higher = float(of.p @ [one[-1] for one in of.values]), []
    for q in range(N - 1):
        shifts = of.shifts(q)
        for j, values in enumerate(of.values):
            if values[q + 1] < values[q] * (1 - EXACT):
                more = shifts.copy()
                more[j] = of.shifts(q + 1)[j]
                higher.append(1 - least / float(of.p @ more) >= 1 - least / float(of.p @ shifts))
    return float(np.mean(higher))


def norm_2(A: Array) -> float:
    return float(np.linalg.norm(A, 2))


def counts(period: int, iterations: int) -> list[int]:
    """q_t of Algorithm 3, one more eigenpair an iteration, with renewals at t = 1, T, 2T, …"""
    found: list[int] = []
    for t in range(1, iterations + 1):
        found.append(1 if t == 1 or t % period == 0 else found[-1] + 1)
    return found


def periods(of: Agents) -> dict[str, float]:
    """(22) to (25), with T = 5."""
    qs = counts(PERIOD, PERIOD * PERIODS)
    formula = np.array([of.contraction(q) for q in qs])
    c = np.array(_library(of, PERIOD * PERIODS))
    steps = [np.eye(N) - np.linalg.solve(of.estimate(q), of.H) for q in qs[: 4 * PERIOD]]
    product, worst = np.eye(N), 0.0
    for t, A in enumerate(steps):
        product = product @ A
        worst = max(worst, norm_2(product) / float(np.prod(c[: t + 1])))
    whole = np.eye(N)
    for A in steps[PERIOD - 1 : 2 * PERIOD - 1]:  # iterations T … 2T − 1
        whole = A @ whole
    exponent = float(np.abs(np.linalg.eigvals(whole)).max() ** (1 / PERIOD))  # a*
    start = np.linalg.eig(whole)[1][:, np.abs(np.linalg.eigvals(whole)).argmax()]
    left = norm(np.linalg.matrix_power(whole, PERIODS) @ start) / norm(start)
    many = PERIODS * PERIOD
    powers, log = np.eye(N), 0.0
    for q in qs[PERIOD - 1 :]:  # from the first whole period on
        powers = powers @ (np.eye(N) - np.linalg.solve(of.estimate(q), of.H))
        size = norm_2(powers)
        powers, log = powers / size, log + np.log(size)
    a_bar, a_T = (float(np.exp(np.mean(np.log(some)))) for some in (c, c[:PERIOD]))
    late = float(np.exp(np.mean(np.log(c[PERIOD - 1 : 2 * PERIOD - 1]))))
    return {
        PRODUCT: worst,
        VANISHES: left / ((1 + NEAR) * exponent) ** many,
        DIVERGES: ((1 - NEAR) * exponent) ** many / left,
        PERIODIC: float(np.abs(c[PERIOD:] - c[:-PERIOD]).max()),
        PERIODIC_LATE: float(np.abs(c[2 * PERIOD - 1 :] - formula[PERIOD - 1 : -PERIOD]).max()),
        MEAN: abs(np.log(a_bar) / np.log(a_T) - 1),
        MEAN_LATE: abs(np.log(a_bar) / np.log(late) - 1),
        BOUND_24: exponent / a_T,
        NEVER: 1 - float(c.min()),
        LIMIT: abs(float(np.exp(log / len(qs[PERIOD - 1 :]))) / exponent - 1),
        ONE_MORE: one_more(of),
    }


def _library(of: Agents, iterations: int) -> list[float]:
    """c_t of SHED-LS-periodic."""
    clients = [Client(f"agent-{j}", *part) for j, part in enumerate(of.parts)]
    algorithm = SHEDLeastSquares(Squared(l2=MU), Periodic(PERIOD))
    return [one.state.contraction for one in islice(iterates(algorithm, clients), 1, iterations + 1)]


def measured(seed: int) -> dict[str, float]:
    of, rng = Agents(seed), np.random.default_rng((seed, 22))
    return {**one_agent(of, rng), **many_agents(of, rng), **periods(of)}


@experiment(
    "shed-proofs-ls",
    paper="SHED",
    place="sections 2 to 4",
    title="Least squares: SHED's equations and the steps of its proofs",
    takes="2 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Equalities to 1e-9, inequalities as left side over right side."""
    notes = (
        f"Random least squares, n = {N}, agents of {', '.join(map(str, SIZES))} samples, μ = {MU:g}, every q. Of "
        "equalities the relative error, of inequalities the left side over the right. "
        f"Algorithm 3 with T = {PERIOD} renews at 1, T, 2T, …, as printed; a* is the spectral "
        "radius of the product over a whole period, and h is followed for 200 periods along its eigenvector.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
