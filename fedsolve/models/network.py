"""Networks as models: x ↦ g(η(x; w)), with η a torch module and w all of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.features.base import dense
from fedsolve.models.base import Description, Plain, Task
from fedsolve.models.linked import LINKS, LinkedModel, with_offset
from fedsolve.networks.architecture import Architecture
from fedsolve.networks.library import checked_device, torch_library
from fedsolve.networks.modules import flat_module, outputs_of, seeded
from fedsolve.networks.tensors import writable
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

if TYPE_CHECKING:
    from torch import nn

ROWS = 2048  # rows whose activations are held at once


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(LinkedModel):
    """x ↦ g(η(x; w)); needs PyTorch to predict.

    Attributes:
        w: All parameters in one vector, float32 or float64, in which it also computes.
        architecture: What they are the parameters of.
        link: What g is: "identity", "logistic", "softmax" or "exponential".
        classes: What the labels 0, 1, … stand for, where that is known; `predict` gives these.
        transform: The preprocessing the run agreed on: raw columns go in.
        feature_names: The names of the columns after preprocessing.
        inputs: How many columns it takes after preprocessing; None: as many as the first rows that it is given have.
        output_count: How many numbers it puts out for a row; None: as many as its weights are for.
        device: Where it computes, "cpu" or "cuda"; None is the CPU. Not saved.
    """

    w: Array
    architecture: Architecture
    link: str
    classes: Classes | None = None
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None
    inputs: int | None = None
    output_count: int | None = None
    device: str | None = None

    kind: ClassVar[str] = "network"

    def __post_init__(self) -> None:
        if not isinstance(self.architecture, Architecture):
            raise ConfigError(f"architecture is an architecture such as MLP((64,)), got {self.architecture!r}")
        if self.w.ndim != 1 or self.w.dtype not in (np.float32, np.float64):
            raise DataError(f"w is a vector of float32 or float64 numbers, got {self.w.dtype} and shape {self.w.shape}")
        if self.link not in LINKS:
            raise DataError(f"its link is {self.link!r}, expected one of {', '.join(LINKS)}")

    def __repr__(self) -> str:
        kept = "" if self.transform is None else ", takes raw columns"
        return f"<NetworkModel: {self.architecture!r}, {self.w.size:,} weights, link {self.link}{kept}>"

    @property
    def in_words(self) -> str:
        """What kind of model it is, for a report."""
        return f"a neural network ({type(self.architecture).__name__})"

    # ── predicting ──

    def decision_function(self, X: Array, offset: Array | None = None) -> Array:
        """The outputs for each row of X, before the link: a number, or a row of several (see `prepared` for X)."""
        X = dense(self.prepared(X))
        if self.inputs is not None and X.shape[1] != self.inputs:
            raise DataError(f"this model takes {self.inputs} columns, X has shape {X.shape}")
        if not np.isfinite(X).all():
            row, column = np.argwhere(~np.isfinite(X))[0]
            raise DataError(f"column {self._column(column)}, row {row} (from 0): {X[row, column]}, expected a number")
        eta = self._outputs(X)
        eta = eta if self.link == "softmax" or eta.shape[1] > 1 else eta[:, 0]
        if offset is not None and eta.ndim > 1:
            raise DataError(f"a network of {eta.shape[1]} outputs does not take an offset")
        return with_offset(eta, offset)

    def _outputs(self, X: Array) -> Array:
        torch = torch_library()
        outputs = self._counted(X.shape[1])
        net = flat_module(self.architecture, X.shape[1], outputs)
        if net.count != self.w.size:
            raise ConfigError(
                f"{self.architecture!r} has no {self.w.size:,} weights for {X.shape[1]} inputs and {outputs} outputs, "
                f"but {net.count:,}"
            )
        place = checked_device(self.device or "cpu")
        w = torch.tensor(self.w, device=place)
        parts = []
        with torch.no_grad():
            for start in range(0, len(X), ROWS):
                rows = torch.as_tensor(writable(X[start : start + ROWS]), dtype=w.dtype, device=place)
                parts.append(net(w, rows).double().cpu().numpy())
        return np.concatenate(parts) if parts else np.zeros((0, outputs))

    def _counted(self, inputs: int) -> int:
        """How many numbers it puts out for a row of so many inputs."""
        return self.output_count or outputs_of(self.architecture, inputs, self.w.size)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of η of one row. Raises ConfigError for a model that does not know its inputs."""
        if self.output_count is None and self.inputs is None:
            raise ConfigError("this model does not know how many columns it takes: it is the model of no run")
        count = self._counted(self.inputs or 0)
        return (count,) if self.link == "softmax" or count > 1 else ()

    @property
    def n_classes(self) -> int | None:
        """How many classes it tells apart; None for a regression, and where the number of inputs is not known yet."""
        if self.link == "softmax" and self.output_count is None and self.inputs is None:
            return None if self.classes is None else len(self.classes)
        return super().n_classes

    @property
    def is_classifier(self) -> bool:
        """Whether `predict` gives classes."""
        return self.link in ("logistic", "softmax")

    def on(self, device: str) -> NetworkModel:
        """The model on another device, "cpu" or "cuda"."""
        return replace(self, device=device)

    def module(self) -> nn.Module:
        """A torch module with these weights, on the CPU, in the type they have: what `architecture.build` makes. It
        takes what the model takes after preprocessing, as a tensor, and gives the outputs before the link."""
        if self.inputs is None:
            raise ConfigError("this model does not know how many columns it takes: it is the model of no run")
        torch = torch_library()
        outputs = self._counted(self.inputs)
        with seeded(0):  # the weights that it begins with are replaced
            made = self.architecture.build(self.inputs, outputs).to(torch.tensor(self.w).dtype)
        torch.nn.utils.vector_to_parameters(torch.tensor(self.w), made.parameters())
        return made

    # ── describing ──

    def described(self, names: Sequence[str] | None = None) -> Description:
        """The architecture, and how many weights it has."""
        norm = float(np.linalg.norm(self.w))
        said = f"A network, {self.architecture!r}, with {self.w.size:,} weights in {self.w.dtype}, of norm {norm:.4g}."
        return Description((said,))

    # ── what a run asks ──

    def weights_for(self, task: Task) -> Array:
        """The weights to start a run of the same architecture from, on the same columns in the same order.

        Raises ConfigError if the run trains another architecture, or on other columns.
        """
        run, start, instead = task.whole, task.role, task.instead
        if task.architecture is not None and task.architecture != self.architecture:
            raise ConfigError(
                f"{start} is a {self.architecture!r}, and {run} trains a {task.architecture!r}: start from a network "
                "of the same architecture"
            )
        if task.architecture is None:
            raise ConfigError(f"{start} is a network, and {run} does not train one; {instead}")
        if (self.transform is not None) != task.preprocessed:
            ours, theirs = ("a preprocess=", "without one") if task.preprocessed else ("no preprocess=", "behind one")
            raise ConfigError(f"{run} has {ours}, and the model of {start} was fitted {theirs}; {instead}")
        if self.classes is not None and task.classes is not None and self.classes != task.classes:
            raise ConfigError(
                f"{start}'s classes are {list(self.classes)}, {run}'s {list(task.classes)}; declare the same classes "
                "in the same order"
            )
        if self.feature_names is not None and task.columns is not None and self.feature_names != task.columns:
            raise ConfigError(
                f"the model of {start} was fitted on the columns {list(self.feature_names)}, {run} has "
                f"{list(task.columns)}: give the clients the same ones in the same order"
            )
        return self.w.astype(np.float64)

    # ── files ──

    def arrays(self) -> dict[str, Array]:
        """What is saved as arrays, by name."""
        return {"w": self.w}

    def settings(self) -> Plain:
        """What is saved as JSON, by name."""
        return {
            "architecture": self.architecture.to_plain(),
            "link": self.link,
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
            "feature_names": self.feature_names,
            "inputs": self.inputs,
            "outputs": self.output_count,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], settings: Plain) -> NetworkModel:
        """The model that `arrays` and `settings` were of. Raises DataError if they are of none."""
        classes, names, transform = (settings[name] for name in ("classes", "feature_names", "transform"))
        if not np.isfinite(arrays["w"]).all():
            raise DataError("its weights are not finite")
        return cls(
            arrays["w"],
            Architecture.from_plain(settings["architecture"]),
            settings["link"],
            None if classes is None else tuple(classes),
            None if transform is None else Transform.from_plain(transform),
            None if names is None else tuple(names),
            settings["inputs"],
            settings.get("outputs"),
        )
