"""How clients differ in their data and in their models, and how rich the data is (FedNewton, section 4.1).

    Δ_Dj = ‖C − C_j‖                   data heterogeneity; C_j = Σ_i s_i φ_i φ_iᵀ / Σ_i s_i, C = Σ p_j C_j
    ‖w_j − w‖_H                        model heterogeneity: the local fit against the pooled one
    N(λ) = tr(C (C + λI)⁻¹), N_j(λ)    effective dimensions

All of samples, where the paper has distributions: Δ_Dj includes what sampling alone makes of equal distributions.

With many features C is not formed: a Nyström sketch Y (QᵀY)⁻¹ Yᵀ of it, Y = CQ, takes its place. It is below C, so that
the trace of what is missing bounds the error of everything computed from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from fedsolve.algorithms import Newton
from fedsolve.diagnose.opened import Clients, opened, since
from fedsolve.diagnose.theory import effective_dimension
from fedsolve.errors import DataError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.losses import LinearLoss
from fedsolve.numerics.design import Design
from fedsolve.numerics.linalg import like, norm, to_numpy
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_finite, require_shape, require_symmetric
from fedsolve.wire.messages import Purpose

MOST_ROUNDS = 50  # of Newton's method, to the pooled solution
ALIKE, FAR = 0.1, 0.3  # of ‖C‖, of ‖w‖_H: from where on a client's inputs, or its fit, are called others


@dataclass(frozen=True)
class Heterogeneities:
    """By client, what it differs by; `scale` and `model_scale` are what to hold it against.

    data, scale               ‖C − C_j‖ and ‖C‖, each to within `data_error` (0: exact)
    model, model_scale        ‖w_j − w‖_H and ‖w‖_H, infinite for a client whose own fit has no minimiser; None where
                              there are too many features for Hessians, or the pooled loss has no minimiser
    dimension                 N(λ) of all, at most `dimension_error` too low (0: exact)
    dimensions                N_j(λ); None where neither samples nor features are few enough
    rank                      tr C / ‖C‖, in how many directions the inputs vary as much as in the first
    """

    data: dict[str, float]
    scale: float
    data_error: float
    model: dict[str, float] | None
    model_scale: float | None
    dimension: float
    dimension_error: float
    dimensions: dict[str, float | None]
    samples: dict[str, int]
    rank: float
    ledger: Ledger

    def by_chance(self, name: str) -> float:
        """About what ‖C − C_j‖ / ‖C‖ would be if this client's samples were drawn from what all have together: the
        largest for Gaussian inputs, 2√(r/n) + r/n with r = tr C / ‖C‖ (exact where they vary alike in r directions)."""
        share = self.rank / self.samples[name]
        return 2 * math.sqrt(share) + share

    @property
    def sees_all(self) -> bool:
        """Whether the smallest client has samples enough for the effective dimensions."""
        return min(self.samples.values()) > 2 * (self.dimension + self.dimension_error)

    @property
    def fits_differ(self) -> bool:
        """Whether some client's own fit is far from the pooled one, or does not exist."""
        if self.model is None or self.model_scale is None:
            return False
        return any(distance > FAR * self.model_scale for distance in self.model.values())

    def sentences(self) -> dict[str, str]:
        """What follows from each, in a sentence. None begins with a client's name, which has no other spelling."""
        said = {"data": self._data_sentence(), "model": self._model_sentence()}
        most = f"{self.dimension:.3g}"
        if self.dimension_error > 0.01 * self.dimension:
            most += f" to {self.dimension + self.dimension_error:.3g}"
        fewest = min(self.samples, key=lambda name: self.samples[name])
        said["dimension"] = f"the data has about {most} effective dimensions, and the smallest client, {fewest}, " + (
            f"{self.samples[fewest]:,} samples: "
            + (
                "enough to see them all"
                if self.sees_all
                else "too few to see them all, and its Hessian is not the pool's"
            )
        )
        return said

    def _data_sentence(self) -> str:
        shares = {name: apart / self.scale if self.scale else 0.0 for name, apart in self.data.items()}
        worst = max(shares, key=lambda name: shares[name])
        said = f"in its inputs {worst} differs most from all together: ‖C − C_j‖ is {shares[worst]:.2g} of ‖C‖"
        if shares[worst] <= ALIKE:
            return f"{said}: inputs are much alike"
        beyond = [name for name, share in shares.items() if share > max(ALIKE, self.by_chance(name))]
        if not beyond:
            chance = (
                f"chance can make up to about {self.by_chance(worst):.2g} with {self.samples[worst]:,} Gaussian samples"
            )
            return f"{said}, and {chance} of one distribution: no sign that inputs are not alike"
        who = max(beyond, key=lambda name: shares[name] / self.by_chance(name))
        chance = f"where chance makes up to about {self.by_chance(who):.2g} with {self.samples[who]:,} Gaussian samples"
        if who != worst:
            said += f"; for {who} it is {shares[who]:.2g}"
        return f"{said}, {chance} of one distribution: inputs are not alike"

    def _model_sentence(self) -> str:
        if self.model is None or self.model_scale is None:
            return "local fits were not compared: too many features, or no pooled fit"
        lost = [name for name, distance in self.model.items() if not math.isfinite(distance)]
        if lost:
            return f"alone, {', '.join(lost)} cannot fit a model (no finite minimiser), and needs the others"
        worst, distance = max(self.model.items(), key=lambda item: item[1])
        share = distance / self.model_scale if self.model_scale else 0.0
        what = (
            "averaging local fits (DKRR) loses much" if self.fits_differ else "local fits are close to the pooled one"
        )
        return (
            f"of all own fits that of {worst} is the farthest from the pooled one, by {share:.2g} of its norm: {what}"
        )


