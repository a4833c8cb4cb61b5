"""What may be called in a formula, and with what: `C(cp, contr.sum)`, `bs(chol, df=4)`, `poly(age, 2)`, …

Arguments are numbers, texts, true or false, and lists of numbers, written out. What depends on data is declared (the
categories and the range of a column in the schema) or left open, to be learned from sums.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, TypeGuard, cast, get_args

from fedsolve.data.formula_arithmetic import ARITHMETIC, FUNCTIONS, called, columns_in, written
from fedsolve.data.formula_factors import (
    HIGHEST,
    MOST_KNOTS,
    Beyond,
    BSplines,
    Category,
    Factor,
    NaturalSplines,
    Number,
    Polynomials,
    Powers,
    Scaled,
)
from fedsolve.data.schema import Categorical, Column, Numeric
from fedsolve.errors import ConfigError, UnknownName
from fedsolve.tables.cells import key
from fedsolve.text import shortened
from fedsolve.typing import Array

# By the names that formulaic, patsy and R have for them.
CODINGS = {"treatment", "sum", "helmert", "diff", "poly", "SAS"}
_CONTRASTS = {"Treatment": "treatment", "Sum": "sum", "Helmert": "helmert", "Diff": "diff", "Poly": "poly"}
_ARGUMENTS: dict[str, dict[str, object]] = {
    "bs": {
        "df": None,
        "knots": None,
        "degree": 3,
        "include_intercept": False,
        "lower_bound": None,
        "upper_bound": None,
        "extrapolation": "raise",
    },
    "cr": {
        "df": None,
        "knots": None,
        "lower_bound": None,
        "upper_bound": None,
        "constraints": None,
        "extrapolation": "extend",
    },
    "poly": {"degree": 1, "raw": False},
    "center": {},
    "scale": {"center": True, "scale": True, "ddof": 1},
    "standardize": {"center": True, "rescale": True, "ddof": 0},
}
_ARGUMENTS["cs"] = _ARGUMENTS["cr"]
ALLOWED = f"C with contr.{', contr.'.join(sorted(CODINGS))}; bs, cr, poly, center, scale, standardize; I; {ARITHMETIC}"


@dataclass(frozen=True)
class Terms:
    """What a factor is read with: the declared columns, and the factor's own text for messages."""

    known: Mapping[str, Column]
    text: str

    def error(self, said: str) -> ConfigError:
        return ConfigError(f"{shortened(self.text)} in the formula: {said}")

    def column(self, name: str) -> Column:
        if name not in self.known:
            raise UnknownName("column in the formula", name, self.known)
        return self.known[name]


# ── categories ──


class Table(Protocol):
    """A data frame, as far as it is used."""

    def to_numpy(self) -> Array:
        """Its cells."""


class Contrasts(Protocol):
    """formulaic's object for a coding, as far as it is used."""

    def get_coding_matrix(self, levels: list[str], *, reduced_rank: bool) -> Table:
        """A row for each level."""
        ...


@dataclass(frozen=True)
class Coding:
    """A column of categories, and how they are compared.

    levels  the declared ones, as text, and "other" where the schema has it
    base    the reference of treatment coding; None: the first, or, of "SAS", the last
    """

    column: str
    levels: tuple[str, ...]
    kind: str = "treatment"
    base: str | None = None

    def contrasts(self, module: ModuleType) -> Contrasts:
        """formulaic's object for it; `module` is formulaic.transforms.contrasts."""
        name = self.kind if self.kind.isupper() else self.kind.capitalize()
        kind: Callable[..., Contrasts] = getattr(module, f"{name}Contrasts")
        return kind() if self.base is None else kind(base=self.base)

    def category(self, module: ModuleType, reduced: bool) -> Category:
        """The factor, with a reference or without."""
        matrix = self.contrasts(module).get_coding_matrix(list(self.levels), reduced_rank=reduced)
        return Category(self.column, tuple(tuple(float(one) for one in row) for row in matrix.to_numpy()))


