"""FedNewton, learning rates: slopes of medians on |D|, and when an error counts as learned at a rate."""

from __future__ import annotations

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.sharp import Sharp
from fedsolve.reproduce.fednewton.theorem3 import slope
from fedsolve.reproduce.tally import Tally

TOLERANCE, NEAR = 0.03, 0.05  # what a slope may exceed its exponent by, and how far it may be from it
WORSE = 2.0  # times KRR's error: no longer learned at its rate

Case = tuple[Sharp, int, float, float]  # the problem, |D|, the exponent of |D_j| and its constant; 1, 1 is one client


def clients_of(total: int, share: float, even: bool = False, constant: float = 1) -> int:
    """m = |D|^(1 − share) over the constant; even where clients differ in pairs."""
    m = float(total ** (1 - share)) / constant
    return 2 * max(1, round(m / 2)) if even else max(1, round(m))


class Slopes:
    """Slopes of the medians on |D|."""

    def __init__(self, tally: Tally[Case], tried: list[Case]) -> None:
        self.tally, self.tried = tally, tried

    def medians(self, of: Sharp, share: float, name: str, constant: float = 1) -> dict[int, float]:
        some = [case for case in self.tried if case[0] == of and case[2:] == (share, constant)]
        return {case[1]: self.tally.measured(case, name).median for case in some}

    def of(self, of: Sharp, share: float, name: str, constant: float = 1) -> float:
        found = self.medians(of, share, name, constant)
        return slope(list(found), list(found.values()))

    def over(self, of: Sharp, share: float, names: tuple[str, str], constant: float = 1) -> dict[int, float]:
        """The median of the first over that of the second, by |D|."""
        one, two = (self.medians(of, share, name, constant) for name in names)
        return {total: one[total] / two[total] for total in one}

    def worst(self, of: Sharp, share: float, name: str, constant: float = 1) -> float:
        """The largest median over KRR's."""
        return max(self.over(of, share, (name, "KRR"), constant).values())

    def learned(self, of: Sharp, share: float, name: str, constant: float = 1) -> tuple[bool, str]:
        """Whether it falls like the theorem's rate, at most `WORSE` times KRR's error, and what was found."""
        found, worst = (measure(of, share, name, constant) for measure in (self.of, self.worst))
        said = f"the median error falls like |D|^{found:.3f}; the theorem's exponent is {of.exponent:.3f}; it is up "
        said += f"to {worst:.3g} times KRR's"
        return found <= of.exponent + TOLERANCE and worst <= WORSE, said

    def on_krr(self, of: Sharp, share: float, at: str, claims: Claims, constant: float = 1) -> float:
        """Claims that KRR learns at the theorem's rate and no faster. Returns its exponent."""
        found = self.of(of, share, "KRR", constant)
        said = f"the median error falls like |D|^{found:.3f}; the theorem's exponent is {of.exponent:.3f}"
        claims.add(f"{at}: KRR learns at the optimal rate", found <= of.exponent + TOLERANCE, said)
        claims.add(f"{at}: KRR learns no faster than it", found >= of.exponent - NEAR, said)
        return found
