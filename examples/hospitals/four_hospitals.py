"""Four hospitals and a server on this machine, connected by mutual TLS, fit one model by three algorithms.

Each hospital has its own file, its own site file and its own processes, as it would have on its own premises. The
results are compared with the fit of the pooled rows, which a real federation could not have, and with the same run in
one process. With the heart data (FEDSOLVE_DATA) these are four real hospitals; without, breast cancer divided by four.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.errors import FedsolveError
from fedsolve.report.output_folder import LEDGER
from fedsolve.runfiles.toml_writer import dumps

NAMES = ("arden", "bryn", "corrie", "dale")
USER = "ann@example.org"
LOSS = {"name": "Logistic", "l2": 0.01, "intercept": "free"}
ALGORITHMS = ("Newton", "FedNewtonCG", "SHED")
EXACT = 1e-8  # how near to the pooled fit, relative to its length
LEAVING = 20.0  # seconds for a daemon to leave


@dataclass(frozen=True)
class Hospitals:
    """The data: rows and columns of all hospitals, and what the columns are."""

    columns: list[dict[str, Any]]
    rows: dict[str, list[list[str]]]

    @property
    def header(self) -> list[str]:
        return [*(str(column["name"]) for column in self.columns), "ill"]


def heart() -> Hospitals:
    """Four real hospitals, with missing cells, which are imputed by the mean over all of them."""
    data = fs.data.load("heart")
    names = list(data.feature_names)
    numbers, kinds = ("age", "trestbps", "thalach", "oldpeak"), {"sex": ["0", "1"], "exang": ["0", "1"]}
    columns: list[dict[str, Any]] = [{"name": name} for name in numbers]
    columns += [{"name": name, "categories": kinds[name], "drop_first": True, "unseen": "zeros"} for name in kinds]
    rows: dict[str, list[list[str]]] = {}
    for name, group in zip(NAMES, dict.fromkeys(data.groups.tolist()), strict=True):
        chosen = data.groups == group
        table = [data.X[chosen][:, names.index(str(column["name"]))] for column in columns]
        rows[name] = [_cells(row, y) for *row, y in zip(*table, data.y[chosen], strict=True)]
    return Hospitals(columns, rows)


def breast_cancer() -> Hospitals:
    """The first ten columns, divided at random."""
    data = fs.data.load("breast_cancer")
    columns = [{"name": name.replace(" ", "_")} for name in data.feature_names[:10]]
    clients = fs.data.partition(data.X[:, :10], data.y, fs.data.IID(), clients=4, seed=0)
    rows = {
        name: [_cells(row, y) for row, y in zip(client.X, client.y, strict=True)]
        for name, client in zip(NAMES, clients, strict=True)
    }
    return Hospitals(columns, rows)


def _cells(row: Sequence[Any], y: float) -> list[str]:
    return [*("" if _is_missing(cell) else f"{float(cell):.17g}" for cell in row), "yes" if y else "no"]


def _is_missing(cell: Any) -> bool:
    return cell is None or cell == "" or float(cell) != float(cell)


# ── files ──


def write_sites(folder: Path, data: Hospitals) -> dict[str, Path]:
    """Each hospital's data file and site file."""
    files = {}
    for name, rows in data.rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([data.header, *rows])
        declared = [{key: one[key] for key in ("name", "categories") if key in one} for one in data.columns]
        tables = {
            "name": name,
            "store": f"store-{name}",
            "data": {"file": f"{name}.csv", "target": "ill", "classes": ["no", "yes"]},
            "schema": declared,
        }
        files[name] = folder / f"{name}.toml"
        files[name].write_text(dumps(tables))
    return files


def write_project(folder: Path, port: int) -> Path:
    """Who takes part."""
    tables = {
        "name": "hospitals",
        "server": {"host": "localhost", "port": port},
        "sites": [{"name": name} for name in NAMES],
        "users": [{"name": USER, "role": "lead"}],
    }
    (folder / "project.toml").write_text(dumps(tables))
    return folder / "project.toml"


def write_run(folder: Path, algorithm: str, data: Hospitals) -> Path:
    """The server's half of a run file."""
    tables = {
        "sites": {"names": list(NAMES), "target": "ill"},
        "preprocess": {"schema": data.columns},
        "algorithm": {"name": algorithm, "loss": LOSS},
        "run": {"rounds": 100, "tolerance": 1e-10},
    }
    (folder / f"{algorithm}.toml").write_text(dumps(tables))
    return folder / f"{algorithm}.toml"


# ── processes ──


def command(*arguments: object) -> list[str]:
    """A command of fedsolve."""
    return [sys.executable, "-m", "fedsolve", *map(str, arguments)]


