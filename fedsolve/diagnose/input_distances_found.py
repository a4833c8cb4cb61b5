"""What was found of the distances between the clients' inputs, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.federation.ledger import Ledger

ROUNDING = 1e-9  # where the rows of a client are all the same, errors are 0
SURE = 3.0  # standard errors from which on a client's inputs are called others


@dataclass(frozen=True)
class InputDistances:
    """By client, lower bounds of TV(α, α_i) and W_1(α, α_i), each with its standard error.

    They are about the distributions that the rows were drawn from. The bounds are estimated without bias, so those of
    clients with equal distributions are about 0, above or below, by chance. How far the true distance is above its
    bound is not known: a difference that shows in no single direction of the inputs is not seen.

    left_out      clients with fewer than 20 rows (by weight): not in α, and not in the means
    standardised  whether W_1 is in standard deviations of the columns; otherwise it is in their units
    """

    tv: dict[str, float]
    tv_error: dict[str, float]
    w1: dict[str, float]
    w1_error: dict[str, float]
    left_out: tuple[str, ...]
    standardised: bool
    ledger: Ledger

    @property
    def omega_tv(self) -> float:
        """The mean of the bounds of TV(α, α_i): a lower bound of ω_TV (Shen et al., equation 12), not below 0."""
        return max(_mean(self.tv), 0.0)

    @property
    def omega_tv_error(self) -> float:
        """At least the standard error of the mean: the mean of the clients' standard errors."""
        return _mean(self.tv_error)

    @property
    def omega_w1(self) -> float:
        """The mean of the bounds of W_1(α, α_i): a lower bound of ω_W1 (equation 16), not below 0."""
        return max(_mean(self.w1), 0.0)

    @property
    def omega_w1_error(self) -> float:
        """At least the standard error of the mean: the mean of the clients' standard errors."""
        return _mean(self.w1_error)

    @property
    def apart(self) -> tuple[str, ...]:
        """The clients whose inputs are others than those of all, by more than three standard errors."""
        return tuple(
            name
            for name in self.tv
            if self.tv[name] > SURE * self.tv_error[name] + ROUNDING
            or self.w1[name] > SURE * self.w1_error[name] + ROUNDING
        )

    def sentence(self) -> str:
        """What follows, in a sentence. It does not begin with a client's name, which has no other spelling."""
        units = "in standard deviations of the columns" if self.standardised else "in the units of the columns"
        said = (
            f"of the distributions of the inputs ω_TV is at least {self.omega_tv:.2g} ± {self.omega_tv_error:.1g} and "
            f"ω_W1 at least {self.omega_w1:.2g} ± {self.omega_w1_error:.1g}, {units}"
        )
        if not self.apart:
            said += ": no sign that inputs differ"
        else:
            worst = max(self.apart, key=lambda name: self.tv[name])
            said += f", and {worst} differs most: FFGB may end off the minimum, the further the larger these are"
        if self.left_out:
            said += f" ({', '.join(self.left_out)} left out, with fewer than 20 rows)"
        return said


def _mean(values: dict[str, float]) -> float:
    return float(np.mean(list(values.values())))
