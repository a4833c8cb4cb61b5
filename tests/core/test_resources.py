"""What will not fit into memory or into a link is rejected before anything large is computed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve import diagnose
from fedsolve.errors import ConfigError, LinkExceeded
from fedsolve.loop import preflight
from fedsolve.loop.resources import available_memory

LOGISTIC, SQUARED = fs.Logistic(l2=1e-3), fs.Squared(l2=1e-3)
GB = 10**9


def clients(features: int, link: fs.Link | None = None) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    X = sp.random_array((60, features), density=5 / features, rng=rng, format="csr")
    y = (np.arange(60) % 3 == 0).astype(float)
    return [fs.Client(f"c{j}", X[j::3], y[j::3], link=link) for j in range(3)]


@pytest.fixture
def eight_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda: 8 * GB)


DENSE = {
    "Newton": fs.Newton(LOGISTIC),
    "Newton, kept Hessians": fs.Newton(SQUARED),
    "FedNL": fs.FedNL(LOGISTIC),
    "SHED": fs.SHED(LOGISTIC),
    "SHEDLeastSquares": fs.SHEDLeastSquares(SQUARED),
    "MontDec": fs.MontDec(LOGISTIC),
    "FedNewton": fs.FedNewton(LOGISTIC),
    "FedNewtonCG": fs.FedNewtonCG(LOGISTIC, preconditioner="local inverse"),
    "GIANT": fs.GIANT(LOGISTIC),
    "DKRR": fs.DKRR(SQUARED),
    "FedProx": fs.FedProx(SQUARED),
}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("features", [20_000, 200_000])
@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_matrices_that_do_not_fit(name: str, features: int, transport: str, eight_gigabytes: None) -> None:
    made = clients(features)
    with pytest.raises(ConfigError) as caught:
        fs.run(DENSE[name], made, rounds=2, transport=transport)
    said = str(caught.value)
    assert said.startswith(f"{type(DENSE[name]).__name__} would need about ")
    assert f"{features:,} weights, with Hessians of order {features:,}" in said
    assert "8 GB are available; use FedNewtonCG(loss, preconditioner=" in said
    assert all(not client.counts for client in made)


@pytest.mark.parametrize(
    "algorithm",
    [
        fs.FedNewtonCG(LOGISTIC),
        fs.FedNewtonCG(SQUARED),
        fs.FedNewtonCG(fs.Softmax(l2=1e-3, classes=3)),
        fs.FedAvg(LOGISTIC),
        fs.Scaffold(fs.Softmax(l2=1e-3, classes=3)),
        fs.AGD(LOGISTIC),
        fs.GIANT(LOGISTIC, fs.CG(3)),
        fs.GIANT(LOGISTIC, fs.Richardson(3)),
    ],
    ids=lambda one: f"{type(one).__name__} {type(one.loss).__name__}",
)
def test_what_takes_vectors_only_runs(algorithm: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda: GB)
    run = fs.run(algorithm, clients(50_000), rounds=2)  # type: ignore[arg-type]
    assert run.history[-1].value < run.history[0].value


def test_the_size_is_that_after_the_feature_map(eight_gigabytes: None) -> None:
    mapped = fs.Logistic(l2=1e-3, features=fs.RandomFourier(30_000, gamma=0.1))
    with pytest.raises(ConfigError, match="order 30,000"):
        fs.run(fs.Newton(mapped), clients(10))


def test_a_model_that_does_not_fit_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda: GB)
    with pytest.raises(ConfigError, match=r"20,000,000 weights \(1.28 GB at the server.*use fewer features or classes"):
        fs.run(fs.FedNewtonCG(fs.Softmax(l2=1e-3, classes=1000)), clients(20_000))


def test_small_runs_do_not_ask_and_an_unknown_amount_rejects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked() -> int:
        raise AssertionError

    monkeypatch.setattr(preflight, "available_memory", unasked)
    fs.run(fs.Newton(LOGISTIC), clients(50), rounds=2)
    monkeypatch.setattr(preflight, "available_memory", lambda: None)
    monkeypatch.setattr(preflight, "SMALL", 0)
    fs.run(fs.Newton(LOGISTIC), clients(50), rounds=2)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED])
def test_cross_validation_says_so_too(loss: fs.losses.LinearLoss, eight_gigabytes: None) -> None:
    with pytest.raises(ConfigError, match=r"^cross-validation would need about .* use fewer features, or runs of Fed"):
        fs.cross_validate([loss], clients(20_000), folds=3)


def test_so_does_a_diagnosis(eight_gigabytes: None) -> None:
    with pytest.raises(ConfigError, match=r"diagnosis \(contraction\) would need about .*heterogeneity"):
        diagnose.contraction(LOGISTIC, clients(20_000))


def test_a_limit_on_the_address_space_is_seen() -> None:
    """In a process of its own: a run that would be killed, or end in a MemoryError, is rejected in one sentence."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
