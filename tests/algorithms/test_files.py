"""An algorithm's file is enough to use it: sources, fields described, client and server steps apart."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

import fedsolve as fs
from fedsolve import algorithms

EVERY = [getattr(algorithms, name) for name in algorithms.__all__]


def names(kind: type[Any]) -> str:
    return kind.__name__


@pytest.mark.parametrize("kind", EVERY, ids=names)
def test_help_describes_every_field(kind: type[Any]) -> None:
    said = inspect.getdoc(kind) or ""
    described = dict(re.findall(r"^(\w+)  +(\S.*)$", said, re.MULTILINE))
    assert list(described) == [field.name for field in fields(kind)]
    assert all(len(text) > 10 for text in described.values())


@pytest.mark.parametrize("kind", EVERY, ids=names)
def test_a_default_is_said(kind: type[Any]) -> None:
    """Of every field that has one, in its own paragraph."""
    said = inspect.getdoc(kind) or ""
    parts = dict(re.findall(r"^(\w+)  +((?:.*\n?)(?:  .*\n?)*)", said, re.MULTILINE))
    optional = [name for name, one in inspect.signature(kind).parameters.items() if one.default is not one.empty]
    assert [name for name in optional if "default" not in parts[name]] == []


@pytest.mark.parametrize("kind", EVERY, ids=names)
def test_the_module_cites_its_source(kind: type[Any]) -> None:
    """A title, and below it, indented, the authors and where it appeared."""
    module = inspect.getmodule(kind)
    said = (module and module.__doc__) or ""
    source = r"^[A-Z].{20,}\n(    .+\n)*    .*(\b(19|20)\d\d|under double-blind review)\."
    assert re.search(source, said, re.MULTILINE)
    assert not re.search(r"paper 00\d", said)


@pytest.mark.parametrize("kind", EVERY, ids=names)
def test_clients_and_server_are_apart(kind: type[Any]) -> None:
    source = inspect.getsource(kind)
    clients, server = source.index("# ── clients ──"), source.index("# ── server ──")
    steps = [found.start() for found in re.finditer(r"@client_step", source)]
    assert steps
    assert all(clients < place < server for place in steps)
    assert source.index("def round(") > server


def test_what_fits_its_link_says_so() -> None:
    assert {kind.__name__ for kind in EVERY if getattr(kind, "fits_link", False)} == {
        "MontDec", "SHED", "SHEDLeastSquares"
    }  # fmt: skip
    assert fs.SHED.fits_link
