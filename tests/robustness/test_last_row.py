"""The model a run returns is the one its history and certificate describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.transports import InProcess
from fedsolve.wire.messages import Failure, Reply, Request

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3)) * [1.0, 30.0, 0.1]
Y = X @ [1.0, -2.0, 5.0] + RNG.standard_normal(120)
LOSS = fs.Squared(l2=1e-3)


def clients() -> list[fs.Client]:
    return [fs.Client(f"client-{i}", X[i::4] * (1 + i), Y[i::4]) for i in range(4)]


class Silent(InProcess):
    """All but the first `answering` clients never answer again from round 2 on."""

    answering = 0

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        late = next(iter(requests.values())).preamble.round >= 2
        heard = self.names[: self.answering] if late else self.names
        yield from super().deliver({name: one for name, one in requests.items() if name in heard}, deadline)


def pooled_value(w: np.ndarray) -> float:
    return float(np.mean([LOSS.value(client, w) for client in clients()]))


@pytest.mark.parametrize("measure", [0, 1, 3])
@pytest.mark.parametrize("answering", [0, 1, 3])
@pytest.mark.parametrize(
    "algorithm", [fs.FedNewton, fs.FedNewtonCG, fs.FedAvg, fs.Newton, fs.Scaffold, fs.GIANT, fs.SHED]
)
def test_after_a_missed_quorum(algorithm: type, answering: int, measure: int) -> None:
    """In round 2 some or all clients stop answering for good."""
    transport = Silent(clients())
    transport.answering = answering
    participation = fs.Participation(quorum=0.9)
    run = fs.run(algorithm(LOSS), transport, participation=participation, rounds=10, tolerance=0.0, measure=measure)
    assert run.status == "no quorum"
    last = run.history[-1]
    assert last.round == 1
    if last.value is not None and last.measured_share == 1:
        assert last.value == pytest.approx(pooled_value(run.model.w), rel=1e-12)
    best = fs.run(fs.Newton(LOSS), clients()).history[-1].value
    if run.certificate is not None:
        assert last.measured_share == 1
        assert run.certificate.gap == last.gap
        assert run.certificate.gap >= pooled_value(run.model.w) - best - 1e-12
    if last.value is None or last.measured_share < 1:
        assert run.certificate is None
