"""The accounts of a gradient that is recorded and replayed. Graphs need a GPU; here a replay computes anew."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.distillation.rows import public_rows, with_targets
from fedsolve.federation.memory import Memory
from fedsolve.losses import recorded
from fedsolve.losses.network import Network
from fedsolve.losses.recorded import RecordedNetwork
from fedsolve.networks.augmentation import FlipAndCrop
from tests.networks.problems import torch

ROWS, STEPS = 43, fs.Adam(epochs=4, batch_size=8)  # batches of 8 and a last one of 3


class _Replayed(RecordedNetwork):
    """Its graph computes with the buffers of the record, and with nothing else."""

    def _recorded(self, own: Any, w: Any, salt: Any) -> Any:
        batch = own.subset(torch.arange(own.n_samples))
        v, s = torch.full_like(w, torch.nan), None if salt is None else torch.zeros_like(salt)
        gradient = torch.full_like(w, torch.nan)

        class Graph:
            def replay(_) -> None:
                gradient.copy_(Network.changed_gradient(self, batch, v, s))

        return recorded._Record(Graph(), batch, v, s, gradient)


def _rows(loss: fs.Network, **given: Any) -> tuple[fs.Client, Any]:
    rng = np.random.default_rng(0)
    client = fs.Client("server", rng.standard_normal((ROWS, 6)), None, **given)
    client.enter(Memory({}), (0, 1, 0, 0))
    return client, with_targets(public_rows(loss, client), torch.tensor(rng.standard_normal((ROWS, 2))))


@pytest.mark.parametrize("augmentation", [None, FlipAndCrop(1, shape=(1, 2, 3))])
@pytest.mark.parametrize("weighted", [False, True])
def test_replays_are_the_gradients_and_are_counted(augmentation: Any, weighted: bool) -> None:
    loss = fs.Network(fs.MLP((4,)), l2=0.1, dtype="float64", augmentation=augmentation)
    given = {"sample_weight": np.arange(1.0, ROWS + 1)} if weighted else {}
    start = torch.tensor(loss.start_point(6, (2,)))
    found = []
    for student in (loss, _Replayed(**{one.name: getattr(loss, one.name) for one in fields(Network)})):
        client, rows = _rows(loss, **given)
        found.append((STEPS.run(student, rows, start, 0.01).numpy(), dict(client.counts)))
    (plain, counts), (replayed, again) = found
    assert np.array_equal(plain, replayed)
    assert counts == again == {"gradients": 4 * ROWS}
    records = [one for one in student.seen.values() if isinstance(one, recorded._Record)]
    assert len(records) == (0 if weighted else 2)  # one for each size of batch; weights are not recorded
