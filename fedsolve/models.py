"""Models: what a run is for. They predict, and they are saved without pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError
from fedsolve.files import write_atomically
from fedsolve.typing import Array

FORMAT = 1


@dataclass(frozen=True, eq=False)
class LinearModel:
    """x ↦ g(xᵀw), with the intercept last in w. `link`: identity, logistic."""

    w: Array
    intercept: bool
    link: str
    classes: tuple[Any, ...] | None = None
    transform: Any = None  # the preprocessing the run agreed on: raw columns go in

    @property
    def coef(self) -> Array:
        return self.w[:-1] if self.intercept else self.w

    @property
    def intercept_(self) -> Any:
        return self.w[-1] if self.intercept else 0.0

    def decision_function(self, X: Array) -> Array:
        """The linear predictor."""
        if self.transform is not None:
            X = self.transform.apply(X)
        X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.coef.shape[0]:
            raise DataError(f"this model takes {self.coef.shape[0]} features, X has shape {X.shape}")
        return X @ self.coef + self.intercept_

    def predict_proba(self, X: Array) -> Array:
        """P(y = 1 | x) and its complement, as two columns (0 first)."""
        if self.link != "logistic":
            raise ConfigError("only classifiers have probabilities; this model is a regression")
        p = 0.5 + 0.5 * np.tanh(0.5 * self.decision_function(X))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Array) -> Array:
        """Values, or the more probable class."""
        eta = self.decision_function(X)
        if self.link != "logistic":
            return eta
        labels = (eta > 0).astype(np.int64)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    def with_transform(self, transform: Any) -> LinearModel:
        return replace(self, transform=transform)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz file: the weights, and the rest as JSON text."""
        import io

        rest = {
            "format": FORMAT,
            "kind": "linear",
            "intercept": self.intercept,
            "link": self.link,
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
        }
        buffer = io.BytesIO()
        np.savez(buffer, w=self.w, model=np.array(json.dumps(rest)))
        write_atomically(Path(path), buffer.getvalue())


def load_model(path: str | os.PathLike[str]) -> LinearModel:
    """Read a model that `save` wrote."""
    from fedsolve.data.preprocess import Transform

    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no model file {path}")
    try:
        with np.load(path, allow_pickle=False) as file:
            w, rest = file["w"], json.loads(str(file["model"]))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not a fedsolve model file ({error})") from None
    if rest.get("format") != FORMAT or rest.get("kind") != "linear":
        raise DataError(f"{path} is a model of format {rest.get('format')!r}, this version reads {FORMAT}")
    classes = rest["classes"]
    transform = None if rest["transform"] is None else Transform.from_plain(rest["transform"])
    return LinearModel(w, rest["intercept"], rest["link"], None if classes is None else tuple(classes), transform)
