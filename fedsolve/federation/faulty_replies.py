"""Who is to blame when replies do not add up: found by asking again, because replies are added as they come.

A sum that is not finite, or a reply of another shape than those before it, does not say whose fault it is. The clients
are sent the same requests again, which they answer as before; this time every reply is held and looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import WrongType
from fedsolve.federation.intake import Fault
from fedsolve.numerics.structured_arrays import STRUCTURED, LowRank, Quantised, Symmetric
from fedsolve.typing import Value
from fedsolve.wire.messages import Reply


def is_finite(value: Value) -> bool:
    """Whether there is neither NaN nor an infinity in a value. Cheap: large finite numbers, whose sum overflows, may
    be called infinite too."""
    with np.errstate(all="ignore"):
        return _has_finite_sums(value)


def _has_finite_sums(value: Value) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or math.isfinite(float(value.sum()))
    return all(map(_has_finite_sums, _parts(value)))


def _is_finite_exactly(value: Value) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, float):
        return math.isfinite(value)
    return all(map(_is_finite_exactly, _parts(value)))


def _parts(value: Value) -> Sequence[Value]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, Symmetric):
        return [value.packed()]
    if type(value) in STRUCTURED:
        return list(value.to_wire())
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return [value.data] if sp.issparse(value) else []


def blamed(replies: Mapping[str, Reply], calls: Sequence[str], added: Sequence[bool]) -> dict[str, Fault]:
    """The clients whose replies cannot be used, with the reason.

    Args:
        replies: All replies, by client.
        calls: The names of the calls.
        added: Which calls' replies are added, and must therefore have one shape: that of most clients.

    A reply that is not finite is the run's own doing, and nobody's fault, if no client's is.
    """
    found: dict[str, Fault] = {}
    for index, call in enumerate(calls):
        values = {name: reply.results[index].value for name, reply in replies.items() if name not in found}
        if added[index]:
            found |= _odd(values, call)
            values = {name: value for name, value in values.items() if name not in found}
        wild = [name for name, value in values.items() if not _is_finite_exactly(value)]
        if len(wild) < len(values):
            said = f"answered {call} with NaN or infinite numbers"
            for name in wild:
                found[name] = Fault(("NaN", call), said, WrongType(f"client {name!r} {said}"))
    return found


def _odd(values: Mapping[str, Value], call: str) -> dict[str, Fault]:
    """Those whose replies have another shape than most (of two equally usual ones, than the first client's)."""
    shapes = {name: _shape(value) for name, value in values.items()}
    ((usual, _),) = Counter(shapes.values()).most_common(1) or [("", 0)]
    found: dict[str, Fault] = {}
    for name, shape in shapes.items():
        if shape != usual:
            said = f"answered {call} with {shape} where most answered with {usual}"
            found[name] = Fault(("shape", call), said, WrongType(f"client {name!r} {said}"))
    return found


def _shape(value: Value) -> str:
    """What two replies must share to be added, in words."""
    kind = type(value)
    if kind in (int, float):
        return "a number"
    if kind is np.ndarray:
        return f"an array of shape {value.shape}"
    if kind in STRUCTURED:
        return f"a {kind.__name__} of {_sides(value)}"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {_shape(value[key])}" for key in sorted(value, key=repr)) + "}"
    inner = ", ".join(map(_shape, _parts(value)))
    return f"({inner})" if kind in (tuple, list) else f"{kind.__name__}({inner})"


def _sides(value: Value) -> str:
    """The size of what a structured array stands for."""
    if isinstance(value, Symmetric):
        return f"order {value.n}"
    if isinstance(value, LowRank):
        return f"order {value.vectors.shape[0]}"
    return f"shape {value.codes.shape if isinstance(value, Quantised) else value.shape}"
