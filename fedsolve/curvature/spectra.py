"""The eigenpairs that the server has received of each client's Hessian, and which it asks for next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedsolve.curvature.increments import Increment
from fedsolve.curvature.options import HowMany, vectors_for
from fedsolve.curvature.renewals import Renewals
from fedsolve.errors import WrongType
from fedsolve.federation.calls import Gather, PerClient
from fedsolve.federation.federation import Federation
from fedsolve.typing import Array


@dataclass(frozen=True)
class Spectrum:
    """What the server knows of one client's Hessian.

    renewal    of which Hessian
    vectors    the first q eigenvectors, in the precision they were sent in
    values     their eigenvalues
    following  λ_{q+1}
    least      λ_n, or a lower bound on it
    """

    renewal: int
    vectors: Array
    values: Array
    following: float
    least: float

    @staticmethod
    def grown(before: Spectrum | None, client: str, increment: Increment) -> Spectrum:
        """The spectrum with an increment appended; the first increment of a renewal replaces it.

        Raises WrongType for an increment that does not follow on.
        """
        vectors, values = increment.pairs.vectors, increment.pairs.values
        if increment.first == 0 and before is not None and before.renewal == increment.renewal and before.values.size:
            raise WrongType(f"client {client!r} sent its first eigenpairs of renewal {increment.renewal} twice")
        if increment.first:
            if before is None or before.renewal != increment.renewal or before.values.size != increment.first:
                known = "nothing" if before is None else f"{before.values.size} of renewal {before.renewal}"
                raise WrongType(
                    f"client {client!r} sent eigenpairs from number {increment.first + 1} of renewal "
                    f"{increment.renewal}, where the server knows {known}"
                )
            if not values.size:
                return replace(before, following=increment.following)
            vectors = np.hstack([before.vectors, vectors])
            values = np.concatenate([before.values, values])
        return Spectrum(increment.renewal, vectors, values, increment.following, increment.least)


@dataclass(frozen=True)
class Spectra:
    """What the server knows of the clients' Hessians at iteration t.

    A client that missed a renewal recomputes its Hessian at the current iterate when it is asked again: the others do
    not wait for it, and it sends nothing that is of no use any more.

    t        iterations begun; the first is 1
    renewal  the number of the last renewal
    renewed  and its iteration
    norms    of the gradients since then, the last three
    clients  each client's spectrum
    ahead    the eigenpairs of iteration t came with a step that was rejected
    overdue  the next iteration renews, whatever the rule says
    """

    t: int = 0
    renewal: int = 0
    renewed: int = 0
    norms: tuple[float, ...] = ()
    clients: dict[str, Spectrum] = field(default_factory=dict)
    ahead: bool = False
    overdue: bool = False

    def asked(
        self, fed: Federation, step: Callable[..., Increment], rule: Renewals, increment: HowMany, n: int
    ) -> tuple[Spectra, Gather[Increment]]:
        """Begin an iteration: the spectra, and the call of the client step that asks for its eigenpairs."""
        t = self.t if self.ahead else self.t + 1
        renews = self.overdue or rule.due(t, self.renewed, n, self.norms)
        following = rule.next_after(t, n)
        counts: dict[str, int | None] = {
            name: 0 if self.ahead and not renews else vectors_for(increment, name) for name in fed.clients
        }
        horizon = {
            name: None if following is None or count is None else count * (following - t)
            for name, count in counts.items()
        }
        renewal = self.renewal + renews
        # Gathers, because ρ_i falls in every round and with it each client's own part of Ĥ.
        call = Gather(step, renewal=renewal, count=PerClient(counts), horizon=PerClient(horizon))
        call.checked(lambda increment: _check_order(increment, n))
        begun = replace(self, t=t, renewal=renewal, ahead=False, overdue=False)
        return (replace(begun, renewed=t, norms=()) if renews else begun), call

    def received(self, increments: Mapping[str, Increment], gradient_norm: float) -> Spectra:
        """The spectra with what the clients sent."""
        grown = {name: Spectrum.grown(self.clients.get(name), name, one) for name, one in increments.items()}
        return replace(self, clients={**self.clients, **grown}, norms=(*self.norms, gradient_norm)[-3:])

    def rejected(self, before: Spectra) -> Spectra:
        """Called after a rejected trial, with the spectra before it. Keeps the received eigenpairs, drops the trial's
        gradient norm, and marks a renewal at the trial for repetition where the iteration truly begins."""
        return replace(self, renewed=before.renewed, norms=before.norms, ahead=True)


def _check_order(increment: Increment, n: int) -> None:
    """Raise WrongType for eigenvectors of another length than the weights have."""
    shape, wanted = increment.pairs.vectors.shape, (n, increment.pairs.values.size)
    if shape != wanted:
        raise WrongType(f"eigenvectors of shape {shape} where {wanted} is needed")