@dataclass(frozen=True)
class Heterogeneity:
    """Sums for what is pooled; one number per client for what is said of it.

    most    so many features (and entries of w) at most for matrices; beyond, a sketch of rank `rank`, drawn by `seed`
    """

    loss: LinearLoss
    most: int = 2048
    rank: int = 128
    seed: int = 0
    solver: Newton | None = None

    purpose: ClassVar[Purpose] = "setup"
    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})
    supports: ClassVar[frozenset[str]] = frozenset({"l1"})

    def __post_init__(self) -> None:
        smooth = replace(self.loss, l1=0.0) if self.loss.l1 else self.loss
        object.__setattr__(self, "loss", smooth)
        object.__setattr__(self, "solver", self.solver or Newton(smooth))

    # ── clients ──

    @client_step
    def covariance(self, client: Client) -> Symmetric:
        return self._covariance(client)

    @client_step
    def compare(self, client: Client, C: Symmetric) -> tuple[float, float | None]:
        own = to_numpy(self._covariance(client).full())
        require_symmetric("C", C, own.shape[0])
        difference = to_numpy(C.full()) - own
        return _operator_norm(difference), effective_dimension(_eigenvalues(own), self.loss.l2)

    @client_step
    def distance(self, client: Client, w: Array, H: Symmetric) -> float:
        self.loss.check_weights(client, w=w)
        require_symmetric("H", H, w.shape[0] if self.loss.separable else math.prod(w.shape))
        try:
            apart = to_numpy(self.loss.minimise(client) - w)
        except DataError:
            return math.inf
        return _energy(apart, to_numpy(H.full()))

    @client_step
    def products(self, client: Client, V: Array) -> tuple[float, Array]:
        """tr C_j and C_j V, without C_j."""
        design = self._design(client)
        require_shape("V", V, design.shape[1], range(1, design.shape[1] + 1))
        return client.cached((self.loss, "trace"), lambda: _trace(client, design)), _product(client, design, V)

    @client_step
    def compare_sketch(self, client: Client, vectors: Array, values: Array) -> tuple[float, float | None]:
        design = self._design(client)
        p = design.shape[1]
        require_shape("vectors", vectors, p, range(p + 1))
        require_shape("values", values, vectors.shape[1])
        vectors, values = to_numpy(vectors), to_numpy(values)
        require_finite("vectors", vectors)
        require_finite("values", values)

        def apply(v: Array) -> Array:
            v = v.reshape(-1)
            return vectors @ (values * (vectors.T @ v)) - to_numpy(_product(client, design, like(v, client.y)))

        operator = LinearOperator((p, p), matvec=apply, dtype=np.float64)
        return _extreme(operator, p), self._few_samples(client)

    def _design(self, client: Client) -> Design:
        """What the loss sees, without its intercept: φ of Definition 1."""
        return replace(self.loss, intercept=None).design(client)

    def _covariance(self, client: Client) -> Symmetric:
        if self.loss.quadratic and self.loss.intercept is None:  # the Hessian that FedNewton keeps is C_j + λI
            hessian = self.loss.hessian(client, self.loss.zero(client))
            if not self.loss.l2:
                return hessian
            mask = -self.loss.l2 * client.xp.ones(hessian.n, dtype=client.xp.float64, device=client.y.device)
            return hessian.map(lambda array: array + 0.0).add_diagonal(mask)
        gram = self._design(client).gram(client.sample_weight)
        return gram.map(lambda array: array / client.weight)

    def _few_samples(self, client: Client) -> float | None:
        """N_j(λ) from the Gram matrix of the samples, which has the eigenvalues of C_j."""
        if client.n_samples > self.most:
            return None
        rows = np.vstack([_dense(block) for _, block in self._design(client).blocks()])
        if client.sample_weight is not None:
            rows = rows * np.sqrt(to_numpy(client.sample_weight))[:, None]
        return effective_dimension(_eigenvalues(rows @ rows.T / client.weight), self.loss.l2)

    # ── server ──

    def measure(self, fed: Federation) -> Heterogeneities:
        before, p = len(fed.ledger.records), replace(self.loss, intercept=None).shape(fed.features, ())[0]
        samples = {name: info.samples for name, info in fed.info.items()}
        if p <= self.most:
            C = fed.mean(self.covariance)
            values = np.linalg.eigvalsh(C.full())
            missing = 0.0
            # Gathered: the question is who differs, and a mean has no names. A client tells two numbers of p²/2.
            replies = fed.gather(self.compare, C=C)
        else:
            vectors, values, missing = self._sketch(fed, p)
            replies = fed.gather(self.compare_sketch, vectors=vectors, values=values)  # gathered for the same reason
        model, model_scale = self._models(fed)
        return Heterogeneities(
            {name: reply[0] for name, reply in replies.items()},
            float(values.max()),
            missing,
            model,
            model_scale,
            effective_dimension(values, self.loss.l2),
            0.0 if not missing else missing / self.loss.l2 if self.loss.l2 else math.inf,
            {name: reply[1] for name, reply in replies.items()},
            samples,
            (float(values.sum()) + missing) / float(values.max()) if values.max() > 0 else 0.0,
            since(fed, before),
        )

    def _sketch(self, fed: Federation, p: int) -> tuple[Array, Array, float]:
        """The Nyström approximation of C on a subspace that one product with C has turned towards its leading one."""
        Q = np.random.default_rng(self.seed).standard_normal((p, min(self.rank, p)))
        for _ in range(2):
            Q, _R = np.linalg.qr(Q)
            trace, Y = fed.mean(self.products, V=Q)
            Q, basis = Y, Q
        values, turned = np.linalg.eigh(basis.T @ Y)
        kept = values > values[-1] * p * np.finfo(np.float64).eps
        root = (Y @ turned[:, kept]) / np.sqrt(values[kept])  # C ≈ root rootᵀ
        U, s, _Vt = np.linalg.svd(root, full_matrices=False)
        return U, s**2, max(trace - float(np.sum(s**2)), 0.0)

    def _models(self, fed: Federation) -> tuple[dict[str, float] | None, float | None]:
        shape = self.loss.shape(fed.features, fed.outputs)
        if (shape[0] if self.loss.separable else math.prod(shape)) > self.most:
            return None, None
        assert self.solver is not None
        state = self.solver.start(fed)
        first = norm(state.gradient)
        for _ in range(MOST_ROUNDS):
            if norm(state.gradient) <= 1e-10 * max(first, 1.0):
                # Gathered: the question is whose model differs. One number of each client.
                found = fed.gather(self.distance, w=state.w, H=state.hessian)
                return found, _energy(state.w, state.hessian.full())
            state = self.solver.round(fed, state)
        return None, None


