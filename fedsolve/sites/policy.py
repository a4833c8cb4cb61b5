"""What a site allows: its own rules, which no run can change.

The defaults allow an honest fit of a regression or of trees, and refuse what is known to give rows away. Every rule is
a field, so a refusal can name it and a site can set it in the `[policy]` of its site file.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import is_whole

_WHOLE = (
    "runs",
    "requests",
    "bytes",
    "questions",
    "refusals",
    "failures",
    "directions",
    "counts",
    "min_rows",
    "row_sets",
)


@dataclass(frozen=True)
class Policy:
    """The rules of a site.

    Which questions:

    algorithms          names of the algorithms that may run here; None: all of the installed library
    also                what else a run may ask for: Evaluation, StandardErrors, FederationGain, EarlyStopping and the
                        like. A diagnosis and a cross-validation ask many questions, so they are not on the list by
                        default
    refuse              steps that are never answered, such as "local_minimiser" or "Newton.evaluate"
    columns             the columns that a run may use; None: all that the site file declares
    landmarks           whether features may compare rows with points that the run names (Nyström maps): with a narrow
                        kernel that tells whether somebody is among the rows
    networks            whether neural networks may be fitted. A server that writes their weights can make one neuron
                        answer to a single row, and no rule here sees that
    formulas            whether a run may make columns by a formula: a spline with knots close together looks at single
                        rows. Look at the formula before you allow it
    runs                how many runs may begin within 24 hours; each has budgets of its own
    requests, bytes     how many requests of one run are answered, and how many bytes it may be sent, restarts included
    questions           how often a single step is answered in one run
    refusals            a run that was refused something so often is not answered any more; a refusal tells something
    failures            a run in which so many requests failed is not answered any more
    directions          how often a run may ask how predictions change along a direction of its choice, as one does to
                        see whether there is a minimum
    counts              how often a run may count rows between bounds that it chooses, as trees do to agree on bins

    How many rows stand behind an answer:

    min_rows            fewer rows to learn from, or to judge by, are not used at all; also the least batch of a local
                        solver, the least leaf of a tree and the least bin of an evaluation
    row_sets            how many different sets of its rows runs may use, by held-out rows and complete cases; sets
                        that differ in fewer than min_rows rows are refused
    own_draws           whether what is drawn by chance here (batches, folds) also depends on a secret of the site's
                        own. Without it a server knows which rows a batch has, and can solve for them; with it a run
                        that draws is not the same to the bit as its simulation
    parameters_per_row  a model with more parameters for each row is not fitted
    share_of_cells      a reply may have so many numbers for each cell of the table (rows times columns)

    Which points are answered at:

    largest_loss        for classes: a point at which the rows fit so many times worse than at zero is refused, because
                        far out each row counts fully or not at all, and two gradients can enclose one
    largest_row         a request is refused if, compared with an earlier one of any run, one row makes up more than
                        this share of what changed
    largest_step        a local step may be so many times as long as the curvature of the loss allows
    """

    algorithms: tuple[str, ...] | None = None
    also: tuple[str, ...] = ("Evaluation", "StandardErrors", "FederationGain", "EarlyStopping")
    refuse: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    landmarks: bool = False
    networks: bool = False
    formulas: bool = False
    runs: int = 50
    requests: int = 5000
    bytes: int = 2**30
    questions: int = 3000
    refusals: int = 20
    failures: int = 200
    directions: int = 64
    counts: int = 24
    min_rows: int = 5
    row_sets: int = 4
    own_draws: bool = True
    parameters_per_row: float = 1 / 3
    share_of_cells: float = 0.5
    largest_loss: float = 10.0
    largest_row: float = 0.9
    largest_step: float = 10.0

    def __post_init__(self) -> None:
        for name in _WHOLE:
            if not is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ConfigError(f"policy.{name} is a whole number from 1 on, got {getattr(self, name)!r}")
        for name in ("parameters_per_row", "share_of_cells", "largest_loss", "largest_step"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"policy.{name} is a positive number, got {getattr(self, name)!r}")
        if not 0 < self.largest_row <= 1:
            raise ConfigError(f"policy.largest_row is a share, above 0 and at most 1, got {self.largest_row!r}")
