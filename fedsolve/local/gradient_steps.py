"""Steps along gradients of a client's own: plain, with momentum, and Adam's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.stacked import StandIn
from fedsolve.local.batches import Batched, Batches, Scale
from fedsolve.local.schedules import Schedule
from fedsolve.losses import Loss
from fedsolve.numerics.linalg import as_kind_of
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array, Namespace

STRIDE = 1_000_003  # between the salts of two steps: places of samples within a step are fewer
# Makes a step of the gradient there, and remembers what it needs for the next one.
Move = Callable[[Array], Array]


@dataclass(frozen=True)
class Steps(Batched, ABC):
    """Steps of one kind, each from the gradient on all samples or on a batch; `GradientSteps` describes the fields."""

    steps: int = 1
    step_size: float | None = None
    batch_size: int | None = None
    epochs: int | None = field(default=None, kw_only=True)
    batches: Batches = field(default="shuffled", kw_only=True)
    scale: Scale = field(default="batch", kw_only=True)
    schedule: Schedule | None = field(default=None, kw_only=True)
    clip: float | None = field(default=None, kw_only=True)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})
    linear: ClassVar[bool] = True  # whether c times the gradients is c times the steps

    def __post_init__(self) -> None:
        self.check_batches()
        if self.step_size is not None:
            positive("step_size", self.step_size)
        if self.schedule is not None and not isinstance(self.schedule, Schedule):
            raise ConfigError(f"schedule is a schedule such as Cosine(rounds=100), or None, got {self.schedule!r}")
        if self.clip is not None:
            positive("clip, the largest norm of a gradient,", self.clip)

    @abstractmethod
    def moves(self, xp: Namespace) -> Move:
        """What turns the gradients of one run into steps, before they are multiplied by the step size."""

    def run(
        self,
        loss: Loss,
        client: Client,
        w: Array,
        step_size: float,
        correction: Array | None = None,
        pull: float = 0.0,
    ) -> Array:
        """w after the steps; see `LocalSolver.run`."""
        own = loss.computing(client)
        if own is not client:  # the whole way as the loss computes, not converted in every step
            loss.check_weights(own, w=w, **({} if correction is None else {"correction": correction}))
            turned = None if correction is None else own.localise(correction)
            return as_kind_of(self.run(loss, own, own.localise(w), step_size, turned, pull), w)
        anchor, move = w, self.moves(client.xp)
        salt = loss.salt(client)
        for step, (part, share) in enumerate(self.parts(client)):
            before = w
            g = loss.gradient(part, w) if salt is None else loss.changed_gradient(part, w, salt + STRIDE * step)
            if correction is not None:
                g = g + correction
            if pull:
                g = g + pull * (w - anchor)
            if self.clip is not None:
                g = clipped(client.xp, g, self.clip)
            if self.scale == "batch":
                w = w - step_size * move(g)
            elif self.linear:
                w = w - step_size * move(share * g)
            else:
                w = w - step_size * share * move(g)
            if isinstance(part, StandIn) and part.active is not None:  # some clients have taken all of their steps
                w = client.xp.where(part.active, w, before)
        return w


@dataclass(frozen=True)
class GradientSteps(Steps):
    """Gradient steps, each on all samples, or each on a batch of them.

    Args:
        steps: How many. Default 1.
        step_size: How far to go; None, the default, leaves the choice to the algorithm (1 / the largest of the clients'
            bounds on their smoothness).
        batch_size: Samples in a batch; None, the default, takes all of them in every step.
        epochs: Passes over all samples, which replace `steps`; the last batch of a pass may be smaller. None, the
            default, counts steps.
        batches: "shuffled", the default, draws them anew in every round; "fixed" draws a partition of the samples once,
            from the run's seed and the client's name, and takes its batches in turn, always in the same order; a round
            of fewer steps than batches begins where the last one ended; "independent" draws every sample of every batch
            from all of the client's samples, whatever was drawn before. Its gradients are unbiased in every step, given
            those before, as the theory of stochastic gradients asks; samples with weights are drawn in proportion to
            them. It counts `steps`.
        scale: "batch", the default, takes the mean gradient of a batch, as is usual; "client" multiplies each step by
            the batch's share of the client's samples, so that a pass over all of them is about as long as one step on
            all samples (Su et al. 2021, section 7.1).
        schedule: How the step size changes by round, such as `fs.Cosine(rounds=100)`; None, the default, not at all.
        clip: The largest norm of what a step is taken along, corrections and pull included: what is longer is made as
            short, as torch's `clip_grad_norm_` does. None, the default, does not clip.
    """

    def moves(self, xp: Namespace) -> Move:
        return lambda g: g

    def reach(self, client: Client) -> float | None:
        """As many gradients as steps; with `scale="client"`, the sum of the batches' shares; None where it clips."""
        shares = self.shares(client) if self.clip is None else None
        return None if shares is None else float(sum(shares))


