"""Every table and key of a run file, with its type, default and bounds.

Where a table describes a dataclass of the library (the limits of `Stopping`, `Participation`), its keys follow from the
fields of that dataclass. Hyper-parameters of algorithms, losses and the like are left to the registry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

import fedsolve.plain.annotations as forms
from fedsolve.data.formula_terms import sides
from fedsolve.data.site_tables import SiteReading
from fedsolve.errors import ConfigError
from fedsolve.federation.participation import Participation
from fedsolve.inference.evaluation import Evaluation
from fedsolve.loggers import Logger, MLflow, TensorBoard
from fedsolve.loop.early_stopping import EarlyStopping
from fedsolve.loop.few_rows import MIN_ROWS
from fedsolve.loop.patience import Patience
from fedsolve.loop.stopping import Stopping, StoppingRule
from fedsolve.losses import Loss, Squared
from fedsolve.plain.annotations import Form, field_forms

Positive = Field(default=None, gt=0)


class Table(BaseModel):
    """A table of a run file: no key that is not known, no text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Na = str | int | float | list[str | int | float]


class SiteTable(Table):
    """How one site's file differs from the others; see `fedsolve.data.SiteReading`."""

    header: bool | None = None
    names: list[str] | None = None
    na: Na | dict[str, Na] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip: int | None = Field(default=None, ge=0)
    skip_footer: int | None = Field(default=None, ge=0)
    rename: dict[str, str] | None = None
    absent: list[str] = []
    drop: list[str] = []

    def build(self) -> SiteReading:
        """The reading that the table describes."""
        return SiteReading(**dict(self))


class Data(Table):
    """`dataset` is a name of `fedsolve datasets`, `file` a path (from the folder of the run file), `files` one file per
    site: a table of names and paths, a list of paths, or a pattern.

    rows      so many of them, drawn by `seed`, in their own order
    split_by  a column: each of its values is a client
    positive  the class (its name, or its number) that is 1 where all others are 0; a list of them, or a condition
    classes   csv, npz: all labels there are, in the order in which they are numbered; sorted by default
    sites     how single files of `files` are read, where they differ

    The rest says how to read the file; see `fedsolve.data.load`.
    """

    dataset: str | None = None
    file: str | None = None
    files: str | list[str] | dict[str, str] | None = None
    sites: dict[str, SiteTable] | None = None
    rows: int | None = Positive
    seed: int = Field(default=0, ge=0)
    split_by: str | int | None = None
    positive: str | int | float | list[str | int | float] | None = None
    classes: list[str | int | float] | None = None

    format: Literal["csv", "libsvm", "npz", "idx", "parquet"] | None = None
    target: str | int | list[str] | None = None
    weight: str | int | None = None
    offset: str | int | None = None
    missing_target: Literal["error", "drop"] | None = None
    header: bool | None = None
    names: list[str] | None = None
    na: Na | dict[str, Na] | None = None
    drop: list[str | int] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip: int | None = Field(default=None, ge=0)
    skip_footer: int | None = Field(default=None, ge=0)
    n_features: int | None = Positive
    zero_based: bool | None = None
    labels: str | None = None
    scale: bool | None = None
    transpose: bool | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        if sum(one is not None for one in (self.dataset, self.file, self.files)) != 1:
            raise ValueError(
                "either dataset = a name, or file = a path, or files = one for each site, is needed, and only one"
            )
        if self.files is None:
            if self.sites is not None or self.missing_target is not None:
                raise ValueError("sites and missing_target are for files, one for each site")
            return self
        for key in ("rows", "split_by", "format", "n_features", "zero_based", "labels", "scale", "transpose"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key} is for one file or data set, and files has one for each site: leave it out")
        if self.target is None or isinstance(self.target, int):
            raise ValueError('target = "…" is missing: columns of several files are matched by name, so name it')
        places = [one for one in (self.weight, self.offset, *(self.drop or ())) if isinstance(one, int)]
        if places:
            raise ValueError(f"columns of several files are matched by name: write a name instead of {places[0]}")
        return self

    def options(self) -> dict[str, object]:
        """How to read it: what was said, and nothing else."""
        own = {"dataset", "file", "files", "sites", "rows", "seed", "split_by", "positive"}
        return {key: value for key, value in self if key not in own and value is not None}