def coding_of(tree: ast.expr, terms: Terms) -> Coding | None:
    """The coding that a name or a call of C stands for; None for a column of numbers by its name."""
    if isinstance(tree, ast.Name):
        column = terms.column(tree.id)
        return Coding(column.name, _levels(column)) if isinstance(column, Categorical) else None
    assert isinstance(tree, ast.Call)
    if not tree.args or not isinstance(tree.args[0], ast.Name) or len(tree.args) > 2:
        raise terms.error("C takes a column and, if you like, how to compare its categories: C(cp, contr.sum)")
    column = terms.column(tree.args[0].id)
    if not isinstance(column, Categorical):
        raise terms.error(
            f"the schema declares no categories of {column.name}, and they are never collected from the sites' rows; "
            f"write categories = [...] for it in the schema"
        )
    named = {one.arg: one.value for one in tree.keywords}
    how = tree.args[1] if len(tree.args) == 2 else named.pop("contrasts", None)
    if named:
        raise terms.error(f"C does not take {next(iter(named))}; the levels are those of the schema, in its order")
    levels = _levels(column)
    if how is None:
        return Coding(column.name, levels)
    kind, base = _contrast(how, terms)
    if base is None:
        return Coding(column.name, levels, kind)
    places = {key(one): place for place, one in enumerate(column.categories)}
    if key(base) not in places:
        raise terms.error(f"{base!r} is none of the declared categories {list(column.categories)}")
    return Coding(column.name, levels, kind, levels[places[key(base)]])


def _levels(column: Categorical) -> tuple[str, ...]:
    shown = [one if isinstance(one, str) else f"{one:.15g}" for one in column.categories]
    return (*shown, "other") if column.unseen == "other" else tuple(shown)


def _contrast(how: ast.expr, terms: Terms) -> tuple[str, object]:
    """Which coding, and the reference if one is given."""
    inner = how.func if isinstance(how, ast.Call) else how
    match inner:
        case ast.Attribute(ast.Name("contr"), name) if name in CODINGS:
            kind = name
        case ast.Name(name) if name in _CONTRASTS:
            kind = _CONTRASTS[name]
        case _:
            raise terms.error(f"categories are compared by contr.{', contr.'.join(sorted(CODINGS))}")
    if not isinstance(how, ast.Call) or not (how.args or how.keywords):
        return kind, None
    given = [*((None, one) for one in how.args), *((one.arg, one.value) for one in how.keywords)]
    if kind not in ("treatment", "SAS") or len(given) > 1 or given[0][0] not in (None, "base", "reference"):
        raise terms.error("only the reference of contr.treatment can be chosen: contr.treatment(base='f')")
    return kind, literal(given[0][1], terms)


# ── numbers ──


def factor_of(tree: ast.expr, terms: Terms) -> Factor:
    """The factor that arithmetic, or a call, stands for. Raises ConfigError for what is not allowed."""
    name = called(tree.func) if isinstance(tree, ast.Call) else ""
    if not isinstance(tree, ast.Call) or name in FUNCTIONS or name == "I":
        return Number(_source(tree, terms))
    if name not in _ARGUMENTS:
        raise terms.error(f"{shortened(written(tree.func))} is not allowed in a formula; allowed are {ALLOWED}")
    if not tree.args:
        raise terms.error(f"{name} is of a column: {name}(age)")
    source = _source(tree.args[0], terms)
    given = _arguments(name, tree, terms)
    if name == "bs":
        return _b_splines(source, given, terms)
    if name in ("cr", "cs"):
        return _natural_splines(source, given, terms)
    if name == "poly":
        degree = _whole("degree", given["degree"], 1, HIGHEST, terms)
        return Powers(source, degree) if _flag("raw", given["raw"], terms) else Polynomials(source, degree=degree)
    centred = _flag("center", given.get("center", True), terms)
    divided = _flag("scale", given.get("scale", given.get("rescale", name != "center")), terms)
    return Scaled(source, centred=centred, divided=divided, ddof=_number("ddof", given.get("ddof", 0), terms))


def _source(tree: ast.expr, terms: Terms) -> str:
    """Arithmetic as text, of declared columns of numbers."""
    for node in ast.walk(tree):
        inner = called(node.func) if isinstance(node, ast.Call) else ""
        if inner in (*_ARGUMENTS, "C"):
            raise terms.error(f"{inner} stands by itself, outside of arithmetic and of other transforms")
    try:
        names = columns_in(tree)
    except ConfigError as error:
        raise terms.error(f"{error}; beside that, {ALLOWED.split('; I')[0]}") from None
    if not names:
        raise terms.error("it has no column; leave it out")
    for name in names:
        if isinstance(terms.column(name), Categorical):
            raise terms.error(f"{name} has categories, with which one cannot compute; write {name} or C({name}) alone")
    return written(tree)


def _arguments(name: str, tree: ast.Call, terms: Terms) -> dict[str, object]:
    """The arguments after the first, by name, with what holds where they are not given."""
    known = _ARGUMENTS[name]
    if len(tree.args) - 1 > len(known):
        raise terms.error(f"{name} takes {', '.join(known) or 'nothing'} after the column")
    given = {key: value for key, value in zip(known, tree.args[1:], strict=False)}
    for one in tree.keywords:
        if one.arg is None or one.arg not in known or one.arg in given:
            raise terms.error(f"{name} takes {', '.join(known) or 'nothing'} after the column, each once")
        given[one.arg] = one.value
    return {**known, **{key: literal(value, terms) for key, value in given.items()}}


