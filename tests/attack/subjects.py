"""A sound request, and a sound reply to it, for every client step of the library.

Protocols are found, not listed: every algorithm of the registry with every loss it takes, and every other class of the
package that has client steps. An argument is made by its name (`Maker`); a step with an argument of another name, or
one that does not answer its request with a reply, fails `test_every_step_has_a_sound_request`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.complexity.suboptimality import Curved
from fedsolve.curvature.compressors import RankR
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.data.centring import CENTRED
from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_design import FormulaDesign
from fedsolve.diagnose.contraction import Contraction
from fedsolve.diagnose.heterogeneity import Heterogeneity
from fedsolve.diagnose.input_distances import InputDistance
from fedsolve.errors import ConfigError
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.federation.client_runtime import Runtime, Served
from fedsolve.federation.joining import JOINED
from fedsolve.federation.protocol import collect, fingerprint, is_server_only, signature, steps
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.sent_model import SentModel, send
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part as Part_
from fedsolve.local import CG, Adam, GradientSteps, Momentum, ProximalSteps, Richardson
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.losses import LinearLoss
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.runfiles import registry
from fedsolve.selection.fits import FoldFits
from fedsolve.selection.sums import FoldSums
from fedsolve.typing import Value
from fedsolve.wire.encoding import REQUEST, Part, Preamble
from fedsolve.wire.messages import Failure, Request, decode_answer

# ── clients ──

SCHEMA = Schema(
    (Numeric("age", indicator=True), Numeric("dose", scaling="range", low=0, high=50), Categorical("sex", ("f", "m")))
)


FORMULA = "age * sex + bs(dose, df=4) + poly(age, 2) + cr(dose, df=3, constraints='center')"


def _inputs(n: int, p: int) -> np.ndarray:
    return np.random.default_rng(n + p).standard_normal((n, p))


def dense(n: int = 12, p: int = 3, **options: Any) -> Client:
    return Client("dense", _inputs(n, p), np.arange(n) % 2, **options)


def sparse() -> Client:
    X = sp.csr_array(np.where(np.abs(_inputs(15, 4)) > 0.7, _inputs(15, 4), 0.0))
    return Client("sparse", X, np.arange(15) % 2)


def table() -> Client:
    cells = [[41.0, 3.0, "f"], [None, 20.0, "m"], [33.0, 7.5, None], [58.0, 50.0, "x"], [29.0, 1.0, "f"]]
    return Client("table", np.array(cells, dtype=object), [0, 1, 0, 1, 1], feature_names=["age", "dose", "sex"])


# ── protocols ──


def _losses() -> list[tuple[LinearLoss, Client]]:
    several = Client("several", _inputs(9, 3), _inputs(9, 2))
    weighted = dense(sample_weight=np.linspace(0.5, 2.0, 12), offset=np.linspace(-1.0, 1.0, 12))
    return [
        (fs.Squared(l2=0.1), dense()),
        (fs.Squared(intercept="free"), several),
        (fs.Logistic(l2=0.1, intercept="free"), weighted),
        (fs.Logistic(l2=0.01), sparse()),
        (fs.Softmax(l2=0.1, classes=3), dense()),
        (fs.Poisson(l2=0.1, intercept="penalised"), dense()),
        (fs.Squared(l2=0.1, features=RandomFourier(features=6, gamma=0.5)), dense()),
    ]


def _algorithms(loss: LinearLoss) -> Iterator[Any]:
    for name, kind in registry.names("algorithm").items():
        for options in OPTIONS.get(name, [{}]):
            try:
                yield kind(loss=loss, **options)
            except ConfigError:  # one that this loss cannot have
                continue


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "AGD": [{}, {"step_size": 0.1}],
    "FedDyn": [{}, {"pull": 0.5, "local": Momentum(steps=2, step_size=0.05)}],
    "FedProx": [{"pull": 0.5}, {"local": ProximalSteps(epochs=1, batch_size=4, batches="fixed", scale="client")}],
    "FedSplit": [{}, {"pull": 0.5, "local": Adam(steps=2)}],
    "FedNL": [{}, {"compressor": RankR(1)}, {"initial": "zero", "option": 1}],
    "GIANT": [{}, {"local": CG(2)}, {"local": Richardson(2, 0.01)}],
    "FFGB": [{"learner": fs.RidgeLearner()}],  # of these losses none has no penalty: see `_others`
    "FedAvg": [{"local": GradientSteps(steps=3, step_size=0.1, batch_size=4)}],
    "Scaffold": [{"local": GradientSteps(steps=3, step_size=0.1)}],
    "SHED": [{}, {"increment": "link", "precision": "float64"}],
}


def judged_rows() -> Client:
    (judged,) = fs.data.hold_out([dense(64)], 0.5)
    return judged


def _others() -> Iterator[tuple[str, Any, Client]]:
    # So many samples and features that SHED finds its eigenpairs by Lanczos.
    yield "algorithm", fs.SHED(fs.Logistic(l2=0.1)), dense(260, 256)
    for loss, client in _losses():
        yield "contraction", Contraction(loss), client
        yield "heterogeneity", Heterogeneity(loss), client
        yield "folds", FoldFits((loss,), 3, 0), client
        if loss.quadratic:
            yield "folds", FoldSums((loss,), 3, 0), client
    yield "input_distances", InputDistance(directions=2, bins=4), dense(40, 5)
    tree = {"steps": 2, "residual": "carried"}
    yield "algorithm", fs.FFGB(fs.Logistic(), fs.Trees(depth=2, bins=8, min_rows=2), **tree), judged_rows()
    yield "algorithm", fs.FFGB(fs.Softmax(classes=3), fs.Stumps(min_rows=2), **tree), sparse()
    boosted = {"learner": fs.RidgeLearner(0.1), "steps": 2, "tikhonov": 0.1, "residual": "carried"}
    yield "algorithm", fs.FFGB(fs.Logistic(), step_size="theorem 4.3", **boosted), judged_rows()
    yield "algorithm", fs.FFGB(fs.Softmax(classes=3), **boosted), dense()
    yield "stopping", fs.EarlyStopping(fs.Squared(intercept="free")), Client("several", _inputs(9, 3), _inputs(9, 2))
    judged = judged_rows()
    yield "gain", fs.FederationGain(fs.Squared(l2=0.1)), judged
    for loss, client in _losses():
        if not loss.l1 and loss.features is None and client.y.ndim == 1 and not isinstance(client.X, sp.csr_array):
            yield "summary", fs.StandardErrors(loss), client
    yield "curved", Curved(fs.Logistic(l2=0.1)), dense()
    yield "preprocess", CENTRED, dense()
    yield "preprocess", Preprocess(), dense()
    yield "preprocess", Preprocess(centre=False), sparse()
    yield "preprocess", Preprocess(SCHEMA), table()
    yield "preprocess", Preprocess(SCHEMA, formula=FORMULA), table()
    yield "algorithm", fs.SHED(fs.Logistic(l2=0.1), increment="link"), dense(link=fs.Link(bytes_per_round=9000))


def protocols_with_steps() -> set[type[Any]]:
    """Every class of the package that has client steps."""
    found = set()
    for module in pkgutil.walk_packages(fs.__path__, "fedsolve."):
        name = module.name
        if name.rsplit(".", 1)[-1] == "__main__" or name.startswith(("fedsolve.deploy.", "fedsolve.reproduce.")):
            continue  # what carries messages needs NVFlare; algorithms of experiments are answered by no site
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and is_dataclass(value) and steps_of(value):
                found.add(value)
    return found


def steps_of(kind: type[Any]) -> list[str]:
    """The names of a class's client steps that clients answer."""
    found = {name: getattr(kind, name, None) for name in dir(kind)}
    return [
        name
        for name, step in found.items()
        if getattr(step, "__client_step__", False) is True and not is_server_only(step)
    ]


