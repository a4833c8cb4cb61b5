"""Protocols as plain values: object → JSON → object, with an equal fingerprint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsolve as fs
from fedsolve.curvature import compressors, renewals
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.errors import ConfigError, InputError, UnknownName
from fedsolve.federation.participation import Participation, Replay
from fedsolve.learners import SobolevLearner
from fedsolve.local.linear_systems import CG, Richardson
from fedsolve.plain import Reader, describe, fingerprint, to_plain
from fedsolve.runfiles import registry

RNG = np.random.default_rng(7)

MAPS = [
    fs.RandomFourier(64, 0.3),
    fs.RandomFourier(features=8, gamma=2, kernel="cauchy", variant="qmc", seed=2**63, scale=0.1),
    fs.RandomFourier.fednewton(1 / 3, 100, seed=4),
    fs.features.Nystroem(RNG.normal(size=(5, 3)), gamma=1 / 7),
    fs.features.Nystroem([[1, 2], [3, 4]], gamma=1, kernel="laplace"),
    fs.features.Nystroem(RNG.normal(size=(4, 6)).astype(np.float32)[:, ::2], gamma=0.5),
    fs.features.NystroemRange(0, 1, 10, 0.5),
    fs.features.Nystroem.from_range([0.1, -2], np.array([1, 3]), 4, 1, "cauchy", 9),
    fs.features.Nystroem([[1, 2], [3, 4]], kernel=fs.features.Matern(1, 2)),
    fs.features.Nystroem.from_range(0, 1, 4, kernel=fs.features.Sobolev(), seed=1),
    fs.features.Polynomial(),
    fs.features.Polynomial(3, interaction_only=True, bias=True),
    fs.features.Monomials(5),
    fs.features.Transformer("PolynomialFeatures", {"degree": 3, "interaction_only": True}),
    fs.features.Transformer("SplineTransformer", {"knots": [[0.0, 1.0], [0.5, 2.0], [1.0, 3.0]], "degree": 2}),
]
KERNELS = [
    fs.features.Gaussian(1),
    fs.features.Laplace(1 / 3),
    fs.features.Cauchy(2),
    fs.features.Matern(),
    fs.features.Matern(nu=1, length_scale=1e-3),
    fs.features.Sobolev(),
    fs.features.PolynomialKernel(3, 0, 1 / 7),
    fs.features.LinearKernel(),
    fs.features.LinearKernel(1),
]
LOSSES = [
    fs.Squared(),
    fs.Squared(l2=1, l1=2, intercept="penalised"),
    fs.Logistic(l2=1e-300, intercept="free"),
    fs.Poisson(l2=0.1),
    fs.Softmax(l2=np.float32(0.5), classes=np.int64(12)),
    *[fs.Squared(l2=0.25, features=one) for one in MAPS],
]
LOSS = fs.Logistic(l2=0.01, intercept="free", features=MAPS[3])
ARCHITECTURES = [
    fs.MLP(),
    fs.MLP((), "tanh"),
    fs.CNN((3, 32, 32)),
    fs.CNN((1, 28, 28), ((8, 3), (4, 2)), hidden=(120, 84), activation="gelu"),
]
AUGMENTATIONS = [fs.FlipAndCrop(), fs.FlipAndCrop(2, flip=False, shape=(3, 32, 32))]
NETWORKS = [
    *[fs.Network(one, fs.Softmax(classes=10), l2=1, dtype="float64", device="cpu") for one in ARCHITECTURES],
    *[fs.Network(ARCHITECTURES[2], fs.Softmax(classes=10), augmentation=one) for one in AUGMENTATIONS],
    fs.Network(ARCHITECTURES[0], measures_gradient=True),
]
SEARCHES = [fs.Armijo(), fs.Armijo(alpha=0.1, beta=0.9, halvings=3, loss=LOSS)]
SCHEDULES = [fs.InverseTime(), fs.InverseTime(3), fs.Cosine(100), fs.Cosine(10, last=1), fs.StepDecay(7, by=1)]
SOLVERS = [
    *(fs.GradientSteps(), fs.GradientSteps(7, 1, 32), CG(), CG(3), Richardson(), Richardson(4, 0.5)),
    *[fs.GradientSteps(epochs=2, batch_size=3, batches="fixed", scale="client", schedule=one) for one in SCHEDULES],
    *(
        fs.Momentum(),
        fs.Momentum(3, momentum=0, nesterov=True),
        fs.Adam(),
        fs.Adam(4, 1, beta1=0, schedule=SCHEDULES[2], clip=5),
    ),
    *(fs.ProximalSteps(), fs.ProximalSteps(3, 4, epochs=2, batches="fixed", scale="client")),
]
DISTILLATIONS = [fs.Distil(), fs.Distil("probabilities", SOLVERS[1], temperature=2)]
RENEWALS = [renewals.Once(), renewals.Always(), renewals.Periodic(7), renewals.Fibonacci(), renewals.GradientNorm(1)]
COMPRESSORS = [compressors.TopKPairs(3), compressors.RandomKPairs(), compressors.RankR(2)]
SQUARED = fs.Squared(l2=1)
RIDGES = [fs.RidgeLearner(), fs.RidgeLearner(0.5, fs.RandomFourier(features=4, gamma=0.5), intercept=False)]
LEARNERS = [
    *RIDGES,
    *(fs.Trees(), fs.Trees(depth=2), fs.Stumps()),
    *(fs.Minimax(RIDGES[0]), fs.Minimax(RIDGES[1], "reweighting", rounds=9)),
    *(SobolevLearner(), SobolevLearner(constant=2.0, hidden=(4,), steps=9)),
    *[fs.NetworkLearner(one) for one in ARCHITECTURES],
    fs.NetworkLearner(ARCHITECTURES[0], 7, None, 1, 1, "float64", "cpu"),
]
ALGORITHMS = [
    *[fs.Newton(loss) for loss in LOSSES],
    fs.Newton(LOSS, SEARCHES[1]),
    fs.AGD(LOSS),
    fs.AGD(LOSS, 1, "restart"),
    fs.DKRR(SQUARED),
    fs.FFGB(fs.Logistic(), LEARNERS[0]),
    fs.FFGB(fs.Softmax(classes=3), LEARNERS[1], 4, "theorem 4.3", 0.1, "carried", "constant", "samples"),
    fs.FFGB(fs.Squared(), LEARNERS[1], residual=None),
    fs.FFGB(fs.Squared(), LEARNERS[-1]),
    fs.FedAvg(LOSS),
    fs.FedAvg(LOSS, SOLVERS[1]),
    fs.FedAvg(LOSS, fs.GradientSteps(5, 2, 1, batches="independent"), fs.QuantisedUploads(16)),
    *[kind(one, local=SOLVERS[1]) for kind in (fs.FedAvg, fs.FedProx, fs.FedDyn, fs.Scaffold) for one in NETWORKS],
    *[kind(one) for kind in (fs.FFGBDistill, fs.FedAvgDistill) for one in NETWORKS[:-1]],
    *[fs.FFGBDistill(NETWORKS[0], 1, SOLVERS[1], one) for one in DISTILLATIONS],
    fs.FedLRGD(LOSS),
    fs.FedLRGD(LOSS, "revealed", probes=2, box=1, corrections=3),
    fs.FedLRGD.literal(SQUARED, 37, rank=7, step_size=1),
    fs.FedNewton(SQUARED),
    fs.FedNewtonCG(LOSS),
    fs.FedNewtonCG(LOSS, SEARCHES[1], preconditioner="none"),
    fs.FedNL(LOSS),
    fs.FedNL(LOSS, COMPRESSORS[2], option=1, shift="frobenius", initial="zero", search=None),
    fs.FedProx(LOSS),
    fs.FedProx(LOSS, pull=3),
    *[fs.FedProx(LOSS, local=one) for one in SOLVERS],
    *[kind(LOSS) for kind in (fs.FedDyn, fs.FedSplit)],
    *[kind(LOSS, pull=2, local=one) for kind in (fs.FedDyn, fs.FedSplit) for one in SOLVERS[6:]],
    *[kind(LOSS, one) for kind in (fs.FedAvg, fs.Scaffold) for one in SOLVERS[2:-2]],
    fs.Scaffold(LOSS, option="I"),
    fs.GIANT(LOSS),
    fs.GIANT(LOSS, local=SOLVERS[3], search=SEARCHES[0], lbfgs=0),
    fs.GIANT(LOSS, local=SOLVERS[5]),
    fs.MontDec(LOSS),
    fs.MontDec(LOSS, increment="link", precision="float32"),
    fs.Scaffold(LOSS),
    fs.Scaffold(LOSS, SOLVERS[1]),
    fs.SHED(LOSS),
    fs.SHED(LOSS, RENEWALS[2], increment={"Universitätsklinik": 3, "b": 2}, lbfgs=0, pipelined=False, solve="factor"),
    fs.SHED(LOSS, RENEWALS[4], increment=4, search=SEARCHES[1]),
    fs.SHEDLeastSquares(SQUARED),
    fs.SHEDLeastSquares(SQUARED, RENEWALS[1], increment={"a": 1}, shift="largest"),
]
SCHEMA = Schema(
    (
        Numeric("age"),
        Numeric("Größe ", impute=1, indicator=True, scaling=None),
        Numeric("dose", impute=None, scaling="range", low=-1, high=50),
        Categorical("sex", ("f", "m")),
        Categorical("code", (1, 2.5, "three", "none"), impute="none", indicator=True, unseen="zeros", drop_first=True),
        Categorical("kind", ("name", "kind"), impute="mode"),
    )
)
PREPROCESSINGS = [
    Preprocess(),
    Preprocess(standardise=False, impute=None),
    Preprocess(centre=False, impute=0, indicator=True),
    Preprocess(SCHEMA),
    Preprocess(SCHEMA, formula="y ~ age * sex + bs(dose, df=4) + C(kind, contr.sum)"),
    Preprocess(formula="log(age) - 1"),
]
LINKS = [fs.Link(), fs.Link(5000, 0), fs.federation.links.Rayleigh(d0=1, gain=3, nu=1, vectors_per_round=2)]
SCHEMES = [
    fs.data.IID(),
    fs.data.Contiguous(),
    fs.data.ByGroup(),
    fs.data.Dirichlet(1, min_samples=3),
    fs.data.QuantitySkew(0.5),
    fs.data.ClassesPerClient(2),
    fs.data.Homogeneity(1),
    fs.data.Given([[0, 1], [2]]),
    fs.data.Given([np.array([0, 1]), np.array([2], dtype=np.int32)]),
]
PARTICIPATIONS = [
    Participation(),
    Participation(fraction=1, dropout=0.1, latency=2, deadline=3, quorum=1, retries=2),
    Participation(latency={"a": 1, "β": 2.5}, deadline=1),
    Replay(cohorts={(0, 1): ("a", "b"), (3, 0): ()}),
]
SAMPLES: dict[str, Sequence[Any]] = {
    "algorithm": ALGORITHMS,
    "loss": [*LOSSES, *NETWORKS],
    "feature map": MAPS,
    "kernel": KERNELS,
    "architecture": ARCHITECTURES,
    "augmentation": AUGMENTATIONS,
    "local solver": SOLVERS,
    "weak learner": LEARNERS,
    "schedule": SCHEDULES,
    "upload": [fs.QuantisedUploads(), fs.QuantisedUploads(16)],
    "distillation": DISTILLATIONS,
    "line search": SEARCHES,
    "renewal rule": RENEWALS,
    "link": LINKS,
    "compressor": COMPRESSORS,
    "partition scheme": SCHEMES,
    "preprocessing": PREPROCESSINGS,
    "participation": PARTICIPATIONS,
}
EACH = [
    pytest.param(kind, one, id=f"{type(one).__name__}-{i}") for kind in SAMPLES for i, one in enumerate(SAMPLES[kind])
]


def through_json(value: object) -> Any:
    return json.loads(json.dumps(to_plain(value), allow_nan=False))


# ── the registry ──


def test_every_class_of_the_registry_is_here() -> None:
    assert set(SAMPLES) == set(registry.ROOMS) - {"transport"}  # a transport holds clients, and is no plain value
    for kind, samples in SAMPLES.items():
        assert {type(one) for one in samples} == set(registry.names(kind).values()), kind


@pytest.mark.parametrize(("kind", "value"), EACH)
def test_there_and_back(kind: str, value: Any) -> None:
    again = registry.build(kind, through_json(value))
    assert type(again) is type(value)
    assert describe(again) == describe(value)
    assert fingerprint(again) == fingerprint(value)
    if not isinstance(value, fs.data.Given):  # compares by identity
        assert again == value
    assert through_json(again) == through_json(value)


@pytest.mark.parametrize("of", [one for one in MAPS if hasattr(one, "landmarks") or isinstance(one, fs.RandomFourier)])
def test_what_a_map_draws_is_the_same(of: Any) -> None:
    again = registry.build("feature map", through_json(of))
    d = of.landmarks.shape[1] if hasattr(of, "landmarks") else 3
    for ours, theirs in zip(of.draw(d), again.draw(d), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_different_hyper_parameters_have_different_fingerprints() -> None:
    for samples in SAMPLES.values():
        assert len({fingerprint(one) for one in samples}) == len(samples)


def test_one_and_one_point_nought() -> None:
    pairs = [
        (fs.Logistic(l2=1), fs.Logistic(l2=1.0)),
        (fs.GradientSteps(step_size=2), fs.GradientSteps(step_size=2.0)),
        (Participation(latency={"a": 1}, deadline=1), Participation(latency={"a": 1.0}, deadline=1.0)),
        (Preprocess(impute=0), Preprocess(impute=0.0)),
        (Floats((1, 2.5), {"a": 3}), Floats((1.0, 2.5), {"a": 3.0})),
        (Floats([1, 2.5], {"a": 3}), Floats((1.0, 2.5), {"a": 3.0})),  # type: ignore[arg-type]
    ]
    for one, other in pairs:
        assert fingerprint(one) == fingerprint(other)
        assert to_plain(one) == to_plain(other)
    # A whole number is another thing where both are declared, or where true is.
    assert describe(Both(1)) != describe(Both(1.0))
    assert describe(Both(True)) != describe(Both(1))


# ── what is not in the registry ──


@dataclass(frozen=True)
class Floats:
    values: tuple[float, ...]
    by_name: dict[str, float]


@dataclass(frozen=True)
class Both:
    value: int | float | bool | None = None


@dataclass(frozen=True)
class Leaf:
    name: str
    size: float = 1.0


@dataclass(frozen=True)
class Branch:
    name: str
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class Everything:
    number: float = 0.0
    whole: int = 0
    flag: bool = False
    text: str = ""
    choice: Literal["a", 1, None] = None
    maybe: float | None = None
    mixed: str | float | None = None
    pair: tuple[int, str] = (0, "")
    row: tuple[float, ...] = ()
    rows: list[tuple[int, ...]] = field(default_factory=list)
    table: Mapping[str, float] = field(default_factory=dict)
    by_number: dict[int, str] = field(default_factory=dict)
    array: fs.typing.Array | None = None
    tree: tuple[Leaf | Branch, ...] = ()
    derived: int = field(default=3, init=False)


NUMBERS = st.floats(allow_nan=False)
LEAVES = st.builds(Leaf, st.text(), NUMBERS)
EVERYTHING = st.builds(
    Everything,
    number=NUMBERS | st.integers(-(2**53), 2**53),
    whole=st.integers(),
    flag=st.booleans(),
    text=st.text(),
    choice=st.sampled_from(["a", 1, None]),
    maybe=st.none() | NUMBERS,
    mixed=st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda t: t.lower() != "none"),
    pair=st.tuples(st.integers(), st.text()),
    row=st.lists(NUMBERS | st.integers(-9, 9)).map(tuple),
    rows=st.lists(st.lists(st.integers()).map(tuple)),
    table=st.dictionaries(st.text(), NUMBERS),
    by_number=st.dictionaries(st.integers(), st.text()),
    tree=st.lists(
        st.builds(Leaf, st.text(), NUMBERS)
        | st.builds(Branch, st.text(), st.lists(st.builds(Leaf, st.text())).map(tuple))
    ).map(tuple),
)


@given(EVERYTHING)
def test_odd_values(value: Everything) -> None:
    again = Reader().make(Everything, through_json(value), "it")
    assert describe(again) == describe(value)
    assert fingerprint(again) == fingerprint(value)
    assert to_plain(again) == to_plain(value)
    assert again == value


@given(st.sampled_from(["f8", "f4", "f2", "i8", "i2", "u8", "?"]), st.lists(st.integers(0, 3), max_size=4), st.data())
def test_arrays(code: str, shape: list[int], data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=8 * math.prod(shape), max_size=8 * math.prod(shape)))
    numbers = np.frombuffer(raw, np.uint8).reshape(*shape, 8)
    with np.errstate(all="ignore"):
        array = np.ascontiguousarray(numbers).view(np.int64)[..., 0].astype(code)
    if code in ("f8", "f4", "f2"):
        array = np.nan_to_num(array / np.asarray(3, code), posinf=1, neginf=-1).astype(code)
    array = np.asarray(array)
    again = Reader().make(Everything, through_json(Everything(array=array)), "it").array
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


def test_nan_in_an_array_is_null() -> None:
    plain = through_json(Everything(array=np.array([[1.0, np.nan]])))
    assert plain["array"] == [[1.0, None]]
    again = Reader().make(Everything, plain, "it").array
    np.testing.assert_array_equal(again, [[1.0, np.nan]])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Everything(number=math.nan), "Everything.number is NaN"),
        (Everything(row=(1.0, math.nan)), r"Everything.row\[1\] is NaN"),
        (Everything(table={"a": math.nan}), "Everything.table.a is NaN"),
        (Everything(array=np.array([math.inf])), "Everything.array is an array with infinite entries"),
        (Everything(array=np.array(["a"])), "Everything.array is an array of <U1"),
        (Everything(text=len), "Everything.text is a builtin_function_or_method, which has no plain form"),  # type: ignore[arg-type]
        (Everything(text=Leaf), "Everything.text is the class Leaf"),  # type: ignore[arg-type]
        (Everything(text=b"x"), "Everything.text is a bytes"),  # type: ignore[arg-type]
        (Everything(tree=(Leaf("a", 1j),)), r"Everything.tree\[0\].size is a complex"),  # type: ignore[arg-type]
        (Both(math.nan), "Both.value is NaN"),
    ],
)
def test_what_has_no_plain_form(value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        to_plain(value)


DEEP: Any = 1.0
for _ in range(500):
    DEEP = [DEEP]

WRONG = [
    ({"number": "1"}, "it.number must be a number, got '1'"),
    ({"number": math.nan}, "it.number must be a number, got nan"),
    ({"number": True}, "it.number must be a number, got True"),
    ({"number": None}, "it.number must be a number, got None"),
    ({"number": 10**400}, "it.number must be a number, got 1000"),
    ({"number": "Infinity"}, "it.number must be a number, got 'Infinity'"),
    ({"whole": 1.0}, "it.whole must be a whole number, got 1.0"),
    ({"whole": False}, "it.whole must be a whole number, got False"),
    ({"flag": 1}, "it.flag must be true or false, got 1"),
    ({"text": 3}, "it.text must be text in quotes, got 3"),
    ({"choice": True}, "it.choice must be 'a' or 1 or None, got True"),
    ({"choice": 1.0}, "it.choice must be 'a' or 1 or None, got 1.0"),
    ({"maybe": "maybe"}, "it.maybe must be a number or 'none', got 'maybe'"),
    ({"pair": [1]}, r"it.pair must be a list in brackets, got \[1\]"),
    ({"pair": [1, 2]}, r"it.pair\[1\] must be text in quotes, got 2"),
    ({"row": 3}, "it.row must be a list in brackets, got 3"),
    ({"row": "12"}, "it.row must be a list in brackets, got '12'"),
    ({"row": [1, "x"]}, r"it.row\[1\] must be a number, got 'x'"),
    ({"rows": [[1], [2.5]]}, r"it.rows\[1\]\[0\] must be a whole number, got 2.5"),
    ({"table": [["a", 1]]}, "it.table must be a table"),
    ({"table": {"a": "b"}}, "it.table.a must be a number, got 'b'"),
    ({"table": {1: 2}}, "a key of it.table must be text in quotes, got 1"),
    ({"by_number": [[1, "a"], [1, "b"]]}, "it.by_number must be a table"),
    ({"by_number": {"1": "a"}}, "a key of it.by_number must be a whole number, got '1'"),
    ({"array": "1"}, "it.array must be an array"),
    ({"array": [[1, 2], [3]]}, "it.array must be an array"),
    ({"array": [1, "2"]}, "it.array must be an array"),
    ({"array": [True, 2]}, "it.array must be an array"),
    ({"array": [10**400]}, "it.array must be an array"),
    ({"array": [1, 2**63]}, "it.array must be an array"),
    ({"array": DEEP}, "it.array must be an array"),
    ({"array": {"dtype": "object", "shape": [1], "values": [1]}}, "it.array must be an array"),
    ({"array": {"dtype": "float64", "shape": [10**9, 10**9], "values": [1.0]}}, "it.array must be an array"),
    ({"array": {"dtype": "float64", "shape": [0, 2**62, 2**62], "values": []}}, "it.array must be an array"),
    ({"array": {"dtype": "float64", "shape": [-1], "values": [1.0]}}, "it.array must be an array"),
    ({"array": {"dtype": "int8", "shape": [1], "values": [300]}}, "it.array must be an array"),
    ({"array": {"dtype": "int8", "shape": [1], "values": [1.5]}}, "it.array must be an array"),
    ({"tree": [{"name": "a", "kind": "twig"}]}, r"it.tree\['a'\].kind must be 'leaf' or 'branch', got 'twig'"),
    ({"tree": [{"name": "a", "kind": 3}]}, r"it.tree\['a'\].kind must be 'leaf' or 'branch', got 3"),
    ({"tree": [{"size": 2}]}, r"it.tree\[0\] has no name. Leaf takes: name \(required\), size = 1.0"),
    ({"tree": [{"name": "a", "leaves": [{"nam": 1}]}]}, r"it.tree\['a'\].leaves\[0\].nam is not known, did you mean"),
    ({"tree": ["a"]}, r"it.tree\[0\] must be a table, got 'a'"),
    ({"derived": 4}, "it.derived is not known"),
    ({"nmber": 4}, "it.nmber is not known, did you mean 'number'?"),
    ({"name": "Nothing"}, "it.name must be 'Everything', got 'Nothing'"),
    ([1], r"it must be a table, got \[1\]"),
]


@pytest.mark.parametrize(("plain", "words"), WRONG, ids=[str(plain)[:50] for plain, _ in WRONG])
def test_wrong_values(plain: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Reader().make(Everything, plain, "it")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["number", "whole", "flag", "choice", "pair", "row", "rows", "table", "by_number", "array", "tree", "mixed"]


@given(st.sampled_from(FIELDS), JSON)
def test_whatever_comes_is_read_or_rejected(name: str, plain: Any) -> None:
    try:
        made = Reader().make(Everything, {name: plain}, "it")
    except ConfigError as error:
        said = str(error)
    else:
        said = "it." if describe(Reader().make(Everything, through_json(made), "it")) == describe(made) else "other"
    assert said.startswith(("it.", "a key of it."))


@given(st.sampled_from(["algorithm", "loss", "feature map", "preprocessing", "participation", "link"]), JSON)
def test_no_table_builds_what_it_may_not(kind: str, plain: Any) -> None:
    try:
        made = registry.build(kind, plain)
    except InputError:
        return
    assert type(made) in registry.names(kind).values()


@pytest.mark.parametrize(
    ("kind", "plain", "error", "words"),
    [
        ("algorithm", {"name": "os.system"}, UnknownName, "unknown algorithm 'os.system'"),
        ("algorithm", {"name": "Logistic"}, UnknownName, "unknown algorithm 'Logistic'"),
        ("algorithm", {"name": "Newton", "loss": {"name": "Newton"}}, UnknownName, "unknown loss in algorithm.loss"),
        ("algorithm", 3, ConfigError, "algorithm must be an algorithm"),
        ("preprocessing", {"name": "Preprocess", "schema": "x"}, ConfigError, "preprocessing.schema must be a list"),
        (
            "preprocessing",
            {"name": "Preprocess", "schema": []},
            ConfigError,
            "preprocessing.schema: a schema has at least",
        ),
        (
            "preprocessing",
            {"name": "Preprocess", "schema": [{"name": "age", "impute": "median"}]},
            ConfigError,
            r"preprocessing.schema\['age'\].impute must be 'mean' or 'keep' or 'complete' or a number or 'none', "
            r"got 'median'",
        ),
        (
            "feature map",
            {"name": "Nystroem", "landmarks": [["a"]], "gamma": 1},
            ConfigError,
            "feature map.landmarks must be an array",
        ),
        (
            "feature map",
            {"name": "Nystroem", "landmarks": [[None]], "gamma": 1},
            ConfigError,
            "feature map: landmarks are a matrix of finite numbers",
        ),
        ("participation", {"name": "Participation", "retries": 1.5}, ConfigError, "retries must be a whole number"),
        ("partition scheme", {"name": "given", "indices": [["x"]]}, ConfigError, r"indices\[0\] must be an array"),
    ],
)
def test_wrong_tables(kind: str, plain: Any, error: type[InputError], words: str) -> None:
    with pytest.raises(error, match=words):
        registry.build(kind, plain)


def test_infinite_numbers_are_spelled() -> None:
    assert through_json(Everything(maybe=math.inf))["maybe"] == "inf"
    assert Reader().make(Everything, {"maybe": "-inf"}, "it").maybe == -math.inf
    assert Reader().make(Everything, {"mixed": "inf"}, "it").mixed == "inf"  # where text is declared it is text
