"""Networks in run files: trained, judged, saved, predicted with, and started from."""

from __future__ import annotations

import json
from pathlib import Path

import fedsolve as fs
from fedsolve.runfiles import registry
from tests.cli.conftest import DATA, Command
from tests.extras import optional

optional("torch")

RUN_FILE = f"""{DATA}
[loss]
name = "Network"
l2 = 0.001
architecture = {{ name = "MLP", hidden = [16], activation = "tanh" }}
loss = {{ name = "Logistic" }}

[algorithm]
name = "FedAvg"
local = {{ name = "Adam", epochs = 1, batch_size = 16, step_size = 0.01, clip = 5.0 }}

[evaluation]
hold_out = 0.3

[run]
rounds = 5
"""


def test_a_network_from_a_run_file(command: Command, tmp_path: Path) -> None:
    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN_FILE)
    said = command("run", str(file), "--output", str(out), "--json")
    assert said.status == 0
    found = json.loads(said.out)
    assert found["gradient_norm"] is None
    assert found["held_out"]["accuracy"] > 0.9
    assert found["held_out"]["auc"] > 0.95
    model = fs.load_model(out / "model.npz")
    assert isinstance(model, fs.NetworkModel)
    assert model.architecture == fs.MLP((16,), "tanh")
    assert "A network" in (out / "report.html").read_text()
    data = fs.data.load("breast_cancer")
    assert model.score(data.X, data.y) > 0.9


def test_tables_of_networks() -> None:
    plain = {
        "name": "Network",
        "architecture": {"name": "CNN", "shape": [1, 28, 28], "convolutions": [[8, 5], [8, 5]], "hidden": [120, 84]},
        "loss": {"name": "Softmax", "classes": 26},
        "augmentation": {"name": "FlipAndCrop", "padding": 2, "flip": False},
        "device": "cuda",
    }
    expected = fs.Network(
        fs.CNN((1, 28, 28), ((8, 5), (8, 5)), (120, 84)),
        fs.Softmax(classes=26),
        device="cuda",
        augmentation=fs.FlipAndCrop(2, flip=False),
    )
    assert registry.build("loss", plain) == expected
