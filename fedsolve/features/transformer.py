"""A scikit-learn transformer that needs no data: fitted on random rows, and rejected if these matter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError
from fedsolve.features.base import FeatureMap, dense
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.typing import Array

ROOMS = ("preprocessing", "kernel_approximation", "random_projection")  # of scikit-learn: names stand for these only


@runtime_checkable
class SklearnTransformer(Protocol):
    """What a transformer of scikit-learn is asked for here."""

    def fit(self, X: Array) -> SklearnTransformer: ...

    def transform(self, X: Array) -> Array: ...

    def get_params(self, deep: bool = True) -> dict[str, object]: ...


@dataclass(frozen=True)
class Transformer(FeatureMap):
    """Transformer(PolynomialFeatures(3)), or by name and parameters: Transformer("PolynomialFeatures", {"degree": 3}).

    Held as name and plain parameters, so that both sides, a run file and a saved model can say the same.
    """

    transformer: str | SklearnTransformer
    parameters: Mapping[str, object] | tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        given = self.transformer
        if not isinstance(given, str):
            if not hasattr(given, "get_params"):
                raise ConfigError(f"a scikit-learn transformer or its name is needed, got {given!r}")
            name, parameters = type(given).__name__, given.get_params(deep=False)
            if type(given) is not _class(name):
                raise ConfigError(f"{name} is no transformer of scikit-learn's {' or '.join(ROOMS)}")
            defaults = type(given)().get_params(deep=False) if not _required(type(given)) else {}
            said = {key: one for key, one in parameters.items() if key not in defaults or one is not defaults[key]}
            object.__setattr__(self, "transformer", name)
        else:
            _class(given)
            said = dict(self.parameters)
        frozen = tuple((key, _frozen(key, said[key])) for key in sorted(said))
        object.__setattr__(self, "parameters", frozen)

    def dimension(self, d: int) -> int:
        return _fitted(self, d)[1]

    def block(self, X: Array) -> Array:
        fitted, _ = _fitted(self, int(X.shape[1]))
        sparse = sp.issparse(X)
        made = _rows(fitted, to_numpy(dense(X)))
        return made if sparse else like(made, X)

    def make(self) -> SklearnTransformer:
        """The scikit-learn object, not fitted."""
        return _class(str(self.transformer))(**{key: _thawed(value) for key, value in dict(self.parameters).items()})


@lru_cache(maxsize=32)
def _fitted(of: Transformer, d: int) -> tuple[SklearnTransformer, int]:
    """The transformer for d columns, and the number of its features."""
    rng = np.random.default_rng(0)
    probe = rng.random((16, d))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = [of.make().fit(rng.random((rows, d))) for rows in (50, 41)]
            one, other = (_rows(fit, probe) for fit in fits)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{of.transformer} cannot be fitted to {d} columns: {error}") from None
    if one.shape != other.shape or not np.array_equal(one, other, equal_nan=True):
        raise ConfigError(
            f"{of.transformer} depends on the data it is fitted to, or on chance: clients would not agree on it; give "
            "random_state a number, or use a transformer that needs no data"
        )
    return fits[0], one.shape[1]


def _rows(fitted: SklearnTransformer, X: Array) -> Array:
    return np.ascontiguousarray(dense(fitted.transform(X)), dtype=np.float64)


@lru_cache(maxsize=64)
def _class(name: str) -> Callable[..., SklearnTransformer]:
    for room in _rooms():
        found = getattr(room, name, None)
        if _is_transformer(found):
            return cast(Callable[..., SklearnTransformer], found)
    raise ConfigError(f"{name!r} is no transformer of scikit-learn's {' or '.join(ROOMS)}")


def transformer_names() -> list[str]:
    """The transformers that a name may stand for."""
    return sorted({name for room in _rooms() for name in dir(room) if _is_transformer(getattr(room, name))})


def _rooms() -> tuple[ModuleType, ...]:
    from sklearn import kernel_approximation, preprocessing, random_projection  # slow to import

    return preprocessing, kernel_approximation, random_projection


def _is_transformer(found: object) -> bool:
    return isinstance(found, type) and hasattr(found, "transform") and hasattr(found, "fit")


def _required(kind: Callable[..., object]) -> bool:
    """Whether some parameter has no default."""
    from inspect import Parameter, signature

    return any(
        one.default is Parameter.empty and one.kind is not Parameter.VAR_KEYWORD
        for one in signature(kind).parameters.values()
    )


def _frozen(key: str, value: object) -> object:
    """A plain value that can be hashed and written down."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_frozen(key, item) for item in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"the parameter {key} is a {type(value).__name__}; only numbers, text and lists can be agreed on")


def _thawed(value: object) -> object:
    """Lists of numbers as arrays; a pair of numbers (a range) stays a tuple, as scikit-learn wants it."""
    if isinstance(value, tuple) and (len(value) != 2 or any(isinstance(item, tuple) for item in value)):
        return np.asarray(value)
    return value
