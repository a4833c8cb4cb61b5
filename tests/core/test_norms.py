"""The spectral norm from above: never below, and not far above."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsolve.numerics import spectral_norm as norms
from fedsolve.numerics.spectral_norm import spectral_norm


def packed(A: np.ndarray) -> np.ndarray:
    return A[np.triu_indices(len(A))]


def check(A: np.ndarray, slack: float = 0.0) -> float:
    exact = float(np.abs(np.linalg.eigvalsh(A)).max(initial=0.0))
    found = spectral_norm(packed(A), len(A), float(np.linalg.norm(A)), slack)
    assert found >= exact * (1 - 1e-12)
    assert found <= exact + max(norms.TOLERANCE * exact, slack) + 1e-12 * exact
    return found / exact if exact else 1.0


@given(st.integers(0, 2**32), st.sampled_from([3, 33, 60]), st.floats(0.05, 3.0), st.booleans())
def test_it_is_between_the_norm_and_a_little_more(seed: int, n: int, decay: float, definite: bool) -> None:
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.exp(-decay * np.arange(n)) * (1.0 if definite else rng.choice([-1.0, 1.0], n))
    A = (Q * values) @ Q.T
    check((A + A.T) / 2)


@pytest.mark.parametrize("n", [1, 32, 33, 80])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: np.eye(n),
        lambda n: np.ones((n, n)),
        lambda n: np.diag(np.where(np.arange(n) % 2, 1.0, -1.0)),
        lambda n: np.diag(np.append(np.zeros(n - 1), 3.0)) - 3.0 / n,
        lambda n: np.zeros((n, n)),
        lambda n: 1e-120 * np.outer(np.arange(n), np.arange(n)),
        lambda n: np.subtract.outer(np.arange(n), np.arange(n)) ** 2.0,
        # The start of the power method, a vector of ones, is an eigenvector, of a small eigenvalue.
        lambda n: np.ones((n, n)) / n + 9.0 * np.outer(np.cos(np.pi * np.arange(n)), np.cos(np.pi * np.arange(n))),
    ],
)
def test_special_matrices(n: int, make) -> None:
    check(make(n))


def test_a_block_that_ones_cannot_see() -> None:
    """Rows that sum to zero: the power method's first product is nothing."""
    v = np.tile([1.0, -1.0], 20)
    check(np.outer(v, v))


def test_the_cheap_proofs_are_what_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one eigenvalue has most of the norm the eigenvalues are not computed; where none has, they are."""
    rng = np.random.default_rng(0)
    B = rng.standard_normal((60, 60))
    v = rng.random(60)
    spread = B + B.T
    dominated = np.outer(v, v) + 0.01 * spread
    monkeypatch.setattr(np.linalg, "eigvalsh", None)
    exact = float(np.abs(np.linalg.eigh(dominated)[0]).max())
    assert exact <= spectral_norm(packed(dominated), 60, float(np.linalg.norm(dominated))) <= 1.05 * exact
    with pytest.raises(TypeError):
        spectral_norm(packed(spread), 60, float(np.linalg.norm(spread)))
    frobenius = float(np.linalg.norm(spread))
    assert spectral_norm(packed(spread), 60, frobenius, slack=10 * frobenius) <= frobenius * (1 + 1e-12)


@pytest.mark.parametrize("n", [4, 40])
def test_what_is_not_finite_is_said(n: int) -> None:
    A = np.full((n, n), np.nan)
    assert np.isnan(spectral_norm(packed(A), n, float(np.linalg.norm(A))))
