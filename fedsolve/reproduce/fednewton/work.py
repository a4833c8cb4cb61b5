"""FedNewton, section 3, Remarks 1, 3 and 4, Table 1: what clients and server compute, in multiply-adds, by exponent."""

from __future__ import annotations

from itertools import islice, pairwise
from itertools import product as pairs

import numpy as np

from fedsolve.algorithms import DKRR, FedAvg, FedNewton, FedProx
from fedsolve.algorithms.base import Algorithm
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Logistic, Squared
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.inexact import LEFT, STEPS, compared
from fedsolve.reproduce.fednewton.multiply_adds import counting
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Result

WIDTHS, SAMPLES = (400, 800, 1600, 3200), (400, 1600, 3200)  # M, |D_j|
CLIENTS, SERVED = (4, 16, 64), (50, 100, 200)  # m, and M where many clients are served
TESTED, INPUTS = (500, 2000), 10  # |D_test|, d
ROUNDS = 4
NONE, LINEAR, SQUARE, CUBE = 0.01, 1.1, 2.2, 3.2  # exponents that count as 0, 1, 2 and 3
TIMES = 3.0  # an O(…) with its constant: at most so many times
SIMILAR = 2.0
BURDEN = 100.0  # times: a huge computational burden
QUADRATIC = Squared(l2=1e-3)

METHODS: dict[str, Algorithm] = {
    "FedNewton": FedNewton(QUADRATIC),
    "FedProx": FedProx(QUADRATIC, 1e-3),
    "FedAvg": FedAvg(QUADRATIC, GradientSteps(steps=2, step_size=1e-4)),
    "DKRR": DKRR(QUADRATIC),
}
Work = list[float]  # by round, 0 is before the rounds; of one client, or of the server


def drawn(clients: int, samples: int, width: int, labels: bool = False) -> list[Client]:
    """Standard normal features, and targets of any kind: only shapes count."""
    rng = np.random.default_rng((clients, samples, width))
    found = []
    for j in range(clients):
        X, y = rng.standard_normal((samples, width)), rng.standard_normal(samples)
        found.append(Client(f"client-{j}", X, (y > 0).astype(float) if labels else y))
    return found


def work(method: Algorithm, clients: list[Client], rounds: int = ROUNDS) -> tuple[Work, Work]:
    """Multiply-adds of one client, and of the server, by round."""
    ours, server = [], []
    with counting() as counted:
        for _ in islice(iterates(method, clients), rounds + 1):
            ours.append(counted.clients / len(clients))
            server.append(float(counted.server))
    return np.diff([0.0, *ours]).tolist(), np.diff([0.0, *server]).tolist()


def _last(of: Work) -> float:
    """In the last round; a method without rounds has none."""
    return of[-1] if len(of) > 1 else 0.0


def once(of: Work) -> float:
    """What is computed but once, in whatever round."""
    return sum(of) - _last(of) * (len(of) - 1)


def exponents(found: dict[tuple[int, int], float], axis: int) -> float:
    """The largest exponent in M (axis 1) or in |D_j| or m (axis 0), between neighbours of a grid at the other fixed."""
    worst = -np.inf
    for one in {key[1 - axis] for key in found}:
        line = sorted(key for key in found if key[1 - axis] == one)
        for a, b in pairwise(line):
            worst = max(worst, slope([a[axis], b[axis]], [found[a], found[b]]))
    return float(worst)


def kept(method: Algorithm, clients: list[Client]) -> tuple[int, int]:
    """Hessians and factorisations of all clients before the rounds, and in them, by the ledger."""
    counts = [one.sent.counts for one in islice(iterates(method, clients), ROUNDS + 1)]
    before, after = (
        sum(one.get(what, 0) for what in ("hessians", "factorisations")) for one in (counts[0], counts[-1])
    )
    return before, after - before


