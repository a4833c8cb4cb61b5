"""scripts/claims, with a command that pretends to run experiments."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = """root="{root}"; bin="$root/bin"
say() {{ printf '%s\\n' "$*" >&2; }}
environment() {{ :; }}
"""
# fedsolve reproduce NAME --save FOLDER --output FOLDER
FEDSOLVE = """#!/usr/bin/env bash
[[ "$2" == --claims ]] && exit 0
echo "begin $2" >>order
[[ "$2" == slow* ]] && sleep 1
[[ "$2" == endless ]] && exec sleep 600
[[ "$2" == wrong ]] && exit 2
[[ "$2" == error ]] && exit 1
touch "$4/$2.json"
echo "end $2" >>order
[[ "$2" == missed ]] && exit 1
exit 0
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="needs bash")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("scripts", "bin", "fedsolve/reproduce/saved"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "claims", tmp_path / "scripts")
    (tmp_path / "scripts" / "_environment").write_text(ENVIRONMENT.format(root=tmp_path))
    (tmp_path / "bin" / "fedsolve").write_text(FEDSOLVE)
    (tmp_path / "bin" / "fedsolve").chmod(0o755)
    return tmp_path


def claims(copy: Path, *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([copy / "scripts" / "claims", *names], capture_output=True, text=True, timeout=60)


def test_a_claim_that_does_not_hold_is_no_failure(copy: Path) -> None:
    found = claims(copy, "missed", "held")
    assert found.returncode == 0
    assert "missed is saved" in found.stderr


def test_failures_are_named_at_the_end_and_the_others_run(copy: Path) -> None:
    """An error has the exit status of a missed claim, but nothing is saved."""
    (copy / "fedsolve/reproduce/saved/error.json").touch()  # of an earlier run
    found = claims(copy, "wrong", "error", "held", "missed")
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1] == "failed: error wrong"
    assert (copy / "fedsolve/reproduce/saved/held.json").is_file()


def test_two_run_at_a_time(copy: Path) -> None:
    assert claims(copy, "slow1", "slow2", "slow3").returncode == 0
    order = (copy / "order").read_text().splitlines()
    assert sorted(order[:2]) == ["begin slow1", "begin slow2"]
    assert order.index("begin slow3") > 2


def test_what_runs_ends_with_it(copy: Path) -> None:
    with subprocess.Popen([copy / "scripts" / "claims", "endless", "endless2"], stderr=subprocess.PIPE) as process:
        while not (copy / "order").is_file():
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=20) == 130
    assert not (copy / "fedsolve/reproduce/saved/endless.json").exists()
