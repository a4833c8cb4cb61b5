"""Held-out rows, standard errors and intercepts of sites, between organisations as in one process; and who gets in."""

from __future__ import annotations

import json
import socket
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.report import summarise
from tests.deploy.federation import Federation, federation, fedsolve, model_of
from tests.extras import optional
from tests.sites.hospitals import COLUMNS, LOSS, NAMES, PREPROCESS, rows

optional("nvflare")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    counts = (240, 320, 200, 280)  # enough that the policy's share of cells lets the sums of standard errors leave
    with federation(tmp_path_factory.mktemp("federation"), counts=counts) as found:
        yield found


def test_held_out_rows_standard_errors_and_intercepts_of_sites(running: Federation) -> None:
    run = running.write_run(
        "judged",
        {"name": "Newton"},
        preprocess={"schema": COLUMNS, "site_intercepts": "bryn"},
        evaluation={"hold_out": 0.25, "seed": 3, "least": 5},
        summary={"errors": "robust"},
    )
    said = running.submit(run)
    assert said["exit"] == 0, said
    clients, preprocess = fs.data.site_intercepts(running.hospitals.clients, PREPROCESS, reference="bryn")
    judged = fs.data.hold_out(clients, 0.25, 3)
    here = fs.run(fs.Newton(LOSS), judged, preprocess=preprocess, evaluation=fs.Evaluation(LOSS, least=5))
    assert np.array_equal(model_of(running, run).w, here.model.w)
    assert "site=arden" in model_of(running, run).feature_names
    there = json.loads((running.output(run) / "summary.json").read_text())
    assert here.evaluation is not None
    assert there["inference"]["status"] == "ok", there["inference"]
    expected = [one.error for one in here.summary(errors="robust").coefficients()]
    assert [one["error"] for one in there["inference"]["coefficients"]] == expected
    assert there["held_out"] == json.loads(json.dumps(summarise(here, "Newton")["held_out"]))


def test_rows_of_the_servers_own(running: Federation) -> None:
    """They travel with the job, and lie at the server's machine in its part alone."""
    public = running.folder / "public.csv"
    public.write_text("\n".join(rows("public", 8, 3)) + "\n")
    run = running.write_run("probed", {"name": "FedLRGD"}, server={"file": "public.csv", "classes": ["no", "yes"]})
    said = running.submit(run)
    assert (said["exit"], said["status"]) == (0, "converged"), said
    own = fs.data.load_sites({"server": public}, target="ill", classes=["no", "yes"], schema=PREPROCESS.schema)
    server = own.clients[0]
    here = fs.run(fs.FedLRGD(LOSS), running.hospitals.clients, preprocess=PREPROCESS, server=server)
    assert np.array_equal(model_of(running, run).w, here.model.w)
    for name in NAMES:
        assert not list(running.kit(name).rglob("server_rows.json"))


def answered(port: int, kit: Path | None, authority: Path) -> bool:
    """Whether the server speaks to somebody who comes with a kit's certificate, or with none."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if kit is not None:
        context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as plain, context.wrap_socket(plain) as end:
            return bool(end.recv(1))  # the first bytes of HTTP/2, or the refusal of a certificate
    except (ssl.SSLError, ConnectionError):
        return False


def test_the_server_speaks_only_to_certificates_of_its_project(running: Federation, tmp_path: Path) -> None:
    """The last one knows the authority of the project, which is public, and has the name of one of its sites."""
    project = tmp_path / "project.toml"
    project.write_text((running.folder / "project.toml").read_text())
    assert fedsolve("provision", project, "--output", tmp_path / "kits").returncode == 0
    port = tomllib.loads(project.read_text())["server"]["port"]
    authority = running.kit("arden") / "startup" / "rootCA.pem"
    assert answered(port, running.kit("arden"), authority)
    assert not answered(port, None, authority)
    assert not answered(port, tmp_path / "kits" / "arden", authority)
