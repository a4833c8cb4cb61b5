"""A run that is killed at any moment goes on to the very bits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are tried by forking")
@pytest.mark.parametrize(("kills", "seed"), [(40, 1), pytest.param(400, 2, marks=pytest.mark.slow)])
def test_runs_that_are_killed_go_on_to_the_very_bits(tmp_path: Path, kills: int, seed: int) -> None:
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack.killed", str(tmp_path), str(kills), str(seed)],
        cwd=ROOT,
        env={**os.environ, **single},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) kills, (\d+) of them after a save", done.stdout)
    assert found is not None
    assert int(found[1]) >= kills
    assert int(found[2]) > kills // 3
