"""A double of control plane and gateway over real sockets: faithful where the client looks, and
broken as told.

    async with SandboxDouble(tmp_path) as double:
        client = AsyncSandboxClient(api_key="k", base_url=double.url)

Commands run for real, as processes of this machine in sessions of their own, unless
``double.plays`` has a play for the exact command: an async generator of events, failures or raw
bytes. Paths of files are paths of this machine, below the test's folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.command_double import CommandDouble, Running, abort

__all__ = ["Fault", "Running", "SandboxDouble", "Seen"]


@dataclass(slots=True)
class Seen:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    json: Any
    time: float


@dataclass(slots=True)
class Fault:
    """What to do with matching requests, so many times: answer, or cut before or after the work.

    Attributes:
        after: "answer" in place of the work; "reset" or "silence" once it is done; "cut" before.
    """

    method: str
    path: str
    status: int = 503
    json: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    does: str = "answer"
    times: int = 1


class SandboxDouble(CommandDouble):
    """The double.

    Attributes:
        seen: every request.
        sandboxes: the records by id.
        live_most: the most that lived at a time.
        features: what ``X-Prime-Features`` says.
        token_seconds: how long a token lives.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seen: list[Seen] = []
        self.live_most = 0
        self.features: set[str] = set()
        self.token_seconds = 1800.0
        self.tokens: dict[str, str] = {}
        self.refused_tokens: set[str] = set()
        self.gateway_auth = False
        self.batch = True
        self.pending_looks = 0
        self.containers = False
        self.ranges = False
        self.download_cut: int | None = None
        self.upload_limit: int | None = None
        self.parts: dict[str, bytearray] = {}
        self.faults: list[Fault] = []
        self.contexts: dict[str, dict[str, Any]] = {}
        self.delete_delay = 0.0
        self.upload_pause = 0.0
        self._keys: dict[str, str] = {}
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def live(self) -> list[str]:
        """Ids of the sandboxes that live."""
        return [name for name, box in self.sandboxes.items() if box["status"] == "RUNNING"]

    def requests(self, method: str, path: str) -> list[Seen]:
        """Requests of one kind; ``path`` is a pattern for its end."""
        return [
            seen
            for seen in self.seen
            if seen.method == method and re.search(f"{path}$", seen.path) is not None
        ]

    def fault(self, method: str, path: str, **what: Any) -> None:
        """Break the next matching requests."""
        self.faults.append(Fault(method, path, **what))

    def end(self, sandbox_id: str, status: str = "TERMINATED", **context: Any) -> None:
        """Let a sandbox end by itself."""
        self.sandboxes[sandbox_id]["status"] = status
        self.contexts[sandbox_id] = {"status": status, **context}

    def routes(self) -> list[web.RouteDef]:
        """Routes of a double that can more; they are looked at first."""
        return []

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._middleware], client_max_size=2**30)
        api, gateway = "/api/v1/sandbox", "/gw/{ns}/{job}"
        rpc = f"{gateway}/command_session.CommandSession"
        app.add_routes(self.routes())
        app.add_routes(
            [
                web.post(api, self._create),
                web.get(api, self._list),
                web.delete(api, self._bulk_delete),
                web.post(f"{api}/status:batchGet", self._batch),
                web.get(f"{api}/{{id}}", self._get),
                web.delete(f"{api}/{{id}}", self._delete),
                web.post(f"{api}/{{id}}/auth", self._auth),
                web.post(f"{api}/{{id}}/lease", self._lease),
                web.get(f"{api}/{{id}}/logs", self._logs),
                web.get(f"{api}/{{id}}/error-context", self._context),
                web.post(f"{gateway}/upload", self._upload),
                web.put(f"{gateway}/uploads/{{upload}}", self._part),
                web.get(f"{gateway}/uploads/{{upload}}", self._parts),
                web.get(f"{gateway}/download", self._download),
                web.get(f"{gateway}/read-file", self._read),
                web.post(f"{gateway}/exec", self._exec),
                web.post(f"{rpc}/Start", self._start),
                web.post(f"{rpc}/Connect", self._connect),
                web.post(f"{rpc}/SendInput", self._input),
                web.post(f"{rpc}/SendSignal", self._signal),
                web.post(f"{rpc}/CloseStdin", self._close_stdin),
                web.post(f"{rpc}/Update", self._update),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_commands()
        assert self._runner is not None
        await self._runner.cleanup()

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        body = None
        if request.content_type == "application/json" and request.can_read_body:
            body = await request.json()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                body,
                time.monotonic(),
            )
        )
        fault = self._fault_for(request)
        if fault is not None and fault.delay:
            await asyncio.sleep(fault.delay)
        if fault is not None and fault.does == "cut":
            abort(request)
        if fault is not None and fault.does == "answer":
            return self.announced(
                web.json_response(fault.json or {}, status=fault.status, headers=fault.headers)
            )
        if request.path.startswith("/gw/") and not self._allowed(request):
            return web.json_response({"code": "unauthenticated", "message": "token"}, status=401)
        response = await handler(request)
        if fault is not None and fault.does == "reset":
            abort(request)
        if fault is not None and fault.does == "silence":
            await asyncio.sleep(3600)
        return self.announced(response)

    def announced(self, response: web.StreamResponse) -> web.StreamResponse:
        if self.features and not response.prepared:
            response.headers["X-Prime-Features"] = ", ".join(sorted(self.features))
        return response

    def _fault_for(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.method == request.method and re.search(f"{fault.path}$", request.path):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None

    def _allowed(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        issued = self.tokens.get(token)
        return issued == request.match_info["job"] and token not in self.refused_tokens

    # The control plane.

    async def _create(self, request: web.Request) -> web.Response:
        wire = await request.json()
        key = wire.get("idempotency_key")
        if key in self._keys:
            return web.json_response(self.sandboxes[self._keys[key]])
        sandbox_id = f"sbx{len(self.sandboxes)}"
        record = {
            "id": sandbox_id,
            "name": wire["name"],
            "dockerImage": wire.get("docker_image"),
            "cpuCores": wire["cpu_cores"],
            "memoryGB": wire["memory_gb"],
            "diskSizeGB": wire.get("disk_size_gb"),
            "vm": wire.get("vm", True) and not self.containers,
            "status": "PENDING" if self.pending_looks else "RUNNING",
            "labels": wire.get("labels", []),
            "timeoutMinutes": wire["timeout_minutes"],
            "looks": self.pending_looks,
        }
        if self.gateway_auth:
            record["gatewayAuth"] = self._access(sandbox_id)
        self.sandboxes[sandbox_id] = record
        self._keys[key] = sandbox_id
        self.live_most = max(self.live_most, len(self.live))
        return web.json_response(record)

    async def _list(self, request: web.Request) -> web.Response:
        labels = request.query.getall("labels", [])
        found = [
            box
            for box in self.sandboxes.values()
            if all(label in box["labels"] for label in labels)
        ]
        page, per_page = int(request.query["page"]), int(request.query["per_page"])
        start = (page - 1) * per_page
        return web.json_response(
            {
                "sandboxes": found[start : start + per_page],
                "total": len(found),
                "page": page,
                "perPage": per_page,
                "hasNext": start + per_page < len(found),
            }
        )

    def _find(self, request: web.Request) -> dict[str, Any]:
        box = self.sandboxes.get(request.match_info["id"])
        if box is None:
            raise web.HTTPNotFound(text='{"detail": "no such sandbox"}')
        return box

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._look(self._find(request)))

    def _look(self, box: dict[str, Any]) -> dict[str, Any]:
        if box["status"] == "PENDING":
            box["looks"] -= 1
            if box["looks"] <= 0:
                box["status"] = "RUNNING"
        return box

    async def _delete(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delete_delay)
        box = self._find(request)
        if box["status"] == "TERMINATED":
            raise web.HTTPNotFound(text='{"detail": "gone"}')
        box["status"] = "TERMINATED"
        return web.json_response({"message": "deleted"})

    async def _bulk_delete(self, request: web.Request) -> web.Response:
        wire = await request.json()
        wanted = wire.get("sandbox_ids") or [
            name
            for name, box in self.sandboxes.items()
            if set(wire.get("labels") or ()) <= set(box["labels"])
        ]
        known = [name for name in wanted if name in self.sandboxes]
        for name in known:
            self.sandboxes[name]["status"] = "TERMINATED"
        failed = [{name: "not found"} for name in wanted if name not in known]
        return web.json_response({"succeeded": known, "failed": failed, "message": "done"})

    async def _batch(self, request: web.Request) -> web.Response:
        if not self.batch:
            raise web.HTTPMethodNotAllowed("POST", [])
        statuses, errors = [], []
        for name in (await request.json())["sandbox_ids"]:
            box = self.sandboxes.get(name)
            if box is None:
                errors.append({"sandbox_id": name, "code": "NOT_FOUND", "message": "none"})
                continue
            context = self.contexts.get(name, {})
            statuses.append(
                {
                    "sandbox_id": name,
                    "status": self._look(box)["status"],
                    "error_type": context.get("errorType"),
                    "error_message": context.get("errorMessage"),
                }
            )
        return web.json_response({"statuses": statuses, "errors": errors})

    async def _auth(self, request: web.Request) -> web.Response:
        return web.json_response(self._access(self._find(request)["id"]))

    def _access(self, sandbox_id: str) -> dict[str, Any]:
        token = f"token-{uuid.uuid4().hex}"
        self.tokens[token] = sandbox_id
        ends = datetime.now(UTC) + timedelta(seconds=self.token_seconds)
        asyncio.get_running_loop().call_later(self.token_seconds, self.refused_tokens.add, token)
        return {
            "gateway_url": f"{self.url}/gw",
            "user_ns": "ns",
            "job_id": sandbox_id,
            "token": token,
            "expires_at": ends.isoformat().replace("+00:00", "Z"),
        }

    async def _lease(self, request: web.Request) -> web.Response:
        self._find(request)
        return web.json_response({"expires_at": "2030-01-01T00:00:00Z"})

    async def _logs(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": f"logs of {self._find(request)['id']}"})

    async def _context(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        status = self.sandboxes.get(name, {}).get("status")
        return web.json_response(self.contexts.get(name, {"status": status}))

    # Files.

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        path, size, digest = Path(request.query["path"]), 0, hashlib.sha256()
        part = await (await request.multipart()).next()
        assert part is not None
        assert not isinstance(part, type(None))
        with path.open("wb") as file:
            while piece := await part.read_chunk(2**16):  # type: ignore[union-attr]
                size += len(piece)
                digest.update(piece)
                await asyncio.sleep(self.upload_pause)
                file.write(piece)
        return web.json_response(self._uploaded(request, path, size, digest.hexdigest()))

    def _uploaded(self, request: web.Request, path: Path, size: int, digest: str) -> dict[str, Any]:
        answer = {"success": True, "path": str(path), "size": size, "timestamp": "now"}
        if request.query.get("digest"):
            answer["sha256"] = digest
        return answer

    async def _part(self, request: web.Request) -> web.StreamResponse:
        held = self.parts.setdefault(request.match_info["upload"], bytearray())
        if int(request.query["offset"]) != len(held):
            error = {"code": "offset_mismatch", "message": "elsewhere"}
            return web.json_response({"received": len(held), "error": error}, status=409)
        async for piece in request.content.iter_any():
            held += piece
            if self.upload_limit is not None and len(held) >= self.upload_limit:
                self.upload_limit = None
                abort(request)
        if len(held) < int(request.query["size"]):
            return web.json_response({"received": len(held)}, status=202)
        path = Path(request.query["path"])
        path.write_bytes(held)
        digest = hashlib.sha256(held).hexdigest()
        return web.json_response(self._uploaded(request, path, len(held), digest))

    async def _parts(self, request: web.Request) -> web.Response:
        held = self.parts.get(request.match_info["upload"])
        if held is None:
            raise web.HTTPNotFound(text="{}")
        return web.json_response({"received": len(held)})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        path = Path(request.query["path"])
        if not path.is_file():
            raise web.HTTPNotFound(text='{"detail": "no such file"}')
        size = path.stat().st_size
        etag = f'"{path.stat().st_mtime_ns}-{size}"'
        start, status = 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if self.ranges and asked and request.headers.get("If-Range") == etag:
            start, status = int(asked[1]), 206
        headers = {"Accept-Ranges": "bytes", "ETag": etag} if self.ranges else {}
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = size - start
        self.announced(response)
        await response.prepare(request)
        sent = 0
        with path.open("rb") as file:
            file.seek(start)
            while piece := file.read(2**16):
                await response.write(piece)
                sent += len(piece)
                if self.download_cut is not None and sent >= self.download_cut:
                    self.download_cut = None
                    abort(request)
        await response.write_eof()
        return response

    async def _read(self, request: web.Request) -> web.Response:
        path = Path(request.query["path"])
        if not path.is_file():
            raise web.HTTPNotFound(text='{"detail": "no such file"}')
        data = path.read_bytes()
        if len(data) > 10 * 2**20 and "length" not in request.query:
            raise web.HTTPRequestEntityTooLarge(10 * 2**20, len(data), text="{}")
        offset = int(request.query.get("offset", 0))
        offset = max(0, len(data) + offset) if offset < 0 else offset
        length = int(request.query.get("length", len(data)))
        window = data[offset : offset + length]
        return web.json_response(
            {
                "content": window.decode("utf-8", "replace"),
                "size": len(window),
                "total_size": len(data),
                "offset": offset,
                "truncated": offset + len(window) < len(data),
            }
        )
