"""How often the interval of `fs.federation_gain` holds the true ratio of expected errors.

In each of 200 federations one client with 60 rows to learn from joins another with 600 whose true weights differ a
little. The two models are fitted, and the client's interval is compared with the ratio of their expected errors on new
rows, which the simulation knows: conditional on both models, noise included. The inputs are Gaussian, so that the
expectations are exact for the squared error and a sum over a two-dimensional grid for the others.

Where cases are rare, few held-out rows decide the errors. "told" is the share of federations in which there are enough
cases for a verdict, "wrong" the share in which there are and the interval misses.

    scripts/bench gain_coverage                          200 federations
    scripts/bench gain_coverage -- --federations 1000    for figures of two digits
    scripts/bench gain_coverage -- --others              other intervals of the same errors
    scripts/bench gain_coverage -- --heart 20            the four hospitals, over 20 draws of the held-out rows
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special, stats

import fedsolve as fs
from fedsolve.inference.compared import LEAST_CASES
from fedsolve.inference.held_errors import few_cases
from fedsolve.inference.own_best_model import own_best_model
from fedsolve.inference.ratio_interval import ratio_of_means
from fedsolve.losses import LinearLoss
from fedsolve.runfiles import run_file
from fedsolve.runfiles.problem import prepare
from fedsolve.typing import Array

HEART = Path(__file__).parents[1] / "examples/heart.toml"
FEATURES, ROWS, OTHER_ROWS, APART = 8, 60, 600, 0.15
NODES = np.linspace(-9.0, 9.0, 181)  # the trapezoidal rule, which has no error to speak of for what is smooth
NODE_WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
COUNTS = np.arange(1, 400)  # far more than the cases below have

Interval = Callable[[Array, Array], tuple[float, float]]  # of the ratio of these errors' expectations
Draw = Callable[[np.random.Generator, Array], Array]  # targets for these predictors


def gaussian(rng: np.random.Generator, eta: Array) -> Array:
    return eta + rng.standard_normal(len(eta))


def student(degrees: int) -> Draw:
    """Noise of variance 1 with heavier tails; with 3 degrees of freedom the squared errors have no variance."""
    return lambda rng, eta: eta + rng.standard_t(degrees, len(eta)) / np.sqrt(degrees / (degrees - 2))


def labels(rng: np.random.Generator, eta: Array) -> Array:
    return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)


def counts(rng: np.random.Generator, eta: Array) -> Array:
    return rng.poisson(np.exp(eta)).astype(float)


# Expected errors of weights w where `truth` is true, for x ~ N(0, I). Both have an intercept last; 0 if there is none.


def expected_square(w: Array, truth: Array) -> float:
    """E (xᵀw − y)² for noise of variance 1."""
    return 1.0 + float(np.sum((w - truth) ** 2))


def _predictors(w: Array, truth: Array) -> tuple[Array, Array]:
    """The predictors of the truth and of w, which are two correlated Gaussians, on a grid."""
    size = float(np.linalg.norm(truth[:-1]))
    along = float(w[:-1] @ truth[:-1]) / size
    across = float(np.sqrt(max(w[:-1] @ w[:-1] - along**2, 0.0)))
    return size * NODES[:, None] + truth[-1], along * NODES[:, None] + across * NODES[None, :] + w[-1]


def expected_log_loss(w: Array, truth: Array) -> float:
    """E log(1 + e^η) − yη."""
    true, eta = _predictors(w, truth)
    losses = np.logaddexp(0.0, eta) - eta * special.expit(true)
    return float(NODE_WEIGHTS @ losses @ NODE_WEIGHTS)


def expected_deviance(w: Array, truth: Array) -> float:
    """E 2 (y log y − yη − y + e^η)."""
    true, eta = _predictors(w, truth)
    mean = np.exp(true)
    chances = np.exp(COUNTS * true - mean - special.gammaln(COUNTS + 1))
    own = chances @ (COUNTS * np.log(COUNTS))
    losses = 2 * (own[:, None] - mean * eta - mean + np.exp(eta))
    return float(NODE_WEIGHTS @ losses @ NODE_WEIGHTS)


class Case(NamedTuple):
    """A kind of federation: loss, targets, expected error, and the true weights' size and intercept."""

    loss: LinearLoss
    draw: Draw
    expected: Callable[[Array, Array], float]
    size: float = 1.0
    intercept: float = 0.0


