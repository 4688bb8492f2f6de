"""A double of a platform with jobs by the thousand: they exist by being told so, no command runs.

    async with JobDouble(tmp_path) as double:
        job = double.job("sbx0", stdout=b"hello", code=0)

Its batch request and the windows of outputs are those of the wire; what is asked for at a time is
counted. A command that looks at jobs is answered for them, and counted in ``probes``. Everything
else is :class:`~tests.sandbox_double.SandboxDouble`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from prime_async import BackgroundJob
from prime_async.sandboxes.wire import Ended, Output, Started
from tests.command_double import Running
from tests.sandbox_double import SandboxDouble

__all__ = ["JobDouble", "ToldJob"]

_PROBE = re.compile(r"for i in ([0-9a-f ]+); do look; done\n$")


@dataclass(slots=True)
class ToldJob:
    """One job.

    Attributes:
        code: its exit code once it has ended.
        error: the code of what is wrong with it.
        files: what it wrote, by path.
    """

    handle: BackgroundJob
    code: int | None
    error: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)


class JobDouble(SandboxDouble):
    """The double.

    Attributes:
        jobs: by sandbox and id.
        batches: the jobs of each batch request.
        batch_refusals: how many batch requests are answered with 404.
        batch_fault: status that batch requests are answered with, or None.
        slow_jobs: jobs whose batches wait for ``gate``.
        reads: windows asked for: path, offset, length.
        reading_most, jobs_reading_most: windows, and jobs, that were read at a time, at most.
        read_gate: windows wait for it.
        read_faults: path to the status its windows are answered with.
        windows: whether windows are known, or files given whole.
        probes: the jobs of each command that looks at some.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.jobs: dict[tuple[str, str], ToldJob] = {}
        self.batches: list[list[tuple[str, str]]] = []
        self.batch_refusals = 0
        self.batch_fault: int | None = None
        self.slow_jobs: set[tuple[str, str]] = set()
        self.gate = asyncio.Event()
        self.read_gate = asyncio.Event()
        self.read_gate.set()
        self.reads: list[tuple[str, int, int]] = []
        self.reading: list[str] = []
        self.reading_most = 0
        self.jobs_reading_most = 0
        self.read_delay = 0.0
        self.read_faults: dict[str, int] = {}
        self.windows = True
        self.probes: list[list[str]] = []
        self._ids = itertools.count(1)

    def job(
        self,
        sandbox_id: str = "sbx0",
        *,
        code: int | None = None,
        stdout: bytes = b"",
        stderr: bytes = b"",
        error: str | None = None,
        vm: bool = True,
    ) -> BackgroundJob:
        """Let there be a job, and a sandbox for it where there is none."""
        self.sandboxes.setdefault(sandbox_id, {"id": sandbox_id, "vm": vm, "status": "RUNNING"})
        handle = BackgroundJob.of(sandbox_id, f"{next(self._ids):08x}")
        files = {handle.stdout_log_file: stdout, handle.stderr_log_file: stderr}
        self.jobs[sandbox_id, handle.job_id] = ToldJob(handle, code, error, files)
        return handle

    def finish(self, job: BackgroundJob, code: int = 0) -> None:
        """Let a job end."""
        self.jobs[job.sandbox_id, job.job_id].code = code

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/v1/sandbox/background-jobs/status:batchGet", self._batch_jobs),
            web.get("/gw/{ns}/{job}/read-file", self._window),
            web.get("/gw/{ns}/{job}/download", self._whole),
        ]

    async def _batch_jobs(self, request: web.Request) -> web.Response:
        wanted = [(one["sandbox_id"], one["job_id"]) for one in (await request.json())["jobs"]]
        assert 0 < len(wanted) <= 100
        assert len(set(wanted)) == len(wanted)
        self.batches.append(wanted)
        if self.batch_refusals:
            self.batch_refusals -= 1
            raise web.HTTPNotFound(text="{}")
        if self.batch_fault is not None:
            return web.json_response({"detail": "not now"}, status=self.batch_fault)
        if self.slow_jobs & set(wanted):
            await self.gate.wait()
        statuses, errors = [], []
        for sandbox_id, job_id in wanted:
            told = self._told(sandbox_id, job_id)
            names = {"sandbox_id": sandbox_id, "job_id": job_id}
            if isinstance(told, str):
                errors.append({**names, "code": told, "message": "as told"})
            else:
                ended = told.code is not None
                statuses.append({**names, "completed": ended, "exit_code": told.code})
        text = json.dumps({"statuses": statuses, "errors": errors})
        return web.Response(text=text, content_type="application/json")

    async def _launch(self, running: Running) -> None:
        asked = _PROBE.search(running.request.command.args[-1])
        if asked is None:
            await super()._launch(running)
            return
        running.put(Started(1))
        running.put(Output("stdout", self._probed(asked[1].split()).encode()))
        running.put(Ended(0, True, "exit status 0"))

    async def _exec(self, request: web.Request) -> web.Response:
        asked = _PROBE.search((await request.json())["command"])
        if asked is None:
            return await super()._exec(request)
        answer = {"stdout": self._probed(asked[1].split()), "stderr": "", "exit_code": 0}
        return web.json_response(answer)

    def _probed(self, job_ids: list[str]) -> str:
        self.probes.append(job_ids)
        told = {key[1]: one for key, one in self.jobs.items()}
        lines = []
        for job_id in job_ids:
            one = told.get(job_id)
            code = "running" if one is None or one.code is None else str(one.code)
            lines.append(f"{job_id} {'unknown' if one is None else code}")
        return "".join(f"{line}\n" for line in lines)

    def _told(self, sandbox_id: str, job_id: str) -> ToldJob | str:
        box = self.sandboxes.get(sandbox_id)
        if box is None:
            return "NOT_FOUND"
        if not box["vm"]:
            return "NOT_VM"
        if box["status"] != "RUNNING":
            return "NOT_RUNNING"
        told = self.jobs.get((sandbox_id, job_id))
        return "RUNTIME_ERROR" if told is None else told.error or told

    async def _window(self, request: web.Request) -> web.StreamResponse:
        path = request.query["path"]
        offset, length = int(request.query["offset"]), int(request.query["length"])
        box = self.sandboxes[request.match_info["job"]]
        if box["status"] != "RUNNING":
            return web.json_response({"error": "sandbox_terminated"}, status=410)
        if path in self.read_faults:
            return web.json_response({"detail": "as told"}, status=self.read_faults[path])
        self.reads.append((path, offset, length))
        self.reading.append(path)
        self.reading_most = max(self.reading_most, len(self.reading))
        jobs = {name.split(".")[0] for name in self.reading}
        self.jobs_reading_most = max(self.jobs_reading_most, len(jobs))
        try:
            await self.read_gate.wait()
            await asyncio.sleep(self.read_delay)
        finally:
            self.reading.remove(path)
        data = self._file(box["id"], path)
        if data is None:
            raise web.HTTPNotFound(text='{"detail": "no such file"}')
        return self._answer(data, offset, length)

    async def _whole(self, request: web.Request) -> web.StreamResponse:
        data = self._file(request.match_info["job"], request.query["path"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    def _file(self, sandbox_id: str, path: str) -> bytes | None:
        found = (told.files for key, told in self.jobs.items() if key[0] == sandbox_id)
        return next((files[path] for files in found if path in files), None)

    def _answer(self, data: bytes, offset: int, length: int) -> web.Response:
        wire: dict[str, Any]
        if not self.windows:
            wire = {"content": data.decode("utf-8", "replace"), "size": len(data)}
        else:
            start = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
            part = data[start : start + length]
            wire = {
                "content": part.decode("utf-8", "replace"),
                "size": len(part),
                "total_size": len(data),
                "offset": start,
                "truncated": start + len(part) < len(data),
            }
        return web.Response(
            text=json.dumps(wire, ensure_ascii=False), content_type="application/json"
        )
