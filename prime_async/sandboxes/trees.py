"""Whole folders, up and down: streamed as tar, by the gateway or with `tar` in the sandbox."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread

from prime_async import ids
from prime_async.errors import APIError, APITimeoutError, DownloadTimeoutError, PrimeError
from prime_async.localfiles import windows_of
from prime_async.sandboxes.downloads import raise_file_error
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.listing import run_tool
from prime_async.sandboxes.multipart import RawBody
from prime_async.sandboxes.pace import STILL_SECONDS, Pace
from prime_async.sandboxes.packing import pack, unpack
from prime_async.sandboxes.treerules import TreeTransfer
from prime_async.sandboxes.uploads import Upload
from prime_async.transport import Replay, Response

__all__ = ["FILE_TREES", "download_tree", "upload_tree"]

_CLEANUP_SECONDS = 10.0

FILE_TREES = "file-trees"

_TAR = "application/x-tar"


async def upload_tree(
    gateway: Gateway, sandbox_id: str, root: Path, path: str, pace: Pace
) -> TreeTransfer:
    """Send a folder's content below a path of the sandbox."""
    if not await anyio.to_thread.run_sync(root.is_dir):
        raise NotADirectoryError(f"{os.fspath(root)!r} is not a folder")
    made = TreeTransfer()

    async def source(offset: int) -> AsyncGenerator[bytes, None]:
        assert offset == 0
        made.reset()  # another try counts anew
        async with aclosing(pack(root, made)) as pieces:
            async for piece in pieces:
                yield piece

    if await gateway.has(FILE_TREES):
        await _TreeUpload(gateway, sandbox_id, path, source, None, pace).run()
        return made
    archive = f"/tmp/.{ids.new_id('tree')}.tar"  # noqa: S108 - in the sandbox, under a name nobody knows
    place, packed = shlex.quote(_unmistakable(path)), shlex.quote(archive)
    try:
        await Upload(gateway, sandbox_id, archive, source, None, pace).run()
        command = f"mkdir -p {place} && tar -xpf {packed} -C {place} --no-same-owner"
        answer = await run_tool(gateway, sandbox_id, command)
    finally:
        await _remove(gateway, sandbox_id, packed)
    if answer.exit_code:
        raise APIError(f"the folder could not be unpacked at {path!r}: {answer.stderr.strip()}")
    return made


class _TreeUpload(Upload):
    """The upload of a tar that the gateway unpacks."""

    async def _send(self) -> Response:
        return await self._gateway.call(self._sandbox_id, self._whole)

    async def _whole(self, link: Link) -> Response:
        body = RawBody(None, lambda: self._pieces(0))
        body.content_type = _TAR
        return await link.transport.request(
            "PUT",
            f"{link.path}/tree",
            params=self._names(),
            body=body,
            headers=link.headers,
            timeout=self._pace.left(),
            replay=Replay.SAFE,
        )


async def download_tree(
    gateway: Gateway, sandbox_id: str, path: str, root: Path, pace: Pace
) -> TreeTransfer:
    """Read a folder's content into a folder of this machine."""
    made = TreeTransfer()
    try:
        with pace.scope:
            if await gateway.has(FILE_TREES):
                await _read(gateway, sandbox_id, path, "tree", root, pace, made)
            else:
                await _read_packed(gateway, sandbox_id, path, root, pace, made)
    except APITimeoutError as error:
        raise DownloadTimeoutError(sandbox_id, path, pace.seconds, hint=str(error)) from error
    except APIError as error:
        raise_file_error(error, path)
    if pace.failure is not None:
        raise pace.failure
    if pace.over:
        raise DownloadTimeoutError(sandbox_id, path, pace.seconds, hint=pace.why)
    return made


async def _read_packed(
    gateway: Gateway, sandbox_id: str, path: str, root: Path, pace: Pace, made: TreeTransfer
) -> None:
    archive = f"/tmp/.{ids.new_id('tree')}.tar"  # noqa: S108 - in the sandbox, under a name nobody knows
    packed = shlex.quote(archive)
    command = f"tar -cf {packed} --format=pax -C {shlex.quote(_unmistakable(path))} ."
    try:
        answer = await run_tool(gateway, sandbox_id, command)
        if answer.exit_code:
            raise APIError(f"the folder {path!r} could not be packed: {answer.stderr.strip()}")
        await pace.moved(0)
        await _read(gateway, sandbox_id, archive, "download", root, pace, made)
    finally:
        await _remove(gateway, sandbox_id, packed)


async def _read(
    gateway: Gateway,
    sandbox_id: str,
    path: str,
    endpoint: str,
    root: Path,
    pace: Pace,
    made: TreeTransfer,
) -> None:
    async def send(link: Link) -> None:
        async with link.transport.stream(
            "GET",
            f"{link.path}/{endpoint}",
            params={"path": path, "sandbox_id": sandbox_id},
            headers={**link.headers, "Accept": "*/*"},
            idle_timeout=STILL_SECONDS,
        ) as response:

            async def pieces() -> AsyncGenerator[bytes, None]:
                done = 0
                async for window in windows_of(response.iter_bytes()):
                    done += len(window)
                    await pace.moved(done)
                    yield window

            await unpack(pieces(), root, made)

    await gateway.call(sandbox_id, send)


async def _remove(gateway: Gateway, sandbox_id: str, packed: str) -> None:
    """Remove the packed folder, whoever goes away; it lies in the sandbox's /tmp otherwise."""
    with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
        try:
            await run_tool(gateway, sandbox_id, f"rm -f {packed}")
        except PrimeError:
            return  # the sandbox is gone, and with it the file


def _unmistakable(path: str) -> str:
    """Make a path that no tool takes for an option."""
    return path if path.startswith("/") else f"./{path}"
