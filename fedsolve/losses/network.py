"""Networks as a loss: f_j of a client's rows at the flat vector of a torch module's parameters.

    f_j(w) = Σ_i s_i ℓ(η(x_i; w), y_i) / Σ_i s_i + (l2/2) ‖w‖²

FedAvg, FedProx, FedDyn and Scaffold train it as they train anything else. It is not convex: nothing is certified, and
by default a run measures the value alone, because a gradient is as large as the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Literal

import numpy as np

from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.federation.client import Client
from fedsolve.federation.stacked import StandIn
from fedsolve.losses.base import Loss
from fedsolve.losses.linear import LinearLoss
from fedsolve.losses.pointwise import Pointwise
from fedsolve.losses.softmax import Softmax
from fedsolve.losses.squared import Squared
from fedsolve.models.network import NetworkModel
from fedsolve.networks.architecture import Architecture, check_architecture
from fedsolve.networks.augmentation import Augmentation
from fedsolve.networks.gradients import gradient_of
from fedsolve.networks.library import checked_device, torch_library
from fedsolve.networks.modules import FlatModule, flat_module, initial_weights
from fedsolve.networks.tensors import TensorClient
from fedsolve.numerics.linalg import as_kind_of, namespace
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.typing import Array, Namespace

ROWS = 2048  # rows whose activations are held at once
SALTS = 2**31
# The weights of a network up to which the CPU gains by running clients together. In a stack batches of 64 take a fifth
# of the time with 13,000 weights, two thirds with 51,000, and more than one by one with 159,000.
MOST_ON_CPU = 2**16
SAMPLES = 128  # rows whose gradients are computed at once, each by itself


@dataclass(frozen=True)
class Network(Loss):
    """A torch module under a loss of its outputs; needs PyTorch.

    Args:
        architecture: `MLP`, `CNN`, or an `Architecture` of your own.
        loss: ℓ of the outputs: `Squared()` (default), `Logistic()`, `Softmax(classes=…)` or `Poisson()`, without
            penalties, intercept and features of its own.
        l2: Adds (l2/2) ‖w‖² over all parameters, which is torch's weight decay. Default 0.
        dtype: What the parameters are computed and sent with: "float32" (default) or "float64".
        device: "cpu" or "cuda"; None, the default, stays where a torch client's tensors are, else on the CPU.
        augmentation: Changes the samples of every step of a local solver by chance, such as `FlipAndCrop(padding=4)`;
            None, the default, learns from them as they are. Values are measured on samples as they are.
        measures_gradient: Whether a run measures the norm of the pooled gradient too. It is as large as the model, so
            that measuring costs as much as learning. Default False: runs are measured, stopped and reported by value.
    """

    architecture: Architecture
    loss: Pointwise = field(default_factory=Squared)
    l2: float = 0.0
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["cpu", "cuda"] | None = None
    augmentation: Augmentation | None = None
    measures_gradient: bool = False

    provides: ClassVar[frozenset[str]] = frozenset({"gradient"})
    converts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_architecture(self.architecture)
        if isinstance(self.loss, type) or not isinstance(self.loss, Pointwise):
            raise ConfigError(f"loss is a loss of predictions such as Softmax(classes=10), got {self.loss!r}")
        if isinstance(self.loss, LinearLoss):
            own = {"l2": self.loss.l2, "l1": self.loss.l1, "intercept": self.loss.intercept}
            for name, value in (own | {"features": self.loss.features}).items():
                if value:
                    raise ConfigError(
                        f"the loss in a Network has {name} = {value!r}, which is about linear weights; leave it out"
                        + (", and give the Network its l2" if name == "l2" else "")
                    )
        at_least_zero("l2", self.l2)
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype is 'float32' or 'float64', got {self.dtype!r}")
        if not isinstance(self.augmentation, Augmentation | None):
            raise ConfigError(f"augmentation is one such as FlipAndCrop(padding=4), or None, got {self.augmentation!r}")
        if self.device not in ("cpu", "cuda", None):
            raise ConfigError(f"device is 'cpu', 'cuda' or None, got {self.device!r}")

    # ── clients ──

    def value(self, client: Client, w: Array) -> float:
        """f_j(w)."""
        own, w = self._inside(client, w)
        client.count("losses", client.n_samples)
        with torch_library().no_grad():
            total = self._over_rows(own, lambda part: self._total(own, w, part))
        return own.number(total / own.weight + self._penalty(w))

    def gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w), in the library and on the device of w."""
        return self.changed_gradient(client, w, None)

    def salt(self, client: Client) -> Array | None:
        """What the augmentation draws from in one run of a local solver; None without one."""
        if self.augmentation is None:
            return None
        return client.draw(lambda rng, _: rng.integers(0, SALTS, size=1))[0]

    def changed_gradient(self, client: Client, w: Array, salt: Array | None) -> Array:
        """∇f_j(w) on augmented samples; on the samples as they are where there is no salt."""
        own, inner = self._inside(client, w)
        client.count("gradients", client.n_samples)
        # The second is quicker, where nothing is stacked.
        grad = torch_library().func.grad if isinstance(own, StandIn) else gradient_of
        g = self._over_rows(own, lambda part: grad(lambda v: self._total(own, v, part, salt) / own.weight)(inner))
        return as_kind_of(g + self.l2 * inner if self.l2 else g, w)

    def sample_gradients(self, client: Client, w: Array) -> Array:
        """∇ℓ_i(w) of each sample: n times as much memory as w takes."""
        func = torch_library().func
        own, inner = self._inside(client, w)
        client.count("gradients", client.n_samples)
        net, X, y = self._module(own), own.design.sample, own.y

        def single(v: Array, x: Array, target: Array, offset: Array | None) -> Array:
            shift = None if offset is None else offset[None]
            return self._losses(own, net(v, x[None, :]), target[None, ...], shift)[0]

        in_dims = (None, 0, 0, None if own.offset is None else 0)
        each = func.vmap(func.grad(single), in_dims=in_dims, chunk_size=SAMPLES)
        return as_kind_of(each(inner, X, y, own.offset), w)

    def slopes(self, client: Client, eta: Array) -> Array:
        """dℓ/dη of each row at outputs η, in the shape of its targets: the gradient of the mean of ℓ as a functional of
        the network (Shen et al., equation 8). `client` has tensors (`computing`)."""
        grad = torch_library().func.grad if isinstance(client, StandIn) else gradient_of
        each = grad(lambda e: self._losses(client, e, client.y, client.offset).sum())(eta)
        return each[:, 0] if client.y.ndim == 1 else each

    def check(self, client: Client) -> None:
        """Raise DataError for targets that ℓ is not defined for, and ConfigError for inputs the architecture is not."""
        self.loss.check(client)
        outputs = self._outputs(tuple(client.y.shape[1:]))
        if client.offset is not None and outputs > 1:
            raise DataError(f"client {client.name!r} has an offset, which a network of {outputs} outputs does not take")
        checked_device(self.device or "cpu")
        if client.raw and client.session.get("transform") is None:
            return  # how many inputs there are is known after preprocessing: `_module` checks then
        flat_module(self.architecture, client.design.shape[1], outputs)
        if self.augmentation is not None:
            self.augmentation.check(client.design.shape[1], self.architecture)

    def check_weights(self, client: Client, **arrays: Array) -> None:
        """Raise WrongType unless each array is a vector of as many floats as the module has parameters."""
        count = self._module(client).count
        for name, array in arrays.items():
            if tuple(array.shape) != (count,) or not str(array.dtype).endswith(("float32", "float64")):
                raise WrongType(
                    f"{name} has {array.dtype} entries and shape {tuple(array.shape)}, where the weights of this "
                    f"client's network have {self.dtype} entries and shape ({count},)"
                )

    def computing(self, client: Client) -> Client:
        """The client's rows as tensors, kept with it."""
        if isinstance(client, StandIn | TensorClient):
            return client

        def compute() -> TensorClient:
            return TensorClient.of(client, self.targets(client), self.dtype, self.device)

        classes = self.loss.classes if isinstance(self.loss, Softmax) else None
        return client.cached(("tensors", self.dtype, self.device, classes), compute).follow()

    def gains_together(self, client: Client) -> bool:
        """Whether it pays to run this client with others: on a GPU always, on a CPU as long as the network is small."""
        return client.y.device.type != "cpu" or self._module(client).count <= MOST_ON_CPU

    def in_double(self) -> Network:
        """The same network in float64, by which steps that run together are checked."""
        return self if self.dtype == "float64" else replace(self, dtype="float64")

    def _inside(self, client: Client, w: Array) -> tuple[Client, Array]:
        """The client and the weights as tensors."""
        own = self.computing(client)
        self.check_weights(own, w=w)
        torch = torch_library()
        if torch.is_tensor(w) and w.dtype == own.y.dtype and w.device == own.y.device:
            return own, w
        return own, own.localise(w)

    # ── what held-out rows are judged by ──

    def targets(self, client: Client) -> Array:
        """What the outputs are compared with: rows of class probabilities for classes."""
        return self.loss.targets(client) if isinstance(self.loss, Softmax) else client.y

    def predictor(self, client: Client, w: Array) -> Array:
        """What the network puts out for each row, in the shape of the targets and in float64: a tensor."""
        own, w = self._inside(client, w)
        net, torch = self._module(own), torch_library()
        with torch.no_grad():
            blocks = [own.design.sample[start : start + ROWS, :] for start in range(0, own.n_samples, ROWS)]
            eta = torch.cat([net(w, block) for block in blocks]).double()
        eta = eta[:, 0] if own.y.ndim == 1 else eta
        return eta if own.offset is None else eta + own.offset

    def outputs(self, client: Client) -> tuple[int, ...]:
        """The shape of one prediction: () for a number, (k,) for k of them."""
        return (self.loss.classes,) if isinstance(self.loss, Softmax) else tuple(client.y.shape[1:])

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """ℓ of each row. Of the softmax loss the cross-entropy alone: its other term is there for linear weights."""
        loss = self.loss.error if isinstance(self.loss, Softmax) else self.loss.pointwise
        return loss(xp, eta, y)

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """What a row that was not learned from is judged by, as ℓ has it."""
        return self.loss.error(xp, eta, y)

    def hits(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        """1 for each row whose class is predicted, 0 for the others; None where there are no classes."""
        return self.loss.hits(xp, eta, y)

    # ── in parts ──

    def _module(self, client: Client) -> FlatModule:
        return flat_module(self.architecture, client.design.shape[1], self._outputs(tuple(client.y.shape[1:])))

    def _over_rows(self, own: Client, function: Callable[[slice], Array]) -> Array:
        """The sum of a function of blocks of rows; clients in a stack are small and have one block."""
        n = own.design.shape[0]
        if isinstance(own, StandIn) or n <= ROWS:
            return function(slice(0, n))
        return sum(function(slice(start, start + ROWS)) for start in range(0, n, ROWS))

    def _total(self, own: Client, w: Array, part: slice, salt: Array | None = None) -> Array:
        """Σ s_i ℓ_i over some rows, augmented where there is a salt."""
        s, offset, X = own.sample_weight, own.offset, own.design.sample[part, :]
        if salt is not None and self.augmentation is not None:
            X = self.augmentation.changed(X, salt, part.start, self.architecture)
        eta = self._module(own)(w, X)
        losses = self._losses(own, eta, own.y[part, ...], None if offset is None else offset[part])
        return (losses if s is None else s[part] * losses).sum()

    def _losses(self, own: Client, eta: Array, y: Array, offset: Array | None) -> Array:
        """ℓ of each row."""
        if y.ndim == 1:
            eta = eta[:, 0] if offset is None else eta[:, 0] + offset
        return self.pointwise(own.xp, eta, y)

    # ── both sides ──

    @property
    def error_name(self) -> str:
        """What `error` is called."""
        return self.loss.error_name

    @property
    def classifies(self) -> bool:
        """Whether the targets are classes."""
        return self.loss.classifies

    @property
    def classes(self) -> int | None:
        """How many classes the targets have; None where they have none."""
        own = self.loss
        return own.classes if isinstance(own, Softmax) else 2 if own.classifies else None

    @property
    def sent_as(self) -> str:
        """The type of numbers in which weights travel."""
        return self.dtype

    @property
    def by_value_alone(self) -> bool:
        """Whether runs are measured by value alone."""
        return not self.measures_gradient

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """One axis, for all parameters."""
        return (flat_module(self.architecture, features, self._outputs(outputs)).count,)

    def start_point(self, features: int, outputs: tuple[int, ...]) -> Array:
        """As torch initialises the module, from seed 0."""
        return self.seeded_start_point(features, outputs, 0)

    def seeded_start_point(self, features: int, outputs: tuple[int, ...], seed: int) -> Array:
        """As torch initialises the module, from the seed of the run; at zero all hidden units would stay alike."""
        w = initial_weights(self.architecture, features, self._outputs(outputs), seed)
        return w.astype(np.float64)

    def penalty(self, w: Array) -> float:
        """(l2/2) ‖w‖²."""
        return float(self._penalty(w))

    def _penalty(self, w: Array) -> Array | float:
        return 0.5 * self.l2 * namespace(w).sum(w * w) if self.l2 else 0.0

    def penalty_gradient(self, w: Array) -> Array:
        """l2 w."""
        return self.l2 * w

    def model(self, w: Array) -> NetworkModel:
        """The network with these weights."""
        with np.errstate(over="ignore"):  # of a run that diverged
            own = np.asarray(w).astype(self.dtype)
        return NetworkModel(own, self.architecture, self.loss.link, output_count=self.output_count, device=self.device)

    @property
    def output_count(self) -> int | None:
        """How many numbers the network puts out for a row, where ℓ says so; None where the targets do."""
        return self.loss.classes if isinstance(self.loss, Softmax) else None

    def _outputs(self, outputs: tuple[int, ...]) -> int:
        return self.output_count or prod(outputs)
