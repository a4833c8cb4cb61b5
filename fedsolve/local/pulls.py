"""The pull of methods whose limit does not depend on it, at the server: found in the course of a run.

A splitting method is fastest with a pull of about √(μL), between the least and the largest curvature that its iterates
meet (Pathak and Wainwright 2020). Nobody knows them beforehand, but each client sees how far its own minimiser went and
how much its gradient turned on the way. The root of their ratio, over all clients, is a curvature between the two, in
the directions in which the method is slow at present; Xu, Figueiredo, and Goldstein ("Adaptive ADMM with Spectral
Penalty Parameter Selection", AISTATS 2017) choose the penalty of ADMM in this way.
"""

from __future__ import annotations

import math

from fedsolve.federation.federation import Federation

# Before anything is known. The second round replaces it, whatever the units of the problem are.
FIRST = 1.0


def renewed(fed: Federation, pull: float, moved: float, turned: float) -> float:
    """The pull for the next rounds: found anew after rounds 2, 4, 8, …, so that it stays for longer and longer, which
    is what the proofs of convergence ask for. From the fourth round on it goes half of the way, in orders of magnitude.

    Args:
        fed: The federation, which knows the round.
        pull: The one so far.
        moved: The mean square of how far the clients' models went since their last round.
        turned: The mean square of how much their gradients changed.
    """
    due = fed.round >= 2 and fed.round & (fed.round - 1) == 0
    found = math.sqrt(turned / moved) if due and moved > 0 else 0.0
    if not 0 < found < math.inf:
        return pull
    return found if fed.round == 2 else math.sqrt(pull * found)
