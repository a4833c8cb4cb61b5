"""A formula as statisticians write it, read by formulaic: which factors there are, and which products of them.

    read("age * sex + bs(chol, df=4) + C(cp)", schema.columns)

formulaic parses the text, decides which categories need a reference (so that columns are not collinear), and names the
columns. It evaluates nothing: every factor is checked here against a list of what is allowed, and becomes one of
`formula_factors`, which is computed without it. Categories are those that the schema declares, so that every site makes
the same columns.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, TypeAlias

from fedsolve.data.formula_arithmetic import LONGEST, called, syntax
from fedsolve.data.formula_calls import Coding, Terms, coding_of, factor_of
from fedsolve.data.formula_design import FormulaDesign, Product, check_formula_columns
from fedsolve.data.formula_factors import Category, Factor, Powers
from fedsolve.data.schema import Column
from fedsolve.errors import ConfigError
from fedsolve.text import shortened

MOST_TERMS = 2_000
_LEFT = re.compile(r"^\s*(?:`(?P<quoted>[^`]+)`|(?P<plain>[\w.]+))\s*$")

Parsed: TypeAlias = Any  # terms, factors and structures of formulaic, which declares no types


def formulaic() -> SimpleNamespace:
    """What is used of formulaic. Raises ConfigError if it is not installed."""
    try:
        import formulaic as lib
        import pandas
        from formulaic import errors, materializers, parser, transforms
    except ImportError:
        raise ConfigError('a formula needs formulaic: pip install "fedsolve[formula]"') from None
    return SimpleNamespace(
        Formula=lib.Formula,
        Error=errors.FormulaicError,
        Parser=parser.DefaultFormulaParser,
        Materializer=materializers.PandasMaterializer,
        EvaluatedFactor=materializers.types.EvaluatedFactor,
        FactorValues=materializers.types.FactorValues,
        C=transforms.C,
        contrasts=transforms.contrasts,
        Cells=pandas.Categorical,
        DataFrame=pandas.DataFrame,
        Series=pandas.Series,
    )


def sides(formula: str) -> tuple[str | None, str]:
    """The column left of `~`, or None, and what stands right of it. Raises ConfigError for anything but the name of
    one column on the left."""
    if not isinstance(formula, str) or not formula.strip():
        raise ConfigError(f'a formula is a text such as "age * sex + bs(chol, df=4)", got {shortened(formula)}')
    if len(formula) > LONGEST:
        raise ConfigError(f"a formula has at most {LONGEST:,} characters, got {len(formula):,}")
    left, sign, right = formula.rpartition("~")
    if not sign:
        return None, formula
    found = _LEFT.match(left)
    if left.strip() and found is None:
        raise ConfigError(
            f"left of ~ stands the column to predict by itself, got {shortened(left.strip())}; data.positive says what "
            "counts as 1"
        )
    if not right.strip():
        raise ConfigError(f"nothing stands right of ~ in {shortened(formula)}; write 1 for an intercept alone")
    return (None if found is None else found["quoted"] or found["plain"]), right


@lru_cache(maxsize=64)
def read(formula: str, columns: tuple[Column, ...]) -> FormulaDesign:
    """The design of a formula over declared columns, in which nothing is learned yet.

    Raises ConfigError, in one sentence, for what is no formula or is not allowed in one; UnknownName for a column that
    is not declared.
    """
    lib = formulaic()
    right = sides(formula)[1]
    known = {column.name: column for column in columns}
    terms = _terms(lib, right, known)
    made = {name: _factor(factor, known) for name, factor in _factors(terms).items()}
    structure, has_intercept = _structure(lib, terms, made)
    return _assembled(structure, made, has_intercept)


@lru_cache(maxsize=64)
def has_intercept(formula: str) -> bool:
    """Whether a formula has an intercept: unless it says `- 1` or `+ 0`. Raises ConfigError for what is no formula."""
    return any(not term.factors or term.factors[0].expr == "1" for term in _terms(formulaic(), sides(formula)[1], {}))


# ── terms ──


def _terms(lib: SimpleNamespace, right: str, known: Mapping[str, Column]) -> list[Parsed]:
    """The terms of the right-hand side. Raises ConfigError for what formulaic cannot read, and for too many."""
    parser = lib.Parser(feature_flags=set())
    context = {"__formulaic_variables_available__": list(known)}
    try:
        _check_size(parser.get_ast(right, context=dict(context)), len(known))
        found = parser.get_terms(right, context=dict(context))
        ordered = lib.Formula(list(found.root))
    except ConfigError:
        raise
    except (lib.Error, SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        said = str(error).strip().splitlines()
        reason = f" ({shortened(said[0])})" if said else ""
        raise ConfigError(f"{shortened(right.strip())} is no formula that can be read{reason}") from None
    return list(ordered)


def _check_size(node: Parsed, columns: int) -> None:
    if (size := _size(node, columns)) > MOST_TERMS:
        raise ConfigError(
            f"a formula has at most {MOST_TERMS:,} terms, and this one up to {size:,.0f}: interact fewer columns"
        )


def _size(node: Parsed, columns: int) -> float:
    """A bound on the number of terms, before they are multiplied out."""
    if not hasattr(node, "operator"):
        return 1
    each = [_size(one, columns) for one in node.args]
    symbol = node.operator.symbol
    if symbol == ".":
        return columns
    if symbol in ("**", "^"):
        power = getattr(node.args[1], "token", "")
        if not re.fullmatch(r"[1-9]", power):
            raise ConfigError("in a formula, ** and ^ take a whole number from 1 to 9; for a power write I(age ** 2)")
        return min(each[0], 1e6) ** int(power)
    if len(each) < 2:
        return sum(each)
    a, b = each
    return {"*": a + b + a * b, ":": a * b}.get(symbol, a + b)


def _factors(terms: Sequence[Parsed]) -> dict[str, Parsed]:
    """formulaic's factors by their text, in the order of the formula, without numbers."""
    return {one.expr: one for term in terms for one in term.factors if one.eval_method.value != "literal"}


