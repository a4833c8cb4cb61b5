"""The contraction factor of FedNewton, found before it is run (beyond the FedNewton paper).

    e ← (I − AH) e,   A = Σ p_j H_j⁻¹,   H = Σ p_j H_j,   ρ = λ_max(AH) − 1

All eigenvalues of AH are at least 1, so plain FedNewton converges if and only if ρ < 1. AH is self-adjoint in the inner
product ⟨u, v⟩_H = uᵀHv; Lanczos in it needs, per step, the two exchanges of a round of FedNewton: H v, then A (H v).
Uses only sums of the clients' replies, and no labels where the loss is quadratic.

The Ritz value is never above λ_max: ρ > 1 is certain as soon as it is seen. How far it may be below is bounded, with
probability 99 % over the random start, from the recurrence itself (docs/decisions/013-the-verdict-on-rho.md).

All this is of a quadratic. For other losses it is of the Hessians at one w, zero unless given: where the iteration goes
on they are others, and the verdict is an indication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fedsolve.diagnose.opened import Clients, opened, since
from fedsolve.errors import ConfigError, QuorumNotReached
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_solves
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape
from fedsolve.wire.messages import Purpose

Verdict = Literal["converges", "diverges", "too close to say"]

DOUBT = 0.01  # the probability, over starts, that the upper bound fails
ACCURACY = 1e-8  # the relative error up to which rounds are counted
EXHAUSTED = 1e-10  # of λ_max: a remainder this small is rounding, and the Krylov space holds every eigenvalue there is
_AT = "diagnose.w"


@dataclass(frozen=True)
class Contractions:
    """What is known of ρ after so many steps; of the Hessians at one w, where the loss is not quadratic.

    rho       λ − 1 for the largest Ritz value λ; never above the true one
    error     some eigenvalue of AH is this near to λ (the norm of the residual)
    upper     the true ρ is below, with probability 99 %; proved where the loss is strongly convex, otherwise under the
              assumption that the leading eigenvector is no harder to hit than an average direction
    least     the smallest Ritz value; below 1 only where a client's Hessian is singular
    """

    rho: float
    error: float
    upper: float
    proved: bool
    least: float
    steps: int
    verdict: Verdict
    sentence: str
    ledger: Ledger

    @property
    def plain_rounds(self) -> int | None:
        """Rounds of plain FedNewton to a relative error of 1e-8; None where it diverges or might. With these Hessians:
        where the loss is not quadratic, an indication."""
        return _plain_rounds(max(self.rho, 1.0 - self.least)) if self.verdict == "converges" else None

    @property
    def cg_rounds(self) -> int:
        """Rounds of FedNewtonCG to the same, by the bound of conjugate gradients; it usually needs fewer. This is of
        one Newton system: a loss that is not quadratic has several, one after the other."""
        return _cg_rounds(self.rho, self.least)


@dataclass(frozen=True)
class Contraction:
    """ρ by Lanczos with full reorthogonalisation; the start is drawn at the server from `seed`."""

    loss: LinearLoss
    steps: int = 8
    seed: int = 0

    purpose: ClassVar[Purpose] = "setup"
    needs: ClassVar[frozenset[str]] = frozenset({"hessian"})
    supports: ClassVar[frozenset[str]] = frozenset({"l1"})  # of the smooth part

    def __post_init__(self) -> None:
        if not is_whole(self.steps) or self.steps < 1:
            raise ConfigError(f"steps is a whole number of at least 1, got {self.steps!r}")

    # ── clients ──

    @client_step
    def local_product(self, client: Client, v: Array, w: Array | None) -> Array:
        if w is not None:
            self.loss.check_weights(client, w=w)
            client.memory[_AT] = w
        require_shape("v", v, self._order(client))
        return self.loss.hessian_product(client, self._point(client), v)

    @client_step
    def local_solve(self, client: Client, g: Array) -> Array:
        require_shape("g", g, self._order(client))
        return self.loss.hessian_factor(client, self._point(client)).solve(g)

    def _order(self, client: Client) -> int:
        shape = self.loss.zero(client).shape
        return int(shape[0]) if self.loss.separable else math.prod(shape)

    def _point(self, client: Client) -> Array:
        found = client.memory.get(_AT)
        return self.loss.zero(client) if found is None else found

    # ── server ──

    def footprint(self, sizes: Sizes) -> Footprint:
        return replace(local_solves(sizes, models=1), instead="`heterogeneity`, which forms no Hessian")

    def estimate(self, fed: Federation, w: Array | None = None) -> Contractions:
        """ρ at w (zero unless given; a quadratic has the same everywhere), in 2 · steps + 1 exchanges."""
        before, cohort = len(fed.ledger.records), fed.cohort.clients
        shape = self.loss.shape(fed.features, fed.outputs)
        if w is not None and np.shape(w) != shape:
            raise ConfigError(f"w has shape {np.shape(w)}, this problem needs {shape}")
        order = shape[0] if self.loss.separable else math.prod(shape)
        v = np.random.default_rng(self.seed).standard_normal(order)
        at = None if w is None else np.asarray(w, dtype=np.float64)
        Hv = fed.mean(self.local_product, v=v, w=at)
        first = beta = _norm(v, Hv)
        if not beta > 0:
            raise ConfigError("the Hessian of all clients together is zero: there is nothing to contract")
        Q, HQ = np.empty((0, order)), np.empty((0, order))
        alphas: list[float] = []
        betas: list[float] = []  # ‖r‖_H after each step
        while True:
            Q, HQ = np.vstack([Q, v / beta]), np.vstack([HQ, Hv / beta])
            z = fed.mean(self.local_solve, g=HQ[-1])
            alphas.append(float(HQ[-1] @ z))
            for _ in range(2):  # once leaves what cancellation has cost
                z = z - (HQ @ z) @ Q
            v, Hv = z, fed.mean(self.local_product, v=z, w=None)
            if fed.cohort.clients != cohort:
                raise QuorumNotReached("clients left during the diagnosis: A and H would be of different ones")
            beta = _norm(v, Hv)
            done = len(alphas) >= order or beta <= EXHAUSTED * max(map(abs, alphas))
            betas.append(0.0 if done else beta)
            if done or len(alphas) == self.steps:
                break
        where = None if self.loss.quadratic else "w = 0" if w is None else "this w"
        return self._judge(alphas, betas, first, order, where, since(fed, before))

    def _judge(
        self, alphas: list[float], betas: list[float], start: float, order: int, where: str | None, ledger: Ledger
    ) -> Contractions:
        off = np.array(betas[:-1])
        theta, S = np.linalg.eigh(np.diag(alphas) + np.diag(off, 1) + np.diag(off, -1))
        rho, error = float(theta[-1]) - 1.0, betas[-1] * abs(float(S[-1, -1]))
        mu = self.loss.strong_convexity()
        # |⟨start, leading eigenvector⟩_H| is the absolute value of a Gaussian of at least this deviation.
        deviation = math.sqrt(mu) if mu > 0 else start / math.sqrt(order)
        share = DOUBT * math.sqrt(math.pi / 2) * deviation / start
        upper = _upper(theta, betas, share) - 1.0
        verdict: Verdict = "diverges" if rho > 1 else "converges" if upper < 1 else "too close to say"
        least = float(theta[0])
        sentence = _sentence(verdict, rho, upper, least, len(alphas), where)
        return Contractions(rho, error, upper, mu > 0, least, len(alphas), verdict, sentence, ledger)


def contraction(
    loss: LinearLoss,
    clients: Clients,
    steps: int = 8,
    seed: int = 0,
    w: Array | None = None,
    *,
    transport: str | type[Any] = "in_process",
) -> Contractions:
    """Whether plain FedNewton would converge, and how fast, without running it.

    `clients` may be a federation that is open already and has `Contraction(loss, steps, seed)` among its protocols.
    """
    protocol = Contraction(loss, steps, seed)
    with opened("contraction", protocol, clients, transport, seed) as fed:
        return protocol.estimate(fed, w)


def _norm(v: Array, Hv: Array) -> float:
    return math.sqrt(max(float(v @ Hv), 0.0))


def _upper(theta: Array, betas: list[float], share: float) -> float:
    """The largest μ that λ_max can be if the start has at least this share of its eigenvector.

    With χ(x) = Π (x − θ_i), ‖χ(AH) q_1‖_H = Π β_i. The part along the leading eigenvector alone is share · χ(λ_max), so
    χ(λ_max) ≤ Π β_i / share, and χ increases above the largest Ritz value (van Dorsselaer, Hochstenbach and van der
    Vorst 2000, "Computing probabilistic bounds for extreme eigenvalues of symmetric matrices with the Lanczos method").
    """
    top = float(theta[-1])
    if not betas[-1] > 0:
        return top
    wanted = float(np.sum(np.log(betas))) - math.log(share)

    def short(gap: float) -> bool:
        return float(np.sum(np.log(gap + (top - theta)))) < wanted

    low, high = 0.0, max(top, 1.0)
    while short(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return top + high


# ── in words ──


def _plain_rounds(factor: float) -> int:
    return 1 if factor <= ACCURACY else math.ceil(math.log(ACCURACY) / math.log(factor))


def _cg_rounds(rho: float, least: float) -> int:
    """2 ((√κ − 1)/(√κ + 1))^t ≤ 1e-8 with κ = λ_max / λ_min."""
    root = math.sqrt(max((1.0 + rho) / min(max(least, 1e-12), 1.0), 1.0))
    if root - 1 < ACCURACY:
        return 1
    return max(1, math.ceil(math.log(ACCURACY / 2) / math.log((root - 1) / (root + 1))))


def _sentence(verdict: Verdict, rho: float, upper: float, least: float, steps: int, where: str | None) -> str:
    """`where` the Hessians were taken; None if they are the same everywhere."""
    most = f"at most about {_cg_rounds(rho, least)} rounds to 1e-8" + ("" if where is None else " for each Newton step")
    cg = f"FedNewtonCG, which needs {most}"
    seen = "" if where is None else f"with the Hessians at {where}, which is an indication and no more, "
    if verdict == "diverges":
        return f"{seen}plain FedNewton would diverge{' here' if where is None else ''} (ρ ≥ {rho:.3g}): use {cg}"
    if verdict == "too close to say":
        low, high = _apart(rho, upper, 3)
        return (
            f"{seen}after {steps} steps ρ is between {low} and {high}, too close to 1 to say whether "
            f"plain FedNewton converges: use {cg}, or ask for more steps"
        )
    low, high = _apart(max(rho, 0.0), max(upper, 0.0), 2)
    does = "converges here" if where is None else "would converge"
    said = f"{seen}plain FedNewton {does} (ρ ≈ {low}, below {high})"
    if least < 1 - 1e-6:
        slow = f"some client's Hessian is singular, and part of the error only shrinks to {1 - least:.2g} in a round"
        return f"{said}, but {slow}: use {cg}"
    rounds = f"in about {_plain_rounds(max(rho, 0.0))} rounds to 1e-8"
    return f"{said}, {rounds}; FedNewtonCG needs {most if where else most.removesuffix(' rounds to 1e-8')}"


def _apart(low: float, high: float, decimals: int) -> tuple[str, str]:
    """Both with so many decimals, or more until they tell the two apart; the upper one is rounded up."""
    for count in range(decimals, 10):
        below, above = f"{low:.{count}f}", f"{math.ceil(high * 10**count) / 10**count:.{count}f}"
        if float(below) < float(above) and (high < 1) == (float(above) < 1):
            break
    return below, above