def _of_clients(grid: dict[str, dict[tuple[int, int], Work]], claims: Claims) -> None:
    newton = grid["FedNewton"]
    start = {key: one[0] for key, one in newton.items()}
    later = {key: max(one[1:]) for key, one in newton.items()}
    n, M = exponents(start, 0), exponents(start, 1)
    most = max(value / (n_j * w**2 + w**3) for (n_j, w), value in start.items())
    said = f"exponents at most {n:.2f} in |D_j| and {M:.2f} in M; at most {most:.2f} times |D_j| M² + M³"
    holds = n <= LINEAR and M <= CUBE and most <= TIMES
    claims.add("before the rounds: O(|D_j| M² + M³) multiply-adds at a client", holds, said)
    n, M = exponents(later, 0), exponents(later, 1)
    most = max(value / w**2 for (_, w), value in later.items())
    said = f"at most {most:.2f} M²; exponents at most {M:.2f} in M and {n:.2f} in |D_j|"
    holds = M <= SQUARE and abs(n) <= NONE and most <= TIMES
    claims.add("in a round: O(M²) multiply-adds at a client, whatever |D_j|", holds, said)
    before, in_rounds = kept(METHODS["FedNewton"], drawn(2, 20, SERVED[0]))
    said = f"{in_rounds} Hessians and factorisations in {ROUNDS} rounds, {before} before them, of two clients"
    claims.add("no Hessian and no factorisation in the rounds", in_rounds == 0 and before == 4, said)
    for name in ("FedProx", "FedAvg"):
        each = {key: _last(one) for key, one in grid[name].items()}
        n, M = exponents(each, 0), exponents(each, 1)
        most = max(value / w**2 for (_, w), value in each.items())
        holds = abs(n) <= NONE and M <= SQUARE and most <= TIMES
        said = f"at most {most:.2f} M²; exponents at most {M:.2f} in M and {n:.2f} in |D_j|"
        claims.add(f"{name}: O(M²) multiply-adds in a round at a client", holds, said)
        times = max(later[key] / value for key, value in each.items())
        said = f"FedNewton takes {min(later[key] / v for key, v in each.items()):.3g} to {times:.3g} times as many"
        claims.add(f"a round of FedNewton costs at most {SIMILAR:g} times one of {name}", times <= SIMILAR, said)
    fixed = {key: once(one) for key, one in grid["FedProx"].items()}
    n, M = exponents(fixed, 0), exponents(fixed, 1)
    most = max(value / (n_j * w**2 + w**3) for (n_j, w), value in fixed.items())
    said = f"exponents at most {n:.2f} in |D_j| and {M:.2f} in M; at most {most:.2f} times |D_j| M² + M³"
    claims.add("FedProx: O(|D_j| M² + M³) multiply-adds once", n <= LINEAR and M <= CUBE and most <= TIMES, said)
    ratios = [start[key] / value for key, value in fixed.items()]
    said = f"FedNewton takes {min(ratios):.3g} to {max(ratios):.3g} times FedProx's"
    claims.add(f"what FedNewton computes once is at most {SIMILAR:g} times FedProx's", max(ratios) <= SIMILAR, said)
    passes = {key: once(one) for key, one in grid["FedAvg"].items()}
    said = f"FedAvg {max(passes.values()):g} multiply-adds, FedNewton {min(start.values()):.3g} to "
    said += f"{max(start.values()):.3g}"
    holds = all(start[key] <= SIMILAR * value for key, value in passes.items())
    claims.add(f"what FedNewton computes once is at most {SIMILAR:g} times FedAvg's from zero", holds, said)


def _of_server(claims: Claims, served: tuple[int, ...]) -> None:
    newton = METHODS["FedNewton"]
    runs = {(m, M): work(newton, drawn(m, 20, M)) for m in CLIENTS for M in served}
    each = {key: max(server[1:]) for key, (_, server) in runs.items()}
    m, M = exponents(each, 0), exponents(each, 1)
    most = max(value / (m_ * w) for (m_, w), value in each.items())
    said = f"at most {most:.3g} mM in the two sums of a round; exponents at most {m:.2f} in m and {M:.2f} in M"
    claims.add("in a round: O(mM) multiply-adds at the server", m <= LINEAR and M <= LINEAR and most <= TIMES, said)
    shares, uneven = [], 0.0
    for (m_, w), (client, server) in runs.items():
        for t in range(1, ROUNDS + 1):
            total = sum(client[: t + 1]) + sum(server[: t + 1])
            shares.append(total / (20 * w**2 + w**3 + w**2 * t + m_ * w * t))
        uneven = max(uneven, *(abs(a / b - 1) for one in (client[1:], server[1:]) for a, b in pairwise(one)))
    said = f"{min(shares):.2g} to {max(shares):.2g} times |D_j| M² + M³ + M²t + mMt for t of 1 to {ROUNDS}, m of "
    said += f"{CLIENTS}; rounds differ by {uneven:.1g}"
    claims.add("in all O(|D_j| M² + M³ + M²t + mMt)", max(shares) <= TIMES and uneven == 0, said)


def _of_others(claims: Claims, width: int) -> None:
    (_, *squared), _ = work(METHODS["FedNewton"], drawn(1, 2 * width, width))
    logistic, _ = work(FedNewton(Logistic(l2=1e-3)), drawn(1, 2 * width, width, labels=True))
    times = min(logistic[1:]) / max(squared)
    said = f"{times:.3g} times those of the squared loss, M = {width}, |D_j| = {2 * width}"
    claims.add(f"Remark 4: a Hessian in every round costs at least {BURDEN:g} times", times >= BURDEN, said)
    found = compared(drawn(4, 4 * width, width))
    said = f"{found.inexact_rounds} rounds and {found.inexact:.3g} multiply-adds a client to {LEFT:g} of the first "
    said += f"federated error, with the inverse {found.exact_rounds} and {found.exact:.3g}"
    claims.add(f"inexact Newton, {STEPS} steps: fewer multiply-adds than the inverse", found.cheaper, said)


