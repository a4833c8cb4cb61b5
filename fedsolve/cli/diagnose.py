"""`fedsolve diagnose`: what to expect of a run file's problem, before anything is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsolve.cli.console import emit, escape, tell
from fedsolve.diagnose import (
    Contraction,
    Contractions,
    Heterogeneities,
    Heterogeneity,
    InputDistance,
    InputDistances,
    Regime,
    regime,
)
from fedsolve.diagnose.opened import opened
from fedsolve.errors import DataError
from fedsolve.federation.ledger import Total
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import opened as open_federation
from fedsolve.learners import WeakLearner
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
    differs: Heterogeneities | None  # None where no algorithm has a linear loss
    inputs: InputDistances | str  # or why there are none
    samples: dict[str, int]
    features: int
    cost: Total


def diagnose(file: Path, steps: int, as_json: bool) -> int:
    """ρ, heterogeneity, effective dimensions, the regime of the theory and distances of inputs, a sentence each."""
    what = config.read(file)
    problem = problems.prepare(what, file)
    tell(problem.notes)
    loss = _loss(problem.algorithms)
    asked = _ask(what, problem, loss, steps)
    samples = sum(asked.samples.values())
    said = _sentences(asked, loss)
    title = f"{problem.data.name}, {len(problem.clients)} clients, {samples:,} samples, {asked.features} features"
    result = {
        "status": "ok",
        "data": problem.data.name,
        "clients": len(problem.clients),
        "samples": samples,
        "features": asked.features,
        "loss": None if loss is None else repr(loss),
        **_plain(asked, loss),
        "sentences": said,
        "bytes_up": asked.cost.bytes_up,
        "bytes_down": asked.cost.bytes_down,
    }

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(title)}[/bold]")
        if loss is not None:
            console.print(escape(repr(loss)))
        console.print()
        console.print(_table(asked))
        console.print()
        for sentence in said.values():
            console.print(escape(f"• {sentence[:1].upper()}{sentence[1:]}."))
        cost = f"{asked.cost.exchanges} exchanges, {size(asked.cost.bytes_up)} up, {size(asked.cost.bytes_down)} down"
        console.print(
            escape(
                f"\nAsking cost {cost}; it uses only sums of the clients' replies, and of each client at most seven "
                "numbers and the direction in which its mean lies."
            )
        )

    emit(result, as_json, show)
    return 0


def _ask(what: Config, problem: problems.Problem, loss: LinearLoss | None, steps: int) -> _Asked:
    seed, distances = what.run.seed, InputDistance(seed=what.run.seed)
    protocols = dict(collect("input_distances", distances))
    if loss is not None:
        protocols["contraction"] = ours = Contraction(loss, steps, seed)
        theirs = Heterogeneity(loss, seed=seed)
        protocols.update(collect("heterogeneity", theirs))
    if problem.preprocess is not None:
        protocols.update(collect("preprocess", problem.preprocess))
    transport = problems.transport(what.run, problem.clients)
    with open_federation(transport, protocols, seed=seed, preprocess=problem.preprocess) as fed:
        rho = differs = None
        if loss is not None:
            shape = loss.shape(fed.features, fed.outputs)
            with opened("contraction", ours, fed, "in_process", seed):
                if (shape[0] if loss.separable else math.prod(shape)) <= MOST:
                    rho = ours.estimate(fed)
                differs = theirs.measure(fed)
        features = fed.features if loss is None else shape[0] - (loss.intercept is not None)
        samples = {name: info.samples for name, info in fed.info.items()}
        try:
            with fed.setting_up():
                inputs: InputDistances | str = distances.estimate(fed)
        except DataError as error:  # fewer than two clients with rows enough to compare
            inputs = str(error)
        return _Asked(rho, differs, inputs, samples, features, fed.ledger.total(None))


def _loss(algorithms: Mapping[str, object]) -> LinearLoss | None:
    """The loss of the file, that of the first algorithm where there are several; None: no linear model."""
    for algorithm in algorithms.values():
        loss = getattr(algorithm, "loss", None)
        boosts = isinstance(getattr(algorithm, "learner", None), WeakLearner)  # its loss is of functions, not weights
        if isinstance(loss, LinearLoss) and not boosts:
            return loss
    return None


def _plain(asked: _Asked, loss: LinearLoss | None) -> dict[str, object]:
    """What was found, as plain values; what has not been asked is None."""
    found: dict[str, object] = dict.fromkeys(("contraction", "heterogeneity", "effective_dimension", "regime"))
    differs, inputs = asked.differs, asked.inputs
    if differs is not None and loss is not None:
        case = _case(asked)
        found["contraction"] = None if asked.rho is None else _plain_rho(asked.rho)
        found["heterogeneity"] = {
            "data": differs.data,
            "data_scale": differs.scale,
            "data_error": differs.data_error,
            "model": differs.model,
            "model_scale": differs.model_scale,
        }
        found["effective_dimension"] = {
            "l2": loss.l2,
            "pooled": differs.dimension,
            "error": differs.dimension_error,
            "local": differs.dimensions,
        }
        found["regime"] = {"case": case.case, "r": 0.5, "gamma": 1.0, "iterations_help": case.iterations_help}
    found["input_distances"] = None
    if isinstance(inputs, InputDistances):
        found["input_distances"] = {
            "omega_tv": inputs.omega_tv,
            "omega_tv_error": inputs.omega_tv_error,
            "omega_w1": inputs.omega_w1,
            "omega_w1_error": inputs.omega_w1_error,
            "tv": inputs.tv,
            "tv_error": inputs.tv_error,
            "w1": inputs.w1,
            "w1_error": inputs.w1_error,
            "left_out": list(inputs.left_out),
            "kind": "lower bounds, with standard errors; W_1 in standard deviations of the columns",
        }
    return found


def _case(asked: _Asked) -> Regime:
    return regime(min(asked.samples.values()), sum(asked.samples.values()))


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


def _sentences(asked: _Asked, loss: LinearLoss | None) -> dict[str, str]:
    found = {}
    if asked.differs is not None and loss is not None:
        found = _linear_sentences(asked.rho, asked.differs, loss, _case(asked))
    inputs = asked.inputs
    found["inputs"] = inputs if isinstance(inputs, str) else inputs.sentence()
    return found


def _linear_sentences(
    rho: Contractions | None, differs: Heterogeneities, loss: LinearLoss, case: Regime
) -> dict[str, str]:
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


def _table(asked: _Asked) -> Table:
    differs, inputs = asked.differs, asked.inputs
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("client")
    linear = ("‖C − C_j‖ / ‖C‖", "‖w_j − w‖ / ‖w‖ in H", "N_j(λ)") if differs is not None else ()
    for heading in ("samples", *linear, "TV ≥", "W₁ ≥"):
        table.add_column(heading, justify="right")
    for name, samples in asked.samples.items():
        cells = [] if differs is None else _linear_cells(differs, name)
        table.add_row(escape(name), f"{samples:,}", *cells, *_distance_cells(inputs, name))
    cells = [] if differs is None else ["", "", number(differs.dimension, 3)]
    means = ["–", "–"]
    if isinstance(inputs, InputDistances):
        means = [f"{inputs.omega_tv:.2g}", f"{inputs.omega_w1:.2g}"]
    table.add_row("all", f"{sum(asked.samples.values()):,}", *cells, *means, style="bold")
    return table


def _linear_cells(differs: Heterogeneities, name: str) -> list[str]:
    model = "–" if differs.model is None else _ratio(differs.model[name], differs.model_scale or 0.0)
    local = differs.dimensions[name]
    return [_ratio(differs.data[name], differs.scale), model, "–" if local is None else number(local, 3)]


def _distance_cells(inputs: InputDistances | str, name: str) -> list[str]:
    if isinstance(inputs, str) or name not in inputs.tv:
        return ["–", "–"]
    pairs = ((inputs.tv, inputs.tv_error), (inputs.w1, inputs.w1_error))
    return [f"{max(bound[name], 0.0):.2f} ± {error[name]:.2f}" for bound, error in pairs]


def _ratio(a: float, b: float) -> str:
    return "∞" if not math.isfinite(a) else number(a / b, 3) if b else "0"
