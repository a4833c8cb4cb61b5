"""A run file: what to learn from, how it is divided, by what algorithm, until when, where the result goes.

    [data]                       [algorithm]                  [run]
    dataset = "breast_cancer"    name = "Newton"              rounds = 20
    [partition]                  [algorithm.loss]             tolerance = 1e-9
    scheme = "dirichlet"         name = "Logistic"            [output]
    alpha = 0.5                  l2 = 0.01                    folder = "runs/first"
    clients = 5                  intercept = "free"

`[loss]` may stand by itself, for all algorithms that have none of their own; `[[algorithms]]` lists several
to compare. `[preprocess]`, `[participation]`, `[link]` and `[select]` are optional. Keys that are not known are
refused.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from fedsolve.errors import ConfigError

MINIMAL = """
[data]
dataset = "breast_cancer"        # or: file = "own.csv", with target = "…" and split_by = "…"

[partition]                      # not with split_by
scheme = "iid"
clients = 4

[preprocess]

[algorithm]
name = "Newton"
loss = { name = "Logistic", l2 = 0.01, intercept = "free" }
"""

MOST_TEXT = 2**20  # characters of a run file
MOST_DEPTH = 32  # of tables and lists in each other
# A dotted key with more parts than that, a.b.c.…: tomllib takes minutes for some thousands of them.
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_DEPTH + 1}}}""", re.ASCII)

Positive = Field(default=None, gt=0)
Limit = Field(default=None, ge=0)


class Table(BaseModel):
    """A table of a run file: no key that is not known, no text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Data(Table):
    """`dataset` is a name of `fedsolve datasets`, `file` a path (from the folder of the run file).

    rows      so many of them, drawn by `seed`, in their own order
    split_by  a column: each of its values is a client
    positive  the class (its name, or its number) that is 1 where all others are 0
    classes   csv, npz: all labels there are, in the order in which they are numbered; sorted by default

    The rest says how to read the file; see `fedsolve.data.load`.
    """

    dataset: str | None = None
    file: str | None = None
    rows: int | None = Positive
    seed: int = Field(default=0, ge=0)
    split_by: str | int | None = None
    positive: str | int | float | None = None
    classes: list[str | int | float] | None = None

    format: Literal["csv", "libsvm", "npz", "idx"] | None = None
    target: str | int | None = None
    header: bool | None = None
    names: list[str] | None = None
    na: str | list[str] | None = None
    drop: list[str | int] | None = None
    delimiter: str | None = None
    n_features: int | None = Positive
    zero_based: bool | None = None
    labels: str | None = None
    scale: bool | None = None
    transpose: bool | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        if (self.dataset is None) == (self.file is None):
            raise ValueError("either dataset = a name, or file = a path, is needed, and not both")
        return self

    def options(self) -> dict[str, Any]:
        """How to read it: what was said, and nothing else."""
        own = {"dataset", "file", "rows", "seed", "split_by", "positive"}
        return {key: value for key, value in self if key not in own and value is not None}


class Open(Table):
    """A table whose other keys are the hyper-parameters of what it names; the registry checks those."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def plain(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Partition(Open):
    scheme: str
    clients: int | None = Positive
    seed: int = Field(default=0, ge=0)
    client_names: list[str] | None = None


class Preprocess(Open):
    """`standardise`, `impute` and `schema`; see `fedsolve.data.preprocessing`."""


class AlgorithmTable(Open):
    name: str
    label: str | None = None


class LossTable(Open):
    name: str


class Budget(Table):
    """When to stop, how to get there, and what to keep on the way.

    tolerance   on the gradient relative to the problem's own scale; gradient_norm: in the data's units
    measure     value and gradient norm every so many rounds; 0: only at the end
    checkpoint  true: in the output folder; false: none; or a path
    """

    rounds: int = Field(default=100, ge=0)
    tolerance: float | None = Field(default=1e-8, ge=0)
    gradient_norm: float | None = Limit
    gap: float | None = Limit
    change: float | None = Limit
    bytes: int | None = Limit
    seconds: float | None = Limit
    seed: int = Field(default=0, ge=0, lt=2**64)
    transport: str = "in_process"
    workers: int | None = Positive
    measure: int = Field(default=1, ge=0)
    checkpoint: bool | str = True
    checkpoint_every: int | None = Positive
    resume: bool = False

    @model_validator(mode="after")
    def _agree(self) -> Budget:
        if self.resume and self.checkpoint is False:
            raise ValueError("resume = true needs a checkpoint, and checkpoint = false switches it off")
        return self


