"""What fedsolve changes in a start-up kit of NVFlare: who may do what, which classes a job may name, what is stored
where, and who starts the processes of a job."""

from __future__ import annotations

from fedsolve.deploy.library import Json

CONTROLLER = "fedsolve.deploy.controller.RunController"
EXECUTOR = "fedsolve.deploy.executor.SiteExecutor"
LAUNCHER = "fedsolve.deploy.launcher.RelaunchingLauncher"
SERVER_LAUNCHER = "fedsolve.deploy.launcher.ServerLauncher"

# For the environment of a server's daemon. When a job's process has ended, NVFlare waits 900 s for word from each of
# its sites before it says so. A site that has gone cannot send any, and nobody could tell that the run has finished.
SERVER_ENVIRONMENT = {"NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "5"}

_NOTHING = {
    "submit_job": "none",
    "clone_job": "none",
    "manage_job": "none",
    "download_job": "none",
    "download_job_components": "none",
    "view": "any",
    "operate": "none",
    "sys_info": "any",
    "app_command": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_OWN = "n:submitter"


def authorization() -> Json:
    """The rights of each role. NVFlare lets a project_admin do anything; here nobody can send code, open a shell, or
    restart what runs at another organisation."""
    lead = {"submit_job": "any", "manage_job": _OWN, "download_job": _OWN, "app_command": _OWN}
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": _NOTHING,
            "org_admin": {**_NOTHING, "manage_job": "o:submitter", "app_command": "o:submitter"},
            "lead": {**_NOTHING, **lead},
            "member": _NOTHING,
        },
    }


def site_resources() -> Json:
    """`local/resources.json` of a site: a job can name fedsolve's executor and nothing else."""
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR],
        "allow_log_streaming": False,  # logs of a site stay there
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            {
                "id": "resource_manager",
                "path": "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
                "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
            },
            {
                "id": "resource_consumer",
                "path": "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
                "args": {},
            },
            {"id": "process_launcher", "path": LAUNCHER, "args": {}},
        ],
    }


def server_resources(jobs: str, snapshots: str) -> Json:
    """`local/resources.json` of the server: a job can name fedsolve's controller and nothing else.

    jobs, snapshots  folders of this server's own; NVFlare's default is one under /tmp for all projects
    """
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [CONTROLLER],
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": 600,
                "download_job_url": "http://download.server.com/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": storage, "args": {"root_dir": snapshots, "uri_root": "/"}},
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {
                    "max_jobs": 4,
                    "min_schedule_interval": 1.0,
                    "max_schedule_interval": 4.0,
                    "max_schedule_count": 1000,
                },
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": jobs, "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": storage},
            {"id": "process_launcher", "path": SERVER_LAUNCHER, "args": {}},
        ],
    }