# ── arguments ──


class Maker:
    """Arguments for the steps of a protocol at a client, by their names."""

    def __init__(self, protocol: Any, client: Client, served: Served) -> None:
        self.protocol, self.client, self.served = protocol, client, served
        self.loss: LinearLoss | None = getattr(protocol, "loss", None)

    def arguments(self, step: str) -> dict[str, Value]:
        names = signature(steps(self.protocol)[step]).arguments
        return {name: self._of(step, name) for name in names}

    def _of(self, step: str, name: str) -> Value:
        made = getattr(self, f"{step}_{name}", None) or getattr(self, f"any_{name}", None)
        if made is None:
            raise LookupError(f"no example of {name!r}, an argument of {type(self.protocol).__name__}.{step}: add one")
        return made()

    def weights(self) -> np.ndarray:
        assert self.loss is not None
        shape = self.loss.shape(self.client.design.shape[1], tuple(self.client.y.shape[1:]))
        return np.random.default_rng(1).standard_normal(shape) / 8

    any_w = any_y = any_x = any_c = any_p = any_g = any_r = any_d = weights

    any_step = weights

    # FedLRGD
    def local_weights_points(self) -> np.ndarray:
        return np.random.default_rng(3).standard_normal((3, self.weights().size)) / 8

    def local_weights_bases(self) -> np.ndarray:
        return np.random.default_rng(4).standard_normal((self.weights().size, 3, 2))

    def local_weights_rows(self) -> int:
        return 1

    more_weights_row = local_weights_rows

    def product_v(self) -> np.ndarray:
        return self.weights()

    def any_units(self) -> np.ndarray:
        assert self.loss is not None
        return np.ones(self.loss.design(self.client).shape[1])

    def any_columns(self) -> tuple[str, ...]:
        return self.client.feature_names or ()

    def any_step_size(self) -> float:
        return 0.05

    any_pull = any_step_size

    def any_origin(self) -> np.ndarray:
        return self.weights()

    def any_epoch(self) -> int:
        return 0

    def any_steps(self) -> np.ndarray:
        return self.protocol.grid()

    def any_first(self) -> bool:
        return True

    # SHED
    def any_renewal(self) -> int:
        return 1

    def any_count(self) -> int | None:
        return None if getattr(self.protocol, "increment", 1) == "link" else 1

    def any_horizon(self) -> int | None:
        return 2

    # boosting: f^0 and a first part
    def any_news(self) -> News:
        outputs = self.loss.outputs(self.client)  # type: ignore[union-attr]
        if isinstance(self.protocol.learner, fs.Trees):
            return News(0, (Part_(0.5, np.array([0.1]), (self._stump(outputs),)),), np.zeros(outputs), self._bins())
        if isinstance(self.protocol.learner, fs.NetworkLearner):
            network = fs.Network(self.protocol.learner.architecture, self.protocol.loss)
            flat = np.zeros(network.shape(self.client.design.shape[1], ()), dtype=np.float32)
            return News(0, (Part_(0.5, np.array([0.1]), ((flat,),)),), np.zeros(outputs))
        w = np.random.default_rng(3).standard_normal((2, self.client.design.shape[1], *outputs))
        functions = tuple((one, np.zeros(outputs)) for one in w)
        return News(0, (Part_(0.5, np.array([0.1, 0.2]), functions),), np.zeros(outputs))

    def _stump(self, outputs: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        one, none = np.zeros(1), np.zeros(0, dtype=np.uint8)
        feature, width = np.array([0, -1, -1], dtype=np.int32), np.zeros(1, dtype=np.int32)
        return feature, one, np.zeros(1, dtype=np.uint8), width, none, one + 1, np.ones((2, *outputs))

    def _bins(self) -> tuple[np.ndarray, ...]:
        """An edge at zero for each column, and no categories."""
        p = self.client.design.shape[1]
        return np.zeros(p), np.arange(p + 1), np.zeros(p, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)

    def any_t(self) -> int:
        return 1

    def any_bounds(self) -> np.ndarray:
        return np.tile([-1.0, 0.0, 1.0], self.client.design.shape[1])

    values_at_edges = any_bounds

    def any_starts(self) -> np.ndarray:
        return 3 * np.arange(self.client.design.shape[1] + 1)

    any_parts = any_t

    # joining and preprocessing
    def any_version(self) -> str:
        return fs.__version__

    def any_protocols(self) -> dict[str, str]:
        return {name: fingerprint(protocol) for name, protocol in self.served.protocols.items()}

    def any_checkpointed(self) -> bool:
        return True

    def any_mean(self) -> np.ndarray:
        return np.zeros(self.client.X.shape[1])

    def any_transform(self) -> Transform:
        columns = self.protocol._columns(self.client)
        fill, zero, one = np.zeros(len(columns)), np.zeros(len(columns)), np.ones(len(columns))
        return Transform(columns, fill, zero, one, design=self._design(columns, learned=True))

    def term_sums_transform(self) -> Transform:
        sound = self.any_transform()
        return replace(sound, design=self._design(sound.columns, learned=False))

    def made_spread_mean(self) -> np.ndarray:
        design = self.any_transform().design
        return np.zeros(0 if design is None else len(design.products))

    def _design(self, columns: Any, learned: bool) -> FormulaDesign | None:
        """What the formula makes of the columns; learned from this client alone."""
        if self.protocol.formula is None:
            return None
        design = self.protocol._design(self.protocol._declared([one.name for one in columns]))
        while learned and design.open:
            zero, one = np.zeros(len(columns)), np.ones(len(columns))
            transform = Transform(columns, zero, zero, one, design=design)
            design = design.told(self.protocol.term_sums(self.client, transform))
        return design

    # evaluation
    def any_edges(self) -> np.ndarray:
        return np.tile(np.linspace(-2.0, 2.0, 5), (len(self.protocol.edges()), 1))

    def held_spread_mean(self) -> np.ndarray:
        assert self.loss is not None
        return np.full(int(np.prod(self.loss.outputs(self.client), dtype=int)), 0.5)

    def held_bins_w(self) -> SentModel:
        assert self.loss is not None
        return send(self.loss.model(self.weights()))

    def any_intercept(self) -> float:
        return 0.25

    def any_line(self) -> np.ndarray:
        return np.array([0.1, 0.9])

    # cross-validation
    def any_questions(self) -> np.ndarray:
        return np.array([0, 2])

    any_fits = any_questions

    def any_at(self) -> tuple[np.ndarray, ...]:
        return (self.weights(), 2 * self.weights())

    values_along_steps = any_at

    def any_grid(self) -> np.ndarray:
        return np.array([0.0, 1.0, 0.5])

    # diagnosis
    def _order(self) -> int:
        assert self.loss is not None
        return self.weights().shape[0] if self.loss.separable else self.weights().size

    def any_v(self) -> np.ndarray:
        return np.random.default_rng(2).standard_normal(self._order())

    local_solve_g = any_v

    def local_solve_r(self) -> np.ndarray:
        return self.weights()

    def any_H(self) -> Symmetric:
        return Symmetric(np.eye(self._order()))

    def _features(self) -> int:
        return int(self.protocol._design(self.client).shape[1])

    def any_C(self) -> Symmetric:
        return Symmetric(np.eye(self._features()))

    def any_V(self) -> np.ndarray:
        return np.eye(self._features())[:, :2]

    def any_vectors(self) -> np.ndarray:
        return np.eye(self._features())[:, :2]

    def any_values(self) -> np.ndarray:
        return np.array([2.0, 1.0])

    # distances of inputs
    def any_centre(self) -> np.ndarray:
        return np.zeros(self.client.design.shape[1])

    def any_scale(self) -> np.ndarray:
        return np.ones(self.client.design.shape[1])

    def any_means(self) -> np.ndarray:
        return np.zeros((self.client.design.shape[1], 2))

    def spreads_V(self) -> np.ndarray:
        return np.stack([np.eye(self.client.design.shape[1])[:, :2]] * 2)

    histograms_V = compare_V = spreads_V

    def histograms_units(self) -> np.ndarray:
        return np.stack([np.stack([np.zeros(2), np.ones(2)])] * 2)

    compare_units = histograms_units

    def any_pooled(self) -> np.ndarray:
        return np.full((2, 2, 3, 2, self.protocol.bins + 2), 1 / (self.protocol.bins + 2))

    def any_rows(self) -> np.ndarray:
        return np.full(2, 0.1)

    def any_N(self) -> int:
        return 3


# ── requests ──


@dataclass
class Subject:
    """A client with protocols, what it remembers from earlier calls, and its sound messages."""

    name: str
    runtime: Runtime
    memory: dict[str, Value]
    requests: dict[tuple[str, str], bytes]  # by route; all calls together under ("", "")
    replies: dict[tuple[str, str], bytes]

    def answer(self, data: bytes, remembers: bool = True) -> bytes:
        """What it answers, from the same memory every time, or from none."""
        joined = {key: value for key, value in self.memory.items() if key == JOINED}
        self.runtime.restore(0, {0: self.memory if remembers else joined})
        return self.runtime.answer_bytes(data)

    def steps(self) -> set[tuple[type[Any], str]]:
        """What its requests call."""
        return {(type(self.runtime.steps[route][0]), route[1]) for route in self.requests if route[0]}


def request(calls: Mapping[tuple[str, str], dict[str, Value]], number: int = 1) -> bytes:
    routes = [[*route, "algorithm", "gather "] for route in calls]
    parts = tuple(Part(arguments) for arguments in calls.values())
    return Request(Preamble(REQUEST, number=number), Part.plain(routes), parts).encode()


def joined(runtime: Runtime) -> Runtime:
    """After a server has joined, in request 1: the versions of its memory begin anew with that."""
    arguments = {"version": fs.__version__, "protocols": runtime.serves.fingerprints, "checkpointed": False}
    data = request({("session", "join"): arguments})
    assert not isinstance(decode_answer(runtime.answer_bytes(data), runtime.types), Failure)
    runtime.restore(0, {0: runtime.versions[1]})
    return runtime


def subject(name: str, protocols: Mapping[str, Any], client: Client) -> Subject:
    runtime = joined(Runtime(client, Served(protocols, remember=False)))
    calls = {
        route: Maker(runtime.steps[route][0], client, runtime.serves).arguments(route[1])
        for route in runtime.steps
        if route != ("session", "align") or client.feature_names is not None  # without names there is nothing to align
    }
    # Some steps build on what others have left in the memory: whoever lacks something is asked again.
    waiting, number = dict(calls), 0
    for _ in range(3):
        for route, arguments in list(waiting.items()):
            number += 1
            head = Preamble(REQUEST, number=number, used=max(runtime.versions))
            answer = runtime.answer(Request(head, Part.plain([[*route, "algorithm", "gather "]]), (Part(arguments),)))
            if not isinstance(answer, Failure):
                del waiting[route]
    memory = runtime.versions[max(runtime.versions)]
    made = Subject(name, runtime, memory, {route: request({route: calls[route]}) for route in calls}, {})
    made.requests["", ""] = request(calls)
    made.replies = {route: made.answer(data) for route, data in made.requests.items()}
    return made


@cache
def networks() -> list[Subject]:
    """Those that need torch, which has no room in the address space of the others."""
    network = fs.Network(fs.MLP((3,)), fs.Softmax(classes=2))
    once = GradientSteps(epochs=1, step_size=0.1, batch_size=4)
    learner = fs.NetworkLearner(fs.MLP((3,)), epochs=1, batch_size=4)
    found = []
    for algorithm in (
        fs.FFGBDistill(network, local=once),
        fs.FedAvgDistill(network, local=once),
        fs.FedAvg(network, local=once),
        fs.FFGB(fs.Softmax(classes=2), learner),
    ):
        protocols = {**dict(collect("algorithm", algorithm)), "evaluation": Evaluation(algorithm.loss, rows="own")}
        found.append(subject(f"{type(algorithm).__name__} of networks", protocols, dense()))
    return found


@cache
def subjects() -> list[Subject]:
    """All others, the same in every process."""
    made = []
    for loss, client in _losses():
        for algorithm in _algorithms(loss):
            protocols = {**dict(collect("algorithm", algorithm)), "measure": Measure(loss), "inspect": Inspect(loss)}
            protocols["evaluation"] = Evaluation(loss, rows="own")
            made.append(subject(f"{type(algorithm).__name__} {type(loss).__name__}", protocols, client))
    for name, protocol, client in _others():
        made.append(subject(f"{type(protocol).__name__} {client.name}", dict(collect(name, protocol)), client))
    return made
