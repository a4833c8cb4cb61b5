"""What the server knows of the pooled Hessian from round to round, and the Newton direction it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedsolve.curvature.estimate import Estimate, Shift, Solver
from fedsolve.curvature.increments import Increment
from fedsolve.curvature.options import HowMany
from fedsolve.curvature.renewals import Renewals
from fedsolve.curvature.spectra import Spectra
from fedsolve.federation.calls import Gather
from fedsolve.federation.federation import Federation
from fedsolve.numerics.lbfgs import Pair, direction, remember
from fedsolve.numerics.linalg import norm
from fedsolve.typing import Array


def _no_factor() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Curvature:
    """Eigenpairs of the clients' Hessians, with what makes solves with them better and cheaper.

    spectra  the eigenpairs
    pairs    past steps and how the gradient changed along them, for L-BFGS on top of Ĥ⁻¹
    factor   the Cholesky factor of an earlier Ĥ, a preconditioner for the next; empty where there is none
    """

    spectra: Spectra = field(default_factory=Spectra)
    pairs: tuple[Pair, ...] = ()
    factor: Array = field(default_factory=_no_factor)

    def asked(
        self, fed: Federation, step: Callable[..., Increment], rule: Renewals, increment: HowMany, n: int
    ) -> tuple[Curvature, Gather[Increment]]:
        """Begin an iteration: the curvature, and the call of the client step that asks for its eigenpairs."""
        spectra, call = self.spectra.asked(fed, step, rule, increment, n)
        return replace(self, spectra=spectra), call

    def received(
        self, increments: Mapping[str, Increment], g: Array, pair: Pair | None = None, most: int = 0
    ) -> Curvature:
        """With the eigenpairs and the gradient that the clients sent. `pair` joins the `most` latest for L-BFGS; None
        drops them all, because gradients of different cohorts do not compare."""
        pairs = () if pair is None else remember(self.pairs, *pair, most)
        return replace(self, spectra=self.spectra.received(increments, norm(g)), pairs=pairs)

    def estimate(self, fed: Federation, cohort: tuple[str, ...], shift: Shift) -> Estimate:
        """Ĥ of the clients in the cohort."""
        known = self.spectra.clients
        return Estimate([known[one] for one in cohort], [fed.weights[one] for one in cohort], shift)

    def solve(self, H: Estimate, g: Array, reuse: bool = True) -> tuple[Curvature, Array]:
        """Ĥ⁻¹g, improved by the pairs; and the curvature with the factor for the next solve.

        reuse  whether an earlier factor may serve as a preconditioner; False factorises Ĥ every time
        """
        solver = Solver(H, self.factor if reuse else _no_factor())
        p = direction(g, self.pairs, solver.solve)
        return replace(self, factor=solver.stale), p

    def after_search(self, eta: float) -> Curvature:
        """Where no step lowers the objective the estimate is of no use here, and the next iteration renews it."""
        return replace(self, spectra=replace(self.spectra, overdue=eta == 0))

    def after_rejection(self, trial: Curvature, eta: float, keep_pairs: bool) -> Curvature:
        """Called when the trial of a full step was rejected and the part η was taken instead. Keeps the eigenpairs that
        came with the trial, see `Spectra.rejected`."""
        spectra = replace(trial.spectra.rejected(self.spectra), overdue=eta == 0)
        return replace(self, spectra=spectra, pairs=self.pairs if keep_pairs else ())