def heterogeneity(
    loss: LinearLoss, clients: Clients, *, most: int = 2048, seed: int = 0, transport: str | type[Any] = "in_process"
) -> Heterogeneities:
    """How the clients differ. `clients` may be an open federation with `Heterogeneity(loss, most, seed=seed)`."""
    protocol = Heterogeneity(loss, most, seed=seed)
    with opened("heterogeneity", protocol, clients, transport, seed) as fed:
        return protocol.measure(fed)


def _energy(w: Array, H: Array) -> float:
    """‖w‖_H, over all outputs."""
    columns = w.reshape(H.shape[0], -1)
    return math.sqrt(max(float(np.sum(columns * (H @ columns))), 0.0))


def _eigenvalues(E: Array) -> Array:
    if not np.isfinite(E).all():  # LAPACK would not converge
        raise DataError("the covariance of a client's inputs overflows: rescale the columns")
    return np.linalg.eigvalsh(E)


def _operator_norm(E: Array) -> float:
    if E.shape[0] <= 256:
        return float(np.abs(_eigenvalues(E)).max())
    return _extreme(E, E.shape[0])


def _extreme(E: Any, p: int) -> float:
    """The eigenvalue of largest modulus, by Lanczos from a start that is the same everywhere."""
    v = np.random.default_rng(p).standard_normal(p)
    start = E @ v
    if not np.isfinite(start).all():
        raise DataError("a difference of covariances overflows: rescale the columns")
    if not np.any(start):
        return 0.0
    if p <= 2:
        return float(np.abs(_eigenvalues(E @ np.eye(p))).max())
    try:
        return float(abs(eigsh(E, k=1, which="LM", v0=v, tol=1e-10, return_eigenvectors=False)[0]))
    except ArpackError as error:
        raise DataError(f"the norm of a difference of covariances was not found: {error}") from None


def _product(client: Client, design: Design, V: Array) -> Array:
    rows, s = design.matvec(V), client.sample_weight
    if s is not None:
        rows = rows * (s if rows.ndim == 1 else s[:, None])
    return design.rmatvec(rows) / client.weight


def _trace(client: Client, design: Design) -> float:
    total, s = 0.0, client.sample_weight
    for rows, block in design.blocks():
        squares = np.sum(_dense(block) ** 2, axis=1)
        total += float(np.sum(squares if s is None else squares * to_numpy(s)[rows]))
    return total / client.weight


def _dense(block: Array) -> Array:
    return block.toarray() if hasattr(block, "toarray") else to_numpy(block)
