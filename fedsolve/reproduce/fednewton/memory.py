"""FedNewton, section 3: how much memory a client and the server need, as Python's allocator sees it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import islice

import numpy as np

from fedsolve.algorithms import FedNewton
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Verdict

WIDTHS, SAMPLES = (100, 200, 400), (200, 800, 3200)
CLIENTS = (4, 16, 64)
ARRAYS = 3.0  # Φ_Dj, H_Dj and its inverse, as the paper counts them
ROUNDS = 3


def peak(width: int, samples: int) -> float:
    """The most numbers of 8 bytes in use during FedNewton's start and three rounds, data included."""
    rng = np.random.default_rng(width)
    tracemalloc.start()
    try:
        client = Client("client", rng.standard_normal((samples, width)), rng.standard_normal(samples))
        for _ in islice(iterates(FedNewton(Squared(l2=1e-3)), [client]), ROUNDS + 1):
            pass
        return tracemalloc.get_traced_memory()[1] / 8
    finally:
        tracemalloc.stop()


def server_numbers(width: int, clients: int) -> float:
    """The numbers of FedNewton's State, and those that all clients send to the server in a round."""
    rng = np.random.default_rng(width)
    some = [Client(f"client-{j}", rng.standard_normal((20, width)), rng.standard_normal(20)) for j in range(clients)]
    before, after = islice(iterates(FedNewton(Squared(l2=1e-3)), some), 2, 4)
    state = sum(np.size(value) for value in vars(after.state).values() if isinstance(value, np.ndarray))
    return float(state + after.sent.scalars_up - before.sent.scalars_up)


def memory_claims(quick: bool) -> Iterator[tuple[str, Verdict]]:
    """Peaks over |D_j| M + M², and the server's numbers over mM."""
    widths, samples = (WIDTHS[:1], SAMPLES[:1]) if quick else (WIDTHS, SAMPLES)
    shares = [peak(M, n) / (n * M + M * M) for M in widths for n in samples]
    said = f"{min(shares):.2f} to {max(shares):.2f} times |D_j| M + M² numbers, M of {widths}, |D_j| of {samples}"
    yield "a client needs O(|D_j| M + M²) memory, at most 3 times", Verdict(max(shares) <= ARRAYS, said)
    kept = [server_numbers(WIDTHS[0], m) / (m * WIDTHS[0]) for m in CLIENTS]
    said = ", ".join(f"{one:.2f} mM with m = {m}" for one, m in zip(kept, CLIENTS, strict=True))
    said = f"the state between rounds and what comes in during one: {said}"
    yield "the server needs O(mM) memory, at most 3 times", Verdict(max(kept) <= ARRAYS, said)
