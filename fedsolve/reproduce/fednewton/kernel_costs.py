"""FedNewton, Table 1, the lines of DKRR: costs in kernel space by count, rounds of DKRR-CM, the printed local size."""

from __future__ import annotations

from itertools import islice, pairwise
from itertools import product as pairs

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.kernel_space import Communicating, Messages, coefficients, descended, kernel, product
from fedsolve.reproduce.fednewton.multiply_adds import counting
from fedsolve.reproduce.fednewton.sharp import Sharp, errors
from fedsolve.reproduce.fednewton.slopes import Case, Slopes, clients_of
from fedsolve.reproduce.fednewton.work import CUBE, LINEAR, TIMES, exponents
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.tally import Tally

SAMPLES = (400, 800, 1600, 3200)  # |D_j|
TESTED, TOTALS = (500, 1000, 2000), (800, 1600, 3200)  # |D_test|, |D|
STEPS, LOCAL = (100, 200, 400), (100, 200, 400)  # t of DKRR-SGD, |D_j| of DKRR-CM
INPUTS, L2, ROUNDS, CLIENTS = 10, 1e-2, 4, 4  # d, λ; m of DKRR-SGD and of what is sent
LEAST_CUBE = 2.8  # an exponent of at least 3
ACCURACIES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
EVEN = 1.25  # times, between the largest step and the least, and a round: counts are whole
PROBLEMS = (Sharp(0.5, 0.5), Sharp(0.5, 1.0, size=1000, scale=1.0, amplitude=1.0))  # those of fednewton-rates
CONSTANTS, SIZES = (8, 32), (512, 1024, 2048, 4096, 8192)
Grid = dict[tuple[int, int], float]


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((seed, count, 47))
    X = rng.standard_normal((count, INPUTS))
    return X, -np.abs(X.sum(axis=1)) + np.sqrt(0.2) * rng.standard_normal(count)


def _training(claims: Claims) -> None:
    for what, formed in (("the kernel at hand", False), ("the kernel formed from the inputs", True)):
        found: Grid = {}
        for n in SAMPLES:
            X, y = drawn(n)
            K = kernel(X, X)
            with counting() as counted:
                coefficients(kernel(X, X) if formed else K, y, L2)
            found[n, 0] = float(counted.clients)
        most, largest = max(v / n**3 for (n, _), v in found.items()), exponents(found, 0)
        least = min(np.log(found[b, 0] / found[a, 0]) / np.log(b / a) for a, b in pairwise(SAMPLES))
        said = f"exponents in |D_j| from {least:.2f} to {largest:.2f}; at most {most:.3g} |D_j|³, d = {INPUTS}"
        holds = least >= LEAST_CUBE and largest <= CUBE and most <= TIMES
        claims.add(f"DKRR in kernel space, {what}: |D_j|³ multiply-adds at a client", bool(holds), said)


def _linear(found: Grid, claim: str, what: str, claims: Claims) -> None:
    most = max(value / (a * b) for (a, b), value in found.items())
    one, two = exponents(found, 0), exponents(found, 1)
    said = f"exponents {one:.2f} and {two:.2f}; at most {most:.3g} {what}"
    claims.add(claim, one <= LINEAR and two <= LINEAR and most <= TIMES, said)


def _testing(claims: Claims) -> None:
    whole, at_hand = {}, {}
    for n, total in pairs(TESTED, TOTALS):
        X, y = drawn(total)
        inputs, _ = drawn(n, 1)
        with counting() as counted:
            K = kernel(inputs, X)
            formed = counted.clients
            product(K, y)
        whole[n, total], at_hand[n, total] = float(counted.clients), float(counted.clients - formed)
    what = f"|D_test| |D|, d = {INPUTS}"
    _linear(at_hand, "testing in kernel space, the kernel at hand: O(|D_test| |D|) multiply-adds", what, claims)
    _linear(whole, "testing in kernel space, from the inputs: O(|D_test| |D|) multiply-adds", what, claims)


