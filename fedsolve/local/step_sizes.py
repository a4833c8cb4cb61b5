"""The step size of local steps, at the server: where it begins, and what it is in a round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.local.base import LocalSolver
from fedsolve.local.gradient_steps import Steps


def safe_step(bounds: Iterable[float]) -> float:
    """1 / the largest of the clients' smoothness bounds: a step that none of them overshoots with."""
    steepest = max(bounds)
    if not 0 < steepest < float("inf"):
        raise ConfigError("this loss has no bound on its smoothness: give GradientSteps a step_size")
    return 1.0 / steepest


def first_step(fed: Federation, local: LocalSolver | None, smoothness: Callable[[Client], float]) -> float:
    """The step size to begin with: the solver's own, or 1 / the bound of the steepest client, which are asked for it.
    A solver that chooses its steps by itself (a linear system, an exact minimum) goes all the way: 1."""
    if not isinstance(local, Steps):
        return 1.0
    if local.step_size is not None:
        return local.step_size
    # Gathers one bound per client, because a step must suit the steepest of them and a maximum is no sum.
    return safe_step(fed.gather(smoothness).values())


def step_in_round(fed: Federation, local: LocalSolver | None, first: float, pull: float = 0.0) -> float:
    """The step size in this round, as the solver's schedule has it. One that was found from the smoothness is made
    shorter by the pull, which adds to it: 1 / (L + pull)."""
    if not isinstance(local, Steps):
        return first
    if pull and local.step_size is None:
        first = first / (1.0 + pull * first)
    return first if local.schedule is None else first * local.schedule.factor(fed.round)
