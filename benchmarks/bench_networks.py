"""Networks of many clients: one call for all against one call each, for local training and through a whole run.

On the CPU an MLP for 14 × 14 images, 50 clients of about 100; with --device cuda the CNN of Shen et al. for CIFAR, 100
clients of 100 images, Adam, batches of 64. The images are noise: what they show does not change the time.

Local training is the clients' step alone, as one client would run it or as a stack does, with the weights left on the
device; through `run` there are the replies' way home, aggregation, ledger and measuring beside it, for FedAvg, and for
FedDyn and Scaffold with plain steps, what their clients remember. Both sides are measured in turn, the minimum of
several. Ledgers must be equal, and so must the weights of a short run in float64, to
1e-8; how far those of the float32 runs are apart, after many steps of Adam and with whatever kernels the device has, is
printed.

    scripts/bench networks
    scripts/bench networks -- --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

import fedsolve as fs
from fedsolve.distillation.rows import public_rows, with_targets
from fedsolve.federation.memory import Memory
from fedsolve.federation.stacked import Stack
from fedsolve.federation.transports import InProcess
from fedsolve.losses.recorded import recorded

EQUAL = 1e-8  # of the weights, in float64
METHODS = ("FedAvg", "FedDyn", "Scaffold")
Method = fs.FedAvg | fs.FedDyn | fs.Scaffold


def method(name: str, loss: fs.Network, epochs: int, batch_size: int = 64) -> Method:
    """FedAvg with Adam, the others with the plain steps that they are made for."""
    plain = fs.GradientSteps(epochs=epochs, step_size=0.05, batch_size=batch_size)
    if name == "FedDyn":
        return fs.FedDyn(loss, local=plain)
    return fs.Scaffold(loss, plain) if name == "Scaffold" else fs.FedAvg(loss, adam(epochs, batch_size))


def adam(epochs: int, batch_size: int = 64) -> fs.Adam:
    return fs.Adam(epochs=epochs, step_size=0.001, batch_size=batch_size)


def make_clients(sizes: list[int], pixels: int) -> list[fs.Client]:
    rng, total = np.random.default_rng(0), sum(sizes)
    X, y = rng.random((total, pixels)), rng.integers(0, 10, total).astype(float)
    ends = np.cumsum(sizes)
    return [
        fs.Client(f"client-{place}", X[end - n : end], y[end - n : end])
        for place, (n, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def least(functions: list[Callable[[], object]], repeat: int, device: str) -> list[float]:
    """The least seconds of each, taken in turn."""
    seconds = [float("inf")] * len(functions)
    for _ in range(repeat):
        for place, function in enumerate(functions):
            started = time.perf_counter()
            function()
            if device == "cuda":
                torch.cuda.synchronize()
            seconds[place] = min(seconds[place], time.perf_counter() - started)
    return seconds


def local_training(loss: fs.Network, local: fs.Adam, clients: list[fs.Client], repeat: int, device: str) -> list[float]:
    """Seconds of one round of local training, one by one and together; the weights stay on the device."""
    own = [loss.computing(client) for client in clients]
    w = own[0].localise(loss.seeded_start_point(own[0].design.shape[1], (), 0))
    stack = Stack.of(own)

    def enter() -> None:
        for client in own:
            client.enter(Memory({}), (0, 1, 0, 0))

    def alone() -> None:
        enter()
        for client in own:
            local.run(loss, client, w, local.step_size or 0.001)

    def together() -> None:
        enter()
        stack.outputs(lambda client: local.run(loss, client, w, local.step_size or 0.001), {})

    return least([alone, together], repeat, device)


def both(
    algorithm: Method, clients: list[fs.Client], rounds: int, repeat: int, device: str
) -> tuple[list[float], float]:
    """Seconds of whole runs, one by one and together, and how far their weights are apart. Ledgers must be equal."""
    transports = [InProcess(clients, keep_caches=True), InProcess(clients, keep_caches=True, together=True)]
    runs: dict[int, fs.Run] = {}

    def of(side: int) -> Callable[[], None]:
        def function() -> None:
            runs[side] = fs.run(algorithm, transports[side], rounds=rounds, tolerance=0.0)

        return function

    seconds = least([of(0), of(1)], repeat, device)
    if runs[0].ledger.records != runs[1].ledger.records or transports[1].one_by_one:
        raise SystemExit(f"the ledgers differ, or not all ran together: {transports[1].one_by_one}")
    alone, together = (runs[side].state.w for side in (0, 1))
    return seconds, float(np.linalg.norm(together - alone) / np.linalg.norm(alone))


def check(architecture: fs.Architecture, pixels: int, given: argparse.Namespace) -> None:
    """A short run in float64, of clients of unequal size, is the same both ways."""
    loss = fs.Network(architecture, fs.Softmax(classes=10), dtype="float64", device=given.device)
    clients = make_clients([10, 20, 33, 40], pixels)
    for name in given.methods:
        _, distance = both(method(name, loss, 2, 16), clients, 3, 1, given.device)
        if not distance <= EQUAL:
            raise SystemExit(f"in float64 the two differ by {distance:.1e} with {name}")
        print(f"  {name:8s} in float64 the two differ by {distance:.1e}, with equal ledgers")


def compare(name: str, architecture: fs.Architecture, sizes: list[int], pixels: int, given: argparse.Namespace) -> None:
    clients = make_clients(sizes, pixels)
    loss = fs.Network(architecture, fs.Softmax(classes=10), dtype=given.dtype, device=given.device)
    print(f"  {name}: {len(sizes)} clients of {min(sizes)}–{max(sizes)} rows, {given.epochs} epochs, {given.dtype}")
    each = local_training(loss, adam(given.epochs), clients, given.repeat, given.device)
    per = [1e3 * one / len(sizes) / given.epochs for one in each]
    print(
        f"    local training   {each[0]:7.3f} s one by one, {each[1]:7.3f} s together, ratio {each[0] / each[1]:5.1f} "
        f"({per[0]:.2f} and {per[1]:.2f} ms per client and epoch)"
    )
    for name_of_method in given.methods:
        algorithm = method(name_of_method, loss, given.epochs)
        seconds, distance = both(algorithm, clients, given.rounds, given.repeat, given.device)
        each = [one / given.rounds for one in seconds]
        print(
            f"    {name_of_method:8s} by run  {each[0]:7.3f} s one by one, {each[1]:7.3f} s together, "
            f"ratio {each[0] / each[1]:5.1f} (a round; after {given.rounds} the weights are {distance:.0e} apart)",
            flush=True,
        )
    if given.device == "cuda":
        print(f"    most memory      {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the GPU")


def distillation(architecture: fs.CNN, pixels: int, epochs: int = 5) -> None:
    """A server's fit of one network, with the gradient recorded as a CUDA graph and without."""
    loss = fs.Network(architecture, fs.Softmax(classes=10), device="cuda", augmentation=fs.FlipAndCrop())
    server = fs.Client("server", torch.rand(4000, pixels, generator=torch.Generator().manual_seed(0)), None)
    server.enter(Memory({}), (0, 1, 0, 0))
    rows = public_rows(loss, server)
    teacher = torch.rand(4000, 10, generator=torch.Generator().manual_seed(1)).cuda()
    student, fitted = replace(loss, loss=fs.Squared()), with_targets(rows, teacher)
    w, adam = rows.localise(loss.seeded_start_point(pixels, (), 0)), fs.Adam(epochs=epochs, batch_size=64, clip=5.0)
    seconds, replayed = [], recorded(student, fitted)
    for one in (student, replayed):
        adam.run(one, fitted, w, 0.001)
        torch.cuda.synchronize()
        started = time.perf_counter()
        adam.run(one, fitted, w, 0.001)
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - started) / (epochs * -(-4000 // 64)))
    salt = torch.tensor(5, device="cuda")
    batches = [fitted.subset(torch.arange(64 * place, 64 * (place + 1))) for place in range(20)]
    gradients = [[one.changed_gradient(part, w, salt) for part in batches] for one in (student, student, replayed)]
    again, apart = (
        max(float((g - h).norm() / g.norm()) for g, h in zip(gradients[0], other, strict=True))
        for other in gradients[1:]
    )
    print(
        f"  a server's fit: {1e3 * seconds[0]:.2f} ms a step, recorded {1e3 * seconds[1]:.2f}, ratio "
        f"{seconds[0] / seconds[1]:.1f}; of 20 gradients the recorded ones are at most {apart:.0e} apart, two that are "
        f"not recorded {again:.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="One by one against together.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--epochs", type=int, default=10, help="local epochs in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--clients", type=int, default=None, help="50 on the CPU, 100 on a GPU")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="those to run")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    if given.device == "cuda":
        many = given.clients or 100
        print(f"  {torch.cuda.get_device_name()}")
        check(fs.CNN((3, 32, 32)), 3072, given)
        distillation(fs.CNN((3, 32, 32)), 3072)
        compare("CNN, equal sizes", fs.CNN((3, 32, 32)), [100] * many, 3072, given)
        sizes = [int(n) for n in rng.integers(50, 151, many)]
        compare("CNN, unequal sizes", fs.CNN((3, 32, 32)), sizes, 3072, given)
        return
    many = given.clients or 50
    check(fs.MLP((64,)), 196, given)
    compare("MLP, equal sizes", fs.MLP((64,)), [100] * many, 196, given)
    compare("MLP, unequal sizes", fs.MLP((64,)), [int(n) for n in rng.integers(50, 151, many)], 196, given)


if __name__ == "__main__":
    main()
