"""A platform where everything that the arguments of :mod:`tests.rules.arguments` name is there."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.extras_double import MOMENT, ExtrasDouble
from tests.job_double import JobDouble, ToldJob
from tests.rules.arguments import JOB, SANDBOX

__all__ = ["Everything"]


class Everything(JobDouble, ExtrasDouble):
    """Sandbox, job, checkpoint, network, port, session, volume and build, one each."""

    def routes(self) -> list[web.RouteDef]:
        # Commands and files are those of a machine: only the jobs are told.
        return [*JobDouble.routes(self)[:1], *ExtrasDouble.routes(self)]

    def fill(self) -> None:
        """Let there be one of each."""
        box = {"id": SANDBOX, "name": "n", "vm": True, "status": "RUNNING", "labels": []}
        self.sandboxes[SANDBOX] = {**box, "cpuCores": 1, "memoryGB": 1, "timeoutMinutes": 60}
        self.jobs[SANDBOX, JOB.job_id] = ToldJob(JOB, 0)
        checkpoint: dict[str, Any] = {"id": "ckpt-1", "sandbox_id": SANDBOX, "state": "DURABLE"}
        times = {"created_at": MOMENT, "updated_at": MOMENT}
        self.checkpoints["ckpt-1"] = {**checkpoint, **times, "depth": 0, "looks": 0}
        network = {"id": "net-1", "name": "net", "team_id": None, "rules": [], "version": 1}
        member = {"sandbox_id": SANDBOX, "tags": [], "synced": True, "looks": 0}
        self.networks["net-1"] = {**network, **times, "synced": True, "members": [member]}
        self.exposures["exp-1"] = {"exposure_id": "exp-1", "sandbox_id": SANDBOX, "port": 1}
        self.sessions["ssh-1"] = {"session_id": "ssh-1", "sandbox_id": SANDBOX}
        build: dict[str, Any] = {"asked": {}, "left": ["COMPLETED"]}
        self.builds["build-1"] = {**build, "status": "BUILDING"}
        self.builds["build-2"] = {**build, "status": "UPLOADING"}
        volume = {"id": "vol-1", "name": "n", "team_id": None, "head_checkpoint_id": None}
        self.volumes["n"] = {**volume, "created_at": MOMENT}
