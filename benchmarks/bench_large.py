"""Many weights: FedNewtonCG without Hessians against scikit-learn's newton-cg on the pooled rows.

Logistic loss, l2 = 1e-3, n = 20,000 sparse rows of 50 entries, p = 20,000 and 200,000, 10 clients by Dirichlet(0.5).
Both sides to ‖∇f‖ ≤ 1e-8: scikit-learn with the largest power of ten as its `tol` that reaches it, found beforehand.
Wanted: at most 3.0 times its seconds (medians of 7 fits, taken in turn), and at most 100 MB more peak memory than
before the run, taken in a process of its own.

One thread: scripts/bench large
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import fedsolve as fs

SAMPLES, ENTRIES, CLIENTS = 20_000, 50, 10
L2, TOLERANCE = 1e-3, 1e-8
WANTED, WANTED_GROWTH = 3.0, 100.0
LOSS = fs.Logistic(l2=L2)


def problem(features: int) -> tuple[sp.csr_array, np.ndarray]:
    """Rows of standard normal entries at random places; labels by a model in which one weight in ten counts."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.integers(0, features, (SAMPLES, ENTRIES)), axis=1).ravel()
    ends = np.arange(0, SAMPLES * ENTRIES + 1, ENTRIES)
    X = sp.csr_array((rng.standard_normal(SAMPLES * ENTRIES), places, ends), shape=(SAMPLES, features))
    X.sum_duplicates()
    truth = rng.standard_normal(features) * (rng.random(features) < 0.1)
    return X, (rng.random(SAMPLES) < 1 / (1 + np.exp(-(X @ truth)))).astype(float)


def split(X: sp.csr_array, y: np.ndarray) -> list[fs.Client]:
    return fs.data.partition(X, y, fs.data.Dirichlet(0.5), clients=CLIENTS, seed=0)


def federated(clients: list[fs.Client]) -> fs.Run:
    # A norm of the gradient, as it is compared below.
    stopping = fs.Stopping(1000, tolerance=None, gradient_norm=TOLERANCE)
    return fs.run(fs.FedNewtonCG(LOSS), clients, stopping=stopping)


def pooled(X: sp.csr_array, y: np.ndarray, tol: float) -> np.ndarray:
    model = LogisticRegression(C=1 / (L2 * len(y)), solver="newton-cg", tol=tol, fit_intercept=False, max_iter=1000)
    return model.fit(X, y).coef_[0]


def value_and_norm(X: sp.csr_array, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """f(w) and ‖∇f(w)‖, by neither of the two."""
    eta = X @ w
    gradient = X.T @ (1 / (1 + np.exp(-eta)) - y) / len(y) + L2 * w
    return float(np.mean(np.logaddexp(0, eta) - y * eta) + L2 / 2 * (w @ w)), float(np.linalg.norm(gradient))


def largest_tol(X: sp.csr_array, y: np.ndarray) -> float:
    """The largest power of ten for scikit-learn's own rule that leaves ‖∇f‖ ≤ 1e-8."""
    for exponent in range(-4, -15, -1):
        if value_and_norm(X, y, pooled(X, y, 10.0**exponent))[1] <= TOLERANCE:
            return 10.0**exponent
    raise SystemExit("scikit-learn's newton-cg did not reach the tolerance")


def compare(features: int) -> bool:
    X, y = problem(features)
    clients, tol = split(X, y), largest_tol(X, y)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(7):
        start = time.perf_counter()
        run = federated(clients)
        middle = time.perf_counter()
        w = pooled(X, y, tol)
        seconds["ours"].append(middle - start)
        seconds["theirs"].append(time.perf_counter() - middle)
    ours, theirs = median(seconds["ours"]), median(seconds["theirs"])
    (value, norm), (other_value, other_norm) = value_and_norm(X, y, run.model.w), value_and_norm(X, y, w)
    last, growth = run.history[-1], growth_apart(features)
    in_time, in_memory = ours <= WANTED * theirs and run.converged and norm <= TOLERANCE, growth <= WANTED_GROWTH
    print(f"p = {features:,}")
    print(
        f"    FedNewtonCG {ours * 1e3:7.1f} ms, newton-cg {theirs * 1e3:7.1f} ms (tol = {tol:g}), "
        f"ratio {ours / theirs:.2f} (wanted ≤ {WANTED}) {_verdict(in_time)}"
    )
    print(f"    {last.round} rounds, {last.exchanges} exchanges; ‖g‖ {norm:.1e} and {other_norm:.1e}")
    print(f"    f − f of scikit-learn {value - other_value:+.1e}")
    print(
        f"    peak memory grows by {growth:.0f} MB (wanted ≤ {WANTED_GROWTH:.0f}, of clients with "
        f"{X.nnz * 12 / 1e6:.0f} MB of rows) {_verdict(in_memory)}"
    )
    print(f"    sent: {last.bytes_up / 1e6:.1f} MB up, {last.bytes_down / 1e6:.1f} MB down, all clients together")
    return in_time and in_memory


def _verdict(good: bool) -> str:
    return "ok" if good else "MISSED"


# ── peak memory, in a process of its own ──


def growth_apart(features: int) -> float:
    """MB by which a run raises the peak of the memory in use above what was in use before it."""
    command = [sys.executable, __file__, "--growth", str(features)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def growth(features: int) -> float:
    clients = split(*problem(features))
    federated(split(*problem(200)))  # what is imported on first use is no part of it
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else the run would use what making the data has left behind
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = _status("VmRSS")
    federated(clients)
    return (_status("VmHWM") - before) / 1e3


def _status(name: str) -> float:
    """kB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return float(line.split()[1])


if __name__ == "__main__":
    with threadpool_limits(1):
        if sys.argv[1:2] == ["--growth"]:
            print(json.dumps(growth(int(sys.argv[2]))))
        else:
            sys.exit(0 if all([compare(features) for features in (20_000, 200_000)]) else 1)
