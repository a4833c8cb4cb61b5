"""Step sizes of functional gradient steps, and what they leave of the function before them."""

from __future__ import annotations

import math
from typing import Literal

from fedsolve.errors import ConfigError

Rule = Literal["theorem 4.1", "theorem 4.3", "theorem 4.4"]

_NUMERATORS = {"theorem 4.1": 4.0, "theorem 4.3": 2.0, "theorem 4.4": 4.0}


def check_rate(step_size: float | Rule, tikhonov: float) -> None:
    """Raise ConfigError for what is no step size, or a rule that needs a Tikhonov term where there is none."""
    if not (isinstance(tikhonov, int | float) and math.isfinite(tikhonov) and tikhonov >= 0):
        raise ConfigError(f"tikhonov is a finite number of at least 0, got {tikhonov!r}")
    if isinstance(step_size, str):
        if step_size not in _NUMERATORS:
            raise ConfigError(f"step_size is a positive number or one of {', '.join(_NUMERATORS)}, got {step_size!r}")
        if not tikhonov:
            raise ConfigError(
                f"the step size of {step_size} is {_NUMERATORS[step_size]:g}/(μ(tK + k + 1)), which needs "
                "tikhonov = μ > 0; give one, or a number as step_size"
            )
    elif isinstance(step_size, bool) or not (math.isfinite(step_size) and step_size > 0):
        raise ConfigError(f"step_size is a positive number or the name of a theorem, got {step_size!r}")


def rates(step_size: float | Rule, tikhonov: float, t: int, steps: int) -> list[tuple[float, float]]:
    """η^{k,t} and 1 − μη^{k,t} for k = 1 … K in round t = 0, 1, …

    By a rule, 1 − μη is 1 − 4/(tK + k + 1) or 1 − 2/(tK + k + 1), without the rounding of μ · (1/μ): it is exactly 0 in
    the first step of Theorem 4.3, which erases the past.
    """
    if not isinstance(step_size, str):
        return [(float(step_size), 1.0 - tikhonov * step_size)] * steps
    shares = [_NUMERATORS[step_size] / (t * steps + k + 1) for k in range(1, steps + 1)]
    return [(share / tikhonov, 1.0 - share) for share in shares]


def coefficients(rates: list[tuple[float, float]]) -> tuple[float, list[float]]:
    """Π_k (1 − μη_k), and −η_k Π_{l>k} (1 − μη_l) of each step: what K steps leave of f and add of each h."""
    left, found = 1.0, []
    for eta, keeps in reversed(rates):
        found.append(-eta * left)
        left *= keeps
    return left, found[::-1]
