"""What sums over rows must be like. A reply that is none is not used, and its client is named."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.federation.federation import Federation
from fedsolve.inference.client_sums import no_sums
from fedsolve.inference.evaluated import TOTALS, HeldSums
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.metrics import Floats, Kind, classes_of, judges_rows
from fedsolve.inference.score_bins import STARTS_POS
from fedsolve.losses import LinearLoss

TOLERANCE = 1e-9  # of the weight: two sums of the same weights differ by rounding only


def is_sum(evaluation: Evaluation, fed: Federation, sums: HeldSums) -> bool:
    """Whether these can be sums over rows."""
    try:
        check_sums(evaluation.kind, sums, expected(evaluation, fed, sums.masses.shape[-2] if sums.masses.ndim else 1))
    except WrongType:
        return False
    return True


def expected(evaluation: Evaluation, fed: Federation, bins: int) -> HeldSums:
    """Sums over no rows, in the shapes that a reply has."""
    loss = evaluation.loss
    shape: tuple[int, ...] = ()
    if isinstance(loss, LinearLoss):
        shape = tuple(loss.shape(1, fed.outputs))[1:]
    elif judges_rows(loss):
        shape = (classes_of(loss),) if classes_of(loss) else fed.outputs
    return no_sums(loss, shape, len(evaluation.edges()), bins)


def check_sums(kind: Kind, sums: HeldSums, empty: HeldSums) -> None:
    """Raise WrongType unless these can be sums over rows, with the shapes of `empty`."""
    for one in fields(HeldSums):
        if one.name != "samples":
            check_array(one.name, getattr(sums, one.name), getattr(empty, one.name).shape)
    totals = dict(zip(TOTALS, sums.totals.tolist(), strict=True))
    weight = totals["weight"]
    _require(sums.samples >= 0, f"{sums.samples} rows")
    _require(weight >= 0, f"a weight of {weight:g}")
    _require((sums.samples > 0) == (weight > 0), f"{sums.samples} rows of weight {weight:g}")
    room = TOLERANCE * weight
    _require(-room <= totals["hits"] <= weight + room, f"hits of weight {totals['hits']:g} in {weight:g}")
    _require(totals["brier"] >= 0, f"squared distances of {totals['brier']:g}")
    _require((sums.residuals >= 0).all(), "negative squares of residuals")
    _require((sums.confusion >= 0).all(), "negative weights in the confusion matrix")
    _require((sums.table >= 0).all(), "negative weights in the calibration table")
    if kind in (Kind.BINARY, Kind.CLASSES):
        _same("the confusion matrix", float(sums.confusion.sum()), weight)
        _same("the confusion matrix's diagonal", float(np.trace(sums.confusion)), totals["hits"], weight)
        _same("the calibration table", float(sums.table[:, 0].sum()), weight)
        shares = sums.table[:, 1:] <= sums.table[:, :1] + room
        _require(shares.all(), "probabilities above 1 in the calibration table")
    if kind in (Kind.COUNTS, Kind.BINARY, Kind.CLASSES):
        _require((sums.targets >= 0).all(), "negative sums of targets that are counts or classes")
    check_masses(sums.masses, sums.masses.shape, weight)
    if kind in (Kind.BINARY, Kind.CLASSES):
        for positive, target in zip(sums.masses[..., STARTS_POS].sum(axis=1).tolist(), sums.targets, strict=True):
            _same("positives", positive, float(target), weight)


def check_masses(masses: Floats, shape: tuple[int, ...], weight: float) -> None:
    """Raise WrongType unless all of the weight is in these bins, and as much starts as ends."""
    check_array("masses", masses, shape)
    _require((masses >= 0).all(), "negative weights in score bins")
    for starts_pos, ends_pos, starts_neg, ends_neg in masses.sum(axis=1).tolist():
        _same("score bins", starts_pos + starts_neg, weight)
        _same("the runs' ends", ends_pos, starts_pos, weight)
        _same("the runs' ends", ends_neg, starts_neg, weight)


def check_nulls(null: Floats, shape: tuple[int, ...], weight: float, mean: float) -> None:
    """Raise WrongType unless these can be deviances of a mean of this size. One that rules out what occurred is
    infinite; rounding may leave it slightly below zero."""
    _require(np.shape(null) == shape and null.dtype == np.float64, f"deviances of shape {np.shape(null)}")
    _require(not np.isnan(null).any(), "deviances that are no numbers")
    _require((null >= -TOLERANCE * weight * (1 + mean)).all(), "negative deviances")


def check_line(found: tuple[float, float] | None) -> None:
    """Raise WrongType unless this is an intercept and a slope, or None."""
    _require(found is None or all(math.isfinite(one) for one in found), f"the calibration line {found}")


def check_array(name: str, array: Floats, shape: tuple[int, ...]) -> None:
    """Raise WrongType unless it has this shape and finite numbers only."""
    found = np.shape(array)
    _require(found == shape and array.dtype == np.float64, f"{name} of shape {found}, expected {shape}")
    _require(np.isfinite(array).all(), f"{name} that are not finite numbers")


def _same(what: str, found: float, wanted: float, weight: float | None = None) -> None:
    room = TOLERANCE * (wanted if weight is None else weight)
    _require(abs(found - wanted) <= room, f"a weight of {found:g} in {what}, and {wanted:g} elsewhere")


def _require(holds: bool | np.bool_, said: str) -> None:
    if not holds:
        raise WrongType(f"the reply has {said}: these are no sums over rows")
