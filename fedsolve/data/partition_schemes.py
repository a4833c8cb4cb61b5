"""Schemes that divide samples among clients: each gives every client its row numbers, by a seeded draw."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsolve.data.dataset import Array, is_missing
from fedsolve.errors import ConfigError, DataError
from fedsolve.typing import Array as Rows  # row numbers: an array or a list

Indices: TypeAlias = NDArray[np.intp]
Rng: TypeAlias = np.random.Generator

MAX_DRAWS = 1000  # of client sizes, before a Dirichlet scheme is said to leave someone without samples


class Scheme(ABC):
    """How samples are divided: `split` gives each client's row numbers, sorted, no client without any."""

    @abstractmethod
    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]: ...

    def client_count(self, groups: Array | None) -> int | None:
        """The number of clients where the scheme itself says it, else None."""
        return None


@dataclass(frozen=True)
class IID(Scheme):
    """Equal parts at random."""

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        return [np.sort(part) for part in np.array_split(rng.permutation(len(y)), clients)]


@dataclass(frozen=True)
class Contiguous(Scheme):
    """Consecutive blocks in row order; the first ones have one row more where they cannot be equal."""

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        return np.array_split(np.arange(len(y)), clients)


@dataclass(frozen=True)
class Dirichlet(Scheme):
    """Each class is divided by proportions drawn from Dir(alpha); with small alpha, clients differ much.

    Proportions are drawn again until every client has `min_samples`.
    """

    alpha: float
    min_samples: int = 1

    def __post_init__(self) -> None:
        _check_skew(self)

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        codes, sizes = class_codes(y, "Dirichlet")
        counts = _draw_counts(self, sizes, clients, rng)
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for label in range(len(sizes)):
            members = rng.permutation(np.flatnonzero(codes == label))
            for part, chunk in zip(parts, np.split(members, np.cumsum(counts[label])[:-1]), strict=True):
                part.append(chunk)
        return [np.sort(np.concatenate(part)) for part in parts]


@dataclass(frozen=True)
class QuantitySkew(Scheme):
    """Client sizes drawn from Dir(alpha), their contents at random; small alpha, very different sizes."""

    alpha: float
    min_samples: int = 1

    def __post_init__(self) -> None:
        _check_skew(self)

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        counts = _draw_counts(self, np.array([len(y)]), clients, rng)[0]
        return [np.sort(part) for part in np.split(rng.permutation(len(y)), np.cumsum(counts)[:-1])]


@dataclass(frozen=True)
class ClassesPerClient(Scheme):
    """Each client holds at most `k` classes; a class is shared evenly by those who hold it."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"ClassesPerClient: k = {self.k}; expected at least 1.")

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        codes, sizes = class_codes(y, "ClassesPerClient")
        if clients * self.k < len(sizes):
            raise DataError(
                f"ClassesPerClient: {clients} clients of {self.k} classes each cannot hold {len(sizes)}; "
                f"take k >= {math.ceil(len(sizes) / clients)} or more clients."
            )
        holds = self._choose_classes(sizes, clients, rng)
        parts: list[list[Indices]] = [[] for _ in range(clients)]
        for label in range(len(sizes)):
            members = rng.permutation(np.flatnonzero(codes == label))
            holders = rng.permutation(np.flatnonzero(holds[:, label]))
            for client, chunk in zip(holders, np.array_split(members, len(holders)), strict=True):
                parts[client].append(chunk)
        return [np.sort(np.concatenate(part)) for part in parts]

    def _choose_classes(self, sizes: Indices, clients: int, rng: Rng) -> NDArray[np.bool_]:
        """In k turns each client takes a class it lacks, among those with the fewest holders so far.

        A class nobody holds comes first, so all are covered; none gets more holders than samples, so each
        holder has some; and a first turn always succeeds, so no client is empty.
        """
        holds = np.zeros((clients, len(sizes)), dtype=bool)
        holders = np.zeros(len(sizes))
        for _ in range(min(self.k, len(sizes))):
            for client in rng.permutation(clients):
                free = ~holds[client] & (holders < sizes)
                if free.any():
                    rank = np.where(free, holders + rng.random(len(sizes)), np.inf)  # ties are broken at random
                    label = int(np.argmin(rank))
                    holds[client, label] = True
                    holders[label] += 1
        return holds


@dataclass(frozen=True)
class Homogeneity(Scheme):
    """A fraction `s` of the samples is shared at random; the rest, sorted by target, is dealt in blocks.

    All clients have the same size, up to one. Works for regression too: a block is a range of the target.
    """

    s: float

    def __post_init__(self) -> None:
        if not 0 <= self.s <= 1:
            raise ConfigError(f"Homogeneity: s = {self.s}; expected a fraction between 0 and 1.")

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        check_clients(clients, len(y))
        values = _one_column(y, "Homogeneity")
        shuffled = rng.permutation(len(y))
        n_shared = round(self.s * len(y))
        shared, rest = np.split(shuffled, [n_shared])
        rest = rest[np.argsort(values[rest], kind="stable")]
        # what a client lacks of its even share of all comes from the sorted part, so sizes stay even
        shared_sizes = _even_sizes(n_shared, clients)
        rest_sizes = _even_sizes(len(y), clients) - shared_sizes
        shared_parts = np.split(shared, np.cumsum(shared_sizes)[:-1])
        rest_parts = np.split(rest, np.cumsum(rest_sizes)[:-1])
        return [np.sort(np.concatenate(pair)) for pair in zip(shared_parts, rest_parts, strict=True)]


@dataclass(frozen=True)
class ByGroup(Scheme):
    """One client for each value of `groups`, in sorted order."""

    def client_count(self, groups: Array | None) -> int:
        return len(np.unique(checked_groups(groups)))

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        values, codes = np.unique(checked_groups(groups), return_inverse=True)
        if len(codes) != len(y):
            raise DataError(f"ByGroup: {len(codes)} groups for {len(y)} samples; expected one for each sample.")
        if len(values) != clients:
            raise DataError(f"ByGroup: {len(values)} groups for clients={clients}; leave clients= out.")
        return [np.flatnonzero(codes == code) for code in range(len(values))]


ByColumn = ByGroup  # the same by the name of one who thinks of a column of a table: groups=data.columns["hospital"]


@dataclass(frozen=True, eq=False)
class Given(Scheme):
    """The division itself: each client's row numbers."""

    indices: Sequence[Rows]

    def client_count(self, groups: Array | None) -> int:
        return len(self.indices)

    def split(self, y: Array, clients: int, rng: Rng, *, groups: Array | None = None) -> list[Indices]:
        if len(self.indices) != clients:
            raise DataError(f"Given: row numbers of {len(self.indices)} clients for clients={clients}; leave it out.")
        parts = [self._checked(client, rows, len(y)) for client, rows in enumerate(self.indices)]
        times = np.bincount(np.concatenate([np.empty(0, dtype=np.intp), *parts]), minlength=len(y))
        for wrong, what in ((times > 1, "given more than once"), (times == 0, "given to no client")):
            if wrong.any():
                raise DataError(
                    f"Given: {wrong.sum()} of {len(y)} rows {what}, the first is row {np.argmax(wrong)}; "
                    "expected each row exactly once. Leave unwanted rows out of X and y."
                )
        return parts

    @staticmethod
    def _checked(client: int, rows: ArrayLike, n_samples: int) -> Indices:
        part = np.asarray(rows)
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            raise DataError(
                f"Given: client {client} has an array of shape {part.shape} and type {part.dtype}; "
                "expected a list of at least one row number."
            )
        if part.min() < 0 or part.max() >= n_samples:
            raise DataError(f"Given: client {client} has rows {part.min()}..{part.max()}; expected 0..{n_samples - 1}.")
        return np.sort(part.astype(np.intp))