def _factor(factor: Parsed, known: Mapping[str, Column]) -> Factor | Coding:
    """What one factor is, by the list of what is allowed."""
    by_name = factor.eval_method.value == "lookup"
    tree: ast.expr = ast.Name(factor.expr) if by_name else syntax(factor.expr)
    terms = Terms(known, factor.expr)
    if isinstance(tree, ast.Name) or (isinstance(tree, ast.Call) and called(tree.func) == "C"):
        return coding_of(tree, terms) or factor_of(tree, terms)
    return factor_of(tree, terms)


# ── what formulaic makes of them ──


def _structure(
    lib: SimpleNamespace, terms: Sequence[Parsed], made: Mapping[str, Factor | Coding]
) -> tuple[list[Parsed], bool]:
    """formulaic's terms with their factors, reduced or not, and the names of their columns, from one made-up row. All
    values are given, so that it evaluates none."""
    materializer = lib.Materializer(lib.DataFrame({"row": [1.0]}))
    for name, factor in _factors(terms).items():
        materializer.factor_cache[name] = lib.EvaluatedFactor(factor, _values(lib, made[name]), set())
    matrix = materializer.get_model_matrix(lib.Formula(list(terms)))
    has_intercept = any(not one.factors for term in matrix.model_spec.structure for one in term.scoped_terms)
    return list(matrix.model_spec.structure), has_intercept


def _values(lib: SimpleNamespace, factor: Factor | Coding) -> Parsed:
    one = lib.Series([1.0])
    if isinstance(factor, Coding):
        cells = lib.Series(lib.Cells([factor.levels[0]], categories=list(factor.levels)))
        return lib.C(cells, factor.contrasts(lib.contrasts))
    spans = bool(getattr(factor, "intercept", False))
    if factor.width == 1 and not factor.numbered:
        return lib.FactorValues(one, kind="numerical", spans_intercept=False)
    first = 0 if spans or isinstance(factor, Powers) else 1  # as formulaic counts
    fields = range(first, first + factor.width)
    return lib.FactorValues(
        {field: one for field in fields},
        kind="numerical",
        spans_intercept=spans,
        drop_field=0,
        format="{name}[{field}]",
    )


def _assembled(structure: Sequence[Parsed], made: Mapping[str, Factor | Coding], has_intercept: bool) -> FormulaDesign:
    """The design: a factor for each that occurs, with a reference or without, and the products of their columns."""
    lib = formulaic()
    places: dict[tuple[str, bool], int] = {}
    names: list[str] = []
    factors: list[Factor] = []
    products: list[Product] = []

    def place(name: str, reduced: bool) -> int:
        if (name, reduced) not in places:
            places[name, reduced] = len(factors)
            found = made[name]
            factors.append(found.category(lib.contrasts, reduced) if isinstance(found, Coding) else found)
            names.append(name)
        return places[name, reduced]

    for term in structure:
        titles = iter(term.columns)
        for scoped in term.scoped_terms:
            if not scoped.factors:
                next(titles)
                continue
            parts = [(place(one.factor.expr, one.reduced), one) for one in scoped.factors]
            fields = [_fields(factors[at], one.reduced) for at, one in parts]
            for chosen in itertools.product(*reversed(fields)):  # the first factor changes fastest, as in R
                pairs = tuple((at, field) for (at, _), field in zip(parts, reversed(chosen), strict=True))
                products.append(Product(next(titles), pairs, float(scoped.scale)))
        if next(titles, None) is not None:
            raise ConfigError(f"the columns of {term.term} cannot be told apart; rename a category")
    if not products:
        raise ConfigError("the formula has no column: name at least one, as in age + sex")
    check_formula_columns(tuple(one.name for one in products))
    return FormulaDesign(tuple(names), tuple(factors), tuple(products), has_intercept)


def _fields(factor: Factor, reduced: bool) -> range:
    """The columns of a factor that are used; of a spline with its intercept, beside another one, not the first."""
    skipped = reduced and not isinstance(factor, Category)
    return range(int(skipped), factor.width)
