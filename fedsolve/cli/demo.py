"""`fedsolve demo`: four invented hospitals, one model, every algorithm, and the fit of the pooled data beside them.

The data is scikit-learn's: 569 tumours, malignant or benign. Each hospital sees its own mixture of them, so
their own fits differ, and averaging does not find what the pooled data says.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from fedsolve import data
from fedsolve.cli.console import Interrupted, OnRound, emit, escape, progress_bar
from fedsolve.cli.demo_story import by_rounds, drawn_order, named_message, story
from fedsolve.cli.run import failed_row
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.federation.client import Client
from fedsolve.loop.history import Row, Run
from fedsolve.loop.run import run as run_algorithm
from fedsolve.losses import Logistic
from fedsolve.models.scores import score
from fedsolve.report import RunFolder, summarise, tables
from fedsolve.report import run_page as pages
from fedsolve.report.figures import convergence
from fedsolve.runfiles import registry
from fedsolve.typing import Array

# How many malignant and benign tumours each hospital has.
HOSPITALS = {"hospital-A": (120, 25), "hospital-B": (60, 52), "hospital-C": (24, 250), "hospital-D": (8, 30)}
L2 = 1e-2
TOLERANCE = 1e-10
COLUMNS = (
    *("algorithm", "status", "rounds", "bytes_up", "bytes_down"),
    *("gradient_norm", "distance_to_pooled", "accuracy", "seconds"),
)


@dataclass(frozen=True)
class Plan:
    """How far an algorithm may go here, and the hyper-parameters that suit this problem."""

    rounds: int = 200
    fields: Mapping[str, object] = field(default_factory=dict)


# Many local steps make few rounds of methods that can bear them. Those not named here get the plain plan.
PLANS = {
    "AGD": Plan(rounds=600),
    "Newton": Plan(rounds=20),
    "FedAvg": Plan(fields={"local": {"steps": 20}}),
    "Scaffold": Plan(rounds=300, fields={"local": {"steps": 50}}),
}
# What needs more than this problem has, and where to read on.
ELSEWHERE = {
    "FFGB": "it adds up trees or other functions, and this problem is about weights; docs/boosting.md shows it",
    "FFGBDistill": "it learns networks, with unlabelled rows at the server; docs/networks.md shows it",
    "FedAvgDistill": "it learns networks, with unlabelled rows at the server; docs/networks.md shows it",
    "FedLRGD": "it learns from samples of the server's own too, and here only the hospitals have patients",
}


@dataclass(frozen=True)
class Pooled:
    """The fit of all data in one place: what federated learning is to reach without it."""

    w: Array
    value: float
    gradient_norm: float
    accuracy: float


def demo(output: Path, seed: int, as_json: bool) -> int:
    """Every algorithm there is, on the same problem."""
    clients, X, y = hospitals(seed)
    pooled = fit_pooled(X, y, L2)
    folder = RunFolder.open(output, force=True)
    rows: list[dict[str, object]] = []
    runs: dict[str, Run] = {}
    with progress_bar() as begin:
        for name in registry.names("algorithm"):
            part = folder.part(name)
            try:
                if name in ELSEWHERE:
                    raise ConfigError(ELSEWHERE[name])
                result = _run(name, clients, part, begin(name, PLANS.get(name, Plan()).rounds))
            except KeyboardInterrupt:
                raise Interrupted(f"stopped during {name}; those before it are in {folder.path}") from None
            except FedsolveError as error:
                # An algorithm may need what this problem does not have, and says so; anything else is a fault.
                status = "not applicable" if isinstance(error, ConfigError) else "error"
                part.discard()
                rows.append({**failed_row(name, error, status), "distance_to_pooled": None, "accuracy": None})
                continue
            compared = {
                "distance_to_pooled": float(np.linalg.norm(result.model.w - pooled.w) / np.linalg.norm(pooled.w)),
                "accuracy": score(result.model, result.model.predict(X), y),
            }
            rows.append({**summarise(result, name, clients), **compared})
            part.write_run(result, rows[-1])
            runs[name] = result
    failed = any(row["status"] == "error" for row in rows)  # that one diverges is a result
    sites = [_described(client) for client in clients]
    tale = story(len(y), len(clients), rows)
    summary = {
        "status": "error" if failed else "ok",
        "rows": rows,
        "hospitals": sites,
        "story": tale,
        "pooled": pooled,
        "folder": folder.path,
        "report": folder.report,
    }
    folder.write_summary(summary)
    said = (
        "“up” is what all hospitals together sent to fit the model, “down” what they received; ‖gradient‖ is 0 at the "
        "best fit. The distance is ‖w − w_pooled‖ / ‖w_pooled‖ "
        f"to scikit-learn's fit of the pooled data, whose accuracy is {pooled.accuracy:.1%}."
    )
    command = shlex.join(["fedsolve", "demo", "--seed", str(seed), "--output", str(output)])
    shown = by_rounds(rows)
    ordered = {str(row["algorithm"]): runs[str(row["algorithm"])] for row in shown if row["algorithm"] in runs}
    _write_report(folder, tale, pooled, shown, ordered, command, said)
    emit(summary, as_json, lambda console: _show(console, tale, sites, shown, said, folder))
    return 1 if failed else 0


def _run(name: str, clients: Sequence[Client], part: RunFolder, show_round: OnRound) -> Run:
    """One algorithm, as far as the demo plans for it."""
    plan = PLANS.get(name, Plan())
    loss = Logistic(l2=L2, intercept="free")
    return run_algorithm(
        registry.build("algorithm", {"name": name, "loss": loss, **plan.fields}),
        clients,
        rounds=plan.rounds,
        tolerance=TOLERANCE,
        preprocess=data.Preprocess(),
        on_round=_both(part.append, show_round),
        min_rows=0,  # they are made up: that hospital-D has few patients is part of the demo
    )


def _write_report(
    folder: RunFolder,
    tale: Sequence[str],
    pooled: Pooled,
    rows: Sequence[Mapping[str, object]],
    runs: Mapping[str, Run],
    command: str,
    said: str,
) -> None:
    title = "Breast cancer in four invented hospitals: logistic regression"
    drawn = drawn_order(list(runs))
    histories = {name: runs[name].history for name in drawn}
    figure = convergence(histories, title=title, best=pooled.value, best_name="pooled")
    folder.write_figure(figure)
    names = data.load("breast_cancer").feature_names
    described = "scikit-learn's breast_cancer, divided by `fedsolve demo`"
    about = pages.About(title, described, command, figure, feature_names=names, story=tale, drawn=drawn)
    folder.write_report(pages.comparison_page(about, rows, runs, COLUMNS, said))


def _show(
    console: Console,
    tale: Sequence[str],
    sites: Sequence[Mapping[str, object]],
    rows: Sequence[Mapping[str, object]],
    said: str,
    folder: RunFolder,
) -> None:
    console.print("[bold]Four invented hospitals that do not pool their data[/bold]")
    console.print(tables.clients(sites, tuple(sites[0])))
    for sentence in tale:
        console.print(f"\n{escape(sentence)}")
    console.print("\n[bold]Every algorithm: those that reach the pooled fit first, by their rounds[/bold]")
    console.print(tables.fitting(console, rows, COLUMNS))
    console.print(f"\n{said}")
    for row in rows:
        if row["status"] in (*tables.BAD, "not applicable"):
            console.print(escape(named_message(row)))
    console.print(
        f"The report is [bold]{escape(str(folder.report))}[/bold]; histories, ledgers and models are beside it",
        soft_wrap=True,
    )


def hospitals(seed: int = 0) -> tuple[list[Client], Array, Array]:
    """The clients, and the pooled data that nobody but this demo has."""
    loaded = data.load("breast_cancer")
    rng = np.random.default_rng(seed)
    parts: list[list[Array]] = [[] for _ in HOSPITALS]
    for label in (0, 1):  # malignant, benign
        members = rng.permutation(np.flatnonzero(loaded.y == label))
        cuts = np.cumsum([counts[label] for counts in HOSPITALS.values()])[:-1]
        for part, chunk in zip(parts, np.split(members, cuts), strict=True):
            part.append(chunk)
    given = data.Given([np.sort(np.concatenate(part)) for part in parts])
    return (
        data.partition(loaded.X, loaded.y, given, names=list(HOSPITALS), feature_names=loaded.feature_names),
        loaded.X,
        loaded.y,
    )


def fit_pooled(X: Array, y: Array, l2: float) -> Pooled:
    """scikit-learn's fit of the pooled, standardised data, polished by Newton's method in plain NumPy."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    Z = StandardScaler().fit_transform(X)
    n, p = Z.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops short of 1e-12 does not matter: the polish goes on
        fit = LogisticRegression(C=1 / (n * l2), tol=1e-12, max_iter=10_000).fit(Z, y)
    A, penalty = np.column_stack([Z, np.ones(n)]), np.append(np.full(p, l2), 0.0)
    w = np.append(fit.coef_[0], fit.intercept_)
    for _ in range(5):
        probability = 1 / (1 + np.exp(-A @ w))
        gradient = A.T @ (probability - y) / n + penalty * w
        hessian = (A.T * (probability * (1 - probability))) @ A / n + np.diag(penalty)
        w = w - np.linalg.solve(hessian, gradient)
    eta = A @ w
    gradient = A.T @ (1 / (1 + np.exp(-eta)) - y) / n + penalty * w
    value = float(np.mean(np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(penalty * w**2))
    return Pooled(w, value, float(np.linalg.norm(gradient)), float(np.mean((eta > 0) == (y == 1))))


def _both(first: OnRound, second: OnRound) -> OnRound:
    def on_round(row: Row) -> None:
        first(row)
        second(row)

    return on_round


def _described(client: Client) -> dict[str, object]:
    benign = float(np.mean(client.y))
    return {"hospital": client.name, "patients": client.n_samples, "malignant": 1 - benign, "benign": benign}
