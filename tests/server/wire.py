"""Speaks HTTP to a platform with a bare aiohttp session: no client of ours is in between."""

from __future__ import annotations

import io
import json as stdlib_json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.platform import KEY


@dataclass(frozen=True)
class Reply:
    """Status, headers and body of an answer."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return stdlib_json.loads(self.body)

    @property
    def code(self) -> str:
        """The machine-readable code of an error answer."""
        code: str = self.json["error"]["code"]
        return code


class Wire:
    """A session with a key; paths are below ``/api/v1`` unless they begin with ``//``."""

    def __init__(self, url: str, key: str | None = KEY, unix_socket: str | None = None) -> None:
        connector = aiohttp.UnixConnector(unix_socket) if unix_socket else aiohttp.TCPConnector()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._url = url
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, **options: Any) -> Reply:
        """Send a request; ``raw=`` is a body of bytes sent as JSON."""
        raw, json = options.pop("raw", None), options.pop("json", None)
        if json is not None:
            raw = stdlib_json.dumps(json).encode()
        if raw is not None:
            # aiohttp warns about large bodies of plain bytes, and warnings are errors here.
            options["data"] = io.BytesIO(raw)
            options["headers"] = {
                "Content-Type": "application/json",
                **options.get("headers", {}),
            }
        url = self._url + (path[1:] if path.startswith("//") else f"/api/v1{path}")
        async with self._session.request(method, url, **options) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Reply:
        return await self.send("GET", path, **options)

    async def post(self, path: str, json: Any = None, **options: Any) -> Reply:
        if json is not None:
            options["json"] = json
        return await self.send("POST", path, **options)

    async def put(self, path: str, json: Any, **options: Any) -> Reply:
        return await self.send("PUT", path, json=json, **options)

    async def delete(self, path: str) -> Reply:
        return await self.send("DELETE", path)

    async def environment(self, name: str = "gsm8k", **fields: Any) -> str:
        """Get or make an environment and return its id."""
        reply = await self.post("/environmentshub/resolve", {"name": name, **fields})
        assert reply.status == 200, reply
        found: str = reply.json["data"]["id"]
        return found

    async def evaluation(self, **fields: Any) -> str:
        """Make an evaluation and return its id."""
        body = {"name": "test", "run_id": "run-1", "tags": [], **fields}
        reply = await self.post("/evaluations/", body)
        assert reply.status == 200, reply
        made: str = reply.json["evaluation_id"]
        return made

    async def push(
        self, evaluation: str, samples: list[Any], push: str | None = None, span: str | None = None
    ) -> Reply:
        """Push samples, as part of a push when one is named."""
        headers = {}
        if push is not None:
            headers = {"X-Prime-Push": push, "X-Prime-Range": span or f"0-{len(samples)}"}
        return await self.post(
            f"/evaluations/{evaluation}/samples", {"samples": samples}, headers=headers
        )

    async def samples(self, evaluation: str, limit: int = 100) -> list[Any]:
        """Read all samples, page by page."""
        found: list[Any] = []
        page = 1
        while True:
            reply = await self.get(
                f"/evaluations/{evaluation}/samples", params={"page": page, "limit": limit}
            )
            assert reply.status == 200, reply
            found += reply.json["samples"]
            if not reply.json["hasMore"]:
                assert reply.json["total"] == len(found)
                return found
            page += 1
