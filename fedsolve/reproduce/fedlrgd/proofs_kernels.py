"""Section II-C of Jadbabaie et al. (2023): spectra of kernels, and why matrices of samples can be inverted."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_waves import norm
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

SPECTRUM = Check("Section II-C", "the spectrum of a convolution is the Fourier transform of its kernel", "off", 1e-10)
DECAY = Check(
    "Section II-C", "kernels with k − 2 continuous derivatives, k = 2 to 6: Fourier decay of power −k", "off", 0.05
)
SERIES = Check(
    "Section II-C, (14)", "g_1 of Appendix A is its series of singular functions, 12 terms, at every point", "off", 1e-8
)
ZERO = Check("Section II-C, (14)", "… and its singular values tend to 0: the 12th over the first", "times", 1e-6)
MATRIX = Check("Section II-C, (15)", "G⁽ⁱ⁾ is Σ σ_j u_j v_jᵀ of the series at the samples", "off", 1e-8)
TERMS = AtLeast(
    "Section II-C, (15)",
    "r terms that are linearly independent: G of 4 terms has rank 4, least singular value over rounding",
    "times",
    unit="times rounding",
)
INVERSES = Check("Proof of Theorem 2, (59)", "‖X⁻¹ − Y⁻¹‖ ≤ ‖X⁻¹‖²‖X − Y‖/(1 − ‖X⁻¹‖‖X − Y‖), with both norms of X − Y")
IDENTITY = Check("Proof of Theorem 2, (59)", "X⁻¹ − Y⁻¹ = X⁻¹(Y − X)Y⁻¹, and the lines up to the bound", "off", 1e-9)
CHECKS = (SPECTRUM, DECAY, SERIES, ZERO, MATRIX, TERMS, INVERSES, IDENTITY)
POINTS = 60


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 37])
    return named({**_fourier(rng), **_series(rng), **_inverses(rng)})


def _fourier(rng: np.random.Generator) -> dict[Check, float]:
    values = rng.standard_normal(64)
    circulant = np.array([np.roll(values, k) for k in range(64)]).T
    found = np.sort(np.linalg.svd(circulant, compute_uv=False))
    off = float(np.abs(found - np.sort(np.abs(np.fft.fft(values)))).max())
    t, far = np.arange(4096) / 4096, 0.0
    bernoulli = {  # periodic continuations: the k-th has k − 2 continuous derivatives
        2: t**2 - t,
        3: t**3 - 1.5 * t**2 + 0.5 * t,
        4: t**4 - 2 * t**3 + t**2,
        6: t**6 - 3 * t**5 + 2.5 * t**4 - 0.5 * t**2,
    }
    for k, kernel in bernoulli.items():
        size = np.abs(np.fft.fft(kernel))
        far = max(far, abs(math.log2(size[32] / size[4]) / 3 + k))
    return {SPECTRUM: off, DECAY: far}


def _series(rng: np.random.Generator) -> dict[Check, float]:
    """g_1(x; θ), one input and labels ½: functions of x in [0, 1] and θ in [−1, 1], on Gauss's nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    x, theta = (nodes + 1) / 2, nodes
    roots = np.sqrt(weights)

    def entry(x: Array, theta: Array) -> Array:
        inputs = np.broadcast_to(x[:, None, None], (len(x), len(theta), 1))
        return gradient(inputs, np.full((len(x), len(theta)), 0.5), theta[None, :, None])[..., 0]

    left, sigma, right = np.linalg.svd(roots[:, None] * entry(x, theta) * roots)
    u, v = left[:, :12] / roots[:, None], right[:12].T / roots[:, None]

    def at(x_new: Array, theta_new: Array) -> Array:
        """Nyström's extension of both."""
        outer = (entry(x_new, theta) * weights) @ v / sigma[:12]
        inner = (entry(x, theta_new).T * weights) @ u / sigma[:12]
        kept = sigma[:12] > 1e-13 * sigma[0]
        return np.asarray((outer * np.where(kept, sigma[:12], 0)) @ inner.T)

    y, other = rng.random(20), rng.uniform(-1, 1, 20)
    whole = float(np.abs((u * sigma[:12]) @ v.T - entry(x, theta)).max())
    small = entry(y[:4], other[:4])
    scales = np.linalg.svd(small, compute_uv=False)
    return {
        SERIES: whole,
        ZERO: sigma[11] / sigma[0],
        MATRIX: np.abs(at(y, other) - entry(y, other)).max(),
        TERMS: scales[-1] / (np.finfo(float).eps * 4 * scales[0]),
    }


def _inverses(rng: np.random.Generator) -> dict[Check, float]:
    worst, off = 0.0, 0.0
    for _ in range(500):
        r = int(rng.integers(2, 9))
        X = rng.standard_normal((r, r))
        A = np.linalg.inv(X)
        step = rng.standard_normal((r, r))
        Y = X + step * (rng.uniform(0.01, 0.95) / (norm(A) * np.linalg.norm(step)))
        B = np.linalg.inv(Y)
        gap, far, full = norm(A - B), norm(X - Y), float(np.linalg.norm(X - Y))
        lines = [gap, norm(A) * norm(B) * far, norm(A) * (norm(B - A) + norm(A)) * far]
        lines.append(norm(A) ** 2 * far + norm(A) * norm(B - A) * far)
        ends = [norm(A) ** 2 * one / (1 - norm(A) * one) for one in (far, full)]
        worst = max(worst, gap / ends[0], ends[0] / ends[1])
        over = max(one / other - 1 for one, other in pairwise(lines))
        off = max(off, norm(A - B - A @ (Y - X) @ B) / (norm(A) * norm(B)), over)
    return {INVERSES: worst, IDENTITY: off}
