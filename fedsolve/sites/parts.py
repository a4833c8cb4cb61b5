"""What a protocol is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass


def parts_of(value: object) -> Iterator[object]:
    """An object and all that are in its fields, however deep, those that were left to their defaults too."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from parts_of(one)
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from parts_of(one)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in fields(value):
            yield from parts_of(getattr(value, field.name))
