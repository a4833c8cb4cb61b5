"""Who is to blame when replies do not add up: found by asking again, because replies are added as they come.

A sum that is not finite, or a reply of another shape than those before it, does not say whose fault it is. The clients
are sent the same requests again, which they answer as before; this time every reply is held and looked at.
"""

from __future__ import annotations

import math
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


def blamed(
    replies: Mapping[str, Reply], calls: Sequence[str], added: Sequence[bool], weights: Mapping[str, float] | None
) -> dict[str, Fault]:
    """The clients whose replies cannot be used, with the reason.

    Args:
        replies: All replies, by client.
        calls: The names of the calls.
        added: Which calls' replies are added, and must therefore have one shape: that with the most weight behind it.
        weights: Of the clients; without them all count the same.

    Raises WrongType if as many clients, or as much weight, stand behind one shape as behind another: then it cannot be
    told who is wrong. A reply that is not finite is the run's own doing, and nobody's fault, if no client's is.
    """
    found: dict[str, Fault] = {}
    for index, call in enumerate(calls):
        values = {name: reply.results[index].value for name, reply in replies.items() if name not in found}
        if added[index]:
            found |= _odd(values, call, weights)
            values = {name: value for name, value in values.items() if name not in found}
        wild = [name for name, value in values.items() if not _is_finite_exactly(value)]
        if len(wild) < len(values):
            said = f"answered {call} with NaN or infinite numbers"
            for name in wild:
                found[name] = Fault(("NaN", call), said, WrongType(f"client {name!r} {said}"))
    return found


def _odd(values: Mapping[str, Value], call: str, weights: Mapping[str, float] | None) -> dict[str, Fault]:
    """Those whose replies have another shape than the one with the most weight behind it."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(_shape(value), []).append(name)
    if len(groups) < 2:
        return {}
    behind = {
        shape: sum(1.0 if weights is None else weights[name] for name in names) for shape, names in groups.items()
    }
    usual, second, *_ = sorted(groups, key=lambda shape: -behind[shape])
    if behind[usual] == behind[second] or _is_tied(groups):
        said = "; ".join(f"{', '.join(names)} with {shape}" for shape, names in groups.items())
        raise WrongType(
            f"the replies to {call} cannot be added, and it cannot be told whose are wrong, because no shape is that "
            f"of more clients than any other: {said}. Check {call}, or leave out the clients that are wrong"
        )
    share = behind[usual] / sum(behind.values())
    found: dict[str, Fault] = {}
    for shape, names in groups.items():
        if shape != usual:
            said = f"answered {call} with {shape}, where clients with {share:.0%} of the weight answered with {usual}"
            found |= {name: Fault(("shape", call), said, WrongType(f"client {name!r} {said}")) for name in names}
    return found


def _is_tied(groups: Mapping[str, Sequence[str]]) -> bool:
    """Whether the two most usual shapes are those of equally many clients."""
    first, second, *_ = sorted(map(len, groups.values()), reverse=True)
    return first == second


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