class Participation(Table):
    """Who is asked, and how many are enough; see `fedsolve.Participation`."""

    fraction: float = 1.0
    dropout: float = 0.0
    latency: float | dict[str, float] | None = None
    deadline: float | None = None
    quorum: float = 0.0
    retries: int = Field(default=0, ge=0)


class Links(Open):
    """What clients may send in a round; `by_client` has tables for some of them. See `fedsolve.federation.links`."""

    name: str = "Link"
    by_client: dict[str, dict[str, Any]] = Field(default_factory=dict)


class LogRange(Table):
    """So many values from `low` to `high`, each the same multiple of the one before."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)
    points: int = Field(ge=2)

    @model_validator(mode="after")
    def _upwards(self) -> LogRange:
        if self.low > self.high:
            raise ValueError(f"low = {self.low:g} is above high = {self.high:g}; exchange them")
        return self

    def values(self) -> list[float]:
        ratio = self.high / self.low
        inner = [self.low * ratio ** (index / (self.points - 1)) for index in range(1, self.points - 1)]
        return [self.low, *(float(f"{value:.3g}") for value in inner), self.high]  # three digits are easier to read


class Select(Table):
    """What `fedsolve select` chooses between, and by what folds. `features` has lists for the feature map's keys."""

    l2: list[float] | LogRange | None = Field(default=None)
    l1: list[float] | LogRange | None = Field(default=None)
    features: dict[str, list[float | int | str] | LogRange] | None = None
    folds: int = Field(default=5, ge=2)
    seed: int = Field(default=0, ge=0, lt=2**64)
    reply_bytes: int | None = Positive

    @model_validator(mode="after")
    def _something(self) -> Select:
        if not (self.l2 or self.l1 or self.features):
            raise ValueError("there is nothing to choose between; give a list of l2, of l1, or one in features")
        return self

    def lists(self) -> dict[str, Any]:
        """As `loss_grid` takes them."""
        found = {name: _listed(value) for name, value in (("l2", self.l2), ("l1", self.l1)) if value is not None}
        if self.features:
            found["features"] = {name: _listed(value) for name, value in self.features.items()}
        return found


def _listed(values: Any) -> Any:
    return values.values() if isinstance(values, LogRange) else values


class Output(Table):
    folder: str | None = None
    figures: bool = True


class Config(Table):
    """A whole run file."""

    data: Data
    partition: Partition | None = None
    preprocess: Preprocess | None = None
    loss: LossTable | None = None
    algorithm: AlgorithmTable | None = None
    algorithms: list[AlgorithmTable] | None = Field(default=None, min_length=1)
    run: Budget = Budget()
    participation: Participation | None = None
    link: Links | None = None
    select: Select | None = None
    output: Output = Output()

    @model_validator(mode="after")
    def _one_of_them(self) -> Config:
        if (self.algorithm is None) == (self.algorithms is None):
            raise ValueError(
                "either an [algorithm] to run, or a list of [[algorithms]] to compare, is needed, not both"
            )
        if self.partition is None and self.data.split_by is None:
            raise ValueError("how the data is divided is missing: a [partition] with a scheme, or data.split_by")
        return self

    def tables(self) -> list[tuple[str, AlgorithmTable]]:
        """Every algorithm's table with its place in the file."""
        if self.algorithm is not None:
            return [("algorithm", self.algorithm)]
        return [(f"algorithms[{index}]", table) for index, table in enumerate(self.algorithms or ())]


