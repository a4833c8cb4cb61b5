"""The policy of a site on functions that a server tells, as boosting does: bins, and trees on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fedsolve.algorithms import FFGB
from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import PolicyRefusal
from fedsolve.features.base import dense
from fedsolve.federation.client import Client
from fedsolve.learners import Trees
from fedsolve.learners.bins import HALF, Bins, Floats, level_of
from fedsolve.learners.hearing import News, agreed_on
from fedsolve.learners.shared_bins import SharedBins, categorical_groups
from fedsolve.learners.tree import Tree
from fedsolve.local.functional_rates import coefficients, rates
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.cut_log import CutLog
from fedsolve.sites.heard_functions import HeardFunctions
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array, Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route

ROUNDING = 1e-9  # of a sum of coefficients
LAST = float(np.finfo(np.float64).max)  # the edge of a split of what is there from what is missing


class FunctionGuard:
    """Holds the rules on functions for one run; a `Guard` of the runtime beside `CallGuard`.

    whole    all rows of the site's file
    learned  which of them the run learns from
    heard    what this run has been told
    cuts     where the bins of all runs on this data have cut its columns
    """

    def __init__(
        self,
        policy: Policy,
        protocols: Mapping[str, object],
        whole: Client,
        learned: Array,
        heard: HeardFunctions,
        cuts: CutLog,
    ) -> None:
        self.policy, self.whole, self.learned, self.heard, self.cuts = policy, whole, learned, heard, cuts
        self.preprocess = protocols.get("preprocess")
        self._judged: bytes | None = None  # the bins that were judged last

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Raise PolicyRefusal for bins and functions that this site does not compute with."""
        for news in arguments.values():
            if isinstance(news, News):
                _check_weights(protocol, news)
                self.heard.check(news)
                self._check_trees(getattr(protocol, "learner", None), news, client)

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Nothing is left to judge: fits are judged where they are made (`leaf_rule`)."""

    def _check_trees(self, learner: object, news: News, client: Client) -> None:
        """The bins that were agreed on, and trees that are told."""
        if not isinstance(learner, SharedBins):
            return
        bins = Bins.of(agreed_on(client) if news.start is None else news.agreed, client.design.shape[1])
        self._check_bins(learner, bins, client)
        for place, part in enumerate(news.parts, start=news.since):
            for arrays in part.functions:
                _check_splits(learner, arrays, bins, place)

    def _check_bins(self, learner: SharedBins, bins: Bins, client: Client) -> None:
        """What is a category, and where columns are cut, before any row is put into a bin."""
        mark = b"".join(to_numpy(one).tobytes() for one in bins.arrays())
        if mark == self._judged:
            return
        names = self._names(client, len(bins.missing))
        if not np.array_equal(bins.groups, categorical_groups(self.preprocess, learner.declared_codes, names)):
            raise PolicyRefusal(
                "bins", "the server takes other columns for categories than this run has declared as such"
            )
        X = self._cells(client)
        self._check_levels(bins, X, names)
        if self.policy.bins:
            s = self.whole.sample_weight
            counted = np.ones(len(X), dtype=bool) if s is None else np.asarray(to_numpy(s) > 0)
            columns = dict(zip(names, X[counted].T, strict=True))
            self.cuts.check(bins, columns, self.learned[counted], self.policy.min_rows)
        self._judged = mark

    def _names(self, client: Client, columns: int) -> tuple[str, ...]:
        """The names of the columns that this run learns from."""
        transform = client.session.get("transform")
        if isinstance(transform, Transform):
            return transform.feature_names()
        return client.column_names or tuple(f"x{place}" for place in range(columns))

    def _cells(self, client: Client) -> Floats:
        """The columns of this run at all rows of the file."""
        transform = client.session.get("transform")
        if isinstance(transform, Transform):
            known = transform.of_numpy()
            made = known.apply(self.whole.ordered([column.name for column in known.columns]))
        else:
            made = self.whole.X if client.column_names is None else self.whole.ordered(client.column_names)
        return np.asarray(to_numpy(dense(made)), dtype=np.float64)

    def _check_levels(self, bins: Bins, X: Floats, names: tuple[str, ...]) -> None:
        """Of every level a fit says on which side of a split it lies, so that none may be that of few rows."""
        s = self.whole.sample_weight
        used = self.learned if s is None else self.learned & np.asarray(to_numpy(s) > 0)
        for start, width in bins.groups.tolist():
            counts = np.bincount(_levels(X[used], start, width))
            if ((counts > 0) & (counts < self.policy.min_cell)).any():
                raise PolicyRefusal(
                    "min_cell",
                    f"a category of column {names[start]!r} has fewer than {self.policy.min_cell} rows here; join rare "
                    "categories at all sites, or leave the column out",
                )


def _levels(X: Floats, start: int, width: int) -> Array:
    """The level of each row in a categorical feature, as trees have them."""
    if width < 0:
        return level_of(X[:, start], -width)
    hot = X[:, start : start + width] > HALF
    return np.where(hot.any(axis=1), hot.argmax(axis=1), width)


def _check_weights(protocol: object, news: News) -> None:
    """Raise PolicyRefusal for a part that leaves of the past, or adds to it, otherwise than the algorithm does: with a
    decay of 0 a server would tell another function in the place of the one that was heard."""
    if not isinstance(protocol, FFGB):
        raise PolicyRefusal("functions", f"functions that a {type(protocol).__name__} is told cannot be judged here")
    for t, part in enumerate(news.parts, start=news.since):
        decay, each = coefficients(rates(protocol.step_size, protocol.tikhonov, t, protocol.steps))
        total = sum(each)
        found = float(np.sum(to_numpy(part.coefficients)))
        if part.decay != decay or not abs(found - total) <= ROUNDING * abs(total):
            raise PolicyRefusal(
                "functions", f"part {t + 1} of the server's function is none that a round of this algorithm makes"
            )


def _check_splits(learner: SharedBins, arrays: tuple[Array, ...], bins: Bins, place: int) -> None:
    """Raise PolicyRefusal for a tree that splits elsewhere than at the edges that were agreed on."""
    if not isinstance(learner, Trees) or len(arrays) != 7:
        return
    tree = Tree(tuple(np.asarray(to_numpy(one)) for one in arrays))
    groups = {(start, width) for start, width in bins.groups.tolist()}
    for feature, threshold, width in _splits(tree):
        if width:
            known = (feature, width) in groups
        else:
            inside = 0 <= feature < len(bins.missing)
            beside_missing = inside and threshold == LAST and bool(bins.missing[feature])
            known = beside_missing or (inside and threshold in bins.column(feature))
        if not known:
            raise PolicyRefusal(
                "bins", f"function {place + 1} of the server splits elsewhere than at the bins that were agreed on"
            )


def _splits(tree: Tree) -> Iterator[tuple[int, float, int]]:
    """The column, threshold and width of each split; arrays that are no tree are refused by the learner."""
    columns = np.ravel(tree.feature)
    return zip(
        columns[columns >= 0].tolist(), np.ravel(tree.threshold).tolist(), np.ravel(tree.width).tolist(), strict=False
    )