def _sent(claims: Claims) -> None:
    """What the server of DKRR needs to predict: coefficients, and inputs where it does not have them."""
    worst, plain, whole = 0.0, [], []
    for total in TOTALS:
        X, y = drawn(total)
        clients = list(zip(np.split(X, CLIENTS), np.split(y, CLIENTS), strict=True))
        alphas = [coefficients(kernel(one, one), targets, L2) for one, targets in clients]
        inputs, _ = drawn(50, 1)
        mean = np.mean([kernel(inputs, one) @ a for (one, _), a in zip(clients, alphas, strict=True)], axis=0)
        received = kernel(inputs, np.vstack([one for one, _ in clients])) @ np.concatenate(alphas) / CLIENTS
        worst = max(worst, float(np.linalg.norm(received - mean) / np.linalg.norm(mean)))
        plain.append(sum(a.size for a in alphas) / total)
        whole.append(sum(a.size + one.size for (one, _), a in zip(clients, alphas, strict=True)) / total)
    said = f"{max(plain):g} |D| coefficients, with which the server's predictions are the mean to {worst:.1g}"
    claims.add("DKRR sends O(|D|) numbers: coefficients", max(plain) <= TIMES and worst <= 1e-8, said)
    said = f"{max(whole):g} |D| with the inputs, d = {INPUTS}"
    claims.add("DKRR sends O(|D|) numbers: coefficients and inputs", max(whole) <= TIMES, said)