def _of_testing(claims: Claims) -> None:
    """Predictions from raw inputs of d columns, by M random features, and what of it is the product with w."""
    whole, product = {}, {}
    for n, M in pairs(TESTED, SERVED):
        phi = RandomFourier.fednewton(1.0, M)
        model = Squared(features=phi).model(np.ones(M))
        with counting() as counted:
            model.predict(np.ones((n, INPUTS)))
        whole[n, M], product[n, M] = float(counted.clients), float(counted.by_name["matvec"])
    for claim, found in (("with the features at hand", product), ("from the inputs", whole)):
        most = max(value / (n * M) for (n, M), value in found.items())
        said = f"at most {most:.3g} |D_test| M, exponents {exponents(found, 0):.2f} and {exponents(found, 1):.2f}"
        holds = exponents(found, 0) <= LINEAR and exponents(found, 1) <= LINEAR and most <= TIMES
        claims.add(f"testing {claim}: O(|D_test| M) multiply-adds", holds, f"{said}, d = {INPUTS}")


def _of_messages(claims: Claims, served: tuple[int, ...]) -> None:
    """What one exchange carries, by the ledger: vectors of M numbers up and down of a client."""
    sizes: dict[str, set[tuple[int, int]]] = {"FedNewton": set(), "FedAvg": set()}
    for name, found in sizes.items():
        for M in served:
            sent = [one.sent for one in islice(iterates(METHODS[name], drawn(2, 20, M)), ROUNDS + 1)]
            for a, b in pairwise(sent):
                vectors = 2 * M * (b.exchanges - a.exchanges)  # of two clients; single numbers do not count
                found.add(((b.scalars_up - a.scalars_up) // vectors, (b.scalars_down - a.scalars_down) // vectors))
    said = "; ".join(f"{name}: {sorted(found)} times M numbers up and down" for name, found in sizes.items())
    same = sizes["FedNewton"] == sizes["FedAvg"] == {(1, 1)}
    claims.add("an exchange of FedNewton carries M numbers each way, as one of FedAvg", same, said)


@experiment(
    "fednewton-work",
    paper="FedNewton",
    place="section 3, Remarks 1, 3 and 4, Table 1",
    title="What a client and the server of FedNewton compute, in multiply-adds",
    takes="1 min",
    seeds=1,
)
def work_of(seeds: Seeds, quick: bool) -> Result:
    """A round of FedNewton costs a client 2M² and the server 2mM, whatever the samples."""
    widths = WIDTHS[:1] if quick else WIDTHS
    samples = SAMPLES[:1] if quick else SAMPLES
    served = SERVED[:1] if quick else SERVED
    grid: dict[str, dict[tuple[int, int], Work]] = {name: {} for name in METHODS}
    for _, (n, M) in seeds.over([(n, M) for n in samples for M in widths]):
        clients = drawn(1, n, M)
        for name, method in METHODS.items():
            grid[name][n, M], _ = work(method, clients)
    claims = Claims(quick)
    if not quick:
        _of_clients(grid, claims)
        _of_server(claims, served)
    _of_others(claims, WIDTHS[0])
    _of_testing(claims)
    _of_messages(claims, served)
    count = "{:.3g}".format
    return Result(
        columns=(
            Column("|D_j|, M"),
            *(Column(f"{name}, {what}", count) for name in METHODS for what in ("once", "a round")),
        ),
        rows=[
            (f"{n}, {M}", *(v for one in grid.values() for v in (once(one[n, M]), _last(one[n, M]))))
            for n, M in grid["FedNewton"]
        ],
        claims=claims.found,
        notes=(
            "Multiply-adds of one client, from the shapes that the library's linear algebra is given as it runs: a "
            "Gram matrix counts |D_j| M², a Cholesky factor M³/6, a solution with it and a product with a Hessian M², "
            "a pass over the rows |D_j| M. At the server, as many as there are numbers in the replies that it adds. "
            f"Additions of vectors do not count. {ROUNDS} rounds; FedAvg takes two steps on all rows a round.",
            f"Exponents are the largest between neighbours of the grid: M of {WIDTHS}, |D_j| of {SAMPLES}; at the "
            f"server m of {CLIENTS}, M of {SERVED}. At most {NONE:g}, {LINEAR:g}, {SQUARE:g} and {CUBE:g} count as 0, "
            f"1, 2 and 3, and a count is O(…) if it is also at most {TIMES:g} times what stands in the brackets.",
        ),
    )