def literal(node: ast.expr, terms: Terms) -> object:
    """A number, a text, true, false or none, or a list of numbers, that is written out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = ...
    if isinstance(value, list | tuple) and all(_is_number(one) for one in value):
        return tuple(float(one) for one in value)
    if value is None or isinstance(value, bool | str) or _is_number(value):
        return value
    raise terms.error(f"{shortened(written(node))} is no number, text or list of numbers that is written out")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _number(name: str, value: object, terms: Terms) -> float:
    if not _is_number(value):
        raise terms.error(f"{name} is a number, got {shortened(value)}")
    return float(value)


def _whole(name: str, value: object, least: int, most: int, terms: Terms) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise terms.error(f"{name} is a whole number from {least} to {most}, got {shortened(value)}")
    return value


def _flag(name: str, value: object, terms: Terms) -> bool:
    if not isinstance(value, bool):
        raise terms.error(f"{name} is True or False, got {shortened(value)}")
    return value


# ── splines ──


def _b_splines(source: str, given: Mapping[str, object], terms: Terms) -> BSplines:
    degree = _whole("degree", given["degree"], 1, HIGHEST, terms)
    intercept = _flag("include_intercept", given["include_intercept"], terms)
    low, high = _bounds(source, given, terms)
    inner, knots = _knots(given, degree + intercept, low, high, terms)
    return BSplines(source, low, high, inner, knots is None, knots, _beyond(given, terms), degree, intercept)


def _natural_splines(source: str, given: Mapping[str, object], terms: Terms) -> NaturalSplines:
    if given["constraints"] not in (None, "center"):
        raise terms.error(f"constraints is 'center' or left out, got {shortened(given['constraints'])}")
    centred = given["constraints"] == "center"
    low, high = _bounds(source, given, terms)
    if given["df"] is None and given["knots"] is None:
        raise terms.error("say df = how many columns, or knots = [...]")
    inner, knots = _knots(given, 2 - centred, low, high, terms)
    return NaturalSplines(source, low, high, inner, knots is None, knots, _beyond(given, terms), centred)


def _bounds(source: str, given: Mapping[str, object], terms: Terms) -> tuple[float, float]:
    """Where a spline begins and ends: as the formula says, or as the schema declares of the column."""
    column = terms.known.get(source.strip("`"))
    declared = (column.low, column.high) if isinstance(column, Numeric) else (None, None)
    low, high = (
        of_schema if (said := given[name]) is None else _number(name, said, terms)
        for name, of_schema in zip(("lower_bound", "upper_bound"), declared, strict=True)
    )
    if low is None or high is None:
        where = f"low and high of {column.name} in the schema, or " if column is not None else ""
        raise terms.error(
            f"say where the spline begins and ends: {where}lower_bound = ..., upper_bound = ... in the formula; the "
            "least and the largest value of the data would each be one person's"
        )
    if not low < high:
        raise terms.error(f"the spline begins below where it ends, got {low:g} and {high:g}")
    return low, high


def _knots(
    given: Mapping[str, object], least: int, low: float, high: float, terms: Terms
) -> tuple[int, tuple[float, ...] | None]:
    """How many inner knots there are, and where; None if that is to be learned."""
    df, knots = given["df"], given["knots"]
    if df is not None and knots is not None:
        raise terms.error("say df = how many columns, or knots = [...], and not both")
    if knots is None:
        inner = 0 if df is None else _whole("df", df, least, least + MOST_KNOTS, terms) - least
        return inner, None if inner else ()
    if not isinstance(knots, tuple) or len(knots) > MOST_KNOTS:
        raise terms.error(f"knots are a list of at most {MOST_KNOTS} numbers, got {shortened(knots)}")
    inner_knots = tuple(sorted(knots))
    if len(set(inner_knots)) < len(inner_knots) or not all(low < one < high for one in inner_knots):
        raise terms.error(f"knots are different numbers between {low:g} and {high:g}, got {list(knots)}")
    return len(inner_knots), inner_knots


def _beyond(given: Mapping[str, object], terms: Terms) -> Beyond:
    for known in get_args(Beyond):
        if given["extrapolation"] == known:
            return cast(Beyond, known)
    raise terms.error(f"extrapolation is 'raise', 'clip' or 'extend', got {shortened(given['extrapolation'])}")
