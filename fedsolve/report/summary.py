"""A run in one table row: how it ended, how good it is, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedsolve.federation.client import Client
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.protocol import describe
from fedsolve.loop.history import Row, Run
from fedsolve.report.evaluation import for_summary
from fedsolve.report.output_folder import RunFolder
from fedsolve.version import __version__

NOTHING = {"bytes_up": 0, "bytes_down": 0}


def sent_by_purpose(ledger: Ledger) -> dict[str, dict[str, int]]:
    """Bytes up and down for each purpose, and under "all" their sums."""
    found: dict[str, dict[str, int]] = {}
    for entry in ledger.entries():
        for purpose in (entry.purpose, "all"):
            sums = found.setdefault(purpose, dict(NOTHING))
            sums[f"bytes_{entry.direction}"] += entry.bytes
    return {**{name: sums for name, sums in found.items() if name != "all"}, "all": found.get("all", dict(NOTHING))}


def note_later(run: Run, folder: RunFolder, summary: dict[str, Any]) -> None:
    """Add what was asked after the run to its accounts in the folder."""
    summary["sent"] = sent_by_purpose(run.all_sent())
    folder.write_ledger(run)
    folder.write_summary(summary)


def summarise(run: Run, label: str, clients: Sequence[Client] = ()) -> dict[str, Any]:
    """Plain values for summary.json, `--json` and the tables."""
    last = run.history[-1] if run.history else Row(0)
    measured = run.model_row  # not the last one, where an earlier State was handed back
    transform = getattr(run.model, "transform", None)
    gaps = [] if transform is None else transform.gaps()
    return {
        "algorithm": label,
        "status": run.status,
        "message": run.message,
        "rounds": run.rounds,
        "value": measured.value,
        "gradient_norm": measured.gradient_norm,
        "gap": measured.gap,
        "gap_is_bound": measured.gap_is_bound,
        "seconds": last.seconds,
        "exchanges": last.exchanges,
        "bytes_up": last.bytes_up,
        "bytes_down": last.bytes_down,
        "scalars_up": last.scalars_up,
        "scalars_down": last.scalars_down,
        "measure_bytes_up": last.measure_bytes_up,
        "measure_bytes_down": last.measure_bytes_down,
        "sent": sent_by_purpose(run.all_sent()),
        "held_out": for_summary(run.evaluation),
        "hyper_parameters": describe(run.algorithm),
        "seed": run.seed,
        "clients": [{"name": client.name, "samples": client.n_samples, "weight": client.weight} for client in clients],
        "missing": {name: share for name, share, _ in gaps if share > 0},  # shares of the weight, by raw column
        "unseen": {name: share for name, _, share in gaps if share > 0},
        "notices": list(run.notices),
        "version": __version__,
    }
