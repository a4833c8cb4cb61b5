"""Section II-D of Jadbabaie et al. (2023): the auxiliary function of (16) far out, and running times beside Γ."""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.remarks_times import departures
from fedsolve.reproduce.fedlrgd.theory_times import auxiliary
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

FLAT = Check("Section II-D, (16)", "|a′(x)| is at most 1.2 (b − 1)/x², x ≥ 20b, so that a′ tends to 0", "times", 1.2)
SLOWER = Check(
    "Definition 1", "simulated times of FedAve and Algorithm 1 over Γ, φ = 1 and 100: at most 3", "times", 3.0
)
FASTER = AtLeast("Definition 1", "… and at least 0.9", "times", 0.9, unit="times Γ")
CHECKS = (FLAT, SLOWER, FASTER)
RUNS, EPOCHS = 100, 5  # simulated; of FedAve
RANK, SAMPLES, STEPS = 5, 50, 20  # r, s and S of Algorithm 1


def measured(seed: int) -> dict[str, float]:
    ratios = _running(np.random.default_rng([seed, 74]))
    return named({FLAT: _flat(), SLOWER: max(ratios), FASTER: min(ratios)})


def _flat() -> float:
    """Of b = 1, where a is 1, the slope is 0."""
    if any(auxiliary(1, x) != 1 for x in (20.0, 1e4)):
        return float("nan")
    worst = 0.0
    for b, far in product((2, 5, 20, 100), (20.0, 100.0, 1e4)):
        x = far * b
        slope = (auxiliary(b, 1.001 * x) - auxiliary(b, 0.999 * x)) / (0.002 * x)
        worst = max(worst, abs(slope) * x**2 / (b - 1))
    return worst


def _running(rng: np.random.Generator) -> list[float]:
    """The mean time of so many runs over Γ: gradients of 1 + exponential time each, messages through the queue."""
    found = []
    for active, phi in product((20, 200), (1.0, 100.0)):
        for b in (1, 10, 100):
            times = _clients(rng, b, active, EPOCHS) + phi * _messages(rng, active, EPOCHS)
            found.append(float(times.mean()) / (EPOCHS * (b + phi * active)))
        own = sum(b + rng.gamma(b, size=RUNS) for b in (RANK**2, RANK * STEPS))  # epochs 1 and r + 2
        times = own + _clients(rng, RANK * SAMPLES, active, 1) + phi * _messages(rng, active, RANK)
        gamma = RANK**2 + RANK * SAMPLES + RANK * STEPS + phi * active * RANK
        found.append(float(times.mean()) / gamma)
    return found


def _clients(rng: np.random.Generator, b: int, active: int, epochs: int) -> Array:
    """So many epochs, each as long as its slowest client takes for b gradients."""
    return np.asarray((b + rng.gamma(b, size=(RUNS, epochs, active)).max(axis=2)).sum(axis=1))


def _messages(rng: np.random.Generator, active: int, epochs: int) -> Array:
    """So many epochs, each until all updates have arrived."""
    return departures(rng, RUNS * epochs, active)[:, -1].reshape(RUNS, epochs).sum(axis=1)
