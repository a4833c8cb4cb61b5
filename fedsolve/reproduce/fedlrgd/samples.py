"""Jadbabaie et al. (2023), (36): the gradient of one sample as a combination of the server's, where nothing cancels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

RANK, SAMPLES, MODELS, DRAWS = 5, 40, 30, 20
MOST = 0.05  # of the largest |g_i|, as for the sum (33)
SAMPLE = Check(
    "(36)", "the gradient of one sample differs from its combination by at most 5 %, median of 20 draws", "off", MOST
)
SINGULAR = Check("(36)", "… draws of 20 in which it differs by more: at most a quarter", "failures", 0.25)
REGULAR = Check(
    "(36)", "… and of the 10 draws whose matrix of the server's gradients is conditioned best", "failures", 0.25
)
CHECKS = (SAMPLE, SINGULAR, REGULAR)


@dataclass(frozen=True)
class Draw:
    """error      the largest over samples and θ, as a share of the largest |g_i|
    at_probes  the same at the probes, where (37) asks for equality
    condition  number of the server's gradients at the probes
    """

    error: float
    at_probes: float
    condition: float


def draw(rng: np.random.Generator) -> Draw:
    """The logistic loss of Appendix A, p = 2, i = 1: r samples and r probes, then other samples at other θ."""
    own, x = (rng.random((RANK, 2)), rng.random(RANK)), (rng.random((SAMPLES, 2)), rng.random(SAMPLES))
    probes, theta = rng.uniform(-1, 1, (RANK, 2)), rng.uniform(-1, 1, (MODELS, 2))

    def g(rows: tuple[Array, Array], at: Array) -> Array:
        return gradient(rows[0][:, None], rows[1][:, None], at[None])[..., 0]

    w = np.linalg.solve(g(own, probes).T, g(x, probes).T).T  # (38)
    size = np.abs(g(x, theta)).max()
    off = [float(np.abs(w @ g(own, at) - g(x, at)).max() / size) for at in (theta, probes)]
    return Draw(off[0], off[1], float(np.linalg.cond(g(own, probes))))


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 36])
    draws = sorted((draw(rng) for _ in range(DRAWS)), key=lambda one: one.condition)
    missed = [one.error > MOST for one in draws]
    return named(
        {
            SAMPLE: float(np.median([one.error for one in draws])),
            SINGULAR: float(np.mean(missed)),
            REGULAR: float(np.mean(missed[: DRAWS // 2])),
        }
    )


@experiment(
    "fedlrgd-samples",
    paper="FedLRGD",
    place="Section III-B, (36)",
    title="The gradient of one sample from those of the server",
    takes="1 s",
)
def samples(seeds: Seeds, quick: bool) -> Result:
    """The largest error of one sample, and in how many draws the server's gradients are nearly dependent."""
    return checked(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"r = {RANK}, p = 2, {SAMPLES} samples and {MODELS} θ in each of {DRAWS} draws. Errors are shares of the "
            "largest |g_i|; the number of a draw is its worst sample at its worst θ.",
            "Assumption 5 leaves out draws whose matrix is nearly singular; here they are counted.",
        ),
        quick,
    )
