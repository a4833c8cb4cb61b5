"""Why a server cannot be reached: each reason has a sentence of its own."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from fedsolve.deploy import knocking
from fedsolve.deploy.kits import Kit, open_kit, soon_expired
from fedsolve.deploy.knocking import check_trusted, knock
from fedsolve.errors import ConfigError
from tests.extras import optional

optional("nvflare")  # which brings the library that makes certificates

from tests.deploy.certificates import Authority, authority, serving, write_kit  # noqa: E402


def a_kit(folder: Path, port: int) -> Kit:
    return Kit(folder, "site", "arden", "arden", "hearts", "127.0.0.1", port)


@pytest.fixture(scope="module")
def ours() -> Authority:
    return authority()


def said(kit: Kit) -> str:
    found = knock(kit, 5.0)
    assert found is not None
    assert found.certificate == ("certificate" in found.said)
    return found.said


def test_a_server_of_the_same_project(ours: Authority, tmp_path: Path) -> None:
    folder = write_kit(tmp_path / "arden", ours, ours)
    with serving(write_kit(tmp_path / "server", ours, ours)) as port:
        assert knock(a_kit(folder, port), 5.0) is None
        check_trusted(a_kit(folder, port))


def test_certificates_that_are_not_trusted(ours: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = authority()
    monkeypatch.setattr(knocking.time, "sleep", lambda seconds: None)
    with serving(write_kit(tmp_path / "server", ours, ours)) as port:
        foreign = a_kit(write_kit(tmp_path / "foreign", other, other), port)
        assert "has a certificate that the authority of the kit" in said(foreign)
        # The authority's certificate is public, so a forger has it.
        forged = a_kit(write_kit(tmp_path / "forged", ours, other), port)
        assert "does not accept the certificate of the kit" in said(forged)
        old = a_kit(write_kit(tmp_path / "old", ours, ours, days=-1), port)
        assert "does not accept the certificate of the kit" in said(old)
        for one in (foreign, forged, old):
            with pytest.raises(ConfigError, match="certificate"):
                check_trusted(one)
    with serving(write_kit(tmp_path / "old server", ours, ours, days=-1)) as port:
        assert "has expired, by the clock of this machine" in said(a_kit(write_kit(tmp_path / "new", ours, ours), port))


def test_who_does_not_speak(ours: Authority, tmp_path: Path) -> None:
    folder = write_kit(tmp_path / "arden", ours, ours)
    with socket.create_server(("127.0.0.1", 0)) as end:  # the system takes the connection, and nobody speaks
        port = end.getsockname()[1]
        found = knock(a_kit(folder, port), 0.5)
        assert found is not None
        assert "does not answer; is it stopped" in found.said
        check_trusted(a_kit(folder, port))  # which is no matter of certificates
    assert "cannot be reached: connection refused; is `fedsolve server` running there?" in said(a_kit(folder, port))
    check_trusted(a_kit(folder, port))


def test_who_speaks_something_else(ours: Authority, tmp_path: Path) -> None:
    import threading

    folder = write_kit(tmp_path / "arden", ours, ours)

    def greet() -> None:
        plain, _ = end.accept()
        with plain:
            plain.sendall(b"220 mail.example.org ESMTP\r\n")
            plain.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as end:
        thread = threading.Thread(target=greet)
        thread.start()
        assert "does not speak TLS" in said(a_kit(folder, end.getsockname()[1]))
        thread.join()


def test_a_damaged_kit(ours: Authority, tmp_path: Path) -> None:
    folder = write_kit(tmp_path / "arden", ours, ours)
    (folder / "startup" / "client.key").write_text("-----BEGIN PRIVATE KEY-----\nMIIC\n")
    with pytest.raises(ConfigError, match=r"is damaged .*; ask for a new one"):
        knock(a_kit(folder, 1), 1.0)


def write_settings(folder: Path) -> Path:
    settings = {"servers": [{"name": "hearts", "service": {"target": "localhost:8002"}}]}
    (folder / "startup" / "fed_client.json").write_text(json.dumps(settings))
    return folder


def test_the_end_of_a_certificate(ours: Authority, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has expired, on \d{4}-\d\d-\d\d; ask for a new kit"):
        open_kit(write_settings(write_kit(tmp_path / "old", ours, ours, days=-1)), "site")
    new = open_kit(write_settings(write_kit(tmp_path / "new", ours, ours)), "site")
    assert new.name == "arden"
    assert soon_expired(new) is None
    soon = soon_expired(open_kit(write_settings(write_kit(tmp_path / "soon", ours, ours, days=10.5)), "site"))
    assert soon is not None
    assert "expires in 10 days" in soon
