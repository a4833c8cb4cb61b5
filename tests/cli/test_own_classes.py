"""Algorithms, losses, maps and the like of one's own, by import path, in run files of a simulation; nowhere else."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import fedsolve as fs
from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.features import FeatureMap
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.networks import Architecture
from fedsolve.plain import Reader
from fedsolve.runfiles import problem, registry, run_file
from tests.cli.conftest import Command

MODULE = '''
"""Gradient descent, the pseudo-Huber loss and sines: none of them is fedsolve's."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedsolve as fs
from fedsolve.data import Scheme
from fedsolve.data.fitted_transform import Transform
from fedsolve.features import FeatureMap
from fedsolve.features.base import dense
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Descent:
    """Gradient descent with a fixed step size."""

    loss: LinearLoss
    eta: float = 0.5

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    @fs.client_step
    def local_gradient(self, client: fs.Client, w: Array) -> Array:
        return self.loss.gradient(client, w)

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: fs.Federation, state: State) -> State:
        return State(state.w - self.eta * fed.mean(self.local_gradient, w=state.w))

    def model(self, state: State) -> fs.Model:
        return self.loss.model(state.w)


@dataclass(frozen=True, eq=False)
class Doubled(fs.Model):
    """A kind of model that only this module knows."""

    w: Array
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None

    kind = "doubled by the tests"

    def predict(self, X: Array) -> Array:
        return 2.0 * (self.prepared(X) @ self.w)


@dataclass(frozen=True)
class DoublingDescent(Descent):
    """The same, with a model of a kind of its own."""

    def model(self, state: State) -> fs.Model:
        return Doubled(state.w)


@dataclass(frozen=True)
class PseudoHuber(LinearLoss):
    """δ² (√(1 + (r/δ)²) − 1)."""

    delta: float = 1.0

    curvature_bound: ClassVar[float] = 1.0

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return self.delta**2 * (xp.sqrt(1 + ((eta - y) / self.delta) ** 2) - 1)

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return (eta - y) / xp.sqrt(1 + ((eta - y) / self.delta) ** 2)

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return (1 + ((eta - y) / self.delta) ** 2) ** -1.5

    def check(self, client: fs.Client) -> None:
        pass

    def model(self, w: Array) -> fs.LinearModel:
        return fs.LinearModel(w, self.intercept is not None, "identity", features=self.features)


@dataclass(frozen=True)
class Sines(FeatureMap):
    """The sine of each column."""

    frequency: float = 1.0

    def dimension(self, d: int) -> int:
        return d

    def block(self, X: Array) -> Array:
        X = dense(X)
        return namespace(X).sin(self.frequency * X)


@dataclass(frozen=True)
class EveryThird(Scheme):
    """Rows dealt in turn."""

    def split(self, y: Array, clients: int, rng: np.random.Generator, *, groups: Array | None = None) -> list[Array]:
        return [np.arange(first, len(y), clients) for first in range(clients)]


class Bare:
    """No dataclass."""


@dataclass
class Thawed:
    """Not frozen."""

    loss: LinearLoss


@dataclass(frozen=True)
class Half:
    """No algorithm."""

    loss: LinearLoss

    def start(self, fed: fs.Federation) -> State:
        return State(np.zeros(1))


@dataclass(frozen=True)
class Unfinished(FeatureMap):
    def dimension(self, d: int) -> int:
        return d


