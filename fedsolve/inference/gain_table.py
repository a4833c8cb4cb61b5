"""What is said about federation gain: by client, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fedsolve.federation.ledger import Ledger
from fedsolve.inference.compared import LEAST_CASES
from fedsolve.inference.joining_thresholds import NoGain

Verdict = Literal["joining pays", "joining does not pay", "no clear difference", "cannot tell"]

SAME = 1e-6  # a ratio this near to 1 is none: runs are solved to a tolerance, and rounding is not evidence

# What Theorem 16's number rests on; said wherever the number is.
ASSUMES = (
    "Theorem 16 of Su, Xu and Yang, for least squares with Gaussian noise and columns of comparable scale, after many "
    "rounds. Its constants are not known and are set to 1, so the numbers are orders of magnitude. Model "
    "heterogeneity is the largest distance between two clients' true weights, in the columns after preprocessing. The "
    "noise is estimated from the held-out errors, the size of the true weights from the federated model."
)

BEYOND = 1e15  # a ratio that only rounding limits

_NO_GAIN: dict[NoGain, str] = {
    "all rows": "it has all rows",
    "no noise": "without noise its own rows are enough",
    "small weights": "the weights are so small against the noise that all rows together hardly tell them from zero",
}


@dataclass(frozen=True)
class ClientGain:
    """One client's gain by joining.

    Attributes:
        rows: Its held-out rows.
        local_error: The mean error there of its own best model; None where nothing can be said.
        federated_error: That of the federated model.
        gain: The first over the second.
        low: The lower end of the interval of the ratio of expected errors.
        high: The upper end; None where there is none.
        local_model: How the client's own model was found, or why nothing is said.
        threshold: The model heterogeneity up to which joining pays by Theorem 16, all constants set to 1; None unless
            the loss is `Squared` with one target, the run standardised its columns, and no rows are weighted.
        no_gain: Why the threshold is 0; None if it is not.
        few_cases: Whether too few held-out rows are of another class than most (or have a count above zero). Then the
            interval is too narrow, and there is no verdict.
    """

    rows: int
    local_error: float | None
    federated_error: float | None
    gain: float | None
    low: float | None
    high: float | None
    local_model: str
    threshold: float | None = None
    no_gain: NoGain | None = None
    few_cases: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether the interval lies above 1, below it, or neither; by more than a millionth."""
        if self.gain is None or self.low is None or self.few_cases:
            return "cannot tell"
        if self.low > 1 + SAME:
            return "joining pays"
        return "joining does not pay" if self.high is not None and self.high < 1 - SAME else "no clear difference"


@dataclass(frozen=True)
class FederationGains:
    """Every client's gain.

    Attributes:
        error_name: What the errors are: "mean squared error", "log-loss" or "mean deviance".
        level: How often the intervals shall hold the true ratios.
        least_rows: How many held-out rows it takes to say something.
        clients: The gains by client.
        missing: Clients that did not answer, failed, or said what cannot be true, with the reason.
        ledger: What was sent for it; with an open session, that of the run and all that was asked since.
    """

    error_name: str
    level: float
    least_rows: int
    clients: dict[str, ClientGain]
    missing: dict[str, str]
    ledger: Ledger | None = field(default=None, compare=False, repr=False)

    def sentence(self, name: str) -> str:
        """What is known of one client, for people."""
        one = self.clients[name]
        if one.verdict == "cannot tell":
            return f"{name}: cannot tell, {self._why(one)}."
        assert one.gain is not None
        alone = f"{name}: {one.verdict}."
        if one.local_error == one.federated_error == 0:
            return f"{alone} Neither model makes an error on its {one.rows} held-out rows."
        if not 1 / BEYOND < one.gain < BEYOND:
            whose = "The federated model" if one.gain > 1 else "Its own model"
            return f"{alone} {whose} makes no error on its {one.rows} held-out rows that compares with the other's."
        ends = f"{one.low:.3g} to " + ("no upper limit" if one.high is None else f"{one.high:.3g}")
        return f"{alone} Its {self.error_name} alone is {one.gain:.3g} times the federated one ({ends})."

    def _why(self, one: ClientGain) -> str:
        if not one.rows:
            return "it has no held-out rows"
        if one.few_cases:
            which = (
                "have a count above zero" if self.error_name == "mean deviance" else "are of another class than most"
            )
            return f"fewer than {LEAST_CASES} of its {one.rows} held-out rows {which}"
        if one.rows >= self.least_rows:
            return one.local_model
        return f"it has {one.rows} held-out row{'' if one.rows == 1 else 's'}, and {self.least_rows} are needed"

    def threshold_sentence(self, name: str) -> str | None:
        """Up to what model heterogeneity joining pays; None where Theorem 16 does not apply."""
        threshold, reason = self.clients[name].threshold, self.clients[name].no_gain
        if threshold is None:
            return None
        if reason is not None:
            return (
                f"{name}: Theorem 16 shows no gain from joining, even without model heterogeneity: {_NO_GAIN[reason]}."
            )
        return f"{name}: joining pays while model heterogeneity stays below about {threshold:.3g}."

    def rows(self) -> list[dict[str, object]]:
        """One row of plain values for each client, those that are missing too."""
        found: list[dict[str, object]] = [
            {
                "client": name,
                "rows": one.rows,
                "local_error": one.local_error,
                "federated_error": one.federated_error,
                "gain": one.gain,
                "low": one.low,
                "high": one.high,
                "verdict": one.verdict,
                "local_model": one.local_model,
                "threshold": one.threshold,
            }
            for name, one in self.clients.items()
        ]
        nothing = dict.fromkeys(("rows", "local_error", "federated_error", "gain", "low", "high"))
        for name, reason in self.missing.items():
            found.append({"client": name, **nothing, "verdict": "missing", "local_model": reason, "threshold": None})
        return found

    def __str__(self) -> str:
        said = [self.sentence(name) for name in self.clients]
        said += [f"{name}: missing, {reason}." for name, reason in self.missing.items()]
        thresholds = [one for name in self.clients if (one := self.threshold_sentence(name)) is not None]
        return "\n".join([*said, *thresholds, *([ASSUMES] if thresholds else [])])