@contextlib.contextmanager
def federation(folder: Path, files: dict[str, Path]) -> Iterator[Path]:
    """Provision, start the server and the sites, and end them all, whatever happens; yields the user's kit."""
    kits = folder / "kits"
    project = write_project(folder, free_port())
    subprocess.run(command("provision", project, "--output", kits), check=True, stdout=subprocess.DEVNULL)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for which in (["server", kits / "localhost"], *(["site", kits / name, files[name]] for name in NAMES)):
            started.append(subprocess.Popen(command(*which), stderr=subprocess.DEVNULL, start_new_session=True))
        yield kits / USER
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        for one in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(LEAVING)
            if one.poll() is None:
                one.kill()
                one.wait()


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return int(end.getsockname()[1])


def submit(run: Path, kit: Path, output: Path) -> dict[str, Any]:
    """`fedsolve submit`; returns its summary."""
    done = subprocess.run(
        command("submit", run, "--kit", kit, "--output", output, "--json"), stdout=subprocess.PIPE, check=False
    )
    said: dict[str, Any] = json.loads(done.stdout)
    if done.returncode != 0:
        raise SystemExit(f"{run.name}: {said['message']}")
    return said


# ── the comparison ──


def in_process(algorithm: str, folder: Path, data: Hospitals) -> fs.Run:
    """The same run as a simulation."""
    schema = fs.data.Schema.from_plain(data.columns)
    read = fs.data.load_sites(
        {name: folder / f"{name}.csv" for name in NAMES}, target="ill", classes=["no", "yes"], schema=schema
    )
    chosen = getattr(fs, algorithm)(fs.Logistic(l2=LOSS["l2"], intercept="free"))
    return fs.run(chosen, read.clients, preprocess=fs.data.Preprocess(schema), rounds=100, tolerance=1e-10)


def pooled_distance(model: Any, here: fs.Run, folder: Path, data: Hospitals) -> float:
    """How far a model is from the fit of all rows together, relative to the length of that one."""
    schema = fs.data.Schema.from_plain(data.columns)
    read = fs.data.load_sites(
        {name: folder / f"{name}.csv" for name in NAMES}, target="ill", classes=["no", "yes"], schema=schema
    )
    X = np.concatenate([here.model.transform.apply(client.X) for client in read.clients])
    y = np.concatenate([client.y for client in read.clients])
    fitted = pooled_fit(X, y, float(LOSS["l2"]))
    return float(np.linalg.norm(model.w - fitted) / np.linalg.norm(fitted))


def pooled_fit(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Newton's method on the pooled rows, in plain NumPy: mean loss + l2/2 ‖w‖², the intercept, last, left free."""
    A = np.column_stack([X, np.ones(len(X))])
    penalty = np.append(np.full(X.shape[1], l2), 0.0)
    w = np.zeros(A.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-A @ w))
        w = w - np.linalg.solve(
            (A * (p * (1 - p))[:, None]).T @ A / len(A) + np.diag(penalty), A.T @ (p - y) / len(A) + penalty * w
        )
    return w


def algorithm_lines(path: Path) -> list[list[str]]:
    """What the algorithm sent: the lines of a ledger, without those that only measure or set up."""
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    purpose = header.index("purpose")
    return [line for line in lines if line[purpose] == "algorithm"]


def ledger_of(run: fs.Run) -> list[list[str]]:
    """The same of a run in this process."""
    return [[str(cell) for cell in entry] for entry in run.ledger.entries() if entry.purpose == "algorithm"]


def compare(algorithm: str, folder: Path, kit: Path, data: Hospitals) -> bool:
    """Run one algorithm between the sites, print what came of it, and say whether it is right."""
    began = time.monotonic()
    output = folder / "runs" / algorithm
    summary = submit(write_run(folder, algorithm, data), kit, output)
    seconds = time.monotonic() - began
    model, here = fs.load_model(output / "model.npz"), in_process(algorithm, folder, data)
    distance = pooled_distance(model, here, folder, data)
    same, lines = bool(np.array_equal(model.w, here.model.w)), algorithm_lines(output / LEDGER) == ledger_of(here)
    print(f"\n{algorithm}: {summary['status']} after {summary['rounds']} rounds, {seconds:.0f} s from submit to report")
    for name, value in zip([*model.feature_names, "intercept"], model.w, strict=True):
        print(f"  {name:24} {value: .12f}")
    print(f"  distance to the pooled fit {distance:.1e} (at most {EXACT:g})")
    print(f"  bit-equal to the run in one process: {'yes' if same else 'NO'}")
    print(f"  the algorithm's ledger, line by line: {'equal' if lines else 'DIFFERENT'}, {len(ledger_of(here))} lines")
    return distance <= EXACT and same and lines


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--keep", type=Path, metavar="FOLDER", help="keep kits, logs and results in this folder")
    keep = asked.parse_args().keep
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        data = heart()
    except FedsolveError:
        data = breast_cancer()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory(prefix="hospitals-") as temporary:
        folder = Path(temporary) if keep is None else keep.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        files = write_sites(folder, data)
        print(", ".join(f"{name}: {len(rows)} rows" for name, rows in data.rows.items()))
        try:
            with federation(folder, files) as kit:
                right = [compare(algorithm, folder, kit, data) for algorithm in ALGORITHMS]
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return 130
    print(f"\n{'All as it should be.' if all(right) else 'Something differs.'}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
