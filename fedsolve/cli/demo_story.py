"""What the demo has to say before its table, and in which order it shows the algorithms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedsolve.loop.stopping import rounds_in_words
from fedsolve.report.tables import number

# The lines with a colour of their own, the exact methods and the best known average; all others are grey.
COLOURED = ("Newton", "FedNewtonCG", "SHED", "AGD", "Scaffold", "FedAvg")
EXACT, AVERAGE, ONCE = "Newton", "FedAvg", "DKRR"
CLOSE = 1e-6  # a distance to the pooled fit that makes no difference to anyone


def by_rounds(rows: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows of the table: first those that reach the pooled fit, by their rounds; then the others, the nearest
    first; last those that did not run."""

    def place(row: Mapping[str, object]) -> tuple[bool, bool, float, float]:
        rounds, distance = row.get("rounds"), _distance(row)
        close = distance <= CLOSE
        return (
            rounds is None,
            not close,
            float(rounds) if close and isinstance(rounds, int) else 0.0,
            distance if math.isfinite(distance) else math.inf,
        )

    return sorted(rows, key=place)


def named_message(row: Mapping[str, object]) -> str:
    """Why an algorithm did not run, with its name once."""
    name, message = str(row["algorithm"]), str(row["message"])
    return f"{message}." if message.startswith(f"{name} ") else f"{name}: {message}."


def drawn_order(labels: Sequence[str]) -> list[str]:
    """The lines of the figure: those with a colour, then the rest."""
    return [*(name for name in COLOURED if name in labels), *(name for name in labels if name not in COLOURED)]


def story(patients: int, hospitals: int, rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The result in a few sentences, each true of these rows."""
    found = {str(row["algorithm"]): row for row in rows}
    said = [
        f"{_in_words(hospitals)} invented hospitals share {patients} patients. The patients are real (scikit-learn's "
        "breast cancer data), the hospitals are made up: they differ in size and in their share of malignant tumours. "
        "None gives its rows away, and together they want the logistic regression that a fit to all rows in one place "
        "would give."
    ]
    exact, average, once = (found.get(name, {}) for name in (EXACT, AVERAGE, ONCE))
    if _distance(exact) <= CLOSE:
        said.append(
            f"{EXACT}'s method finds it: after {_rounds(exact)}, in which the hospitals send nothing but sums over "
            "their rows, its coefficients equal those of the pooled fit (they differ by "
            f"{number(_distance(exact), 2)}, relatively)."
        )
    if CLOSE < _distance(average) < math.inf:
        plain = f", and the average of their own fits ({ONCE}) {_distance(once):.0%}"
        said.append(
            f"Averaging models that each hospital computes by itself does not: after {_rounds(average)}, the "
            f"coefficients of {AVERAGE} are still {_distance(average):.0%} away from it"
            f"{plain if CLOSE < _distance(once) < math.inf else ''}."
        )
    return said


def _distance(row: Mapping[str, object]) -> float:
    found = row.get("distance_to_pooled")
    return found if isinstance(found, float) else math.inf


def _rounds(row: Mapping[str, object]) -> str:
    count = row["rounds"]
    assert isinstance(count, int)
    words = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
    return f"{words[count]} rounds" if count in words else rounds_in_words(count)


def _in_words(count: int) -> str:
    return {2: "Two", 3: "Three", 4: "Four", 5: "Five"}.get(count, str(count))
