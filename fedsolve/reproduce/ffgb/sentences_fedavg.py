"""Section 1.1 of Shen et al. (2022): what FedAvg sends and averages, and what others do about unequal clients."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import FedAvg, FedDyn, FedProx, Scaffold
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.loop.run import run
from fedsolve.losses import Squared
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within

S11 = "Section 1.1"
VECTORS = Within(S11, "FedAvg: vectors sent to a client, and by it, per round", most=1.0, give=0.05)
AVERAGED = Same(S11, "FedAvg: the next point is the mean of K local gradient steps from the last")
DRIFTS = AtLeast(S11, "FedAvg ends at least 1e-2 of ‖w*‖ from w*, 5 local steps, unequal quadratics", most=1e-2)
CORRECTED = Check(S11, "SCAFFOLD and FedDyn: their distance over FedAvg's", "times", 1e-3)
NEARER = Check(S11, "FedProx with exact local solutions and a pull of 10: its distance over FedAvg's", "times")
CHECKS = (VECTORS, AVERAGED, DRIFTS, CORRECTED, NEARER)


def measure(rng: np.random.Generator, found: Found) -> None:
    """Least squares with unequal curvatures and solutions."""
    X, w = rng.standard_normal((4, 90, 30)) * rng.uniform(0.3, 1.5, (4, 1, 30)), rng.standard_normal((4, 30))
    y = np.einsum("inj,ij->in", X, w)
    clients = [Client(f"c{i}", X[i], y[i]) for i in range(4)]
    loss, steps = Squared(intercept=None), GradientSteps(steps=5, step_size=0.1)
    done = run(FedAvg(loss, steps), clients, rounds=2, tolerance=0, min_rows=0)
    for total in (done.ledger.total(rounds=[round]) for round in (1, 2)):
        for numbers in (total.scalars_up, total.scalars_down):
            found.note(VECTORS, numbers / (4 * 30))
    point = np.zeros(30)
    for _ in range(2):
        local = np.tile(point, (4, 1))
        for _ in range(5):
            local = local - 0.1 * np.einsum("inj,in->ij", X, np.einsum("inj,ij->in", X, local) - y) / 90
        point = local.mean(axis=0)
    found.same(AVERAGED, done.model.w, point, np.abs(point).max())
    best = np.linalg.lstsq(X.reshape(-1, 30), y.ravel(), rcond=None)[0]

    def missed(algorithm: FedAvg | FedProx | FedDyn | Scaffold) -> float:
        end = run(algorithm, clients, rounds=500, tolerance=0, min_rows=0, measure=0).model.w
        return float(np.linalg.norm(end - best) / np.linalg.norm(best))

    plain = missed(FedAvg(loss, steps))
    found.note(DRIFTS, plain)
    found.note(CORRECTED, max(missed(Scaffold(loss, steps)), missed(FedDyn(loss, 1.0))) / plain)
    found.note(NEARER, missed(FedProx(loss, 10.0)) / plain)
