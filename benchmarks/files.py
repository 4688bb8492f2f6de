"""Files into sandboxes and out of them: ours, the official async client, and bare aiohttp.

All talk to the embedded platform, which stores the file in a real sandbox: the times hold its work
too. The floor posts a form that aiohttp streams, and reads windows into an open file: no checks, no
deadline, no resuming.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.platform import Boxes, become_official

__all__ = ["reach", "run"]

SIZE = 256 << 20
_WINDOW = 1 << 20
_ROUNDS = 3
_THERE = "/app/bench.bin"


def run() -> dict[str, Any]:
    """Measure 256 MiB each way."""
    with tempfile.TemporaryDirectory() as folder, Boxes.start(1) as boxes:
        source = Path(folder) / "source"
        digest = _make(source)
        told = {**boxes.arguments, "local": str(source)}
        cases = {"upload_256": _race("upload", told)}
        told = {**boxes.arguments, "local": str(Path(folder) / "target"), "digest": digest}
        cases["download_256"] = _race("download", told)
    return {"name": "files", "cases": cases}


def _make(path: Path) -> str:
    """Write a file that does not compress; return its SHA-256."""
    digest = hashlib.sha256()
    block = hashlib.shake_256(b"bench").digest(_WINDOW)
    with path.open("wb") as file:
        for number in range(SIZE // _WINDOW):
            window = number.to_bytes(8, "big") + block[8:]
            digest.update(window)
            file.write(window)
    return digest.hexdigest()


def _race(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    contenders = [
        Contender(role, f"benchmarks.files:{kind}_{role}", arguments)
        for role in ("ours", "peer", "floor")
    ]
    raced = race(contenders, rounds=_ROUNDS)
    speed = {f"{role}_mib_s": SIZE / 2**20 / figures["wall_s"] for role, figures in raced.items()}
    return case(raced, speed)


async def upload_ours(url: str, key: str, ids: list[str], local: str) -> Figures:
    """Contender: ours."""
    from prime_async.sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient(api_key=key, base_url=url) as client:
        await client.execute_command(ids[0], "true")
        return await measured(lambda: client.upload_file(ids[0], _THERE, local))


async def download_ours(url: str, key: str, ids: list[str], local: str, digest: str) -> Figures:
    """Contender: ours."""
    from prime_async.sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient(api_key=key, base_url=url) as client:
        await client.execute_command(ids[0], "true")
        figures = await measured(lambda: client.download_file(ids[0], _THERE, local))
    return _checked(figures, local, digest)


async def upload_peer(url: str, key: str, ids: list[str], local: str) -> Figures:
    """Contender: the official async client."""
    become_official(url, key)
    from prime_sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient() as client:
        await client.execute_command(ids[0], "true")
        return await measured(lambda: client.upload_file(ids[0], _THERE, local, timeout=600))


async def download_peer(url: str, key: str, ids: list[str], local: str, digest: str) -> Figures:
    """Contender: the official async client."""
    become_official(url, key)
    from prime_sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient() as client:
        await client.execute_command(ids[0], "true")
        figures = await measured(lambda: client.download_file(ids[0], _THERE, local, timeout=600))
    return _checked(figures, local, digest)


async def upload_floor(url: str, key: str, ids: list[str], local: str) -> Figures:
    """Contender: a form of aiohttp's, with the open file in it."""

    async def work() -> None:
        form = aiohttp.FormData()
        form.add_field("file", file, filename="bench.bin")
        where = f"{base}/upload"
        async with session.post(where, params={"path": _THERE}, data=form) as response:
            response.raise_for_status()

    async with aiohttp.ClientSession() as session:
        base = await reach(session, url, key, ids[0])
        with open(local, "rb") as file:  # noqa: PTH123 - the floor
            return await measured(work)


async def download_floor(url: str, key: str, ids: list[str], local: str, digest: str) -> Figures:
    """Contender: windows of aiohttp's into an open file."""

    async def work() -> None:
        where = f"{base}/download"
        async with session.get(where, params={"path": _THERE}) as response:
            with open(local, "wb") as file:  # noqa: PTH123 - the floor
                async for window in response.content.iter_chunked(_WINDOW):
                    await asyncio.to_thread(file.write, window)

    async with aiohttp.ClientSession() as session:
        base = await reach(session, url, key, ids[0])
        figures = await measured(work)
    return _checked(figures, local, digest)


async def reach(session: aiohttp.ClientSession, url: str, key: str, sandbox_id: str) -> str:
    """Return the sandbox's address, the session having its token."""
    where = f"{url}/api/v1/sandbox/{sandbox_id}/auth"
    async with session.post(where, headers={"Authorization": f"Bearer {key}"}) as response:
        access = await response.json()
    session.headers["Authorization"] = f"Bearer {access['token']}"
    return f"{access['gateway_url']}/{access['user_ns']}/{access['job_id']}"


def _checked(figures: Figures, local: str, digest: str) -> Figures:
    """Refuse figures of a download that is not what was uploaded."""
    with open(local, "rb") as file:  # noqa: PTH123 - beside the open() above
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise RuntimeError("the download differs from what was uploaded")
    return figures
