"""What a computation is worth in gradients of one sample, and what the busiest client of an exchange computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import at_least_zero, whole

PER_SAMPLE = ("gradients", "losses", "products", "features")  # these the ledger counts by sample


@dataclass(frozen=True)
class Worth:
    """What a client's or the server's computation is worth, in gradients of one sample.

    Definition 1 of Jadbabaie et al. counts gradients only. These are the exchange rates for the rest of what a ledger
    counts, so that methods with Hessians or line searches can be set beside it.

    Attributes:
        losses: A loss of one sample without its gradient. Default 1: it is one call of the oracle. For a linear model
            it takes half the arithmetic of a gradient. 0 counts gradients only. Losses that a call computes beside as
            many gradients come with these: a first-order oracle returns both.
        products: A Hessian of one sample times a vector. Default 1: for a linear model it is as much arithmetic.
        hessians: A Hessian of one sample. Default None: as many gradients as it has columns. (The ledger counts the
            Hessian of all rows of a client as one; it is worth this much for each of its rows.)
        features: A row mapped to random features or the like. Default 0.
        factorisations: A factorisation of a Hessian. It reads no sample. Default 0.
    """

    losses: float = 1.0
    products: float = 1.0
    hessians: float | None = None
    features: float = 0.0
    factorisations: float = 0.0

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            if given is not None:
                object.__setattr__(self, one.name, at_least_zero(f"the worth of {one.name}", given))

    def of(self, what: str) -> float | None:
        """The worth of what the ledger counts under this name; NaN for a Hessian that is worth its columns; None for a
        name that the library's own computations do not have."""
        if what == "gradients":
            return 1.0
        if what not in self.__dataclass_fields__:
            return None
        found: float | None = getattr(self, what)
        return math.nan if found is None else found


@dataclass(frozen=True)
class Sizes:
    """Rows of the clients and of the server, how many weights there are, and how many columns a Hessian has. None
    where that is not known; `guessed` if the rows of some clients are not. `batches` are the number and the size of the
    batches that every client draws in a call, where the algorithm takes steps on batches."""

    clients: Mapping[str, int] | None = None
    server: int | None = None
    weights: int | None = None
    columns: int | None = None
    guessed: bool = False
    batches: tuple[int, int] | None = None

    def given(self, clients: Mapping[str, int] | None, server: int | None, weights: int | None) -> Sizes:
        """The same with what the user said."""
        if clients is not None:
            clients = {name: whole(f"the rows of {name!r}", rows, 1) for name, rows in clients.items()}
        if weights is not None:
            weights = whole("parameters", weights, 1)
        return Sizes(
            self.clients if clients is None else clients,
            self.server if server is None else whole("server_samples", server, 1),
            weights or self.weights,
            weights or self.columns,
            self.guessed and clients is None,
            self.batches,
        )

    def of(self, names: tuple[str, ...]) -> list[int] | None:
        """The rows of these clients. Raises ConfigError if they are known of others, and not of all of these."""
        if self.clients is None:
            return None
        unknown = [name for name in names if name not in self.clients]
        if unknown:
            raise ConfigError(
                f"samples lacks client {unknown[0]!r}, which has answered: give the rows of every client, "
                "oracle_complexity(…, samples={name: rows})"
            )
        return [self.clients[name] for name in names]

    def needed_columns(self) -> int:
        """Raises ConfigError if they are not known."""
        if self.columns is None:
            raise ConfigError(
                "Hessians were computed, and how many columns they have is not known: give oracle_complexity(…, "
                "parameters=p), or worth=fs.complexity.Worth(hessians=…)"
            )
        return self.columns

    def needed_weights(self) -> int:
        """Raises ConfigError if their number is not known."""
        if self.weights is None:
            raise ConfigError("vectors of how many numbers? Give oracle_complexity(…, parameters=p)")
        return self.weights


def needed_rows(rows: list[int] | None) -> int:
    """The rows of the largest client. Raises ConfigError if they are not known."""
    if rows is None:
        raise ConfigError(
            "Hessians were computed, of how many rows is not known: give oracle_complexity(…, samples={name: rows}) "
            "for clients, server_samples= for the server, or worth=fs.complexity.Worth(hessians=0)"
        )
    return max(rows)


def largest(amount: int, answered: int, rows: list[int] | None, batches: tuple[int, int] | None = None) -> float:
    """What the client with the most work did, of `amount` that all who answered did together.

    The ledger adds up the counts of all clients. Work is either in proportion to a client's rows (passes over its data)
    or the same for all (a number of steps). Where the batches that clients draw are known and, with whole passes, make
    up the amount, it is these; a client of fewer rows than a batch takes all of them. Otherwise it is passes where they
    are a whole number, and then steps. What is neither, such as local fits that take a different number of steps at
    each client, is attributed in proportion to rows.
    """
    if not answered:
        return 0.0
    each = amount / answered
    if rows is None:
        return each
    if batches is not None:
        steps, size = batches
        drawn = [steps * min(size, one) for one in rows]
        beside, rest = divmod(amount - sum(drawn), sum(rows))
        if beside >= 0 and rest == 0:
            return float(max(drawn) + beside * max(rows))
    passes = amount / sum(rows)
    if passes.is_integer() or not each.is_integer():
        return amount * max(rows) / sum(rows)
    return each


def is_ambiguous(amount: int, rows: list[int] | None) -> bool:
    """Whether an amount may be passes over unequal clients as well as steps that are the same for all."""
    if rows is None or min(rows, default=0) == max(rows, default=0):
        return False
    return amount % sum(rows) == 0 and amount % len(rows) == 0
