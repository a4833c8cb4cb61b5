"""The options of methods that share eigenvectors, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from fedsolve.curvature.increments import Precision
from fedsolve.curvature.renewals import Renewals
from fedsolve.errors import ConfigError, UnknownName
from fedsolve.numerics.scalars import is_whole

# How many eigenvectors a client sends in a round: the same for all, by client, or as many as the link carries.
HowMany: TypeAlias = int | dict[str, int] | Literal["link"]


def check_options(
    increment: HowMany, precision: str, renewals: object = None, lbfgs: int = 0, solve: str = "cg"
) -> None:
    """Raise ConfigError for options that are not what they are declared to be."""
    counts = tuple(increment.values()) if isinstance(increment, dict) else (increment,)
    if increment != "link" and not all(is_whole(one) and one >= 0 for one in counts):
        raise ConfigError(f"increment is a number of vectors, numbers by client, or 'link'; got {increment!r}")
    if precision not in get_args(Precision):
        raise ConfigError(f"precision is one of {', '.join(map(repr, get_args(Precision)))}; got {precision!r}")
    if renewals is not None and not isinstance(renewals, Renewals):
        raise ConfigError(f"renewals is a rule such as Fibonacci() or Periodic(25); got {renewals!r}")
    if not (is_whole(lbfgs) and lbfgs >= 0 and solve in ("cg", "factor")):
        raise ConfigError(f"lbfgs is a number of pairs, solve is 'cg' or 'factor'; got {lbfgs}, {solve!r}")


def check_clients(increment: HowMany, clients: Sequence[str]) -> None:
    """Raise if increments by client name unknown clients, or leave some out."""
    if not isinstance(increment, dict):
        return
    for name in increment:
        if name not in clients:
            raise UnknownName("client in increment", name, clients)
    if missing := [name for name in clients if name not in increment]:
        raise ConfigError(f"increment says nothing of {', '.join(missing)}; 0 is for a client that sends no vectors")


def vectors_for(increment: HowMany, client: str) -> int | None:
    """How many eigenvectors a client is asked for; None for as many as its link carries."""
    if isinstance(increment, dict):
        return increment[client]
    return None if increment == "link" else increment
