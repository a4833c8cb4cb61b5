"""`fedsolve diagnose`: what to expect of a run file's problem, before anything is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsolve.cli.console import emit, escape
from fedsolve.diagnose import Contraction, Contractions, Heterogeneities, Heterogeneity, Regime, regime
from fedsolve.diagnose.opened import opened
from fedsolve.errors import ConfigError
from fedsolve.federation.ledger import Total
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import opened as open_federation
from fedsolve.losses import LinearLoss
from fedsolve.report.tables import number, size
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.keys import Config

MOST = 4096  # entries of w at most for a factor of each client's Hessian


@dataclass(frozen=True)
class _Asked:
    """What the clients have answered."""

    rho: Contractions | None  # None where there are too many weights
    differs: Heterogeneities
    features: int
    cost: Total


def diagnose(file: Path, steps: int, as_json: bool) -> int:
    """ρ, heterogeneity, effective dimensions and the regime of the theory, with a sentence each."""
    what = config.read(file)
    problem = problems.prepare(what, file)
    loss = _loss(problem.algorithms, file)
    asked = _ask(what, problem, loss, steps)
    rho, differs, total = asked.rho, asked.differs, asked.cost
    samples = sum(differs.samples.values())
    case = regime(min(differs.samples.values()), samples)
    said = _sentences(rho, differs, loss, case)
    title = f"{problem.data.name}, {len(problem.clients)} clients, {samples:,} samples, {asked.features} features"
    result = {
        "status": "ok",
        "data": problem.data.name,
        "clients": len(problem.clients),
        "samples": samples,
        "features": asked.features,
        "loss": repr(loss),
        "contraction": None if rho is None else _plain_rho(rho),
        "heterogeneity": {
            "data": differs.data,
            "data_scale": differs.scale,
            "data_error": differs.data_error,
            "model": differs.model,
            "model_scale": differs.model_scale,
        },
        "effective_dimension": {
            "l2": loss.l2,
            "pooled": differs.dimension,
            "error": differs.dimension_error,
            "local": differs.dimensions,
        },
        "regime": {"case": case.case, "r": 0.5, "gamma": 1.0, "iterations_help": case.iterations_help},
        "sentences": said,
        "bytes_up": total.bytes_up,
        "bytes_down": total.bytes_down,
    }

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(title)}[/bold]\n{escape(repr(loss))}\n")
        console.print(_table(differs))
        console.print()
        for sentence in said.values():
            console.print(escape(f"• {sentence[:1].upper()}{sentence[1:]}."))
        cost = f"{total.exchanges} exchanges, {size(total.bytes_up)} up, {size(total.bytes_down)} down"
        console.print(
            escape(f"\nAsking cost {cost}; it uses only sums of the clients' replies, and three numbers of each.")
        )

    emit(result, as_json, show)
    return 0


def _ask(what: Config, problem: problems.Problem, loss: LinearLoss, steps: int) -> _Asked:
    ours, theirs = Contraction(loss, steps, what.run.seed), Heterogeneity(loss, seed=what.run.seed)
    protocols = {"contraction": ours, **dict(collect("heterogeneity", theirs))}
    if problem.preprocess is not None:
        protocols.update(collect("preprocess", problem.preprocess))
    transport = problems.transport(what.run, problem.clients)
    with open_federation(transport, protocols, seed=what.run.seed, preprocess=problem.preprocess) as fed:
        shape = loss.shape(fed.features, fed.outputs)
        rho = None
        with opened("contraction", ours, fed, "in_process", what.run.seed):
            if (shape[0] if loss.separable else math.prod(shape)) <= MOST:
                rho = ours.estimate(fed)
            differs = theirs.measure(fed)
        return _Asked(rho, differs, shape[0] - (loss.intercept is not None), fed.ledger.total(None))


def _loss(algorithms: Mapping[str, object], file: Path) -> LinearLoss:
    """The loss of the file; that of the first algorithm where there are several."""
    for algorithm in algorithms.values():
        loss = getattr(algorithm, "loss", None)
        if isinstance(loss, LinearLoss):
            return loss
    raise ConfigError(f"{file}: no algorithm has a loss of a linear model, and there is nothing else to diagnose")


def _plain_rho(rho: Contractions) -> dict[str, object]:
    return {
        "rho": rho.rho,
        "error": rho.error,
        "upper": rho.upper,
        "upper_is_proved": rho.proved,
        "steps": rho.steps,
        "verdict": rho.verdict,
        "plain_rounds": rho.plain_rounds,
        "cg_rounds": rho.cg_rounds,
    }


def _sentences(rho: Contractions | None, differs: Heterogeneities, loss: LinearLoss, case: Regime) -> dict[str, str]:
    found = {
        "contraction": "there are too many features for FedNewton, which factorises a matrix of their number squared"
        if rho is None
        else rho.sentence
    }
    found |= differs.sentences()
    found["regime"] = _regime_sentence(rho, differs, loss, case)
    return found


def _regime_sentence(rho: Contractions | None, differs: Heterogeneities, loss: LinearLoss, case: Regime) -> str:
    """What Theorem 3 says from the numbers of samples alone, and whether what was measured agrees."""
    verdict = None if rho is None else rho.verdict
    if case.iterations_help:
        denied = verdict == "diverges" or not differs.sees_all or (case.case == 4 and differs.fits_differ)
    else:
        denied = verdict == "converges"
    kind = "" if loss.quadratic else "least squares and "
    theorem = (
        f"Theorem 3 of the FedNewton paper, which is of {kind}clients with one distribution (r = 1/2, γ = 1, no "
        "constants)"
    )
    if denied:
        return (
            f"{theorem}, is no guide here: going by numbers of samples alone, it puts the smallest client among those "
            f"with {case.sentence.partition(':')[0]}; what was measured says otherwise"
        )
    return f"by {theorem}, the smallest client has {case.sentence}"


def _table(differs: Heterogeneities) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("client")
    for heading in ("samples", "‖C − C_j‖ / ‖C‖", "‖w_j − w‖ / ‖w‖ in H", "N_j(λ)"):
        table.add_column(heading, justify="right")
    for name, apart in differs.data.items():
        model = "–" if differs.model is None else _ratio(differs.model[name], differs.model_scale or 0.0)
        local = differs.dimensions[name]
        table.add_row(
            escape(name),
            f"{differs.samples[name]:,}",
            _ratio(apart, differs.scale),
            model,
            "–" if local is None else number(local, 3),
        )
    table.add_row("all", f"{sum(differs.samples.values()):,}", "", "", number(differs.dimension, 3), style="bold")
    return table


def _ratio(a: float, b: float) -> str:
    return "∞" if not math.isfinite(a) else number(a / b, 3) if b else "0"
