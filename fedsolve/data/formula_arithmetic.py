"""Arithmetic on columns, as formulas have it: `log(chol)`, `I(age ** 2)`, `weight / height ** 2`, `I(age > 50)`.

A text is parsed into Python's syntax tree and computed by walking over it. Nothing is ever executed: a node that is not
listed here is rejected with what is allowed, so that neither an attribute nor a call of anything else can be reached.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.text import shortened
from fedsolve.typing import Array

LONGEST = 10_000  # characters
ARITHMETIC = "+ - * / **, comparisons, log, log2, log10, log1p, exp, expm1, sqrt and abs"
QUOTED = re.compile(r"`([^`]*)`")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@lru_cache(maxsize=1024)
def syntax(text: str) -> ast.expr:
    """The syntax tree of a Python expression, in which a name in backquotes may hold any character. Raises ConfigError
    for what is none."""
    if len(text) > LONGEST:
        raise ConfigError(f"a formula has at most {LONGEST:,} characters, got {len(text):,}")
    prefix = "quoted_"
    while prefix in text:
        prefix += "_"
    names = QUOTED.findall(text)
    places = iter(range(len(names)))
    try:
        tree = ast.parse(QUOTED.sub(lambda _: f"{prefix}{next(places)}", text).strip(), mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id.startswith(prefix):
                node.id = names[int(node.id.removeprefix(prefix))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"{shortened(text)} is no expression that can be read; check its brackets") from None
    return tree


def written(tree: ast.expr) -> str:
    """A syntax tree as the text that `syntax` reads."""
    quoted = {node: node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not node.id.isidentifier()}
    try:
        for node, name in quoted.items():
            node.id = f"`{name}`"
        return ast.unparse(tree)
    finally:
        for node, name in quoted.items():
            node.id = name


def columns_in(tree: ast.expr) -> tuple[str, ...]:
    """The columns that arithmetic is of, each once. Raises ConfigError, with what is allowed, for anything else."""
    found: list[str] = []
    _check(tree, found)
    return tuple(dict.fromkeys(found))


def _check(node: ast.expr, found: list[str]) -> None:
    match node:
        case ast.Name(name):
            found.append(name)
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            pass
        case ast.UnaryOp(op, inner) if type(op) in _OPERATORS:
            _check(inner, found)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            _check(left, found)
            _check(right, found)
        case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
            _check(left, found)
            _check(right, found)
        case ast.Call(function, [inner], []) if called(function) in (*FUNCTIONS, "I"):
            _check(inner, found)
        case _:
            raise ConfigError(
                f"{shortened(written(node))} cannot be computed in a formula; arithmetic on columns has {ARITHMETIC}"
            )


def called(function: ast.expr) -> str:
    """The name of what is called: `log`, also for `np.log`; empty for anything else."""
    match function:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name("np"), name) if name in FUNCTIONS:
            return name
    return ""


def compute(text: str, values: Mapping[str, Array]) -> Array:
    """The value of arithmetic in each row. Raises DataError, with the row, for one that is not finite."""
    tree = syntax(text)
    rows = len(values[columns_in(tree)[0]])
    with np.errstate(all="ignore"):
        found = np.broadcast_to(np.asarray(_value(tree, values), dtype=np.float64), (rows,))
    wrong = ~np.isfinite(found)
    if wrong.any():
        # The row and not the cell: the message goes to the server, and the cell is someone's.
        raise DataError(
            f"{text}, row {int(np.argmax(wrong))}: not a finite number, as the logarithm of zero or a division by it "
            "is; change the formula, or leave the row out"
        )
    return found


def _value(node: ast.expr, values: Mapping[str, Array]) -> Any:
    match node:
        case ast.Name(name):
            return values[name]
        case ast.Constant(value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.UnaryOp(op, inner):
            return _OPERATORS[type(op)](_value(inner, values))
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            result = _OPERATORS[type(op)](_value(left, values), _value(right, values))
            return np.asarray(result, dtype=np.float64) if isinstance(node, ast.Compare) else result
        case ast.Call(function, [inner], _):
            name = called(function)
            return _value(inner, values) if name == "I" else FUNCTIONS[name](_value(inner, values))
    raise ConfigError(f"{written(node)} cannot be computed in a formula")
