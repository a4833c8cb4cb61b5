"""Processes that a kit has left behind, and those that do not end; and systems on which nobody could tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedsolve.cli.main import app
from fedsolve.deploy import daemon, processes
from fedsolve.deploy.processes import descendants, end_all, end_descendants, leftovers, reap
from fedsolve.errors import ConfigError
from tests.deploy.federation import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="servers and sites run on Linux")


def engine(kit: Path, what: str = "nvflare.private.fed.app.client.worker_process") -> subprocess.Popen[bytes]:
    """A process with the command of NVFlare's, and one below it in a session of its own."""
    inner = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    outer = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {inner!r}], start_new_session=True)\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", outer, what, "-m", str(kit)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_what_a_kit_has_left_behind_is_found_and_ended_also_when_it_is_stopped(tmp_path: Path) -> None:
    mine, other = engine(tmp_path / "arden"), engine(tmp_path / "arden2")
    harmless = engine(tmp_path / "arden", "less")  # somebody reads the log, say
    try:
        found = leftovers(tmp_path / "arden")
        assert found == sorted([mine.pid, *descendants(mine.pid)])
        assert len(found) == 2
        os.kill(mine.pid, signal.SIGSTOP)
        assert end_all(found) == []
        assert leftovers(tmp_path / "arden") == []
        assert other.poll() is None
        assert harmless.poll() is None
    finally:
        for one in (mine, other, harmless):
            end_descendants(one.pid)
            one.kill()
            one.wait()


def test_a_process_that_does_not_end_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for a disk that does not answer: the system itself cannot end it."""
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        assert end_all([process.pid]) == [process.pid]
        monkeypatch.undo()
        process.kill()


def test_adopted_processes_are_forgotten_and_the_daemon_is_not() -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        "from fedsolve.deploy.processes import processes, prctl, reap\n"
        "prctl(36, 1)\n"
        "inner = [sys.executable, '-c', 'pass']\n"
        "outer = f'import subprocess; subprocess.Popen({inner!r})'\n"
        "daemon = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "subprocess.Popen([sys.executable, '-c', outer]).wait()\n"
        "mine = lambda: {pid for pid, (parent, _) in processes().items() if parent == os.getpid()}\n"
        "while mine() != {daemon.pid}: reap(daemon.pid); time.sleep(0.05)\n"
        "daemon.kill(); reap(daemon.pid); time.sleep(0.5); reap(daemon.pid); print(daemon.wait())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout == f"{-signal.SIGKILL}\n", done.stderr


def test_a_daemon_ends_with_who_watches_it_also_when_it_is_stopped() -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "from functools import partial\n"
        "from fedsolve.deploy.daemon import _with_parent\n"
        "given = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "daemon = subprocess.Popen(given, preexec_fn=partial(_with_parent, os.getpid()))\n"
        "print(daemon.pid, flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as watching:
        assert watching.stdout is not None
        pid = int(watching.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        watching.kill()
    wait_until(lambda: not processes.processes().get(pid, (0, False))[1], "the daemon to end")


@pytest.mark.parametrize("late", [False, True])
def test_the_process_of_a_job_ends_with_its_daemon(late: bool) -> None:
    """Also where the daemon has gone before the process looks for it."""
    job = "import sys, time; from fedsolve.deploy.orphans import end_with_daemon; sys.stdin.readline(); "
    job += "end_with_daemon(); time.sleep(600)"
    code = (
        "import subprocess, sys, time\n"
        "from fedsolve.deploy.orphans import name_daemon\n"
        "name_daemon()\n"
        f"job = subprocess.Popen([sys.executable, '-c', {job!r}])\n"
        "print(job.pid, flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    given = [sys.executable, "-c", code]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdin is not None
        pid = int(daemon.stdout.readline())
        if late:
            daemon.kill()
            daemon.wait()
        daemon.stdin.write(b"look\n")
        daemon.stdin.flush()
        if not late:
            time.sleep(2)
            assert processes.processes().get(pid, (0, False))[1]
            daemon.kill()
    wait_until(lambda: not processes.processes().get(pid, (0, False))[1], "the process of the job to end")


@pytest.mark.parametrize("command", [["server", "kit"], ["site", "kit", "site.toml"]])
def test_other_systems_are_refused(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon.sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="run on Linux alone"):
        daemon.check_platform()
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 2
    assert "`fedsolve server` and `fedsolve site` run on Linux alone" in said.stderr


def test_reaping_without_children_is_nothing() -> None:
    reap(0)
