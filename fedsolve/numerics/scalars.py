"""Numbers as Python has them: NumPy's scalars are accepted wherever a number is, and are the same numbers."""

from __future__ import annotations

import math
import operator
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from fedsolve.errors import ConfigError


def is_whole(given: Any) -> TypeGuard[int]:
    """Whether this is a whole number of any integer type; true and false are none."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def whole(name: str, given: Any, least: int | None = None, below: int | None = None) -> int:
    """A whole number as an int, whichever integer type it came in; rejects true and false, 3.0 and text."""
    number = operator.index(given) if is_whole(given) else None
    if number is None or (least is not None and number < least) or (below is not None and number >= below):
        limits = "" if least is None else f" of at least {least}"
        limits += "" if below is None else f" and below {below}"
        raise ConfigError(f"{name} is a whole number{limits}, got {given!r}")
    return number


def positive(name: str, given: Any) -> float:
    """A positive, finite number as a float, whichever type it came in; rejects true and text."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) < math.inf:
        raise ConfigError(f"{name} is a positive number, got {given!r}")
    return float(given)


def at_least_zero(name: str, given: Any) -> float:
    """A finite number of at least 0 as a float, whichever type it came in; rejects true and text."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < math.inf:
        raise ConfigError(f"{name} is a finite number of at least 0, got {given!r}")
    return float(given)


def python_numbers(value: Any) -> Any:
    """The same frozen dataclass, tuple or value with NumPy's scalars among its hyper-parameters as Python numbers.

    What travels, is saved or compared is made of Python's numbers: np.int64(3) and 3 are then one hyper-parameter.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple) and type(value) is tuple:
        plain = tuple(python_numbers(item) for item in value)
        return value if all(a is b for a, b in zip(plain, value, strict=True)) else plain
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            old = getattr(value, field.name)
            new = python_numbers(old)
            if new is not old and field.init:
                changed[field.name] = new
        return replace(value, **changed) if changed else value
    return value
