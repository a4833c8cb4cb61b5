"""What keeps a daemon from starting, without NVFlare: a port or a kit that is in use."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fedsolve.deploy import ports
from fedsolve.deploy.kit_lock import LOCK, only_one
from fedsolve.deploy.kits import Kind, Kit
from fedsolve.errors import ConfigError


def a_kit(folder: Path, port: int = 8002, kind: Kind = "server") -> Kit:
    return Kit(folder, kind, "arden", "arden", "hearts", "127.0.0.1", port)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_a_port_in_use_is_said(address: str, shared: bool, tmp_path: Path) -> None:
    """Also one that its owner would share, as NVFlare's servers do."""
    with socket.socket() as end:
        if shared:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        end.bind((address, 0))
        end.listen(1)
        port = end.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of this server is in use"):
            ports.check_free(a_kit(tmp_path, port))
    ports.check_free(a_kit(tmp_path, port))


def test_a_kit_is_used_by_one_process_which_is_named(tmp_path: Path) -> None:
    kit = a_kit(tmp_path, kind="site")
    said = rf"`fedsolve site` runs with it already, as process {os.getpid()}; end that one first"
    with only_one(kit), pytest.raises(ConfigError, match=said), only_one(kit):
        pass
    assert not (tmp_path / LOCK).exists()
    with only_one(kit):
        pass


def test_a_kit_is_free_when_its_process_was_killed(tmp_path: Path) -> None:
    kit = a_kit(tmp_path, kind="site")
    holding = (
        "import sys, time; from pathlib import Path\n"
        "from tests.deploy.test_starting import a_kit, only_one\n"
        f"with only_one(a_kit(Path({str(tmp_path)!r}), kind='site')): print('held', flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ConfigError, match=f"as process {process.pid}"), only_one(kit):
            pass
        process.kill()
    with only_one(kit):
        pass
