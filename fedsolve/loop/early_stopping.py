"""Stopping before the noise is fitted: the stopping time of Su, Xu and Yang as a rule of a run.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equation 23 and Theorem 8)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Mean, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import Verdict, rounds_in_words
from fedsolve.losses import Squared
from fedsolve.numerics.early_stopping import fit_sums, stopping_round
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import positive
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Purpose

EARLY = "early stopping"


@dataclass(frozen=True)
class StoppingTime:
    """When to stop, and what that follows from.

    Attributes:
        rounds: T; None if there is no noise, so that there is nothing to stop for.
        sigma: The standard deviation of the noise, as it was given or estimated.
        norm: B, the size of what is to be learned, as it was given or estimated.
        step_size: η, and
        steps: s: what one round does at each client.
    """

    rounds: int | None
    sigma: float
    norm: float
    step_size: float
    steps: int


@dataclass(frozen=True)
class EarlyStopping:
    """Ends a run of FedAvg or FedProx at T of equation (23), before it fits the noise.

        loss = fs.Squared(features=fs.RandomFourier(200, gamma=0.1))
        fs.run(fs.FedAvg(loss), clients, rounds=10_000, stopping=fs.EarlyStopping(loss))

    T = max{t : R(1/√(ηts)) ≤ B/(√(2e) σηts)} follows from the eigenvalues of ΦᵀΦ/N, with Φ the features of all rows.
    They are asked for once, before the first round: each client sends its Gram matrix, p(p+1)/2 numbers, of which the
    rule uses the sum. To estimate σ or B it also sends Φᵀr and rᵀr, with r what the start leaves of y.
    Theorem 8 bounds the error at the training rows until T, for clients whose functions differ up to a term for that.

    With its defaults the rule is free of units: T stays the same if all targets, or all sample weights, are multiplied
    by a constant, and if all features are multiplied by c and the step size by 1/c². It does depend on where the
    targets' zero is, because the run starts there, and B includes the intercept. Where the mean of y is large beside
    its variation, subtract it, or begin at a model that knows it (`warm_start`): there is less to learn then.

    The theory is that of unpenalised least squares in all weights, so the loss has neither l2 nor l1: stopping early
    takes their place. An intercept counts as one feature more, an offset is subtracted from y. Sample weights are read
    as precisions: the noise of a row of weight s has variance σ²/s, and N is the sum of the weights. All clients should
    take part in every round.

    Args:
        loss: The algorithm's own loss, `Squared`.
        sigma: The standard deviation of the noise in the targets. None, the default, estimates it from residuals: of
            least squares where there are twice as many rows as features, else of a ridge regression
            (`fedsolve.numerics.early_stopping.fit_spectrum`).
        norm: B, how far the function to learn is from the start: ‖θ* − θ_0‖ of the weights, or ‖f* − f_0‖ in the
            kernel's space. None, the default, estimates it by a ridge regression on what the start leaves of y, so a
            good warm start stops sooner. 1 is equation (23) as it is printed. It is right for a function of norm 1, and
            its T depends on the units of the targets. With sigma and norm both given nothing about y leaves a client.
    """

    loss: Squared
    sigma: float | None = None
    norm: float | None = None

    purpose: ClassVar[Purpose] = "setup"
    kept_types: ClassVar[tuple[type[object], ...]] = (StoppingTime,)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Squared):
            raise ConfigError(
                f"EarlyStopping is for the squared loss, got {self.loss!r}; for others use Patience(evaluation="
                "Evaluation(loss)), which judges by held-out rows"
            )
        if self.loss.l2 or self.loss.l1:
            raise ConfigError(
                "EarlyStopping takes the place of a penalty, and its theory has none: give the loss l2 = 0 and l1 = 0"
            )
        for name, given in (("sigma", self.sigma), ("norm", self.norm)):
            if given is not None:
                positive(name, given)

    # ── clients ──

    @client_step(sends="the second moments of its columns")
    def gram(self, client: Client) -> Symmetric:
        """ΦᵀSΦ/Σs."""
        return self.loss.normal(client)[0]

    @client_step(sends="sums of products of its residuals and columns")
    def remaining(self, client: Client, w: Array) -> tuple[Array, Array]:
        """ΦᵀSr/Σs, and Σ s r²/Σs of each output, for the residuals r = y − offset − Φw."""
        s, r = client.sample_weight, client.y - self.loss.predictor(client, w)
        squares = r * r if s is None else (s if r.ndim == 1 else s[:, None]) * r * r
        return -self.loss.gradient(client, w), client.xp.reshape(client.xp.sum(squares, axis=0) / client.weight, (-1,))

    @client_step(sends="its number of rows and their weight")
    def size(self, client: Client) -> tuple[int, float]:
        """Rows that count, and the sum of their weights."""
        s = client.sample_weight
        return client.n_samples if s is None else int((to_numpy(s) > 0).sum()), client.weight

    # ── server ──

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Ending:
        """Prepare to ask for the spectrum, and to find T. Raises ConfigError if the algorithm cannot say how far a
        round goes."""
        if getattr(algorithm, "loss", None) != self.loss:
            raise ConfigError(
                f"EarlyStopping has the loss {self.loss!r}, and {type(algorithm).__name__} "
                f"{getattr(algorithm, 'loss', None)!r}: give both the same"
            )
        pace = getattr(algorithm, "pace", None)
        if pace is None:
            raise ConfigError(
                f"EarlyStopping needs to know the step size and the number of steps in a round, which "
                f"{type(algorithm).__name__} does not say: use FedAvg or FedProx, or Patience on held-out rows"
            )
        step_size, steps = pace(state)
        part = fed.participation.fraction
        remark = f"; the theory has all clients in every round, and {part:.0%} of them were asked" if part < 1 else ""
        return Ending(lambda: self.when(fed, step_size, steps, state.w), remark)

    def when(self, fed: Federation, step_size: float, steps: int = 1, start: Array | None = None) -> StoppingTime:
        """T for rounds of so many steps of this size, from one exchange with all clients.

        Args:
            fed: The federation.
            step_size: η; of FedProx 1/pull.
            steps: s, the steps of each client in a round.
            start: The weights the run begins with; default those of the warm start, or zero.
        """
        sigma, norm = self.sigma, self.norm
        if sigma is None or norm is None:
            w = fed.start_point(self.loss) if start is None else start
            gram, (products, squares), (rows, total) = fed.exchange(
                Mean(self.gram), Mean(self.remaining, w=w), Sum(self.size)
            )
            fit = fit_sums(_finite(gram), products, squares, rows)
            # The fit's noise is that of a row of average weight, N/rows. σ is that of weight 1.
            sigma = fit.noise * math.sqrt(total / rows) if sigma is None else sigma
            norm = fit.norm if norm is None else norm
        else:
            gram, (_, total) = fed.exchange(Mean(self.gram), Sum(self.size))
        rounds = stopping_round(np.linalg.eigvalsh(_finite(gram)), sigma, total, step_size, steps, norm)
        return StoppingTime(rounds, sigma, norm, step_size, steps)


def _finite(gram: Symmetric) -> Array:
    """The whole matrix. Raises DataError where squares of features overflow, which no client can know of the sum."""
    full = gram.full()
    if not np.isfinite(full).all():
        raise DataError("the squares of the features are too large for floating-point numbers: use other units")
    return full


class Ending:
    """Ends one run at its stopping time, which a resumed run keeps.

    Args:
        when: Asks for the stopping time.
        remark: What else is to be said when the run ends.
    """

    def __init__(self, when: Callable[[], StoppingTime], remark: str = "") -> None:
        self.kept: StoppingTime | None = None
        self._when, self._remark = when, remark

    def resume(self, rows: Sequence[Row], kept: StoppingTime | None) -> None:
        """Go on from a checkpoint, with the time that was found when the run began."""
        self.kept = kept

    def begin(self) -> None:
        """Ask for the stopping time, unless it is known from the checkpoint."""
        if self.kept is None:
            self.kept = self._when()

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Whether it is time."""
        found = self.kept
        if row.value is not None or found is None or found.rounds is None or row.round < found.rounds:
            return None
        if found.rounds == 0:
            return Verdict(
                EARLY,
                f"already the first round would fit noise (σ = {found.sigma:.3g}, norm {found.norm:.3g}): take a step "
                f"size below {found.step_size:.3g} or fewer local steps, unless there is nothing to learn"
                f"{self._remark}",
            )
        return Verdict(
            EARLY,
            f"after {rounds_in_words(found.rounds)} further ones would fit noise: σ = {found.sigma:.3g}, norm "
            f"{found.norm:.3g}, steps of size {found.step_size:.3g}, {found.steps} in a round{self._remark}",
        )

    def at_budget(self, verdict: Verdict) -> Verdict:
        """Say that the time to stop had not come when the run ended for another reason."""
        if verdict.status == EARLY or self.kept is None:
            return verdict
        rounds = self.kept.rounds
        when = "no noise was found to stop early for" if rounds is None else f"the time to stop early is round {rounds}"
        return replace(verdict, message=f"{verdict.message}; {when}")