import numpy as np, scipy.sparse as sp, fedsolve as fs
X = sp.random_array((60, 12_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
clients = [fs.Client(f"c{j}", X[j::2], np.arange(30) % 2.0) for j in range(2)]
try:
    fs.run(fs.Newton(fs.Logistic(l2=1e-3)), clients)
except fs.errors.ConfigError as error:
    print(error)
print(fs.run(fs.FedNewtonCG(fs.Logistic(l2=1e-3)), clients).converged)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.startswith("Newton would need about 4.61 GB")
    assert out.endswith("True\n")


# ── links ──


@pytest.mark.parametrize(
    ("algorithm", "models"),
    [
        (fs.FedNewtonCG(LOGISTIC), 3),
        (fs.FedNewtonCG(SQUARED), 2),
        (fs.FedNewtonCG(LOGISTIC, preconditioner="diagonal"), 3),
        (fs.FedNewtonCG(LOGISTIC, preconditioner="none"), 2),
        (fs.FedNewton(LOGISTIC), 2),
        (fs.GIANT(LOGISTIC), 2),
        (fs.Scaffold(LOGISTIC), 2),
        (fs.AGD(LOGISTIC), 1),
        (fs.FedAvg(LOGISTIC), 1),
    ],
)
def test_a_link_too_narrow_for_some_round_is_known_before_the_first(algorithm: object, models: int) -> None:
    """FedNewtonCG sends the gradient only in rounds that end a Newton step: it would have failed in the middle."""
    p = 500
    with pytest.raises(LinkExceeded, match=rf"sends more than {8 * models * p:,} bytes in a round") as caught:
        fs.run(algorithm, clients(p, fs.Link(8 * models * p - 1)))  # type: ignore[arg-type]
    assert caught.value.client == "c0"
    fs.run(algorithm, clients(p, fs.Link(8 * models * p + 1000)), rounds=6)  # type: ignore[arg-type]


# ── what is available ──


def system(tmp_path: Path, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "proc", tmp_path / "cgroup"


MEMINFO = {"proc/meminfo": "MemTotal:  999 kB\nMemAvailable:    8000 kB\n", "proc/self/status": "VmSize:  10 kB\n"}


def test_what_the_machine_has(tmp_path: Path) -> None:
    assert available_memory(*system(tmp_path, MEMINFO)) == 8000 * 1024


def test_what_its_control_group_leaves(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/jobs/one\n",
        "cgroup/jobs/one/memory.max": "max\n",
        "cgroup/jobs/one/memory.current": "7\n",
        "cgroup/jobs/memory.max": "5000000\n",
        "cgroup/jobs/memory.current": "2000000\n",
        "cgroup/jobs/memory.stat": "anon 5\ninactive_file 400000\nactive_file 9\n",
    }
    assert available_memory(*system(tmp_path, MEMINFO | files)) == 3_400_000


def test_what_an_older_control_group_leaves(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/\n3:memory:/docker/abc\n",
        "cgroup/memory/memory.limit_in_bytes": "6000000\n",  # inside a container the path is not there
        "cgroup/memory/memory.usage_in_bytes": "1000000\n",
    }
    assert available_memory(*system(tmp_path, MEMINFO | files)) == 5_000_000


def test_this_machine_says_something() -> None:
    found = available_memory()
    assert found is None or 0 < found < 2**60