# ── what the schemes share ──


def check_clients(clients: int, n_samples: int) -> None:
    if operator.index(clients) < 1:
        raise ConfigError(f"clients = {clients}; expected at least 1.")
    if clients > n_samples:
        raise DataError(f"{clients} clients for {n_samples} samples; expected at least one each: take fewer clients.")


def class_codes(y: Array, scheme: str) -> tuple[Indices, Indices]:
    """Each sample's class as 0..k-1, and the size of each class; continuous targets have none."""
    labels = _one_column(y, scheme)
    fractions = labels[labels != np.round(labels)] if labels.dtype.kind == "f" else labels[:0]
    if len(fractions):
        raise DataError(
            f"{scheme} divides by classes, but y is continuous (it has {fractions[0]}); "
            "use IID, QuantitySkew, Homogeneity, Contiguous or ByGroup."
        )
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return codes, sizes


def _one_column(y: Array, scheme: str) -> Array:
    if y.ndim != 1:
        raise DataError(f"{scheme} divides by one target, but y has shape {y.shape}; use IID, Contiguous or ByGroup.")
    if y.dtype == object:
        return y.astype(str)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError(f"{scheme}: y has NaN or infinite values; remove those rows.")
    return y


def checked_groups(groups: Array | None) -> Array:
    if groups is None:
        raise DataError("ByGroup: no groups; pass groups= with one value per sample, such as Dataset.groups.")
    if groups.ndim != 1:
        raise DataError(f"ByGroup: groups have shape {groups.shape}; expected one value per sample.")
    missing = is_missing(groups) | np.array([group is None for group in groups])
    if missing.any():
        raise DataError(f"ByGroup: {missing.sum()} samples have no group, the first is row {np.argmax(missing)}.")
    return groups.astype(str) if groups.dtype == object else groups


def _check_skew(scheme: Dirichlet | QuantitySkew) -> None:
    if not (scheme.alpha > 0 and math.isfinite(scheme.alpha)):
        raise ConfigError(f"{scheme}: alpha = {scheme.alpha}; expected a positive number.")
    if scheme.min_samples < 1:
        raise ConfigError(f"{scheme}: min_samples = {scheme.min_samples}; expected at least 1.")


def _draw_counts(scheme: Dirichlet | QuantitySkew, sizes: Indices, clients: int, rng: Rng) -> Indices:
    """How many samples of each class (row) each client (column) has, and at least `min_samples` in all."""
    alphas = np.full(clients, float(scheme.alpha))
    if clients * scheme.min_samples <= sizes.sum():
        for _ in range(MAX_DRAWS):
            cumulative = np.cumsum(rng.dirichlet(alphas, size=len(sizes)), axis=1)
            cumulative[:, -1] = 1.0
            # one random offset for all cuts of a class: counts within 1 of the proportions, right on average
            cuts = np.floor(cumulative * sizes[:, None] + rng.random((len(sizes), 1))).astype(np.intp)
            counts = np.diff(cuts, axis=1, prepend=0)
            if counts.sum(axis=0).min() >= scheme.min_samples:
                return counts
    raise DataError(
        f"{scheme}: no division of {sizes.sum()} samples among {clients} clients gave each at least "
        f"{scheme.min_samples} in {MAX_DRAWS} draws; take a larger alpha, fewer clients or fewer min_samples."
    )


def _even_sizes(total: int, clients: int) -> Indices:
    """Sizes as equal as can be; the first ones have the remainder."""
    return total // clients + (np.arange(clients) < total % clients).astype(np.intp)
