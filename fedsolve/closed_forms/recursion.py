"""Kernel FedAvg and FedProx without local steps: f_t(x) = [I − ηK_x P] f_{t−1}(x) + ηK_x P y.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (section 5, Proposition 3)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

K_x = K/N is the paper's normalised kernel matrix; the functions take K itself, of all rows, client after client. P is
block diagonal, P_ii = p(K_ii/n_i) with p of `methods` (equation 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.client_rows import ROUNDING
from fedsolve.closed_forms.kernel_simulation import checked, checked_targets, starting_values
from fedsolve.closed_forms.methods import Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import at_least_zero, whole
from fedsolve.typing import Array


def local_blocks(K: Array, sizes: Sequence[int], method: Method) -> tuple[Array, ...]:
    """P_ii of each client (Su et al., equation 12)."""
    spectra = [(method.filter(values), vectors) for values, vectors in _local_spectra(K, sizes)]
    if not all(np.isfinite(filters).all() for filters, _ in spectra):
        raise ConfigError(f"{method} diverges here beyond all numbers; shorten the step size")
    return tuple(_of_spectrum(vectors, filters) for filters, vectors in spectra)


def P_matrix(K: Array, sizes: Sequence[int], method: Method) -> Array:
    """P, with the blocks P_ii on its diagonal (Su et al., Lemma 2)."""
    return _on_diagonal(local_blocks(K, sizes, method))


def psi(K: Array, sizes: Sequence[int], method: Method, K_new: Array) -> Array:
    """Ψ(z) = (η/N) P k_x(z), a row for each of m points z (Su et al., Lemma 2).

    Args:
        K: k(x_i, x_j) for all rows.
        sizes: How many rows each client has.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        K_new: k(z, x_j), (m, N); K itself gives Ψ(x) = ηK_x P.
    """
    K_new = np.asarray(K_new, dtype=np.float64)
    if K_new.ndim != 2 or K_new.shape[1] != len(K):
        raise DataError(f"K_new has k(z, x_j) for all {len(K)} rows x_j, a row for each z; got shape {K_new.shape}")
    return method.step_size / len(K) * (K_new @ P_matrix(K, sizes, method))


def gamma(K: Array, sizes: Sequence[int], step_size: float) -> float:
    """γ = η max_i ‖K_ii/n_i‖ (Su et al., section 5): FedAvg is stable where it is below 1."""
    return step_size * max(float(values[-1]) for values, _ in _local_spectra(K, sizes))


def recursion(
    K: Array, sizes: Sequence[int], y: Array, method: Method, rounds: int, start: Array | None = None
) -> Array:
    """f_t at the rows for t = 0, …, T by Proposition 3.

    Args:
        K: k(x_i, x_j) for all rows, client after client.
        sizes: How many rows each client has.
        y: Targets, (N,) or (N, q).
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        rounds: T.
        start: f_0 at the rows; default 0.

    Returns:
        Of shape (T + 1, N) or (T + 1, N, q).
    """
    K, y, _ = checked(K, sizes, y)
    step = psi(K, sizes, method, K)
    path = np.empty((whole("rounds", rounds, 0) + 1, *y.shape))
    path[0] = starting_values(start, y)
    for t in range(1, rounds + 1):
        path[t] = path[t - 1] + step @ (y - path[t - 1])
    return path


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The eigenvalues of K_x and K_x P, and f_t for any t without a loop (Su et al., equations 40 and 41).

    K_x P = V Λ V⁻¹ with V = P^(−½) U, where P^½ K_x P^½ = U Λ Uᵀ. Make it with `Decomposition.of`.

    Attributes:
        method: The method it is of.
        kernel_eigenvalues: λ, of K_x, the largest first.
        eigenvalues: Λ, of K_x P, the largest first.
        vectors: V, in the same order.
        inverse: V⁻¹.
        gamma: γ = η max_i ‖K_ii/n_i‖.
    """

    method: Method
    kernel_eigenvalues: Array
    eigenvalues: Array
    vectors: Array
    inverse: Array
    gamma: float

    @classmethod
    def of(cls, K: Array, sizes: Sequence[int], method: Method) -> Decomposition:
        """Decompose K_x P. Raises ConfigError unless P is positive definite: with γ < 1 it always is. Raises DataError
        unless K is positive semidefinite."""
        K, _, _ = checked(K, sizes)
        spectra = _local_spectra(K, sizes)
        filters = [method.filter(values) for values, _ in spectra]
        steepest = method.step_size * max(float(values[-1]) for values, _ in spectra)
        if not all(float(one.min()) > 0 and np.isfinite(one).all() for one in filters):
            raise ConfigError(
                f"P is not positive definite: γ = {steepest:.3g}, expected below 1; shorten the step size"
            )
        pairs = [(vectors, np.sqrt(one)) for (_, vectors), one in zip(spectra, filters, strict=True)]
        root = _on_diagonal([_of_spectrum(vectors, one) for vectors, one in pairs])
        inverse_root = _on_diagonal([_of_spectrum(vectors, 1 / one) for vectors, one in pairs])
        middle = root @ (K / len(K)) @ root
        values, U = np.linalg.eigh((middle + middle.T) / 2)
        lam = _not_negative(np.linalg.eigvalsh(K / len(K)))[::-1]
        U = U[:, ::-1]
        return cls(method, lam, values[::-1], inverse_root @ U, U.T @ root, steepest)

    @property
    def samples(self) -> int:
        """N."""
        return len(self.eigenvalues)

    @property
    def kappa(self) -> float:
        """κ, the bound on the condition number of P (Su et al., equation 14)."""
        return self.method.kappa(self.gamma)

    @property
    def decay(self) -> Array:
        """The eigenvalues of I − ηK_x P."""
        return 1 - self.method.step_size * self.eigenvalues

    def values(self, y: Array, t: int, start: Array | None = None) -> Array:
        """f_t at the rows: y + L^t (f_0 − y), with L = I − ηK_x P."""
        y = checked_targets(y, self.samples)
        return y + self._after(self.decay ** whole("t", t, 0), starting_values(start, y) - y)

    def limit(self, y: Array, start: Array | None = None) -> Array:
        """f_∞ at the rows: y, but f_0 where the kernel cannot reach. Raises ConfigError if there is no limit."""
        y = checked_targets(y, self.samples)
        if self.decay.min() <= -1:
            raise ConfigError(f"{self.method} diverges on this kernel; shorten the step size")
        still = self.eigenvalues <= ROUNDING * self.samples * self.eigenvalues[0]
        return y + self._after(still.astype(float), starting_values(start, y) - y)

    def expected_error(
        self,
        t: int | Array,
        truth: Array,
        *,
        sigma: float,
        target: Array | None = None,
        start: Array | None = None,
    ) -> Array:
        """E‖f_t − f‖²_N over the noise, exactly (from equation 44), where Proposition 7 has a bound.

        Args:
            t: A round, or an array of rounds.
            truth: f_i*(x_ij) at the rows, (N,) or (N, q).
            sigma: The standard deviation of the noise, which is independent, also between outputs.
            target: f at the rows; default the truth, which then is one function for all.
            start: f_0 at the rows; default 0.

        Returns:
            A number for each round; with several outputs the sum over them.
        """
        truth = checked_targets(truth, self.samples)
        first = starting_values(start, truth) - truth
        apart = np.zeros(truth.shape) if target is None else truth - checked_targets(target, self.samples, truth.shape)
        rounds = [whole("t", one, 0) for one in np.ravel(np.asarray(t))]
        decays = self.decay[:, None] ** np.array(rounds, dtype=np.float64)
        first, apart = first.reshape(self.samples, -1), apart.reshape(self.samples, -1)
        found = first.shape[1] * at_least_zero("sigma", sigma) ** 2 * self._noise(decays)
        for along, away in zip(first.T, apart.T, strict=True):
            bias = away[:, None] + self.vectors @ (decays * (self.inverse @ along)[:, None])
            found = found + np.square(bias).sum(axis=0)
        return found / self.samples if np.ndim(t) else found[0] / self.samples

    def _noise(self, decays: Array) -> Array:
        """‖I − L^t‖_F² = Σ over the variances of f_t at the rows, for noise of variance 1."""
        # ‖V D V⁻¹‖_F² = dᵀ (VᵀV ∘ V⁻¹V⁻ᵀ) d for a diagonal D
        quadratic = (self.vectors.T @ self.vectors) * (self.inverse @ self.inverse.T)
        return np.asarray(np.sum((1 - decays) * (quadratic @ (1 - decays)), axis=0))

    def _after(self, decays: Array, difference: Array) -> Array:
        moved = self.inverse @ difference
        return self.vectors @ (decays * moved if moved.ndim == 1 else decays[:, None] * moved)


def _local_spectra(K: Array, sizes: Sequence[int]) -> list[tuple[Array, Array]]:
    """The eigenvalues and eigenvectors of each client's K_ii/n_i."""
    K, _, blocks = checked(K, sizes)
    spectra = [np.linalg.eigh(K[block, block] / (block.stop - block.start)) for block in blocks]
    return [(_not_negative(values), vectors) for values, vectors in spectra]


def _not_negative(values: Array) -> Array:
    """The eigenvalues of a kernel matrix, without what rounding made negative. Raises DataError if others are."""
    if values.min() < -1e-8 * np.abs(values).max():
        raise DataError(f"K is not positive semidefinite, so it is no kernel matrix: an eigenvalue is {values.min():g}")
    return np.maximum(values, 0.0)


def _of_spectrum(vectors: Array, values: Array) -> Array:
    return (vectors * values) @ vectors.T


def _on_diagonal(blocks: Sequence[Array]) -> Array:
    total = sum(len(one) for one in blocks)
    made = np.zeros((total, total))
    start = 0
    for one in blocks:
        made[start : start + len(one), start : start + len(one)] = one
        start += len(one)
    return made
