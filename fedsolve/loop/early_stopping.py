"""Stopping before the noise is fitted: the stopping time of Su, Xu and Yang as a rule of a run.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equation 23 and Theorem 8)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import Verdict, rounds_in_words
from fedsolve.losses import Squared
from fedsolve.numerics.early_stopping import SpectrumFit, fit_spectrum, stopping_round
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Purpose

EARLY = "early stopping"
RESOLVED = 1e-13  # of the largest eigenvalue of ΦᵀΦ: what is below it is rounding


@dataclass(frozen=True)
class StoppingTime:
    """When to stop, and what that follows from.

    Attributes:
        rounds: T; None if there is no noise, so that there is nothing to stop for.
        sigma: The standard deviation of the noise, as it was given or estimated.
        norm: How large the function to learn is thought to be, as it was given or estimated.
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

        loss = fs.Squared(features=fs.RandomFourier(200))
        fs.run(fs.FedAvg(loss), clients, rounds=10_000, stopping=fs.EarlyStopping(loss))

    T = max{t : R(1/√(ηts)) ≤ 1/(√(2e) σηts)} follows from the eigenvalues of ΦᵀΦ/N, with Φ the features of all rows.
    They are asked for once, before the first round: each client sends its Gram matrix, p(p+1)/2 numbers, of which the
    rule uses the sum; if σ is to be estimated also Φᵀy and yᵀy. Theorem 8 bounds the error at the training rows until
    T; it holds for any start, and for clients whose functions differ up to a term for that.

    The theory is that of unpenalised least squares in all weights, so the loss has neither l2 nor l1: stopping early
    takes their place. An intercept counts as one feature more, an offset is subtracted from y. Sample weights are read
    as precisions: the noise of a row of weight s has variance σ²/s, and N is the sum of the weights; so T does not
    depend on their unit where σ is estimated. All clients should take part in every round.

    Args:
        loss: The algorithm's own loss, `Squared`.
        sigma: The standard deviation of the noise in the targets. None, the default, estimates it from residuals
            of a ridge regression (`fedsolve.numerics.early_stopping.fit_spectrum`).
        norm: How large the function that is learned is thought to be, as ‖θ‖ of the weights that make it up, or as its
            norm in the kernel's space. Default 1, for which equation (23) balances bias and variance: a function of
            norm B is learned as long as one of norm 1 with noise σ/B, so that T depends on the units of the targets.
            None estimates it from the same ridge regression; then T does not.
    """

    loss: Squared
    sigma: float | None = None
    norm: float | None = 1.0

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
        if self.sigma is not None and not 0 < self.sigma < math.inf:
            raise ConfigError(f"sigma is the standard deviation of the noise, a positive number, got {self.sigma!r}")
        if self.norm is not None and not 0 < self.norm < math.inf:
            raise ConfigError(f"norm is the size of the function to learn, a positive number, got {self.norm!r}")

    # ── clients ──

    @client_step
    def gram(self, client: Client) -> Symmetric:
        """ΦᵀSΦ/Σs."""
        return self.loss.normal(client)[0]

    @client_step
    def targets(self, client: Client) -> tuple[Array, Array]:
        """ΦᵀSy/Σs, and Σ s y²/Σs of each output."""
        y = client.y if client.offset is None else client.y - client.offset
        squares = y * y if client.sample_weight is None else _rows(client.sample_weight, y) * y * y
        return -self.loss.normal(client)[1], client.xp.reshape(client.xp.sum(squares, axis=0) / client.weight, (-1,))

    @client_step
    def size(self, client: Client) -> tuple[int, float]:
        """Rows that count, and the sum of their weights."""
        s = client.sample_weight
        return client.n_samples if s is None else int((to_numpy(s) > 0).sum()), client.weight

    # ── server ──

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Ending:
        """Ask for the spectrum, and find T. Raises ConfigError if the algorithm cannot say how far a round goes."""
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
        return Ending(self.when(fed, step_size, steps))

    def when(self, fed: Federation, step_size: float, steps: int = 1) -> StoppingTime:
        """T for rounds of so many steps of this size, from one exchange with all clients."""
        if self.sigma is None or self.norm is None:
            gram, (products, squares), (rows, total) = fed.exchange(Mean(self.gram), Mean(self.targets), Sum(self.size))
            values, fit = _fitted(np.asarray(gram.full()), products, squares, rows)
        else:
            gram, (rows, total) = fed.exchange(Mean(self.gram), Sum(self.size))
            values, fit = np.linalg.eigvalsh(gram.full()), None
        # A row of weight s has noise σ/√s. As only σ²/N counts, with N the sum of the weights, so does σ²·rows/N with
        # the number of rows: which is also what the residuals of weighted rows say, because N is divided by there too.
        unit = math.sqrt(rows / total)
        noise = self.sigma * unit if self.sigma is not None else fit.noise if fit is not None else 0.0
        norm = self.norm if self.norm is not None else fit.norm if fit is not None else 1.0
        rounds = None if norm <= 0 else stopping_round(np.maximum(values, 0.0), noise, rows, step_size, steps, norm)
        return StoppingTime(rounds, noise / unit, norm, step_size, steps)


def _fitted(gram: Array, products: Array, squares: Array, rows: int) -> tuple[Array, SpectrumFit]:
    """The eigenvalues of ΦᵀΦ/N, and what the residuals of a ridge regression say of noise and function."""
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    seen = values > RESOLVED * values[-1]
    along = ((vectors.T @ products.reshape(len(gram), -1)) ** 2).mean(axis=1)
    projections = np.where(seen, along / np.where(seen, values, 1.0), 0.0)
    with np.errstate(invalid="ignore"):  # of penalties that leave no degrees of freedom, which are not chosen
        return values, fit_spectrum(np.where(seen, values, 0.0), projections, float(np.mean(squares)), rows)


class Ending:
    """Ends one run at its stopping time, which a resumed run keeps."""

    def __init__(self, time: StoppingTime) -> None:
        self.kept: StoppingTime = time

    def resume(self, rows: Sequence[Row], kept: StoppingTime | None) -> None:
        """Go on from a checkpoint, with the time that was found when the run began."""
        self.kept = self.kept if kept is None else kept

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Whether it is time."""
        found = self.kept
        if row.value is not None or found.rounds is None or row.round < found.rounds:
            return None
        if found.rounds == 0:
            return Verdict(
                EARLY,
                f"already the first round would fit noise (σ = {found.sigma:.3g}): take a step size below "
                f"{found.step_size:.3g}, or fewer local steps",
            )
        return Verdict(
            EARLY,
            f"after {rounds_in_words(found.rounds)} further ones would fit noise: σ = {found.sigma:.3g}, steps of size "
            f"{found.step_size:.3g}, {found.steps} in a round",
        )

    def at_budget(self, verdict: Verdict) -> Verdict:
        """Say that the time to stop had not come when a budget was used up."""
        if self.kept.rounds is None:
            return verdict
        return replace(verdict, message=f"{verdict.message}; the time to stop early is round {self.kept.rounds}")


def _rows(s: Array, like: Array) -> Array:
    """Sample weights in the shape of the targets, for products with them."""
    return s if like.ndim == 1 else s[:, None]
