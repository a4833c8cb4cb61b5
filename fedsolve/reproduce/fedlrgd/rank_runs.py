"""Trains the networks of a rank experiment and measures their gradients; with a folder, what is finished is kept."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from fedsolve.diagnose import LossGradients, gradient_ranks
from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.report.json_values import to_json
from fedsolve.reproduce.fedlrgd.networks import CLASSES, Images, Trained, Training, images, train
from fedsolve.reproduce.fedlrgd.rank_settings import COORDINATES, SMALLEST, Setting
from fedsolve.typing import Array
from fedsolve.wire.storage import write_atomically

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Ranks:
    """The ranks of one setting with one seed.

    ranks           of each slice
    zeros           slices that were left out because they are zero
    train, test     accuracies of the network
    seconds         of gradients and singular values, without training
    """

    ranks: tuple[int, ...]
    zeros: int
    train: float
    test: float
    seconds: float

    def at_most(self, rank: int) -> float:
        return float(np.mean(np.array(self.ranks) <= rank))


@dataclass(eq=False)
class Runs:
    """Trains each network once, whatever settings share it.

    device   where networks are trained and differentiated
    folder   where finished settings are kept; None: nowhere
    few      whether to take few of the images, to try the experiment
    """

    device: Device = "cpu"
    folder: Path | None = None
    few: bool = False
    _last: tuple[tuple[Training, int], Trained] | None = field(default=None, init=False)

    def find(self, name: str, seed: int) -> Ranks | None:
        """What an earlier run kept. Raises DataError for a file that holds something else."""
        path = self._path(f"{name}-seed-{seed}.json")
        if path is None or not path.is_file():
            return None
        try:
            plain = json.loads(path.read_text())
            return Ranks(**(plain | {"ranks": tuple(map(int, plain["ranks"]))}))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} is no part of this experiment ({error}); remove it to run it again") from None

    def measured(self, name: str, setting: Setting, seed: int) -> Ranks:
        """The ranks of a setting, computed unless they were kept."""
        known = self.find(name, seed)
        if known is not None:
            return known
        what = setting.training
        given = images(what.data)
        if self.few:
            given = Images(given.X[:2000], given.y[:2000], given.X_test[:500], given.y_test[:500])
        trained = self._trained(what, given, seed)
        began = time.perf_counter()
        found = gradient_ranks(
            self._gradients(what, given, trained.w),
            setting.k,
            coordinates=COORDINATES,
            smallest=0.0 if setting.every else SMALLEST,
            scale=None if setting.wider == 1.0 else setting.wider * float(np.abs(trained.w).mean(dtype=np.float64)),
            equal_samples=setting.equal,
            seed=seed,
        )
        seconds = time.perf_counter() - began
        made = Ranks(tuple(found.ranks.tolist()), found.zeros, trained.train_accuracy, trained.test_accuracy, seconds)
        path = self._path(f"{name}-seed-{seed}.json")
        if path is not None:
            write_atomically(path, (to_json(asdict(made)) + "\n").encode())
        return made

    def _gradients(self, what: Training, given: Images, w: Array) -> LossGradients:
        loss = Network(what.architecture, Softmax(classes=CLASSES), device=self.device)
        return LossGradients(loss, Client("test images", given.X_test, given.y_test.astype(np.float64)), w)

    def _trained(self, what: Training, given: Images, seed: int) -> Trained:
        """The network of one seed; the last one is at hand, since settings that share it follow each other."""
        if self._last is None or self._last[0] != (what, seed):
            self._last = (what, seed), train(what, given, seed, self.device)
        return self._last[1]

    def _path(self, name: str) -> Path | None:
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name
