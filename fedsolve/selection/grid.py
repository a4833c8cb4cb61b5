"""Grids of losses: every combination of penalties and of hyper-parameters of the feature map."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.losses import LinearLoss


def loss_grid(
    loss: LinearLoss,
    *,
    l2: Iterable[float] | None = None,
    l1: Iterable[float] | None = None,
    features: Mapping[str, Iterable[Any]] | None = None,
) -> list[LinearLoss]:
    """`loss` with every combination of these values; what is not named stays as it is.

    loss_grid(loss, l2=[1e-4, 1e-2], features={"gamma": [0.1, 1.0]}) has four losses, l2 changing fastest.
    """
    maps = [loss.features] if not features else _maps(loss.features, features)
    penalties = itertools.product(_values("l1", l1, loss.l1), _values("l2", l2, loss.l2))
    return [replace(loss, l2=b, l1=a, features=each) for each, (a, b) in itertools.product(maps, penalties)]


def _maps(of: Any, given: Mapping[str, Iterable[Any]]) -> list[Any]:
    if of is None:
        raise ConfigError(
            f"{' and '.join(given)} would be of the loss's feature map, and it has none: give it one, such as "
            "RandomFourier(features=200, gamma=1.0)"
        )
    known = [field.name for field in fields(of) if field.init]
    for name in given:
        if name not in known:
            raise ConfigError(f"{type(of).__name__} has no {name!r} to choose; it has {', '.join(known)}")
    lists = [_values(name, values, getattr(of, name)) for name, values in given.items()]
    return [replace(of, **dict(zip(given, values, strict=True))) for values in itertools.product(*lists)]


def _values(name: str, given: Iterable[Any] | None, otherwise: Any) -> list[Any]:
    """Plain values, whatever they came in; whole numbers are numbers where a number is meant."""
    if given is None:
        return [otherwise]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} is a list of values to choose from, got {given!r}")
    values = [each.item() if isinstance(each, np.generic) else each for each in given]
    if isinstance(otherwise, float):
        values = [float(each) if type(each) is int else each for each in values]
    if not values:
        raise ConfigError(f"the list of values for {name} is empty")
    return values
