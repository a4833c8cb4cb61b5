"""A job of NVFlare, as files: JSON and nothing else. What computes is installed at the sites already."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsolve.deploy import messages
from fedsolve.deploy.kit_settings import CONTROLLER, EXECUTOR

RUN_FILE = "run.json"  # for the server alone
SERVER_ROWS = "server_rows.json"  # rows of the server's own, if the run has some; for the server alone
RESULTS, OUTCOME = "fedsolve", "outcome.json"  # in the job's folder at the server, when it has ended
STOPPED, LOST = "stopped", "lost"  # outcomes: somebody stopped it; a site that is needed has gone from the job
INTERVAL = 0.02  # seconds between two requests of a site for a task; NVFlare's default of 2 s is felt in every exchange


def write_job(
    folder: Path,
    name: str,
    run: str,
    text: str,
    sites: Sequence[str],
    command: str,
    rows: Mapping[str, object] | None = None,
) -> Path:
    """Write a job, to be submitted; returns its folder.

    name  for people who list jobs
    run   the id of the run
    text  the server's half of the run file; no site gets it
    rows  those of the server's own, in plain values, if there are some; no site gets them either
    """
    job = folder / name
    server, site = job / "app_server" / "config", job / "app_site" / "config"
    for one in (server, site):
        one.mkdir(parents=True)
    _write(
        job / "meta.json",
        {
            "name": name,
            "resource_spec": {},
            "deploy_map": {"app_server": ["server"], "app_site": list(sites)},
            "min_clients": 1,
            "mandatory_clients": [],
        },
    )
    _write(
        server / "config_fed_server.json",
        {
            "format_version": 2,
            "server": {"task_request_interval": INTERVAL},
            "task_data_filters": [],
            "task_result_filters": [],
            "components": [],
            "workflows": [{"id": "run", "path": CONTROLLER, "args": {}}],
        },
    )
    _write(server / RUN_FILE, {"run": run, "file": text, "command": command})
    if rows is not None:
        (server / SERVER_ROWS).write_text(json.dumps(rows, allow_nan=False) + "\n")
    _write(
        site / "config_fed_client.json",
        {
            "format_version": 2,
            "executors": [{"tasks": [messages.TASK], "executor": {"path": EXECUTOR, "args": {}}}],
            "task_data_filters": [],
            "task_result_filters": [],
            "components": [],
        },
    )
    return job


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
