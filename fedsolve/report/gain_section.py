"""Who gains by joining: the table for the terminal, and the section of a report."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from fedsolve.inference import FederationGains
from fedsolve.inference.compared import OWN_MODELS
from fedsolve.inference.gain_table import ASSUMES
from fedsolve.inference.own_best_model import BY_FOLDS
from fedsolve.report.html_parts import Html, badge, element, long_table, paragraph, section
from fedsolve.report.tables import listed, number, plain_table
from fedsolve.text import printable

TITLE = "Who gains by joining"
_LOOKS = {"joining pays": True, "joining does not pay": False}


def heading(gains: FederationGains) -> str:
    """What the columns are."""
    return (
        f"{gains.error_name[:1].upper()}{gains.error_name[1:]} on held-out rows. Gain: that of the client's own best "
        "model over that of the federated one, so above 1 speaks for joining"
    )


def gain_table(gains: FederationGains) -> Table:
    """For the terminal."""
    made = plain_table()
    for name, right in _headings(gains):
        made.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in gains.rows():
        good = _LOOKS.get(str(row["verdict"]))
        style = "green" if good else "red" if good is False else ""
        made.add_row(*(Text(printable(cell)) for cell in _cells(row)), Text(str(row["verdict"]), style=style))
    return made


def notes(gains: FederationGains) -> list[str]:
    """What the table does not say: who cannot be told, whose own model is none of the usual, who is missing, and the
    thresholds. Clients of which the same is said share a sentence."""
    of: dict[str, list[str]] = {}
    for name, one in gains.clients.items():
        if one.verdict == "cannot tell":
            of.setdefault(gains.sentence(name).removeprefix(name), []).append(name)
    for name, one in gains.clients.items():
        if one.verdict != "cannot tell" and one.local_model != OWN_MODELS[BY_FOLDS]:
            of.setdefault(f", its own model: {one.local_model}.", []).append(name)
    for name, reason in gains.missing.items():
        of.setdefault(f", missing: {reason}.", []).append(name)
    said = [
        listed(names) + (what if len(names) == 1 else what.replace("tell, it has", "tell, each has"))
        for what, names in of.items()
    ]
    thresholds = [line for name in gains.clients if (line := gains.threshold_sentence(name)) is not None]
    return [*said, *thresholds, *([ASSUMES] if thresholds else [])]


def gain_section(gains: FederationGains | str) -> Html:
    """For a report; of a text, that it is why there are none."""
    if isinstance(gains, str):
        said = printable(gains)
        return section(TITLE, paragraph(badge("not known", False), f" {said[:1].upper()}{said[1:]}."))
    rows = [
        [*_cells(row), badge(str(row["verdict"]), _LOOKS[str(row["verdict"])])]
        if row["verdict"] in _LOOKS
        else [*_cells(row), str(row["verdict"])]
        for row in gains.rows()
    ]
    found = notes(gains)
    points = element("ul", *(element("li", one) for one in found)) if found else ""
    shown = long_table(_headings(gains), rows, label="Who gains, by site")
    return section(TITLE, paragraph(f"{heading(gains)}.", kind="quiet"), shown, points)


def _headings(gains: FederationGains) -> list[tuple[str, bool]]:
    level = f"{100 * gains.level:g} % interval"
    numbers = ("held-out rows", "alone", "federated", "gain", level)
    return [("client", False), *((name, True) for name in numbers), ("verdict", False)]


def _cells(row: dict[str, object]) -> list[str]:
    def written(key: str, digits: int = 3) -> str:
        value = row[key]
        return number(value, digits) if isinstance(value, float) else "–"

    low, high = row["low"], row["high"]
    interval = "–" if low is None else f"{written('low')} … {'∞' if high is None else written('high')}"
    held = "–" if row["rows"] is None else str(row["rows"])
    return [
        str(row["client"]),
        held,
        written("local_error", 4),
        written("federated_error", 4),
        written("gain"),
        interval,
    ]
