"""How long an epoch takes on average, in the time of one gradient (Jadbabaie et al., section II-D).

A gradient takes 1 + X, with X exponential of rate 1; what clients send waits in one queue at the server. Definition 1
keeps the orders of these times. Equation (19) rests on the estimate (18) of a quantile, log k + b, which is too small
where many gradients are computed: for b = 100 and 20 clients the slowest takes 219.6 on average, and (21) says 203.
"""

from __future__ import annotations

import math
from typing import Literal

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import at_least_zero, whole

Kind = Literal["A", "B", "C"]


def computation_time(gradients: float, active: int | None) -> float:
    """The expected time in which b gradients are computed (equation 21): 2b + log(τm) by each of τm active clients,
    2b by the server.

    Args:
        gradients: b, of each client or of the server.
        active: τm, how many clients compute; None for the server.
    """
    b = at_least_zero("gradients", gradients)
    return 2 * b if active is None else 2 * b + math.log(whole("active", active, 1))


def communication_time(active: float, phi: float) -> float:
    """The expected time in which τm clients send a vector each, φτm (equation 24).

    Args:
        active: τm.
        phi: φ, the time to send a vector of p numbers over the time to compute a gradient.
    """
    return at_least_zero("phi", phi) * at_least_zero("active", active)


def epoch_time(kind: Kind, gradients: float, active: int, phi: float) -> float:
    """The expected time of an epoch (equation 25).

    Args:
        kind: "A": clients compute and send. "B": the server computes. "C": clients send what they have.
        gradients: b; 0 in an epoch of kind C.
        active: τm.
        phi: φ.
    """
    if kind not in ("A", "B", "C"):
        raise ConfigError(f"an epoch is of kind 'A', 'B' or 'C', got {kind!r}")
    if kind == "C" and gradients:
        raise ConfigError(f"no gradient is computed in an epoch of kind 'C', got {gradients!r}: is it of kind 'A'?")
    if kind == "B":
        return computation_time(gradients, None)
    computing = computation_time(gradients, active) if kind == "A" else 0.0
    return computing + communication_time(active, phi)
