"""Rows with other targets than their own: what a network is fitted to when it shall do what other functions do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import numpy as np
from array_api_compat import is_torch_array

from fedsolve.federation.client import Client
from fedsolve.losses.network import Network
from fedsolve.networks.architecture import Architecture
from fedsolve.networks.library import torch_library
from fedsolve.networks.modules import flat_module, initial_weights, outputs_of
from fedsolve.networks.tensors import TensorClient
from fedsolve.typing import Array

T = TypeVar("T")

_ONE_AT_A_TIME = Lock()
ROWS = 2048  # rows whose activations are held at once


def with_targets(client: Client, y: Array) -> Client:
    """The same rows with other targets, of the client's kind of array. Chance and accounts stay the client's own."""
    twin = type(client).__new__(type(client))
    for kind in type(client).__mro__:
        for slot in getattr(kind, "__slots__", ()):
            if slot != "__weakref__" and hasattr(client, slot):
                setattr(twin, slot, getattr(client, slot))
    twin.y, twin._cache = y, {}
    return twin


def public_rows(loss: Network, client: Client) -> Client:
    """The rows of a client that has no targets, such as the server, as the tensors that a network computes with."""
    device = loss.device or (str(client._rows.device) if is_torch_array(client._rows) else None)

    def compute() -> TensorClient:
        return TensorClient.of(client, np.zeros(client.n_samples), loss.dtype, device)

    return client.cached(("public rows", loss.dtype, device), compute).follow()


def outputs(loss: Network, client: Client, w: Array) -> Array:
    """η(x; w) of each row, a row each. `client` has tensors; each row counts as an evaluation of the loss."""
    client.count("losses", client.n_samples)
    X = client.design.sample
    net = flat_module(loss.architecture, X.shape[1], _output_count(loss.architecture, X.shape[1], w.shape[0]))
    with torch_library().no_grad():
        if X.shape[0] <= ROWS:
            return net(w, X)
        return client.xp.concat([net(w, X[start : start + ROWS, :]) for start in range(0, X.shape[0], ROWS)], axis=0)


def mean_outputs(loss: Network, client: Client, networks: Sequence[Array]) -> Array:
    """The mean of what several networks put out, all counted alike."""
    total = outputs(loss, client, networks[0])
    for w in networks[1:]:
        total = total + outputs(loss, client, w)
    return total / len(networks)


def functional_gradient(loss: Network, client: Client, w: Array) -> Array:
    """∇R_j[f] at each row, for the network f of weights w: dℓ/dη at what f puts out (Shen et al., equation 8). In the
    shape of the targets. `client` has tensors."""
    return loss.slopes(client, outputs(loss, client, w))


def fresh_weights(loss: Network, client: Client, count: int) -> Array:
    """Weights to begin a fit with, so many, as the architecture initialises them, drawn by the client's own seed."""
    inputs = client.design.sample.shape[1]
    made = _output_count(loss.architecture, inputs, count)

    def drawn(rng: np.random.Generator, samples: int) -> Array:
        seed = int(rng.integers(2**31))
        return _in_a_thread(lambda: initial_weights(loss.architecture, inputs, made, seed).astype(loss.dtype))

    return client.draw(drawn)


@lru_cache(maxsize=32)
def _output_count(architecture: Architecture, inputs: int, count: int) -> int:
    """For how many outputs a network of this architecture has so many weights; the module for them is built, too."""

    def build() -> int:
        found = outputs_of(architecture, inputs, count)
        flat_module(architecture, inputs, found)
        return found

    return _in_a_thread(build)


def _in_a_thread(function: Callable[[], T]) -> T:
    """What a function returns, computed in a thread of its own: inside vmap, torch lets nothing draw by chance, also
    where the draw is one client's own; vmap is a matter of the thread. One at a time, because modules initialise
    themselves from a generator that all threads share."""
    with _ONE_AT_A_TIME, ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(function).result()