CASES: dict[str, Case] = {
    "squared error, Gaussian noise": Case(fs.Squared(l2=0.01), gaussian, expected_square),
    "squared error, t noise with 5 degrees": Case(fs.Squared(l2=0.01), student(5), expected_square),
    "squared error, t noise with 3 degrees": Case(fs.Squared(l2=0.01), student(3), expected_square),
    "log-loss": Case(fs.Logistic(l2=0.01), labels, expected_log_loss),
}
# Where the errors of few rows decide: the interval's claim does not reach as far.
HARD: dict[str, Case] = {
    "log-loss, cases rare (intercept −3.5)": Case(
        fs.Logistic(l2=0.01, intercept="free"), labels, expected_log_loss, intercept=-3.5
    ),
    "log-loss, cases rare (intercept −2.5)": Case(
        fs.Logistic(l2=0.01, intercept="free"), labels, expected_log_loss, intercept=-2.5
    ),
    "log-loss, true weights times 6": Case(fs.Logistic(l2=0.01), labels, expected_log_loss, size=6.0),
    "deviance, counts rare (intercept −2.5)": Case(
        fs.Poisson(l2=0.01, intercept="free"), counts, expected_deviance, intercept=-2.5
    ),
}


class Held(NamedTuple):
    """The true ratio, the held-out errors of the client's own model and of the federated one, and whether cases are
    too few for a verdict."""

    true: float
    local: Array
    federated: Array
    few: bool


def federation(case: str, held_out: int, seed: int) -> Held:
    """One simulated federation."""
    every = {**CASES, **HARD}
    loss, draw, expected, size, intercept = every[case]
    rng = np.random.default_rng([seed, held_out, list(every).index(case)])
    truth = size * rng.standard_normal(FEATURES) / 2
    weights = {"joins": truth, "other": truth + APART * rng.standard_normal(FEATURES)}
    clients = []
    for (name, w), rows in zip(weights.items(), (ROWS, OTHER_ROWS), strict=True):
        X = rng.standard_normal((rows + (held_out if name == "joins" else 0), FEATURES))
        clients.append(fs.Client(name, X, draw(rng, X @ w + intercept)))
    clients[0] = clients[0].holding_out(np.arange(ROWS, ROWS + held_out))
    run = fs.run(fs.Newton(loss), clients, measure=0)
    own, held = own_best_model(clients[0], loss).w, clients[0].held
    assert held is not None
    local, federated = (loss.error(np, loss.predictor(held, w), held.y) for w in (own, run.model.w))
    if seed % 20 == 0:  # the protocol says the same, and takes twice as long: the model it fits is not known here
        said, found = fs.federation_gain(run).clients["joins"], ratio_of_means(local, federated)
        assert said.gain is not None
        assert said.low is not None
        assert abs(said.gain - found.ratio) < 1e-9
        assert abs(said.low - found.low) < 1e-9
    both = (np.r_[w, 0.0] if loss.intercept is None else w for w in (own, run.model.w))
    own_error, federated_error = (expected(w, np.r_[truth, intercept]) for w in both)
    return Held(own_error / federated_error, local, federated, few_cases(loss, held.y, LEAST_CASES))


def fieller(local: Array, federated: Array) -> tuple[float, float]:
    """The interval of `fs.federation_gain`."""
    found = ratio_of_means(local, federated)
    return found.low, np.inf if found.high is None else found.high


def log_t(local: Array, federated: Array) -> tuple[float, float]:
    """The t interval of the logarithm of the ratio, with its linearised variance."""
    n, ratio = len(local), local.mean() / federated.mean()
    spread = np.std(local / local.mean() - federated / federated.mean(), ddof=1) / np.sqrt(n)
    half = float(stats.t.ppf(0.975, n - 1)) * spread
    return float(ratio * np.exp(-half)), float(ratio * np.exp(half))


