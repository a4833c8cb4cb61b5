"""A site's own rows as a client, in the columns that a run asks for and with the meaning that all sites agreed on."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fedsolve import data
from fedsolve.data import advice
from fedsolve.data.complete_cases import incomplete_rows
from fedsolve.data.held_out import drawn_rows
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Column, Numeric, Schema
from fedsolve.data.site_column import with_site_column
from fedsolve.data.sites import load_sites
from fedsolve.errors import ConfigError, DataError, PolicyRefusal, StorageError, UnknownName, meant, nearest
from fedsolve.federation.client import Client
from fedsolve.losses import Logistic, Network, Pointwise, Softmax
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.terms import Terms
from fedsolve.tables.column_names import some


@dataclass(frozen=True)
class SiteRows:
    """A site's client, what was recognised in its file, and the marks by which the site knows its data again: of the
    file, byte by byte, and of the rows as they were read; of the file's rows, which it learns from and judges by; and
    all of them."""

    client: Client
    notes: tuple[str, ...]
    file_mark: str
    rows_mark: str
    learned: np.ndarray
    held: np.ndarray
    whole: Client


def check_columns(site: SiteFile, terms: Terms, protocols: Mapping[str, object]) -> Schema | None:
    """The columns that the run asks of this site, as the run declares them; None: all, as numbers.

    Raises PolicyRefusal for a column that the site does not give, and ConfigError for one that means something else
    here. Nothing of the data is read.
    """
    asked = asked_columns(terms, protocols)
    if terms.target is not None and [terms.target] != _listed(site.data.target):
        raise ConfigError(
            f"the run predicts {terms.target!r}, and the target of this site is {', '.join(_listed(site.data.target))}"
        )
    if asked is None:
        if site.policy.columns is not None:
            raise PolicyRefusal("columns", "the run names no columns, and this site gives only some of its own")
        if site.schema is not None:
            raise ConfigError("the run declares no schema, and this site has one: all sites declare the same columns")
        return None
    if site.schema is None:
        raise ConfigError("the run declares a schema, and this site has none: declare the same columns in [[schema]]")
    declared = {column.name: column for column in site.schema.columns}
    allowed = set(declared) if site.policy.columns is None else set(site.policy.columns)
    for column in asked.columns:
        if column.name not in declared:
            said = f"the run asks for column {column.name!r}, which this site does not declare"
            raise PolicyRefusal("columns", f"{said}{meant(column.name, allowed)}")
        if column.name not in allowed:
            raise PolicyRefusal("columns", f"the run asks for column {column.name!r}, which this site does not give")
        _check_meaning(column, declared[column.name])
    return asked


def asked_columns(terms: Terms, protocols: Mapping[str, object]) -> Schema | None:
    """The columns of the site's own that a run declares; None: it declares none."""
    preprocess = protocols.get("preprocess")
    schema = preprocess.schema if isinstance(preprocess, Preprocess) else None
    if schema is None:
        if terms.site_column is not None:
            raise ConfigError("a column of the sites' names needs a schema that declares it")
        return None
    if terms.site_column is None:
        return schema
    return Schema(tuple(column for column in schema.columns if column.name != terms.site_column.column))


def _check_meaning(asked: Column, declared: Column) -> None:
    """What a column is, is the site's to say; how it is scaled or imputed is the run's."""
    if type(asked) is not type(declared):
        raise ConfigError(
            f"column {asked.name!r} is {type(asked).__name__.lower()} in the run and {type(declared).__name__.lower()} "
            "at this site: declare it alike"
        )
    if asked.levels != declared.levels:
        what = "categories" if isinstance(asked, Categorical) else "choices"
        raise ConfigError(
            f"column {asked.name!r} has other {what} in the run than at this site: declare the same, in the same "
            f"order. Rows of {what} that a site has not declared are counted for nobody"
        )
    ranges = [(one.low, one.high) for one in (asked, declared) if isinstance(one, Numeric) and one.low is not None]
    if len(set(ranges)) > 1:
        raise ConfigError(f"column {asked.name!r} has another range in the run than at this site: declare the same")


