"""What the paper prints in its Table 2: transmitted models by data set, s, target and method."""

from __future__ import annotations

METHODS = ("FFGB-Distill", "FedAvg-Distill", "FedDyn", "FedAvg")
OVER = "> 100"
# Target accuracy, then a count for each method.
TABLE2: dict[str, tuple[tuple[str, ...], ...]] = {
    "cifar10:0.1": (("0.50", "1", "4", "20", "25"), ("0.55", "3", "19", "30", "39")),
    "cifar10:0.2": (("0.54", "1", "3", "16", "18"), ("0.60", "3", "25", "24", "32")),
    "cifar10:0.3": (("0.55", "1", "3", "15", "16"), ("0.60", "3", "11", "20", "24")),
    "cifar100:0.1": (("0.20", "4", OVER, "70", OVER), ("0.25", "20", OVER, OVER, OVER)),
    "cifar100:0.2": (("0.20", "1", "81", "23", "74"), ("0.25", "17", OVER, "37", OVER)),
    "cifar100:0.3": (("0.20", "1", "66", "19", "25"), ("0.25", "7", "95", "29", "40")),
    "emnist-l:0.1": (("0.89", "8", OVER, "93", OVER),),
    "emnist-l:0.2": (("0.89", "5", OVER, "68", OVER),),
    "emnist-l:0.3": (("0.89", "3", OVER, "43", OVER),),
    "emnist-d:0.1": (("0.99", "4", OVER, OVER, OVER),),
    "emnist-d:0.2": (("0.99", "4", OVER, OVER, OVER),),
    "emnist-d:0.3": (("0.99", "4", OVER, OVER, OVER),),
}


def printed(setting: str, what: str, place: int) -> str | None:
    """What the table says of a setting: its "target", or the count of a method; None where it has no such row. A
    setting with one target has it in the second place, that of the higher one."""
    rows = TABLE2[setting]
    index = place - (2 - len(rows))
    if index < 0:
        return None
    return dict(zip(("target", *METHODS), rows[index], strict=True))[what]