def bootstrapped(method: str) -> Interval:
    """SciPy's bootstrap of the pairs, 999 resamples."""

    def interval(local: Array, federated: Array) -> tuple[float, float]:
        found = stats.bootstrap(
            (local, federated),
            lambda a, b, axis: a.mean(axis=axis) / b.mean(axis=axis),
            paired=True,
            n_resamples=999,
            method=method,
            rng=np.random.default_rng(0),
        ).confidence_interval
        return float(found.low), float(found.high)

    return interval


OTHERS: dict[str, Interval] = {
    "Fieller": fieller,
    "t, of the logarithm": log_t,
    "bootstrap, percentile": bootstrapped("percentile"),
    "bootstrap, BCa": bootstrapped("BCa"),
}


class Judged(NamedTuple):
    """Shares of federations: the interval holds the true ratio, lies above it, there are enough cases for a verdict,
    there are and the interval misses; and the median of high / low."""

    covered: float
    above: float
    told: float
    wrong: float
    width: float


def coverage(case: str, held_out: int, federations: int) -> Judged:
    """How often the interval of `fs.federation_gain` holds the true ratio."""
    return judged([federation(case, held_out, seed) for seed in range(federations)], fieller)


def judged(found: list[Held], interval: Interval) -> Judged:
    """The same for any interval."""
    truths, told = np.array([one.true for one in found]), np.array([not one.few for one in found])
    low, high = np.array([interval(one.local, one.federated) for one in found]).T
    widths = np.divide(high, low, out=np.full(len(low), np.inf), where=low > 0)
    covered = (low <= truths) & (truths <= high)
    shares = (float(np.mean(each)) for each in (covered, low > truths, told, told & ~covered))
    return Judged(*shares, float(np.median(widths)))


def heart(draws: int) -> None:
    """Gains of the four hospitals over draws of the held-out rows: `seed` of [gain] from 0 on."""
    problem = prepare(run_file.read(HEART), HEART)
    (algorithm,) = problem.algorithms.values()
    gains: dict[str, list[float]] = {}
    excludes: dict[str, int] = {}
    untold: dict[str, int] = {}
    for seed in range(draws):
        run = fs.run(algorithm, fs.data.hold_out(problem.clients, 0.3, seed), preprocess=problem.preprocess)
        found = fs.federation_gain(run, fs.FederationGain(algorithm.loss, seed=seed))  # type: ignore[attr-defined]
        for name, one in found.clients.items():
            assert one.gain is not None
            assert one.low is not None
            gains.setdefault(name, []).append(one.gain)
            excludes[name] = excludes.get(name, 0) + (one.low > 1 or (one.high is not None and one.high < 1))
            untold[name] = untold.get(name, 0) + (one.verdict == "cannot tell")
    print(f"{'':20}{'median gain':>15}{'interval excludes 1':>25}{'too few cases':>20}  of {draws}")
    for name, each in gains.items():
        print(f"{name:20}{np.median(each):>15.3f}{excludes[name]:>25}{untold[name]:>20}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--federations", type=int, default=200)
    parser.add_argument("--others", action="store_true", help="compare intervals")
    parser.add_argument("--heart", type=int, metavar="DRAWS", help="the four hospitals (FEDSOLVE_DATA)")
    given = parser.parse_args()
    if given.heart:
        heart(given.heart)
        return
    headings = ("rows", "covered", "too high", "told", "wrong", "high / low", "seconds")
    print(f"{'':65}" + "".join(f"{one:>11}" for one in headings))
    for case in (*CASES, *HARD):
        for held_out in (30, 100):
            begun = time.perf_counter()
            found = [federation(case, held_out, seed) for seed in range(given.federations)]
            for name, interval in OTHERS.items() if given.others else (("", fieller),):
                *shares, width = judged(found, interval)
                took = time.perf_counter() - begun
                said = "".join(f"{one:>11.1%}" for one in shares)
                print(f"{case:40}{name:25}{held_out:>11}{said}{width:>11.2f}{took:>11.1f}", flush=True)


if __name__ == "__main__":
    main()