def load_rows(site: SiteFile, terms: Terms, protocols: Mapping[str, object]) -> SiteRows:
    """Read the site's file, and nothing but the columns that the run asks for."""
    asked = check_columns(site, terms, protocols)
    loss = _pointwise(protocols)
    try:
        content = site.file.read_bytes()
    except OSError as error:
        raise StorageError(f"the data file of this site cannot be read: {error.strerror or error}") from error
    unused = unused_columns(site, asked)
    try:
        with advice.written_in("site file"):  # which is what its administrator writes
            read = load_sites(
                {site.name: str(site.file)},
                target=site.data.target,
                weight=site.data.weight,
                offset=site.data.offset,
                drop=[*site.data.drop, *unused],
                schema=asked,
                numbers=asked is None,
                classes=_classes(site, loss),
                positive=site.data.positive,
                binary=isinstance(loss, Logistic),
                missing_target=site.data.missing_target or "error",
                sites={site.name: data.SiteReading(rename=site.data.rename, absent=site.data.absent)},
                alone=True,
                **site.data.reading(),
            )
    except UnknownName as error:
        if error.name not in unused:
            raise
        raise DataError(_lacks(site, error.name, error.known)) from None
    (client,), notes = read.clients, list(read.notes)
    preprocess = protocols.get("preprocess")
    if terms.site_column is not None:
        client = with_site_column(client, terms.site_column.column)
    whole = client
    learned, held = np.ones(client.n_samples, dtype=bool), np.zeros(client.n_samples, dtype=bool)
    if isinstance(preprocess, Preprocess) and preprocess.complete_columns:
        learned &= ~incomplete_rows(client, preprocess)
        (client,), said = data.complete_cases([client], preprocess)
        notes += said
    if terms.held_out is not None:
        held[np.flatnonzero(learned)[drawn_rows(client, terms.held_out.share, terms.held_out.seed)]] = True
        learned &= ~held
        (client,) = data.hold_out([client], terms.held_out.share, terms.held_out.seed)
    mark = hashlib.blake2b(content, digest_size=16).hexdigest()
    return SiteRows(client, tuple(notes), mark, client.data_mark(), learned, held, whole)


def _lacks(site: SiteFile, name: str, found: Collection[str]) -> str:
    """What is said of a column that the site declares, a run does not ask for, and the file does not have."""
    declared = {column.name for column in site.schema.columns} if site.schema is not None else set()
    others = [one for one in found if one not in {*declared, *_listed(site.data.target), *site.data.drop}]
    near = nearest(name, others) or (others[0] if len(others) == 1 else "ITS NAME IN THE FILE")
    with advice.written_in("site file"):
        return (
            f"{site.file}: no column {name!r}, which [[schema]] of the site file declares; the file has "
            f"{some(list(found))}. Write {advice.for_site(site.name, 'rename', {near: name})} if they are the same, or "
            f"{advice.for_site(site.name, 'absent', [name])} if this site has no values of it"
        )


def _listed(target: str | list[str]) -> list[str]:
    return [target] if isinstance(target, str) else target


def unused_columns(site: SiteFile, asked: Schema | None) -> list[str]:
    """Declared columns that the run does not ask for: they are not even given to the client."""
    if asked is None or site.schema is None:
        return []
    wanted = {column.name for column in asked.columns}
    return [column.name for column in site.schema.columns if column.name not in wanted]


def _pointwise(protocols: Mapping[str, object]) -> Pointwise | None:
    """The loss of the run's predictions."""
    loss = getattr(protocols.get("algorithm"), "loss", None)
    if isinstance(loss, Network):
        loss = loss.loss
    return loss if isinstance(loss, Pointwise) else None


def _classes(site: SiteFile, loss: Pointwise | None) -> list[str | int | float] | None:
    """The labels and their order. Where nobody says, they are 0, 1, …: a site must not number its own labels."""
    if site.data.classes is not None or site.data.positive is not None or loss is None or not loss.classifies:
        return site.data.classes
    if isinstance(loss, Softmax) and loss.classes is not None:
        return list(range(loss.classes))
    if isinstance(loss, Logistic):
        return [0, 1]
    raise DataError("declare classes = […] in the [data] of this site: all labels there are, in an agreed order")
