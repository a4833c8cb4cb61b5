"""The four methods that the paper compares, and what its experiments have in common."""

from __future__ import annotations

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep

PAPER = "Su, Xu and Yang (2023)"
ETA, SIGMA = 0.1, 0.5  # step size of every experiment (section 7.1), standard deviation of the noise
ABOUT = 0.25  # "about" and "roughly" mean within this share, as in the other papers' experiments
ALIKE = 0.05  # "almost identical" and "indistinguishable": methods differ by at most this share


def methods(step_size: float = ETA) -> dict[str, Method]:
    """FedAvg with s local steps, by s, and FedProx."""
    steps = {f"s = {s}": LocalSteps(step_size, s) for s in (1, 5, 10)}
    return {**steps, "FedProx": ProximalStep(step_size)}
