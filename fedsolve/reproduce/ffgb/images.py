"""The images that networks are trained on: the clients' rows, the test rows, and the server's unlabelled ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsolve.data import Homogeneity, load, split_indices
from fedsolve.federation.client import Client
from fedsolve.networks import CNN, MLP, Architecture
from fedsolve.typing import Array

SPLIT = 0  # the seed by which EMNIST is divided into training and test rows


@dataclass(frozen=True, eq=False)
class Images:
    """One problem.

    X, y            the rows that are divided among the clients, pixels of an image in the order channel, row, column
    X_test, y_test  what accuracy is measured on
    public          the server's rows, without labels
    architecture    of the networks
    augmented       whether batches of the clients are flipped and cropped
    about           what it is, in a sentence
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    public: Array
    architecture: Architecture
    augmented: bool
    about: str

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def clients(self, s: float, count: int, seed: int, device: str = "cpu") -> list[Client]:
        """The rows divided among so many clients by the degree of homogeneity s (Shen et al., section 6)."""
        parts = split_indices(self.y, Homogeneity(s), clients=count, seed=seed)
        width = len(str(count - 1))
        return [
            Client(f"client-{place:0{width}}", tensor(self.X[part], device), self.y[part].astype(np.float64))
            for place, part in enumerate(parts)
        ]

    def server(self, device: str = "cpu") -> Client:
        """The server's rows."""
        return Client("server", tensor(self.public, device), None)


def tensor(X: Array, device: str) -> Array:
    """Rows as a torch tensor, so that clients can train together."""
    import torch

    return torch.as_tensor(np.ascontiguousarray(X), device=device)


def small_mnist(seed: int) -> Images:
    """5,000 MNIST digits and 5,000 others without labels, drawn by the seed; 14 × 14 pixels, each the mean of four."""
    data = load("mnist")
    assert data.X_test is not None
    assert data.y_test is not None
    order = np.random.default_rng(seed).permutation(data.n_samples)
    rows, public = order[:5000], order[5000:10000]
    return Images(
        _halved(data.X[rows]),
        data.y[rows],
        _halved(data.X_test),
        data.y_test,
        _halved(data.X[public]),
        MLP((64,)),
        False,
        "5,000 MNIST digits of 14 × 14 pixels; 5,000 others without labels at the server; MLP 196-64-10; 10,000 test "
        "rows",
    )


def _halved(X: Array) -> Array:
    found: Array = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return found


def emnist_digits(seed: int) -> Images:
    """EMNIST-D (EMNIST-L): digits to learn, capitals at the server."""
    X, y = _digits()
    train, test = _divided(len(y), 2000)
    about = (
        f"{len(train):,} of 10,000 EMNIST digits, 2,000 to test (split by seed {SPLIT}); {{}} capitals at the server"
    )
    public = _capitals()[0]
    return Images(X[train], y[train], X[test], y[test], public, EMNIST, False, about.format(f"{len(public):,}"))


def emnist_letters(seed: int) -> Images:
    """EMNIST-L (EMNIST-D): capitals, which stand in for EMNIST's letters, to learn; digits at the server."""
    X, y = _capitals()
    train, test = _divided(len(y), 1000)
    public = _digits()[0]
    about = (
        f"{len(train):,} of {len(y):,} distinct NIST capitals, which stand in for EMNIST's letters, 1,000 to test "
        f"(split by seed {SPLIT}); {len(public):,} EMNIST digits at the server"
    )
    return Images(X[train], y[train], X[test], y[test], public, EMNIST, False, about)


EMNIST = CNN((1, 28, 28), hidden=(120, 84))


def _digits() -> tuple[Array, Array]:
    data = load("emnist_digits")  # upright, as the capitals are
    return data.X, data.y


def _capitals() -> tuple[Array, Array]:
    """All capitals, each image once: some come twice, and would be learned and tested alike."""
    data = load("nist_letters")
    assert data.X_test is not None
    assert data.y_test is not None
    X, first = np.unique(np.concatenate([data.X, data.X_test]), axis=0, return_index=True)
    return X, np.concatenate([data.y, data.y_test])[first]


def _divided(rows: int, test: int) -> tuple[Array, Array]:
    order = np.random.default_rng(SPLIT).permutation(rows)
    return np.sort(order[test:]), np.sort(order[:test])


def cifar10(seed: int) -> Images:
    """CIFAR-10 (CIFAR-100)."""
    return _cifar("cifar10", "cifar100")


def cifar100(seed: int) -> Images:
    """CIFAR-100 (CIFAR-10)."""
    return _cifar("cifar100", "cifar10")


def _cifar(name: str, other: str) -> Images:
    data, public = load(name), load(other)
    assert data.X_test is not None
    assert data.y_test is not None
    X, X_test, rows = (_channels_first(one) for one in (data.X, data.X_test, public.X))
    learned = {image.tobytes() for image in X}
    fresh = np.array([image.tobytes() not in learned for image in X_test])  # CIFAR has a few images twice
    about = (
        f"{len(X):,} images of {data.name} and {fresh.sum():,} to test, subsets; {len(rows):,} images of {public.name} "
        "at the server; clients' and server's batches are flipped and cropped"
    )
    return Images(X, data.y, X_test[fresh], data.y_test[fresh], rows, CNN((3, 32, 32)), True, about)


def _channels_first(X: Array) -> Array:
    """Channel, row, column as convolutions take them, and pixels about 0: what is cropped is padded with grey."""
    found: Array = (X.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(-1, 3072) - 0.5) / 0.25
    return found


FULL: dict[str, Callable[[int], Images]] = {
    "emnist-d": emnist_digits,
    "cifar10": cifar10,
    "emnist-l": emnist_letters,
    "cifar100": cifar100,
}
