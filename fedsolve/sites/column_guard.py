"""The policy of a site on columns: which cells they have, and what a server may have the site make of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical
from fedsolve.features import FeatureMap
from fedsolve.federation.client import Client
from fedsolve.federation.joining import Joining
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain
from fedsolve.losses import Pointwise
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.agreed_transform import AgreedTransform
from fedsolve.sites.design_cells import check_design, check_knots, check_made
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.fill_log import Fill, FillLog
from fedsolve.sites.parts import parts_of
from fedsolve.sites.policy import Policy
from fedsolve.sites.raw_rows import RawRows, outcome_parts, raw_rows
from fedsolve.sites.set_cells import check_sets
from fedsolve.sites.small_cells import Least, check_parts, close
from fedsolve.sites.transform_rules import (
    Coarse,
    check_centre,
    check_declared,
    check_units,
    is_far,
    made_ranges,
    refuse_far,
)
from fedsolve.typing import Array, Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route


class ColumnGuard:
    """Holds the rules on columns for one run; a `Guard` of the runtime beside `CallGuard`.

    fills   what stood for missing cells in all runs on this data
    agreed  what this run has made of the columns
    """

    def __init__(
        self, policy: Policy, protocols: Mapping[str, object], client: Client, fills: FillLog, agreed: AgreedTransform
    ) -> None:
        self.policy, self.client, self.fills, self.agreed = policy, client, fills, agreed
        found = protocols.get("preprocess")
        self.preprocess = found if isinstance(found, Preprocess) else None
        parts = list(parts_of(protocols))
        self.loss = next((one for one in parts if isinstance(one, Pointwise)), None)  # a run has one
        self.maps = list(dict.fromkeys(one for one in parts if isinstance(one, FeatureMap)))
        self._judges = any(
            isinstance(one, FederationGain) or (isinstance(one, Evaluation) and one.rows == "held") for one in parts
        )
        self._few: dict[str, bool] = {}  # by column with missing cells, whether few rows have them
        self._observed: dict[str, Array] = {}
        self._ranges: dict[str, Coarse | None] = {}
        self._seen: object = self  # the transform whose design was judged last; nothing yet
        self._kept: Transform | None = None  # the transform whose fills were remembered last
        self._asked: Transform | None = None  # that of the call in progress

    # ── when the site starts for the run ──

    def begin(self, whole: Client, earlier: Sequence[Array], mine: Sequence[Array]) -> None:
        """Judge what is known already. Raises PolicyRefusal.

        Args:
            whole: All rows that the site has.
            earlier: Which of them earlier runs used.
            mine: Which of them this run uses.
        """
        own = raw_rows(self.client, self.preprocess, self.loss)
        sets = [own]
        if self.client.held is not None:
            sets.append(raw_rows(self.client.held, self.preprocess, self.loss))
        for client in (self.client, self.client.held):
            if client is not None and client.sample_weight is not None:
                FewRows.of(self.policy, client.n_samples).check_weights(to_numpy(client.sample_weight))
        for place, rows in enumerate(sets if self._judges else [own]):
            if self._is_enough(rows.counted):
                check_parts(rows.parts, Least(self.policy.min_cell, held=place > 0))
        if len({one.tobytes() for one in (*earlier, *mine)}) > 1:
            everybody = raw_rows(whole, self.preprocess, self.loss)
            for used, known in ((mine, False), ((*earlier, *mine), True)):
                sets_used = [one[everybody.counted] for one in used]
                check_sets(everybody.parts, sets_used, self.policy.min_cell, known)
        for name in own.observed:
            self._observed[name] = np.concatenate([rows.observed[name] for rows in sets])
            self._ranges[name] = Coarse.of(self._observed[name])
        for rows in sets:
            for name, few in _few_gaps(rows, self.policy.min_rows):
                self._few[name] = self._few.get(name, False) or few
        if self.preprocess is not None and self.policy.fills:
            self._check_declared_fills(self.preprocess)

    def _check_declared_fills(self, preprocess: Preprocess) -> None:
        declared = {
            column.name: column.impute
            for column in preprocess.columns_of(self.client)
            if self._few.get(column.name) and not isinstance(column, Categorical) and isinstance(column.impute, float)
        }
        self._check_near(declared)
        self.fills.check({name: _number(fill, few=True) for name, fill in declared.items()})

    def _check_near(self, fills: Mapping[str, float]) -> None:
        refuse_far([name for name, fill in fills.items() if is_far(fill, self._ranges[name], self._observed[name])])

    def _is_enough(self, counted: Array) -> bool:
        """Whether rows are used at all; fewer are refused when the server joins."""
        return len(counted) >= self.policy.min_rows and bool(counted.any())

    # ── calls ──

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Raise PolicyRefusal for columns of few rows, and for a transform that the site does not make."""
        self._asked = None
        if isinstance(protocol, Joining):
            return
        if not isinstance(protocol, Preprocess):
            self._judge(client)
            self._keep_fills(client)
            return
        transform = arguments.get("transform")
        if isinstance(transform, Transform):
            self._asked = transform.of_numpy()
            self._check_transform(protocol, self._asked, client)
        if "mean" in arguments:
            self._check_mean(protocol, to_numpy(arguments["mean"]), client)

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """The same for columns that only the step itself has made, and remember what stands for missing cells."""
        transform, self._asked = self._asked, None
        if transform is None:
            return
        if route[1] == "adopt":  # which says how many cells are missing, whatever stands for them
            self._judge(client)
            return
        if transform.design is not None and not transform.design.open:
            for rows, counted, least in self._sets(client):
                check_made(transform, rows, counted, outcome_parts(rows, self.loss, counted), least)
        if self.policy.fills:
            self.fills.keep(dict(self._fills(transform)))

    def _check_transform(self, protocol: Preprocess, transform: Transform, client: Client) -> None:
        self.agreed.check(transform)
        check_declared(protocol, protocol.columns_of(client), transform)
        units = zip(transform.centre.tolist(), transform.scale.tolist(), strict=True)
        check_units(self._ranges, dict(zip((one.name for one in transform.columns), units, strict=True)))
        if self.policy.fills:
            filled = zip(transform.columns, transform.fill.tolist(), strict=True)
            self._check_near(
                {
                    column.name: fill
                    for column, fill in filled
                    if self._few.get(column.name) and not isinstance(column, Categorical)
                }
            )
            self.fills.check(dict(self._fills(transform)))
        for rows, counted, least in self._sets(client):
            check_knots(transform, rows, counted, least)
        design = transform.design
        if design is not None and design.scale:
            pairs = zip(design.centre, design.scale, strict=True)
            check_units(self._made_ranges(transform, client), dict(zip(design.feature_names, pairs, strict=True)))

    def _check_mean(self, protocol: Preprocess, mean: Array, client: Client) -> None:
        """Squares about a mean that is far away would say which values are above a threshold."""
        if self._asked is None:
            ranges, names = self._ranges, [column.name for column in protocol.columns_of(client)]
        elif self._asked.design is not None and not self._asked.design.open:
            ranges, names = self._made_ranges(self._asked, client), list(self._asked.design.feature_names)
        else:
            return
        for name, one in zip(names, mean.tolist(), strict=False):  # of another length the step itself refuses it
            check_centre(name, ranges.get(name), one)

    def _made_ranges(self, transform: Transform, client: Client) -> dict[str, Coarse | None]:
        """Those of the columns that a formula makes of all rows."""
        assert transform.design is not None
        found = []
        for rows in (client, client.held):
            if rows is not None:
                found.append(transform.cells(rows.ordered([column.name for column in transform.columns]))[0])
        return made_ranges(transform.design, {name: np.concatenate([one[name] for one in found]) for name in found[0]})

    def _fills(self, transform: Transform) -> Iterator[tuple[str, Fill]]:
        """What stands for missing cells, by the columns that have such."""
        for column, fill in zip(transform.columns, transform.fill.tolist(), strict=True):
            few = self._few.get(column.name)
            if few is None:
                continue
            if not math.isnan(fill):
                yield column.name, _number(fill, few)
            elif isinstance(column, Categorical):
                yield column.name, Fill(f"no category, {column.unseen}", few)

    # ── the design ──

    def _keep_fills(self, client: Client) -> None:
        """Remember what stands for missing cells, before the first answer that depends on it. A run that ends while
        sites agree on columns, because one of them refuses, is not held against the next."""
        transform = client.session.get("transform")
        if self.policy.fills and isinstance(transform, Transform) and transform is not self._kept:
            self.fills.keep(dict(self._fills(transform.of_numpy())))
            self._kept = transform

    def _judge(self, client: Client) -> None:
        """Judge the design that the run has agreed on, once."""
        transform = client.session.get("transform")
        if transform is self._seen or (transform is None and client.raw):
            return
        for rows, counted, least in self._sets(client):
            check_design(rows, counted, outcome_parts(rows, self.loss, counted), self.maps, least)
        self._seen = transform

    def _sets(self, client: Client) -> Iterator[tuple[Client, Array, Least]]:
        """The rows that the run is answered from, as it has preprocessed them; which of them count; how few may be told
        apart."""
        for rows in (client, client.held if self._judges else None):
            if rows is None or self.policy.min_cell <= 1:
                continue
            s = rows.sample_weight
            counted = np.ones(rows.n_samples, dtype=bool) if s is None else cast(Array, to_numpy(s) > 0)
            if self._is_enough(counted):
                yield rows, counted, Least(self.policy.min_cell, held=rows is not client)


def _number(fill: float, few: bool) -> Fill:
    """A number, or the place of a category, to the last bit."""
    return Fill((float(fill) + 0.0).hex(), few)


def _few_gaps(rows: RawRows, least: int) -> Iterator[tuple[str, bool]]:
    """The columns with missing cells, and whether few rows can be told by them: because few have them, or because the
    rows that have them are nearly those of another column's gaps, or of a value of a column."""
    names = list(rows.gaps)
    if not names:
        return
    values = np.concatenate([part.values for part in rows.parts], axis=1)
    low, high = values.min(axis=0), values.max(axis=0)
    binary = (high > low) & ((values == low) | (values == high)).all(axis=0)
    few = close([np.column_stack([*rows.gaps.values(), (values == high)[:, binary]])], least)
    for place, name in enumerate(names):
        yield name, bool(few[place].any())
