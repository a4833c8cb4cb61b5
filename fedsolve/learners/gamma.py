"""How good a weak learner is: the γ of the weak learning conditions."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


def gamma(
    target: Array, fitted: Array, weight: Array | None = None, norm: Literal["squares", "largest"] = "squares"
) -> float:
    """The largest γ with ‖h − φ‖ ≤ (1 − γ) ‖φ‖, for a target φ and what a learner made of it, at a client's rows.

    norm  "squares", over the weighted rows (Shen et al. 2022, equation 5), or "largest", over the rows with a weight
          above 0 (equation 10)

    1 is a perfect fit; 0 or less is no weak learner in this norm. A target of zero that is fitted by zero has γ = 1.
    """
    if norm not in ("squares", "largest"):
        raise ConfigError(f'norm is "squares" or "largest", got {norm!r}')
    phi, h = (np.asarray(to_numpy(each), dtype=np.float64) for each in (target, fitted))
    if phi.shape != h.shape:
        raise ConfigError(f"target and fit have a number for each row and output, got {phi.shape} and {h.shape}")
    s = np.ones(len(phi)) if weight is None else np.asarray(to_numpy(weight), dtype=np.float64)
    left, whole = (_norm(each.reshape(len(s), -1), s, norm) for each in (h - phi, phi))
    if not whole > 0:
        return 1.0 if not left > 0 else -np.inf
    return float(1.0 - left / whole)


def _norm(values: Array, s: Array, norm: str) -> float:
    squares = np.sum(values**2, axis=1)
    return float(np.sqrt(s @ squares / s.sum() if norm == "squares" else squares[s > 0].max()))
