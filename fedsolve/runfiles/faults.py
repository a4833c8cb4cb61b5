"""What is wrong with a run file, in words: pydantic's errors as sentences that name the key."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from fedsolve.runfiles.keys import Config


def in_words(errors: list[ErrorDetails], tables: type[BaseModel] = Config) -> list[str]:
    """A sentence for each key that is wrong, in a file that has these tables."""
    said: dict[str, str] = {}
    for each in _of_the_alternative_meant(errors):
        key, sentence = _sentence(each, tables)
        said[key] = _joined(said[key], sentence) if key in said else sentence
    return list(said.values())


_WORDS: dict[str, Callable[[dict[str, object]], str]] = {
    "missing": lambda _: "is missing",
    "int_type": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "string_type": lambda _: "must be text in quotes",
    "bool_type": lambda _: "must be true or false",
    "list_type": lambda _: "must be a list in brackets",
    "dict_type": lambda _: "must be a table",
    "model_type": lambda _: "must be a table",
    "model_attributes_type": lambda _: "must be a table",
    "literal_error": lambda context: f"must be one of {context['expected']}",
    "greater_than": lambda context: f"must be greater than {context['gt']}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']}",
    "less_than": lambda context: f"must be less than {context['lt']}",
    "too_short": lambda _: "is empty",
}


def _of_the_alternative_meant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Where a value may be of several types and is of one of them, but faulty, what the others would want is noise."""

    def is_noise(one: ErrorDetails) -> bool:
        *base, last = one["loc"] or ("",)
        if not (one["type"].endswith("_type") and isinstance(last, str) and _is_type_name(last)):
            return False
        depth = len(base)
        return any(
            list(other["loc"][:depth]) == base
            and other["loc"][depth] != last
            and (len(other["loc"]) > depth + 1 or not other["type"].endswith("_type"))
            for other in errors
            if len(other["loc"]) > depth
        )

    return [one for one in errors if not is_noise(one)]


def _joined(first: str, second: str) -> str:
    """What one key may be, of several alternatives that all failed."""
    head, mark, got = first.rpartition(", got ")
    other = second.rpartition(", got ")[0].split(" must be ")
    return f"{head} or {other[1]}{mark}{got}" if mark and len(other) == 2 else first


def _sentence(error: ErrorDetails, tables: type[BaseModel]) -> tuple[str, str]:
    """The key, and what is wrong with it."""
    path, model = _place(error["loc"], tables)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        close = difflib.get_close_matches(path.rsplit(".", 1)[-1], known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        return path, f"{path} is not known, {hint}"
    if kind == "value_error":
        return path, f"{path}: {context['error']}" if path else str(context["error"])
    words = _WORDS.get(kind)
    said = f"{path} {words(context)}" if words else f"{path}: {error['msg']}"
    return path, said if kind in ("missing", "too_short") else f"{said}, got {_short(error['input'])}"


def _place(location: tuple[int | str, ...], tables: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """The key as a user writes it, without pydantic's names of alternatives, and the model it stands in."""
    model = tables
    path = ""
    for index, part in enumerate(location):
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in model.model_fields or (index == len(location) - 1 and not _is_type_name(part)):
            path += f".{part}" if path else part
            if part in model.model_fields:
                model = _model_of(model.model_fields[part].annotation) or model
    return path, model


def _is_type_name(part: str) -> bool:
    return part.split("[")[0] in (
        "str",
        "int",
        "float",
        "bool",
        "list",
        "dict",
        "none",
        "constrained-int",
        "function-after",
    )


def _model_of(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_of(one)) is not None), None)


def _short(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else said[:57] + "…"
