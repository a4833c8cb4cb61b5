"""Which algorithm fits an estimator's loss: the one that was asked for, or the usual one for its size."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from fedsolve import algorithms
from fedsolve.algorithms import FedNewtonCG, Newton
from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError
from fedsolve.losses import LinearLoss, Pointwise
from fedsolve.plain.reading import Listed, Reader

# The largest Hessian that "auto" lets clients send: 4 MB from each in a round.
LARGE = 1000

_NAMES: dict[str, type] = {name: getattr(algorithms, name) for name in algorithms.__all__}
_READER = Reader(Listed("algorithm", _NAMES))

Chosen = str | type[Algorithm] | Algorithm


def usual(loss: LinearLoss, order: int) -> Algorithm:
    """`Newton` up to a Hessian of order 1,000, and with an l1 penalty, which no other algorithm has a step for;
    `FedNewtonCG` beyond.

    Newton needs a handful of rounds, and order²/2 numbers of each client in each. FedNewtonCG needs tens to hundreds
    of rounds, and 2 · order numbers. Both reach the solution of the pooled rows, however they are divided.
    """
    return Newton(loss) if loss.l1 or order <= LARGE else FedNewtonCG(loss)


def named(algorithm: Chosen, loss: Pointwise) -> Algorithm:
    """The algorithm of that name or class, or like that object, with this loss.

    Raises UnknownName for a name that is none, and ConfigError for what is no algorithm or needs more than a loss.
    """
    # Any: an algorithm is a frozen dataclass, which its protocol cannot say.
    kind: Any = _READER.find("algorithm", algorithm) if isinstance(algorithm, str) else algorithm
    known = {field.name: field for field in fields(kind)} if is_dataclass(kind) else {}
    if "loss" not in known:
        raise ConfigError(
            'algorithm is "auto", the name of an algorithm such as "FedNewtonCG", its class, or an object such as '
            f"fs.FedNewtonCG(loss), whose loss is replaced by the estimator's; got {algorithm!r}"
        )
    if not isinstance(kind, type):
        alike: Algorithm = replace(kind, loss=loss)
        return alike
    missing = [
        name
        for name, one in known.items()
        if name != "loss" and one.init and one.default is MISSING and one.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(
            f"{kind.__name__} cannot be chosen by name, because it has no default for {', '.join(missing)}; give an "
            f"object, algorithm=fs.{kind.__name__}(loss, …), whose loss is replaced by the estimator's"
        )
    made: Algorithm = kind(loss)
    return made