def read(path: Path) -> Config:
    """The run file at `path`; every fault in it is a ConfigError that names file and key."""
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """What stands in the run file: UTF-8, with or without a byte order mark, and at most `MOST_TEXT` characters."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST_TEXT + 1)
    except FileNotFoundError:
        raise ConfigError(f"there is no run file {path}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the run file {path} is not UTF-8 text ({error}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"the run file {path} cannot be read: {error}") from None
    if len(text) > MOST_TEXT:
        raise ConfigError(
            f"the run file {path} has more than {MOST_TEXT:,} characters, more than any run file needs; is it the data?"
        )
    return text


def parse(text: str, name: str = "run file") -> Config:
    """The same from text."""
    tables = _tables(text, name)
    if not tables:
        empty = ConfigError(f"{name} is empty; every key is in docs/run-file.md, and this is a small run file:")
        empty.add_note(MINIMAL)
        raise empty
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        said: dict[str, str] = {}
        for each in _of_the_alternative_meant(error.errors()):
            key, sentence = _sentence(each)
            said[key] = _joined(said[key], sentence) if key in said else sentence
        raise ConfigError(f"{name}: {'; '.join(said.values())}") from None


def _tables(text: str, name: str) -> dict[str, Any]:
    """The text as TOML, nested no deeper than a run file can be: what is deeper would cost time, and then the stack."""
    too_deep = f"{name} nests tables or lists more than {MOST_DEPTH} deep, which no run file does"
    if _LONG_KEY.search(text):
        raise ConfigError(too_deep)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(too_deep) from None
    except ValueError as error:  # also a whole number of thousands of digits
        raise ConfigError(f"{name} is not TOML: {error}") from None
    level: list[Any] = [tables]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise ConfigError(too_deep)
    return tables


def from_anywhere(text: str, folder: Path) -> str:
    """The text of a run file with its relative `file` and `labels` made absolute, so that a copy of it elsewhere still
    finds them; where that cannot be done by changing those lines alone, a comment says where it came from."""
    wanted = tomllib.loads(text)
    relative = {
        key: path for key in ("file", "labels") if not _is_absolute(path := wanted.get("data", {}).get(key, "/"))
    }
    if not relative:
        return text
    changed = text
    for key, path in relative.items():
        there = str((folder / path).resolve())
        wanted["data"][key] = there
        pattern = rf"(?m)(^|[\s{{,.])({key}\s*=\s*)(\"[^\"\n]*\"|'[^'\n]*')"
        changed = re.sub(pattern, partial(_with_value, json.dumps(there, ensure_ascii=False)), changed)
    try:
        if tomllib.loads(changed) == wanted:
            return changed
    except tomllib.TOMLDecodeError:
        pass
    return f"# Paths of data files start from the folder {folder.resolve()}\n{text}"


def _with_value(value: str, found: re.Match[str]) -> str:
    return found[1] + found[2] + value


def _is_absolute(path: Any) -> bool:
    return not isinstance(path, str) or Path(path).expanduser().is_absolute()


# ── what pydantic says, in words ──

_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "missing": lambda _: "is missing",
    "int_type": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "string_type": lambda _: "must be text in quotes",
    "bool_type": lambda _: "must be true or false",
    "list_type": lambda _: "must be a list in brackets",
    "dict_type": lambda _: "must be a table",
    "model_type": lambda _: "must be a table",
    "model_attributes_type": lambda _: "must be a table",
    "literal_error": lambda context: f"must be one of {context['expected']}",
    "greater_than": lambda context: f"must be greater than {context['gt']}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']}",
    "less_than": lambda context: f"must be less than {context['lt']}",
    "too_short": lambda _: "is empty",
}


def _of_the_alternative_meant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Where a value may be of several types and is of one of them, but faulty, what the others would want is noise."""

    def is_noise(one: ErrorDetails) -> bool:
        *base, last = one["loc"] or ("",)
        if not (one["type"].endswith("_type") and isinstance(last, str) and _is_type_name(last)):
            return False
        depth = len(base)
        return any(
            list(other["loc"][:depth]) == base
            and other["loc"][depth] != last
            and (len(other["loc"]) > depth + 1 or not other["type"].endswith("_type"))
            for other in errors
            if len(other["loc"]) > depth
        )

    return [one for one in errors if not is_noise(one)]


def _joined(first: str, second: str) -> str:
    """What one key may be, of several alternatives that all failed."""
    head, mark, got = first.rpartition(", got ")
    other = second.rpartition(", got ")[0].split(" must be ")
    return f"{head} or {other[1]}{mark}{got}" if mark and len(other) == 2 else first


def _sentence(error: ErrorDetails) -> tuple[str, str]:
    """The key, and what is wrong with it."""
    path, model = _place(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(path.rsplit(".", 1)[-1], model.model_fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(model.model_fields)}"
        return path, f"{path} is not known, {hint}"
    if kind == "value_error":
        return path, f"{path}: {context['error']}" if path else str(context["error"])
    words = _WORDS.get(kind)
    said = f"{path} {words(context)}" if words else f"{path}: {error['msg']}"
    return path, said if kind in ("missing", "too_short") else f"{said}, got {_short(error['input'])}"


def _place(location: tuple[int | str, ...]) -> tuple[str, type[BaseModel]]:
    """The key as a user writes it, without pydantic's names of alternatives, and the model it stands in."""
    model: type[BaseModel] = Config
    path = ""
    for index, part in enumerate(location):
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in model.model_fields or (index == len(location) - 1 and not _is_type_name(part)):
            path += f".{part}" if path else part
            if part in model.model_fields:
                model = _model_of(model.model_fields[part].annotation) or model
    return path, model


def _is_type_name(part: str) -> bool:
    return part.split("[")[0] in (
        "str",
        "int",
        "float",
        "bool",
        "list",
        "dict",
        "none",
        "constrained-int",
        "function-after",
    )


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_of(one)) is not None), None)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else said[:57] + "…"