def clipped(xp: Namespace, g: Array, most: float) -> Array:
    """A gradient, made shorter where its norm is above `most`; array code."""
    norm = xp.sqrt(xp.sum(g * g))
    one = xp.ones_like(norm)
    return g * (most * one / xp.where(norm > most, norm, most * one))


@dataclass(frozen=True)
class Momentum(Steps):
    """Heavy-ball steps v ← momentum · v + g, w ← w − step_size · v, from v = 0 in every round; or Nesterov's.

    Args:
        momentum: How much of the last step goes on, at least 0 and below 1. Default 0.9.
        nesterov: Whether w ← w − step_size · (g + momentum · v) instead. Default False.
        steps, step_size, batch_size, epochs, batches, scale, schedule, clip: As `GradientSteps` has them.
    """

    momentum: float = field(default=0.9, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum is at least 0 and below 1, got {self.momentum}")

    def moves(self, xp: Namespace) -> Move:
        v: Array = 0.0

        def move(g: Array) -> Array:
            nonlocal v
            v = self.momentum * v + g
            return g + self.momentum * v if self.nesterov else v

        return move

    def reach(self, client: Client) -> float | None:
        """Steps go on, so that early gradients count up to 1 / (1 − momentum) times: the way of gradients that are all
        1, times their shares; None where it clips."""
        shares, move = self.shares(client) if self.clip is None else None, self.moves(None)
        return None if shares is None else float(sum(move(share) for share in shares))


@dataclass(frozen=True)
class Adam(Steps):
    """Adam's steps (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015), its averages from zero in
    every round.

    A step is about `step_size` long in every coordinate whatever the gradient is, so with a constant step size a run
    ends about as far from a minimum: give it a schedule.

    Args:
        step_size: Default 0.001.
        beta1: How much of the mean of the gradients stays. Default 0.9.
        beta2: How much of the mean of their squares stays. Default 0.999.
        epsilon: Added to the root of the latter. Default 1e-8.
        steps, batch_size, epochs, batches, scale, schedule, clip: As `GradientSteps` has them.
    """

    step_size: float | None = 0.001
    beta1: float = field(default=0.9, kw_only=True)
    beta2: float = field(default=0.999, kw_only=True)
    epsilon: float = field(default=1e-8, kw_only=True)

    linear: ClassVar[bool] = False  # it divides by the size of the gradients: shares multiply what comes of that

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_size is None:
            raise ConfigError("Adam's step size does not follow from the smoothness: give it one, such as 0.001")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ConfigError(f"beta1 and beta2 are at least 0 and below 1, got {self.beta1} and {self.beta2}")
        positive("epsilon", self.epsilon)

    def moves(self, xp: Namespace) -> Move:
        m: Array = 0.0
        v: Array = 0.0
        step = 0

        def move(g: Array) -> Array:
            nonlocal m, v, step
            step += 1
            m = self.beta1 * m + (1 - self.beta1) * g
            v = self.beta2 * v + (1 - self.beta2) * (g * g)
            return (m / (1 - self.beta1**step)) / (xp.sqrt(v / (1 - self.beta2**step)) + self.epsilon)

        return move