def _descent(claims: Claims) -> None:
    found: Grid = {}
    for total, steps in pairs(TOTALS, STEPS):
        K = kernel(*(drawn(total // CLIENTS)[0],) * 2)
        with counting() as counted:
            for j in range(CLIENTS):
                descended(K, drawn(total // CLIENTS)[1], steps, 0.5, np.random.default_rng(j))
        found[total, steps] = float(counted.clients)
    _linear(found, "DKRR-SGD: O(|D| t) multiply-adds, of all clients", f"|D| t, {CLIENTS} clients", claims)


def _communicating(claims: Claims) -> None:
    """DKRR-CM: what a client computes once and in a round, and what it exchanges, for |D_j| of `LOCAL`."""
    once, each, shares, numbers, even = {}, {}, [], {}, True
    for n, total in pairs(LOCAL, (1600, 3200)):
        X, y = drawn(total)
        of, messages, seen = Communicating.of(kernel(X, X), y, total // n, L2), Messages(), []
        with counting() as counted:
            for _ in islice(of.path(messages), ROUNDS + 1):
                seen.append(counted.clients / (total // n))
        steps = np.diff(seen)
        once[n, total], each[n, total] = seen[0], float(steps.max())
        shares += [seen[t] / (n**3 + total * n * t) for t in range(1, ROUNDS + 1)]
        numbers[n, total] = max(messages.by_round) / total
        even = even and len({*messages.by_round}) == 1
    exponent, most = exponents(once, 0), max(v / n**3 for (n, _), v in once.items())
    a, b, rounds = exponents(each, 0), exponents(each, 1), max(v / (n * d) for (n, d), v in each.items())
    said = (
        f"once at most {most:.2g} |D_j|³, exponent {exponent:.2f}; a round at most {rounds:.3g} |D| |D_j|, exponents "
    )
    said += f"{a:.2f} in |D_j| and {b:.2f} in |D|; at most {max(shares):.3g} times |D_j|³ + |D| |D_j| t in all"
    holds = exponent <= CUBE and a <= LINEAR and b <= LINEAR and max(most, rounds, *shares) <= TIMES
    claims.add("DKRR-CM: O(|D_j|³ + |D| |D_j| t) multiply-adds at a client", bool(holds), said)
    said = f"{min(numbers.values()):.3g} to {max(numbers.values()):.3g} |D| numbers of a client in every round"
    claims.add("DKRR-CM exchanges O(|D| t) numbers", max(numbers.values()) <= TIMES and even, said)


def rounds_of(seed: int) -> list[int]:
    """Rounds of DKRR-CM until the federated error at all inputs is a share of DKRR's, 4 clients of 400 samples."""
    X, y = drawn(1600, seed)
    K = kernel(X, X)
    pooled = K @ coefficients(K, y, L2)
    found: list[int] = []
    first = 0.0
    for t, alpha in enumerate(islice(Communicating.of(K, y, 4, L2).path(Messages()), 200)):
        error = float(np.linalg.norm(K @ alpha - pooled))
        first = first or error
        found += [t] * sum(error <= e * first for e in ACCURACIES[len(found) :])
    return found


def _on_rounds(runs: list[list[int]], claims: Claims) -> None:
    reached = all(len(one) == len(ACCURACIES) for one in runs)
    medians = np.median(runs, axis=0) if reached else np.zeros(len(ACCURACIES))
    steps = np.diff(medians)
    said = f"{', '.join(f'{one:g}' for one in medians)} rounds to {', '.join(f'{e:g}' for e in ACCURACIES)}"
    claims.add("DKRR-CM: rounds grow like log(1/ε)", bool(reached and steps.max() <= EVEN * steps.min() + 1), said)


def _on_sizes(tally: Tally[Case], tried: list[Case], claims: Claims) -> None:
    slopes = Slopes(tally, tried)
    for of, constant in pairs(PROBLEMS, CONSTANTS):
        share = (1 - of.gamma) / (2 * of.r + of.gamma)
        claim = (
            f"r = {of.r:g}, γ = {of.gamma:g}: DKRR with n = {constant} |D|^((1−γ)/(2r+γ)) learns at the optimal rate"
        )
        claims.add(claim, *slopes.learned(of, share, "DKRR", constant))


@experiment(
    "fednewton-kernel-costs",
    paper="FedNewton",
    place="Table 1, the lines of DKRR",
    title="What DKRR costs in kernel space, and with the local size that Table 1 prints",
    takes="1 min",
)
def kernel_costs(seeds: Seeds, quick: bool) -> Result:
    """Costs in kernel space are those of the table if the kernel is at hand and the inputs are known."""
    tried: list[Case] = [
        (of, total, (1 - of.gamma) / (2 * of.r + of.gamma), constant)
        for of, total, constant in pairs(PROBLEMS, SIZES[:1] if quick else SIZES, CONSTANTS)
    ]
    tally = Tally[Case]()
    for seed, case in seeds.over(tried):
        of, total, share, constant = case
        rng = np.random.default_rng((seed, total, round(constant), 53))
        tally.add(case, errors(of, of.parts(total, clients_of(total, share, constant=constant), rng), of.l2(total), 0))
    claims = Claims(quick)
    if not quick:
        _training(claims)
        _testing(claims)
        _descent(claims)
        _communicating(claims)
        _on_sizes(tally, tried, claims)
    _sent(claims)
    _on_rounds([rounds_of(seed) for seed in seeds.seeds], claims)
    return Result(
        columns=(Column("r, γ, |D|, constant"), Column("KRR"), Column("DKRR")),
        rows=[
            (f"{of.r:g}, {of.gamma:g}, {total}, {constant:g}", *(tally.measured(case, s) for s in ("KRR", "DKRR")))
            for case in tried
            for of, total, _, constant in (case,)
        ],
        claims=claims.found,
        notes=(
            "Multiply-adds as in fednewton-work; a Gaussian kernel of n times n' inputs counts n n' d. Exponents are "
            f"the largest between neighbours: |D_j| of {SAMPLES}, |D_test| of {TESTED}, |D| of {TOTALS}, t of {STEPS}; "
            f"DKRR-CM |D_j| of {LOCAL}, |D| of 1,600 and 3,200, {ROUNDS} rounds. DKRR-SGD takes one sample a step.",
            "The table: errors of the problems of fednewton-rates with Table 1's local size Ω(|D|^((1−γ)/(2r+γ))).",
        ),
    )
