"""What Shen et al. (2022) say of their Table 2, judged from the numbers that they print."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from fedsolve.reproduce.ffgb.printed import METHODS, OVER, TABLE2
from fedsolve.reproduce.result import Verdict

FEW = 5  # "a few communication rounds"
LEAST = 101.0  # of "> 100"
OURS, FUSED, DYNAMIC, PLAIN = METHODS


def rows(data: str = "") -> Iterator[tuple[str, dict[str, float]]]:
    """Each printed row, by setting and target; a count over 100 is infinite."""
    for setting, lines in TABLE2.items():
        for target, *counts in lines if setting.startswith(data) else ():
            numbers = [inf if count == OVER else float(count) for count in counts]
            yield f"{setting}, {target}", dict(zip(METHODS, numbers, strict=True))


def fewer(first: str, second: str, data: str = "") -> Verdict:
    """Whether the first method needs fewer models in every row that tells; not where none does."""
    told = {name: one[first] < one[second] for name, one in rows(data) if min(one[first], one[second]) < inf}
    wrong = [name for name, holds in told.items() if not holds]
    all_rows = sum(1 for _ in rows(data))
    said = f"{len(told) - len(wrong)} of {len(told)} rows that tell them apart, of {all_rows}"
    return Verdict(bool(told) and not wrong, said + (f"; not at {'; '.join(wrong)}" if wrong else ""))


def halves(first: str, second: str) -> Verdict:
    """Whether the first method needs at most half as many models in every row that tells; over 100 is at least 101."""
    shares = {name: one[first] / min(one[second], LEAST) for name, one in rows() if one[first] < inf}
    wrong = [name for name, share in shares.items() if share > 0.5]
    said = f"at most {max(shares.values()):.2f} of them"
    return Verdict(not wrong, said + (f"; more than half at {'; '.join(wrong)}" if wrong else ""))


def claims() -> dict[str, Verdict]:
    """All of them."""
    first = next(one for name, one in rows("cifar10:0.1"))[OURS]
    ours = {name: one[OURS] for name, one in rows()}
    slow = [f"{name}: {count:g}" for name, count in ours.items() if count > FEW]
    return {
        "printed: FFGB-Distill reaches 0.50 on CIFAR-10, s = 0.1, with one model": Verdict(first == 1, f"{first:g}"),
        f"printed: FFGB-Distill reaches every target within {FEW} models": Verdict(not slow, "; ".join(slow) or "all"),
        **{
            f"printed: FFGB-Distill needs fewer models than {name}": fewer(OURS, name)
            for name in (FUSED, DYNAMIC, PLAIN)
        },
        **{
            f"printed: FFGB-Distill needs at most half as many models as {name}": halves(OURS, name)
            for name in (FUSED, DYNAMIC, PLAIN)
        },
        "printed: FedDyn needs fewer models than FedAvg": fewer(DYNAMIC, PLAIN),
        "printed: FedAvg-Distill needs fewer models than FedAvg on CIFAR-10": fewer(FUSED, PLAIN, "cifar10:"),
        "printed: FedAvg-Distill needs more models than FedAvg on CIFAR-100": fewer(PLAIN, FUSED, "cifar100:"),
        "printed: … at s = 0.1, the highest heterogeneity": fewer(PLAIN, FUSED, "cifar100:0.1"),
    }
