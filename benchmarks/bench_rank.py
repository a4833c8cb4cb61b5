"""The tensor of approximate ranks against as many gradients of single samples, and the memory it takes.

MNIST's network of Jadbabaie et al., Figure 1b: 784 sigmoid units, 623,290 weights, k = 60 samples and 60 perturbed
parameters. One side computes the slices of 500 coordinates by `gradient_slices` (perturbing included, singular values
apart); the other makes 3,600 passes of autograd, a sample each, through a plain torch module, and keeps nothing. Both
are measured in turn, the minimum of several, with as many threads as `--threads` says. The weights are random and the
images noise: what they show does not change the time. Wanted: at most 3 times as long, under 4 GB.

    scripts/bench rank                     (needs torch)
    scripts/bench rank -- --other          besides, a module of other layers too, where all gradients are
                                           computed and 500 coordinates kept; without a bound
    scripts/bench rank -- --other --rows 20   the same with 20 samples in one call, instead of as many as take 25 MB
    scripts/bench rank -- --all            besides, the ranks of all 623,290 coordinates: the memory, and the time

Ends with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from itertools import islice

import numpy as np
import torch

import fedsolve as fs
from fedsolve.diagnose import LossGradients, ModuleGradients, approximate_rank, gradient_ranks
from fedsolve.diagnose.gradient_slices import Slices, blocks

PIXELS, UNITS, K, KEPT = 784, 784, 60, 500
MOST, MEMORY = 3.0, 4.0  # times, GB


def problem() -> tuple[LossGradients, torch.nn.Module]:
    """The network as a loss of the library, and as a plain module with the same weights."""
    rng = np.random.default_rng(0)
    loss = fs.Network(fs.MLP((UNITS,), "sigmoid"), fs.Softmax(classes=10))
    client = fs.Client("test", rng.random((K, PIXELS)), rng.integers(0, 10, K).astype(float))
    w = loss.seeded_start_point(PIXELS, (), 0)
    module = torch.nn.Sequential(torch.nn.Linear(PIXELS, UNITS), torch.nn.Sigmoid(), torch.nn.Linear(UNITS, 10))
    torch.nn.utils.vector_to_parameters(torch.tensor(w, dtype=torch.float32), module.parameters())
    return LossGradients(loss, client, w), module


def single_passes(source: LossGradients, module: torch.nn.Module) -> None:
    """k² gradients, one after the other."""
    X = torch.tensor(source.client.inputs, dtype=torch.float32)
    y = torch.tensor(source.client.y, dtype=torch.int64)
    parameters = list(module.parameters())
    for _ in range(K):
        for row in range(K):
            loss = torch.nn.functional.cross_entropy(module(X[row : row + 1]), y[row : row + 1])
            torch.autograd.grad(loss, parameters)


def peak() -> float:
    """The most memory this process has held, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="The tensor against single passes.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--rows", type=int, default=None, help="samples whose gradients are computed in one call")
    parser.add_argument("--other", action="store_true", help="a module of other layers too")
    parser.add_argument("--all", action="store_true", help="all coordinates too, which takes many minutes")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    source, module = problem()
    what = Slices(K, rows=given.rows)
    least, slices = [float("inf")] * 2, np.empty(0)
    for _ in range(given.repeat):
        least[0] = min(least[0], seconds(lambda: single_passes(source, module)))
        started = time.perf_counter()
        _, slices = next(islice(blocks(source, what, KEPT), 1))
        least[1] = min(least[1], time.perf_counter() - started)
    ratio = least[1] / least[0]
    apart = seconds(lambda: approximate_rank(slices))
    print(f"  {source.w.size:,} weights, k = {K}, {KEPT} coordinates, {given.threads} thread(s)")
    print(
        f"  {K * K:,} single passes {least[0]:.1f} s, tensor {least[1]:.1f} s, ratio {ratio:.2f} (at most {MOST:g}); "
        f"singular values {apart:.2f} s"
    )
    print(f"  peak memory {peak():.2f} GB (under {MEMORY:g})", flush=True)
    if given.other:
        other = ModuleGradients(
            torch.nn.Sequential(torch.nn.Identity(), *module),
            torch.nn.functional.cross_entropy,
            torch.tensor(source.client.inputs, dtype=torch.float32),
            torch.tensor(source.client.y, dtype=torch.int64),
        )
        took = min(seconds(lambda: next(islice(blocks(other, what, KEPT), 1))) for _ in range(given.repeat))
        print(f"  all gradients, 500 coordinates kept: {took:.1f} s, ratio {took / least[0]:.2f}")
    if given.all:
        took = time.perf_counter()
        found = gradient_ranks(source, K, coordinates=None)
        print(f"  all coordinates: {found}")
        print(f"  {time.perf_counter() - took:.0f} s, peak memory {peak():.2f} GB (under {MEMORY:g})")
    return int(ratio > MOST or peak() >= MEMORY)


if __name__ == "__main__":
    sys.exit(main())
