"""Coordinates of gradients by products of layers' inputs and derivatives, beside k² passes of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.diagnose import LossGradients, ModuleGradients
from fedsolve.diagnose.dense_partials import is_dense
from fedsolve.diagnose.gradient_slices import Slices, blocks
from fedsolve.typing import Array
from tests.extras import optional

RNG = np.random.default_rng(11)
ROWS = RNG.standard_normal((20, 6))
LABELS = RNG.integers(0, 3, 20)
WHAT = Slices(5, scale=0.1, seed=3)


def by_coordinate(source: Any, p: int) -> Array:
    """The tensor, (k, k, p)."""
    columns, slices = next(iter(blocks(source, WHAT)))
    assert sorted(columns.tolist()) == list(range(p))
    return slices[np.argsort(columns)].transpose(1, 2, 0)


def by_autograd(module: Any, source: Any, X: Array) -> Array:
    torch = optional("torch")
    learned = [one for one in module.parameters() if one.requires_grad]
    kept = torch.nn.utils.parameters_to_vector(learned).detach().clone()
    found, w = np.empty((WHAT.k, WHAT.k, len(kept))), source.w  # which are the module's
    for j in range(WHAT.k):
        torch.nn.utils.vector_to_parameters(torch.tensor(WHAT.perturbed(w, 0.1, j)), learned)
        for i, row in enumerate(WHAT.samples(source)):
            value = torch.nn.functional.cross_entropy(
                module(torch.tensor(X[row : row + 1])), torch.tensor(LABELS[row : row + 1])
            )
            parts = torch.autograd.grad(value, learned)
            found[i, j] = np.concatenate([one.numpy().reshape(-1) for one in parts])
    torch.nn.utils.vector_to_parameters(kept, learned)
    return found


def layers() -> list[Any]:
    torch = optional("torch")
    torch.manual_seed(0)
    return [torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5, bias=False), torch.nn.Linear(5, 3)]


def frozen() -> Any:
    made = optional("torch").nn.Sequential(*layers()).double()
    made[0].bias.requires_grad_(False)
    made[2].weight.requires_grad_(False)
    return made


def hooked() -> Any:
    made = optional("torch").nn.Sequential(*layers()).double()
    made[0].register_forward_hook(lambda layer, given, found: 2 * found)
    return made


def normed() -> Any:
    torch = optional("torch")
    made = torch.nn.Sequential(*layers()).double()
    torch.nn.utils.parametrizations.weight_norm(made[0])
    return made


def used_twice() -> Any:
    first, tanh, middle, last = layers()
    return optional("torch").nn.Sequential(first, tanh, middle, tanh, middle, last).double()


@pytest.mark.parametrize(
    ("made", "dense"),
    [
        (lambda: optional("torch").nn.Sequential(*layers()).double(), True),
        (frozen, True),
        (hooked, False),
        (normed, False),
        (used_twice, False),
        (lambda: optional("torch").nn.Sequential(*layers(), optional("torch").nn.Identity()).double(), False),
    ],
    ids=["plain", "frozen parameters", "a hook", "normed weights", "a layer twice", "another module"],
)
def test_modules_equal_single_passes(made: Callable[[], Any], dense: bool) -> None:
    torch = optional("torch")
    module = made()
    assert is_dense(module) is dense
    source = ModuleGradients(module, torch.nn.functional.cross_entropy, ROWS, LABELS)
    expected = by_autograd(module, source, ROWS)
    assert np.abs(by_coordinate(source, expected.shape[2]) - expected).max() <= 1e-13 * np.abs(expected).max()


def test_inputs_with_more_axes_are_not_rows() -> None:
    """A layer that is applied to several vectors of a sample adds up their parts."""
    torch = optional("torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 3)).double()

    def loss(outputs: Any, target: Any) -> Any:
        return torch.nn.functional.cross_entropy(outputs.mean(dim=1), target)

    sequences = RNG.standard_normal((20, 4, 6))
    source = ModuleGradients(module, loss, sequences, LABELS)
    flat = ModuleGradients(module, torch.nn.functional.cross_entropy, sequences.mean(axis=1), LABELS)
    np.testing.assert_allclose(by_coordinate(source, 21), by_coordinate(flat, 21), rtol=0, atol=1e-14)


def test_networks_with_convolutions() -> None:
    """They have all gradients computed, as the loss itself does."""
    optional("torch")
    loss = fs.Network(fs.CNN((1, 6, 6), ((2, 3),), (4,)), fs.Softmax(classes=3), dtype="float64")
    images = fs.Client("c", RNG.random((20, 36)), LABELS.astype(float))
    source = LossGradients(loss, images, loss.start_point(36, ()))
    part = fs.Client("c", images.X[WHAT.samples(source)], images.y[WHAT.samples(source)])
    found = by_coordinate(source, source.w.size)
    for j in range(WHAT.k):
        expected = loss.sample_gradients(part, WHAT.perturbed(source.w, 0.1, j))
        assert np.abs(found[:, j] - expected).max() <= 1e-13 * np.abs(expected).max()
