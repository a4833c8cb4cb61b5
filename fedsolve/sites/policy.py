"""What a site allows: its own rules, which no run can change.

The defaults allow an honest fit of a regression or of trees, and refuse what is known to give rows away. Every rule is
a field, so a refusal can name it and a site can set it in the `[policy]` of its site file.
"""

from __future__ import annotations

import math
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
    "evaluations",
    "min_rows",
    "min_cell",
    "row_sets",
)
MOST_ROW_SETS = 8


@dataclass(frozen=True)
class Policy:
    """The rules of a site.

    Which questions:

    algorithms          names of the algorithms that may run here; None: all of the installed library
    also                what else a run may ask for: StandardErrors, FederationGain, EarlyStopping. Add "Evaluation", a
                        diagnosis or a cross-validation if you allow them: an evaluation tells where runs of five rows
                        begin and end among the scores of a model that the server chooses, the others ask many questions
    refuse              steps that are never answered, such as "local_minimiser" or "Newton.evaluate"
    columns             the columns that a run may use; None: all that the site file declares
    features            feature maps that a run may use, by their names; of a `Transformer` the name of scikit-learn's
                        class. A map is what a run makes of the columns: with landmarks, knots or a narrow kernel it
                        looks at single rows, and a rare combination of columns is one of its columns
    formulas            formulas that a run may make columns by, as the run file has them. A spline with knots close
                        together looks at single rows, so each one is read before it is allowed
    networks            whether neural networks may be fitted. A server that writes their weights can make one neuron
                        answer to a single row, and no rule here sees that
    runs                how many runs may begin within 24 hours; each has budgets of its own
    requests, bytes     how many requests of one run are answered, and how many bytes it may be sent, restarts included
    questions           how often a single step is answered in one run
    refusals            a run that was refused something so often is not answered any more; a refusal tells something
    failures            a run in which so many requests failed is not answered any more
    directions          how often a run may ask how predictions change along a direction of its choice, as one does to
                        see whether there is a minimum
    evaluations         how often a run may ask how good a model is, which counts rows on either side of a threshold:
                        some 25 questions at the end of a run with classes, and one for each row of its history
    counts              how often a run may count rows between bounds that it chooses, as trees do to agree on bins

    How many rows stand behind an answer:

    min_rows            fewer rows to learn from, or to judge by, are not used at all; also the least batch of a local
                        solver, the least leaf of a tree and the least bin of an evaluation
    min_cell            a column of the model is refused in which some rows, but fewer than this, differ from all
                        others (a category of one person, a missing cell with an indicator), and so is a class of the
                        outcome with so few rows: sums over a column or a class are sums over these rows. 1: none is
    fills               whether what stands for missing cells is held to the site's own range of the column, and to what
                        earlier runs took, where fewer than min_rows rows can be told by it: two values that differ give
                        the sum over these rows
    bins                whether the bins of trees are held to those of earlier runs on the same data file: cuts of two
                        runs that enclose fewer than min_rows rows are refused, because leaves of both tell of these
    row_sets            how many different sets of its rows runs may use, by held-out rows and complete cases; sets
                        that differ in fewer than min_rows rows are refused. At most 8: all their sums and differences
                        are looked at
    own_draws           whether what is drawn by chance here (batches, folds) also depends on a secret of the site's
                        own. Without it a server knows which rows a batch has, and can solve for them; with it a run
                        that draws is not the same to the bit as its simulation
    parameters_per_row  a model with more parameters for each row is not fitted
    share_of_cells      a reply may have so many numbers for each cell of the table (rows times columns)

    Which points are answered at:

    largest_loss        a point at which the rows fit so many times worse than without a model is refused, because far
                        out each row counts fully or not at all, and two gradients can enclose one; of counts, so many
                        times worse in the roots of their deviances. Not for the squared loss
    largest_row         a point is refused where one row makes up more than this share of the gradient, the curvature or
                        of what changed since an earlier request of any run; m rows, fewer than min_rows, more than
                        1 − (1 − largest_row)/m
    largest_step        a local step may be so many times as long as the curvature of the loss allows
    """

    algorithms: tuple[str, ...] | None = None
    also: tuple[str, ...] = ("StandardErrors", "FederationGain", "EarlyStopping")
    refuse: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    features: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    networks: bool = False
    runs: int = 50
    requests: int = 5000
    bytes: int = 2**30
    questions: int = 3000
    refusals: int = 20
    failures: int = 200
    directions: int = 64
    counts: int = 24
    evaluations: int = 200
    min_rows: int = 5
    min_cell: int = 3
    fills: bool = True
    bins: bool = True
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
        if self.row_sets > MOST_ROW_SETS:
            raise ConfigError(
                f"policy.row_sets is at most {MOST_ROW_SETS}, got {self.row_sets!r}: all sums and differences of the "
                "sets are looked at"
            )
        for name in ("parameters_per_row", "share_of_cells", "largest_loss", "largest_step"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"policy.{name} is a positive number, and finite, got {getattr(self, name)!r}")
        if not 0 < self.largest_row <= 1:
            raise ConfigError(f"policy.largest_row is a share, above 0 and at most 1, got {self.largest_row!r}")
