"""The example of four hospitals, from one command to the printed comparison, and what it leaves: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedsolve.deploy.processes import descendants
from tests.deploy.federation import ENVIRONMENT, command_line, wait_until
from tests.extras import optional

optional("nvflare")
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples" / "hospitals" / "run"


def start(keep: Path) -> subprocess.Popen[str]:
    given = [str(SCRIPT), "--keep", str(keep)]
    environment = {**ENVIRONMENT, "PYTHON": sys.executable}
    return subprocess.Popen(
        given, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def test_three_algorithms_between_four_hospitals(tmp_path: Path) -> None:
    done = start(tmp_path)
    said, _ = done.communicate(timeout=400)
    assert done.returncode == 0, said
    for algorithm in ("Newton", "FedNewtonCG", "SHED"):
        assert f"\n{algorithm}: converged" in said
        assert (tmp_path / "runs" / algorithm / "report.html").is_file()
    assert said.count("bit-equal to the run in one process: yes") == 3
    assert said.count("line by line: equal") == 3
    assert "All as it should be." in said


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    done = start(tmp_path)
    try:
        wait_until(lambda: sum("client_train" in command_line(pid) for pid in descendants(done.pid)) == 4, "the sites")
        below = descendants(done.pid)
        os.killpg(done.pid, signal.SIGINT)
        done.communicate(timeout=60)
    finally:
        done.kill()
    assert done.returncode == 130
    left = [command_line(pid) for pid in below if command_line(pid)]
    assert not left