class Server(Data):
    """Rows of the server's own: without their targets, such as public data to distil on; with their targets where an
    algorithm learns from them (FedLRGD). They have the clients' columns, and are preprocessed as theirs are.

    dataset, file  where they are from, read as [data] is, where a csv file may have the clients' columns alone, without
                   a target; without either, `rows` of the run's own data are set aside for the server, and no client
                   has them
    rows           so many of them, drawn by `seed`
    """

    @model_validator(mode="after")
    def _one_source(self) -> Server:
        if self.dataset is not None and self.file is not None:
            raise ValueError("either dataset = a name, or file = a path, and not both")
        if self.dataset is None and self.file is None and (self.rows is None or self.options()):
            raise ValueError("give dataset = a name or file = a path, or rows = how many of the run's own data")
        if self.split_by is not None or self.positive is not None:
            raise ValueError("split_by and positive say something of the clients' rows: give them in [data]")
        if self.files is not None or self.sites is not None:
            raise ValueError("files and sites are the clients' own: the server has one file = a path")
        return self

    @property
    def is_set_aside(self) -> bool:
        """Whether the rows are some of the run's own data."""
        return self.dataset is None and self.file is None


class Open(Table):
    """A table whose other keys are the hyper-parameters of what it names; the registry checks those."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def plain(self) -> dict[str, object]:
        return dict(self.model_extra or {})


class Partition(Open):
    scheme: str
    clients: int | None = Positive
    seed: int = Field(default=0, ge=0)
    client_names: list[str] | None = None


class Preprocess(Open):
    """`standardise`, `impute`, `schema` and `formula`; see `fedsolve.data.preprocessing`.

    site_intercepts  true: an indicator of each site but the first; a site's name: of each but that one; "full": of each
    """

    site_intercepts: bool | str = False


class AlgorithmTable(Open):
    """`grid` has lists of values to try for some of its keys; each combination is an algorithm of its own."""

    name: str
    label: str | None = None
    grid: dict[str, object] | None = None


class LossTable(Open):
    name: str


def _keys_of(kind: type, not_negative: Collection[str]) -> type[Table]:
    """A table with a key for each field of a dataclass that TOML has a type for, with its type and default."""
    defaults = {field.name: field.default for field in fields(kind)}
    keys: dict[str, Any] = {}
    for name, form in field_forms(kind).items():
        if (hint := _hint_of(form)) is not None:
            keys[name] = (hint, Field(default=defaults[name], ge=0 if name in not_negative else None))
    return create_model(kind.__name__, __base__=Table, **keys)


def _hint_of(form: Form) -> Any:
    """The type of a key whose values have this form; None if TOML has none."""
    match form:
        case forms.Simple(kind):
            return kind
        case forms.Table(_, forms.Simple(kind), entry) if kind is str:
            return dict[str, _hint_of(entry)]  # type: ignore[misc]
        case forms.OneOf(options):
            hints = [_hint_of(one) for one in options]
            return None if None in hints else reduce(or_, hints)
    return None


class WarmStart(Open):
    """An algorithm that runs first: the run begins with its model. A loss it does not name is that of the algorithm
    whose start it is.

    rounds  how many rounds of it
    """

    name: str
    rounds: int = Field(default=1, ge=0)


_Limits = _keys_of(Stopping, not_negative=[field.name for field in fields(Stopping)])
_Participation = _keys_of(Participation, not_negative=["retries"])


class Budget(_Limits):  # type: ignore[misc, valid-type]
    """When to stop, how to get there, and what to keep on the way. The limits are those of `fedsolve.Stopping`.

    warm_start  the file of a model to begin with (from the folder of the run file), or an algorithm that runs first
    measure     value and gradient norm every so many rounds; 0: only at the end
    checkpoint  true: in the output folder; false: none; or a path
    min_rows    warn of clients with fewer rows; 1 allows clients of one row, 0 leaves out all warnings of few rows
    """

    seed: int = Field(default=0, ge=0, lt=2**64)
    transport: str = "in_process"
    workers: int | None = Positive
    warm_start: str | WarmStart | None = None
    measure: int = Field(default=1, ge=0)
    checkpoint: bool | str = True
    checkpoint_every: int | None = Positive
    resume: bool = False
    min_rows: int = Field(default=MIN_ROWS, ge=0)

    @model_validator(mode="after")
    def _agree(self) -> Budget:
        if self.resume and self.checkpoint is False:
            raise ValueError("resume = true needs a checkpoint, and checkpoint = false switches it off")
        return self

    def stopping(self) -> Stopping:
        """The limits."""
        return Stopping(**{name: getattr(self, name) for name in _Limits.model_fields})


class ParticipationTable(_Participation):  # type: ignore[misc, valid-type]
    """Who is asked, and how many are enough; the keys are the fields of `fedsolve.Participation`."""

    def build(self) -> Participation:
        """The participation that the table describes."""
        return Participation(**dict(self))


class Links(Open):
    """What clients may send in a round; `by_client` has tables for some of them. See `fedsolve.federation.links`."""

    name: str = "Link"
    by_client: dict[str, dict[str, object]] = Field(default_factory=dict)


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


class EvaluationTable(Table):
    """Held-out rows to judge models by. `hold_out` is the share that each client sets aside, drawn by `seed`; the other
    keys are the fields of `fedsolve.Evaluation`."""

    hold_out: float = Field(default=0.2, gt=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**64)
    every: int = Field(default=1, ge=1)
    least: int = Field(default=1, ge=1)
    auc_error: float = Field(default=1e-4, ge=0, lt=1)

    def build(self, loss: Loss) -> Evaluation:
        """The evaluation that the table describes."""
        return Evaluation(loss, every=self.every, least=self.least, auc_error=self.auc_error)


class StoppingTable(Table):
    """Stopping rules beside the limits of [run]: `fedsolve.Patience` and `fedsolve.EarlyStopping`.

    patience  end after so many rounds without progress, with the best model
    metric    what patience judges by: a figure of held-out rows, where there is an [evaluation]; else the value
    least     the progress that counts, relative to the value
    early     whether to end before the noise is fitted (squared loss; FedAvg, FedProx)
    sigma     the standard deviation of the noise; estimated if it is not given
    norm      the size of the function to learn; estimated if it is not given, 1 is the rule as it is printed
    """

    patience: int | None = Positive
    metric: str = "value"
    least: float = Field(default=0.0, ge=0, lt=1)
    early: bool = False
    sigma: float | None = Positive
    norm: float | None = Positive

    @model_validator(mode="after")
    def _something(self) -> StoppingTable:
        if self.patience is None and not self.early:
            raise ValueError("there is no rule in it; give patience = a number of rounds, or early = true")
        return self

    def rules(self, loss: Loss, evaluation: Evaluation | None) -> list[StoppingRule]:
        """The rules that the table describes. Raises ConfigError if they do not fit the loss."""
        found: list[StoppingRule] = []
        if self.patience is not None:
            found.append(Patience(self.patience, evaluation, self.least, self.metric))
        if self.early:
            if not isinstance(loss, Squared):
                raise ConfigError(f"stopping.early = true is for the squared loss, got {type(loss).__name__}")
            found.append(EarlyStopping(loss, self.sigma, self.norm))
        return found


class Gain(Table):
    """Who gains by joining: the share of rows that clients set aside for it, and how the comparison is made. See
    `fedsolve.FederationGain`."""

    held_out: float = Field(default=0.3, gt=0, lt=1)
    folds: int = Field(default=5, ge=2)
    level: float = Field(default=0.95, gt=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**64)


class Compare(Table):
    """How `fedsolve compare` runs the algorithms.

    seeds  how many times each of them, with other seeds every time: of the run, of the partition, of held-out rows
    band   what is drawn beside the median: from the least to the largest, or from quartile to quartile
    """

    seeds: int = Field(default=1, ge=1)
    band: Literal["range", "quartiles"] = "range"


class Loggers(Table):
    """Where each round is logged besides the output folder: `fedsolve.loggers`.

    tensorboard   a folder, in which every run gets one of its own
    mlflow        the name of an experiment, in which every run is one
    tracking_uri  where MLflow logs to; as it is configured by default
    """

    tensorboard: str | None = None
    mlflow: str | None = None
    tracking_uri: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> Loggers:
        if self.tracking_uri is not None and self.mlflow is None:
            raise ValueError('tracking_uri is where MLflow logs to: name an experiment too, mlflow = "…"')
        return self

    def open(self, run: Path, parameters: Mapping[str, object]) -> Iterator[Logger]:
        """A logger for each that is named. `run` is the folder of the run; the last two parts of it name the run."""
        name = Path(*run.resolve().parts[-2:])
        if self.tensorboard is not None:
            yield TensorBoard(Path(self.tensorboard).expanduser() / name)
        if self.mlflow is not None:
            yield MLflow(self.mlflow, name=str(name), tracking_uri=self.tracking_uri, parameters=parameters)


class Modules(Table):
    """Where modules of one's own are, for names that are import paths; see `fedsolve.runfiles.own_classes`.

    folder  from the folder of the run file, which it is by default
    """

    folder: str = "."

    def within(self, folder: Path) -> Path:
        """The folder, for a run file in this one."""
        return folder / Path(self.folder).expanduser()


class SummaryTable(Table):
    """Standard errors, intervals and tests of the coefficients; see `fedsolve.summary` and `fedsolve.StandardErrors`.

    errors   the standard errors of intervals and tests
    t        use the t distribution instead of the normal one
    weights  what sample weights are
    """

    errors: Literal["model", "robust", "clustered"] = "model"
    level: float = Field(default=0.95, gt=0, lt=1)
    t: bool = False
    weights: Literal["frequency", "reliability"] = "frequency"
    clusters: Literal["auto", "yes", "no"] = "auto"


class Output(Table):
    folder: str | None = None
    figures: bool = True


class Fit(Table):
    """What every run file has, whoever holds the data: how it is fitted, until when, and how it is judged."""

    preprocess: Preprocess | None = None
    loss: LossTable | None = None
    algorithm: AlgorithmTable | None = None
    algorithms: list[AlgorithmTable] | None = Field(default=None, min_length=1)
    run: Budget = Budget()
    participation: ParticipationTable | None = None
    evaluation: EvaluationTable | None = None
    stopping: StoppingTable | None = None
    summary: SummaryTable | None = None
    output: Output = Output()

    def participants(self) -> Participation | None:
        """Who takes part in each round; None for everyone."""
        return None if self.participation is None else self.participation.build()

    def judging(self, loss: object) -> tuple[list[StoppingRule], Evaluation | None]:
        """The stopping rules of a run with this loss, and the evaluation that goes with it."""
        if self.evaluation is None and self.stopping is None:
            return [self.run.stopping()], None
        if not isinstance(loss, Loss):
            raise ConfigError("[evaluation] and [stopping] need an algorithm with a loss")
        evaluation = None if self.evaluation is None else self.evaluation.build(loss)
        more = [] if self.stopping is None else self.stopping.rules(loss, evaluation)
        return [self.run.stopping(), *more], evaluation

    def tables(self) -> list[tuple[str, AlgorithmTable]]:
        """Every algorithm's table with its place in the file."""
        if self.algorithm is not None:
            return [("algorithm", self.algorithm)]
        return [(f"algorithms[{index}]", table) for index, table in enumerate(self.algorithms or ())]