number = 3
'''
HEAD = """
[data]
dataset = "diabetes"

[partition]
scheme = "iid"
clients = 3

[preprocess]

[run]
rounds = 300
tolerance = 1e-6

[output]
figures = false
"""

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _as_in_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules and the Python path as they were before: a command is a process of its own."""
    before, path = set(sys.modules), list(sys.path)
    kinds = (fs.models.base._KINDS, FeatureMap.known)
    known = [dict(one) for one in kinds]
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and "site-packages" not in str(sys.modules[name].__file__):
            del sys.modules[name]
    for one, old in zip(kinds, known, strict=True):
        one.clear()
        one.update(old)


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """A run file in a folder of its own, with the module beside it."""

    def write(table: str, module: str = MODULE, name: str = "own_module.py", head: str = HEAD) -> Path:
        folder = tmp_path / "project"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(module, encoding="utf-8")
        (folder / "own.toml").write_text(head + table, encoding="utf-8")
        return folder / "own.toml"

    return write


DESCENT = """
[algorithm]
name = "own_module:Descent"
eta = 0.4
loss = { name = "Squared", l2 = 0.1 }
"""
ROBUST = """
[algorithm]
name = "Newton"
loss = { name = "own_module:PseudoHuber", l2 = 0.1, delta = 40, intercept = "free" }
"""


def test_an_algorithm_beside_the_run_file(command: Command, written: Write) -> None:
    outcome = command("run", written(DESCENT), "--json", "-o", "out")
    assert outcome.status == 0, outcome.err
    assert (outcome.json["algorithm"], outcome.json["status"]) == ("Descent", "converged")
    assert outcome.json["hyper_parameters"].startswith("Descent(loss=Squared(")
    newton = command("run", written(DESCENT.replace("own_module:Descent", "Newton").replace("eta = 0.4", "")), "--json")
    assert outcome.json["value"] == pytest.approx(newton.json["value"], rel=1e-9)


def test_a_loss_is_minimised_by_the_librarys_newton(command: Command, written: Write) -> None:
    """Against SciPy on the pooled rows."""
    outcome = command("run", written(ROBUST), "--json", "-o", "out")
    assert (outcome.status, outcome.json["status"]) == (0, "converged"), outcome.err
    data = fs.data.load("diabetes")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)

    def objective(w: np.ndarray) -> float:
        r = (X @ w[:-1] + w[-1] - data.y) / 40
        return float(40**2 * np.mean(np.sqrt(1 + r**2) - 1) + 0.05 * w[:-1] @ w[:-1])

    best = minimize(objective, np.zeros(11), method="BFGS", options={"gtol": 1e-7}).fun
    assert outcome.json["value"] == pytest.approx(best, rel=1e-9)


def test_a_map_within_a_shared_loss_and_in_a_grid(command: Command, written: Write) -> None:
    file = written(
        """
[loss]
name = "Squared"
l2 = 0.1
intercept = "free"
features = { name = "own_module:Sines", frequency = 0.5 }

[[algorithms]]
name = "Newton"

[[algorithms]]
name = "own_module:Descent"
grid = { eta = [0.1, 0.3] }
"""
    )
    outcome = command("compare", file, "--json", "-o", "out")
    assert outcome.status == 0, outcome.err
    assert [row["algorithm"] for row in outcome.json["rows"]] == ["Newton", "Descent, eta 0.1", "Descent, eta 0.3"]
    assert outcome.json["rows"][2]["value"] == pytest.approx(outcome.json["rows"][0]["value"], rel=1e-6)


def test_a_partition_scheme_and_a_warm_start(command: Command, written: Write) -> None:
    start = 'warm_start = { name = "own_module:Descent", rounds = 3 }'
    head = HEAD.replace('"iid"', '"own_module:EveryThird"').replace("[run]", f"[run]\n{start}")
    outcome = command("run", written(DESCENT, head=head), "--json")
    assert outcome.status == 0, outcome.err
    assert [client["samples"] for client in outcome.json["clients"]] == [148, 147, 147]
    assert outcome.json["warm_start"]["algorithm"] == "Descent"


def test_a_logistic_loss_of_ones_own_gets_its_classes_as_0_and_1(command: Command, written: Write) -> None:
    module = """
from dataclasses import dataclass

import fedsolve as fs


@dataclass(frozen=True)
class Mine(fs.Logistic):
    pass
"""
    table = '[algorithm]\nname = "Newton"\nloss = { name = "own_module:Mine", l2 = 0.01, intercept = "free" }\n'
    head = HEAD.replace('"diabetes"', '"iris"\npositive = "virginica"')
    outcome = command("run", written(table, module, head=head), "--json")
    assert (outcome.status, outcome.json["status"]) == (0, "converged"), outcome.err


def test_a_package_and_a_folder_that_the_run_file_names(command: Command, written: Write) -> None:
    table = DESCENT.replace("own_module:", "package.inner:") + '\n[modules]\nfolder = "code"\n'
    outcome = command("run", written(table, name="code/package/inner.py"), "--json")
    assert outcome.status == 0, outcome.err


def test_the_copy_of_the_run_file_finds_the_module_from_anywhere(
    command: Command, written: Write, tmp_path: Path
) -> None:
    first = command("run", written(DESCENT), "--json", "-o", "out")
    copy = tmp_path / "out" / "config.toml"
    assert str(tmp_path / "project") in copy.read_text(encoding="utf-8")
    assert command("run", copy, "--json", "-o", "again").json["value"] == first.json["value"]


def test_resuming(command: Command, written: Write) -> None:
    file = written(DESCENT, head=HEAD.replace("rounds = 300", "rounds = 4\ncheckpoint_every = 2"))
    short = command("run", file, "--json", "-o", "out")
    assert short.json["rounds"] == 4
    file.write_text(file.read_text().replace("rounds = 4", "rounds = 8"), encoding="utf-8")
    resumed = command("run", file, "--json", "-o", "out", "--resume")
    assert command("run", file, "--json", "-o", "whole").json["value"] == resumed.json["value"]


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_worker_processes_find_class_and_model_kind(
    command: Command, written: Write, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """Also the kind of the model, by which held-out rows are judged at the clients."""
    table = DESCENT.replace("Descent", "DoublingDescent") + "[evaluation]\n"
    head = HEAD.replace("rounds = 300", "rounds = 3")
    monkeypatch.setattr("fedsolve.federation.transports.pool.is_alone", lambda: start == "fork")
    here = command("run", written(table, head=head), "--json").json
    file = written(table, head=head.replace("[run]", '[run]\ntransport = "processes"\nworkers = 2'))
    there = command("run", file, "--json", "-o", "there")
    assert there.status == 0, there.err
    assert there.json["value"] == here["value"]
    assert there.json["held_out"] == here["held_out"]
    assert not here["held_out"].get("missing")


def test_a_model_with_a_map_of_ones_own_is_read_where_the_map_is_known(
    command: Command, written: Write, tmp_path: Path
) -> None:
    """A model file is data: it never leads to an import."""
    file = written(DESCENT.replace("l2 = 0.1", 'l2 = 0.1, features = "own_module:Sines"'))
    assert command("run", file, "-o", "out").status == 0
    X = fs.data.load("diabetes").X
    assert fs.load_model(tmp_path / "out" / "model.npz").predict(X).shape == (442,)
    del FeatureMap.known["Sines"], sys.modules["own_module"]
    assert "Sines" in command("predict", "out", "diabetes").sentence
    assert "own_module" not in sys.modules


# ── what leads nowhere ──


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such:Descent", r"there is no module no_such, neither on the Python path nor in the folder .*project$"),
        ("own_module.inner:Descent", r"there is no module own_module.inner, neither "),
        ("own_module:Descents", r"own_module \(.*own_module.py\) has no class Descents; its classes are: .*Descent, "),
        ("own_module:number", r"own_module:number is not a class, but of the type int$"),
        (
            "own_module:Bare",
            r"is not a frozen dataclass, as an algorithm is: write @dataclass\(frozen=True\) above it$",
        ),
        ("own_module:Thawed", r"own_module:Thawed is not a frozen dataclass, as an algorithm is: "),
        ("own_module:Half", r"own_module:Half is not an algorithm: it has no round and no model$"),
        ("own_module:Sines", r"own_module:Sines is not an algorithm: it has no start and no round and no model$"),
        ("own_module:", r"an import path is written package.module:Class$"),
        (":Descent", r"an import path is written package.module:Class$"),
        ("../own_module:Descent", r"an import path is written package.module:Class$"),
        ("own_module.py:Descent", r"there is no module own_module.py, neither "),
    ],
)
def test_an_algorithm_that_is_not_there(command: Command, written: Write, path: str, said: str) -> None:
    outcome = command("run", written(DESCENT.replace("own_module:Descent", path)))
    assert outcome.status == 2
    assert "own.toml: algorithm, '" in outcome.sentence
    assert re.search(said, outcome.sentence), outcome.sentence


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"Squared"', '"own_module:Sines"', "algorithm.loss, 'own_module:Sines': own_module:Sines is not a loss"),
        ("l2 = 0.1", 'l2 = 0.1, features = "own_module:Descent"', "is not a feature map: it does not derive from"),
        ("l2 = 0.1", 'l2 = 0.1, features = "own_module:Unfinished"', "is not whole: a feature map also has block"),
        ("eta = 0.4", "etta = 0.4", "algorithm.etta is not known, did you mean 'eta'? Descent takes: loss (required)"),
        ("eta = 0.4", 'eta = "fast"', "algorithm.eta must be a number, got 'fast'"),
    ],
)
def test_a_part_that_does_not_fit(command: Command, written: Write, old: str, new: str, said: str) -> None:
    outcome = command("run", written(DESCENT.replace(old, new)))
    assert (outcome.status, said in outcome.sentence) == (2, True), outcome.sentence


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import no_such_library", "the module own_module cannot be imported: No module named 'no_such_library'"),
        ("1 / 0", "the module own_module cannot be imported: ZeroDivisionError: division by zero"),
        ("def f(:", "the module own_module cannot be imported: SyntaxError: "),
        ("import sys; sys.exit(3)", "the module own_module cannot be imported: SystemExit: 3"),
    ],
)
def test_a_module_with_a_fault(command: Command, written: Write, module: str, said: str) -> None:
    outcome = command("run", written(DESCENT, module))
    assert (outcome.status, said in outcome.sentence) == (2, True), outcome.sentence


def test_a_module_that_another_hides(command: Command, written: Write) -> None:
    outcome = command("run", written(DESCENT.replace("own_module", "colorsys"), name="colorsys.py"))
    assert outcome.status == 2
    assert "the module colorsys in " in outcome.sentence
    assert "is hidden by " in outcome.sentence
    assert outcome.sentence.endswith("give yours another name")


def test_a_kind_that_cannot_be_given(command: Command, written: Write) -> None:
    head = HEAD.replace("[run]", '[run]\ntransport = "own_module:Descent"')
    outcome = command("run", written(DESCENT, head=head))
    assert outcome.status == 2
    assert "import paths are followed only in a run file" in outcome.sentence or "import path" in outcome.sentence


# ── nowhere else ──


@pytest.fixture
def tripwire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """A module on the Python path that leaves a file behind when it is imported; whether it did."""
    (tmp_path / "tripwire.py").write_text(MODULE + f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda: (tmp_path / "sprung").exists() or "tripwire" in sys.modules


TABLES = [
    ("algorithm", {"name": "tripwire:Descent", "loss": {"name": "Squared"}}),
    ("algorithm", {"name": "Newton", "loss": {"name": "tripwire:PseudoHuber"}}),
    ("algorithm", {"name": "Newton", "loss": "tripwire:PseudoHuber"}),
    ("loss", {"name": "Squared", "features": {"name": "tripwire:Sines"}}),
    (
        "loss",
        {
            "name": "Squared",
            "features": {"name": "NystroemRange", "low": 0, "high": 1, "count": 3, "kernel": {"name": "tripwire:S"}},
        },
    ),
    ("loss", "tripwire:PseudoHuber"),
    ("partition scheme", {"name": "tripwire:EveryThird"}),
]


@pytest.mark.parametrize(("kind", "plain"), TABLES)
def test_plain_values_from_elsewhere_lead_to_no_import(kind: str, plain: object, tripwire: Callable[[], bool]) -> None:
    """What builds objects from JSON, as a site does: by the names of the library, and no others."""
    for read in (registry.build, Reader(registry.reader().catalogue).build, registry.reader().build):
        with pytest.raises(ConfigError, match="import paths are followed only in a run file"):
            read(kind, json.loads(json.dumps(plain)))  # type: ignore[operator]
    assert not tripwire()


def test_the_readers_of_files_and_messages_lead_to_no_import(tripwire: Callable[[], bool], tmp_path: Path) -> None:
    for reader in (FeatureMap.reader, fs.Nystroem.reader, fs.Minimax.reader, fs.NetworkLearner.reader, Reader()):
        assert reader.own is None
    for read in (
        lambda: FeatureMap.from_plain({"name": "tripwire:Sines"}),
        lambda: ExactKernel.from_plain({"name": "tripwire:Sines"}),
        lambda: Architecture.from_plain({"name": "tripwire:Sines"}),
        lambda: Transform.from_plain({"columns": [{"kind": "tripwire:Sines", "name": "a"}]}),
        lambda: fs.models.base.from_parts('{"format": 1, "kind": "tripwire:Doubled", "arrays": []}', {}),
    ):
        with pytest.raises(FedsolveError):
            read()
    assert not tripwire()


def test_reading_a_run_file_imports_nothing(tripwire: Callable[[], bool]) -> None:
    """Only `prepare`, which starts a simulation, does."""
    text = HEAD + DESCENT.replace("own_module", "tripwire")
    what = run_file.parse(text)
    with pytest.raises(ConfigError, match="import paths are followed only in a run file"):
        problem.build_entries(what)
    assert not tripwire()
    problem.prepare(what, Path("own.toml"))
    assert tripwire()