class Config(Fit):
    """A whole run file."""

    data: Data
    server: Server | None = None
    partition: Partition | None = None
    link: Links | None = None
    select: Select | None = None
    gain: Gain | None = None
    compare: Compare = Compare()
    loggers: Loggers = Loggers()
    modules: Modules = Modules()

    @model_validator(mode="before")
    @classmethod
    def _target_of_formula(cls, tables: Any) -> Any:
        """The column left of ~ in a formula is the target, if [data] does not name it."""
        data, preprocess = (tables.get(name) if isinstance(tables, dict) else None for name in ("data", "preprocess"))
        if not isinstance(data, dict) or not isinstance(preprocess, dict) or "formula" not in preprocess:
            return tables
        left, _ = sides(preprocess["formula"])
        if left is None or data.get("target") == left:
            return tables
        if "dataset" in data:
            raise ValueError(f"a data set has a target of its own: leave {left} ~ out of preprocess.formula")
        if "target" in data:
            raise ValueError(
                f"data.target is {data['target']!r}, and preprocess.formula has {left!r} left of ~: name the same "
                "column, or leave one of both out"
            )
        return {**tables, "data": {**data, "target": left}}

    @model_validator(mode="after")
    def _one_of_them(self) -> Config:
        if (self.algorithm is None) == (self.algorithms is None):
            raise ValueError(
                "either an [algorithm] to run, or a list of [[algorithms]] to compare, is needed, not both"
            )
        if self.algorithm is not None and self.algorithm.grid is not None:
            raise ValueError(
                "algorithm.grid is for [[algorithms]], which `fedsolve compare` runs, not for one [algorithm]"
            )
        if self.data.files is not None:
            if self.partition is not None:
                raise ValueError("data.files has one file for each client, so leave [partition] out")
            if self.server is not None and self.server.is_set_aside:
                raise ValueError("each of data.files stays with its client: the server needs a file of its own")
        elif self.partition is None and self.data.split_by is None:
            raise ValueError("how the data is divided is missing: a [partition] with a scheme, or data.split_by")
        return self

    def seeded(self, more: int) -> Config:
        """The same run file with all seeds larger by so much that make one run of a comparison differ from another:
        those of the run, of the partition and of the held-out rows. The data stays, and so do the server's rows. Raises
        ConfigError if a seed would become too large."""
        given = {"run": self.run, "partition": self.partition, "evaluation": self.evaluation}
        changed: dict[str, Table] = {}
        for name, table in given.items():
            if table is not None:
                if table.seed + more >= 2**64:
                    raise ConfigError(f"{name}.seed = {table.seed} leaves no room below 2⁶⁴ for {more + 1} seeds")
                changed[name] = table.model_copy(update={"seed": table.seed + more})
        return self.model_copy(update=changed)
